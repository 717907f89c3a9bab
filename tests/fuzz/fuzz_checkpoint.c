/* fuzz_checkpoint.c - JSON texts as config.json, as the index or as the header of the weights of a
 * checkpoint, and as adapter_config.json or the header of an adapter. They are refused with a
 * reason, or written as a model that organ-check reads and that has the tensors of the source. */
#include "room.h"

#include "organ/gg_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/checkpoint", NULL };

#define DATA ((size_t)1 << 16) /* zeros behind a header */

enum { WHAT, WHICH, CHOICES };
static gg_source *base;
/* The written model is checked below, not twice. */
static const gg_run once = { .threads = 1 };

static void close_base(void)
{
    gg_source_close(base);
}

static void prepare(void)
{
    gg_error e = GG_ERROR_INIT;
    FUZZ_MUST(gg_source_open("tests/data/hf/falcon", &base, &e) == GG_OK);
    atexit(close_base);
    mkdir(room("ck"), 0700);
}

/* A safetensors file of this header, with zeros as its data. */
static void put_header(const char *name, const uint8_t *text, size_t n)
{
    uint8_t *bytes = calloc(8 + n + DATA, 1);
    FUZZ_MUST(bytes);
    for (size_t i = 0; i < 4; i++) bytes[i] = (uint8_t)(n >> 8 * i);
    memcpy(bytes + 8, text, n);
    /* The file ends where the last tensor does, as far as a text search can tell. */
    const char *at = NULL;
    for (size_t i = 0; i + 14 < n; i++)
        if (memcmp(text + i, "\"data_offsets\"", 14) == 0) at = (const char *)bytes + 8 + i;
    unsigned long long from, end = DATA;
    if (at) sscanf(at, "\"data_offsets\" : [ %llu , %llu", &from, &end);
    if (at && end == DATA) sscanf(at, "\"data_offsets\":[%llu,%llu", &from, &end);
    room_put(name, bytes, 8 + n + (end < DATA ? (size_t)end : DATA));
    free(bytes);
}

static gg_status write_model(void *ctx, const gg_run *run, const char *output, gg_error *e)
{
    gg_assemble_options o = { .output.dtype = NULL };
    gg_assemble_report r = { 0 };
    return gg_assemble(ctx, &o, output, run, &r, e);
}

static void convert(const char *path, size_t size)
{
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT;
    gg_source *s = NULL;
    gg_source_options o = { .adapter_base = base, .adapter_alpha = 16 };
    size_t count = room_count();
    if (gg_source_open_with(path, &o, &s, &e) != GG_OK) {
        FUZZ_MUST(e.what[0] && e.file[0] && !s);
        return;
    }
    gg_status st = write_model(s, &once, room("out.gguf"), &e);
    if (st == GG_OK) {
        gg_check_options check = { .data = false };
        gg_check_report r = { 0 };
        gg_source *written = room_open("out.gguf");
        room_same(s, written);
        gg_source_close(written);
        FUZZ_MUST(gg_check_model(room("out.gguf"), &check, &room_run, &r, &e2) == GG_OK);
        room_repeat(size, write_model, s);
    }
    room_settle(st, &e, "out.gguf", count);
    gg_source_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const models[] = { "falcon", "mamba2", "gptneox", "qwen35-nested",
                                          "gemma3-vlm" };
    uint8_t c[CHOICES];
    char from[100];
    if (!base) prepare();
    size_t n = room_choices(data, size, c, sizeof c);
    const char *model = models[c[WHICH] % 5];
    bool adapter = c[WHAT] % 8 >= 6;
    if (adapter) {
        snprintf(from, sizeof from, "tests/data/hf/lora-falcon/adapter_model.safetensors");
        if (c[WHAT] % 8 == 6) room_copy(from, "ck/adapter_model.safetensors");
        else put_header("ck/adapter_model.safetensors", data, n);
        if (c[WHAT] % 8 == 6) room_put("ck/adapter_config.json", data, n);
        else room_copy("tests/data/hf/lora-falcon/adapter_config.json", "ck/adapter_config.json");
    } else {
        snprintf(from, sizeof from, "tests/data/hf/%s/model.safetensors", model);
        if (c[WHAT] % 8 >= 4) put_header("ck/model.safetensors", data, n);
        else room_copy(from, "ck/model.safetensors");
        snprintf(from, sizeof from, "tests/data/hf/%s/config.json", model);
        if (c[WHAT] % 8 < 3) room_put("ck/config.json", data, n);
        else room_copy(from, "ck/config.json");
        if (c[WHAT] % 8 == 3) room_put("ck/model.safetensors.index.json", data, n);
    }
    convert(room("ck"), size);
    static const char *const files[] = { "ck/model.safetensors", "ck/config.json",
                                         "ck/model.safetensors.index.json",
                                         "ck/adapter_model.safetensors", "ck/adapter_config.json" };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (room_has(files[i])) room_remove(files[i]);
    FUZZ_MUST(room_count() == 1);
    return 0;
}

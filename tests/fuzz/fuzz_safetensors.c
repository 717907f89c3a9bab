/* fuzz_safetensors.c - any bytes as a safetensors file: alone, as the weights of checkpoints of
 * several architectures and of an adapter, and as config.json and the index of a checkpoint.
 * Refused with a reason, or every tensor can be read, whole and in parts, with the same result. */
#include "room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const fuzz_seeds[] = { "tests/data/hf/falcon/model.safetensors",
                                   "tests/data/hf/mamba2/model.safetensors",
                                   "tests/data/hf/gptneox/model.safetensors",
                                   "tests/data/hf/falcon/config.json",
                                   "tests/data/hf/lora-falcon/adapter_model.safetensors",
                                   "tests/data/hf/lora-mixtral-experts/adapter_model.safetensors",
                                   NULL };

#define MODELS 5
#define MOST ((uint64_t)1 << 20) /* bytes of a tensor that are read */

static const char *const folders[MODELS] = { "0", "1", "2", "3", "4" };
static gg_source *base;

static void close_base(void)
{
    gg_source_close(base);
}

static void read_tensor(gg_source *s, size_t i)
{
    const gg_tensor *t = gg_source_tensor(s, i);
    gg_error e = GG_ERROR_INIT;
    gg_data d;
    if (t->bytes > MOST || t->bytes == 0) return;
    uint8_t *whole = malloc((size_t)t->bytes), part[7];
    FUZZ_MUST(whole && gg_data_open(s, i, &d, &e) == GG_OK);
    FUZZ_MUST(gg_data_read(&d, 0, whole, (size_t)t->bytes, &e) == GG_OK);
    for (uint64_t at = 0; at < t->bytes; at += 1 + t->bytes / 5) {
        size_t n = t->bytes - at < sizeof part ? (size_t)(t->bytes - at) : sizeof part;
        FUZZ_MUST(gg_data_read(&d, at, part, n, &e) == GG_OK && memcmp(part, whole + at, n) == 0);
    }
    gg_data_close(&d);
    free(whole);
}

static void open_all(const char *path, gg_source *of)
{
    gg_error e = GG_ERROR_INIT;
    gg_source *s = NULL;
    gg_source_options o = { .adapter_base = of, .adapter_alpha = 16 };
    if (gg_source_open_with(path, &o, &s, &e) != GG_OK) {
        FUZZ_MUST(e.what[0] && e.file[0]);
        return;
    }
    for (size_t i = 0; i < gg_source_count(s) && i < 64; i++) read_tensor(s, i);
    gg_source_close(s);
}

/* The weights of each checkpoint are a link to one file, so that a case writes a single file. */
static void prepare(void)
{
    static const char *const models[MODELS] = { "falcon", "mamba2", "gptneox", "qwen35-nested",
                                                "lab/mixtral-sharded" };
    gg_error e = GG_ERROR_INIT;
    FUZZ_MUST(gg_source_open("tests/data/hf/falcon", &base, &e) == GG_OK);
    atexit(close_base);
    for (size_t i = 0; i < MODELS; i++) {
        char from[80], to[40];
        snprintf(from, sizeof from, "tests/data/hf/%s/config.json", models[i]);
        snprintf(to, sizeof to, "%zu/config.json", i);
        FUZZ_MUST(mkdir(room(folders[i]), 0700) == 0);
        room_copy(from, to);
        snprintf(to, sizeof to, "%zu/model.safetensors", i);
        FUZZ_MUST(symlink("../in.safetensors", room(to)) == 0);
    }
    mkdir(room("config"), 0700);
    room_copy("tests/data/hf/falcon/model.safetensors", "config/model.safetensors");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t choice = 0;
    if (!base) prepare();
    size_t n = room_choices(data, size, &choice, 1);
    if (n > 0 && data[0] == '{') { /* a text */
        const char *name = choice % 2 ? "config/config.json"
                                      : "config/model.safetensors.index.json";
        room_put(name, data, size);
        open_all(room("config"), NULL);
        room_remove(name);
        return 0;
    }
    room_put("in.safetensors", data, size);
    open_all(room("in.safetensors"), base);
    open_all(room(folders[choice % MODELS]), NULL);
    return 0;
}

/* fuzz_safetensors.c - any bytes as a safetensors file: alone, as the weights of checkpoints of
 * several architectures and of an adapter, and as config.json and the index of a checkpoint.
 * Refused with a reason, or every tensor can be read, whole and in parts, with the same result. */
#include "room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *const fuzz_seeds[] = { "tests/data/hf/falcon/model.safetensors",
                                   "tests/data/hf/mamba2/model.safetensors",
                                   "tests/data/hf/gptneox/model.safetensors",
                                   "tests/data/hf/falcon/config.json",
                                   "tests/data/hf/lora-falcon/adapter_model.safetensors",
                                   "tests/data/hf/lora-mixtral-experts/adapter_model.safetensors",
                                   NULL };

#define MODELS 5
#define MOST ((uint64_t)1 << 20) /* bytes of a tensor that are read */

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

static void prepare(void)
{
    gg_error e = GG_ERROR_INIT;
    FUZZ_MUST(gg_source_open("tests/data/hf/falcon", &base, &e) == GG_OK);
    atexit(close_base);
    mkdir(room("ck"), 0700);
    mkdir(room("config"), 0700);
    room_copy("tests/data/hf/falcon/model.safetensors", "config/model.safetensors");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const models[MODELS] = { "tests/data/hf/falcon/config.json",
                                                "tests/data/hf/mamba2/config.json",
                                                "tests/data/hf/gptneox/config.json",
                                                "tests/data/hf/qwen35-nested/config.json",
                                                "tests/data/hf/lab/mixtral-sharded/config.json" };
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
    room_put("ck/model.safetensors", data, size);
    room_copy(models[choice % MODELS], "ck/config.json");
    open_all(room("ck"), NULL);
    return 0;
}

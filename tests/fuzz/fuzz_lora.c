/* fuzz_lora.c - a mutated LoRA adapter folded into a model, and a mutated model that takes a sound
 * adapter. */
#include "room.h"

#include "graft/gg_transplant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/lora", "tests/fuzz/seeds/model", NULL };

enum { SCALE, WAY, CHOICES };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t c[CHOICES];
    if (!room_has("base.gguf")) room_copy("tests/fuzz/seeds/model/base.gguf", "base.gguf");
    if (!room_has("lora.gguf")) room_copy("tests/fuzz/seeds/lora/lora.gguf", "lora.gguf");
    size_t n = room_choices(data, size, c, sizeof c);
    room_put("in.gguf", data, n);
    gg_error e = GG_ERROR_INIT;
    gg_source *base = room_open(c[WAY] & 1 ? "in.gguf" : "base.gguf"),
              *adapter = room_open(c[WAY] & 1 ? "lora.gguf" : "in.gguf");
    gg_transplant_report r = { 0 };
    size_t count = room_count();
    if (base && adapter) {
        gg_transplant_options o = { .directory = true,
                                    .adapter = true,
                                    .scale = ((double)c[SCALE] - 64) / 64 };
        gg_status st = gg_transplant(base, adapter, &o, room("out"), &room_run, &r, &e);
        room_settle(st, &e, "out", count);
    }
    gg_source_close(base);
    gg_source_close(adapter);
    room_remove("in.gguf");
    FUZZ_MUST(room_count() == 2);
    return 0;
}

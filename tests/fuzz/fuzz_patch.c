/* fuzz_patch.c - a mutated patch applied to a model, and a patch made for a mutated model, which
 * must give exactly that model. */
#include "room.h"

#include "compare/patch_write.h"
#include "graft/patch_apply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/patch", "tests/fuzz/seeds/model", NULL };

static void apply(gg_source *base)
{
    size_t count = room_count();
    gg_error e = GG_ERROR_INIT;
    gg_patch_report r = { 0 };
    gg_source *patch = room_open("in.gguf");
    if (patch) {
        gg_status st = gg_patch_apply(base, patch, room("out.gguf"), &room_run, &r, &e);
        room_settle(st, &e, "out.gguf", count);
    }
    gg_source_close(patch);
}

static void make_and_apply(gg_source *base, const uint8_t *data, size_t n)
{
    gg_error e = GG_ERROR_INIT;
    gg_patch_report r = { 0 };
    gg_source *to = room_open("in.gguf"), *patch = NULL;
    size_t count = room_count();
    if (to && gg_patch_write(base, to, room("patch.gguf"), &room_run, &r, &e) == GG_OK) {
        FUZZ_MUST((patch = room_open("patch.gguf")) && gg_is_patch(patch));
        gg_status st = gg_patch_apply(base, patch, room("out.gguf"), &room_run, &r, &e);
        if (st != GG_OK) fprintf(stderr, "%s: %s\n", e.tensor, e.what);
        FUZZ_MUST(st == GG_OK && room_is("out.gguf", data, n));
        gg_source_close(patch);
        room_remove("patch.gguf");
        room_remove("out.gguf");
    }
    FUZZ_MUST(room_count() == count);
    gg_source_close(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!room_has("base.gguf")) room_copy("tests/fuzz/seeds/model/base.gguf", "base.gguf");
    room_put("in.gguf", data, size);
    gg_source *base = room_open("base.gguf");
    FUZZ_MUST(base);
    gg_source *s = room_open("in.gguf");
    bool patch = s && gg_is_patch(s);
    gg_source_close(s);
    if (patch) apply(base);
    else if (s) make_and_apply(base, data, size);
    gg_source_close(base);
    room_remove("in.gguf");
    FUZZ_MUST(room_count() == 1);
    return 0;
}

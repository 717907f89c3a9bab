/* fuzz_prune.c - a mutated model, importance matrix or file of activations, beside two sound ones,
 * through the removal of experts and hidden units, with fits to the activations and the importance
 * matrix of the result; and mutated dense models through mixtures of experts. */
#include "room.h"

#include "organ/gg_check.h"
#include "stack/verb_mix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/prune", "tests/fuzz/seeds/model", NULL };

enum { WHAT, HOW, CHOICES };
/* The written model is checked below, not twice. */
static const gg_run once = { .threads = 1 };

static gg_status prune(void *ctx, const gg_run *run, const char *output, gg_error *e)
{
    return room_prune(room("model"), ctx, output, run, e);
}

/* An output is a model that the rules can be applied to. */
static void check(const char *name)
{
    gg_error e = GG_ERROR_INIT;
    gg_check_options o = { .data = true };
    gg_check_report r = { 0 };
    FUZZ_MUST(gg_check_model(room(name), &o, &room_run, &r, &e) == GG_OK);
}

static void remove_some(const uint8_t *c, size_t size)
{
    static const char *const lists[] = { NULL, "0,2", "1-3", "3" };
    gg_error e = GG_ERROR_INIT;
    gg_prune_options o = { .list = lists[c[HOW] % 4] };
    if (!o.list) o.experts = c[HOW] / 4 % 4;
    if (c[WHAT] & 8) o.units = 1 + c[HOW] / 16;
    if (c[WHAT] & 16) o.share = (1 + c[HOW]) / 260.0;
    o.how.output.imatrix = room("imatrix");
    if (c[WHAT] & 32) o.refit = room("activations");
    if (c[WHAT] & 64) o.imatrix_out = room("out.imatrix");
    if (c[WHAT] & 128) o.by = o.list ? NULL : room("activations");
    size_t count = room_count();
    gg_status st = prune(&o, &once, room("out.gguf"), &e);
    if (st == GG_OK) check("out.gguf");
    if (st == GG_OK && !o.imatrix_out) room_repeat(size, prune, &o);
    if (st == GG_OK && o.imatrix_out) {
        gg_imatrix *im = NULL;
        gg_error e2 = GG_ERROR_INIT;
        FUZZ_MUST(gg_imatrix_open(o.imatrix_out, &im, &e2) == GG_OK);
        gg_imatrix_close(im);
        room_remove("out.imatrix");
    }
    room_settle(st, &e, "out.gguf", count);
}

static void mix(const uint8_t *c)
{
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT;
    gg_source *a = room_open("model"), *b = room_open("dense"), *act = NULL;
    gg_source *experts[3] = { b, a, b }, *router[3];
    gg_expert_mix m = { .base = c[HOW] & 1 ? a : b,
                        .experts = experts,
                        .n = 2 + (c[HOW] >> 1 & 1) };
    gg_stack_report r = { 0 };
    m.used = c[HOW] >> 2 & 3;
    m.noise = c[HOW] & 16 ? 0.01 : 0;
    if (c[HOW] & 32) act = room_open("activations");
    if (act) {
        router[0] = router[1] = router[2] = act;
        m.router = router;
    }
    size_t count = room_count();
    if (a && b) {
        gg_status dry = gg_stack_mixture(&m, NULL, &room_run, &r, &e2);
        gg_status st = gg_stack_mixture(&m, room("out.gguf"), &once, &r, &e);
        FUZZ_MUST(dry == st);
        if (st == GG_OK) check("out.gguf");
        room_settle(st, &e, "out.gguf", count);
    }
    gg_source_close(a);
    gg_source_close(b);
    gg_source_close(act);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "model", "imatrix", "activations" };
    uint8_t c[CHOICES];
    if (!room_has("dense")) room_copy("tests/fuzz/seeds/model/base.gguf", "dense");
    size_t n = room_choices(data, size, c, sizeof c);
    size_t which = c[WHAT] % 4 % 3;
    bool mixture = c[WHAT] % 8 == 7;
    for (size_t i = 0; i < 3; i++) {
        char from[100];
        snprintf(from, sizeof from, "tests/fuzz/seeds/prune/%s.gguf", names[i]);
        if (i == (mixture ? 0 : which)) room_put(names[i], data, n);
        else room_copy(from, names[i]);
    }
    if (mixture) mix(c);
    else remove_some(c, size);
    for (size_t i = 0; i < 3; i++) room_remove(names[i]);
    FUZZ_MUST(room_count() == 1);
    return 0;
}

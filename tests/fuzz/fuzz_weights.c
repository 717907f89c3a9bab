/* fuzz_weights.c - a sound model encoded with the weights of a mutated importance matrix: it is
 * refused with a reason, or all values of the result are finite. */
#include "room.h"

#include "organ/gg_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/imatrix", "tests/fuzz/seeds/weights", NULL };

enum { TYPE, WAY, CHOICES };

static gg_status finding(void *ctx, const gg_finding *f, gg_error *e)
{
    (void)ctx, (void)e;
    FUZZ_MUST(strcmp(f->rule, "nan") != 0 && strcmp(f->rule, "infinite") != 0);
    return GG_OK;
}

static void check(void)
{
    gg_error e = GG_ERROR_INIT;
    gg_check_options o = { .data = true, .row = finding };
    gg_check_report r = { 0 };
    gg_status st = gg_check_model(room("out.gguf"), &o, &room_run, &r, &e);
    FUZZ_MUST(st == GG_OK);
}

typedef struct job {
    const char *path;
    gg_assemble_options o;
    const char *experts; /* those to keep; NULL = all */
    bool strict;
} job;

static gg_status assemble(void *ctx, const gg_run *run, const char *output, gg_error *e)
{
    const job *j = ctx;
    gg_assemble_report r = { 0 };
    gg_run used = *run;
    used.strict = j->strict;
    gg_prune_options fewer = { .how.output = j->o.output, .list = j->experts };
    if (j->experts) return room_prune(j->path, &fewer, output, &used, e);
    return room_assemble(j->path, &j->o, output, &used, &r, e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Of a model with rows of 32 values, and of one with rows of 256. */
    static const char *const narrow[] = { "q4_0",          "q5_1",
                                          "*=iq4_nl",      "q8_0",
                                          "f16",           "mxfp4",
                                          "*ffn_up*=q4_1", "blk.0.attn_q.weight=q5_0" };
    static const char *const wide[] = { "blk.0.attn_q.weight=iq2_xxs",
                                        "blk.0.attn_q.weight=iq2_xs",
                                        "blk.0.attn_k.weight=iq2_s",
                                        "blk.0.attn_q.weight=iq3_xxs",
                                        "blk.0.attn_k.weight=iq3_s",
                                        "blk.0.attn_q.weight=iq1_s",
                                        "blk.0.attn_q.weight=iq1_m",
                                        "blk.0.attn_q.weight=q2_k",
                                        "blk.0.attn_q.weight=q3_k",
                                        "blk.0.attn_k.weight=q4_k",
                                        "blk.0.attn_q.weight=q5_k",
                                        "blk.0.attn_q.weight=q6_k",
                                        "blk.0.attn_q.weight=iq4_xs",
                                        "q4_k_m",
                                        "iq2_m",
                                        "blk.0.attn_k.weight=tq1_0" };
    uint8_t c[CHOICES];
    if (!room_has("narrow.gguf")) room_copy("tests/fuzz/seeds/model/base.gguf", "narrow.gguf");
    if (!room_has("wide.gguf")) room_copy("tests/fuzz/seeds/model/k-quants.gguf", "wide.gguf");
    size_t n = room_choices(data, size, c, sizeof c);
    bool small = c[WAY] & 1;
    room_put("in.bin", data, n);
    gg_error e = GG_ERROR_INIT;
    job j = { .path = room(small ? "narrow.gguf" : "wide.gguf"), .strict = c[WAY] & 16 };
    j.o.output.imatrix = room("in.bin");
    j.o.output.dtype = small ? narrow[c[TYPE] % 8] : wide[c[TYPE] % 16];
    j.o.output.fallback = c[WAY] & 2 ? "q8_0" : NULL;
    if (c[WAY] & 8) j.experts = "1";
    gg_status st = assemble(&j, &room_run, room("out.gguf"), &e);
    if (st == GG_OK && room_has("out.gguf")) {
        check();
        room_repeat(size, assemble, &j);
    }
    room_settle(st, &e, "out.gguf", 3);
    room_remove("in.bin");
    FUZZ_MUST(room_count() == 2);
    return 0;
}

/* fuzz_merge_model.c - a mutated model merged with sound ones, as the base or as one of the models,
 * with each method: it is refused with a reason, or the result can be read, and the check before
 * it agrees with the merge. */
#include "merge_rows.h"
#include "room.h"

#include "merge/gg_merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_seeds[] = { "tests/fuzz/seeds/model", NULL };

enum { METHOD, ROLE, MORE, CHOICES };

/* With the number of models, and whether there is a base. */
static const struct kind {
    const char *method;
    size_t models;
    bool base;
} kinds[] = { { "linear", 2, false },
              { "slerp,t=0.3", 2, false },
              { "nuslerp", 2, true },
              { "multislerp", 2, true },
              { "karcher", 2, false },
              { "task_arithmetic,lambda=0.7", 2, true },
              { "ties,density=0.5", 2, true },
              { "dare_linear,density=0.5", 2, true },
              { "dare_ties,density=0.5", 2, true },
              { "della,density=0.5", 2, true },
              { "breadcrumbs,density=0.9", 2, true },
              { "sce,select_topk=0.5", 2, true },
              { "nearswap,t=0.001", 2, false },
              { "arcee_fusion", 2, false },
              { "ramplus_tl", 2, true },
              { "model_stock", 2, true },
              { "iso", 2, true },
              { "passthrough,scale=2", 1, false } };

typedef struct job {
    gg_merge_config config;
    gg_merge_options o;
} job;

static gg_status write_merge(void *ctx, const gg_run *run, const char *output, gg_error *e)
{
    job *j = ctx;
    gg_merge_report r = { 0 };
    return merge_config(&j->config, &j->o, run, output, &r, e);
}

static void merge(const uint8_t *c, size_t size)
{
    const struct kind *k = &kinds[c[METHOD] % (sizeof kinds / sizeof kinds[0])];
    size_t rows = 0, checked = 0, role = c[ROLE] % (k->models + (size_t)k->base);
    char paths[2][320], base[320], method[64];
    struct gg_merge_config_model models[] = { { .path = paths[0] }, { .path = paths[1] } };
    static const char *const sound[] = { "base.gguf", "donor.gguf" };
    for (size_t i = 0; i < 2; i++)
        snprintf(paths[i], sizeof paths[i], "%s", room(role == i ? "in.gguf" : sound[i]));
    snprintf(base, sizeof base, "%s", room(role == k->models ? "in.gguf" : "third.gguf"));
    snprintf(method, sizeof method, "%s", k->method);
    char *comma = strchr(method, ',');
    if (comma) *comma++ = '\0';
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT;
    gg_merge_report r = { 0 };
    job j = { .config = { .method = method,
                          .parameters = comma,
                          .base = k->base ? base : NULL,
                          .models = models,
                          .n_models = k->models },
              .o = { .embeddings_from_base = c[MORE] & 1, .no_hash = c[MORE] & 2, .row = row } };
    if (c[MORE] & 4) {
        j.o.output.dtype = c[MORE] & 8 ? "q8_0" : "*=f32";
        j.o.output.fallback = "f16";
    }
    j.o.ctx = &rows;
    gg_status st = merge_config(&j.config, &j.o, &room_run, room("out.gguf"), &r, &e);
    FUZZ_MUST(st != GG_OK || r.merged + r.copied == rows);
    if (size % 4 == 0) {
        j.o.ctx = &checked;
        gg_status dry = merge_config(&j.config, &j.o, &room_run, NULL, &r, &e2);
        FUZZ_MUST(room_count() == (room_has("out.gguf") ? 5 : 4) && (dry == GG_OK || e2.what[0]));
        if (st == GG_OK && dry != GG_OK) fprintf(stderr, "%s: %s\n", e2.tensor, e2.what);
        FUZZ_MUST(st != GG_OK || (dry == GG_OK && checked == rows));
    }
    if (st == GG_OK) room_repeat(size, write_merge, &j);
    room_settle(st, &e, "out.gguf", 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t c[CHOICES];
    if (!room_has("base.gguf")) {
        room_copy("tests/fuzz/seeds/model/base.gguf", "base.gguf");
        room_copy("tests/fuzz/seeds/model/donor.gguf", "donor.gguf");
        room_copy("tests/fuzz/seeds/model/base.gguf", "third.gguf");
    }
    size_t n = room_choices(data, size, c, sizeof c);
    room_put("in.gguf", data, n);
    merge(c, size);
    room_remove("in.gguf");
    FUZZ_MUST(room_count() == 3);
    return 0;
}

/* merge_recall.c - how the tensors of a finished model were merged, by its keys. */
#include "merge_config.h"
#include "merge_core.h"
#include "merge_history.h"
#include "organ/source_layout.h"

#include "base/error.h"
#include "gguf/gguf.h"
#include "verbs/shared/type_keys.h"
#include "verbs/shared/verb_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A key may be of any length, but its settings are compared with each other and with each tensor.
 */
#define SETTINGS 1000
#define SETTINGS_BYTES 65536
#define SLICES 4096

typedef struct slice {
    uint64_t model, from, n; /* n blocks of a model from block `from` */
} slice;

typedef struct recall {
    const gg_meta *meta;
    const gg_kv *names; /* of the models */
    gg_merging m;
    bool embeddings; /* copied from the base */
    slice *slices;
    size_t n_slices;
    gg_merge_fn row;
    void *ctx;
    gg_error *err;
} recall;

static gg_status malformed(const recall *r, const char *key)
{
    return gg_fail(r->err, GG_EFORMAT, "the key %s does not describe a merge", key);
}

/* Returns a copy of a text, to be freed; NULL with the error if it is none. */
static char *copy_text(const recall *r, const char *key, const char *text, size_t len)
{
    if (!text || memchr(text, 0, len)) {
        malformed(r, key);
        return NULL;
    }
    char *copy = strndup(text, len);
    if (!copy) gg_fail(r->err, GG_ENOMEM, "out of memory");
    return copy;
}

/* ---- parameters ------------------------------------------------------------------- */

/* Parameters are stored as they were given: for organ-merge, or in JSON in a configuration. */
static gg_status read_settings(const recall *r, const char *key, const char *text, size_t len,
                               gg_merge_settings *to)
{
    if (len > SETTINGS_BYTES) return malformed(r, key);
    char *copy = copy_text(r, key, text, len);
    if (!copy) return r->err->status;
    gg_error wrong = GG_ERROR_INIT;
    gg_status st = copy[0] == '{' ? gg_merge_config_parameters(copy, len, to, &wrong)
                                  : gg_merge_settings_add(to, copy, &wrong);
    free(copy);
    if (st == GG_ENOMEM) return gg_fail(r->err, st, "out of memory");
    return st != GG_OK || to->n > SETTINGS ? malformed(r, key) : GG_OK;
}

/* The number of models, and the parameters of each. `lead`: the base is the first of them. */
static gg_status recall_models(recall *r, bool lead)
{
    const gg_kv *parameters = gg_meta_find(r->meta, "organ.merge.models.parameters");
    const char *key = "organ.merge.models", *text;
    gg_merging *m = &r->m;
    uint64_t at = 0;
    size_t len, n = 0;
    r->names = gg_meta_find(r->meta, key);
    while (n <= GG_MERGE_MODELS && gg_kv_next_str(r->names, &at, &text, &len)) n++;
    if (n == 0 || n > GG_MERGE_MODELS) return malformed(r, key);
    m->n = n + lead;
    m->of_model = calloc(m->n, sizeof *m->of_model);
    if (!m->of_model) return gg_fail(r->err, GG_ENOMEM, "out of memory");
    gg_status st = GG_OK;
    at = 0;
    for (size_t k = lead; k < m->n && st == GG_OK; k++) {
        bool any = gg_kv_next_str(parameters, &at, &text, &len);
        st = read_settings(r, "organ.merge.models.parameters", any ? text : NULL, any ? len : 0,
                           &m->of_model[k]);
    }
    return st;
}

/* "slices=1:0-7,2:4-11" */
static gg_status recall_slices(recall *r, const char *text, size_t len)
{
    const char *key = "organ.merge.parameters";
    char *copy = copy_text(r, key, text, len);
    gg_status st = copy ? GG_OK : r->err->status;
    r->slices = calloc(SLICES, sizeof *r->slices);
    if (st == GG_OK && !r->slices) st = gg_fail(r->err, GG_ENOMEM, "out of memory");
    const char *p = st == GG_OK ? copy + strlen("slices=") : NULL;
    while (st == GG_OK && *p) {
        unsigned long long model, from, to;
        int used = 0;
        if (r->n_slices == SLICES ||
            sscanf(p, "%10llu:%10llu-%10llu%n", &model, &from, &to, &used) != 3 || to < from ||
            model == 0 || model > r->m.n || (p[used] != 0 && p[used] != ','))
            st = malformed(r, key);
        else r->slices[r->n_slices++] = (slice){ model - 1, from, to - from + 1 };
        p += used + (p[used] == ',');
    }
    free(copy);
    return st;
}

static gg_status read_keys(recall *r)
{
    const char *text, *parameters;
    size_t len, size;
    uint64_t aside = 0;
    gg_merging *m = &r->m;
    if (!r->meta || !gg_kv_str(gg_meta_find(r->meta, "organ.merge.method"), &text, &len))
        return gg_fail(r->err, GG_NO,
                       "it has no history of a merge: organ-merge did not write it (organ-stack "
                       "stores no history)");
    m->method = gg_merge_method_by_name(text, len);
    if (!m->method) return malformed(r, "organ.merge.method");
    if (!gg_kv_str(gg_meta_find(r->meta, "organ.merge.parameters"), &parameters, &size))
        return malformed(r, "organ.merge.parameters");
    bool based = gg_meta_find(r->meta, "organ.merge.base") != NULL;
    gg_status st = recall_models(r, based && m->method->base == GG_MERGE_BASE_FIRST);
    if (st != GG_OK) return st;
    if (size > 7 && memcmp(parameters, "slices=", 7) == 0)
        return recall_slices(r, parameters, size);
    if (m->n < m->method->least || m->n > m->method->most)
        return malformed(r, "organ.merge.models");
    m->has_base = based &&
                  (m->method->base == GG_MERGE_BASE_MAY || m->method->base == GG_MERGE_BASE_MUST);
    m->blocks = gg_arch_number(r->meta, "block_count");
    r->embeddings = gg_kv_u64(gg_meta_find(r->meta, "organ.merge.embeddings_from_base"), &aside) &&
                    aside;
    return read_settings(r, "organ.merge.parameters", parameters, size, &m->global);
}

/* ---- tensors ---------------------------------------------------------------------- */

/* The name of a model, of which tensors of slices are copies. */
static void model_name(const recall *r, uint64_t model, char name[GG_MERGE_NAME + 1])
{
    uint64_t at = 0;
    const char *text = "";
    size_t len = 0;
    for (uint64_t k = 0; k <= model; k++) gg_kv_next_str(r->names, &at, &text, &len);
    snprintf(name, GG_MERGE_NAME + 1, "%.*s", (int)(len < GG_MERGE_NAME ? len : GG_MERGE_NAME),
             text);
}

/* Tensors outside the blocks come from the model of the first slice. */
static gg_status tell_slice(const recall *r, const gg_tensor *t, const gg_anatomy *a)
{
    char name[GG_MERGE_NAME + 1];
    uint64_t first = 0, model = r->slices[0].model;
    for (size_t i = 0; i < r->n_slices && a->block >= 0; i++) {
        if ((uint64_t)a->block >= first) model = r->slices[i].model;
        first += r->slices[i].n;
    }
    model_name(r, model, name);
    return r->row(r->ctx, t, a, "copy", name, r->err);
}

static gg_status tell_tensor(const recall *r, const gg_tensor *t, const gg_anatomy *a)
{
    char text[600] = "";
    gg_merge_job j;
    gg_error wrong = GG_ERROR_INIT;
    if (r->n_slices) return tell_slice(r, t, a);
    if (gg_is_integer(t->dtype) || (r->embeddings && a->cls == GG_EMBED))
        return r->row(r->ctx, t, a, "copy", text, r->err);
    gg_status st = gg_merge_job_start(&r->m, t, &j, &wrong);
    bool copied = st == GG_OK && r->m.method->unchanged && r->m.method->unchanged(&j) != SIZE_MAX;
    if (st == GG_OK) gg_merge_job_text(&j, text, sizeof text);
    gg_merge_job_free(&j);
    if (st == GG_ENOMEM) return gg_fail(r->err, st, "out of memory");
    if (st != GG_OK) return malformed(r, "organ.merge.parameters");
    return r->row(r->ctx, t, a, copied ? "copy" : "merge", text, r->err);
}

gg_status gg_merge_recall(const gg_source *model, gg_merge_fn row, void *ctx, gg_error *err)
{
    recall r = { .meta = gg_source_meta(model), .row = row, .ctx = ctx, .err = err };
    gg_status st = read_keys(&r);
    for (size_t i = 0; i < gg_source_count(model) && st == GG_OK; i++) {
        gg_anatomy a = gg_source_anatomy(model, i);
        st = tell_tensor(&r, gg_source_tensor(model, i), &a);
    }
    for (size_t k = 0; k < r.m.n && r.m.of_model; k++) gg_merge_settings_free(&r.m.of_model[k]);
    free(r.m.of_model);
    gg_merge_settings_free(&r.m.global);
    free(r.slices);
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(model));
}

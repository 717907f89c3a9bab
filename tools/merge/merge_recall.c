/* merge_recall.c - shows a merge by the keys that it has left in its result. */
#include "merging.h"

#include "base/grow.h"
#include "gguf/gguf.h"
#include "organ/source_layout.h"
#include "write/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A key may be of any length, but its settings are compared with each other and with each tensor.
 */
#define SETTINGS 1000
#define SETTINGS_BYTES 65536
#define SLICES 4096

typedef struct recall {
    const gg_meta *meta;
    const gg_kv *names; /* of the models */
    gg_merging m;
    bool embeddings; /* copied from the base */
    gg_merge_slice *slices;
    size_t n_slices;
    gg_merge_fn row;
    void *ctx;
    gg_error *err;
} recall;

static gg_status malformed_key(const recall *r, const char *key)
{
    return gg_fail(r->err, GG_EFORMAT, "the key %s does not describe a merge", key);
}

/* Sets *out to a copy of a text, to be freed. */
static gg_status copy_text(const recall *r, const char *key, const char *text, size_t len,
                           char **out)
{
    *out = NULL;
    if (!text || memchr(text, 0, len)) return malformed_key(r, key);
    *out = strndup(text, len);
    return *out ? GG_OK : gg_fail(r->err, GG_ENOMEM, "out of memory");
}

/* What the keys describe could not be parsed or evaluated. */
static gg_status malformed_unless_memory(const recall *r, gg_status st, const char *key)
{
    if (st == GG_OK) return GG_OK;
    return st == GG_ENOMEM ? gg_fail(r->err, st, "out of memory") : malformed_key(r, key);
}

/* ---- parameters ------------------------------------------------------------------- */

/* Parameters are stored as they were given: for organ-merge, or in JSON in a configuration. */
static gg_status recall_settings(const recall *r, const char *key, const char *text, size_t len,
                                 gg_merge_settings *to)
{
    char *copy;
    gg_error wrong = GG_ERROR_INIT;
    gg_status st = len > SETTINGS_BYTES ? malformed_key(r, key)
                                        : copy_text(r, key, text, len, &copy);
    if (st != GG_OK) return st;
    st = malformed_unless_memory(r, gg_merge_settings_add(to, copy, &wrong), key);
    free(copy);
    return st == GG_OK && to->n > SETTINGS ? malformed_key(r, key) : st;
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
    if (n == 0 || n > GG_MERGE_MODELS) return malformed_key(r, key);
    m->n = n + lead;
    gg_status st = GG_OK;
    at = 0;
    for (size_t k = lead; k < m->n && st == GG_OK; k++) {
        bool any = gg_kv_next_str(parameters, &at, &text, &len);
        st = recall_settings(r, "organ.merge.models.parameters", any ? text : NULL, any ? len : 0,
                             &m->of_model[k]);
    }
    return st;
}

/* "slices=1:0-7,2:4-11", and the scales after a space */
static gg_status recall_slices(recall *r, const char *text, size_t len)
{
    const char *key = "organ.merge.parameters";
    char *copy;
    gg_status st = copy_text(r, key, text, len, &copy);
    const char *p = st == GG_OK ? copy + strlen("slices=") : NULL;
    while (st == GG_OK && *p && *p != ' ') {
        unsigned long long model, from, to;
        int used = 0;
        if (r->n_slices == SLICES ||
            sscanf(p, "%10llu:%10llu-%10llu%n", &model, &from, &to, &used) != 3 || to < from ||
            model == 0 || model > r->m.n || !strchr(", ", p[used]))
            st = malformed_key(r, key);
        else st = GG_ROOM(r->slices, r->n_slices, NULL, r->err);
        if (st != GG_OK) break;
        r->slices[r->n_slices++] = (gg_merge_slice){ (size_t)model - 1, from, to + 1, false };
        r->m.blocks += to - from + 1;
        p += used + (p[used] == ',');
    }
    if (st == GG_OK && *p) st = recall_settings(r, key, p + 1, strlen(p + 1), &r->m.global);
    r->m.n = 1; /* each tensor is that of one model */
    free(copy);
    return st;
}

static gg_status recall_keys(recall *r)
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
    if (!m->method) return malformed_key(r, "organ.merge.method");
    if (!gg_kv_str(gg_meta_find(r->meta, "organ.merge.parameters"), &parameters, &size))
        return malformed_key(r, "organ.merge.parameters");
    if (gg_meta_find(r->meta, "organ.merge.slices"))
        return gg_fail(r->err, GG_NO,
                       "it was merged from slices with different models, whose history cannot be "
                       "shown; draw the configuration instead");
    bool based = gg_meta_find(r->meta, "organ.merge.base") != NULL;
    gg_status st = recall_models(r, based && m->method->base == GG_MERGE_BASE_FIRST);
    if (st != GG_OK) return st;
    if (size > 7 && memcmp(parameters, "slices=", 7) == 0)
        return recall_slices(r, parameters, size);
    if (m->n < m->method->least || m->n > m->method->most)
        return malformed_key(r, "organ.merge.models");
    m->has_base = based &&
                  (m->method->base == GG_MERGE_BASE_MAY || m->method->base == GG_MERGE_BASE_MUST);
    m->blocks = gg_arch_number(r->meta, "block_count");
    r->embeddings = gg_kv_u64(gg_meta_find(r->meta, "organ.merge.embeddings_from_base"), &aside) &&
                    aside;
    return recall_settings(r, "organ.merge.parameters", parameters, size, &m->global);
}

/* ---- tensors ---------------------------------------------------------------------- */

/* The name of the model of which a tensor of a slice is a copy. Tensors outside the blocks come
 * from the model of the first slice. */
static void recall_name(const recall *r, int64_t block, char name[GG_MERGE_NAME + 1])
{
    uint64_t at = 0, first = 0;
    size_t model = r->slices[0].model, len = 0;
    const char *text = "";
    for (size_t i = 0; i < r->n_slices && block >= 0; i++) {
        if ((uint64_t)block >= first) model = r->slices[i].model;
        first += r->slices[i].to - r->slices[i].from;
    }
    for (size_t k = 0; k <= model; k++) gg_kv_next_str(r->names, &at, &text, &len);
    snprintf(name, GG_MERGE_NAME + 1, "%.*s", (int)(len < GG_MERGE_NAME ? len : GG_MERGE_NAME),
             text);
}

static gg_status recall_tensor(const recall *r, const gg_tensor *t)
{
    char name[GG_MERGE_NAME + 1] = "";
    gg_merge_how how = { .from = 0 };
    gg_merge_row row = { t, "copy", name };
    gg_error wrong = GG_ERROR_INIT;
    gg_status st = GG_OK;
    bool copied = gg_is_integer(t->dtype) || (r->embeddings && t->a.cls == GG_EMBED) ||
                  (r->n_slices && r->m.global.n == 0);
    if (r->n_slices) recall_name(r, t->a.block, name);
    if (!copied) st = gg_merge_describe(&r->m, t, true, &how, &wrong);
    if (how.from == SIZE_MAX) row.how = "merge";
    if (how.from == SIZE_MAX || (!copied && !r->n_slices)) row.parameters = how.text;
    if (malformed_unless_memory(r, st, "organ.merge.parameters") != GG_OK) return r->err->status;
    return r->row(r->ctx, &row, r->err);
}

gg_status gg_merge_recall(const gg_source *model, gg_merge_fn row, void *ctx, gg_error *err)
{
    recall r = { .meta = gg_source_meta(model), .row = row, .ctx = ctx, .err = err };
    gg_status st = recall_keys(&r);
    for (size_t i = 0; i < gg_source_count(model) && st == GG_OK; i++)
        st = recall_tensor(&r, gg_source_tensor(model, i));
    for (size_t k = 0; k <= GG_MERGE_MODELS; k++) gg_merge_settings_free(&r.m.of_model[k]);
    gg_merge_settings_free(&r.m.global);
    free(r.slices);
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(model));
}

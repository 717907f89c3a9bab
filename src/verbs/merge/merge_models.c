/* merge_models.c - opens the models of a merge, and checks that they belong together. */
#include "merge_models.h"

#include "base/error.h"
#include "base/grow.h"
#include "gguf/gguf.h"
#include "organ/gg_compare_model.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "verbs/plan/key_compat.h"
#include "verbs/plan/plan.h"
#include "verbs/shared/verb_run.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define JUDGED 12 /* number of matrices compared: enough to recognize unrelated models */
#define SHOWN ((size_t)3)

/* ---- opening ------------------------------------------------------------------------- */

static void free_model(gg_merge_model *m)
{
    free(m->path);
    free(m->text);
    gg_source_close(m->aligned);
    gg_source_close(m->source);
    gg_merge_settings_free(&m->settings);
}

void gg_merge_models_free(gg_merge_models *m)
{
    for (size_t i = 0; i < m->n; i++) free_model(&m->list[i]);
    free_model(&m->base);
    free(m->parameters);
    free(m->list);
    *m = (gg_merge_models){ 0 };
}

gg_status gg_merge_models_add(gg_merge_models *m, const char *path, size_t len, const char *text,
                              gg_error *err)
{
    if (m->n == GG_MERGE_MODELS)
        return gg_fail(err, GG_EUSAGE, "more than %d models", GG_MERGE_MODELS);
    if (len == 0) return gg_fail(err, GG_EUSAGE, "the path of a model is empty");
    gg_merge_model *grown = gg_grow_pow2(m->list, m->n, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    m->list = grown;
    gg_merge_model *one = &m->list[m->n];
    *one = (gg_merge_model){ .path = strndup(path, len), .text = strdup(text ? text : "") };
    m->n++;
    if (!one->path || !one->text) return gg_fail(err, GG_ENOMEM, "no memory for the models");
    return gg_merge_settings_add(&one->settings, one->text, err);
}

gg_merge_model *gg_merge_models_find(const gg_merge_models *m, const char *path)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->list[i].path, path) == 0) return &m->list[i];
    return NULL;
}

gg_status gg_merge_models_add_once(gg_merge_models *m, const char *path, gg_error *err)
{
    if (gg_merge_models_find(m, path)) return GG_OK;
    return gg_merge_models_add(m, path, strlen(path), "", err);
}

static gg_status open_model(gg_merge_model *m, const gg_run *run, gg_error *err)
{
    gg_source_options o = { .spooled = true, .note = run->note, .ctx = run->ctx };
    gg_status st = gg_source_open_with(m->path, &o, &m->source, err);
    if (st != GG_OK) return st;
    if (gg_source_meta(m->source)) {
        uint64_t blocks = gg_arch_number(gg_source_meta(m->source), "block_count");
        if (!m->blocks || m->blocks == blocks) return gg_refuse_split_experts(m->source, err);
        gg_fail(err, GG_EUNSUPPORTED,
                "the configuration merges its first %llu blocks, but it has "
                "%llu",
                (unsigned long long)m->blocks, (unsigned long long)blocks);
        gg_fix(err, "only whole models can be merged");
        return gg_at_file(err, m->path);
    }
    gg_fail(err, GG_EUSAGE,
            "it consists of organ records, but must be a model or an organ "
            "directory");
    return gg_at_file(err, m->path);
}

/* The first file of a model. */
static const char *file_of(const gg_merge_model *m)
{
    const gg_model *files = gg_source_model(m->source);
    return files && files->n_files ? files->paths[0] : m->path;
}

static gg_status refuse_twice(const gg_merge_model *a, const gg_merge_model *b, gg_error *err)
{
    struct stat x, y;
    bool both_pipes = strcmp(a->path, "-") == 0 && strcmp(b->path, "-") == 0;
    bool same = both_pipes || (stat(file_of(a), &x) == 0 && stat(file_of(b), &y) == 0 &&
                               x.st_dev == y.st_dev && x.st_ino == y.st_ino);
    if (!same) return GG_OK;
    if (strcmp(a->path, b->path) == 0) gg_fail(err, GG_EUSAGE, "this model is given twice");
    else gg_fail(err, GG_EUSAGE, "this is the same file as %.200s", a->path);
    gg_fix(err, "give each model once; use its weight to count it more");
    return gg_at_file(err, b->path);
}

gg_status gg_merge_models_open(gg_merge_models *m, gg_merge_base use, const gg_run *run,
                               gg_error *err)
{
    gg_status st = GG_OK;
    if (m->base.path) st = open_model(&m->base, run, err);
    for (size_t i = 0; i < m->n && st == GG_OK; i++) {
        gg_merge_model *one = &m->list[i];
        if (strcmp(one->path, "-") == 0) /* opened first of all it would not be seen twice */
            for (size_t k = 0; k < i; k++)
                if (strcmp(m->list[k].path, "-") == 0) return refuse_twice(&m->list[k], one, err);
        st = open_model(one, run, err);
        bool keys_only = use == GG_MERGE_BASE_KEYS && m->base.path &&
                         strcmp(m->base.path, one->path) == 0;
        if (st == GG_OK && m->base.path && !keys_only) st = refuse_twice(&m->base, one, err);
        for (size_t k = 0; k < i && st == GG_OK; k++) st = refuse_twice(&m->list[k], one, err);
    }
    return st;
}

/* ---- tensors ------------------------------------------------------------------------- */

static gg_status other_dims(const gg_tensor *t, const gg_tensor *theirs, const gg_source *s,
                            gg_error *err)
{
    char a[96], b[96];
    gg_dims_text(theirs, a);
    gg_dims_text(t, b);
    gg_fail(err, GG_NO, "its dims are %s, but those of the first model are %s", a, b);
    if (gg_anatomy_of(t->name, t->name_len).cls == GG_EMBED)
        gg_fix_hint(err, GG_HINT_EMBEDDINGS,
                    "keep the embeddings of the first model, if its vocabulary is the right one");
    else gg_fix(err, "only models with the same dims can be merged");
    gg_at_tensor(err, t->name, t->name_len);
    return gg_at_file(err, gg_source_name(s));
}

static gg_status find(const gg_source *s, const gg_tensor *t, size_t *at, gg_error *err)
{
    *at = gg_source_find(s, t->name, t->name_len);
    if (*at == SIZE_MAX) {
        gg_fail(err, GG_NO, "it does not have this tensor");
        gg_at_tensor(err, t->name, t->name_len);
        return gg_at_file(err, gg_source_name(s));
    }
    const gg_tensor *theirs = gg_source_tensor(s, *at);
    if (memcmp(t->dims, theirs->dims, sizeof t->dims) != 0) return other_dims(t, theirs, s, err);
    if (gg_can_decode(theirs->dtype)) return GG_OK;
    gg_fail(err, GG_EUNSUPPORTED, "%s cannot be decoded",
            gg_dtype_get(theirs->dtype) ? gg_dtype_get(theirs->dtype)->name : "its type");
    gg_at_tensor(err, t->name, t->name_len);
    return gg_at_file(err, gg_source_name(s));
}

gg_status gg_merge_find(const gg_merging *m, const gg_source *first, size_t i, size_t *at,
                        gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(first, i);
    gg_status st = GG_OK;
    for (size_t k = 0; k < m->n && st == GG_OK; k++) st = find(m->models[k], t, &at[k], err);
    at[m->n] = SIZE_MAX;
    if (st == GG_OK && m->has_base) st = find(m->base, t, &at[m->n], err);
    return st;
}

/* ---- kinship --------------------------------------------------------------------------- */

typedef struct kinship {
    const char *name; /* of the model that is compared */
    gg_check_notes *notes;
    size_t n;
    bool embeddings;
    gg_error *err;
} kinship;

static void conflict(void *ctx, const char *line)
{
    kinship *k = ctx;
    bool tokens = strncmp(line, "tokenizer.", 10) == 0;
    if (tokens && k->embeddings) return;
    if (k->n++ < SHOWN) gg_check_notes_add(k->notes, k->err, "%.100s: %s", k->name, line);
}

static bool same_value(const gg_kv *a, const gg_kv *b)
{
    return a && b && a->type == b->type && a->elem_type == b->elem_type && a->count == b->count &&
           a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

static gg_status must_agree(gg_source *first, gg_source *s, bool embeddings, gg_error *err)
{
    static const char arch[] = "general.architecture", tokens[] = "tokenizer.ggml.tokens";
    const gg_meta *a = gg_source_meta(first), *b = gg_source_meta(s);
    const gg_kv *mine = gg_meta_find(a, tokens), *theirs = gg_meta_find(b, tokens);
    if (!same_value(gg_meta_find(a, arch), gg_meta_find(b, arch)))
        gg_fail(err, GG_NO, "its architecture is not that of %.200s", gg_source_name(first));
    else if (mine && theirs && !embeddings && !same_value(mine, theirs)) {
        gg_fail(err, GG_NO, "its vocabulary (%llu tokens) differs from that of %.200s (%llu)",
                (unsigned long long)theirs->count, gg_source_name(first),
                (unsigned long long)mine->count);
        gg_fix_hint(err, GG_HINT_EMBEDDINGS,
                    "keep the embeddings and the vocabulary of the first "
                    "model");
    } else return GG_OK;
    return gg_at_file(err, gg_source_name(s));
}

/* Compares some matrices that are spread over the model. */
static gg_status judge(gg_source *first, gg_source *s, gg_lineage *l, gg_error *err)
{
    gg_tensor_pair pairs[JUDGED];
    size_t count = gg_source_count(first), n = 0, step = count / JUDGED + 1;
    for (size_t i = 0; i < count && n < JUDGED; i++) {
        const gg_tensor *t = gg_source_tensor(first, i);
        size_t twin = gg_source_find(s, t->name, t->name_len);
        if (twin == SIZE_MAX || t->dims[1] < 2 || (count > 2 * JUDGED && i % step)) continue;
        if (memcmp(t->dims, gg_source_tensor(s, twin)->dims, sizeof t->dims) != 0) continue;
        pairs[n++] = (gg_tensor_pair){ i, twin };
    }
    *l = (gg_lineage){ .verdict = GG_LINEAGE_UNDECIDABLE };
    gg_run quiet = { .threads = 1 };
    gg_compare_options o = { .sample = 32, .pairs = pairs, .n_pairs = n };
    return n ? gg_lineage_of(first, s, &o, &quiet, l, err) : GG_OK;
}

static gg_status check_model(kinship *k, gg_source *first, gg_source *s, const gg_run *run)
{
    gg_lineage l = { 0 };
    k->name = gg_source_name(s);
    k->n = 0;
    gg_status st = must_agree(first, s, k->embeddings, k->err);
    if (st != GG_OK || !(run->note || run->strict)) return st;
    gg_key_conflicts(gg_source_meta(first), gg_source_meta(s), GG_COMPAT_BLOCKS, conflict, k);
    st = k->err->status != GG_OK ? k->err->status : judge(first, s, &l, k->err);
    bool permuted = l.verdict == GG_LINEAGE_PERMUTED;
    if (st != GG_OK || (l.verdict != GG_LINEAGE_STRANGERS && !permuted)) return st;
    if (!run->strict)
        return gg_check_notes_add(k->notes, k->err,
                                  permuted ? "%.100s has its hidden units in another order than "
                                             "%.100s: the result will be noise unless it is aligned"
                                           : "%.100s shares no lineage with %.100s: the result "
                                             "will be noise",
                                  k->name, gg_source_name(first));
    if (permuted) {
        gg_fail(k->err, GG_NO,
                "its hidden units are in another order than those of %.200s: the result would be "
                "noise",
                gg_source_name(first));
        gg_fix_hint(k->err, GG_HINT_ALIGN, "align it");
        return gg_at_file(k->err, k->name);
    }
    gg_fail(k->err, GG_NO, "it shares no lineage with %.200s: the result would be noise",
            gg_source_name(first));
    gg_fix_hint(k->err, GG_HINT_STRICT,
                "merge models that were trained from the same weights, or "
                "merge them anyway");
    return gg_at_file(k->err, k->name);
}

gg_status gg_merge_kinship(const gg_merging *m, gg_source *first, bool embeddings,
                           const gg_run *run, gg_check_notes *notes, gg_error *err)
{
    kinship k = { .notes = notes, .embeddings = embeddings, .err = err };
    gg_status st = GG_OK;
    for (size_t i = 0; i < m->n && st == GG_OK; i++)
        if (m->models[i] != first) st = check_model(&k, first, m->models[i], run);
    return st;
}

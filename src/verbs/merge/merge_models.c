/* merge_models.c - the models of a merge: whether they belong together, and their tensors. */
#include "merging.h"

#include "base/error.h"
#include "gguf/gguf.h"
#include "organ/gg_align.h"
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

/* ---- taking --------------------------------------------------------------------------- */

void gg_merge_members_free(gg_merge_members *m)
{
    for (size_t i = 0; i < m->n; i++) gg_source_close(m->list[i].aligned);
    free(m->slices);
}

static gg_status check_member(const gg_source *s, uint64_t blocks, gg_error *err)
{
    if (!gg_source_meta(s)) {
        gg_fail(err, GG_EUSAGE,
                "it consists of organ records, but must be a model or an organ directory");
        return gg_at_file(err, gg_source_name(s));
    }
    uint64_t has = gg_arch_number(gg_source_meta(s), "block_count");
    if (!blocks || blocks == has) return gg_refuse_split_experts(s, err);
    gg_fail(err, GG_EUNSUPPORTED, "the configuration merges its first %llu blocks, but it has %llu",
            (unsigned long long)blocks, (unsigned long long)has);
    gg_fix(err, "only whole models can be merged");
    return gg_at_file(err, gg_source_name(s));
}

/* The first file of a model. */
static const char *first_file(const gg_source *s)
{
    const gg_model *files = gg_source_model(s);
    return files && files->n_files ? files->paths[0] : gg_source_name(s);
}

static gg_status refuse_twice(const gg_source *a, const gg_source *b, gg_error *err)
{
    struct stat x, y;
    bool same = a == b || (stat(first_file(a), &x) == 0 && stat(first_file(b), &y) == 0 &&
                           x.st_dev == y.st_dev && x.st_ino == y.st_ino);
    if (!same) return GG_OK;
    if (strcmp(gg_source_name(a), gg_source_name(b)) == 0)
        gg_fail(err, GG_EUSAGE, "this model is given twice");
    else gg_fail(err, GG_EUSAGE, "this is the same file as %.200s", gg_source_name(a));
    gg_fix(err, "give each model once; use its weight to count it more");
    return gg_at_file(err, gg_source_name(b));
}

static gg_status take_model(gg_merge_members *m, const gg_merge_model *one, gg_merge_base use,
                            gg_error *err)
{
    gg_source *s = one->source, *base = m->base.source;
    gg_status st = check_member(s, one->blocks, err);
    bool keys_only = use == GG_MERGE_BASE_KEYS && base &&
                     strcmp(gg_source_name(base), gg_source_name(s)) == 0;
    if (st == GG_OK && base && !keys_only) st = refuse_twice(base, s, err);
    for (size_t k = 0; k < m->n && st == GG_OK; k++) st = refuse_twice(m->list[k].source, s, err);
    m->list[m->n++] = (gg_merge_member){ .source = s, .text = one->parameters };
    return st;
}

gg_status gg_merge_members_take(gg_merge_members *m, const gg_merge_models *models,
                                gg_merge_base use, gg_error *err)
{
    if (models->n > GG_MERGE_MODELS)
        return gg_fail(err, GG_EUSAGE, "more than %d models", GG_MERGE_MODELS);
    m->base.source = models->base;
    gg_status st = models->base ? check_member(models->base, 0, err) : GG_OK;
    for (size_t i = 0; i < models->n && st == GG_OK; i++)
        st = take_model(m, &models->list[i], use, err);
    return st;
}

gg_status gg_merge_align(gg_merge_members *members, const gg_merging *m, gg_source *first,
                         const gg_run *run, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < members->n && st == GG_OK; i++) {
        gg_merge_member *one = &members->list[i];
        if (one->source == first) continue;
        st = gg_align(first, one->source, NULL, &one->aligned, run, NULL, err);
        for (size_t k = 0; k < m->n && st == GG_OK; k++)
            if (m->models[k] == one->source) m->models[k] = one->aligned;
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

static gg_status find_in(const gg_source *s, const gg_tensor *t, size_t *at, gg_error *err)
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
    for (size_t k = 0; k < m->n && st == GG_OK; k++) st = find_in(m->models[k], t, &at[k], err);
    at[m->n] = SIZE_MAX;
    if (st == GG_OK && m->has_base) st = find_in(m->base, t, &at[m->n], err);
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

static void note_conflict(void *ctx, const char *line)
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
static gg_status judge_lineage(gg_source *first, gg_source *s, gg_lineage *l, gg_error *err)
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

static gg_status check_kinship(kinship *k, gg_source *first, gg_source *s, const gg_run *run)
{
    gg_lineage l = { 0 };
    k->name = gg_source_name(s);
    k->n = 0;
    gg_status st = must_agree(first, s, k->embeddings, k->err);
    if (st != GG_OK || !(run->note || run->strict)) return st;
    gg_key_conflicts(gg_source_meta(first), gg_source_meta(s), GG_COMPAT_BLOCKS, note_conflict, k);
    st = k->err->status != GG_OK ? k->err->status : judge_lineage(first, s, &l, k->err);
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
        if (m->models[i] != first) st = check_kinship(&k, first, m->models[i], run);
    return st;
}

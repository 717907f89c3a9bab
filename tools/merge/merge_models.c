/* merge_models.c - the models of a merge: whether they fit, their tensors, and what the keys and
 * the card of the result tell of them. */
#include "common/markdown.h"
#include "merge_run.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/io.h"
#include "base/parallel.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "kin/gg_compare_model.h"
#include "kin/lineage.h"
#include "organ/output_guard.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "write/key_compat.h"
#include "write/keys.h"

#include <stdio.h>
#include <string.h>

#define SHOWN ((size_t)3)

/* ---- taking the models ---------------------------------------------------------------- */

/* A model must have keys and whole stacks. */
static gg_status check_member(const merge_run *g, const gg_source *s)
{
    gg_status st = gg_require_model(s, g->err);
    return st == GG_OK ? gg_require_whole(s, g->run, g->err) : st;
}

static gg_status refuse_twice(const gg_source *a, const gg_source *b, gg_error *err)
{
    if (!gg_source_is_same(a, b, err)) return err->status;
    if (strcmp(gg_source_name(a), gg_source_name(b)) == 0)
        gg_fail_in(err, GG_EUSAGE, b, NULL, "this model is given twice");
    else gg_fail_in(err, GG_EUSAGE, b, NULL, "this is the same file as %.200s", gg_source_name(a));
    return gg_fix(err, "give each model once; use its weight to count it more");
}

gg_status gg_merge_take_models(merge_run *g, gg_merge_base use)
{
    const gg_merge_models *given = g->given;
    const gg_source *base = g->all[0].source = given->base;
    gg_status st = base ? check_member(g, base) : GG_OK;
    for (size_t i = 0; i < given->n && st == GG_OK; i++) {
        gg_source *s = given->list[i].source;
        st = check_member(g, s);
        bool keys_only = use == GG_MERGE_BASE_KEYS && base &&
                         strcmp(gg_source_name(base), gg_source_name(s)) == 0;
        for (size_t k = keys_only || !base; k <= g->n && st == GG_OK; k++)
            st = refuse_twice(g->all[k].source, s, g->err);
        g->all[++g->n] = (merge_member){ .source = s, .text = given->list[i].parameters };
    }
    return st;
}

gg_status gg_merge_check_settings(const merge_run *g, const gg_merge_settings *s)
{
    const gg_merge_method *method = g->m.method;
    for (size_t i = 0; i < s->n; i++) {
        bool taken = false;
        for (size_t k = 0; k < method->n_takes; k++)
            taken = taken || method->takes[k].param == s->list[i].param;
        if (taken) continue;
        char list[200] = "";
        for (size_t k = 0; k < method->n_takes; k++) {
            if (k) strcat(list, ", ");
            strcat(list, gg_merge_params[method->takes[k].param].name);
        }
        gg_fail(g->err, GG_EUSAGE, "%s has no parameter %s", method->name,
                gg_merge_params[s->list[i].param].name);
        return gg_fix(g->err, "it takes %s", list[0] ? list : "none");
    }
    return GG_OK;
}

gg_status gg_merge_check_number(const merge_run *g, size_t n)
{
    const gg_merge_method *method = g->m.method;
    if (method->base == GG_MERGE_BASE_MUST && !g->given->base) {
        gg_fail(g->err, GG_EUSAGE, "%s needs the base that the models were trained from",
                method->name);
        return gg_fix_by(g->err, "base", "give the base");
    }
    if (n >= method->least && n <= method->most) return GG_OK;
    const char *besides = method->base == GG_MERGE_BASE_FIRST  ? ", the base included"
                          : method->base == GG_MERGE_BASE_MUST ? " besides the base"
                                                               : "";
    if (method->least == method->most)
        return gg_fail(g->err, GG_EUSAGE, "%s merges exactly %zu model%s%s, not %zu", method->name,
                       method->least, method->least == 1 ? "" : "s", besides, n);
    return gg_fail(g->err, GG_EUSAGE, "%s needs at least %zu model%s%s", method->name,
                   method->least, method->least == 1 ? "" : "s", besides);
}

/* ---- kinship --------------------------------------------------------------------------- */

/* A comparison of a model with the first. */
typedef struct kinship {
    merge_run *g;
    const char *name;
    size_t n; /* keys that differ */
} kinship;

static void note_conflict(void *ctx, gg_conflict kind, const char *line)
{
    kinship *k = ctx;
    if (kind == GG_CONFLICT_ROWS && k->g->err->status == GG_OK) {
        gg_fail(k->g->err, GG_NO, "%s: rows of equal shapes would belong to different heads", line);
        gg_at_file(k->g->err, k->name);
    }
    bool tokens = strncmp(line, "tokenizer.", 10) == 0;
    if (tokens && k->g->o->embeddings_from_base) return;
    if (k->n++ < SHOWN) gg_held_add(&k->g->notes, k->g->err, "%.100s: %s", k->name, line);
}

static gg_status must_agree(const merge_run *g, gg_source *s)
{
    gg_source *first = g->first;
    gg_error *err = g->err;
    static const char arch[] = "general.architecture", tokens[] = "tokenizer.ggml.tokens";
    const gg_meta *a = gg_source_meta(first), *b = gg_source_meta(s);
    const gg_kv *mine = gg_meta_find(a, tokens), *theirs = gg_meta_find(b, tokens);
    uint64_t blocks = gg_arch_number(a, "block_count"), deep = gg_arch_number(b, "block_count");
    const gg_kv *x = gg_meta_find(a, arch), *y = gg_meta_find(b, arch);
    if ((x || y) && !gg_same_value(x, y)) /* stored names of safetensors have none */
        gg_fail(err, GG_NO, "its architecture is not that of %.200s", gg_source_name(first));
    else if (mine && theirs && !g->o->embeddings_from_base && !gg_same_value(mine, theirs)) {
        gg_fail(err, GG_NO, "its vocabulary (%llu tokens) differs from that of %.200s (%llu)",
                (unsigned long long)theirs->count, gg_source_name(first),
                (unsigned long long)mine->count);
        gg_fix(err, "choose a vocabulary for all models, to which their embeddings are moved "
                    "(--vocabulary base, union or MODEL)");
    } else if (!g->sliced && blocks && deep && deep > blocks) {
        gg_fail(err, GG_NO, "it has %llu blocks, but %.200s has %llu", (unsigned long long)deep,
                gg_source_name(first), (unsigned long long)blocks);
        gg_fix(err, "remove the other blocks first, with organ-stack");
    } else return GG_OK;
    return gg_at_file(err, gg_source_name(s));
}

/* Compares some matrices that are spread over the model. */
static gg_status judge_lineage(gg_source *first, gg_source *s, bool *doubtful, gg_error *err)
{
    gg_tensor_pair pairs[GG_JUDGED];
    size_t count = gg_source_count(first), n = 0, step = count / GG_JUDGED + 1;
    for (size_t i = 0; i < count && n < GG_JUDGED; i++) {
        const gg_tensor *t = gg_source_tensor(first, i);
        size_t twin = gg_source_find(s, t->name, t->name_len);
        /* not 0: at least 1 */
        if (twin == SIZE_MAX || t->dims[1] < 2 || (count > 2 * GG_JUDGED && i % step)) continue;
        if (!gg_same_dims(t, gg_source_tensor(s, twin))) continue;
        pairs[n++] = (gg_tensor_pair){ i, twin };
    }
    gg_compare_options few = { .sample = GG_JUDGED_ROWS, .pairs = pairs, .n_pairs = n };
    return gg_judge_strangers(first, s, &few, true, doubtful, err);
}

gg_status gg_merge_check_kinship(merge_run *g, gg_source *s)
{
    bool doubtful = false;
    gg_source *first = g->first;
    gg_error *err = g->err;
    kinship k = { g, gg_source_name(s), 0 };
    gg_status st = must_agree(g, s);
    if (st != GG_OK) return st;
    gg_key_conflicts(gg_source_meta(first), gg_source_meta(s), GG_COMPAT_BLOCKS, note_conflict, &k);
    gg_table_conflicts(first, s, note_conflict, &k);
    if (err->status != GG_OK || !(g->run->note || g->run->strict)) return err->status;
    st = judge_lineage(first, s, &doubtful, err);
    if (st != GG_OK || !doubtful) return st;
    if (!g->run->strict)
        return gg_held_add(&g->notes, err,
                           "%.100s shares no lineage with %.100s, or its hidden units or "
                           "experts have changed places: the result will be noise",
                           k.name, gg_source_name(first));
    gg_fail_in(err, GG_NO, s, NULL,
               "it shares no lineage with %.200s, or its hidden units or experts have changed "
               "places: the result would be noise",
               gg_source_name(first));
    return gg_fix(err, "merge models that were trained from the same weights or, if something has "
                       "changed places, align them (--align)");
}

/* ---- history: hashes ------------------------------------------------------------------- */

/* Split models, directories and pipes have no file with a hash of its own. */
static gg_status hash_model(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    merge_member *m = &((merge_run *)ctx)->all[i];
    const gg_model *files = m->source ? gg_source_model(m->source) : NULL;
    (void)worker;
    if (!files || files->n_files != 1 || strcmp(gg_source_name(m->source), "-") == 0) return GG_OK;
    gg_status st = gg_file_sha256(files->fds[0], 0, files->file_sizes[0], m->sha256, NULL, err);
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(m->source));
}

gg_status gg_merge_hash_models(merge_run *g)
{
    const char *sha;
    size_t len;
    if (g->o->no_hash) return GG_OK;
    gg_status st = gg_parallel(g->n + 1, g->run->threads, hash_model, g, g->err);
    for (size_t i = 0; i < g->n && st == GG_OK; i++) {
        gg_source *s = g->given->list[i].activations;
        const gg_meta *m = s ? gg_source_meta(s) : NULL;
        const char *own = g->all[1 + i].sha256;
        if (!m || !own[0] || !gg_kv_str(gg_meta_find(m, "activations.model.sha256"), &sha, &len) ||
            (len == 64 && memcmp(sha, own, 64) == 0))
            continue;
        gg_fail_in(g->err, GG_NO, s, NULL, "these are the activations of another model than %.200s",
                   gg_source_name(g->all[1 + i].source));
        return gg_fix(g->err, "write them again with organ-probe");
    }
    return st;
}

/* ---- history: keys ----------------------------------------------------------------------- */

/* "Verse + Code (ties)", each name as `put` puts it. */
static void put_title(const merge_run *g, gg_buf *b,
                      gg_status (*put)(gg_buf *b, const void *text, size_t len, gg_error *err))
{
    const char *name;
    size_t len;
    bool lead = g->all[0].source && g->m.method->base == GG_MERGE_BASE_FIRST;
    size_t first = lead ? 0 : 1;
    for (size_t i = first; i <= g->n; i++) {
        if (i > first) gg_buf_text(b, " + ", g->err);
        gg_model_name(g->all[i].source, &name, &len);
        put(b, name, len, g->err);
    }
    gg_buf_printf(b, g->err, " (%s)", g->m.method->name);
}

/* Sets arrays of strings with one item per model. */
static void set_models(const merge_run *g, gg_meta *meta)
{
    gg_buf names = GG_BUF_INIT, texts = GG_BUF_INIT, hashes = GG_BUF_INIT;
    for (size_t i = 1; i <= g->n; i++) {
        const merge_member *m = &g->all[i];
        const char *name, *text = m->text ? m->text : "";
        size_t len;
        gg_model_name(m->source, &name, &len);
        gg_array_add_str(&names, name, len, g->err);
        gg_array_add_str(&texts, text, strlen(text), g->err);
        gg_array_add_str(&hashes, m->sha256, strlen(m->sha256), g->err);
    }
    gg_meta_set_array(meta, "organ.merge.models", GG_TYPE_STR, g->n, &names, g->err);
    gg_meta_set_array(meta, "organ.merge.models.parameters", GG_TYPE_STR, g->n, &texts, g->err);
    if (!g->o->no_hash)
        gg_meta_set_array(meta, "organ.merge.models.sha256", GG_TYPE_STR, g->n, &hashes, g->err);
    gg_buf_free(&names);
    gg_buf_free(&texts);
    gg_buf_free(&hashes);
}

static void set_text(const merge_run *g, gg_meta *meta, const char *key, const char *text)
{
    gg_meta_set_str(meta, key, text, strlen(text), g->err);
}

static void set_name(const merge_run *g, gg_meta *meta, const char *key, const gg_source *model)
{
    const char *name;
    size_t len;
    gg_model_name(model, &name, &len);
    gg_meta_set_str(meta, key, name, len, g->err);
}

static const char *parameters_of(const merge_run *g)
{
    return g->slices ? g->slices : g->o->parameters ? g->o->parameters : "";
}

static void delete_history(gg_meta *meta)
{
    size_t kept = 0;
    for (size_t i = 0; i < meta->n; i++)
        if (!gg_text_begins(meta->kv[i].key, meta->kv[i].key_len, "organ.merge.") &&
            !gg_text_is(meta->kv[i].key, meta->kv[i].key_len, "organ.history"))
            meta->kv[kept++] = meta->kv[i];
    meta->n = kept;
}

/* The metadata of a safetensors file are texts: the names of the models in one, after ", ". */
static gg_status set_text_history(const merge_run *g, gg_meta *meta)
{
    gg_buf list = GG_BUF_INIT;
    for (size_t i = 1; i <= g->n; i++) {
        const char *name;
        size_t len;
        gg_model_name(g->all[i].source, &name, &len);
        gg_buf_printf(&list, g->err, "%s%.*s", i > 1 ? ", " : "", (int)len, name);
    }
    set_text(g, meta, "organ.merge.method", g->m.method->name);
    set_text(g, meta, "organ.merge.parameters", parameters_of(g));
    if (list.data) gg_meta_set_str(meta, "organ.merge.models", list.data, list.len, g->err);
    gg_buf_free(&list);
    return g->err->status;
}

gg_status gg_merge_set_history(const merge_run *g, gg_meta *meta)
{
    const merge_member *base = &g->all[0];
    gg_buf title = GG_BUF_INIT;
    char seed[64];
    delete_history(meta);
    if (gg_source_refusal(g->all[1].source)) return set_text_history(g, meta);
    put_title(g, &title, gg_buf_append);
    if (title.data) gg_meta_set_str(meta, "general.name", title.data, title.len, g->err);
    gg_buf_free(&title);
    set_text(g, meta, "organ.merge.method", g->m.method->name);
    set_text(g, meta, "organ.merge.parameters", parameters_of(g));
    snprintf(seed, sizeof seed, "organ.merge.seed=u64:%llu", (unsigned long long)g->m.seed);
    if (g->m.method->random) gg_meta_set_text(meta, seed, g->err);
    if (g->o->align) gg_meta_set_text(meta, "organ.merge.aligned=bool:true", g->err);
    if (g->o->embeddings_from_base)
        gg_meta_set_text(meta, "organ.merge.embeddings_from_base=bool:true", g->err);
    if (g->o->vocabulary.of) set_name(g, meta, "organ.merge.vocabulary", g->o->vocabulary.of);
    else if (g->o->vocabulary.words != GG_MERGE_WORDS_SAME)
        set_text(g, meta, "organ.merge.vocabulary",
                 g->o->vocabulary.words == GG_MERGE_WORDS_BASE ? "base" : "union");
    if (base->source) set_name(g, meta, "organ.merge.base", base->source);
    if (base->source && base->sha256[0]) set_text(g, meta, "organ.merge.base.sha256", base->sha256);
    set_models(g, meta);
    return g->err->status;
}

/* ---- history: the card ------------------------------------------------------------------- */

static void put_row(gg_buf *b, const merge_member *m, const char *role, gg_error *err)
{
    const char *name;
    size_t len;
    gg_buf_printf(b, err, "| %s | ", role);
    gg_model_name(m->source, &name, &len);
    markdown_put(b, name, len, err);
    gg_buf_text(b, " | ", err);
    if (m->text) markdown_put(b, m->text, strlen(m->text), err);
    gg_buf_printf(b, err, " | %s |\n", m->sha256);
}

gg_status gg_merge_write_card(const merge_run *g, int fd, uint64_t at)
{
    const char *parameters = parameters_of(g);
    gg_error *err = g->err;
    gg_buf b = GG_BUF_INIT;
    gg_buf_text(&b, "# ", err);
    put_title(g, &b, markdown_put);
    gg_buf_printf(&b, err, "\n\nThis model was merged with organ-merge.\n\nMethod: %s",
                  g->m.method->name);
    if (parameters[0]) gg_buf_text(&b, " with ", err);
    markdown_put(&b, parameters, strlen(parameters), err);
    if (g->m.method->random) gg_buf_printf(&b, err, ", seed %llu", (unsigned long long)g->m.seed);
    gg_buf_printf(&b, err,
                  ". %zu tensors were merged and %zu copied.\n\n"
                  "| role | model | parameters | sha256 |\n|---|---|---|---|\n",
                  g->report->merged, g->report->copied);
    for (size_t i = !g->all[0].source; i <= g->n; i++)
        put_row(&b, &g->all[i], i ? "model" : "base", err);
    if (err->status == GG_OK) gg_put_all(fd, b.data, b.len, at, err);
    gg_buf_free(&b);
    return err->status;
}

gg_status gg_merge_guard(const merge_run *g, const char *output)
{
    const char *card = g->o->card;
    gg_status st = GG_OK;
    if (!output) return GG_OK;
    for (size_t i = 0; i <= g->n && st == GG_OK; i++) {
        gg_source *read = i ? g->given->list[i - 1].activations : NULL;
        if (card) st = gg_guard_output(card, g->all[i].source, g->err);
        if (st == GG_OK) st = gg_guard_output(output, g->all[i].source, g->err);
        if (st == GG_OK) st = gg_guard_output(output, read, g->err);
    }
    if (st != GG_OK || !card || strcmp(card, output) != 0) return st;
    gg_fail(g->err, GG_EUSAGE, "the model and its card have the same name");
    return gg_at_file(g->err, card);
}

/* ---- tensors --------------------------------------------------------------------------- */

bool gg_merge_keeps(const merge_run *g, const gg_tensor *t)
{
    const char *role = t->name + t->a.role_at;
    return gg_is_integer(t->dtype) || strncmp(role, "rope_freqs", 10) == 0 ||
           strncmp(role, "rope_factors_", 13) == 0 ||
           (g->o->embeddings_from_base && t->a.cls == GG_EMBED);
}

static gg_status other_dims(const gg_tensor *t, const gg_tensor *theirs, const gg_source *s,
                            gg_error *err)
{
    char a[96], b[96];
    gg_dims_text(theirs, a);
    gg_dims_text(t, b);
    gg_fail_in(err, GG_NO, s, t, "its dims are %s, but those of the first model are %s", a, b);
    if (t->a.cls != GG_EMBED) return gg_fix(err, "only models with the same dims can be merged");
    return gg_fix(err, "keep the embeddings of the first model, if its vocabulary is the right "
                       "one (--embed-from base)");
}

/* The embeddings of a model without a head of its own, if t is the head; SIZE_MAX for others. */
static size_t tied_head(const gg_source *s, const gg_tensor *t)
{
    return gg_text_is(t->name, t->name_len, GG_MERGE_HEAD)
               ? gg_source_find(s, "token_embd.weight", sizeof "token_embd.weight" - 1)
               : SIZE_MAX;
}

gg_status gg_merge_find(const merge_run *g, const gg_source *s, const gg_tensor *t, size_t *at)
{
    gg_error *err = g->err;
    *at = gg_source_find(s, t->name, t->name_len);
    if (*at == SIZE_MAX && (*at = tied_head(s, t)) != SIZE_MAX)
        gg_note(g->run, "%s: it has no %s, so its embeddings are merged as its head",
                gg_source_name(s), GG_MERGE_HEAD);
    if (*at == SIZE_MAX && gg_source_count(s) &&
        gg_source_tensor(s, 0)->a.part == GG_PART_ADAPTER) {
        gg_fail_in(err, GG_NO, s, NULL, "this is an adapter");
        return gg_fix(err,
                      "fold it into its base: organ-transplant BASE --adapter FILE -o NEW.gguf");
    }
    if (*at == SIZE_MAX) return gg_fail_in(err, GG_NO, s, t, "it does not have this tensor");
    const gg_tensor *theirs = gg_source_tensor(s, *at);
    if (!gg_same_dims(t, theirs)) return other_dims(t, theirs, s, err);
    if (gg_can_decode(theirs->dtype)) return GG_OK;
    return gg_fail_in(err, GG_EUNSUPPORTED, s, t, "%s cannot be decoded",
                      gg_dtype_get(theirs->dtype) ? gg_dtype_get(theirs->dtype)->name : "its type");
}

gg_status gg_merge_tell(const merge_run *g, const gg_tensor *t, const char *how, const char *text)
{
    if (!g->o->row) return GG_OK;
    gg_merge_row row = { t, how, text };
    return g->o->row(g->o->ctx, &row, g->err);
}

gg_status gg_merge_copy(merge_run *g, gg_plan_tensor *pt, gg_source *s, size_t at)
{
    gg_plan_part part = gg_plan_whole(s, at);
    gg_input in = { gg_source_tensor(s, at)->dtype, &part, 1 };
    gg_producer p;
    g->report->copied++;
    gg_plan_compute(pt, NULL, NULL); /* without parts */
    if (in.dtype == pt->t.dtype) return gg_plan_add_part(pt, &part, g->err);
    gg_status st = gg_compute_convert(&g->made, &pt->t, &in, &p, g->err);
    if (st == GG_OK) gg_plan_compute(pt, p.make, p.ctx);
    return st;
}

gg_status gg_merge_refuse_scaled(const merge_run *g, const gg_source *s, const gg_tensor *t)
{
    char scale[GG_RECORD_NAME + 1];
    if (gg_find_scale(s, t->name, t->name_len, scale) == SIZE_MAX) return GG_OK;
    gg_fail_in(g->err, GG_EUNSUPPORTED, s, t,
               "its values are scaled by %s, so they cannot be merged", scale);
    return gg_fix(g->err, "use the model before it was quantized");
}

gg_status gg_merge_note_default(merge_run *g, const gg_merging *m, const gg_tensor *t)
{
    static const gg_merge_param required[] = { GG_MP_WEIGHT, GG_MP_T };
    for (size_t i = 0; i < 2 * (m->n + 1) && !g->defaulted; i++) {
        gg_merge_param p = required[i % 2];
        const gg_merge_settings *own = i / 2 < m->n ? &m->of_model[i / 2] : &m->global;
        bool filtered = false;
        double value;
        for (size_t k = 0; k < own->n; k++)
            filtered = filtered || (own->list[k].param == p && own->list[k].by_substring &&
                                    own->list[k].filter);
        if (!filtered || gg_merge_setting_value(own, p, t, m->blocks, &value) ||
            gg_merge_setting_value(&m->global, p, t, m->blocks, &value))
            continue;
        const char *name = gg_merge_params[p].name;
        g->defaulted = true;
        gg_held_add(&g->notes, g->err,
                    "no filter of %s%s%s matches %s, and no value is for all tensors: it takes the "
                    "default of %s, where mergekit stops",
                    name, i / 2 < m->n ? " of " : "",
                    i / 2 < m->n ? gg_source_name(m->models[i / 2]) : "", t->name, name);
    }
    return g->err->status;
}

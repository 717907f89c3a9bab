/* verb_merge.c - plans and writes a model that is merged tensor by tensor, or joins slices; stores
 * its origin in its keys and a model card, and reads these keys again. */
#include "common/markdown.h"
#include "merging.h"

#include "assemble/gg_stack.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/io.h"
#include "base/nearest.h"
#include "base/output.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/utf8.h"
#include "compute/compute.h"
#include "compute/dtype_rules.h"
#include "gguf/gguf.h"
#include "kin/gg_compare_model.h"
#include "kin/lineage.h"
#include "organ/gg_align.h"
#include "organ/output_guard.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "write/copy.h"
#include "write/history.h"
#include "write/key_compat.h"
#include "write/keys.h"
#include "write/plan.h"
#include "write/verb_run.h"
#include "json/json.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define SHOWN ((size_t)3)
#define NAME_SHOWN 256 /* bytes of a model's name that are shown */

/* A model, or the base. */
typedef struct merge_member {
    gg_source *source;  /* the caller's; NULL = there is no base */
    gg_source *shown;   /* with another vocabulary; NULL = with its own */
    gg_source *aligned; /* owned; NULL = used as it is */
    const char *text;   /* its parameters as given; NULL = none */
    char sha256[65];    /* "" = not computed */
} merge_member;

typedef struct merge_run {
    const gg_merge_models *given;
    const gg_merge_options *o;
    const gg_run *run;
    merge_member all[1 + GG_MERGE_MODELS]; /* the base, and n models */
    size_t n;
    char *slices; /* the slices, as parameters; owned; NULL = none */
    gg_merging m;
    gg_source *first;  /* gives keys, order and dtypes; a view if the vocabulary changes, */
    gg_source *origin; /* and what it shows */
    gg_merge_shown shown;
    gg_plan plan;
    gg_computations made;
    gg_imatrix *imatrix; /* NULL = none */
    gg_dtype_rules *rules;
    gg_held_notes notes;
    gg_merge_report *report;
    bool sliced;    /* the result has other blocks than the models */
    bool head;      /* the result has a head although the first model has none of its own */
    bool defaulted; /* note_default has noted a tensor */
    gg_error *err;
} merge_run;

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

/* Takes the models, each of which must be a file of its own. A base that only gives keys may also
 * be one of the models. */
static gg_status take_models(merge_run *g, gg_merge_base use)
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

/* Replaces the models by views with one vocabulary. The first of the list gives the keys. */
static gg_status show_models(merge_run *g)
{
    const gg_merge_vocabulary *what = &g->o->vocabulary;
    gg_merging *m = &g->m;
    gg_source *list[GG_MERGE_MODELS + 2];
    size_t n = 0, at[GG_MERGE_MODELS + 1];
    g->origin = g->first;
    if (what->words == GG_MERGE_WORDS_SAME) return GG_OK;
    if (g->o->embeddings_from_base)
        return gg_fail(g->err, GG_EUSAGE,
                       "the embeddings are either those of the base, or get a vocabulary");
    list[n++] = g->first;
    for (size_t i = 0; i <= g->n; i++) {
        gg_source *s = g->all[i].source;
        /* A base that only gives keys may also be one of the models. */
        at[i] = !s || strcmp(gg_source_name(s), gg_source_name(g->first)) == 0 ? 0 : n;
        if (at[i]) list[n++] = s;
    }
    gg_status st = gg_merge_show(what, list, n, g->given->base != NULL, &g->notes, &g->shown,
                                 g->err);
    for (size_t i = 0; i <= g->n && st == GG_OK; i++) {
        gg_source *view = g->shown.views[at[i]];
        if (!g->all[i].source || !view) continue;
        g->all[i].shown = view;
        for (size_t k = 0; k < m->n; k++)
            if (m->models[k] == g->all[i].source) m->models[k] = view;
        if (m->base == g->all[i].source) m->base = view;
        if (g->first == g->all[i].source) g->first = view;
    }
    return st;
}

/* Replaces every model but the first by its aligned version, as gg_align makes it. */
static gg_status align_models(merge_run *g)
{
    gg_status st = GG_OK;
    for (size_t i = 1; i <= g->n && st == GG_OK && g->o->align; i++) {
        merge_member *one = &g->all[i];
        gg_source *s = one->shown ? one->shown : one->source;
        if (s == g->first) continue;
        st = gg_align(g->first, s, NULL, &one->aligned, g->run, NULL, g->err);
        for (size_t k = 0; k < g->m.n && st == GG_OK; k++)
            if (g->m.models[k] == s) g->m.models[k] = one->aligned;
    }
    return st;
}

/* ---- the method and its models -------------------------------------------------------- */

static gg_status find_method(merge_run *g)
{
    const char *text = g->o->method ? g->o->method : "";
    char shown[100], meant[GG_MEANT];
    const char *known[200];
    size_t len = strlen(text), n = 0;
    g->m.method = gg_merge_method_by_name(text, len);
    if (g->m.method) return GG_OK;
    for (size_t i = 0; i < gg_merge_methods_n && n + 1 < sizeof known / sizeof *known; i++) {
        known[n++] = gg_merge_methods[i].alias;
        known[n++] = gg_merge_methods[i].name;
    }
    gg_escape(text, len < 40 ? len : 40, shown, sizeof shown);
    gg_fail(g->err, GG_EUSAGE, "unknown method '%s'%s", shown,
            gg_meant(gg_nearest(text, len, known, n), meant));
    return gg_fix(g->err, "use a method such as linear, slerp, task, ties, dare_ties, della, "
                          "model_stock or iso; the manual page lists them all");
}

static gg_status read_parameters(merge_run *g)
{
    gg_merging *m = &g->m;
    if (g->given->n > GG_MERGE_MODELS)
        return gg_fail(g->err, GG_EUSAGE, "more than %d models", GG_MERGE_MODELS);
    gg_status st = gg_merge_settings_add(&m->global, g->o->parameters, g->err);
    bool lead = g->given->base && m->method->base == GG_MERGE_BASE_FIRST;
    for (size_t i = 0; i < g->given->n && st == GG_OK; i++)
        st = gg_merge_settings_add(&m->of_model[i + lead], g->given->list[i].parameters, g->err);
    return st;
}

/* Does a setting name a parameter that the method does not take? */
static gg_status check_settings(const merge_run *g, const gg_merge_settings *s)
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

static gg_status check_number(const merge_run *g, size_t n)
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

static gg_status check_activations(const merge_run *g, const gg_merge_model *one)
{
    bool needs = g->m.method->grams;
    if (needs == (one->activations != NULL) && !(needs && g->o->align)) return GG_OK;
    if (needs && g->o->align)
        return gg_fail(g->err, GG_EUSAGE,
                       "samples of inputs are in the order of their model, so models cannot be "
                       "aligned with %s",
                       g->m.method->name);
    gg_fail(g->err, GG_EUSAGE,
            needs ? "%s needs the activations of this model" : "%s does not use activations",
            g->m.method->name);
    if (needs) gg_fix(g->err, "write them with organ-probe, and give MODEL,activations=FILE");
    return gg_at_file(g->err, gg_source_name(one->source));
}

/* Parameters of a model that are not its own. */
static gg_status note_settings(merge_run *g, const gg_merge_settings *s, const gg_source *model)
{
    for (size_t i = 0; i < s->n; i++) {
        const gg_merge_parameter *p = &gg_merge_params[s->list[i].param];
        bool again = p->each;
        for (size_t k = 0; k < i; k++) again = again || s->list[k].param == s->list[i].param;
        if (!again)
            gg_held_add(&g->notes, g->err,
                        "%s: its %s is left out, because one %s counts for the whole merge",
                        gg_source_name(model), p->name, p->name);
    }
    return g->err->status;
}

/* Lists the models in the order in which the method gets them. */
static gg_status arrange_models(merge_run *g)
{
    gg_merging *m = &g->m;
    gg_merge_base use = m->method->base;
    bool based = g->given->base != NULL, lead = based && use == GG_MERGE_BASE_FIRST;
    gg_status st = check_number(g, g->n + lead);
    if (st == GG_OK) st = check_settings(g, &m->global);
    if (st != GG_OK) return st;
    if (lead) m->models[m->n++] = g->given->base;
    for (size_t i = 0; i < g->n && st == GG_OK; i++) {
        st = check_settings(g, &m->of_model[m->n]);
        if (st == GG_OK) st = note_settings(g, &m->of_model[m->n], g->all[1 + i].source);
        if (st == GG_OK) st = check_activations(g, &g->given->list[i]);
        m->inputs[m->n] = g->given->list[i].activations;
        m->models[m->n++] = g->all[1 + i].source;
    }
    m->base = g->given->base;
    m->has_base = based && (use == GG_MERGE_BASE_MAY || use == GG_MERGE_BASE_MUST);
    m->seed = g->o->seed;
    g->first = based ? g->given->base : m->models[0];
    m->blocks = gg_arch_number(gg_source_meta(g->first), "block_count");
    return st;
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

/* Differences of keys other than the architecture and the tokens, and a model without a common
 * lineage, become notes, or the lineage an error with run->strict. */
static gg_status check_kinship(merge_run *g, gg_source *s)
{
    bool doubtful = false;
    gg_source *first = g->first;
    gg_error *err = g->err;
    kinship k = { g, gg_source_name(s), 0 };
    gg_status st = must_agree(g, s);
    if (st != GG_OK) return st;
    gg_key_conflicts(gg_source_meta(first), gg_source_meta(s), GG_COMPAT_BLOCKS, note_conflict, &k);
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

/* Hashes the models. The samples must be those of the model. */
static gg_status hash_models(merge_run *g)
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

/* Sets general.name and the keys organ.merge.*. The first error ends up in g->err. */
static gg_status set_history(const merge_run *g, gg_meta *meta)
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
    if (g->o->vocabulary.words != GG_MERGE_WORDS_SAME) {
        static const char *const words[] = { "", "base", "", "union" };
        const char *name = words[g->o->vocabulary.words];
        size_t len = strlen(name);
        if (g->o->vocabulary.of) gg_model_name(g->o->vocabulary.of, &name, &len);
        gg_meta_set_str(meta, "organ.merge.vocabulary", name, len, g->err);
    }
    if (base->source) {
        const char *name;
        size_t len;
        gg_model_name(base->source, &name, &len);
        gg_meta_set_str(meta, "organ.merge.base", name, len, g->err);
        if (base->sha256[0]) set_text(g, meta, "organ.merge.base.sha256", base->sha256);
    }
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

/* Writes the card to the open file `fd`, from `at` on. */
static gg_status write_card(const merge_run *g, int fd, uint64_t at)
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

/* ---- tensors --------------------------------------------------------------------------- */

/* The parameters of a tensor as text: "weight=0.6,0.4 lambda=1". Cut to `size`. */
static void job_text(const gg_merge_job *j, char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < j->method->n_takes && at < size; i++) {
        gg_merge_param p = j->method->takes[i].param;
        size_t values = 1;
        for (size_t k = 1; k < j->n; k++)
            if (j->p[k][p] != j->p[0][p]) values = j->n;
        at += (size_t)snprintf(out + at, size - at, "%s%s=", i ? " " : "", gg_merge_params[p].name);
        for (size_t k = 0; k < values && at < size; k++) {
            char number[32];
            gg_format_f64(j->p[k][p], number);
            at += (size_t)snprintf(out + at, size - at, "%s%s", k ? "," : "", number);
        }
    }
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

static const char head_name[] = "output.weight";

/* The embeddings of a model without a head of its own, if t is the head; SIZE_MAX for others. */
static size_t tied_head(const gg_source *s, const gg_tensor *t)
{
    return gg_text_is(t->name, t->name_len, head_name)
               ? gg_source_find(s, "token_embd.weight", sizeof "token_embd.weight" - 1)
               : SIZE_MAX;
}

/* GG_NO if the tensor is missing or has other dims; GG_EUNSUPPORTED if it cannot be decoded. */
static gg_status find_in_model(const merge_run *g, const gg_source *s, const gg_tensor *t,
                               size_t *at)
{
    gg_error *err = g->err;
    *at = gg_source_find(s, t->name, t->name_len);
    if (*at == SIZE_MAX && (*at = tied_head(s, t)) != SIZE_MAX)
        gg_note(g->run, "%s: it has no %s, so its embeddings are merged as its head",
                gg_source_name(s), head_name);
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

/* Finds tensor t of the first model in all others: at[k] as in gg_merge_producer. */
static gg_status find_in_models(const merge_run *g, const gg_tensor *t, size_t *at)
{
    const gg_merging *m = &g->m;
    gg_status st = GG_OK;
    for (size_t k = 0; k < m->n && st == GG_OK; k++) st = find_in_model(g, m->models[k], t, &at[k]);
    at[m->n] = SIZE_MAX;
    return st == GG_OK && m->has_base ? find_in_model(g, m->base, t, &at[m->n]) : st;
}

static gg_status report_row(const merge_run *g, const gg_tensor *t, const char *how,
                            const char *text)
{
    if (!g->o->row) return GG_OK;
    gg_merge_row row = { t, how, text };
    return g->o->row(g->o->ctx, &row, g->err);
}

/* Plans tensor t as that of a source, in t's dtype. */
static gg_status plan_copied(merge_run *g, const gg_tensor *t, gg_source *s, size_t at)
{
    gg_plan_tensor *pt;
    gg_producer p;
    gg_plan_part part = gg_plan_whole(s, at);
    gg_input in = { gg_source_tensor(s, at)->dtype, &part, 1 };
    g->report->copied++;
    if (in.dtype == t->dtype) {
        gg_status st = gg_plan_add(&g->plan, t, &pt, g->err);
        return st == GG_OK ? gg_plan_add_part(pt, &part, g->err) : st;
    }
    gg_status st = gg_compute_convert(&g->made, t, &in, &p, g->err);
    return st == GG_OK ? gg_plan_add_made(&g->plan, t, p.make, p.ctx, g->err) : st;
}

/* Values that a separate tensor scales (in NVFP4) are not those of the weight alone. */
static gg_status refuse_scaled(const merge_run *g, const gg_merging *m, const gg_tensor *t)
{
    char scale[GG_RECORD_NAME + 1];
    for (size_t k = 0; k <= m->n; k++) {
        const gg_source *s = k < m->n ? m->models[k] : m->base;
        if (!s || gg_find_scale(s, t->name, t->name_len, scale) == SIZE_MAX) continue;
        gg_fail_in(g->err, GG_EUNSUPPORTED, s, t,
                   "its values are scaled by %s, so they cannot be merged", scale);
        return gg_fix(g->err, "use the model before it was quantized");
    }
    return GG_OK;
}

/* How a tensor is merged. */
typedef struct tensor_merge {
    char text[600]; /* the parameters; those of experts one after another where they differ */
    size_t from;    /* the input that it is a copy of, as gg_merge_method.unchanged; or SIZE_MAX */
    bool copies;    /* only some of its experts are copies of an input, or of different ones */
} tensor_merge;

/* Adds the parameters of experts `first` to `last`. */
static void add_expert_text(tensor_merge *how, uint64_t first, uint64_t last, const char *text)
{
    size_t at = strlen(how->text), room = sizeof how->text - at;
    char numbers[64];
    snprintf(numbers, sizeof numbers, "%sexperts %llu-%llu: ", at ? "; " : "",
             (unsigned long long)first, (unsigned long long)last);
    if (strlen(numbers) < room)
        snprintf(how->text + at, room, "%s%.*s", numbers, (int)(room - strlen(numbers) - 1), text);
}

/* Starts the jobs of a tensor to see what they do. */
static gg_status describe_merge(const gg_merging *m, const gg_tensor *t, tensor_merge *how,
                                gg_error *err)
{
    char text[2][sizeof how->text] = { "" };
    uint64_t n = gg_merge_experts(t), first = 0;
    gg_status st = GG_OK;
    *how = (tensor_merge){ .from = SIZE_MAX };
    for (uint64_t e = 0; e < n && st == GG_OK; e++) {
        gg_merge_job j;
        st = gg_merge_job_start(m, t, e, &j, err);
        size_t from = st == GG_OK && m->method->work->unchanged ? m->method->work->unchanged(&j)
                                                                : SIZE_MAX;
        if (st == GG_OK) job_text(&j, text[e % 2], sizeof text[0]);
        gg_merge_job_free(&j);
        if (e == 0) how->from = from;
        how->copies = how->copies || from != how->from;
        if (e == 0 || strcmp(text[0], text[1]) == 0) continue;
        add_expert_text(how, first, e - 1, text[(e - 1) % 2]);
        first = e;
    }
    if (how->copies) how->from = SIZE_MAX;
    if (first) add_expert_text(how, first, n - 1, text[(n - 1) % 2]);
    else memcpy(how->text, text[0], sizeof text[0]);
    return st;
}

/* Notes a tensor that no filter of a parameter matches which mergekit requires. */
static gg_status note_default(merge_run *g, const gg_merging *m, const gg_tensor *t)
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

static gg_status plan_merged(merge_run *g, const gg_tensor *t, const size_t *at)
{
    gg_producer p;
    tensor_merge how;
    gg_status st = describe_merge(&g->m, t, &how, g->err);
    size_t k = how.from;
    if (st == GG_OK) st = note_default(g, &g->m, t);
    if (st == GG_OK) st = report_row(g, t, k == SIZE_MAX ? "merge" : "copy", how.text);
    if (st != GG_OK) return st;
    if (k != SIZE_MAX) return plan_copied(g, t, k < g->m.n ? g->m.models[k] : g->m.base, at[k]);
    st = refuse_scaled(g, &g->m, t);
    if (st == GG_OK) st = gg_merge_producer(&g->made, &g->m, at, how.copies, &p, g->err);
    if (st != GG_OK) return st;
    g->report->merged++;
    return gg_plan_add_made(&g->plan, t, p.make, p.ctx, g->err);
}

/* Factors of RoPE are computed from keys, which are those of the first model. */
static bool is_rope_table(const gg_tensor *t)
{
    const char *role = t->name + t->a.role_at;
    return strncmp(role, "rope_freqs", 10) == 0 || strncmp(role, "rope_factors_", 13) == 0;
}

/* If the first model has tied embeddings and another has a head, the result has a head. */
static gg_status plan_head(merge_run *g, size_t *at)
{
    size_t i = gg_source_find(g->first, "token_embd.weight", sizeof "token_embd.weight" - 1);
    bool theirs = false;
    for (size_t k = 0; k < g->m.n && !theirs; k++)
        theirs = gg_source_find(g->m.models[k], head_name, sizeof head_name - 1) != SIZE_MAX;
    if (!theirs || i == SIZE_MAX || g->o->embeddings_from_base) return GG_OK;
    if (gg_source_find(g->first, head_name, sizeof head_name - 1) != SIZE_MAX) return GG_OK;
    gg_tensor t = *gg_source_tensor(g->first, i);
    t.name = head_name;
    t.name_len = sizeof head_name - 1;
    t.a = gg_anatomy_of(t.name, t.name_len);
    g->head = true;
    gg_status st = find_in_models(g, &t, at);
    return st == GG_OK ? plan_merged(g, &t, at) : st;
}

static gg_status plan_all(merge_run *g)
{
    gg_status st = GG_OK;
    size_t *at = calloc(g->m.n + 1, sizeof *at);
    if (!at) return gg_fail(g->err, GG_ENOMEM, "no memory for the tensors");
    for (size_t i = 0; i < gg_source_count(g->first) && st == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(g->first, i);
        bool kept = gg_is_integer(t->dtype) || is_rope_table(t) ||
                    (g->o->embeddings_from_base &&
                     gg_source_tensor(g->first, i)->a.cls == GG_EMBED);
        if (kept) {
            st = report_row(g, t, "copy", "");
            if (st == GG_OK) st = plan_copied(g, t, g->first, i);
            continue;
        }
        gg_merge_settings_visit(&g->m.global, t);
        for (size_t k = 0; k < g->m.n; k++) gg_merge_settings_visit(&g->m.of_model[k], t);
        st = find_in_models(g, t, at);
        if (st == GG_OK) st = plan_merged(g, t, at);
    }
    if (st == GG_OK) st = plan_head(g, at);
    free(at);
    if (st == GG_OK) st = gg_merge_settings_used(&g->m.global, g->err);
    for (size_t k = 0; k < g->m.n && st == GG_OK; k++)
        st = gg_merge_settings_used(&g->m.of_model[k], g->err);
    return st;
}

/* Notes tensors that are not merged because their values are integers. */
static void note_integers(const merge_run *g)
{
    const gg_tensor *example = NULL;
    size_t n = 0;
    for (size_t i = 0; i < gg_source_count(g->first); i++) {
        const gg_tensor *t = gg_source_tensor(g->first, i);
        if (gg_is_integer(t->dtype) && n++ == 0) example = t;
    }
    if (n)
        gg_note(
            g->run,
            "%zu tensor%s of integers %s copied from the first model, because integers cannot be "
            "merged: %s%s",
            n, n == 1 ? "" : "s", n == 1 ? "is" : "are", example->name, n == 1 ? "" : ", ...");
}

/* Notes tensors that only other models have. */
static void note_left_out(const merge_run *g)
{
    for (size_t k = 0; k < g->m.n; k++) {
        const gg_tensor *example = NULL;
        const gg_source *s = g->m.models[k];
        size_t n = 0;
        for (size_t i = 0; i < gg_source_count(s); i++) {
            const gg_tensor *t = gg_source_tensor(s, i);
            if (gg_source_find(g->first, t->name, t->name_len) != SIZE_MAX) continue;
            if (g->head && gg_text_is(t->name, t->name_len, head_name)) continue;
            if (n++ == 0) example = t;
        }
        if (n)
            gg_note(g->run,
                    "%s: %zu tensor%s left out, because the first model has none of that "
                    "name: %s%s",
                    gg_source_name(s), n, n == 1 ? "" : "s", example->name, n == 1 ? "" : ", ...");
    }
}

/* ---- keys and files ---------------------------------------------------------------------- */

static gg_status plan_keys_and_files(merge_run *g, const char *output)
{
    gg_meta meta = GG_META_INIT;
    gg_plan *p = &g->plan;
    gg_split split = { (uint32_t)g->o->output.shards, g->o->output.shard_size };
    size_t changed = 0, weighed = 0;
    gg_tensor *list = gg_plan_list(p, 0, p->n, g->err);
    gg_status st = list ? gg_meta_copy(&meta, gg_source_meta(g->first), g->err) : GG_ENOMEM;
    if (st == GG_OK) st = gg_type_keys_change(&meta, g->first, list, p->n, g->err);
    free(list);
    if (st == GG_OK) st = set_history(g, &meta);
    if (st == GG_OK && g->rules)
        st = gg_dtype_rules_apply(g->rules, p, &meta, &g->made, &changed, g->run, g->err);
    for (size_t i = 0; i < p->n && st == GG_OK; i++) /* now that the dtypes are final */
        if (p->tensors[i].make) st = gg_compute_check_output(&p->tensors[i].t, g->imatrix, g->err);
    if (st == GG_OK && g->imatrix) st = gg_imatrix_review(g->imatrix, p, &weighed, g->run, g->err);
    if (st == GG_OK) st = gg_plan_output(p, &split, output, &meta, g->origin, g->run, g->err);
    gg_meta *keys = st == GG_OK ? &p->files[0].meta : NULL;
    if (keys && changed) st = gg_dtype_rules_keys(g->rules, p, keys, g->err);
    if (keys && weighed && st == GG_OK) st = gg_imatrix_keys(g->imatrix, keys, g->err);
    if (keys && st == GG_OK) st = gg_set_keys(keys, &g->o->output, g->err);
    gg_meta_free(&meta);
    return st;
}

/* ---- merging --------------------------------------------------------------------------- */

/* Neither the result nor its card replaces a model, or the other one. */
static gg_status guard_files(const merge_run *g, const char *output)
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

/* The card is on the disk before the model gets its name, so that only its renaming can fail then.
 */
static gg_status write_files(merge_run *g)
{
    gg_output *card = NULL;
    uint64_t row = 0;
    for (size_t i = 0; i < g->plan.n; i++)
        if (g->plan.tensors[i].t.dims[0] > row) row = g->plan.tensors[i].t.dims[0];
    gg_run run = gg_merge_bounded(&g->m, row, g->run);
    gg_status st = GG_OK;
    bool print = g->o->card && strcmp(g->o->card, "-") == 0;
    if (g->o->card && !print) {
        st = gg_output_open(g->o->card, g->run->force, &card, g->err);
        if (st == GG_OK) st = write_card(g, gg_output_fd(card), 0);
        if (st == GG_OK) st = gg_output_sync(card, g->err);
        gg_at_file(g->err, g->o->card);
    }
    if (st == GG_OK) st = gg_plan_write(&g->plan, &run, &g->report->bytes, g->err);
    if (st == GG_OK && card) return gg_output_commit(card, g->err);
    if (st == GG_OK && print) return write_card(g, STDOUT_FILENO, GG_AT_POS);
    gg_output_abort(card);
    return st;
}

static gg_status merge_tensors(merge_run *g, const char *output)
{
    const gg_output_options *out = &g->o->output;
    gg_status st = out->imatrix ? gg_imatrix_open(out->imatrix, &g->imatrix, g->err) : GG_OK;
    g->made.imatrix = g->imatrix;
    if (st == GG_OK && (out->dtype || out->fallback))
        st = gg_dtype_rules_parse(out->dtype, out->fallback, g->imatrix, &g->rules, g->err);
    if (st == GG_OK) st = take_models(g, g->m.method->base);
    if (st == GG_OK) st = arrange_models(g);
    if (st == GG_OK) st = guard_files(g, output);
    if (st == GG_OK) st = show_models(g);
    if (st == GG_OK) st = align_models(g);
    for (size_t i = 0; i < g->m.n && st == GG_OK; i++)
        if (g->m.models[i] != g->first) st = check_kinship(g, g->m.models[i]);
    if (st == GG_OK) st = plan_all(g);
    if (st == GG_OK && output) st = hash_models(g);
    /* The names of shards need a file. */
    if (st == GG_OK) st = plan_keys_and_files(g, output ? output : "merged.gguf");
    for (size_t i = 0; i <= g->n && st == GG_OK; i++)
        st = gg_watch_add(&g->plan.watch, g->all[i].source, g->err);
    if (st == GG_OK && output) st = write_files(g);
    if (st == GG_OK) note_left_out(g), note_integers(g);
    gg_held_end(&g->notes, g->run, st == GG_OK);
    return st;
}

/* ---- slices: ranges of blocks that are copied, or scaled ------------------------------------- */

typedef struct slice_run {
    merge_run *g;
    gg_merging *of_model; /* each model by itself */
} slice_run;

static gg_status slice_keys(void *ctx, gg_meta *meta, gg_error *err)
{
    const slice_run *r = ctx;
    gg_status st = set_history(r->g, meta);
    return st == GG_OK ? gg_set_keys(meta, &r->g->o->output, err) : st;
}

/* The planned copy becomes a tensor that is computed. */
static gg_status scale_copy(const slice_run *r, gg_merging *m, gg_plan_tensor *pt, bool copies)
{
    gg_producer p;
    size_t at[2] = { pt->parts[0].index, SIZE_MAX };
    gg_status st = refuse_scaled(r->g, m, gg_source_tensor(m->models[0], at[0]));
    if (st == GG_OK) st = gg_merge_producer(&r->g->made, m, at, copies, &p, r->g->err);
    if (st != GG_OK) return st;
    gg_plan_compute(pt, p.make, p.ctx);
    r->g->report->merged++;
    return GG_OK;
}

/* A tensor of a slice is a copy of one model, which is named as in the keys, or is scaled. */
static gg_status plan_slice_tensor(void *ctx, const gg_stack_tensor *t, gg_error *err)
{
    slice_run *r = ctx;
    merge_run *g = r->g;
    gg_merging *m = &r->of_model[t->model];
    tensor_merge how = { .from = 0 };
    char shown[NAME_SHOWN + 1];
    const char *name;
    size_t len;
    gg_status st = GG_OK;
    gg_merge_settings_visit(&g->m.global, t->t);
    if (m->global.n && !gg_is_integer(t->t->dtype)) st = describe_merge(m, t->t, &how, err);
    if (st == GG_OK && how.from == SIZE_MAX) st = scale_copy(r, m, t->planned, how.copies);
    if (st == GG_OK && t->last) st = gg_merge_settings_used(&g->m.global, err);
    if (st != GG_OK || !g->o->row) return st;
    gg_model_name(g->all[1 + t->model].source, &name, &len);
    snprintf(shown, sizeof shown, "%.*s", (int)(len < NAME_SHOWN ? len : NAME_SHOWN), name);
    gg_merge_row row = { t->t, "copy", shown };
    if (how.from == SIZE_MAX) row.how = "merge", row.parameters = how.text;
    return g->o->row(g->o->ctx, &row, err);
}

/* Orders the blocks, and names the slices as the parameters of the merge: "slices=1:0-7,2:4-11",
 * with the numbers of models, and then the scales. */
static gg_status add_slices(merge_run *g, gg_block_order *order)
{
    gg_buf b = GG_BUF_INIT;
    gg_status st = gg_buf_text(&b, "slices=", g->err);
    for (size_t i = 0; i < g->given->n_slices && st == GG_OK; i++) {
        const gg_merge_slice *slice = &g->given->slices[i];
        char blocks[64];
        gg_source *s = g->all[1 + slice->model].source;
        snprintf(blocks, sizeof blocks, "%llu-%llu", (unsigned long long)slice->from,
                 (unsigned long long)slice->to - 1);
        st = gg_block_order_add(order, s, blocks, g->err);
        if (st != GG_OK) gg_at_file(g->err, gg_source_name(s));
        if (st == GG_OK)
            st = gg_buf_printf(&b, g->err, "%s%zu:%s", i ? "," : "", slice->model + 1, blocks);
    }
    if (st == GG_OK && g->m.global.n) st = gg_buf_printf(&b, g->err, " %s", g->o->parameters);
    g->slices = gg_buf_take(&b, NULL);
    return st;
}

/* Whether the choice of a vocabulary changes nothing, because all models have the same one. */
static bool keeps_vocabulary(const merge_run *g)
{
    static const char key[] = "tokenizer.ggml.tokens";
    const gg_merge_vocabulary *v = &g->o->vocabulary;
    const gg_merge_model *list = g->given->list;
    size_t model = g->given->slices[0].model;
    const gg_source *s = model == SIZE_MAX ? g->given->base : list[model].source;
    const gg_kv *first = gg_meta_find(gg_source_meta(s), key);
    if (v->words == GG_MERGE_WORDS_SAME) return true;
    if (v->n_tokens || v->multiple) return false;
    if (v->words == GG_MERGE_WORDS_BASE) return true;
    if (v->of && !gg_same_value(first, gg_meta_find(gg_source_meta(v->of), key))) return false;
    for (size_t i = 0; i < g->given->n; i++)
        if (!gg_same_value(first, gg_meta_find(gg_source_meta(list[i].source), key))) return false;
    return true;
}

static gg_status refuse_vocabulary(const merge_run *g)
{
    if (keeps_vocabulary(g)) return GG_OK;
    return gg_fail(g->err, GG_EUNSUPPORTED,
                   "slices keep the vocabulary of the first model; give the other models this "
                   "vocabulary first, or merge whole models");
}

/* Refuses or notes options that have no effect on copies. */
static gg_status check_slice_options(const merge_run *g)
{
    const gg_output_options *out = &g->o->output;
    const gg_merge_models *given = g->given;
    const char *first = gg_source_name(given->list[given->slices[0].model].source);
    if (given->base && strcmp(gg_source_name(given->base), first) != 0)
        return gg_fail(g->err, GG_EUNSUPPORTED,
                       "base_model must be the model of the first slice, which gives the keys and "
                       "the embeddings");
    if (refuse_vocabulary(g) != GG_OK) return g->err->status;
    if (g->o->card)
        return gg_fail(g->err, GG_EUSAGE, "a card is written for merges, not for slices");
    if (out->dtype || out->imatrix)
        gg_note(g->run, "slices are copied in their types, so nothing is encoded");
    if (out->shards || out->shard_size) gg_note(g->run, "slices are written as one file");
    if (g->o->align) gg_note(g->run, "slices are copied, so nothing is aligned");
    return GG_OK;
}

/* Each model as a merge of itself, with the parameters of the slices. */
static gg_status split_models(merge_run *g, gg_merging *of_model)
{
    for (size_t k = 0; k < g->n; k++) {
        of_model[k] = g->m;
        of_model[k].models[0] = g->all[1 + k].source;
        of_model[k].of_model[0] = g->m.of_model[k];
        of_model[k].n = 1;
        for (size_t i = 0; i < g->given->n_slices; i++)
            of_model[k].blocks += g->given->slices[i].to - g->given->slices[i].from;
    }
    return check_settings(g, &g->m.global);
}

static gg_status join_slices(merge_run *g, const char *output)
{
    gg_block_order order = { 0 };
    slice_run r = { .g = g, .of_model = calloc(g->given->n + 1, sizeof *r.of_model) };
    gg_stack_options o = { .keys = slice_keys, .tensor = plan_slice_tensor, .ctx = &r };
    gg_stack_report report = { 0 };
    gg_status st = r.of_model ? check_slice_options(g)
                              : gg_fail(g->err, GG_ENOMEM, "no memory for the models");
    if (st == GG_OK) st = take_models(g, GG_MERGE_BASE_KEYS);
    if (st == GG_OK) st = split_models(g, r.of_model);
    if (st == GG_OK) st = add_slices(g, &order);
    if (st == GG_OK && output) st = hash_models(g);
    if (st == GG_OK) st = gg_stack_blocks(&order, &o, output, g->run, &report, g->err);
    if (st == GG_OK) g->report->copied = report.tensors - g->report->merged;
    if (st == GG_OK) g->report->bytes = report.bytes;
    gg_block_order_free(&order);
    free(r.of_model);
    return st;
}

/* ---- slices: ranges of blocks that are merged, each from its own sources ------------------------
 */

typedef struct merged_slice {
    uint64_t at, to; /* its blocks in the result */
    gg_merging m;    /* of its sources */
    uint64_t
        from[GG_MERGE_MODELS + 2]; /* the first block in model k, and behind them in the base */
} merged_slice;

typedef struct slices_run {
    merge_run *g;
    merged_slice *list;
    size_t n;
} slices_run;

/* Whether each slice has the same blocks of all models, so that all of them are one merge. */
static bool are_whole_models(const merge_run *g)
{
    const gg_merge_models *given = g->given;
    uint64_t to = 0;
    for (size_t i = 0, sources = 0; i < given->n_slices; i++) {
        const gg_merge_slice *s = &given->slices[i];
        if (!s->more && s->from != to) return false;
        if (s->more && (s->from != given->slices[i - 1].from)) return false;
        to = s->to;
        sources = s->model == SIZE_MAX ? (s->more ? sources : 0) : s->more ? sources + 1 : 1;
        bool end = i + 1 == given->n_slices || !given->slices[i + 1].more;
        if (end && sources != given->n) return false; /* a model that is named twice is refused */
    }
    for (size_t k = 0; k <= given->n; k++) {
        const gg_source *s = k < given->n ? given->list[k].source : given->base;
        if (s && gg_arch_number(gg_source_meta(s), "block_count") != to) return false;
    }
    return true;
}

static gg_status add_source(const merge_run *g, merged_slice *x, size_t model, uint64_t from)
{
    gg_merging *m = &x->m;
    bool lead = g->given->base && g->m.method->base == GG_MERGE_BASE_FIRST;
    gg_source *s = model == SIZE_MAX ? g->given->base : g->given->list[model].source;
    for (size_t k = 0; k < m->n; k++)
        if (m->models[k] == s)
            return gg_fail_in(g->err, GG_EUNSUPPORTED, s, NULL,
                              "a slice of the configuration has this model twice");
    if (m->n > GG_MERGE_MODELS)
        return gg_fail(g->err, GG_EUSAGE, "more than %d models", GG_MERGE_MODELS);
    m->models[m->n] = s;
    m->of_model[m->n] = g->m.of_model[model == SIZE_MAX ? 0 : model + lead];
    x->from[m->n++] = from;
    return GG_OK;
}

/* Fills in a slice from its n sources. */
static gg_status fill_slice(const merge_run *g, merged_slice *x, const gg_merge_slice *list,
                            size_t n)
{
    gg_source *base = g->given->base;
    gg_merge_base use = g->m.method->base;
    uint64_t base_from = UINT64_MAX;
    gg_status st = GG_OK;
    x->m = g->m;
    x->m.n = 0;
    x->m.base = base;
    x->m.has_base = base && (use == GG_MERGE_BASE_MAY || use == GG_MERGE_BASE_MUST);
    for (size_t i = 0; i < n; i++)
        if (list[i].model == SIZE_MAX) base_from = list[i].from;
    if (base && use != GG_MERGE_BASE_KEYS && base_from == UINT64_MAX)
        return gg_fail(
            g->err, GG_EUNSUPPORTED,
            "the base must be among the sources of each slice, because their blocks differ");
    if (base && use == GG_MERGE_BASE_FIRST) st = add_source(g, x, SIZE_MAX, base_from);
    for (size_t i = 0; i < n && st == GG_OK; i++)
        if (list[i].model != SIZE_MAX) st = add_source(g, x, list[i].model, list[i].from);
    x->from[x->m.n] = base_from;
    return st == GG_OK ? check_number(g, x->m.n) : st;
}

/* Reads the slices. The first source of each gives its blocks in the order. */
static gg_status read_merged_slices(slices_run *r, gg_block_order *order)
{
    const merge_run *g = r->g;
    const gg_merge_models *given = g->given;
    uint64_t at = 0;
    gg_status st = GG_OK;
    for (size_t i = 0, n; i < given->n_slices && st == GG_OK; i += n) {
        const gg_merge_slice *s = &given->slices[i];
        merged_slice *x = &r->list[r->n++];
        for (n = 1; i + n < given->n_slices && given->slices[i + n].more;) n++;
        x->at = at;
        x->to = at += s->to - s->from;
        st = fill_slice(g, x, s, n);
        for (size_t k = 0; k < n && st == GG_OK;
             k++) { /* of the others, only to see that they exist */
            gg_source *of = s[k].model == SIZE_MAX ? given->base : given->list[s[k].model].source;
            gg_block_order other = { 0 };
            char blocks[64];
            snprintf(blocks, sizeof blocks, "%llu-%llu", (unsigned long long)s[k].from,
                     (unsigned long long)s[k].to - 1);
            st = gg_block_order_add(k ? &other : order, of, blocks, g->err);
            if (st != GG_OK) gg_at_file(g->err, gg_source_name(of));
            gg_block_order_free(&other);
        }
    }
    for (size_t i = 0; i < r->n; i++) r->list[i].m.blocks = at;
    return st;
}

/* The slice of a tensor of the result. */
static merged_slice *slice_of(const slices_run *r, const gg_stack_tensor *t)
{
    size_t i = 0;
    if (t->t->a.block < 0) i = gg_ramp_at(0, 1, t->t, 2) > 0 ? r->n - 1 : 0;
    else
        while (i + 1 < r->n && (uint64_t)t->t->a.block >= r->list[i].to) i++;
    return &r->list[i];
}

/* The tensor with the name that it has in a source whose first block of the slice is `from`. */
static gg_tensor renamed(const merged_slice *x, const gg_stack_tensor *t, uint64_t from, char *name,
                         size_t size)
{
    gg_tensor of = *t->t;
    if (t->t->a.block < 0) return of;
    of.name_len = (uint32_t)snprintf(
        name, size, "blk.%llu.%.*s", (unsigned long long)t->t->a.block - x->at + from,
        (int)(of.name_len - t->t->a.role_at), of.name + t->t->a.role_at);
    of.name = name;
    of.a = gg_anatomy_of(name, of.name_len);
    return of;
}

/* Finds the tensor in all sources. Values that a separate tensor scales are refused. */
static gg_status find_in_slice(const merge_run *g, const merged_slice *x, const gg_stack_tensor *t,
                               size_t *at)
{
    gg_status st = GG_OK;
    at[x->m.n] = SIZE_MAX;
    for (size_t k = 0; k < x->m.n + x->m.has_base && st == GG_OK; k++) {
        char name[GG_RECORD_NAME + 32], scale[GG_RECORD_NAME + 1];
        gg_source *s = k < x->m.n ? x->m.models[k] : x->m.base;
        gg_tensor of = renamed(x, t, x->from[k], name, sizeof name);
        st = find_in_model(g, s, &of, &at[k]);
        if (st == GG_OK && gg_find_scale(s, of.name, of.name_len, scale) != SIZE_MAX)
            st = gg_fail_in(g->err, GG_EUNSUPPORTED, s, &of,
                            "its values are scaled by %s, so they cannot be merged", scale);
    }
    return st;
}

/* Plans the tensor as that of a source. */
static gg_status copy_source(merge_run *g, gg_plan_tensor *pt, gg_source *s, size_t at)
{
    gg_plan_part part = gg_plan_whole(s, at);
    gg_input in = { gg_source_tensor(s, at)->dtype, &part, 1 };
    gg_producer p;
    g->report->copied++;
    if (in.dtype == pt->t.dtype) {
        pt->parts[0] = part;
        return GG_OK;
    }
    gg_status st = gg_compute_convert(&g->made, &pt->t, &in, &p, g->err);
    if (st == GG_OK) gg_plan_compute(pt, p.make, p.ctx);
    return st;
}

static gg_status plan_sliced_tensor(slices_run *r, const gg_stack_tensor *t, gg_error *err)
{
    merge_run *g = r->g;
    merged_slice *x = slice_of(r, t);
    size_t at[GG_MERGE_MODELS + 2];
    tensor_merge how;
    gg_producer p;
    gg_status st = GG_OK;
    if (gg_is_integer(t->t->dtype) || is_rope_table(t->t) ||
        (g->o->embeddings_from_base && t->t->a.cls == GG_EMBED)) {
        g->report->copied++;
        return report_row(g, t->t, "copy", "");
    }
    gg_merge_settings_visit(&g->m.global, t->t);
    for (size_t k = 0; k <= GG_MERGE_MODELS; k++) gg_merge_settings_visit(&g->m.of_model[k], t->t);
    st = find_in_slice(g, x, t, at);
    if (st == GG_OK) st = describe_merge(&x->m, t->t, &how, err);
    if (st == GG_OK) st = note_default(g, &x->m, t->t);
    if (st == GG_OK) st = report_row(g, t->t, how.from == SIZE_MAX ? "merge" : "copy", how.text);
    if (st != GG_OK) return st;
    if (how.from != SIZE_MAX)
        return copy_source(g, t->planned, how.from < x->m.n ? x->m.models[how.from] : x->m.base,
                           at[how.from]);
    st = gg_merge_producer(&g->made, &x->m, at, how.copies, &p, err);
    if (st != GG_OK) return st;
    gg_plan_compute(t->planned, p.make, p.ctx);
    g->report->merged++;
    return GG_OK;
}

static gg_status plan_merged_slice(void *ctx, const gg_stack_tensor *t, gg_error *err)
{
    slices_run *r = ctx;
    gg_status st = plan_sliced_tensor(r, t, err);
    if (st != GG_OK || !t->last) return st;
    st = gg_merge_settings_used(&r->g->m.global, err);
    for (size_t k = 0; k <= GG_MERGE_MODELS && st == GG_OK; k++)
        st = gg_merge_settings_used(&r->g->m.of_model[k], err);
    return st;
}

/* The keys of the history, and the sources of each slice: "1:0-0+2:0-0,3:2-3" has two slices, with
 * the numbers of models, of which 0 is the base. */
static gg_status sliced_keys(void *ctx, gg_meta *meta, gg_error *err)
{
    const merge_run *g = ((const slices_run *)ctx)->g;
    gg_buf b = GG_BUF_INIT;
    gg_status st = set_history(g, meta);
    for (size_t i = 0; i < g->given->n_slices && st == GG_OK; i++) {
        const gg_merge_slice *s = &g->given->slices[i];
        st = gg_buf_printf(&b, err, "%s%zu:%llu-%llu",
                           i == 0    ? ""
                           : s->more ? "+"
                                     : ",",
                           s->model == SIZE_MAX ? 0 : s->model + 1, (unsigned long long)s->from,
                           (unsigned long long)s->to - 1);
    }
    if (st == GG_OK) st = gg_meta_set_str(meta, "organ.merge.slices", b.data, b.len, err);
    gg_buf_free(&b);
    return st == GG_OK ? gg_set_keys(meta, &g->o->output, err) : st;
}

/* The sources may have tensors that the first of their slice lacks. */
static void note_more_tensors(const merge_run *g, const merged_slice *x)
{
    size_t first = 0;
    for (size_t k = 0; k < x->m.n; k++) {
        const gg_source *s = x->m.models[k];
        size_t n = 0;
        for (size_t i = 0; i < gg_source_count(s); i++) {
            int64_t block = gg_source_tensor(s, i)->a.block;
            n += block < 0 ||
                 ((uint64_t)block >= x->from[k] && (uint64_t)block - x->from[k] < x->to - x->at);
        }
        if (k == 0) first = n;
        else if (n != first)
            gg_note(
                g->run,
                "%s: it has %zu tensors for blocks %llu-%llu of the result, but the first source "
                "has %zu; only those of the first are merged",
                gg_source_name(s), n, (unsigned long long)x->at, (unsigned long long)x->to - 1,
                first);
    }
}

static gg_status check_merged_options(const merge_run *g)
{
    const gg_merge_slice *first = &g->given->slices[0];
    if (g->given->base && first->model != SIZE_MAX &&
        g->given->list[first->model].source != g->given->base)
        for (const gg_merge_slice *s = first + 1;; s++) {
            if (s >= g->given->slices + g->given->n_slices || !s->more)
                return gg_fail(g->err, GG_EUNSUPPORTED,
                               "the base must be among the sources of the first slice");
            if (s->model == SIZE_MAX) break;
        }
    if (refuse_vocabulary(g) != GG_OK) return g->err->status;
    if (g->m.method->grams)
        return gg_fail(g->err, GG_EUNSUPPORTED, "%s merges whole models, not slices of them",
                       g->m.method->name);
    if (g->o->align)
        return gg_fail(g->err, GG_EUNSUPPORTED, "slices of different blocks cannot be aligned");
    if (g->o->card)
        return gg_fail(g->err, GG_EUSAGE, "a card is written for merges, not for slices");
    if (g->o->output.dtype || g->o->output.imatrix)
        gg_note(g->run, "slices get the types of their first sources; re-encode the result with "
                        "organ-assemble");
    if (g->o->output.shards || g->o->output.shard_size)
        gg_note(g->run, "slices are written as one file");
    return GG_OK;
}

/* The first source of the first slice gives the keys; all models are compared with it. */
static gg_status compare_sources(merge_run *g, const gg_block_order *order)
{
    gg_status st = check_settings(g, &g->m.global);
    g->first = order->models[0];
    g->m.seed = g->o->seed;
    for (size_t k = 0; k <= GG_MERGE_MODELS && st == GG_OK; k++)
        st = check_settings(g, &g->m.of_model[k]);
    for (size_t k = 0; k <= g->n && st == GG_OK; k++)
        if (g->all[k].source && g->all[k].source != g->first)
            st = check_kinship(g, g->all[k].source);
    return st;
}

static gg_status merge_slices(merge_run *g, const char *output)
{
    gg_block_order order = { 0 };
    slices_run r = { .g = g, .list = calloc(g->given->n_slices, sizeof *r.list) };
    gg_source *sources[GG_MERGE_MODELS + 1];
    gg_stack_options o = {
        .keys = sliced_keys, .tensor = plan_merged_slice, .ctx = &r, .also = sources
    };
    gg_stack_report report = { 0 };
    gg_status st = r.list ? check_merged_options(g)
                          : gg_fail(g->err, GG_ENOMEM, "no memory for the slices");
    g->sliced = true;
    if (st == GG_OK) st = take_models(g, g->m.method->base);
    if (st == GG_OK) st = guard_files(g, output);
    g->m.seed = g->o->seed;
    if (st == GG_OK) st = read_merged_slices(&r, &order);
    if (st == GG_OK) st = compare_sources(g, &order);
    if (st == GG_OK && output) st = hash_models(g);
    for (size_t k = 0; k <= g->n; k++)
        if (g->all[k].source) sources[o.n_also++] = g->all[k].source;
    for (size_t i = 0; i < r.n && st == GG_OK; i++) note_more_tensors(g, &r.list[i]);
    if (st == GG_OK) st = gg_stack_blocks(&order, &o, output, g->run, &report, g->err);
    g->report->bytes = report.bytes;
    gg_held_end(&g->notes, g->run, st == GG_OK);
    gg_block_order_free(&order);
    free(r.list);
    return st;
}

/* ---- either ------------------------------------------------------------------------------------
 */

static void close_run(merge_run *g)
{
    gg_plan_free(&g->plan);
    gg_computations_free(&g->made);
    if (g->rules) gg_dtype_rules_free(g->rules);
    if (g->imatrix) gg_imatrix_close(g->imatrix);
    gg_merge_settings_free(&g->m.global);
    for (size_t i = 0; i <= GG_MERGE_MODELS; i++) gg_merge_settings_free(&g->m.of_model[i]);
    for (size_t i = 0; i <= g->n; i++) gg_source_close(g->all[i].aligned);
    if (g->shown.n) gg_merge_shown_free(&g->shown);
    free(g->slices);
    pthread_mutex_destroy(&g->m.whole);
}

gg_status gg_merge(const gg_merge_models *models, const gg_merge_options *o, const char *output,
                   const gg_run *run, gg_merge_report *report, gg_error *err)
{
    o = GG_OPTIONS(gg_merge_options, o);
    run = GG_OPTIONS(gg_run, run);
    report = GG_REPORT(gg_merge_report, report);
    merge_run g = { .given = models,
                    .o = o,
                    .run = run,
                    .plan = { .verify = true },
                    .report = report,
                    .err = err };
    pthread_mutex_init(&g.m.whole, NULL);
    gg_status st = find_method(&g);
    if (st == GG_OK) st = read_parameters(&g);
    bool slices = models->n_slices && (g.m.method->slices || !are_whole_models(&g));
    if (st == GG_OK)
        st = !slices              ? merge_tensors(&g, output)
             : g.m.method->slices ? join_slices(&g, output)
                                  : merge_slices(&g, output);
    close_run(&g);
    return st;
}

/* ---- recalling a merge --------------------------------------------------------------------- */

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
static void recall_name(const recall *r, int64_t block, char name[NAME_SHOWN + 1])
{
    uint64_t at = 0, first = 0;
    size_t model = r->slices[0].model, len = 0;
    const char *text = "";
    for (size_t i = 0; i < r->n_slices && block >= 0; i++) {
        if ((uint64_t)block >= first) model = r->slices[i].model;
        first += r->slices[i].to - r->slices[i].from;
    }
    for (size_t k = 0; k <= model; k++) gg_kv_next_str(r->names, &at, &text, &len);
    snprintf(name, NAME_SHOWN + 1, "%.*s", (int)(len < NAME_SHOWN ? len : NAME_SHOWN), text);
}

static gg_status recall_tensor(const recall *r, const gg_tensor *t)
{
    char name[NAME_SHOWN + 1] = "";
    tensor_merge how = { .from = 0 };
    gg_merge_row row = { t, "copy", name };
    gg_error wrong = GG_ERROR_INIT;
    gg_status st = GG_OK;
    bool copied = gg_is_integer(t->dtype) || (r->embeddings && t->a.cls == GG_EMBED) ||
                  (r->n_slices && r->m.global.n == 0);
    if (r->n_slices) recall_name(r, t->a.block, name);
    if (!copied) st = describe_merge(&r->m, t, &how, &wrong);
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

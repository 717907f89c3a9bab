/* verb_merge.c - plans and writes a model that is merged tensor by tensor. */
#include "merge_run.h"

#include "base/nearest.h"
#include "base/output.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "organ/gg_align.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "write/copy.h"
#include "write/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- taking the models ---------------------------------------------------------------- */

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
    gg_status st = gg_merge_check_number(g, g->n + lead);
    if (st == GG_OK) st = gg_merge_check_settings(g, &m->global);
    if (st != GG_OK) return st;
    if (lead) m->models[m->n++] = g->given->base;
    for (size_t i = 0; i < g->n && st == GG_OK; i++) {
        st = gg_merge_check_settings(g, &m->of_model[m->n]);
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

/* ---- tensors --------------------------------------------------------------------------- */

/* Finds tensor t of the first model in all others: at[k] as in gg_merge_producer. */
static gg_status find_in_models(const merge_run *g, const gg_tensor *t, size_t *at)
{
    const gg_merging *m = &g->m;
    gg_status st = GG_OK;
    for (size_t k = 0; k < m->n && st == GG_OK; k++) st = gg_merge_find(g, m->models[k], t, &at[k]);
    at[m->n] = SIZE_MAX;
    return st == GG_OK && m->has_base ? gg_merge_find(g, m->base, t, &at[m->n]) : st;
}

/* Plans tensor t as that of a source, in t's dtype. */
static gg_status plan_copied(merge_run *g, const gg_tensor *t, gg_source *s, size_t at)
{
    gg_plan_tensor *pt;
    gg_status st = gg_plan_add(&g->plan, t, &pt, g->err);
    return st == GG_OK ? gg_merge_copy(g, pt, s, at) : st;
}

static gg_status plan_merged(merge_run *g, const gg_tensor *t, const size_t *at)
{
    gg_producer p;
    gg_merge_how how;
    gg_status st = gg_merge_describe(&g->m, t, g->o->row != NULL, &how, g->err);
    size_t k = how.from;
    if (st == GG_OK) st = gg_merge_note_default(g, &g->m, t);
    if (st == GG_OK) st = gg_merge_tell(g, t, k == SIZE_MAX ? "merge" : "copy", how.text);
    if (st != GG_OK) return st;
    if (k != SIZE_MAX) return plan_copied(g, t, k < g->m.n ? g->m.models[k] : g->m.base, at[k]);
    for (size_t i = 0; i < g->m.n + (g->m.base != NULL) && st == GG_OK; i++)
        st = gg_merge_refuse_scaled(g, i < g->m.n ? g->m.models[i] : g->m.base, t);
    if (st == GG_OK) st = gg_merge_producer(&g->made, &g->m, at, how.copies, &p, g->err);
    if (st != GG_OK) return st;
    g->report->merged++;
    return gg_plan_add_made(&g->plan, t, p.make, p.ctx, g->err);
}

/* If the first model has tied embeddings and another has a head, the result has a head. */
static gg_status plan_head(merge_run *g, size_t *at)
{
    size_t i = gg_source_find(g->first, "token_embd.weight", sizeof "token_embd.weight" - 1);
    bool theirs = false;
    for (size_t k = 0; k < g->m.n && !theirs; k++)
        theirs = gg_source_find(g->m.models[k], GG_MERGE_HEAD, strlen(GG_MERGE_HEAD)) != SIZE_MAX;
    if (!theirs || i == SIZE_MAX || g->o->embeddings_from_base) return GG_OK;
    if (gg_source_find(g->first, GG_MERGE_HEAD, strlen(GG_MERGE_HEAD)) != SIZE_MAX) return GG_OK;
    gg_tensor t = *gg_source_tensor(g->first, i);
    t.name = GG_MERGE_HEAD;
    t.name_len = strlen(GG_MERGE_HEAD);
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
        if (gg_merge_keeps(g, t)) {
            st = gg_merge_tell(g, t, "copy", "");
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
            if (g->head && gg_text_is(t->name, t->name_len, GG_MERGE_HEAD)) continue;
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
    if (st == GG_OK) st = gg_merge_set_history(g, &meta);
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
        if (st == GG_OK) st = gg_merge_write_card(g, gg_output_fd(card), 0);
        if (st == GG_OK) st = gg_output_sync(card, g->err);
        gg_at_file(g->err, g->o->card);
    }
    if (st == GG_OK) st = gg_plan_write(&g->plan, &run, &g->report->bytes, g->err);
    if (st == GG_OK && card) return gg_output_commit(card, g->err);
    if (st == GG_OK && print) return gg_merge_write_card(g, STDOUT_FILENO, GG_AT_POS);
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
    if (st == GG_OK) st = gg_merge_take_models(g, g->m.method->base);
    if (st == GG_OK) st = arrange_models(g);
    if (st == GG_OK) st = gg_merge_guard(g, output);
    if (st == GG_OK) st = show_models(g);
    if (st == GG_OK) st = align_models(g);
    for (size_t i = 0; i < g->m.n && st == GG_OK; i++)
        if (g->m.models[i] != g->first) st = gg_merge_check_kinship(g, g->m.models[i]);
    if (st == GG_OK) st = plan_all(g);
    if (st == GG_OK && output) st = gg_merge_hash_models(g);
    /* The names of shards need a file. */
    if (st == GG_OK) st = plan_keys_and_files(g, output ? output : "merged.gguf");
    for (size_t i = 0; i <= g->n && st == GG_OK; i++)
        st = gg_watch_add(&g->plan.watch, g->all[i].source, g->err);
    if (st == GG_OK && output) st = write_files(g);
    if (st == GG_OK) note_left_out(g), note_integers(g);
    gg_held_end(&g->notes, g->run, st == GG_OK);
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
    bool slices = models->n_slices && (g.m.method->slices || !gg_merge_whole_models(&g));
    if (st == GG_OK)
        st = !slices              ? merge_tensors(&g, output)
             : g.m.method->slices ? gg_merge_join_slices(&g, output)
                                  : gg_merge_slices(&g, output);
    close_run(&g);
    return st;
}

/* verb_merge.c - plans and writes a model that is merged tensor by tensor, or joins slices. */
#include "merging.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/output.h"
#include "gguf/gguf.h"
#include "organ/gg_stack.h"
#include "organ/manifest.h"
#include "organ/output_guard.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "verbs/compute/compute_core.h"
#include "verbs/compute/dtype_rules.h"
#include "verbs/compute/imatrix_use.h"
#include "verbs/plan/plan.h"
#include "verbs/shared/keys.h"
#include "verbs/shared/verb_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct gg_merge_run {
    const gg_merge_models *given;
    const gg_merge_options *o;
    const gg_run *run;
    gg_merge_members members;
    gg_merging m;
    gg_source *first; /* gives keys, order and dtypes */
    gg_plan plan;
    gg_computations made;
    gg_imatrix *imatrix; /* NULL = none */
    gg_dtype_rules *rules;
    gg_merge_report *report;
    gg_error *err;
} gg_merge_run;

/* ---- the method and its models -------------------------------------------------------- */

static gg_status find_method(gg_merge_run *g)
{
    const char *text = g->o->method ? g->o->method : "";
    char shown[100], meant[GG_MEANT];
    size_t len = strlen(text);
    g->m.method = gg_merge_method_by_name(text, len);
    if (g->m.method) return GG_OK;
    gg_escape(text, len < 40 ? len : 40, shown, sizeof shown);
    if (len == 0) gg_fail(g->err, GG_EUSAGE, "the name of the method is empty");
    else
        gg_fail(g->err, GG_EUSAGE, "unknown method '%s'%s", shown,
                gg_meant(gg_merge_method_near(text, len), meant));
    return gg_fix(g->err, "use a method such as linear, slerp, task, ties, dare_ties, della, "
                          "model_stock or iso; the manual page lists them all");
}

static gg_status read_parameters(gg_merge_run *g)
{
    gg_merging *m = &g->m;
    g->members.parameters = g->o->parameters;
    m->models = calloc(g->given->n + 1, sizeof *m->models);
    m->of_model = calloc(g->given->n + 1, sizeof *m->of_model);
    if (!m->models || !m->of_model) return gg_fail(g->err, GG_ENOMEM, "no memory for the models");
    gg_status st = gg_merge_settings_add(&m->global, g->o->parameters, g->err);
    bool lead = g->given->base && m->method->base == GG_MERGE_BASE_FIRST;
    for (size_t i = 0; i < g->given->n && st == GG_OK; i++)
        st = gg_merge_settings_add(&m->of_model[i + lead], g->given->list[i].parameters, g->err);
    return st;
}

/* Does a setting name a parameter that the method does not take? */
static gg_status check_settings(const gg_merge_run *g, const gg_merge_settings *s)
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
            strcat(list, gg_merge_param_name(method->takes[k].param));
        }
        gg_fail(g->err, GG_EUSAGE, "%s has no parameter %s", method->name,
                gg_merge_param_name(s->list[i].param));
        return gg_fix(g->err, "it takes %s", list);
    }
    return GG_OK;
}

static gg_status check_number(const gg_merge_run *g, size_t n)
{
    const gg_merge_method *method = g->m.method;
    if (method->base == GG_MERGE_BASE_MUST && !g->given->base) {
        gg_fail(g->err, GG_EUSAGE, "%s needs the base that the models were trained from",
                method->name);
        return gg_fix_hint(g->err, GG_HINT_BASE, "give the base");
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

/* Lists the models in the order in which the method gets them. */
static gg_status arrange_models(gg_merge_run *g)
{
    gg_merging *m = &g->m;
    gg_merge_base use = m->method->base;
    bool based = g->given->base != NULL, lead = based && use == GG_MERGE_BASE_FIRST;
    gg_status st = check_number(g, g->members.n + lead);
    if (st == GG_OK) st = check_settings(g, &m->global);
    if (st != GG_OK) return st;
    if (lead) m->models[m->n++] = g->given->base;
    for (size_t i = 0; i < g->members.n && st == GG_OK; i++) {
        st = check_settings(g, &m->of_model[m->n]);
        m->models[m->n++] = g->members.list[i].source;
    }
    m->base = g->given->base;
    m->has_base = based && (use == GG_MERGE_BASE_MAY || use == GG_MERGE_BASE_MUST);
    m->seed = g->o->seed;
    g->first = based ? g->given->base : m->models[0];
    m->blocks = gg_arch_number(gg_source_meta(g->first), "block_count");
    return st;
}

/* ---- tensors --------------------------------------------------------------------------- */

static gg_status report_row(const gg_merge_run *g, const gg_tensor *t, const char *how,
                            const gg_merge_job *j)
{
    char text[600] = "";
    if (!g->o->row) return GG_OK;
    if (j) gg_merge_job_text(j, text, sizeof text);
    gg_merge_row row = { t, gg_anatomy_of(t->name, t->name_len), how, text };
    return g->o->row(g->o->ctx, &row, g->err);
}

/* Plans tensor t as that of a source, in t's dtype. */
static gg_status plan_copied(gg_merge_run *g, const gg_tensor *t, gg_source *s, size_t at)
{
    gg_plan_tensor *pt;
    const gg_tensor *from = gg_source_tensor(s, at);
    const gg_manifest *m = gg_source_manifest(s);
    gg_plan_part part = { s, at, 0, from->bytes, m ? m->entries[at].sha256 : NULL };
    gg_status st = gg_plan_add(&g->plan, t, &pt, g->err);
    g->report->copied++;
    if (st != GG_OK || from->dtype == t->dtype)
        return st == GG_OK ? gg_plan_add_part(pt, &part, g->err) : st;
    gg_producer p;
    gg_input in = { from->dtype, &part, 1 };
    st = gg_compute_convert(&g->made, &pt->t, &in, &p, g->err);
    pt->make = p.make;
    pt->ctx = p.ctx;
    return st;
}

/* Values that a separate tensor scales (in NVFP4) are not those of the weight alone. */
static gg_status refuse_scaled(const gg_merge_run *g, const gg_tensor *t)
{
    char scale[GG_RECORD_NAME + 1];
    for (size_t k = 0; k <= g->m.n; k++) {
        const gg_source *s = k < g->m.n ? g->m.models[k] : g->m.base;
        if (!s || gg_find_scale(s, t->name, t->name_len, scale) == SIZE_MAX) continue;
        gg_fail(g->err, GG_EUNSUPPORTED, "its values are scaled by %s, so they cannot be merged",
                scale);
        gg_fix(g->err, "use the model before it was quantized");
        gg_at_tensor(g->err, t->name, t->name_len);
        return gg_at_file(g->err, gg_source_name(s));
    }
    return GG_OK;
}

static gg_status plan_merged(gg_merge_run *g, const gg_tensor *t, const size_t *at)
{
    gg_merge_job j;
    gg_plan_tensor *pt;
    gg_producer p;
    gg_status st = gg_merge_job_start(&g->m, t, &j, g->err);
    size_t k = st == GG_OK && g->m.method->unchanged ? g->m.method->unchanged(&j) : SIZE_MAX;
    if (st == GG_OK) st = report_row(g, t, k == SIZE_MAX ? "merge" : "copy", &j);
    gg_merge_job_free(&j);
    if (st != GG_OK) return st;
    if (k != SIZE_MAX) return plan_copied(g, t, k < g->m.n ? g->m.models[k] : g->m.base, at[k]);
    st = refuse_scaled(g, t);
    if (st == GG_OK) st = gg_plan_add(&g->plan, t, &pt, g->err);
    if (st == GG_OK) st = gg_merge_producer(&g->made, &g->m, at, &p, g->err);
    if (st != GG_OK) return st;
    pt->make = p.make;
    pt->ctx = p.ctx;
    g->report->merged++;
    return GG_OK;
}

static gg_status plan_all(gg_merge_run *g)
{
    gg_status st = GG_OK;
    size_t *at = calloc(g->m.n + 1, sizeof *at);
    if (!at) return gg_fail(g->err, GG_ENOMEM, "no memory for the tensors");
    for (size_t i = 0; i < gg_source_count(g->first) && st == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(g->first, i);
        bool kept = gg_is_integer(t->dtype) ||
                    (g->o->embeddings_from_base && gg_source_anatomy(g->first, i).cls == GG_EMBED);
        if (kept) {
            st = report_row(g, t, "copy", NULL);
            if (st == GG_OK) st = plan_copied(g, t, g->first, i);
            continue;
        }
        gg_merge_settings_visit(&g->m.global, t);
        for (size_t k = 0; k < g->m.n; k++) gg_merge_settings_visit(&g->m.of_model[k], t);
        st = gg_merge_find(&g->m, g->first, i, at, g->err);
        if (st == GG_OK) st = plan_merged(g, t, at);
    }
    free(at);
    if (st == GG_OK) st = gg_merge_settings_used(&g->m.global, g->err);
    for (size_t k = 0; k < g->m.n && st == GG_OK; k++)
        st = gg_merge_settings_used(&g->m.of_model[k], g->err);
    return st;
}

/* Notes tensors that only other models have. */
static void note_left_out(const gg_merge_run *g)
{
    for (size_t k = 0; k < g->m.n; k++) {
        const gg_tensor *example = NULL;
        const gg_source *s = g->m.models[k];
        size_t n = 0;
        for (size_t i = 0; i < gg_source_count(s); i++) {
            const gg_tensor *t = gg_source_tensor(s, i);
            if (gg_source_find(g->first, t->name, t->name_len) != SIZE_MAX) continue;
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

static gg_status merged_keys(gg_merge_run *g, gg_meta *meta)
{
    gg_status st = gg_meta_copy(meta, gg_source_meta(g->first), g->err);
    gg_tensor *list = calloc(g->plan.n ? g->plan.n : 1, sizeof *list);
    if (st == GG_OK && !list) st = gg_fail(g->err, GG_ENOMEM, "no memory for the metadata");
    for (size_t i = 0; st == GG_OK && i < g->plan.n; i++) list[i] = g->plan.tensors[i].t;
    if (st == GG_OK) st = gg_type_keys_change(meta, g->first, list, g->plan.n, g->err);
    free(list);
    return st == GG_OK ? gg_merge_history_keys(&g->members, &g->m, g->o, meta, g->err) : st;
}

/* The dtypes of computed tensors, now that they are final. */
static gg_status check_dtypes(const gg_merge_run *g)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < g->plan.n && st == GG_OK; i++)
        if (g->plan.tensors[i].make)
            st = gg_compute_check_output(&g->plan.tensors[i].t, g->imatrix, g->err);
    return st;
}

static gg_status plan_keys_and_files(gg_merge_run *g, const char *output)
{
    gg_meta meta = GG_META_INIT;
    gg_split split = { g->o->output.shards, g->o->output.shard_size };
    size_t changed = 0, weighed = 0;
    gg_status st = merged_keys(g, &meta);
    if (st == GG_OK && g->rules)
        st = gg_dtype_rules_apply(g->rules, &g->plan, &meta, &g->made, &changed, g->run, g->err);
    if (st == GG_OK) st = check_dtypes(g);
    if (st == GG_OK) st = gg_imatrix_review(g->imatrix, &g->plan, &weighed, g->run, g->err);
    if (st == GG_OK) st = gg_plan_output(&g->plan, &split, output, &meta, g->first, g->run, g->err);
    gg_meta *keys = st == GG_OK ? &g->plan.files[0].meta : NULL;
    if (keys && changed) st = gg_dtype_rules_keys(g->rules, &g->plan, keys, g->err);
    if (keys && weighed && st == GG_OK) st = gg_imatrix_keys(g->imatrix, keys, g->err);
    if (keys && st == GG_OK) st = gg_set_keys(keys, &g->o->output, g->err);
    gg_meta_free(&meta);
    return st;
}

/* ---- merging --------------------------------------------------------------------------- */

/* The card replaces neither the result nor a model. */
static gg_status guard_card(const gg_merge_run *g, const char *output)
{
    const char *card = g->o->card;
    gg_status st = gg_guard_input(card, g->members.base.source, g->err);
    for (size_t i = 0; i < g->members.n && st == GG_OK; i++)
        st = gg_guard_input(card, g->members.list[i].source, g->err);
    if (st != GG_OK || strcmp(card, output) != 0) return st;
    gg_fail(g->err, GG_EUSAGE, "the model and its card have the same name");
    return gg_at_file(g->err, card);
}

static gg_status guard_files(const gg_merge_run *g, const char *output)
{
    gg_status st = GG_OK;
    if (!output) return GG_OK;
    if (g->o->card) st = guard_card(g, output);
    if (st == GG_OK && g->members.base.source)
        st = gg_guard_output(output, g->members.base.source, g->err);
    for (size_t i = 0; i < g->members.n && st == GG_OK; i++)
        st = gg_guard_output(output, g->members.list[i].source, g->err);
    return st;
}

static gg_run bounded_run(const gg_merge_run *g)
{
    uint64_t row = 0;
    for (size_t i = 0; i < g->plan.n; i++)
        if (g->plan.tensors[i].t.dims[0] > row) row = g->plan.tensors[i].t.dims[0];
    return gg_merge_bounded(&g->m, row, g->run);
}

/* The card is on the disk before the model gets its name, so that only its renaming can fail then.
 */
static gg_status write_files(gg_merge_run *g)
{
    gg_run run = bounded_run(g);
    gg_output *card = NULL;
    gg_status st = GG_OK;
    if (g->o->card) {
        st = gg_output_open(g->o->card, g->run->force, &card, g->err);
        if (st == GG_OK)
            st = gg_merge_card(&g->members, &g->m, g->report, gg_output_fd(card), g->err);
        if (st == GG_OK) st = gg_output_sync(card, g->err);
        gg_at_file(g->err, g->o->card);
    }
    if (st == GG_OK) st = gg_plan_write(&g->plan, &run, &g->report->bytes, g->err);
    if (st == GG_OK && card) return gg_output_commit(card, g->err);
    gg_output_abort(card);
    return st;
}

static gg_status write_output(gg_merge_run *g, const char *output)
{
    /* The names of shards need a file. */
    gg_status st = plan_keys_and_files(g, output ? output : "merged.gguf");
    if (st == GG_OK && g->members.base.source)
        st = gg_watch_add(&g->plan.watch, g->members.base.source, g->err);
    for (size_t i = 0; i < g->members.n && st == GG_OK; i++)
        st = gg_watch_add(&g->plan.watch, g->members.list[i].source, g->err);
    return st == GG_OK && output ? write_files(g) : st;
}

static gg_status merge_tensors(gg_merge_run *g, const char *output)
{
    gg_check_notes notes = { 0 };
    const gg_merge_options *o = g->o;
    const gg_output_options *out = &o->output;
    gg_status st = out->imatrix ? gg_imatrix_open(out->imatrix, &g->imatrix, g->err) : GG_OK;
    g->made.imatrix = g->imatrix;
    if (st == GG_OK)
        st = gg_dtype_rules_parse(out->dtype, out->fallback, g->imatrix, &g->rules, g->err);
    if (st == GG_OK) st = gg_merge_members_take(&g->members, g->given, g->m.method->base, g->err);
    if (st == GG_OK) st = arrange_models(g);
    if (st == GG_OK) st = guard_files(g, output);
    if (st == GG_OK && o->align) st = gg_merge_align(&g->members, &g->m, g->first, g->run, g->err);
    if (st == GG_OK)
        st = gg_merge_kinship(&g->m, g->first, o->embeddings_from_base, g->run, &notes, g->err);
    if (st == GG_OK) st = plan_all(g);
    if (st == GG_OK && output && !o->no_hash) st = gg_merge_hash(&g->members, g->run, g->err);
    if (st == GG_OK) st = write_output(g, output);
    if (st == GG_OK) note_left_out(g);
    gg_check_notes_end(&notes, g->run, st == GG_OK);
    return st;
}

/* ---- slices: ranges of blocks that are copied ------------------------------------------------ */

static gg_status slice_keys(void *ctx, gg_meta *meta, gg_error *err)
{
    const gg_merge_run *g = ctx;
    gg_status st = gg_merge_history_keys(&g->members, &g->m, g->o, meta, err);
    return st == GG_OK ? gg_set_keys(meta, &g->o->output, err) : st;
}

/* A tensor of a slice is a copy of one model, which is named as in the keys. */
static gg_status report_slice_row(void *ctx, const gg_stack_tensor *t, gg_error *err)
{
    const gg_merge_run *g = ctx;
    char name[GG_MERGE_NAME + 1];
    if (!g->o->row) return GG_OK;
    gg_merge_model_name(g->members.list[t->model].source, name);
    gg_merge_row row = { t->t, t->a, "copy", name };
    return g->o->row(g->o->ctx, &row, err);
}

/* Orders the blocks, and names the slices as the parameters of the merge: "slices=1:0-7,2:4-11",
 * with the numbers of models. */
static gg_status add_slices(gg_merge_run *g, gg_block_order *order)
{
    gg_buf b = GG_BUF_INIT;
    gg_status st = gg_buf_text(&b, "slices=", g->err);
    for (size_t i = 0; i < g->given->n_slices && st == GG_OK; i++) {
        const gg_merge_slice *slice = &g->given->slices[i];
        char blocks[64];
        gg_source *s = g->members.list[slice->model].source;
        snprintf(blocks, sizeof blocks, "%llu-%llu", (unsigned long long)slice->from,
                 (unsigned long long)slice->to - 1);
        st = gg_block_order_add(order, s, blocks, g->err);
        if (st != GG_OK) gg_at_file(g->err, gg_source_name(s));
        if (st == GG_OK)
            st = gg_buf_printf(&b, g->err, "%s%zu:%s", i ? "," : "", slice->model + 1, blocks);
    }
    g->members.slices = gg_buf_take(&b, NULL);
    return st;
}

/* Refuses or notes options that have no effect on copies. */
static gg_status check_slice_options(const gg_merge_run *g)
{
    const gg_output_options *out = &g->o->output;
    const gg_merge_models *given = g->given;
    const char *first = gg_source_name(given->list[given->slices[0].model].source);
    if (given->base && strcmp(gg_source_name(given->base), first) != 0)
        return gg_fail(g->err, GG_EUNSUPPORTED,
                       "base_model must be the model of the first slice, which gives the keys and "
                       "the embeddings");
    if (g->o->card)
        return gg_fail(g->err, GG_EUNSUPPORTED, "a card is written for merges, not for slices");
    if (out->dtype || out->imatrix)
        gg_note(g->run, "slices are copied in their types, so nothing is encoded");
    if (out->shards || out->shard_size) gg_note(g->run, "slices are written as one file");
    if (g->o->align) gg_note(g->run, "slices are copied, so nothing is aligned");
    return GG_OK;
}

static gg_status join_slices(gg_merge_run *g, const char *output)
{
    gg_block_order order = { 0 };
    gg_stack_options o = { .keys = slice_keys, .tensor = report_slice_row, .ctx = g };
    gg_stack_report report = { 0 };
    gg_status st = check_slice_options(g);
    if (st == GG_OK) st = gg_merge_members_take(&g->members, g->given, GG_MERGE_BASE_KEYS, g->err);
    if (st == GG_OK) st = add_slices(g, &order);
    if (st == GG_OK && output && !g->o->no_hash) st = gg_merge_hash(&g->members, g->run, g->err);
    if (st == GG_OK) st = gg_stack_blocks(&order, &o, output, g->run, &report, g->err);
    if (st == GG_OK) g->report->copied = report.tensors;
    if (st == GG_OK) g->report->bytes = report.bytes;
    gg_block_order_free(&order);
    return st;
}

/* ---- either ------------------------------------------------------------------------------------
 */

static void close_run(gg_merge_run *g)
{
    gg_plan_free(&g->plan);
    gg_computations_free(&g->made);
    gg_dtype_rules_free(g->rules);
    gg_imatrix_close(g->imatrix);
    gg_merge_settings_free(&g->m.global);
    for (size_t i = 0; g->m.of_model && i <= g->given->n; i++)
        gg_merge_settings_free(&g->m.of_model[i]);
    gg_merge_members_free(&g->members);
    free(g->m.models);
    free(g->m.of_model);
    pthread_mutex_destroy(&g->m.whole);
}

gg_status gg_merge(const gg_merge_models *models, const gg_merge_options *o, const char *output,
                   const gg_run *run, gg_merge_report *report, gg_error *err)
{
    o = GG_OPTIONS(gg_merge_options, o);
    run = GG_OPTIONS(gg_run, run);
    report = GG_REPORT(gg_merge_report, report);
    *report = (gg_merge_report){ 0 };
    gg_merge_run g = { .given = models,
                       .o = o,
                       .run = run,
                       .plan = { .verify = true },
                       .report = report,
                       .err = err };
    pthread_mutex_init(&g.m.whole, NULL);
    gg_status st = find_method(&g);
    if (st == GG_OK) st = read_parameters(&g);
    if (st == GG_OK) st = models->n_slices ? join_slices(&g, output) : merge_tensors(&g, output);
    close_run(&g);
    return st;
}

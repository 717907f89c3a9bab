/* merge_slices.c - merges of slices: models of ranges of blocks, which are copied, scaled, or
 * merged from sources of their own. */
#include "merge_run.h"

#include "assemble/gg_stack.h"
#include "base/buf.h"
#include "gguf/gguf.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "write/copy.h"
#include "write/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- slices that are copied, or scaled ------------------------------------------------------ */

typedef struct slice_run {
    merge_run *g;
    gg_merging *of_model; /* each model by itself */
} slice_run;

static gg_status slice_keys(void *ctx, gg_meta *meta, gg_error *err)
{
    const slice_run *r = ctx;
    gg_status st = gg_merge_set_history(r->g, meta);
    return st == GG_OK ? gg_set_keys(meta, &r->g->o->output, err) : st;
}

/* The planned copy becomes a tensor that is computed. */
static gg_status scale_copy(const slice_run *r, gg_merging *m, gg_plan_tensor *pt, bool copies)
{
    gg_producer p;
    size_t at[2] = { pt->parts[0].index, SIZE_MAX };
    gg_status st = gg_merge_refuse_scaled(r->g, m->models[0],
                                          gg_source_tensor(m->models[0], at[0]));
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
    gg_merge_how how = { .from = 0 };
    char shown[GG_MERGE_NAME + 1];
    const char *name;
    size_t len;
    gg_status st = GG_OK;
    gg_merge_settings_visit(&g->m.global, t->t);
    if (m->global.n && !gg_is_integer(t->t->dtype))
        st = gg_merge_describe(m, t->t, g->o->row != NULL, &how, err);
    if (st == GG_OK && how.from == SIZE_MAX) st = scale_copy(r, m, t->planned, how.copies);
    if (st == GG_OK && t->last) st = gg_merge_settings_used(&g->m.global, err);
    if (st != GG_OK || !g->o->row) return st;
    gg_model_name(g->all[1 + t->model].source, &name, &len);
    snprintf(shown, sizeof shown, "%.*s", (int)(len < GG_MERGE_NAME ? len : GG_MERGE_NAME), name);
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
    return gg_merge_check_settings(g, &g->m.global);
}

gg_status gg_merge_join_slices(merge_run *g, const char *output)
{
    gg_block_order order = { 0 };
    slice_run r = { .g = g, .of_model = calloc(g->given->n + 1, sizeof *r.of_model) };
    gg_stack_options o = { .keys = slice_keys, .tensor = plan_slice_tensor, .ctx = &r };
    gg_stack_report report = { 0 };
    gg_status st = r.of_model ? check_slice_options(g)
                              : gg_fail(g->err, GG_ENOMEM, "no memory for the models");
    if (st == GG_OK) st = gg_merge_take_models(g, GG_MERGE_BASE_KEYS);
    if (st == GG_OK) st = split_models(g, r.of_model);
    if (st == GG_OK) st = add_slices(g, &order);
    if (st == GG_OK && output) st = gg_merge_hash_models(g);
    if (st == GG_OK) st = gg_stack_blocks(&order, &o, output, g->run, &report, g->err);
    if (st == GG_OK) g->report->copied = report.tensors - g->report->merged;
    if (st == GG_OK) g->report->bytes = report.bytes;
    gg_block_order_free(&order);
    free(r.of_model);
    return st;
}

/* ---- slices that are merged, each from its own sources -------------------------------------- */

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

bool gg_merge_whole_models(const merge_run *g)
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
    return st == GG_OK ? gg_merge_check_number(g, x->m.n) : st;
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
        char name[GG_RECORD_NAME + 32];
        gg_source *s = k < x->m.n ? x->m.models[k] : x->m.base;
        gg_tensor of = renamed(x, t, x->from[k], name, sizeof name);
        st = gg_merge_find(g, s, &of, &at[k]);
        if (st == GG_OK) st = gg_merge_refuse_scaled(g, s, &of);
    }
    return st;
}

static gg_status plan_sliced_tensor(slices_run *r, const gg_stack_tensor *t, gg_error *err)
{
    merge_run *g = r->g;
    merged_slice *x = slice_of(r, t);
    size_t at[GG_MERGE_MODELS + 2];
    gg_merge_how how;
    gg_producer p;
    gg_status st = GG_OK;
    if (gg_merge_keeps(g, t->t)) {
        g->report->copied++;
        return gg_merge_tell(g, t->t, "copy", "");
    }
    gg_merge_settings_visit(&g->m.global, t->t);
    for (size_t k = 0; k <= GG_MERGE_MODELS; k++) gg_merge_settings_visit(&g->m.of_model[k], t->t);
    st = find_in_slice(g, x, t, at);
    if (st == GG_OK) st = gg_merge_describe(&x->m, t->t, g->o->row != NULL, &how, err);
    if (st == GG_OK) st = gg_merge_note_default(g, &x->m, t->t);
    if (st == GG_OK) st = gg_merge_tell(g, t->t, how.from == SIZE_MAX ? "merge" : "copy", how.text);
    if (st != GG_OK) return st;
    if (how.from != SIZE_MAX)
        return gg_merge_copy(g, t->planned, how.from < x->m.n ? x->m.models[how.from] : x->m.base,
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
    gg_status st = gg_merge_set_history(g, meta);
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
    gg_status st = gg_merge_check_settings(g, &g->m.global);
    g->first = order->models[0];
    g->m.seed = g->o->seed;
    for (size_t k = 0; k <= GG_MERGE_MODELS && st == GG_OK; k++)
        st = gg_merge_check_settings(g, &g->m.of_model[k]);
    for (size_t k = 0; k <= g->n && st == GG_OK; k++)
        if (g->all[k].source && g->all[k].source != g->first)
            st = gg_merge_check_kinship(g, g->all[k].source);
    return st;
}

gg_status gg_merge_slices(merge_run *g, const char *output)
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
    if (st == GG_OK) st = gg_merge_take_models(g, g->m.method->base);
    if (st == GG_OK) st = gg_merge_guard(g, output);
    g->m.seed = g->o->seed;
    if (st == GG_OK) st = read_merged_slices(&r, &order);
    if (st == GG_OK) st = compare_sources(g, &order);
    if (st == GG_OK && output) st = gg_merge_hash_models(g);
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

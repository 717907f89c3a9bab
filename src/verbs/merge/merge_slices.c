/* merge_slices.c - joins ranges of blocks, the slices of a configuration. */
#include "merge_history.h"
#include "merge_run.h"

#include "base/buf.h"
#include "base/error.h"
#include "organ/gg_stack.h"
#include "verbs/shared/key_text.h"
#include "verbs/shared/verb_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The slices as the parameters of the merge: "slices=1:0-7,2:4-11", with the numbers of models. */
static gg_status name_slices(gg_merge_run *g)
{
    gg_buf b = GG_BUF_INIT;
    gg_status st = gg_buf_text(&b, "slices=", g->err);
    for (size_t i = 0; i < g->config.n_slices && st == GG_OK; i++) {
        const gg_merge_slice *s = &g->config.slices[i];
        size_t model = (size_t)(gg_merge_models_find(&g->models, s->path) - g->models.list);
        st = gg_buf_printf(&b, g->err, "%s%zu:%llu-%llu", i ? "," : "", model + 1,
                           (unsigned long long)s->from, (unsigned long long)s->to - 1);
    }
    free(g->models.parameters);
    g->models.parameters = gg_buf_take(&b, NULL);
    return st;
}

static gg_status slice_keys(void *ctx, gg_meta *meta, gg_error *err)
{
    const gg_merge_run *g = ctx;
    gg_status st = gg_merge_history_keys(&g->models, &g->m, g->o, meta, err);
    if (st != GG_OK) return st;
    return gg_set_keys(meta, &g->o->output, err);
}

/* A tensor of a slice is a copy of one model, which is named as in the keys. */
static gg_status tell_slice_row(void *ctx, const gg_tensor *t, const gg_anatomy *a, size_t model,
                                gg_error *err)
{
    const gg_merge_run *g = ctx;
    char name[GG_MERGE_NAME + 1];
    if (!g->o->row) return GG_OK;
    gg_merge_model_name(&g->models.list[model], name);
    return g->o->row(g->o->row_ctx, t, a, "copy", name, err);
}

static gg_status add_slices(gg_merge_run *g, gg_block_order *order)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < g->config.n_slices && st == GG_OK; i++) {
        const gg_merge_slice *slice = &g->config.slices[i];
        char blocks[64];
        gg_source *s = gg_merge_models_find(&g->models, slice->path)->source;
        snprintf(blocks, sizeof blocks, "%llu-%llu", (unsigned long long)slice->from,
                 (unsigned long long)slice->to - 1);
        st = gg_block_order_add(order, s, blocks, g->err);
        if (st != GG_OK) gg_at_file(g->err, slice->path);
    }
    return st;
}

gg_status gg_merge_slices(gg_merge_run *g, const char *output)
{
    gg_block_order order = { .keys = slice_keys, .tensor = tell_slice_row, .ctx = g };
    gg_stack_report report;
    const gg_merge_slice *list = g->config.slices;
    gg_status st = GG_OK;
    if (g->models.base.path && strcmp(g->models.base.path, list[0].path) != 0)
        return gg_fail(g->err, GG_EUNSUPPORTED,
                       "base_model must be the model of the first slice, "
                       "which gives the keys and the embeddings");
    if (g->o->card)
        return gg_fail(g->err, GG_EUNSUPPORTED, "a card is written for merges, not for slices");
    if (g->config.dtype || g->o->output.dtype || g->o->output.imatrix)
        gg_note(g->run, "slices are copied in their types, so nothing is encoded");
    if (g->o->output.shards || g->o->output.shard_size)
        gg_note(g->run, "slices are written as one file");
    if (g->o->align) gg_note(g->run, "slices are copied, so nothing is aligned");
    for (size_t i = 0; i < g->config.n_slices && st == GG_OK; i++)
        st = gg_merge_models_add_once(&g->models, list[i].path, g->err);
    if (st == GG_OK) st = gg_merge_models_open(&g->models, GG_MERGE_BASE_KEYS, g->run, g->err);
    if (st == GG_OK) st = add_slices(g, &order);
    if (st == GG_OK) st = name_slices(g);
    if (st == GG_OK && output && !g->o->no_hash) st = gg_merge_hash(&g->models, g->run, g->err);
    if (st == GG_OK) st = gg_stack_blocks(&order, output, NULL, NULL, g->run, &report, g->err);
    if (st == GG_OK) g->report->copied = report.tensors;
    if (st == GG_OK) g->report->bytes = report.bytes;
    gg_block_order_free(&order);
    return st;
}

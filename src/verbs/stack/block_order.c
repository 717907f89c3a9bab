/* block_order.c - parses the blocks to stack and the models they come from. */
#include "organ/gg_stack.h"

#include "base/grow.h"
#include "organ/select.h"
#include "stack_models.h"

#include <stdlib.h>
#include <string.h>

/* Returns the index of the model in the order. A new model is appended. */
static gg_status join_model(gg_block_order *o, gg_source *model, size_t *index, gg_error *err)
{
    for (*index = 0; *index < o->n_models; ++*index)
        if (o->models[*index] == model) return GG_OK;
    gg_source **grown = gg_grow(o->models, o->n_models, &o->models_cap, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    o->models = grown;
    o->models[o->n_models++] = model;
    return GG_OK;
}

static gg_status append(gg_block_order *o, size_t model, uint64_t block, gg_error *err)
{
    if (o->n == GG_LAYERS_MAX)
        return gg_fail(err, GG_EUSAGE, "a model can have at most %d blocks", GG_LAYERS_MAX);
    gg_block_ref *grown = gg_grow(o->blocks, o->n, &o->cap, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    o->blocks = grown;
    o->blocks[o->n++] = (gg_block_ref){ model, block };
    return GG_OK;
}

/* Finds the index of the model in the order and counts its blocks. */
static gg_status start_order(gg_block_order *o, gg_source *model, size_t *index, gg_layer_model *m,
                             gg_error *err)
{
    gg_status st = gg_stack_model(model, m, err);
    return st == GG_OK ? join_model(o, model, index, err) : st;
}

/* Adds the ranges of the text, which must be within the model. */
static gg_status parse(const gg_layer_model *m, const char *text, gg_ranges *out, gg_error *err)
{
    gg_status st = gg_ranges_parse(out, GG_HINT_NONE, text, err);
    for (size_t i = 0; i < out->n && st == GG_OK; i++) {
        if (out->items[i].last < m->blocks) continue;
        uint64_t first = out->items[i].first;
        st = gg_fail(err, GG_NO, "it has no block %llu, only 0 to %llu",
                     (unsigned long long)(first < m->blocks ? m->blocks : first),
                     (unsigned long long)(m->blocks - 1));
        gg_at_file(err, m->name);
    }
    return st;
}

gg_status gg_block_order_add(gg_block_order *o, gg_source *model, const char *blocks, gg_error *err)
{
    gg_layer_model m;
    gg_ranges ranges = { 0 };
    size_t index;
    gg_status st = start_order(o, model, &index, &m, err);
    if (st == GG_OK) st = parse(&m, blocks, &ranges, err);
    for (size_t i = 0; st == GG_OK && i < ranges.n; i++)
        for (uint64_t b = ranges.items[i].first; b <= ranges.items[i].last && st == GG_OK; b++)
            st = append(o, index, b, err);
    gg_ranges_free(&ranges);
    return st;
}

gg_status gg_block_order_drop(gg_block_order *o, gg_source *model, const char *blocks, bool mtp,
                              gg_error *err)
{
    gg_layer_model m;
    gg_ranges ranges = { 0 };
    size_t index, before = o->n;
    gg_status st = start_order(o, model, &index, &m, err);
    if (st == GG_OK && blocks) st = parse(&m, blocks, &ranges, err);
    uint64_t end = st == GG_OK && mtp ? gg_layer_trunk(&m) : st == GG_OK ? m.blocks : 0;
    if (st == GG_OK && mtp && end == m.blocks)
        st = gg_fail(err, GG_NO,
                     "it has no multi-token-prediction blocks (nextn_predict_layers is 0 or "
                     "absent)");
    for (uint64_t b = 0; b < end && st == GG_OK; b++)
        if (!gg_ranges_have(&ranges, b)) st = append(o, index, b, err);
    gg_ranges_free(&ranges);
    if (st == GG_OK && o->n == before) st = gg_fail(err, GG_NO, "no block is left");
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(model));
}

void gg_block_order_free(gg_block_order *o)
{
    free(o->models);
    free(o->blocks);
    *o = (gg_block_order){ 0 };
}

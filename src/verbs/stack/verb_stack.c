/* verb_stack.c - plans a model with its blocks in a new order. */
#include "organ/gg_stack.h"

#include "base/error.h"
#include "gguf/gguf.h"
#include "organ/manifest.h"
#include "organ/output_guard.h"
#include "organ/record.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "stack_models.h"
#include "verbs/plan/plan.h"
#include "verbs/shared/type_keys.h"
#include "verbs/shared/verb_run.h"

#include <stdlib.h>
#include <string.h>

typedef struct stacker {
    const gg_block_order *o;
    gg_layer_model *models;
    gg_block_tensors *tensors; /* one entry per model */
    gg_layer *layers;
    bool same; /* all blocks of one model in their original order, so that nothing changes */
    gg_plan plan;
    gg_error *err;
} stacker;

/* ---- checks ------------------------------------------------------------------------------ */

/* Whether this block has neither attention nor FFN, according to the keys of the first model. */
static bool may_be_empty(const gg_layer_model *m, uint64_t block)
{
    char key[160];
    uint64_t v;
    const gg_kv *kv = gg_arch_key(m->meta, "feed_forward_length", key, sizeof key)
                          ? gg_meta_find(m->meta, key)
                          : NULL;
    if (!kv || !gg_is_layer_array(m->meta, kv, m->blocks)) return false;
    size_t size = gg_type_size(kv->elem_type);
    gg_kv one = {
        .type = kv->elem_type, .count = 1, .data = kv->data + block * size, .size = size
    };
    return gg_kv_u64(&one, &v) && v == 0;
}

/* Handles a block without tensors. It is an error, except for MTP blocks, which may be in a
 * separate file. */
static gg_status check_present(const stacker *s, const gg_run *run)
{
    for (size_t i = 0; i < s->o->n; i++) {
        const gg_block_ref *b = &s->o->blocks[i];
        const gg_layer_model *m = &s->models[b->model];
        const size_t *first = s->tensors[b->model].first;
        if (first[b->block] != first[b->block + 1] || may_be_empty(m, b->block)) continue;
        if (b->block >= gg_layer_trunk(m)) {
            gg_note(run, "%s: block %llu is announced (nextn_predict_layers), but not in the file",
                    m->name, (unsigned long long)b->block);
            continue;
        }
        gg_fail(s->err, GG_NO, "block %llu has no tensors", (unsigned long long)b->block);
        return gg_at_file(s->err, m->name);
    }
    return GG_OK;
}

/* Notes MTP blocks that are left out because they were not named, as this may be a mistake. */
static void note_mtp(const stacker *s, const gg_run *run)
{
    uint64_t trunk = gg_layer_trunk(&s->models[0]);
    for (size_t i = 0; i < s->o->n; i++)
        if (s->o->blocks[i].block >= gg_layer_trunk(&s->models[s->o->blocks[i].model])) return;
    if (trunk < s->models[0].blocks)
        gg_note(run, "the multi-token-prediction blocks of %s (from block %llu) are left out",
                s->models[0].name, (unsigned long long)trunk);
}

static bool is_same(const gg_block_order *o, uint64_t blocks)
{
    if (o->n_models != 1 || o->n != blocks) return false;
    for (size_t i = 0; i < o->n; i++)
        if (o->blocks[i].block != i) return false;
    return true;
}

static gg_status read_models(stacker *s, const gg_run *run)
{
    const gg_block_order *o = s->o;
    if (o->n == 0) return gg_fail(s->err, GG_NO, "no block is selected");
    s->models = calloc(o->n_models, sizeof *s->models);
    s->tensors = calloc(o->n_models, sizeof *s->tensors);
    s->layers = calloc(o->n, sizeof *s->layers);
    if (!s->models || !s->tensors || !s->layers)
        return gg_fail(s->err, GG_ENOMEM, "no memory for %zu blocks", o->n);
    gg_status st = GG_OK;
    for (size_t k = 0; k < o->n_models && st == GG_OK; k++) {
        st = gg_stack_model(o->models[k], &s->models[k], s->err);
        if (st == GG_OK)
            st = gg_block_tensors_make(o->models[k], &s->models[k], &s->tensors[k], s->err);
        if (st == GG_OK && k > 0) st = gg_stack_agree(o->models[0], o->models[k], s->err);
    }
    if (st != GG_OK) return st;
    for (size_t i = 0; i < o->n; i++)
        s->layers[i] = (gg_layer){ o->blocks[i].model, o->blocks[i].block };
    s->same = is_same(o, s->models[0].blocks);
    if (!s->same) note_mtp(s, run);
    return check_present(s, run);
}

/* ---- the plan ------------------------------------------------------------------------------ */

static gg_status add_named(stacker *s, size_t model, size_t index, const char *name, size_t len)
{
    gg_source *from = s->o->models[model];
    const gg_manifest *m = gg_source_manifest(from);
    gg_tensor t = *gg_source_tensor(from, index);
    gg_plan_tensor *pt;
    gg_plan_part part = { from, index, 0, t.bytes, m ? m->entries[index].sha256 : NULL };
    t.name = name;
    t.name_len = len;
    gg_status st = gg_plan_add(&s->plan, &t, &pt, s->err);
    return st == GG_OK ? gg_plan_add_part(pt, &part, s->err)
                       : gg_at_file(s->err, s->models[model].name);
}

static gg_status add_as_is(stacker *s, size_t index)
{
    const gg_tensor *t = gg_source_tensor(s->o->models[0], index);
    return add_named(s, 0, index, t->name, t->name_len);
}

/* The tensors of one block under its new number. */
static gg_status add_block(stacker *s, size_t to)
{
    const gg_block_ref *b = &s->o->blocks[to];
    const gg_block_tensors *by = &s->tensors[b->model];
    gg_status st = GG_OK;
    for (size_t k = by->first[b->block]; k < by->first[b->block + 1] && st == GG_OK; k++) {
        const gg_tensor *t = gg_source_tensor(s->o->models[b->model], by->list[k]);
        char name[GG_RECORD_NAME + 24];
        size_t len;
        if (!gg_name_with_block(t->name, t->name_len, (int64_t)to, name, sizeof name, &len)) {
            gg_fail(s->err, GG_NO, "its name cannot be changed to block %zu", to);
            gg_at_tensor(s->err, t->name, t->name_len);
            return gg_at_file(s->err, s->models[b->model].name);
        }
        st = add_named(s, b->model, by->list[k], name, len);
    }
    return st;
}

/* The blocks are placed where the first block of the first model was. Tensors that it has
 * between its blocks follow after them. */
static gg_status plan_tensors(stacker *s)
{
    const gg_source *first = s->o->models[0];
    size_t n = gg_source_count(first), i = 0;
    gg_status st = GG_OK;
    for (; i < n && st == GG_OK; i++) {
        if (!s->same && gg_stack_block_of(gg_source_tensor(first, i)) >= 0) break;
        st = add_as_is(s, i);
    }
    for (size_t b = 0; b < s->o->n && st == GG_OK && !s->same; b++) st = add_block(s, b);
    for (; i < n && st == GG_OK; i++)
        if (gg_stack_block_of(gg_source_tensor(first, i)) < 0) st = add_as_is(s, i);
    return st;
}

static bool same_number(const gg_meta *a, const gg_meta *b, const char *key)
{
    uint64_t x = UINT64_MAX, y = UINT64_MAX;
    gg_kv_u64(gg_meta_find(a, key), &x);
    gg_kv_u64(gg_meta_find(b, key), &y);
    return x == y;
}

/* Keys about types are changed only if the types of the tensors call for other values than
 * before. A Q4_K_S model without one block is still a Q4_K_S model. */
static gg_status follow_types(stacker *s, gg_meta *meta)
{
    const gg_source *first = s->o->models[0];
    size_t n = gg_source_count(first), most = n > s->plan.n ? n : s->plan.n;
    gg_meta before = GG_META_INIT, after = GG_META_INIT;
    gg_tensor *list = calloc(most + 1, sizeof *list);
    if (!list) return gg_fail(s->err, GG_ENOMEM, "no memory for the metadata");
    for (size_t i = 0; i < n; i++) list[i] = *gg_source_tensor(first, i);
    gg_status st = gg_type_keys_update(&before, list, n, s->err);
    for (size_t i = 0; i < s->plan.n; i++) list[i] = s->plan.tensors[i].t;
    if (st == GG_OK) st = gg_type_keys_update(&after, list, s->plan.n, s->err);
    if (st == GG_OK && !(same_number(&before, &after, "general.file_type") &&
                         same_number(&before, &after, "general.quantization_version")))
        st = gg_type_keys_update(meta, list, s->plan.n, s->err);
    gg_meta_free(&before);
    gg_meta_free(&after);
    free(list);
    return st;
}

static gg_status make_plan(stacker *s, const char *output)
{
    gg_source *first = s->o->models[0];
    gg_meta meta = GG_META_INIT;
    gg_status st = plan_tensors(s);
    if (st == GG_OK)
        st = gg_layer_keys(s->models, s->o->n_models, s->layers, s->o->n, &meta, s->err);
    if (st == GG_OK && !s->same) st = follow_types(s, &meta);
    if (st == GG_OK && s->o->keys) st = s->o->keys(s->o->ctx, &meta, s->err);
    if (st == GG_OK)
        st = gg_plan_changed_file(&s->plan, output ? output : "-", gg_plan_version(first), &meta,
                                  first, s->err);
    gg_meta_free(&meta);
    return st;
}

/* ---- stacking -------------------------------------------------------------------------------- */

static gg_status tell(const stacker *s, gg_stack_fn fn, void *ctx)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < s->o->n && st == GG_OK && fn; i++) {
        const gg_block_ref *b = &s->o->blocks[i];
        const gg_block_tensors *by = &s->tensors[b->model];
        uint64_t bytes = 0;
        for (size_t k = by->first[b->block]; k < by->first[b->block + 1]; k++)
            bytes += gg_source_tensor(s->o->models[b->model], by->list[k])->bytes;
        st = fn(ctx, i, b, by->first[b->block + 1] - by->first[b->block], bytes, s->err);
    }
    return st;
}

static gg_status tell_tensors(const stacker *s)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < s->plan.n && st == GG_OK && s->o->tensor; i++) {
        const gg_tensor *t = &s->plan.tensors[i].t;
        int64_t block = s->same ? -1 : gg_stack_block_of(t);
        gg_anatomy a = gg_anatomy_of(t->name, t->name_len);
        st = s->o->tensor(s->o->ctx, t, &a, block < 0 ? 0 : s->o->blocks[block].model, s->err);
    }
    return st;
}

gg_status gg_stack_blocks(const gg_block_order *o, const char *output, gg_stack_fn fn, void *ctx,
                          const gg_run *run, gg_stack_report *report, gg_error *err)
{
    run = GG_OPTIONS(gg_run, run);
    report = GG_REPORT(gg_stack_report, report);
    stacker s = { .o = o, .plan = { .verify = true }, .err = err };
    gg_status st = read_models(&s, run);
    *report = (gg_stack_report){ .blocks = o->n };
    for (size_t k = 0; k < o->n_models && st == GG_OK && output; k++)
        st = gg_guard_output(output, o->models[k], err);
    if (st == GG_OK) st = make_plan(&s, output);
    if (st == GG_OK) st = tell(&s, fn, ctx);
    if (st == GG_OK) st = tell_tensors(&s);
    for (size_t k = 0; k < o->n_models && st == GG_OK && output; k++)
        st = gg_watch_add(&s.plan.watch, o->models[k], err);
    if (st == GG_OK && output) st = gg_plan_write(&s.plan, run, &report->bytes, err);
    report->tensors = s.plan.n;
    gg_plan_free(&s.plan);
    for (size_t k = 0; s.tensors && k < o->n_models; k++) gg_block_tensors_free(&s.tensors[k]);
    free(s.tensors);
    free(s.models);
    free(s.layers);
    return st;
}

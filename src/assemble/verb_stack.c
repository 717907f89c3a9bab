/* verb_stack.c - makes a model of blocks of one or more models in a new order: parses the order,
 * checks that the models are compatible, and plans the result. */
#include "assemble/gg_stack.h"

#include "arch/design.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/text.h"
#include "check/check_output.h"
#include "compute/imatrix_write.h"
#include "gguf/gguf.h"
#include "organ/record.h"
#include "organ/select.h"
#include "organ/tensor_names.h"
#include "write/history.h"
#include "write/key_compat.h"
#include "write/keys.h"
#include "write/layer_keys.h"
#include "write/plan.h"
#include "write/verb_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the models ----------------------------------------------------------------------- */

/* How the names of the blocks begin. */
static const char *block_prefix(const char *part)
{
    return !part ? "blk." : strcmp(part, "enc") == 0 ? "enc.blk." : "dec.blk.";
}

static bool is_decoder(const char *part)
{
    return part && strcmp(part, "dec") == 0;
}

/* Get the keys and the number of blocks of a source. GG_EUSAGE for bare records and for single
 * experts; GG_NO if block_count is missing or out of range. */
static gg_status layer_model_of(const gg_source *s, const char *part, gg_layer_model *out,
                                gg_error *err)
{
    char key[160];
    gg_status st = gg_require_model(s, err);
    if (st != GG_OK) return st;
    *out = (gg_layer_model){ gg_source_meta(s), gg_source_name(s), 0 };
    out->blocks = is_decoder(part) ? gg_arch_number(out->meta, "decoder_block_count") : 0;
    if (out->blocks == 0) out->blocks = gg_arch_number(out->meta, "block_count");
    if (out->blocks > 0 && out->blocks <= GG_LAYERS_MAX) return GG_OK;
    if (!gg_arch_key(out->meta, "block_count", key, sizeof key))
        gg_fail(err, GG_NO, "it has no general.architecture, so its blocks cannot be counted");
    else if (out->blocks == 0) gg_fail(err, GG_NO, "it has no %s", key);
    else gg_fail(err, GG_NO, "%s is %llu", key, (unsigned long long)out->blocks);
    return gg_at_file(err, out->name);
}

/* The number in "blk.N.", or -1. Blocks of other parts (v.blk.N.) are not moved. */
static int64_t block_of(const gg_tensor *t, const char *part)
{
    const char *prefix = block_prefix(part);
    size_t n = strlen(prefix);
    if (t->name_len < n || memcmp(t->name, prefix, n) != 0) return -1;
    return t->a.block;
}

/* ---- the order of blocks ------------------------------------------------------------------ */

static gg_status append_block(gg_block_order *o, size_t model, uint64_t block, gg_error *err)
{
    if (o->n == GG_LAYERS_MAX)
        return gg_fail(err, GG_EUSAGE, "a model can have at most %d blocks", GG_LAYERS_MAX);
    if (GG_ROOM(o->blocks, o->n, &o->cap, err) != GG_OK) return GG_ENOMEM;
    o->blocks[o->n++] = (gg_block_ref){ model, block };
    return GG_OK;
}

/* Reads "enc:" or "dec:" at the beginning of a text. All texts must have the same. */
static gg_status take_part(gg_block_order *o, const gg_source *model, const char **text,
                           gg_error *err)
{
    static const char *const parts[] = { "enc", "dec" };
    const char *part = NULL;
    bool other = false;
    for (int i = 0; i < 2 && *text && !part; i++)
        if (strncmp(*text, parts[i], 3) == 0 && (*text)[3] == ':') part = parts[i];
    if (part) *text += 4;
    if (o->n_models && o->part != part)
        return gg_fail(err, GG_EUSAGE,
                       "the blocks of an encoder and of a decoder are moved one "
                       "after the other, in two runs");
    o->part = part;
    for (size_t i = 0; i < gg_source_count(model) && !part; i++) {
        if (block_of(gg_source_tensor(model, i), NULL) >= 0) return GG_OK;
        for (int k = 0; k < 2; k++) other |= block_of(gg_source_tensor(model, i), parts[k]) >= 0;
    }
    if (!other) return GG_OK;
    return gg_fail(err, GG_EUSAGE,
                   "it has the blocks of an encoder or decoder: enc:0-3 or dec:0-3");
}

/* Finds the index of the model in the order, where a new one is appended, and counts its blocks. */
static gg_status start_order(gg_block_order *o, gg_source *model, size_t *index, gg_layer_model *m,
                             gg_error *err)
{
    gg_status st = layer_model_of(model, o->part, m, err);
    *index = 0;
    while (*index < o->n_models && o->models[*index] != model) ++*index;
    if (st != GG_OK || *index < o->n_models) return st;
    st = GG_ROOM(o->models, o->n_models, &o->models_cap, err);
    if (st == GG_OK) o->models[o->n_models++] = model;
    return st;
}

/* Adds the ranges of the text, which must be within the model. */
static gg_status parse_blocks(const gg_layer_model *m, const char *text, gg_ranges *out,
                              gg_error *err)
{
    gg_status st = gg_ranges_parse(out, NULL, text, err);
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
    size_t index = 0;
    gg_status st = take_part(o, model, &blocks, err);
    if (st == GG_OK) st = start_order(o, model, &index, &m, err);
    if (st == GG_OK) st = parse_blocks(&m, blocks, &ranges, err);
    for (size_t i = 0; st == GG_OK && i < ranges.n; i++)
        for (uint64_t b = ranges.items[i].first; b <= ranges.items[i].last && st == GG_OK; b++)
            st = append_block(o, index, b, err);
    gg_ranges_free(&ranges);
    return st;
}

gg_status gg_block_order_drop(gg_block_order *o, gg_source *model, const char *blocks, bool mtp,
                              gg_error *err)
{
    gg_layer_model m;
    gg_ranges ranges = { 0 };
    size_t index, before = o->n;
    gg_status st = take_part(o, model, &blocks, err);
    if (st == GG_OK) st = start_order(o, model, &index, &m, err);
    if (st == GG_OK && blocks) st = parse_blocks(&m, blocks, &ranges, err);
    uint64_t end = st == GG_OK && mtp ? gg_layer_trunk(&m) : st == GG_OK ? m.blocks : 0;
    if (st == GG_OK && mtp && end == m.blocks)
        st = gg_fail(err, GG_NO,
                     "it has no multi-token-prediction blocks (nextn_predict_layers is 0 or "
                     "absent)");
    for (uint64_t b = 0; b < end && st == GG_OK; b++)
        if (!gg_ranges_have(&ranges, b)) st = append_block(o, index, b, err);
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

/* ---- tensors by block ---------------------------------------------------------------- */

/* Tensors by block. The tensors of block b are list[first[b]] to list[first[b + 1] - 1], in the
 * order of the model. */
typedef struct block_tensors {
    size_t *list, *first;
} block_tensors;

/* GG_NO if a tensor has a block number of block_count or more. */
static gg_status list_block_tensors(const gg_source *s, const gg_layer_model *m, const char *part,
                                    block_tensors *out, gg_error *err)
{
    size_t n = gg_source_count(s);
    out->list = calloc(n + 1, sizeof *out->list);
    out->first = calloc((size_t)m->blocks + 2, sizeof *out->first);
    if (!out->list || !out->first) return gg_fail(err, GG_ENOMEM, "no memory for %zu tensors", n);
    for (size_t i = 0; i < n; i++) {
        const gg_tensor *t = gg_source_tensor(s, i);
        int64_t block = block_of(t, part);
        if (block < 0) continue;
        if ((uint64_t)block >= m->blocks)
            return gg_fail_in(err, GG_NO, s, t, "it belongs to block %lld, but block_count is %llu",
                              (long long)block, (unsigned long long)m->blocks);
        out->first[block + 2]++;
    }
    for (uint64_t b = 2; b < m->blocks + 2; b++) out->first[b] += out->first[b - 1];
    for (size_t i = 0; i < n; i++) {
        int64_t block = block_of(gg_source_tensor(s, i), part);
        if (block >= 0) out->list[out->first[block + 1]++] = i;
    }
    return GG_OK;
}

/* ---- compatibility --------------------------------------------------------------------- */

typedef struct role {
    const char *text; /* the name after "blk.N." */
    size_t len;
    const gg_tensor *t;
    bool varies; /* its dims differ between blocks */
} role;

static int order_roles(const void *a, const void *b)
{
    const role *x = a, *y = b;
    return gg_text_order(x->text, x->len, y->text, y->len);
}

static role role_of(const gg_tensor *t)
{
    size_t at = t->a.role_at;
    return (role){ t->name + at, t->name_len - at, t, false };
}

/* Returns the *n distinct roles of the model's blocks, sorted, or NULL if memory is exhausted. */
static role *roles_of(const gg_source *s, const char *part, size_t *n)
{
    size_t kept = 0;
    role *list = calloc(gg_source_count(s) + 1, sizeof *list);
    *n = 0;
    for (size_t i = 0; list && i < gg_source_count(s); i++)
        if (block_of(gg_source_tensor(s, i), part) >= 0)
            list[(*n)++] = role_of(gg_source_tensor(s, i));
    if (!list || *n == 0) return list;
    qsort(list, *n, sizeof *list, order_roles);
    for (size_t i = 1; i < *n; i++) {
        if (order_roles(&list[kept], &list[i]) != 0) list[++kept] = list[i];
        else if (memcmp(list[kept].t->dims, list[i].t->dims, sizeof list[i].t->dims) != 0)
            list[kept].varies = true;
    }
    *n = kept + 1;
    return list;
}

static gg_status check_role_dims(const role *mine, const gg_tensor *t, const char *first,
                                 gg_error *err)
{
    char a[96], b[96];
    if (!mine || mine->varies || memcmp(mine->t->dims, t->dims, sizeof t->dims) == 0) return GG_OK;
    gg_dims_text(t, a);
    gg_dims_text(mine->t, b);
    gg_fail(err, GG_NO, "its dims are %s, but in the blocks of %.100s they are %s", a, first, b);
    return gg_at_tensor(err, t->name, t->name_len);
}

typedef struct key_conflict {
    gg_error *err;
    const gg_source *first;
} key_conflict;

/* "llama.embedding_length differs: base 64, donor 96" */
static void refuse_conflict(void *ctx, gg_conflict kind, const char *line)
{
    if (kind == GG_CONFLICT_UNSURE) return;
    const key_conflict *c = ctx;
    gg_fail(c->err, GG_NO, "%s (the base is %.100s)", line, gg_source_name(c->first));
}

/* Check whether blocks of `other` would work in `first`. GG_NO with the first conflict: a key
 * that differs, or different dims of a tensor whose role has the same dims in all blocks of
 * `first`. */
static gg_status check_agreement(gg_source *first, gg_source *other, const char *part,
                                 gg_error *err)
{
    key_conflict c = { err, first };
    size_t n;
    if (gg_key_conflicts(gg_source_meta(first), gg_source_meta(other),
                         GG_COMPAT_BLOCKS | GG_COMPAT_LAYERS_GO, refuse_conflict, &c) > 0 ||
        gg_table_conflicts(first, other, refuse_conflict, &c) > 0)
        return gg_at_file(err, gg_source_name(other));
    role *roles = roles_of(first, part, &n);
    gg_status st = roles ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the tensors");
    for (size_t i = 0; i < gg_source_count(other) && st == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(other, i);
        if (block_of(t, part) < 0) continue;
        role theirs = role_of(t);
        const role *mine = n ? bsearch(&theirs, roles, n, sizeof *roles, order_roles) : NULL;
        st = check_role_dims(mine, t, gg_source_name(first), err);
    }
    free(roles);
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(other));
}

/* ---- the new model ------------------------------------------------------------------------ */

typedef struct stacker {
    const gg_block_order *order;
    const gg_stack_options *o;
    gg_layer_model *models;
    block_tensors *tensors; /* one entry per model */
    gg_layer *layers;
    bool same; /* all blocks of one model in their original order, so that nothing changes */
    gg_plan plan;
    gg_error *err;
} stacker;

/* ---- checks ------------------------------------------------------------------------------ */

/* Whether this block has neither attention nor FFN, according to the keys of the first model. */
static bool may_be_empty(const gg_layer_model *m, uint64_t block)
{
    uint64_t v;
    const gg_kv *kv = gg_arch_kv(m->meta, "feed_forward_length");
    return gg_is_layer_array(m->meta, kv, m->blocks) && gg_kv_u64_at(kv, block, &v) && v == 0;
}

/* Handles a block without tensors. It is an error, except for MTP blocks, which may be in a
 * separate file. */
static gg_status check_blocks_present(const stacker *s, const gg_run *run)
{
    for (size_t i = 0; i < s->order->n; i++) {
        const gg_block_ref *b = &s->order->blocks[i];
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
    for (size_t i = 0; i < s->order->n; i++)
        if (s->order->blocks[i].block >= gg_layer_trunk(&s->models[s->order->blocks[i].model]))
            return;
    if (trunk < s->models[0].blocks)
        gg_note(run, "the multi-token-prediction blocks of %s (from block %llu) are left out",
                s->models[0].name, (unsigned long long)trunk);
}

/* Notes keys with one text per block, which do not move with the blocks. */
static void note_texts(const stacker *s, const gg_run *run)
{
    const gg_layer_model *m = &s->models[0];
    for (size_t i = 0; i < m->meta->n; i++) {
        const gg_kv *kv = &m->meta->kv[i];
        char key[160];
        if (!gg_is_layer_texts(m->meta, kv, m->blocks)) continue;
        gg_escape(kv->key, kv->key_len < 64 ? kv->key_len : 64, key, sizeof key);
        gg_note(run, "%s: %s has as many texts as there are blocks, and is kept unchanged", m->name,
                key);
    }
}

/* Whether these are the first blocks of one model, as many as given. */
static bool keeps_order(const gg_block_order *o, uint64_t blocks)
{
    if (o->n_models != 1 || o->n != blocks) return false;
    for (size_t i = 0; i < o->n; i++)
        if (o->blocks[i].block != i) return false;
    return true;
}

/* Prediction blocks keep their numbers, and the model its keys, if they are written alone. */
static gg_status check_mtp_only(const stacker *s)
{
    const gg_layer_model *m = s->models;
    const size_t *first = s->tensors[0].first;
    if (!s->o->mtp_only) return GG_OK;
    if (!s->same) return gg_fail(s->err, GG_EUSAGE, "only one whole model can lose its trunk");
    if (first[gg_layer_trunk(m)] < first[m->blocks]) return GG_OK;
    gg_fail(s->err, GG_NO, "it has no multi-token-prediction blocks");
    return gg_at_file(s->err, m->name);
}

static gg_status read_stack(stacker *s, const gg_run *run)
{
    const gg_block_order *o = s->order;
    if (o->n == 0) return gg_fail(s->err, GG_NO, "no block is selected");
    s->models = calloc(o->n_models, sizeof *s->models);
    s->tensors = calloc(o->n_models, sizeof *s->tensors);
    s->layers = calloc(o->n, sizeof *s->layers);
    if (!s->models || !s->tensors || !s->layers)
        return gg_fail(s->err, GG_ENOMEM, "no memory for %zu blocks", o->n);
    gg_status st = GG_OK;
    for (size_t k = 0; k < o->n_models && st == GG_OK; k++) {
        st = layer_model_of(o->models[k], o->part, &s->models[k], s->err);
        if (st == GG_OK)
            st = list_block_tensors(o->models[k], &s->models[k], o->part, &s->tensors[k], s->err);
        if (st == GG_OK && k > 0) st = check_agreement(o->models[0], o->models[k], o->part, s->err);
    }
    if (st != GG_OK) return st;
    for (size_t i = 0; i < o->n; i++)
        s->layers[i] = (gg_layer){ o->blocks[i].model, o->blocks[i].block };
    s->same = keeps_order(o, s->models[0].blocks);
    if (!s->same) {
        note_mtp(s, run);
        note_texts(s, run);
    }
    st = check_blocks_present(s, run);
    if (st == GG_OK) st = check_mtp_only(s);
    if (st != GG_OK || !s->o->imatrix_out || o->n_models == 1) return st;
    return gg_fail(s->err, GG_EUSAGE,
                   "an importance matrix belongs to one model, but these are %zu", o->n_models);
}

/* ---- the plan ------------------------------------------------------------------------------ */

static gg_status add_named(stacker *s, size_t model, size_t index, const char *name, size_t len)
{
    gg_source *from = s->order->models[model];
    gg_tensor t = *gg_source_tensor(from, index);
    gg_plan_tensor *pt;
    gg_plan_part part = gg_plan_whole(from, index);
    t.name = name;
    t.name_len = len;
    gg_status st = gg_plan_add(&s->plan, &t, &pt, s->err);
    return st == GG_OK ? gg_plan_add_part(pt, &part, s->err)
                       : gg_at_file(s->err, s->models[model].name);
}

static gg_status add_as_is(stacker *s, size_t index)
{
    const gg_tensor *t = gg_source_tensor(s->order->models[0], index);
    return add_named(s, 0, index, t->name, t->name_len);
}

/* All blocks use the position biases of the first one, so it must have them. */
static gg_status add_position_bias(stacker *s, const gg_block_ref *b)
{
    char first[64], here[64];
    const char *prefix = block_prefix(s->order->part);
    gg_source *from = s->order->models[b->model];
    size_t n = (size_t)snprintf(first, sizeof first, "%s0.attn_rel_b.weight", prefix);
    size_t m = (size_t)snprintf(here, sizeof here, "%s%llu.attn_rel_b.weight", prefix,
                                (unsigned long long)b->block);
    size_t index = gg_source_find(from, first, n);
    if (index == SIZE_MAX || gg_source_find(from, here, m) != SIZE_MAX) return GG_OK;
    return add_named(s, b->model, index, first, n);
}

/* The tensors of one block under its new number. */
static gg_status add_block(stacker *s, size_t to)
{
    const gg_block_ref *b = &s->order->blocks[to];
    const block_tensors *by = &s->tensors[b->model];
    gg_status st = GG_OK;
    for (size_t k = by->first[b->block]; k < by->first[b->block + 1] && st == GG_OK; k++) {
        const gg_tensor *t = gg_source_tensor(s->order->models[b->model], by->list[k]);
        char name[GG_RECORD_NAME + 24];
        size_t len;
        if (!gg_name_with_block(t->name, t->name_len, (int64_t)to, name, sizeof name, &len)) {
            gg_fail(s->err, GG_NO, "its name cannot be changed to block %zu", to);
            gg_at_tensor(s->err, t->name, t->name_len);
            return gg_at_file(s->err, s->models[b->model].name);
        }
        st = add_named(s, b->model, by->list[k], name, len);
    }
    if (st == GG_OK && to == 0 && s->order->part) st = add_position_bias(s, b);
    return st;
}

/* Whether a tensor belongs to the trunk of a model of which only the prediction blocks are kept. */
static bool is_left_out(const stacker *s, int64_t block)
{
    return s->o->mtp_only && block >= 0 && (uint64_t)block < gg_layer_trunk(&s->models[0]);
}

/* The blocks are placed where the first block of the first model was. Tensors that it has
 * between its blocks follow after them. */
static gg_status plan_stack(stacker *s)
{
    const gg_source *first = s->order->models[0];
    size_t n = gg_source_count(first), i = 0;
    gg_status st = GG_OK;
    for (; i < n && st == GG_OK; i++) {
        int64_t block = block_of(gg_source_tensor(first, i), s->order->part);
        if (!s->same && block >= 0) break;
        if (!is_left_out(s, block)) st = add_as_is(s, i);
    }
    for (size_t b = 0; b < s->order->n && st == GG_OK && !s->same; b++) st = add_block(s, b);
    for (; i < n && st == GG_OK; i++)
        if (block_of(gg_source_tensor(first, i), s->order->part) < 0) st = add_as_is(s, i);
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
    const gg_source *first = s->order->models[0];
    size_t n = gg_source_count(first);
    gg_meta before = GG_META_INIT, after = GG_META_INIT;
    gg_tensor *list = gg_plan_list(&s->plan, 0, s->plan.n, s->err);
    if (!list) return GG_ENOMEM;
    gg_status st = gg_type_keys_update(&before, n ? gg_source_tensor(first, 0) : NULL, n, s->err);
    if (st == GG_OK) st = gg_type_keys_update(&after, list, s->plan.n, s->err);
    if (st == GG_OK && !(same_number(&before, &after, "general.file_type") &&
                         same_number(&before, &after, "general.quantization_version")))
        st = gg_type_keys_update(meta, list, s->plan.n, s->err);
    gg_meta_free(&before);
    gg_meta_free(&after);
    free(list);
    return st;
}

/* The keys of the new model. Keys with one value per block are those of the encoder. Without
 * decoder_block_count, both stacks have block_count blocks. */
static gg_status stacked_keys(stacker *s, gg_meta *meta)
{
    char key[160];
    const gg_meta *old = s->models[0].meta;
    const gg_source *first = s->order->models[0];
    bool decoder = is_decoder(s->order->part), changes = decoder;
    gg_status st = decoder ? gg_meta_copy(meta, old, s->err)
                           : gg_layer_keys(s->models, s->order->n_models, s->layers, s->order->n,
                                           meta, s->err);
    for (size_t i = 0; i < gg_source_count(first) && s->order->part && !changes; i++)
        changes = block_of(gg_source_tensor(first, i), "dec") >= 0;
    if (st != GG_OK || !changes || s->same || !gg_arch_key(old, "decoder_block_count", key, 160) ||
        (!decoder && gg_meta_find(old, key)))
        return st;
    uint64_t n = decoder ? s->order->n : s->models[0].blocks;
    return gg_meta_set_u32(meta, key, (uint32_t)n, s->err);
}

/* Records the blocks: "stack: 0-1 of A, 2-3 of B". */
static gg_status record_step(stacker *s, const gg_run *run, gg_meta *meta)
{
    const gg_block_order *o = s->order;
    gg_buf step = GG_BUF_INIT;
    gg_error *err = s->err;
    gg_buf_text(&step, "stack:", err);
    for (size_t i = 0, end; i < o->n && err->status == GG_OK; i = end) {
        const gg_block_ref *b = &o->blocks[i];
        for (end = i + 1; end < o->n && o->blocks[end].model == b->model &&
                          o->blocks[end].block == b->block + (end - i);)
            end++;
        gg_buf_printf(&step, err, "%s %llu", i ? "," : "", (unsigned long long)b->block);
        if (end > i + 1)
            gg_buf_printf(&step, err, "-%llu", (unsigned long long)o->blocks[end - 1].block);
        if (end < o->n && o->blocks[end].model == b->model) continue;
        gg_buf_text(&step, " of ", err);
        gg_put_model_name(&step, o->models[b->model], err);
    }
    if (err->status == GG_OK) gg_record_step(meta, o->models + 1, o->n_models - 1, &step, run, err);
    gg_buf_free(&step);
    return err->status;
}

/* An engine must load the result if it loads the first model: no error of organ-check is new. */
static gg_status keep_first_finding(void *ctx, const gg_finding *f, gg_error *err)
{
    char *text = ctx;
    (void)err;
    if (f->level == GG_CHECK_ERROR && !*text)
        snprintf(text, 300, "%.120s%s%.160s", f->where, *f->where ? ": " : "", f->message);
    return GG_OK;
}

static gg_status refuse_broken(const stacker *s)
{
    gg_source *first = s->order->models[0];
    const gg_meta *meta = &s->plan.files[0].meta;
    size_t n = gg_source_count(first);
    gg_check_report before, after;
    gg_check_input in = { gg_source_meta(first), n ? gg_source_tensor(first, 0) : NULL, n, 1 };
    char text[300] = "";
    gg_check_options o = { .row = keep_first_finding, .ctx = text };
    uint64_t blocks = gg_arch_number(meta, "block_count"),
             decoder = gg_arch_number(meta, "decoder_block_count");
    gg_status st = gg_design_kinds_kept(gg_source_meta(first), meta, s->err);
    if (st == GG_OK && s->order->part && decoder > blocks)
        return gg_fail(s->err, GG_NO,
                       "the decoder would have %llu blocks and the encoder %llu, and an engine "
                       "refuses a decoder with more",
                       (unsigned long long)decoder, (unsigned long long)blocks);
    if (st == GG_OK) st = gg_check_rules(&in, &(gg_check_options){ 0 }, &before, s->err);
    if (st != GG_OK || before.found[GG_CHECK_ERROR]) return st;
    gg_tensor *list = gg_plan_list(&s->plan, 0, s->plan.n, s->err);
    if (!list) return GG_ENOMEM;
    in = (gg_check_input){ meta, list, s->plan.n, 1 };
    st = gg_check_rules(&in, &o, &after, s->err);
    free(list);
    if (st != GG_OK || !after.found[GG_CHECK_ERROR]) return st;
    return gg_fail(s->err, GG_NO, "an engine would refuse the result: %s", text);
}

static gg_status plan_files(stacker *s, const char *output, const gg_run *run)
{
    gg_source *first = s->order->models[0];
    gg_meta meta = GG_META_INIT;
    gg_status st = plan_stack(s);
    if (st == GG_OK) st = stacked_keys(s, &meta);
    if (st == GG_OK && (!s->same || s->o->mtp_only)) st = follow_types(s, &meta);
    /* A model that only loses its prediction blocks can have them back. */
    bool whole_trunk = keeps_order(s->order, gg_layer_trunk(&s->models[0]));
    if (st == GG_OK && !s->same && !s->o->mtp_only && !whole_trunk) st = record_step(s, run, &meta);
    if (st == GG_OK && s->o->keys) st = s->o->keys(s->o->ctx, &meta, s->err);
    if (st == GG_OK)
        st = gg_plan_changed_file(&s->plan, output ? output : "-", gg_plan_version(first), &meta,
                                  first, s->err);
    gg_meta_free(&meta);
    if (st != GG_OK || s->same || s->o->mtp_only || refuse_broken(s) == GG_OK) return st;
    return gg_at_file(s->err, s->models[0].name);
}

/* ---- stacking -------------------------------------------------------------------------------- */

/* Calls the functions of the caller for the blocks and for the tensors of the result. */
static gg_status report_stack(const stacker *s)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < s->order->n && st == GG_OK && s->o->row; i++) {
        gg_block_ref from = s->order->blocks[i];
        if (is_left_out(s, (int64_t)from.block)) continue;
        const block_tensors *by = &s->tensors[from.model];
        size_t first = by->first[from.block], end = by->first[from.block + 1];
        gg_stack_row row = { i, from, end - first, 0 };
        for (size_t k = first; k < end; k++)
            row.bytes += gg_source_tensor(s->order->models[from.model], by->list[k])->bytes;
        st = s->o->row(s->o->ctx, &row, s->err);
    }
    for (size_t i = 0; i < s->plan.n && st == GG_OK && s->o->tensor; i++) {
        const gg_tensor *t = &s->plan.tensors[i].t;
        int64_t block = s->same ? -1 : block_of(t, s->order->part);
        gg_stack_tensor row = { t, block < 0 ? 0 : s->order->blocks[block].model,
                                i + 1 == s->plan.n, &s->plan.tensors[i] };
        st = s->o->tensor(s->o->ctx, &row, s->err);
    }
    return st;
}

static gg_status write_imatrix(const stacker *s, const gg_run *run)
{
    gg_imatrix *im = NULL;
    gg_imatrix_file file = { .from = &im, .n_from = 1 };
    gg_status st = gg_imatrix_open(s->o->imatrix, &im, s->err);
    for (size_t i = 0; i < s->plan.n && st == GG_OK; i++) {
        const gg_plan_tensor *pt =
            &s->plan.tensors[i]; /* one of the model's, perhaps in another block */
        gg_imatrix_cut cut = { gg_source_tensor(pt->parts->source, pt->parts->index), NULL, NULL };
        st = gg_imatrix_file_cut(&file, im, &pt->t, &cut, s->err);
    }
    if (st == GG_OK) st = gg_imatrix_file_write(&file, s->o->imatrix_out, false, run, s->err);
    gg_imatrix_file_free(&file);
    gg_imatrix_close(im);
    return st;
}

static gg_status write_stack(stacker *s, const gg_run *run, gg_stack_report *report)
{
    gg_status st = GG_OK;
    for (size_t k = 0; k < s->order->n_models && st == GG_OK; k++)
        st = gg_watch_add(&s->plan.watch, s->order->models[k], s->err);
    for (size_t k = 0; k < s->o->n_also && st == GG_OK; k++)
        st = gg_watch_add(&s->plan.watch, s->o->also[k], s->err);
    /* First, because it may not fit, and the model takes long. */
    if (st == GG_OK && s->o->imatrix_out) st = write_imatrix(s, run);
    return st == GG_OK ? gg_plan_write(&s->plan, run, &report->bytes, s->err) : st;
}

gg_status gg_stack_blocks(const gg_block_order *order, const gg_stack_options *o,
                          const char *output, const gg_run *run, gg_stack_report *report,
                          gg_error *err)
{
    run = GG_OPTIONS(gg_run, run);
    report = GG_REPORT(gg_stack_report, report);
    stacker s = {
        .order = order, .o = GG_OPTIONS(gg_stack_options, o), .plan = { .verify = true }, .err = err
    };
    gg_status st = read_stack(&s, run);
    *report = (gg_stack_report){ .blocks = order->n };
    for (size_t k = 0; k < order->n_models && output && st == GG_OK; k++)
        st = gg_require_whole(order->models[k], run, err);
    if (st == GG_OK) st = plan_files(&s, output, run);
    if (st == GG_OK) st = report_stack(&s);
    if (st == GG_OK && output) st = write_stack(&s, run, report);
    report->tensors = s.plan.n;
    gg_plan_free(&s.plan);
    for (size_t k = 0; s.tensors && k < order->n_models; k++) {
        free(s.tensors[k].list);
        free(s.tensors[k].first);
    }
    free(s.tensors);
    free(s.models);
    free(s.layers);
    return st;
}

/* layer_keys.c - keys of a model made of other models' blocks: block_count, per-layer arrays. */
#include "layer_keys.h"

#include "arch/design.h"
#include "base/text.h"
#include "keys.h"

#include <stdlib.h>
#include <string.h>

/* Checks the kinds of block that an engine derives from block numbers. A
 * block must have the same kind at its new place. Otherwise the model does not load, or it
 * loads and computes something else.
 *
 * The kinds follow from keys that state a period. For sliding windows and rotary positions
 * they may follow from the architecture alone, as in llama.cpp's loader.
 */

typedef enum rule {
    LAST,   /* of every `period` blocks the last is special */
    FIRST,  /* the first */
    SECOND, /* the second */
    GROUP,  /* each group of `period` blocks is of another kind */
    HEAD,   /* each of the first `period` blocks is of another kind */
} rule;

typedef struct pattern {
    const char *what; /* the key without architecture, or a description */
    uint64_t period;
    rule rule;
} pattern;

static uint64_t kind_of(const pattern *p, uint64_t block)
{
    /* not 0: patterns_of gives none */
    uint64_t at = block % p->period;
    switch (p->rule) {
    case LAST: return at == p->period - 1;
    case FIRST: return at == 0;
    case SECOND: return at == 1;
    case GROUP: return block / p->period;
    case HEAD: return block < p->period ? block : p->period;
    }
    return 0;
}

/* ---- which patterns a model has --------------------------------------------------- */

static const struct {
    const char *key;
    rule rule;
} by_key[] = { { "interleave_moe_layer_step", LAST },
               { "moe_every_n_layers", SECOND },
               { "rescale_every_n_layers", GROUP },
               { "attn_res.block_size", FIRST },
               { "hash_layer_count", HEAD } };

#define WINDOW "attention.sliding_window_pattern"

/* The pattern of the sliding windows; false if there is none or an array states it. */
static bool window_pattern(const gg_meta *meta, pattern *out)
{
    uint64_t window = gg_arch_number(meta, "attention.sliding_window");
    const gg_kv *kv = gg_arch_kv(meta, WINDOW);
    if (kv && kv->type == GG_TYPE_ARR) return false;
    *out = (pattern){ WINDOW, gg_arch_number(meta, WINDOW), LAST };
    gg_window_rule known;
    bool is_known = gg_design_window_rule(gg_arch_of(meta), &known);
    if (is_known && known.keyed && window == 0) return false;
    if (is_known && !kv) *out = (pattern){ "the sliding window pattern", known.every, LAST };
    if (is_known && known.first) out->rule = FIRST;
    return out->period > 1;
}

/* Blocks with full attention between linear or recurrent ones. */
static bool attention_pattern(const gg_meta *meta, pattern *out)
{
    static const char key[] = "full_attention_interval";
    const gg_kv *kv = gg_arch_kv(meta, "attention.recurrent_layers");
    if (kv && kv->type == GG_TYPE_ARR) return false; /* an array moves with its blocks */
    *out = (pattern){ key, gg_arch_number(meta, key), LAST };
    if (out->period == 0) out->period = gg_design_usual_interval(gg_arch_of(meta));
    return out->period > 1;
}

/* The patterns of a model, at most 8, in a fixed order. */
static size_t patterns_of(const gg_meta *meta, pattern out[8])
{
    size_t n = 0;
    for (size_t i = 0; i < sizeof by_key / sizeof by_key[0]; i++) {
        uint64_t period = gg_arch_number(meta, by_key[i].key);
        if (period > 1 || (period == 1 && by_key[i].rule >= GROUP))
            out[n++] = (pattern){ by_key[i].key, period, by_key[i].rule };
    }
    if (attention_pattern(meta, &out[n])) n++;
    if (window_pattern(meta, &out[n])) n++;
    if (gg_arch_has(gg_arch_of(meta), "rope_every_4"))
        out[n++] = (pattern){ "the pattern of rotary positions", 4, LAST };
    return n;
}

/* ---- the checks --------------------------------------------------------------------- */

static gg_status refuse(const gg_layer_model *from, const gg_layer *l, size_t to, const pattern *p,
                        gg_error *err)
{
    gg_fail(err, GG_NO, "block %llu cannot become block %zu: %s is %llu, and they differ in kind",
            (unsigned long long)l->block, to, p->what, (unsigned long long)p->period);
    if (p->rule == HEAD)
        gg_fix(err, "keep the first %llu blocks in their places", (unsigned long long)p->period);
    else gg_fix(err, "drop, repeat or move groups of %llu blocks", (unsigned long long)p->period);
    return gg_at_file(err, from->name);
}

/* Refuse models with different patterns, whichever blocks are used. */
static gg_status same_patterns(const gg_layer_model *a, const gg_layer_model *b, gg_error *err)
{
    pattern x[8], y[8];
    size_t n = patterns_of(a->meta, x), m = patterns_of(b->meta, y);
    for (size_t i = 0; i < n || i < m; i++) {
        if (i < n && i < m && strcmp(x[i].what, y[i].what) == 0 && x[i].period == y[i].period)
            continue;
        gg_fail(err, GG_NO, "%s differs from that of %s", i < m ? y[i].what : x[i].what, a->name);
        return gg_at_file(err, b->name);
    }
    return GG_OK;
}

/* Refuses models whose blocks cannot be moved at all. */
static gg_status check_fixed(const gg_layer_model *m, gg_error *err)
{
    static const char *const ties[] = { "attention.shared_kv_layers",
                                        "embedding_length_per_layer_input",
                                        "attention.cross_attention_layers",
                                        "hrm.layers_per_stack" };
    const gg_arch *a = gg_arch_of(m->meta);
    const char *tie = gg_arch_has(a, "tied_blocks") ? a->name : NULL;
    for (size_t i = 0; i < sizeof ties / sizeof ties[0] && !tie; i++) {
        const gg_kv *kv = gg_arch_kv(m->meta, ties[i]);
        if (kv && (kv->type == GG_TYPE_ARR || gg_arch_number(m->meta, ties[i]) != 0)) tie = ties[i];
    }
    if (!tie) return GG_OK;
    gg_fail(err, GG_NO, "its blocks cannot be moved: %s ties them to their numbers", tie);
    return gg_at_file(err, m->name);
}

/* The first block may have other tensors than the rest, which use its values. */
static gg_status check_first(const gg_layer_model *models, const gg_layer *layers, size_t n,
                             gg_error *err)
{
    if (!gg_arch_has(gg_arch_of(models[0].meta), "first_differs")) return GG_OK;
    for (size_t i = 0; i < n; i++) {
        if ((layers[i].block == 0) == (i == 0)) continue;
        gg_fail(
            err, GG_NO,
            "block %llu cannot become block %zu: the first block differs in kind from the others",
            (unsigned long long)layers[i].block, i);
        return gg_at_file(err, models[layers[i].model].name);
    }
    return GG_OK;
}

/* An engine derives the kind of a block from its number (full or linear attention, sliding
 * windows, rotary positions, dense or expert FFN, scales). Check that each layer keeps its
 * kind at its new place. GG_NO names the block and the key. MTP blocks are not checked. */
static gg_status check_patterns(const gg_layer_model *models, const gg_layer *layers, size_t n,
                                gg_error *err)
{
    pattern list[8];
    gg_status st = check_first(models, layers, n, err);
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        const gg_layer_model *m = &models[layers[i].model];
        if (i > 0 && layers[i].model == layers[i - 1].model) continue;
        st = check_fixed(m, err);
        if (st == GG_OK && m->meta->n > 0) st = same_patterns(&models[0], m, err);
    }
    size_t patterns = patterns_of(models[0].meta, list);
    for (size_t k = 0; k < patterns && st == GG_OK; k++)
        for (size_t i = 0; i < n && st == GG_OK; i++)
            if (kind_of(&list[k], layers[i].block) != kind_of(&list[k], i))
                st = refuse(&models[layers[i].model], &layers[i], i, &list[k], err);
    return st;
}

/* The part of check_patterns for leading_dense_block_count: the first blocks are dense, and
 * the others have experts. *dense is the value of the key for these layers. */
static gg_status count_dense_layers(const gg_layer_model *models, const gg_layer *layers, size_t n,
                                    uint64_t *dense, gg_error *err)
{
    static const char key[] = "leading_dense_block_count";
    *dense = 0;
    for (size_t i = 0; i < n; i++) {
        const gg_layer_model *m = &models[layers[i].model];
        if (layers[i].block >= gg_arch_number(m->meta, key)) continue;
        if (*dense == i) {
            (*dense)++;
            continue;
        }
        gg_fail(
            err, GG_NO, "block %llu cannot become block %zu: it is dense (%s), block %llu is not",
            (unsigned long long)layers[i].block, i, key, (unsigned long long)layers[i - 1].block);
        gg_fix(err, "put dense blocks first");
        return gg_at_file(err, m->name);
    }
    return GG_OK;
}

typedef struct maker {
    const gg_layer_model *models;
    size_t n_models;
    const gg_layer *layers;
    size_t n;
    gg_meta_order *keys; /* per model, sorted; none for the first */
    char prefix[128];    /* "llama." */
    gg_error *err;
} maker;

/* Arrays whose length can equal the number of blocks only by chance. */
static bool counts_no_blocks(const gg_kv *kv, size_t prefix)
{
    static const char *const names[] = { "rope.dimension_sections", "target_layers",
                                         "classifier.output_labels" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (gg_text_is(kv->key + prefix, kv->key_len - prefix, names[i])) return true;
    return false;
}

/* The length of the prefix that marks a per-layer key; 0 for other keys. */
static size_t layer_prefix(const char *arch, const gg_kv *kv)
{
    if (gg_text_begins(kv->key, kv->key_len, arch)) return strlen(arch);
    return gg_text_begins(kv->key, kv->key_len, "xielu.") ? strlen("xielu.") : 0;
}

static bool has_value_per_block(const char *arch, const gg_kv *kv, uint64_t blocks)
{
    size_t prefix = kv ? layer_prefix(arch, kv) : 0;
    return prefix > 0 && kv->type == GG_TYPE_ARR && kv->count == blocks && blocks > 0 &&
           !counts_no_blocks(kv, prefix);
}

static bool is_layer_array(const char *arch, const gg_kv *kv, uint64_t blocks)
{
    return has_value_per_block(arch, kv, blocks) && gg_type_size(kv->elem_type) > 0;
}

bool gg_is_layer_array(const gg_meta *meta, const gg_kv *kv, uint64_t blocks)
{
    char arch[128];
    return gg_arch_key(meta, "", arch, sizeof arch) && is_layer_array(arch, kv, blocks);
}

bool gg_is_layer_texts(const gg_meta *meta, const gg_kv *kv, uint64_t blocks)
{
    char arch[128];
    return gg_arch_key(meta, "", arch, sizeof arch) && has_value_per_block(arch, kv, blocks) &&
           kv->elem_type == GG_TYPE_STR;
}

gg_status gg_layer_lengths(const gg_layer_model *m, gg_error *err)
{
    static const char *const names[] = {
        "attention.head_count",       "attention.head_count_kv",
        "feed_forward_length",        "attention.sliding_window_pattern",
        "attention.recurrent_layers", "attention.compress_ratios",
        "swiglu_clamp_exp",           "swiglu_clamp_shexp"
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const gg_kv *kv = gg_arch_kv(m->meta, names[i]);
        if (!kv || kv->type != GG_TYPE_ARR || kv->count == m->blocks) continue;
        gg_fail(err, GG_NO, "%.*s has %llu values for %llu blocks", (int)kv->key_len, kv->key,
                (unsigned long long)kv->count, (unsigned long long)m->blocks);
        return gg_at_file(err, m->name);
    }
    return GG_OK;
}

/* A key as text, for messages. */
static const char *key_text(const gg_kv *kv, char out[160])
{
    gg_escape(kv->key, kv->key_len < 64 ? kv->key_len : 64, out, 160);
    return out;
}

/* The entry of that key in a model. */
static const gg_kv *key_in(const maker *m, size_t model, const gg_kv *first)
{
    return model ? gg_meta_order_find(&m->keys[model], first->key, first->key_len) : first;
}

/* The value of a layer, or NULL if its model has none. */
static const uint8_t *value_of(const maker *m, const gg_kv *first, const gg_layer *l)
{
    const gg_kv *kv = key_in(m, l->model, first);
    size_t size = gg_type_size(first->elem_type);
    if (!kv) return NULL;
    if (kv->type == first->elem_type) return kv->data;
    if (kv->elem_type != first->elem_type ||
        !is_layer_array(m->prefix, kv, m->models[l->model].blocks))
        return NULL;
    return kv->data + l->block * size;
}

/* Builds an array of the first model with the values of the new layers. */
static gg_status make_array(const maker *m, const gg_kv *first, gg_meta *out)
{
    char key[160];
    size_t size = gg_type_size(first->elem_type);
    uint8_t *data = malloc(m->n * size + 1);
    if (!data) return gg_fail(m->err, GG_ENOMEM, "no memory for the metadata");
    for (size_t i = 0; i < m->n; i++) {
        const uint8_t *v = value_of(m, first, &m->layers[i]);
        if (!v) {
            free(data);
            gg_fail(m->err, GG_NO, "%s has one value per block in %s, but not in this model",
                    key_text(first, key), m->models[0].name);
            return gg_at_file(m->err, m->models[m->layers[i].model].name);
        }
        memcpy(data + i * size, v, size);
    }
    gg_kv made = *first;
    made.data = data;
    made.size = m->n * size;
    made.count = m->n;
    gg_status st = gg_meta_append(out, &made, m->err);
    free(data);
    return st;
}

/* A single value in the first model must equal the values of the other models' blocks. */
static gg_status check_scalar(const maker *m, const gg_kv *first)
{
    char key[160];
    size_t size = gg_type_size(first->type);
    for (size_t i = 0; size > 0 && i < m->n; i++) {
        const gg_layer *l = &m->layers[i];
        const gg_kv *kv = l->model ? key_in(m, l->model, first) : NULL;
        if (!kv || kv->elem_type != first->type ||
            !is_layer_array(m->prefix, kv, m->models[l->model].blocks) ||
            memcmp(kv->data + l->block * size, first->data, size) == 0)
            continue;
        gg_fail(m->err, GG_NO,
                "%s has a single value for all blocks in %s, but block %llu has another",
                key_text(first, key), m->models[0].name, (unsigned long long)l->block);
        return gg_at_file(m->err, m->models[l->model].name);
    }
    return GG_OK;
}

static gg_status make_key(maker *m, const gg_kv *kv, gg_meta *out)
{
    if (layer_prefix(m->prefix, kv) == 0) return gg_meta_append(out, kv, m->err);
    if (is_layer_array(m->prefix, kv, m->models[0].blocks)) return make_array(m, kv, out);
    gg_status st = kv->type == GG_TYPE_ARR ? GG_OK : check_scalar(m, kv);
    return st == GG_OK ? gg_meta_append(out, kv, m->err) : st;
}

uint64_t gg_layer_trunk(const gg_layer_model *m)
{
    uint64_t nextn = gg_arch_number(m->meta, "nextn_predict_layers");
    return nextn < m->blocks ? m->blocks - nextn : m->blocks;
}

/* Sets a number, unless the key has this value already, or is absent and the value is 0. */
static gg_status set_number(const maker *m, const char *name, uint64_t value, gg_meta *out)
{
    char key[160];
    if (gg_arch_number(out, name) == value || !gg_arch_key(out, name, key, sizeof key))
        return GG_OK;
    return gg_meta_set_u32(out, key, (uint32_t)value, m->err);
}

/* Engines expect MTP blocks at the end. *trunk is the number of layers before them. */
static gg_status find_trunk(const maker *m, size_t *trunk)
{
    *trunk = 0;
    for (size_t i = 0; i < m->n; i++) {
        const gg_layer_model *from = &m->models[m->layers[i].model];
        if (m->layers[i].block >= gg_layer_trunk(from)) continue;
        if (*trunk == i) {
            (*trunk)++;
            continue;
        }
        const gg_layer *before = &m->layers[i - 1];
        gg_fail(m->err, GG_NO,
                "block %llu is a multi-token-prediction block: it cannot come before block %llu",
                (unsigned long long)before->block, (unsigned long long)m->layers[i].block);
        gg_fix(m->err, "put such blocks last");
        return gg_at_file(m->err, m->models[before->model].name);
    }
    if (*trunk > 0) return GG_OK;
    gg_fail(m->err, GG_NO, "only multi-token-prediction blocks are left");
    return gg_at_file(m->err, m->models[0].name);
}

/* Whether the first n layers only repeat the first model. */
static bool in_order(const maker *m, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (m->layers[i].model != 0 || m->layers[i].block != i) return false;
    return true;
}

static gg_status make_keys(maker *m, gg_meta *out)
{
    size_t trunk;
    uint64_t dense = gg_arch_number(m->models[0].meta, "leading_dense_block_count");
    gg_status st = find_trunk(m, &trunk);
    if (st == GG_OK && !(in_order(m, trunk) && trunk == gg_layer_trunk(&m->models[0]))) {
        st = check_patterns(m->models, m->layers, trunk, m->err);
        if (st == GG_OK) st = count_dense_layers(m->models, m->layers, trunk, &dense, m->err);
    }
    for (size_t k = 0; k < m->n_models && st == GG_OK; k++)
        st = gg_layer_lengths(&m->models[k], m->err);
    for (size_t i = 0; i < m->models[0].meta->n && st == GG_OK; i++)
        st = make_key(m, &m->models[0].meta->kv[i], out);
    if (st == GG_OK) st = set_number(m, "block_count", m->n, out);
    if (st == GG_OK) st = set_number(m, "nextn_predict_layers", m->n - trunk, out);
    return st == GG_OK ? set_number(m, "leading_dense_block_count", dense, out) : st;
}

gg_status gg_layer_keys(const gg_layer_model *models, size_t n_models, const gg_layer *layers,
                        size_t n, gg_meta *out, gg_error *err)
{
    maker m = { .models = models, .n_models = n_models, .layers = layers, .n = n, .err = err };
    if (n == models[0].blocks && in_order(&m, n)) return gg_meta_copy(out, models[0].meta, err);
    if (!gg_arch_key(models[0].meta, "", m.prefix, sizeof m.prefix)) {
        gg_fail(err, GG_NO, "it has no general.architecture");
        return gg_at_file(err, models[0].name);
    }
    m.keys = calloc(n_models, sizeof *m.keys);
    gg_status st = m.keys ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the metadata");
    for (size_t k = 1; k < n_models && st == GG_OK; k++)
        st = gg_meta_order_make(models[k].meta, &m.keys[k], err);
    if (st == GG_OK) st = make_keys(&m, out);
    for (size_t k = 0; m.keys && k < n_models; k++) free(m.keys[k].list);
    free(m.keys);
    return st;
}

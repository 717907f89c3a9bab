/* layer_keys.c - keys of a model made of other models' blocks: block_count, per-layer arrays. */
#include "layer_keys.h"

#include "gguf/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct maker {
    const gg_layer_model *models;
    size_t n_models;
    const gg_layer *layers;
    size_t n;
    gg_meta_order *keys; /* per model, sorted */
    const gg_kv **here;  /* per model: its entry of the current key, or NULL */
    char prefix[128];    /* "llama." */
    gg_error *err;
} maker;

static bool key_is(const gg_kv *kv, size_t at, const char *name)
{
    size_t n = strlen(name);
    return kv->key_len == at + n && memcmp(kv->key + at, name, n) == 0;
}

static bool begins(const gg_kv *kv, const char *prefix)
{
    size_t n = strlen(prefix);
    return kv->key_len > n && memcmp(kv->key, prefix, n) == 0;
}

/* Arrays whose length can equal the number of blocks only by chance. */
static bool counts_no_blocks(const gg_kv *kv, size_t prefix)
{
    static const char *const names[] = { "rope.dimension_sections", "target_layers",
                                         "classifier.output_labels" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (key_is(kv, prefix, names[i])) return true;
    return false;
}

/* The length of the prefix that marks a per-layer key; 0 for other keys. */
static size_t layer_prefix(const char *arch, const gg_kv *kv)
{
    if (begins(kv, arch)) return strlen(arch);
    return begins(kv, "xielu.") ? strlen("xielu.") : 0;
}

static bool is_layer_array(const char *arch, const gg_kv *kv, uint64_t blocks)
{
    size_t prefix = kv ? layer_prefix(arch, kv) : 0;
    return prefix > 0 && kv->type == GG_TYPE_ARR && kv->count == blocks && blocks > 0 &&
           gg_type_size(kv->elem_type) > 0 && !counts_no_blocks(kv, prefix);
}

bool gg_is_layer_array(const gg_meta *meta, const gg_kv *kv, uint64_t blocks)
{
    char arch[128];
    return gg_arch_key(meta, "", arch, sizeof arch) && is_layer_array(arch, kv, blocks);
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
        char key[160];
        if (!gg_arch_key(m->meta, names[i], key, sizeof key)) continue;
        const gg_kv *kv = gg_meta_find(m->meta, key);
        if (!kv || kv->type != GG_TYPE_ARR || kv->count == m->blocks) continue;
        gg_fail(err, GG_NO, "%s has %llu values for %llu blocks", key,
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

static gg_status append(gg_meta *to, const gg_kv *kv, gg_error *err)
{
    gg_kv copy = *kv;
    gg_meta one = { .kv = &copy, .n = 1, .cap = 1 };
    return gg_meta_copy(to, &one, err);
}

/* The value of a layer, or NULL if its model has none. */
static const uint8_t *value_of(const maker *m, const gg_kv *first, const gg_layer *l)
{
    const gg_kv *kv = m->here[l->model];
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
    gg_status st = append(out, &made, m->err);
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
        const gg_kv *kv = l->model ? m->here[l->model] : NULL;
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
    if (layer_prefix(m->prefix, kv) == 0) return append(out, kv, m->err);
    for (size_t k = 0; k < m->n_models; k++)
        m->here[k] = k ? gg_meta_order_find(&m->keys[k], kv->key, kv->key_len) : kv;
    if (is_layer_array(m->prefix, kv, m->models[0].blocks)) return make_array(m, kv, out);
    gg_status st = kv->type == GG_TYPE_ARR ? GG_OK : check_scalar(m, kv);
    return st == GG_OK ? append(out, kv, m->err) : st;
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
        st = gg_layer_patterns(m->models, m->layers, trunk, m->err);
        if (st == GG_OK) st = gg_layer_dense(m->models, m->layers, trunk, &dense, m->err);
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
    m.here = calloc(n_models, sizeof *m.here);
    gg_status st = m.keys && m.here ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the metadata");
    for (size_t k = 1; k < n_models && st == GG_OK; k++)
        st = gg_meta_order_make(models[k].meta, &m.keys[k], err);
    if (st == GG_OK) st = make_keys(&m, out);
    for (size_t k = 0; m.keys && k < n_models; k++) free(m.keys[k].list);
    free(m.keys);
    free(m.here);
    return st;
}

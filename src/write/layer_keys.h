/* layer_keys.h - adapts the keys with one value per block to a model whose blocks come from
 * one or several others in a new order. Used wherever blocks are added, dropped or moved.
 * Internal.
 */
#pragma once

#include "organ/gg_gguf.h"

/* A model whose blocks are used. */
typedef struct gg_layer_model {
    const gg_meta *meta;
    const char *name; /* in messages */
    uint64_t blocks;  /* its block_count, MTP blocks included: the length of its arrays */
} gg_layer_model;

/* One block of the new model: block `block` (less than blocks) of models[model]. */
typedef struct gg_layer {
    size_t model;
    uint64_t block;
} gg_layer;

/* Limit for block_count, far above that of any real model. */
#define GG_LAYERS_MAX 100000

/* Whether this key has one value per block in a model with so many blocks. True for arrays of
 * numbers or booleans under "<architecture>." (and "xielu.") with `blocks` values, except
 * those that are known to count something else. */
bool gg_is_layer_array(const gg_meta *meta, const gg_kv *kv, uint64_t blocks);

/* Whether this is such a key with texts. They may be names of anything else, so gg_layer_keys keeps
 * them as they are. */
bool gg_is_layer_texts(const gg_meta *meta, const gg_kv *kv, uint64_t blocks);

/* GG_NO, with key and file, if an array that must have one value per block has another
 * length. Engines refuse such a model. */
gg_status gg_layer_lengths(const gg_layer_model *m, gg_error *err);

/* Number of its blocks that are not multi-token-prediction blocks. */
uint64_t gg_layer_trunk(const gg_layer_model *m);

/* Write the keys of models[0], adapted to a model of the n layers, to `out` (empty). Adapted
 * are block_count; nextn_predict_layers, the number of MTP blocks; leading_dense_block_count;
 * and every per-layer array, which takes values from another model's array or scalar. If the
 * layers are all blocks of models[0] in their order, nothing changes.
 * GG_NO, with the key or the block, and the file, for: a key that one model has per block and
 * another does not have; a single value of the first model that differs for a block of
 * another; MTP blocks before other blocks; and everything that check_patterns refuses. */
gg_status gg_layer_keys(const gg_layer_model *models, size_t n_models, const gg_layer *layers,
                        size_t n, gg_meta *out, gg_error *err);

/* layer_keys.h - keys that hold one value per block, for a model whose blocks are taken
 * from one or several others in a new order. Used wherever blocks are added, dropped or
 * moved. Internal.
 */
#ifndef GG_LAYER_KEYS_H
#define GG_LAYER_KEYS_H

#include "organ/gg_gguf.h"

/* A model that gives blocks. */
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

/* More blocks than any model has: a block_count above it is refused. */
#define GG_LAYERS_MAX 100000

/* Does this key of a model with so many blocks hold one value per block? True for arrays of
 * numbers or booleans under "<architecture>." (and "xielu.") with `blocks` values, except
 * those that are known to count something else. */
bool gg_is_layer_array(const gg_meta *meta, const gg_kv *kv, uint64_t blocks);

/* GG_NO, with key and file, where an array that must have one value per block has another
 * length; engines refuse such a model. */
gg_status gg_layer_lengths(const gg_layer_model *m, gg_error *err);

/* How many of its blocks are no multi-token-prediction blocks. */
uint64_t gg_layer_trunk(const gg_layer_model *m);

/* The keys of models[0] for a model of the n layers, into `out` (empty). What follows:
 * block_count; nextn_predict_layers, the number of MTP blocks; leading_dense_block_count;
 * and every per-layer array, which takes the value of another model's array, or its scalar.
 * Where the layers are all blocks of models[0] in their order, nothing changes.
 * GG_NO, with the key or the block, and the file: a key that one model has per block and the
 * other has not; a scalar of the first that is another value for a block of another; MTP
 * blocks before others; and what gg_layer_patterns refuses. */
gg_status gg_layer_keys(const gg_layer_model *models, size_t n_models, const gg_layer *layers,
                        size_t n, gg_meta *out, gg_error *err);

/* Are the kinds of block that an engine derives from a block's number (full and linear
 * attention, sliding windows, rotary positions, dense and expert FFNs, scales) the same for
 * each layer at its old and at its new place? GG_NO names the block and the key.
 * MTP blocks have no part in these patterns. */
gg_status gg_layer_patterns(const gg_layer_model *models, const gg_layer *layers, size_t n,
                            gg_error *err);

/* Of gg_layer_patterns, for leading_dense_block_count: the first models' blocks are dense,
 * the others have experts. *dense is the key's value for these layers. */
gg_status gg_layer_dense(const gg_layer_model *models, const gg_layer *layers, size_t n,
                         uint64_t *dense, gg_error *err);

#endif

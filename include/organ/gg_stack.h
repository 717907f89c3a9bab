/* gg_stack.h - a model made of the blocks of one or several models in a new order: blocks
 * dropped, repeated, moved, or joined from several models. See gg_verbs.h for gg_run.
 */
#ifndef GG_STACK_H
#define GG_STACK_H

#include "gg_organ.h"
#include "gg_verbs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One block of the new model. */
typedef struct gg_block_ref {
    size_t model;   /* index into gg_block_order.models */
    uint64_t block; /* its number there */
} gg_block_ref;

/* The blocks of the new model, in order. Start from all zero. The models are the caller's
 * and must outlive the order; models[0] is the one that was added first. It gives the keys
 * and all tensors outside the blocks. */
typedef struct gg_block_order {
    gg_source **models;
    size_t n_models, models_cap;
    gg_block_ref *blocks;
    size_t n, cap;
} gg_block_order;

/* Append blocks of a seekable model (see gg_source_open_spooled) in the order of the text:
 * numbers and ranges such as "0-3,6,2-4"; a block may come several times. GG_EUSAGE for
 * another text, bare organ records and split experts; GG_NO for a block that the model does
 * not have, and a model without block_count. On an error the order must still be freed. */
gg_status gg_block_order_add(gg_block_order *o, gg_source *model, const char *blocks,
                             gg_error *err);

/* Append all blocks of a model except those of the text (NULL = none of them), and, with
 * `mtp`, except its multi-token-prediction blocks. Errors as above; GG_NO also if the model
 * has no such blocks, or none is left. */
gg_status gg_block_order_drop(gg_block_order *o, gg_source *model, const char *blocks, bool mtp,
                              gg_error *err);

void gg_block_order_free(gg_block_order *o); /* back to all zero; the models stay open */

/* Called for each block in order: how many tensors it has, and their bytes. */
typedef gg_status (*gg_stack_fn)(void *ctx, size_t i, const gg_block_ref *from, size_t tensors,
                                 uint64_t bytes, gg_error *err);

typedef struct gg_stack_report {
    size_t blocks, tensors;
    uint64_t bytes; /* written */
} gg_stack_report;

/* Write the new model as one file (`output`, or "-" for stdout). Tensors are copied byte
 * for byte; the number in their names, block_count, nextn_predict_layers,
 * leading_dense_block_count and every key with one value per block follow; general.file_type
 * follows if another dtype is now that of most matrices. All blocks of one model in their
 * order give that model byte for byte (of a split model, or a directory of one, as one
 * file).
 *
 * With output NULL nothing is written. `fn` (may be NULL) is called when all checks have
 * passed and nothing is written yet.
 *
 * GG_NO, with the key, tensor or block: models of different architecture, embedding length,
 * heads, vocabulary, rope, FFN or experts; tensors of other dims; multi-token-prediction
 * blocks before others; blocks that would change their kind, because an engine derives it
 * from their number (full_attention_interval, sliding windows, leading dense blocks, ...). */
gg_status gg_stack_blocks(const gg_block_order *o, const char *output, gg_stack_fn fn, void *ctx,
                          const gg_run *run, gg_stack_report *report, gg_error *err);

#ifdef __cplusplus
}
#endif

#endif

/* stack_models.h - the models whose blocks are stacked: checks that they are compatible, and
 * lists their tensors by block. Internal. */
#ifndef GG_STACK_MODELS_H
#define GG_STACK_MODELS_H

#include "organ/gg_stack.h"
#include "verbs/plan/layer_keys.h"

/* Tensors by block. The tensors of block b are list[first[b]] to list[first[b + 1] - 1], in the
 * order of the model. */
typedef struct gg_block_tensors {
    size_t *list, *first;
} gg_block_tensors;

/* Get the keys and the number of blocks of a source. GG_EUSAGE for bare records and for single
 * experts; GG_NO if block_count is missing or out of range. */
gg_status gg_stack_model(const gg_source *s, gg_layer_model *out, gg_error *err);

/* The number in "blk.N.", or -1. Blocks of other parts (v.blk.N., enc.blk.N.) are not moved. */
int64_t gg_stack_block_of(const gg_tensor *t);

/* GG_NO if a tensor has a block number of block_count or more. */
gg_status gg_block_tensors_make(const gg_source *s, const gg_layer_model *m, gg_block_tensors *out,
                                gg_error *err);
void gg_block_tensors_free(gg_block_tensors *b);

/* Check whether blocks of `other` would work in `first`. GG_NO with the first conflict: a key
 * that differs, or different dims of a tensor whose role has the same dims in all blocks of
 * `first`. */
gg_status gg_stack_agree(const gg_source *first, const gg_source *other, gg_error *err);

#endif

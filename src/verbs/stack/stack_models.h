/* stack_models.h - the models that give blocks: what they must agree in, and which of their
 * tensors are of which block. Internal. */
#ifndef GG_STACK_MODELS_H
#define GG_STACK_MODELS_H

#include "organ/gg_stack.h"
#include "verbs/plan/layer_keys.h"

/* Tensors by block: those of block b are list[first[b]] to list[first[b + 1] - 1], in the
 * model's order. */
typedef struct gg_block_tensors {
    size_t *list, *first;
} gg_block_tensors;

/* Keys and number of blocks of a source. GG_EUSAGE for bare records and experts that are
 * taken apart; GG_NO without block_count, or when it makes no sense. */
gg_status gg_stack_model(const gg_source *s, gg_layer_model *out, gg_error *err);

/* The number in "blk.N.", or -1: blocks of other parts (v.blk.N., enc.blk.N.) stay. */
int64_t gg_stack_block_of(const gg_tensor *t);

/* GG_NO for a tensor of a block from block_count on. */
gg_status gg_block_tensors_make(const gg_source *s, const gg_layer_model *m, gg_block_tensors *out,
                                gg_error *err);
void gg_block_tensors_free(gg_block_tensors *b);

/* GG_NO with the first conflict where blocks of `other` would not work in `first`: keys,
 * or dims of a tensor whose role has the same dims in all blocks of `first`. */
gg_status gg_stack_agree(const gg_source *first, const gg_source *other, gg_error *err);

#endif

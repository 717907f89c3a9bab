/* key_compat.h - checks by keys whether organs of one model can work in another. Internal. */
#pragma once

#include "organ/gg_organ.h"

/* Flags of gg_key_conflicts. */
enum {
    GG_COMPAT_BLOCKS = 1,    /* whole blocks move: FFN length and experts must agree too */
    GG_COMPAT_LAYERS_GO = 2, /* per-layer arrays move with their blocks and need not agree */
};

/* How certain a difference is, and what it does. */
typedef enum gg_conflict {
    GG_CONFLICT_UNSURE, /* one model lacks the key, and what engines take then is not known */
    GG_CONFLICT_VALUES, /* the values of tensors mean something else */
    GG_CONFLICT_ROWS,   /* the rows of equal shapes belong to other heads */
} gg_conflict;

/* Call fn (may be NULL) with one line per difference between the keys of two models that decides
 * what the values of their tensors mean: the architecture, all keys of the architecture but those
 * that are known to be harmless (number of blocks, context length), and the vocabulary. A key that
 * one model lacks is compared with the value that engines take then, where that is known. Arrays
 * with one value per block are compared over the blocks that both models have, MTP blocks left out;
 * one number for all blocks equals an array that holds only that number. Returns the number of
 * differences other than GG_CONFLICT_UNSURE; 0 if either meta is NULL. */
typedef void (*gg_key_conflict_fn)(void *ctx, gg_conflict kind, const char *line);
size_t gg_key_conflicts(const gg_meta *base, const gg_meta *donor, unsigned flags,
                        gg_key_conflict_fn fn, void *ctx);

/* The same for the tables of RoPE, tensors that belong to the keys. Their values are compared if
 * both models can be read in any order. */
size_t gg_table_conflicts(gg_source *base, gg_source *donor, gg_key_conflict_fn fn, void *ctx);

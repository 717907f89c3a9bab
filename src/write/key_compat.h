/* key_compat.h - checks by keys whether organs of one model can work in another. Internal. */
#pragma once

#include "organ/gg_organ.h"

/* Flags of gg_key_conflicts. */
enum {
    GG_COMPAT_BLOCKS = 1,    /* whole blocks move: FFN length and experts must agree too */
    GG_COMPAT_LAYERS_GO = 2, /* per-layer arrays move with their blocks and need not agree */
};

/* Call fn (may be NULL) with one line per difference that prevents organs of `donor` from
 * working in `base`: architecture, embedding length, head counts and sizes, vocabulary, rope,
 * norm epsilon. Arrays with one value per block are compared over the blocks that both models
 * have, MTP blocks left out; one number for all blocks equals an array that holds only that
 * number. Returns the number of differences; 0 if either meta is NULL. */
typedef void (*gg_key_conflict_fn)(void *ctx, const char *line);
size_t gg_key_conflicts(const gg_meta *base, const gg_meta *donor, unsigned flags,
                        gg_key_conflict_fn fn, void *ctx);

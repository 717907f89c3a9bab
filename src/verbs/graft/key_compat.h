/* key_compat.h - do two models' keys allow organs of one to work in the other? Internal. */
#ifndef GG_KEY_COMPAT_H
#define GG_KEY_COMPAT_H

#include "organ/gg_organ.h"

/* Call fn with one line a difference that makes organs of `donor` not fit `base`:
 * architecture, embedding length, head counts and sizes, vocabulary, rope, norm
 * epsilon; with `blocks` also FFN length and experts, which whole blocks need. Values
 * that are one number for all blocks in one model and an array in the other agree
 * when the array holds only that number; arrays of different lengths (a value a block)
 * when they do over the blocks that both have, MTP blocks left out. Returns how many there were. */
typedef void (*gg_key_conflict_fn)(void *ctx, const char *line);
size_t gg_key_conflicts(const gg_meta *base, const gg_meta *donor, bool blocks,
                        gg_key_conflict_fn fn, void *ctx);

#endif

/* pick.h - decodes single values of a block: kernel/pick.c. */
#pragma once

#include "base/isa.h"

/* Returns value j < block_elems of the block, with the same bits as gg_decode. */
typedef float (*gg_pick_fn)(const uint8_t *block, unsigned j);

/* Returns the function for a type, or NULL if the whole block must be decoded. Call it as
 * GG_PICK(gg_pick_of). */
GG_DECLARE_KF(gg_pick_fn, gg_pick_of, (uint32_t dtype));

/* pick.h - one value of a block without decoding the rest. Internal. */
#ifndef GG_PICK_H
#define GG_PICK_H

#include "base/isa.h"

/* Value j < block_elems of the block, the same bits as gg_decode gives it. */
typedef float (*gg_pick_fn)(const uint8_t *block, unsigned j);

/* NULL where a type has no shorter way than to decode its block: GG_PICK(gg_pick_of). */
GG_DECLARE_KF(gg_pick_fn, gg_pick_of, (uint32_t dtype));

#endif

/* codec.h - what a codec family offers to the table in qtable.c. Internal.
 *
 * One file a family in src/quant/kernel/, compiled once per instruction-set level
 * (base/isa.h). Each type defines
 *     const gg_codec GG_K(gg_codec_q4_0) = { decode_q4_0, encode_q4_0 };
 * with static functions, NULL where the type has no such direction.
 */
#ifndef GG_CODEC_H
#define GG_CODEC_H

#include "organ/gg_quant.h"

#include "base/isa.h"

typedef struct gg_codec {
    /* `blocks` holds nblocks blocks of the type, unaligned; out gets
     * nblocks * block_elems values. Any bytes are valid. */
    void (*decode)(const uint8_t *blocks, float *out, size_t nblocks);

    /* Finite x only (the caller has checked). Encodes ONE ROW of `nblocks`
     * blocks; imatrix is NULL or one weight per value of the row. */
    void (*encode)(const float *x, uint8_t *blocks, size_t nblocks, const float *imatrix);

    bool needs_imatrix; /* encode must not be called with imatrix NULL */
} gg_codec;

/* NULL when no codec knows the type. */
const gg_codec *gg_codec_get(uint32_t dtype);

#endif

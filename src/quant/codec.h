/* codec.h - the codec of one tensor type, as listed in qtable.h. Internal.
 *
 * Each family of types has one file in src/quant/kernel/, compiled once per instruction-set level
 * (base/isa.h). Each type defines
 *     const gg_codec GG_K(gg_codec_q4_0) = { decode_q4_0, encode_q4_0 };
 * with static functions. A function is NULL if the type cannot be decoded or encoded.
 */
#pragma once

#include "organ/gg_quant.h"

#include "base/isa.h"

/* Whether an encoder uses the weights of an importance matrix. */
typedef enum gg_weighing { GG_BLIND, GG_WEIGHS, GG_NEEDS_WEIGHTS } gg_weighing;

typedef struct gg_codec {
    /* Decodes nblocks blocks, which may be unaligned, to nblocks * block_elems values. Any bytes
     * are valid input. */
    void (*decode)(const uint8_t *blocks, float *out, size_t nblocks);

    /* Encodes one row of nblocks blocks. All x must be finite; the caller checks this. imatrix is
     * NULL or has one weight per value of the row, as gg_settle_weights leaves them. */
    void (*encode)(const float *x, uint8_t *blocks, size_t nblocks, const float *imatrix);

    gg_weighing weighing; /* GG_NEEDS_WEIGHTS: encode must not be called with imatrix NULL */

    /* NULL, or a faster way to encode a row without imatrix, whose values need not be finite. It
     * gives the same bytes, or returns false if the row has values that only encode handles; the
     * blocks then have no meaning. */
    bool (*quick)(const float *x, uint8_t *blocks, size_t nblocks);
} gg_codec;

/* Returns the codec of a type, or NULL if there is none. */
const gg_codec *gg_codec_get(uint32_t dtype);

/* Whether all n values are finite, as encoders require. */
GG_DECLARE_KF(bool, gg_all_finite, (const float *x, size_t n));

/* Level 2, AVX-512, uses the codecs of level 1, except those for which vectors of 64 bytes are at
 * least 1.2 times as fast in the cache. The members are as in gg_codec, but for at least
 * GG_WIDE_LEAST values; quick may be NULL. */
typedef struct gg_wide {
    void (*decode)(const uint8_t *blocks, float *out, size_t nblocks);
    bool (*quick)(const float *x, uint8_t *blocks, size_t nblocks);
} gg_wide;

#define GG_WIDE_LEAST 16

/* Returns the functions of level 2 for a type, or NULL if they are those of level 1. */
const gg_wide *gg_wide_get(uint32_t dtype);

/* ---- single values: kernel/pick.c ---- */

/* Returns value j < block_elems of the block, with the same bits as gg_decode. */
typedef float (*gg_pick_fn)(const uint8_t *block, unsigned j);

/* Returns the function for a type, or NULL if the whole block must be decoded. Call it as
 * GG_PICK(gg_pick_of). */
GG_DECLARE_KF(gg_pick_fn, gg_pick_of, (uint32_t dtype));

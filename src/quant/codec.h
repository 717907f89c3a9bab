/* codec.h - the codec of one tensor type, as listed in codec.c. Internal.
 *
 * Each family of types has one file in src/quant/kernel/, compiled once per instruction-set level
 * (base/isa.h). Each type has a line
 *     GG_CODEC(q4_0, decode_q4_0, encode_q4_0, NULL)
 * with static functions. A program that only decodes is linked without the encoders.
 */
#pragma once

#include "organ/gg_quant.h"

#include "base/isa.h"

/* Decodes nblocks blocks, which may be unaligned, to nblocks * block_elems values. Any bytes
 * are valid input. */
typedef void (*gg_decoder)(const uint8_t *blocks, float *out, size_t nblocks);

/* A faster way to encode a row without imatrix, whose values need not be finite. It gives the same
 * bytes, or returns false if the row has values that only `encode` handles; the blocks then have no
 * meaning. */
typedef bool (*gg_quick_encoder)(const float *x, uint8_t *blocks, size_t nblocks);

typedef struct gg_encoder {
    /* Encodes one row of nblocks blocks. All x must be finite; the caller checks this. imatrix is
     * NULL or has one weight per value of the row, as gg_settle_weights leaves them. NULL if the
     * type cannot be encoded. */
    void (*encode)(const float *x, uint8_t *blocks, size_t nblocks, const float *imatrix);
    gg_quick_encoder quick; /* NULL if there is none */
} gg_encoder;

#define GG_CODEC(name, decode, encode, quick) \
    const gg_decoder GG_K(gg_decode_##name) = decode; \
    const gg_encoder GG_K(gg_encode_##name) = { encode, quick };

/* Whether all n values are finite, as encoders require. */
GG_DECLARE_KF(bool, gg_all_finite, (const float *x, size_t n));

/* Level 2, AVX-512, uses the codecs of level 1, except those for which vectors of 64 bytes are at
 * least 1.2 times as fast in the cache. They take at least GG_WIDE_LEAST values; quick may be NULL.
 */
typedef struct gg_wide {
    gg_decoder decode;
    gg_quick_encoder quick;
} gg_wide;

#define GG_WIDE_LEAST 16

/* Returns the functions of level 2 for a type, or NULL if they are those of level 1. */
const gg_wide *gg_wide_get(uint32_t dtype);

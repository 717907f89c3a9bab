/* wide.h - decoders and encoders for level 2, AVX-512. Internal.
 *
 * Level 2 uses the codecs of level 1, except those for which vectors of 64 bytes are at least 1.2
 * times as fast in the cache. They give the same bits.
 */
#ifndef GG_WIDE_H
#define GG_WIDE_H

#include "codec.h"

typedef struct gg_wide {
    /* As in gg_codec, but for at least GG_WIDE_LEAST values. quick may be NULL. */
    void (*decode)(const uint8_t *blocks, float *out, size_t nblocks);
    bool (*quick)(const float *x, uint8_t *blocks, size_t nblocks);
} gg_wide;

#define GG_WIDE_LEAST 16

/* Returns the functions of a type, or NULL if level 2 uses those of level 1. */
const gg_wide *gg_wide_get(uint32_t dtype);

#endif

/* fields.h - scales and levels that the codecs and the decoders of single values share. Internal.
 */
#pragma once

#include "lanes.h"

/* The levels of IQ4_NL and IQ4_XS. */
static const int8_t gg_iq4_levels[16]
    __attribute__((unused)) = { -127, -104, -83, -65, -49, -35, -22, -10,
                                1,    13,   25,  38,  53,  69,  89,  113 };

/* The levels of MXFP4 and NVFP4, which are the values of E2M1 times 2. */
static const int8_t gg_fp4_levels[16]
    __attribute__((unused)) = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

/* The shifts of IQ1_S and IQ1_M by their sign bit. */
static const float gg_iq1_shift[2] __attribute__((unused)) = { 0.125f, -0.125f };

/* 2^(e - 128); for e below 2 the result is subnormal. */
GG_INLINE float gg_mx_scale(unsigned e)
{
    return gg_bits_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

/* Exact, because both branches multiply an integer by a power of two. */
GG_INLINE float gg_nv_scale(unsigned d)
{
    const unsigned e = d >> 3 & 15, m = d & 7;
    if (d == 0x7f) return 0.0f;
    return e == 0 ? (float)m * 0x1p-10f : gg_bits_float((e + 119) << 23 | m << 20);
}

GG_INLINE float gg_iq2_scale(float d, uint32_t scale)
{
    return d * (0.5f + (float)scale) * 0.25f;
}

/* The scale of a block of IQ1_M is in the upper nibbles of four fields. */
GG_INLINE float gg_iq1_m_scale(const uint8_t *sc)
{
    unsigned d = 0;
    for (int i = 0; i < 4; i++) d |= (unsigned)(sc[2 * i + 1] >> 4) << 4 * i;
    return gg_half_decode((uint16_t)d);
}

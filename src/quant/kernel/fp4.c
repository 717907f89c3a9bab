/* fp4.c - MXFP4 (32 values in 17 bytes) and NVFP4 (64 in 36): E2M1 floats with a
 * power-of-two scale a 32, or an 8-bit float scale a 16.
 *
 *   MXFP4  | u8 e | u8 qs[16] |            low nibble j: value j, high: value j + 16
 *   NVFP4  | u8 d[4] | u8 qs[4][8] |       the same by 8, in each run of 16
 *
 *   nibble  3     2 1   0                  d[s] of NVFP4   7   6    3 2     0
 *          |sgn| exp | man |                              | - |  E   |   M   |
 *
 *   T = 0 1 2 3 4 6 8 12 and their negatives: the E2M1 value doubled, so the scales
 *   below are halved.
 *   MXFP4  y = T[q] * 2^(e - 128); e = 255 is an ordinary exponent here
 *   NVFP4  y = T[q] * u(d[s]); u = M * 2^-10 if E = 0, else (1 + M/8) * 2^(E - 8);
 *          0x7F is 0, bit 7 is ignored otherwise
 */
#include "grid.h"

enum { MX_BYTES = 17, NV_BYTES = 36 };

static const int8_t doubled[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

/* 2^(e - 128): e below 2 is a subnormal single. */
static float mx_scale(unsigned e)
{
    return gg_bits_float(e < 2 ? 0x00200000u << e : (e - 1) << 23);
}

/* An integer times a power of two in both branches, so exact. */
static float nv_scale(unsigned d)
{
    const unsigned e = d >> 3 & 15, m = d & 7;
    if (d == 0x7f) return 0.0f;
    return e == 0 ? (float)m * 0x1p-10f : gg_bits_float((e + 119) << 23 | m << 20);
}

static void decode_mxfp4(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += MX_BYTES, out += 32)
        gg_nibbles32(b + 1, doubled, mx_scale(b[0]), out);
}

static void decode_nvfp4(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += NV_BYTES)
        for (int s = 0; s < 4; s++, out += 16)
            gg_nibbles16(b + 4 + 8 * s, doubled, nv_scale(b[s]), out);
}

const gg_codec GG_K(gg_codec_mxfp4) = { decode_mxfp4, NULL, false };
const gg_codec GG_K(gg_codec_nvfp4) = { decode_nvfp4, NULL, false };

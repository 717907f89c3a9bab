/* iq4.c - IQ4_NL (32 values in 18 bytes) and IQ4_XS (256 in 136): 4-bit values on a
 * bent scale, denser around zero, as weights are.
 *
 *           0        2       4       8                                        136
 *   IQ4_NL  | d f16  | u8 qs[16]
 *   IQ4_XS  | d f16  | u16 h | l[4]  | u8 qs[8][16]                            |
 *
 *   qs: low nibble of byte j is value j of the 32, high nibble value j + 16.
 *   IQ4_XS, run k of 32: s = nibble k of l | (h >> 2k & 3) << 4, low nibble first.
 *
 *   IQ4_NL  y = d * K[q]            IQ4_XS  y = (d * (s - 32)) * K[q]
 */
#include "grid.h"

enum { RUNS = 8, NL_BYTES = 18, XS_BYTES = 136 };

static const int8_t levels[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };

static void decode_iq4_nl(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += NL_BYTES, out += 32)
        gg_nibbles32(b + 2, levels, gg_load_f16(b), out);
}

static void decode_iq4_xs(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += XS_BYTES) {
        const float d = gg_load_f16(b);
        const unsigned h = gg_load_u16(b + 2);
        for (int k = 0; k < RUNS; k++, out += 32) {
            const unsigned s = (b[4 + k / 2] >> 4 * (k & 1) & 15u) | (h >> 2 * k & 3) << 4;
            gg_nibbles32(b + 8 + 16 * k, levels, d * (float)((int)s - 32), out);
        }
    }
}

const gg_codec GG_K(gg_codec_iq4_nl) = { decode_iq4_nl, NULL, false };
const gg_codec GG_K(gg_codec_iq4_xs) = { decode_iq4_xs, NULL, false };

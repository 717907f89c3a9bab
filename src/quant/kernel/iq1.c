/* iq1.c - IQ1_S and IQ1_M: 256 values in 50 and 56 bytes.
 *
 * Eight values at a time are an entry of a grid of points of -1, 0, 1, all of them
 * moved by the same +-0.125. k = 0..7 counts runs of 32, l = 0..3 groups of 8 in
 * it, t = 4k + l.
 *
 *          0             2              34             50
 *   IQ1_S  | d (f16)     | u8 index[32] | u16 hi[8]    |
 *          0                      32             48             56
 *   IQ1_M  | u8 index[32]         | u8 hi[16]    | u16 sc[4]    |
 *
 *   hi[k] of IQ1_S                              nibble t of hi, IQ1_M
 *    15  14   12 11   9 8    6 5    3 2    0     3   2      0
 *   |sgn|  s    | i 3  | i 2  | i 1  | i 0  |   |sgn| index  |
 *
 *   sc[k/2] of IQ1_M: bits 15..12 are nibble k/2 of d's f16, then 3-bit scales of
 *   the half runs, k even first:  | d | s 3 | s 2 | s 1 | s 0 |
 *   The index gets its three high bits from hi.
 *
 *   y = (d * (2s + 1)) * (grid[index][e] + (sgn ? -0.125 : 0.125))
 */
#include "grid.h"

enum { RUNS = 8, S_BYTES = 50, M_BYTES = 56 };

static const float shift[2] = { 0.125f, -0.125f };

static void decode_iq1_s(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += S_BYTES) {
        const float d = gg_load_f16(b);
        for (int k = 0; k < RUNS; k++) {
            const unsigned hi = gg_load_u16(b + 34 + 2 * k);
            const gg_f32x8 dl = gg_splat8(d * (float)(int)(2 * (hi >> 12 & 7) + 1));
            const gg_f32x8 delta = gg_splat8(shift[hi >> 15]);
            const uint8_t *q = b + 2 + 4 * k;
            for (int l = 0; l < 4; l++, out += 8)
                gg_store8(out, dl * (gg_grid8(gg_iq1s_grid[q[l] | (hi >> 3 * l & 7) << 8]) + delta));
        }
    }
}

static float iq1_m_scale(const uint8_t *sc)
{
    unsigned d = 0;
    for (int i = 0; i < 4; i++) d |= (unsigned)(sc[2 * i + 1] >> 4) << 4 * i;
    return gg_half_decode((uint16_t)d);
}

static void decode_iq1_m(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += M_BYTES) {
        const float d = iq1_m_scale(b + 48);
        for (int h = 0; h < 2 * RUNS; h++, out += 16) {
            const unsigned s = gg_load_u16(b + 48 + 2 * (h / 4)) >> 3 * (h % 4) & 7u, hi = b[32 + h];
            const gg_f32x8 dl = gg_splat8(d * (float)(int)(2 * s + 1));
            const gg_f32x8 delta0 = gg_splat8(shift[hi >> 3 & 1]), delta1 = gg_splat8(shift[hi >> 7]);
            gg_store8(out, dl * (gg_grid8(gg_iq1s_grid[b[2 * h] | (hi & 7) << 8]) + delta0));
            gg_store8(out + 8, dl * (gg_grid8(gg_iq1s_grid[b[2 * h + 1] | (hi & 0x70) << 4]) + delta1));
        }
    }
}

const gg_codec GG_K(gg_codec_iq1_s) = { decode_iq1_s, NULL, true };
const gg_codec GG_K(gg_codec_iq1_m) = { decode_iq1_m, NULL, false };

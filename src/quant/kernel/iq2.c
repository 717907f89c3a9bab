/* iq2.c - IQ2_XXS, IQ2_XS, IQ2_S: 256 values in 66, 74, 82 bytes.
 *
 * Each group of eight values is an entry of a grid of positive points, plus eight signs.
 * k = 0..7 counts runs of 32 values, l = 0..3 groups of 8 in a run, and t = 4k + l.
 *
 *            0    2                                             66         74        82
 *   IQ2_XXS  | d  | 8 x { u8 index[4]; u32: sign7 x 4, scale4 }  |
 *   IQ2_XS   | d  | 32 x u16: index9, sign7                      | u8 s[8]  |
 *   IQ2_S    | d  | u8 index[32]        34  u8 sign[32]          | u8 hi[8] | u8 s[8] |
 *
 *   u32 of a run (IQ2_XXS)                    u16 of a group (IQ2_XS)
 *    31  28 27    21 20    14 13     7 6     0    15       9 8        0
 *   | scale | sign 3 | sign 2 | sign 1 | sign 0 | |  sign   |  index   |
 *
 *   IQ2_S: index of group t = index[t] | (hi[k] >> 2l & 3) << 8; signs are whole bytes.
 *   sign7: the eighth sign bit makes the number of set bits even.
 *   scale: IQ2_XXS has one per run; the others use s[k], low nibble for l = 0, 1, high for 2, 3.
 *
 *   y = (d * (0.5 + scale)) * 0.25 * grid[index][e] * (sign bit e ? -1 : 1)
 */
#include "fields.h"
#include "gridfit.h"

enum { RUNS = 8, XXS_BYTES = 66, XS_BYTES = 74, S_BYTES = 82 };

static void decode_iq2_xxs(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += XXS_BYTES) {
        const float d = gg_load_f16(b);
        for (int k = 0; k < RUNS; k++) {
            const uint8_t *run = b + 2 + 8 * k;
            const uint32_t w = gg_load_u32(run + 4);
            const gg_f32x8 db = gg_splat8(gg_iq2_scale(d, w >> 28));
            GG_UNROLL(4)
            for (int l = 0; l < 4; l++, out += 8) {
                const uint8_t signs = gg_iq_sign7[w >> 7 * l & 127];
                gg_store8(out, db * gg_grid8(gg_negate8(gg_iq2xxs_grid[run[l]], signs)));
            }
        }
    }
}

static void decode_iq2_xs(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += XS_BYTES) {
        const float d = gg_load_f16(b);
        const uint8_t *q = b + 2;
        for (int h = 0; h < 2 * RUNS; h++) {
            const gg_f32x8 db = gg_splat8(
                gg_iq2_scale(d, (unsigned)b[66 + h / 2] >> 4 * (h & 1) & 15u));
            GG_UNROLL(2)
            for (int l = 0; l < 2; l++, out += 8, q += 2) {
                const uint16_t w = gg_load_u16(q);
                gg_store8(out,
                          db * gg_grid8(gg_negate8(gg_iq2xs_grid[w & 511], gg_iq_sign7[w >> 9])));
            }
        }
    }
}

static void decode_iq2_s(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += S_BYTES) {
        const float d = gg_load_f16(b);
        for (int h = 0; h < 2 * RUNS; h++) {
            const gg_f32x8 db = gg_splat8(
                gg_iq2_scale(d, (unsigned)b[74 + h / 2] >> 4 * (h & 1) & 15u));
            const unsigned hi = (unsigned)b[66 + h / 2] >> 4 * (h & 1);
            const uint8_t *q = b + 2 + 2 * h;
            gg_store8(out, db * gg_grid8(gg_negate8(gg_iq2s_grid[q[0] | (hi & 3) << 8], q[32])));
            gg_store8(out + 8,
                      db * gg_grid8(gg_negate8(gg_iq2s_grid[q[1] | (hi & 12) << 6], q[33])));
            out += 16;
        }
    }
}

/* Levels 1, 3.125, 5.375; a v + b maps the midpoints between them to 0.5 and 1.5. The scales put
 * the largest value of a run above the largest level, which then saturates to the benefit of the
 * others; farther above in longer runs, whose largest value is larger. Finer steps gain nothing,
 * because the descent that follows finds the same results. */
/* clang-format off */
#define LEVELS \
    { 1.0f, 3.125f, 5.375f }, 0.125f, 0.0f, 1.0f / 2.1875f, 0.5f - 2.0625f / 2.1875f, 2.0f
/* clang-format on */
#define SCALES_32 4.6f, 0.8f, 7.8f
#define SCALES_16 4.2f, 0.8f, 7.4f
static const fit_spec xxs_spec = { GG_GRID_2XXS, gg_iq2xxs_grid, NULL, LEVELS, 4, true, SCALES_32 };
static const fit_spec xs_spec = { GG_GRID_2XS, gg_iq2xs_grid, NULL, LEVELS, 2, true, SCALES_16 };
static const fit_spec s_spec = { GG_GRID_2S, gg_iq2s_grid, NULL, LEVELS, 2, false, SCALES_16 };

static void pack_iq2_xxs(const octet *o, const uint8_t *s, uint8_t *b)
{
    for (int k = 0; k < RUNS; k++) {
        uint32_t w = (uint32_t)s[k] << 28;
        for (int l = 0; l < 4; l++) {
            b[2 + 8 * k + l] = (uint8_t)o[4 * k + l].index[0];
            w |= (uint32_t)(o[4 * k + l].sign & 127) << 7 * l;
        }
        gg_store_u32(b + 6 + 8 * k, w);
    }
}
GG_ENCODES_FITTED(encode_iq2_xxs, XXS_BYTES, xxs_spec, pack_iq2_xxs)

static void pack_iq2_xs(const octet *o, const uint8_t *s, uint8_t *b)
{
    for (int t = 0; t < 32; t++)
        gg_store_u16(b + 2 + 2 * t, (uint16_t)(o[t].index[0] | (o[t].sign & 127) << 9));
    for (int k = 0; k < RUNS; k++) b[66 + k] = (uint8_t)(s[2 * k] | s[2 * k + 1] << 4);
}
GG_ENCODES_FITTED(encode_iq2_xs, XS_BYTES, xs_spec, pack_iq2_xs)

static void pack_iq2_s(const octet *o, const uint8_t *s, uint8_t *b)
{
    for (int k = 0; k < RUNS; k++) {
        unsigned hi = 0;
        for (int l = 0; l < 4; l++) {
            const octet *e = &o[4 * k + l];
            b[2 + 4 * k + l] = (uint8_t)e->index[0];
            b[34 + 4 * k + l] = e->sign;
            hi |= (unsigned)(e->index[0] >> 8) << 2 * l;
        }
        b[66 + k] = (uint8_t)hi;
        b[74 + k] = (uint8_t)(s[2 * k] | s[2 * k + 1] << 4);
    }
}
GG_ENCODES_FITTED(encode_iq2_s, S_BYTES, s_spec, pack_iq2_s)

GG_CODEC(iq2_xxs, decode_iq2_xxs, encode_iq2_xxs, NULL)
GG_CODEC(iq2_xs, decode_iq2_xs, encode_iq2_xs, NULL)
GG_CODEC(iq2_s, decode_iq2_s, encode_iq2_s, NULL)

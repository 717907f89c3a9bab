/* iq3.c - IQ3_XXS and IQ3_S: 256 values in 98 and 110 bytes.
 *
 * Each group of four values is an entry of a grid of positive points; signs are separate.
 * v = 0..63 counts groups of 4 values, k = 0..7 runs of 32 values (8 groups).
 *
 *            0    2                66          74              106        110
 *   IQ3_XXS  | d  | u8 index[64]   | u32 w[8]: sign7 x 4, scale4 (as in iq2.c) -> 98
 *   IQ3_S    | d  | u8 index[64]   | u8 hi[8]  | u8 sign[32]   | u8 s[4]  |
 *
 *   IQ3_S: index of group v = index[v] | (hi[k] >> v%8 & 1) << 8;
 *          scale of run k = nibble k of s, low first.
 *   IQ3_XXS: sign7 l of run k has the signs of its values 8l..8l+7; the eighth sign bit makes
 *          the number of set bits even.
 *
 *   IQ3_XXS  y = (d * (0.5 + scale)) * 0.5 * grid[index][e] * sign
 *   IQ3_S    y = (d * (1 + 2 scale)) * grid[index][e] * sign
 */
#include "gridfit.h"

enum { RUNS = 8, XXS_BYTES = 98, S_BYTES = 110 };

static void decode_iq3_xxs(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += XXS_BYTES) {
        const float d = gg_load_f16(b);
        const uint8_t *q = b + 2;
        for (int k = 0; k < RUNS; k++) {
            const uint32_t w = gg_load_u32(b + 66 + 4 * k);
            const gg_f32x8 db = gg_splat8(d * (0.5f + (float)(w >> 28)) * 0.5f);
            GG_UNROLL(4)
            for (int l = 0; l < 4; l++, out += 8, q += 2) {
                const uint64_t grid = gg_iq3xxs_grid[q[0]] | (uint64_t)gg_iq3xxs_grid[q[1]] << 32;
                gg_store8(out, db * gg_grid8(gg_negate8(grid, gg_iq_sign7[w >> 7 * l & 127])));
            }
        }
    }
}

static void decode_iq3_s(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += S_BYTES) {
        const float d = gg_load_f16(b);
        const uint8_t *q = b + 2, *sign = b + 74;
        for (int k = 0; k < RUNS; k++) {
            const gg_f32x8 db = gg_splat8(d *
                                          (float)(1 + 2 * (b[106 + k / 2] >> 4 * (k & 1) & 15)));
            const unsigned hi = b[66 + k];
            GG_UNROLL(4)
            for (unsigned l = 0; l < 4; l++, out += 8, q += 2) {
                const uint32_t g0 = gg_iq3s_grid[q[0] | (hi << (8 - 2 * l) & 256)];
                const uint32_t g1 = gg_iq3s_grid[q[1] | (hi << (7 - 2 * l) & 256)];
                gg_store8(out, db * gg_grid8(gg_negate8(g0 | (uint64_t)g1 << 32, *sign++)));
            }
        }
    }
}

/* The scales put the largest value of a run on 10 .. 18, while the largest level is 15. Smaller
 * values are tried because the grids have few points with many large elements; larger values
 * because a single large value may saturate if that helps the others. */
static const fit_spec xxs_spec = {
    GG_GRID_3XXS, NULL,  gg_iq3xxs_grid, { 1.0f, 3.0f, 5.0f, 7.0f, 9.0f, 11.0f, 13.0f, 15.5f },
    0.25f,        0.0f,  0.5f,           -0.5f,
    7.0f,         4,     true,           10.0f,
    2.0f,         18.0f,
};
static const fit_spec s_spec = {
    GG_GRID_3S, NULL,  gg_iq3s_grid, { 1.0f, 3.0f, 5.0f, 7.0f, 9.0f, 11.0f, 13.0f, 15.0f },
    1.0f,       0.0f,  0.5f,         -0.5f,
    7.0f,       4,     false,        10.0f,
    2.0f,       18.0f,
};

static void pack_iq3_xxs(const octet *o, const uint8_t *s, uint8_t *b)
{
    for (int k = 0; k < RUNS; k++) {
        uint32_t w = (uint32_t)s[k] << 28;
        for (int l = 0; l < 4; l++) {
            const octet *e = &o[4 * k + l];
            b[2 + 8 * k + 2 * l] = (uint8_t)e->index[0];
            b[3 + 8 * k + 2 * l] = (uint8_t)e->index[1];
            w |= (uint32_t)(e->sign & 127) << 7 * l;
        }
        gg_store_u32(b + 66 + 4 * k, w);
    }
}
GG_ENCODES_FITTED(encode_iq3_xxs, XXS_BYTES, xxs_spec, pack_iq3_xxs)

static void pack_iq3_s(const octet *o, const uint8_t *s, uint8_t *b)
{
    for (int k = 0; k < RUNS; k++) {
        unsigned hi = 0;
        for (int l = 0; l < 4; l++) {
            const octet *e = &o[4 * k + l];
            b[2 + 8 * k + 2 * l] = (uint8_t)e->index[0];
            b[3 + 8 * k + 2 * l] = (uint8_t)e->index[1];
            b[74 + 4 * k + l] = e->sign;
            hi |= (unsigned)(e->index[0] >> 8) << 2 * l | (unsigned)(e->index[1] >> 8)
                                                              << (2 * l + 1);
        }
        b[66 + k] = (uint8_t)hi;
    }
    for (int k = 0; k < 4; k++) b[106 + k] = (uint8_t)(s[2 * k] | s[2 * k + 1] << 4);
}
GG_ENCODES_FITTED(encode_iq3_s, S_BYTES, s_spec, pack_iq3_s)

GG_CODEC(iq3_xxs, decode_iq3_xxs, encode_iq3_xxs, NULL)
GG_CODEC(iq3_s, decode_iq3_s, encode_iq3_s, NULL)

/* k23.c - Q2_K and Q3_K: 256 values in 16 groups of 16.
 *
 *   Q2_K   0            16                       80   82   84 bytes
 *          | sm[16]     | q[64]                  | d  | m  |
 *          sm[k] = mmmm ssss of group k = j/16
 *          y = (d * s) * q - (m * min)            q = 0..3
 *
 *   Q3_K   0            32                       96          108  110 bytes
 *          | h[32]      | q[64]                  | S[12]     | d  |
 *          y = (d * (s - 32)) * q                 q = low two bits - (h bit ? 0 : 4)
 *          s of group k: low 4 bits in S[k] (k<8: low nibble, else high nibble of
 *          S[k-8]), high 2 bits in S[8 + k%4] at bit 2*(k/4)
 *
 * Value j has its two low bits in q[32*(j/128) + j%32] at bit 2*((j%128)/32):
 *
 *          byte i of q    33 22 11 00      values i+96, i+64, i+32, i (of each half)
 *
 * and its bit of h is bit j/32 of h[j%32]. d and m are f16.
 *
 * Encoding: ksearch.h finds the best scale (and minimum) of each group. These are then quantized
 * with the block's d (and m); an importance matrix gives the groups weights for that. Finally the
 * values are rounded again, with the scales that a decoder will read.
 */
#include "ksearch.h"

static void decode_q2_k(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 84) {
        float d = gg_load_f16(b + 80), m = gg_load_f16(b + 82);
        GG_UNROLL(16)
        for (int k = 0; k < 16; k++, out += 16) {
            gg_u8x16 q = gg_load_u8x16(b + 16 + 32 * (k / 8) + 16 * (k % 2));
            float scale = d * (float)(b[k] & 15), min = m * (float)(b[k] >> 4);
            gg_affine16(out, q >> 2 * (k % 8 / 2) & 3, scale, -min);
        }
    }
}

static void q3_unpack_scales(const uint8_t *p, int8_t scale[16])
{
    GG_UNROLL(16)
    for (int k = 0; k < 16; k++) {
        int low = k < 8 ? p[k] & 15 : p[k - 8] >> 4;
        int high = p[8 + k % 4] >> 2 * (k / 4) & 3;
        scale[k] = (int8_t)((low | high << 4) - 32);
    }
}

static void decode_q3_k(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 110) {
        float d = gg_load_f16(b + 108);
        int8_t scale[16];
        q3_unpack_scales(b + 96, scale);
        GG_UNROLL(16)
        for (int k = 0; k < 16; k++, out += 16) {
            gg_u8x16 q = gg_load_u8x16(b + 32 + 32 * (k / 8) + 16 * (k % 2));
            gg_u8x16 h = gg_load_u8x16(b + 16 * (k % 2));
            q = (q >> 2 * (k % 8 / 2) & 3) | ((gg_u8x16)((h & (uint8_t)(1 << k / 2)) != 0) & 4);
            gg_scaled16(out, q - 4, d * (float)scale[k]);
        }
    }
}

/* ---- encoding ------------------------------------------------------------ */

enum { BLOCK = 256, GROUPS = 16 };

/* Stores two bits of each level, four levels per byte. */
static inline void store_low_bits(uint8_t *q, const uint8_t L[BLOCK])
{
    for (int i = 0; i < 64; i += 16) {
        const uint8_t *v = L + 128 * (i / 32) + i % 32;
        gg_u8x16 byte = (gg_load_u8x16(v) & 3) | (gg_load_u8x16(v + 32) & 3) << 2 |
                        (gg_load_u8x16(v + 64) & 3) << 4 | gg_load_u8x16(v + 96) << 6;
        memcpy(q + i, &byte, sizeof byte);
    }
}

/* Without an importance matrix, Q2_K uses the weight |x| and absolute errors. With only four
 * levels, squared errors would let a single outlier determine the scale of the group. */
static void q2_search(const float *x, const float *imatrix, gg_affine_found *f, uint8_t L[BLOCK])
{
    static const gg_affine_plan blind = { 3, -0.5f, 0.1f, 15, true },
                                weighed = { 3, -0.9f, 0.05f, 36, false };
    float variance = imatrix ? gg_sum_squares(x, BLOCK) / (float)BLOCK : 0.0f;
    float w[BLOCK];
    for (int i = 0; i < BLOCK && !imatrix; i++) w[i] = __builtin_fabsf(x[i]);
    for (int k = 0, j = 0; k < GROUPS && imatrix; k++, j += 16)
        f->weight[k] = gg_weigh(16, x + j, imatrix + j, variance, w + j);
    GG_K(gg_search_affine)(GROUPS, 16, imatrix ? &weighed : &blind, x, w, L, f->scale, f->min);
}

static void encode_q2_block(const float *x, uint8_t *b, const float *imatrix)
{
    gg_affine_found f;
    uint8_t L[BLOCK];
    q2_search(x, imatrix, &f, L);
    gg_store_affine(b + 80, GROUPS, 15, &f, imatrix != NULL);
    for (int k = 0; k < GROUPS; k++) {
        b[k] = (uint8_t)(f.s[k] | f.t[k] << 4);
        gg_relevel_affine16(x + 16 * k, f.d * (float)f.s[k], f.m * (float)f.t[k], 3, L + 16 * k);
    }
    store_low_bits(b + 16, L);
}

GG_ENCODES_256(encode_q2_k, 84, encode_q2_block)

/* State of the search below for eight groups of 16, one per lane: values, their weights x*x, and
 * products. Groups of zeros, or nearly so, have weights of 0, and remain as they start. */
typedef struct q3_lanes {
    gg_f32x8 x[16], w[16], wx[16], level[16], lx, l2;
} q3_lanes;

GG_INLINE gg_f32x8 q3_level(gg_f32x8 v)
{
    return gg_max8(gg_min8(gg_rint8(v), gg_splat8(3.0f)), gg_splat8(-4.0f));
}

/* Changes level i of each group to fit the scale that its other values imply, if this improves the
 * group. Returns whether a level has changed. */
GG_INLINE gg_i32x8 q3_refine(q3_lanes *g, int i)
{
    const gg_f32x8 zero = gg_splat8(0.0f), w = g->w[i], wx = g->wx[i];
    gg_f32x8 old = g->level[i], lx = g->lx - wx * old, l2 = g->l2 - w * old * old;
    gg_f32x8 l = q3_level(g->x[i] * l2 / lx);
    gg_i32x8 better = gg_less8(zero, lx) & (gg_i32x8)(l != old);
    if (!gg_any8(better)) return better; /* most often */
    lx += wx * l;
    l2 += w * l * l;
    better &= gg_less8(zero, l2) & gg_less8(g->lx * g->lx * l2, lx * lx * g->l2);
    g->level[i] = gg_select8(better, l, old);
    g->lx = gg_select8(better, lx, g->lx);
    g->l2 = gg_select8(better, l2, g->l2);
    return better;
}

/* Starts with the scale that makes the largest value -4. */
static void q3_start(const float *x, q3_lanes *g)
{
    gg_f32x8 top = gg_splat8(0.0f), extreme = top;
    for (int i = 0; i < 16; i++) {
        g->x[i] = (gg_f32x8){ x[i],      x[16 + i], x[32 + i], x[48 + i],
                              x[64 + i], x[80 + i], x[96 + i], x[112 + i] };
        gg_i32x8 more = gg_less8(top, gg_abs8(g->x[i]));
        top = gg_select8(more, gg_abs8(g->x[i]), top);
        extreme = gg_select8(more, g->x[i], extreme);
    }
    const gg_i32x8 alive = ~gg_less8(top, gg_splat8(1e-15f));
    gg_f32x8 inverse = -4.0f / gg_select8(alive, extreme, gg_splat8(1.0f));
    g->lx = g->l2 = gg_splat8(0.0f);
    for (int i = 0; i < 16; i++) {
        g->level[i] = gg_select8(alive, q3_level(inverse * g->x[i]), gg_splat8(-4.0f));
        g->x[i] = gg_select8(alive, g->x[i], gg_splat8(0.0f));
        g->w[i] = g->x[i] * g->x[i];
        g->wx[i] = g->w[i] * g->x[i];
        g->lx += g->wx[i] * g->level[i];
        g->l2 += g->w[i] * g->level[i] * g->level[i];
    }
}

/* Finds scales and levels of two blocks with the weight x*x, without an importance matrix. A group
 * has only 16 values and 8 levels, so refining value by value finds better results than trying
 * several scales. Each change waits for the one before, so that the halves of the blocks take
 * turns. */
static void q3_search(const float *x, const float *y, q3_lanes g[4], float scale[2][GROUPS])
{
    bool changed = true;
    for (int h = 0; h < 4; h++) q3_start((h < 2 ? x : y) + h % 2 * (BLOCK / 2), g + h);
    for (int pass = 0; pass < 5 && changed; pass++) {
        gg_i32x8 any = { 0 };
        for (int i = 0; i < 16; i++) {
            GG_UNROLL(4)
            for (int h = 0; h < 4; h++) any |= q3_refine(g + h, i);
        }
        changed = gg_any8(any);
    }
    for (int h = 0; h < 4; h++) {
        const gg_f32x8 zero = gg_splat8(0.0f);
        gg_store8(scale[h / 2] + h % 2 * 8,
                  gg_select8(gg_less8(zero, g[h].l2), g[h].lx / g[h].l2, zero));
    }
}

/* Quantizes signed scales as s - 32, s = 0..63. The largest one gets s = 0. Returns the unit. */
static float q3_quantize_scales(const float scale[GROUPS], uint8_t s[GROUPS])
{
    float max = gg_extreme(scale, GROUPS);
    memset(s, 0, GROUPS);
    if (max == 0.0f) return 0.0f;
    float inverse = -32.0f / max;
    for (int k = 0; k < GROUPS; k++) {
        int32_t l = gg_round1(inverse * scale[k]);
        s[k] = (uint8_t)((l < -32 ? -32 : l > 31 ? 31 : l) + 32);
    }
    return 1.0f / inverse;
}

static void q3_pack_scales(uint8_t *p, const uint8_t s[GROUPS])
{
    for (int k = 0; k < 8; k++) p[k] = (uint8_t)((s[k] & 15) | (s[k + 8] & 15) << 4);
    for (int k = 0; k < 4; k++)
        p[8 + k] = (uint8_t)(s[k] >> 4 | s[k + 4] >> 4 << 2 | s[k + 8] >> 4 << 4 |
                             s[k + 12] >> 4 << 6);
}

/* Stores the scales and the levels that follow from them. The levels of groups with a scale of 0
 * are those of the search: in lanes, if there are any, or L. */
static void q3_store(const float *x, float d, const uint8_t s[GROUPS], const q3_lanes *g,
                     uint8_t L[BLOCK], uint8_t *b)
{
    gg_store_scale(b + 108, d);
    d = gg_load_f16(b + 108);
    q3_pack_scales(b + 96, s);
    for (int k = 0; k < GROUPS; k++) {
        float scale = d * (float)(s[k] - 32);
        gg_relevel_symmetric16(x + 16 * k, scale, 4, L + 16 * k);
        for (int i = 0; i < 16 && g && scale == 0.0f; i++)
            L[16 * k + i] = (uint8_t)(g[k / 8].level[i][k % 8] + 4.0f);
    }
    for (int i = 0; i < 32; i += 16) {
        gg_u8x16 h = { 0 };
        for (int k = 0; k < 8; k++) h |= (gg_load_u8x16(L + 32 * k + i) >> 2 & 1) << k;
        memcpy(b + i, &h, sizeof h);
    }
    store_low_bits(b + 32, L);
}

static void encode_q3_weighed(const float *x, uint8_t *b, const float *imatrix)
{
    float scale[GROUPS], weight[GROUPS], w[BLOCK], d;
    float variance = 2.0f * gg_sum_squares(x, BLOCK) / (float)BLOCK;
    uint8_t L[BLOCK], s[GROUPS];
    for (int k = 0, j = 0; k < GROUPS; k++, j += 16)
        weight[k] = gg_weigh(16, x + j, imatrix + j, variance, w + j);
    GG_K(gg_search_symmetric)(GROUPS, 16, 4, x, w, L, scale);
    GG_K(gg_search_symmetric)(1, GROUPS, 32, scale, weight, s, &d);
    q3_store(x, d, s, NULL, L, b);
}
GG_ENCODES_256(encode_q3_weighed_k, 110, encode_q3_weighed)

static void encode_q3_k(const float *x, uint8_t *b, size_t nblocks, const float *imatrix)
{
    q3_lanes g[4];
    float room[2][BLOCK], scale[2][GROUPS];
    uint8_t L[BLOCK], s[GROUPS];
    if (imatrix) {
        encode_q3_weighed_k(x, b, nblocks, imatrix);
        return;
    }
    for (size_t i = 0; i < nblocks; i += 2) {
        size_t n = nblocks - i < 2 ? 1 : 2;
        const float *v[2] = { gg_clamped(x, BLOCK, GG_SEARCH_LIMIT, room[0]),
                              gg_clamped(x + (n - 1) * BLOCK, BLOCK, GG_SEARCH_LIMIT, room[1]) };
        q3_search(v[0], v[1], g, scale);
        for (size_t k = 0; k < n; k++, x += BLOCK, b += 110) {
            float d = q3_quantize_scales(scale[k], s);
            q3_store(v[k], d, s, g + 2 * k, L, b);
        }
    }
}

GG_CODEC(q2_k, decode_q2_k, encode_q2_k, NULL)
GG_CODEC(q3_k, decode_q3_k, encode_q3_k, NULL)

/* k456.c - Q4_K, Q5_K, Q6_K and Q8_K: 256 values.
 *
 *   Q4_K   0    2    4         16                            144 bytes
 *          | d  | m  | S[12]   | nibbles[128]                |
 *   Q5_K   0    2    4         16        48                  176 bytes
 *          | d  | m  | S[12]   | h[32]   | nibbles[128]      |
 *          8 groups of 32:  y = (d * s) * q - (m * min)       s, min = 0..63
 *          nibble of value j: byte 32*(j/64) + j%32, high half when j%64 >= 32;
 *          fifth bit of value j: bit j/32 of h[j%32]
 *
 *          S       byte k < 4        byte k+4          byte k+8
 *                  S5 S4 s5......s0  M5 M4 m5.....m0   M3..M0 S3..S0
 *          s, m of group k; S, M of group k + 4
 *
 *   Q6_K   0              128            192       208  210 bytes
 *          | low[128]     | high[64]     | s[16]   | d  |
 *          16 groups of 16: y = (d * s) * (q - 32)            s = int8
 *          value j = 128*a + 32*g + l: low nibble g<2, high nibble else, of
 *          low[64*a + 32*(g&1) + l]; its two high bits in high[32*a + l] at bit 2*g
 *
 *   Q8_K   0         4                   260           292 bytes
 *          | d f32   | int8 q[256]       | int16 sum of each 16 |   y = d * q
 *
 * d and m are f16, except in Q8_K.
 *
 * Encoding: ksearch.h finds the best scale (and minimum) of each group. These are then quantized
 * with the block's d (and m); an importance matrix gives the groups weights for that. Finally the
 * values are rounded again, with the scales that a decoder will read.
 */
#include "ksearch.h"

/* Unpacks the eight six-bit scales and minima of Q4_K and Q5_K, four at once. */
static inline void k4_unpack_scales(const uint8_t *p, uint8_t scale[8], uint8_t min[8])
{
    const uint32_t s = gg_load_u32(p), m = gg_load_u32(p + 4), both = gg_load_u32(p + 8);
    gg_store_u32(scale, s & 0x3f3f3f3f);
    gg_store_u32(min, m & 0x3f3f3f3f);
    gg_store_u32(scale + 4, (both & 0x0f0f0f0f) | (s >> 2 & 0x30303030));
    gg_store_u32(min + 4, (both >> 4 & 0x0f0f0f0f) | (m >> 2 & 0x30303030));
}

#ifdef GG_NEON
static void decode_q4_k(const uint8_t *b, float *restrict out, size_t nblocks)
{
    static const float first[4] = { 0, 1, 2, 3 };
    /* Moves the bytes of scales and minima 4 to 7 to the place of 0 to 3, and shifts the minima. */
    static const uint8_t both[16] = { 0, 0, 0, 0, 12, 13, 14, 15, 12, 13, 14, 15 };
    static const int8_t down[16] = { 0, 0, 0, 0, 0, 0, 0, 0, -4, -4, -4, -4 };
    const uint8x16_t low = vdupq_n_u8(15);
    float32x4_t level[4], y[4];
    for (int i = 0; i < 4; i++)
        level[i] = vaddq_f32(vld1q_f32(first), vdupq_n_f32(4.0f * (float)i));
    for (; nblocks > 0; nblocks--, b += 144) {
        const uint8x16_t head = vld1q_u8(b);
        const float32x4_t d = vcvt_f32_f16(vreinterpret_f16_u8(vget_low_u8(head))),
                          minus = vnegq_f32(d);
        /* Of four groups each, bytes 4 to 7 are the scales and 8 to 11 the minima. */
        const uint8x16_t more = vshlq_u8(vqtbl1q_u8(head, vld1q_u8(both)), vld1q_s8(down)),
                         half[2] = { vandq_u8(head, vdupq_n_u8(63)),
                                     vsliq_n_u8(vandq_u8(more, low), vshrq_n_u8(head, 6), 4) };
        GG_UNROLL(2)
        for (int h = 0; h < 2; h++) {
            const float32x4_t ds = vmulq_laneq_f32(gg_unsigned4(half[h], 1), d, 0),
                              ms = vmulq_laneq_f32(gg_unsigned4(half[h], 2), minus, 1);
            GG_UNROLL(4)
            for (int k = 0; k < 4; k++) {
                uint8x16_t p = vld1q_u8(b + 16 + 64 * h + 32 * (k / 2)),
                           q = vld1q_u8(b + 32 + 64 * h + 32 * (k / 2));
                p = k % 2 ? vshrq_n_u8(p, 4) : vandq_u8(p, low);
                q = k % 2 ? vshrq_n_u8(q, 4) : vandq_u8(q, low);
                const float32x4_t m = vdupq_n_f32(ms[k]);
                GG_UNROLL(4)
                for (int i = 0; i < 4; i++) y[i] = vaddq_f32(vmulq_n_f32(level[i], ds[k]), m);
                out = gg_look_up32(out, y, p, q);
            }
        }
    }
}
#else
static void decode_q4_k(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 144) {
        float d = gg_load_f16(b), m = gg_load_f16(b + 2);
        uint8_t scale[8], min[8];
        k4_unpack_scales(b + 4, scale, min);
        GG_UNROLL(8)
        for (int k = 0; k < 8; k++, out += 32) {
            float ds = d * (float)scale[k], ms = m * (float)min[k];
            /* Upper nibbles are not shifted. They are 16 times too large, which is exact. */
            for (int i = 0; i < 32; i += 16) {
                gg_u8x16 q = gg_load_u8x16(b + 16 + 32 * (k / 2) + i);
                gg_affine16(out + i, q & (uint8_t)(k % 2 ? 0xf0 : 15), k % 2 ? ds * 0.0625f : ds,
                            -ms);
            }
        }
    }
}
#endif

static void decode_q5_k(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 176) {
        float d = gg_load_f16(b), m = gg_load_f16(b + 2);
        uint8_t scale[8], min[8];
        k4_unpack_scales(b + 4, scale, min);
        GG_UNROLL(8)
        for (int k = 0; k < 8; k++, out += 32) {
            float ds = d * (float)scale[k], ms = m * (float)min[k];
            for (int i = 0; i < 32; i += 16) {
                gg_u8x16 q = gg_load_u8x16(b + 48 + 32 * (k / 2) + i),
                         h = gg_load_u8x16(b + 16 + i);
                q = k % 2 ? q >> 4 : q & 15;
                gg_u8x16 fifth = (gg_u8x16)((h & (uint8_t)(1 << k)) != 0) & 16;
                gg_affine16(out + i, q | fifth, ds, -ms);
            }
        }
    }
}

static void decode_q6_k(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 210, out += 256) {
        const float d = gg_load_f16(b + 208);
#ifdef GG_NEON
        const uint8x16_t s = vld1q_u8(b + 192), two = vdupq_n_u8(0x30);
        float32x4_t ds[4];
        GG_UNROLL(4)
        for (int i = 0; i < 4; i++) ds[i] = vmulq_n_f32(gg_signed4(s, i), d);
        GG_UNROLL(4)
        for (int k = 0; k < 4; k++) {
            const int a = k / 2, l = k % 2;
            const float32x4_t e = ds[2 * a], f = ds[2 * a + 1];
            uint8x16_t p = vld1q_u8(b + 64 * a + 16 * l), q = vld1q_u8(b + 64 * a + 32 + 16 * l),
                       h = vld1q_u8(b + 128 + 32 * a + 16 * l);
            float *to = out + 128 * a + 16 * l;
            /* Shifts with insertion keep the other bits. */
            gg_scaled16(to + 64, vsriq_n_u8(vandq_u8(h, two), p, 4) - 32, f[l]);
            GG_AFTER_STORES(h);
            gg_scaled16(to + 96, vsriq_n_u8(vshrq_n_u8(h, 2), q, 4) - 32, f[2 + l]);
            GG_AFTER_STORES(h);
            gg_scaled16(to, (vsliq_n_u8(p, h, 4) & 63) - 32, e[l]);
            GG_AFTER_STORES(h);
            gg_scaled16(to + 32, (vsliq_n_u8(q, vshrq_n_u8(h, 2), 4) & 63) - 32, e[2 + l]);
            GG_AFTER_STORES(h);
        }
#else
        GG_UNROLL(16)
        for (int k = 0; k < 16; k++) {
            int a = k / 8, g = k % 8 / 2, l = 16 * (k % 2);
            gg_u8x16 low = gg_load_u8x16(b + 64 * a + 32 * (g & 1) + l) >> (g < 2 ? 0 : 4) & 15;
            gg_u8x16 high = gg_load_u8x16(b + 128 + 32 * a + l) >> 2 * g & 3;
            gg_scaled16(out + 16 * k, (low | high << 4) - 32, d * (float)(int8_t)b[192 + k]);
        }
#endif
    }
}

static void decode_q8_k(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 292, out += 256) {
        float d = gg_bits_float(gg_load_u32(b));
        if (d > 0x1p-100f || d < -0x1p-100f) { /* d is an f32 here: see gg_scaled16 */
            GG_UNROLL(4)
            for (int j = 0; j < 256; j += 16) gg_scaled16(out + j, gg_load_u8x16(b + 4 + j), d);
        } else {
            for (int j = 0; j < 256; j++) out[j] = d * (float)(int8_t)b[4 + j];
        }
    }
}

/* ---- encoding ------------------------------------------------------------ */

enum { BLOCK = 256 };

/* Without an importance matrix the weight of a value is its magnitude plus the mean magnitude of
 * its group. Large values matter more, but small values are more numerous. */
static void k4_weigh(const float *x, const float *imatrix, float w[BLOCK], float weight[8])
{
    float variance = imatrix ? 2.0f * gg_sum_squares(x, BLOCK) / (float)BLOCK : 0.0f;
    for (int k = 0, j = 0; k < 8; k++, j += 32) {
        if (imatrix) {
            weight[k] = gg_weigh(32, x + j, imatrix + j, variance, w + j);
        } else {
            float mean = __builtin_sqrtf(gg_sum_squares(x + j, 32) / 32);
            for (int i = j; i < j + 32; i++) w[i] = mean + __builtin_fabsf(x[i]);
        }
    }
}

static void k4_pack_scales(uint8_t *p, const uint8_t s[8], const uint8_t t[8])
{
    GG_UNROLL(4)
    for (int k = 0; k < 4; k++) {
        p[k] = (uint8_t)(s[k] | s[k + 4] >> 4 << 6);
        p[k + 4] = (uint8_t)(t[k] | t[k + 4] >> 4 << 6);
        p[k + 8] = (uint8_t)((s[k + 4] & 15) | (t[k + 4] & 15) << 4);
    }
}

static inline void store_nibbles(uint8_t *q, const uint8_t L[BLOCK])
{
    for (int i = 0; i < BLOCK / 2; i += 16) {
        const uint8_t *v = L + 64 * (i / 32) + i % 32;
        gg_u8x16 byte = (gg_load_u8x16(v) & 15) | gg_load_u8x16(v + 32) << 4;
        memcpy(q + i, &byte, sizeof byte);
    }
}

static void q4_pack(uint8_t *b, const uint8_t L[BLOCK])
{
    store_nibbles(b + 16, L);
}

static void q5_pack(uint8_t *b, const uint8_t L[BLOCK])
{
    for (int l = 0; l < 32; l += 16) {
        gg_u8x16 h = { 0 };
        for (int k = 0; k < 8; k++) h |= (gg_load_u8x16(L + 32 * k + l) >> 4 & 1) << k;
        memcpy(b + 16 + l, &h, sizeof h);
    }
    store_nibbles(b + 48, L);
}

/* Two blocks are searched together, for registers of 16 lanes. The first 16 bytes of both types (d,
 * m, S) are the same. */
static void k4_encode(const float *x, uint8_t *b, size_t nblocks, const float *imatrix,
                      const gg_affine_plan *blind, size_t bytes,
                      void (*pack)(uint8_t *b, const uint8_t L[BLOCK]))
{
    const gg_affine_plan weighed = { blind->nmax, -0.9f, 0.05f, 36, false };
    float room[2 * BLOCK], w[2 * BLOCK], scale[16], min[16];
    uint8_t L[2 * BLOCK];
    for (size_t i = 0, n; i < nblocks; i += n, x += n * BLOCK) {
        gg_affine_found f[2];
        n = nblocks - i < 2 ? 1 : 2;
        const float *v = gg_clamped(x, (int)n * BLOCK, GG_SEARCH_LIMIT, room);
        for (size_t k = 0; k < n; k++)
            k4_weigh(v + k * BLOCK, imatrix ? imatrix + (i + k) * BLOCK : NULL, w + k * BLOCK,
                     f[k].weight);
        GG_K(gg_search_affine)((int)n * 8, 32, imatrix ? &weighed : blind, v, w, L, scale, min);
        for (size_t k = 0; k < n; k++, b += bytes) {
            memcpy(f[k].scale, scale + 8 * k, 8 * sizeof *scale);
            memcpy(f[k].min, min + 8 * k, 8 * sizeof *min);
            gg_store_affine(b, 8, 63, f + k, imatrix != NULL);
            k4_pack_scales(b + 4, f[k].s, f[k].t);
            for (size_t j = 0; j < BLOCK; j += 16)
                gg_relevel_affine16(v + k * BLOCK + j, f[k].d * (float)f[k].s[j / 32],
                                    f[k].m * (float)f[k].t[j / 32], blind->nmax, L + k * BLOCK + j);
            pack(b, L + k * BLOCK);
        }
    }
}

static void encode_q4_k(const float *x, uint8_t *b, size_t nblocks, const float *imatrix)
{
    static const gg_affine_plan blind = { 15, -1.0f, 0.1f, 20, false };
    k4_encode(x, b, nblocks, imatrix, &blind, 144, q4_pack);
}

static void encode_q5_k(const float *x, uint8_t *b, size_t nblocks, const float *imatrix)
{
    static const gg_affine_plan blind = { 31, -0.5f, 0.1f, 15, false };
    k4_encode(x, b, nblocks, imatrix, &blind, 176, q5_pack);
}

static void q6_pack(uint8_t *b, const uint8_t L[BLOCK])
{
    for (int a = 0; a < 2; a++)
        for (int l = 0; l < 32; l += 16) {
            gg_u8x16 v[4];
            for (int g = 0; g < 4; g++) v[g] = gg_load_u8x16(L + 128 * a + 32 * g + l);
            gg_u8x16 low0 = (v[0] & 15) | v[2] << 4, low1 = (v[1] & 15) | v[3] << 4;
            gg_u8x16 high = v[0] >> 4 | v[1] >> 4 << 2 | v[2] >> 4 << 4 | v[3] >> 4 << 6;
            memcpy(b + 64 * a + l, &low0, sizeof low0);
            memcpy(b + 64 * a + 32 + l, &low1, sizeof low1);
            memcpy(b + 128 + 32 * a + l, &high, sizeof high);
        }
}

static void encode_q6_block(const float *x, uint8_t *b, const float *imatrix)
{
    float scale[16];
    uint8_t L[BLOCK];
    GG_K(gg_search_symmetric)(16, 16, 32, x, imatrix, L, scale);
    float max = gg_extreme(scale, 16);
    if (!(max >= 1e-15f || max <= -1e-15f)) {
        memset(b, 0, 210);
        return;
    }
    /* The extreme scale gets -128, because +128 does not exist. */
    float inverse = -128.0f / max;
    gg_store_scale(b + 208, 1.0f / inverse);
    float d = gg_load_f16(b + 208);
    for (int k = 0; k < 16; k++) {
        int32_t s = gg_round1(inverse * scale[k]);
        s = s > 127 ? 127 : s < -128 ? -128 : s;
        b[192 + k] = (uint8_t)s;
        gg_relevel_symmetric16(x + 16 * k, d * (float)s, 32, L + 16 * k);
    }
    q6_pack(b, L);
}

GG_ENCODES_256(encode_q6_k, 210, encode_q6_block)

/* The extreme value gets -127, so that the levels are symmetric. d is limited so that 127*d does
 * not overflow after rounding of the two reciprocals. */
static float q8_scale(const float *x, float *inverse)
{
    const float top = 2.6793e36f;
    float max = gg_extreme(x, BLOCK);
    *inverse = max != 0.0f ? -127.0f / max : 0.0f;
    if (!(*inverse <= 3.4e38f && *inverse >= -3.4e38f)) *inverse = 0.0f;
    float d = *inverse != 0.0f ? 1.0f / *inverse : 0.0f;
    return d > top ? top : d < -top ? -top : d;
}

static void encode_q8_k(const float *x, uint8_t *b, size_t nblocks, const float *imatrix)
{
    (void)imatrix;
    for (; nblocks > 0; nblocks--, x += BLOCK, b += 292) {
        float inverse, d = q8_scale(x, &inverse);
        gg_store_u32(b, gg_float_bits(d));
        for (int j = 0; j < BLOCK; j += 16) {
            gg_i32x8 l0 = gg_trunc8(
                gg_min8(gg_rint8(gg_load8(x + j) * inverse), gg_splat8(127.0f)));
            gg_i32x8 l1 = gg_trunc8(
                gg_min8(gg_rint8(gg_load8(x + j + 8) * inverse), gg_splat8(127.0f)));
            gg_i32x8 both = l0 + l1;
            int32_t sum = 0;
            for (int i = 0; i < 8; i++) sum += both[i];
            gg_store_bytes16(b + 4 + j, l0, l1);
            gg_store_u16(b + 260 + j / 8, (uint16_t)sum);
        }
    }
}

GG_CODEC(q4_k, decode_q4_k, encode_q4_k, NULL)
GG_CODEC(q5_k, decode_q5_k, encode_q5_k, NULL)
GG_CODEC(q6_k, decode_q6_k, encode_q6_k, NULL)
GG_CODEC(q8_k, decode_q8_k, encode_q8_k, NULL)

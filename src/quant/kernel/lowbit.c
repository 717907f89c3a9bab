/* lowbit.c - TQ1_0, TQ2_0 (ternary, 256 values in 54 and 66 bytes), Q1_0 (128 in 18)
 * and Q2_0 (64 in 18).
 *
 *          0          48       52    54
 *   TQ1_0  | qs[48]   | qh[4]  | d   |     a byte holds 5 trits (qh: 4)
 *   TQ2_0  | qs[64]                  | d @ 64
 *   Q1_0   | d | qs[16]                    value j is bit j%8 of byte j/8
 *   Q2_0   | d | qs[16]                    value j is bits 2(j%4).. of byte j/4
 *
 *   TQ1_0: a byte is ceil(N * 256 / 243) for the base-3 number N = t0 t1 t2 t3 t4, that is, a
 *   fraction of 256. Multiplying it by 3^n mod 256 drops the first n trits, and (that * 3) >> 8
 *   is the next one. Values 0..159 are trits n = 0..4 of qs[0..31], values 160..239 trits 0..4
 *   of qs[32..47], and values 240..255 trits 0..3 of qh; n is the slow index.
 *   TQ2_0: values 128h + 32n + m are bits 2n, 2n+1 of qs[32h + m].
 *
 *   TQ1_0, TQ2_0, Q2_0  y = (q - 1) * d        Q1_0  y = bit ? d : -d
 */
#include "grid.h"

enum { TQ1_BYTES = 54, TQ2_BYTES = 66, Q1_BYTES = 18, Q2_BYTES = 18 };

/* Decodes one trit of each of n bytes. 16-bit arithmetic uses twice as many lanes as int. n is a
 * constant at each call, so the loop is unrolled. */
GG_INLINE void trits(const uint8_t *restrict q, uint8_t pow3, float d, float *restrict out, int n)
{
    for (int j = 0; j < n; j++) {
        const uint8_t frac = (uint8_t)(q[j] * pow3);
        const int16_t trit = (int16_t)((uint16_t)(frac * 3) >> 8);
        out[j] = (float)(trit - 1) * d;
    }
}

static void decode_tq1_0(const uint8_t *restrict b, float *restrict out, size_t nblocks)
{
    static const uint8_t pow3[5] = { 1, 3, 9, 27, 81 };
    for (; nblocks > 0; nblocks--, b += TQ1_BYTES) {
        const float d = gg_load_f16(b + 52);
        GG_UNROLL(5)
        for (int n = 0; n < 5; n++, out += 32) trits(b, pow3[n], d, out, 32);
        GG_UNROLL(5)
        for (int n = 0; n < 5; n++, out += 16) trits(b + 32, pow3[n], d, out, 16);
        GG_UNROLL(4)
        for (int n = 0; n < 4; n++, out += 4) trits(b + 48, pow3[n], d, out, 4);
    }
}

static void decode_tq2_0(const uint8_t *restrict b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += TQ2_BYTES) {
        const float d = gg_load_f16(b + 64);
        for (int h = 0; h < 64; h += 32) {
            GG_UNROLL(4)
            for (int n = 0; n < 8; n += 2, out += 32)
                for (int m = 0; m < 32; m++) {
                    const int8_t q = b[h + m] >> n & 3;
                    out[m] = (float)(q - 1) * d;
                }
        }
    }
}

static void decode_q1_0(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += Q1_BYTES) {
        const gg_i32x8 d = (gg_i32x8)gg_splat8(gg_load_f16(b));
        GG_UNROLL(4)
        for (int j = 0; j < 16; j++, out += 8) {
            const gg_i32x8 minus = gg_bytes8(~gg_iq_sign8[b[2 + j]]) & INT32_MIN;
            gg_store8(out, (gg_f32x8)(d ^ minus));
        }
    }
}

static void decode_q2_0(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += Q2_BYTES) {
        const gg_f32x8 d = gg_splat8(gg_load_f16(b));
        GG_UNROLL(8)
        for (int j = 0; j < 16; j += 2, out += 8)
            gg_store8(out, (gg_grid8(gg_crumbs8(gg_load_u16(b + 2 + j))) - 1.0f) * d);
    }
}

/* The scale is the largest magnitude, so values of at least half of it become +-1. This uses
 * comparisons instead of a rounding function: 1 / d is infinite if d is subnormal, and 0 * inf must
 * become 0. */
static float inverse(float d)
{
    return d != 0.0f ? 1.0f / d : 0.0f;
}

/* Encodes -1, 0, 1 as 0, 1, 2. */
static void ternary(const float *restrict x, float id, uint8_t *restrict q, int n)
{
    for (int j = 0; j < n; j++) {
        const float v = x[j] * id;
        q[j] = (uint8_t)(1 + (v >= 0.5f) - (v <= -0.5f));
    }
}

/* ceil(n * 256 / 243): the smallest byte b with b / 256 >= n / 243. */
static uint8_t base3_byte(unsigned n)
{
    return (uint8_t)((n * 256 + 242) / 243);
}

static void encode_tq1_0(const float *x, uint8_t *b, size_t nblocks, const float *imatrix)
{
    (void)imatrix;
    for (; nblocks > 0; nblocks--, x += 256, b += TQ1_BYTES) {
        const float d = gg_largest(x, 256);
        uint8_t q[256];
        ternary(x, inverse(d), q, 256);
        for (int m = 0; m < 32; m++)
            b[m] = base3_byte((((q[m] * 3u + q[m + 32]) * 3u + q[m + 64]) * 3u + q[m + 96]) * 3u +
                              q[m + 128]);
        const uint8_t *r = q + 160, *t = q + 240;
        for (int m = 0; m < 16; m++)
            b[32 + m] = base3_byte(
                (((r[m] * 3u + r[m + 16]) * 3u + r[m + 32]) * 3u + r[m + 48]) * 3u + r[m + 64]);
        for (int m = 0; m < 4; m++)
            b[48 + m] = base3_byte((((t[m] * 3u + t[m + 4]) * 3u + t[m + 8]) * 3u + t[m + 12]) *
                                   3u);
        gg_store_scale(b + 52, d);
    }
}

static void encode_tq2_0(const float *x, uint8_t *b, size_t nblocks, const float *imatrix)
{
    (void)imatrix;
    for (; nblocks > 0; nblocks--, x += 256, b += TQ2_BYTES) {
        const float d = gg_largest(x, 256);
        uint8_t q[256];
        ternary(x, inverse(d), q, 256);
        for (int h = 0; h < 2; h++)
            for (int m = 0; m < 32; m++) {
                const uint8_t *r = q + 128 * h + m;
                b[32 * h + m] = (uint8_t)(r[0] | r[32] << 2 | r[64] << 4 | r[96] << 6);
            }
        gg_store_scale(b + 64, d);
    }
}

static void q1_bits(const float *x, uint8_t *bits)
{
    for (int j = 0; j < 16; j++, x += 8) {
        uint8_t v = 0;
        for (int i = 0; i < 8; i++) v = (uint8_t)(v | (x[i] >= 0.0f) << i);
        bits[j] = v;
    }
}

/* The best scale for signs is the mean magnitude. A sum must run in order to give the same bits as
 * the reference, so four blocks are summed in parallel. */
static void encode_q1_0(const float *x, uint8_t *b, size_t nblocks, const float *imatrix)
{
    (void)imatrix;
    for (size_t i = 0; i < nblocks; i += 4) {
        const size_t n = nblocks - i < 4 ? nblocks - i : 4;
        const float *p[4];
        float sum[4] = { 0.0f, 0.0f, 0.0f, 0.0f };
        for (size_t k = 0; k < 4; k++) p[k] = x + 128 * (i + (k < n ? k : 0));
        for (int j = 0; j < 128; j++) {
            GG_UNROLL(4)
            for (int k = 0; k < 4; k++)
                sum[k] += gg_bits_float(gg_float_bits(p[k][j]) & 0x7fffffffu);
        }
        for (size_t k = 0; k < n; k++) {
            uint8_t *block = b + (i + k) * Q1_BYTES;
            gg_store_scale(block, sum[k] / 128.0f);
            q1_bits(p[k], block + 2);
        }
    }
}

static void encode_q2_0(const float *x, uint8_t *b, size_t nblocks, const float *imatrix)
{
    (void)imatrix;
    for (; nblocks > 0; nblocks--, x += 64, b += Q2_BYTES) {
        const float d = gg_largest(x, 64);
        uint8_t q[64];
        ternary(x, inverse(d), q, 64);
        for (int j = 0; j < 16; j++)
            b[2 + j] = (uint8_t)(q[4 * j] | q[4 * j + 1] << 2 | q[4 * j + 2] << 4 |
                                 q[4 * j + 3] << 6);
        gg_store_scale(b, d);
    }
}

GG_CODEC(tq1_0, decode_tq1_0, encode_tq1_0, NULL)
GG_CODEC(tq2_0, decode_tq2_0, encode_tq2_0, NULL)
GG_CODEC(q1_0, decode_q1_0, encode_q1_0, NULL)
GG_CODEC(q2_0, decode_q2_0, encode_q2_0, NULL)

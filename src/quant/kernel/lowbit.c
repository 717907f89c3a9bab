/* lowbit.c - TQ1_0, TQ2_0 (ternary, 256 values in 54 and 66 bytes), Q1_0 (128 in 18)
 * and Q2_0 (64 in 18).
 *
 *          0          48       52    54
 *   TQ1_0  | qs[48]   | qh[4]  | d   |     a byte holds 5 trits (qh: 4)
 *   TQ2_0  | qs[64]                  | d @ 64
 *   Q1_0   | d | qs[16]                    value j is bit j%8 of byte j/8
 *   Q2_0   | d | qs[16]                    value j is bits 2(j%4).. of byte j/4
 *
 *   TQ1_0: a byte is ceil(N * 256 / 243) for the base-3 number N = t0 t1 t2 t3 t4;
 *   multiplying it by 3^n mod 256 drops the first n trits as a fraction does, and
 *   (that * 3) >> 8 is the next one. Values 0..159 are trit n = 0..4 of qs[0..31],
 *   160..239 trit 0..4 of qs[32..47], 240..255 trit 0..3 of qh; n is the slow index.
 *   TQ2_0: values 128h + 32n + m are bits 2n, 2n+1 of qs[32h + m].
 *
 *   TQ1_0, TQ2_0, Q2_0  y = (q - 1) * d        Q1_0  y = bit ? d : -d
 */
#include "grid.h"

enum { TQ1_BYTES = 54, TQ2_BYTES = 66, Q1_BYTES = 18, Q2_BYTES = 18 };

/* One trit of each of n bytes. 16-bit steps keep twice the lanes busy that int
 * arithmetic would; n is a constant at each call, so the loop unrolls. */
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
        for (int n = 0; n < 5; n++, out += 32) trits(b, pow3[n], d, out, 32);
        for (int n = 0; n < 5; n++, out += 16) trits(b + 32, pow3[n], d, out, 16);
        for (int n = 0; n < 4; n++, out += 4) trits(b + 48, pow3[n], d, out, 4);
    }
}

static void decode_tq2_0(const uint8_t *restrict b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += TQ2_BYTES) {
        const float d = gg_load_f16(b + 64);
        for (int h = 0; h < 64; h += 32)
            for (int n = 0; n < 8; n += 2, out += 32)
                for (int m = 0; m < 32; m++) {
                    const int8_t q = b[h + m] >> n & 3;
                    out[m] = (float)(q - 1) * d;
                }
    }
}

static void decode_q1_0(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += Q1_BYTES) {
        const gg_i32x8 d = (gg_i32x8)gg_splat8(gg_load_f16(b));
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
        for (int j = 0; j < 16; j += 2, out += 8)
            gg_store8(out, (gg_grid8(gg_crumbs8(gg_load_u16(b + 2 + j))) - 1.0f) * d);
    }
}

const gg_codec GG_K(gg_codec_tq1_0) = { decode_tq1_0, NULL, false };
const gg_codec GG_K(gg_codec_tq2_0) = { decode_tq2_0, NULL, false };
const gg_codec GG_K(gg_codec_q1_0) = { decode_q1_0, NULL, false };
const gg_codec GG_K(gg_codec_q2_0) = { decode_q2_0, NULL, false };

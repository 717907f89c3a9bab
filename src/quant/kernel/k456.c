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
 * d and m are f16 but in Q8_K.
 */
#include "lanes.h"

/* Six-bit scales and minima of Q4_K and Q5_K. */
static inline void k4_unpack_scales(const uint8_t *p, uint8_t scale[8], uint8_t min[8])
{
    for (int k = 0; k < 4; k++) {
        scale[k] = p[k] & 63;
        min[k] = p[k + 4] & 63;
        scale[k + 4] = (uint8_t)((p[k + 8] & 15) | p[k] >> 6 << 4);
        min[k + 4] = (uint8_t)(p[k + 8] >> 4 | p[k + 4] >> 6 << 4);
    }
}

static void decode_q4_k(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 144) {
        float d = gg_load_f16(b), m = gg_load_f16(b + 2);
        uint8_t scale[8], min[8];
        k4_unpack_scales(b + 4, scale, min);
        const uint8_t *q = b + 16;
        for (int k = 0; k < 8; k += 2, q += 32, out += 64) {
            float d0 = d * (float)scale[k], m0 = m * (float)min[k];
            float d1 = d * (float)scale[k + 1], m1 = m * (float)min[k + 1];
            for (int i = 0; i < 32; i++) out[i] = d0 * (float)(q[i] & 15) - m0;
            for (int i = 0; i < 32; i++) out[i + 32] = d1 * (float)(q[i] >> 4) - m1;
        }
    }
}

static void decode_q5_k(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 176) {
        float d = gg_load_f16(b), m = gg_load_f16(b + 2);
        uint8_t scale[8], min[8];
        k4_unpack_scales(b + 4, scale, min);
        const uint8_t *h = b + 16, *q = b + 48;
        for (int k = 0; k < 8; k += 2, q += 32, out += 64) {
            float d0 = d * (float)scale[k], m0 = m * (float)min[k];
            float d1 = d * (float)scale[k + 1], m1 = m * (float)min[k + 1];
            for (int i = 0; i < 32; i++) out[i] = d0 * (float)((q[i] & 15) | (h[i] >> k & 1) << 4) - m0;
            for (int i = 0; i < 32; i++) out[i + 32] = d1 * (float)(q[i] >> 4 | (h[i] >> (k + 1) & 1) << 4) - m1;
        }
    }
}

static void decode_q6_k(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 210) {
        float d = gg_load_f16(b + 208);
#pragma GCC unroll 16
        for (int k = 0; k < 16; k++, out += 16) {
            int a = k / 8, g = k % 8 / 2, l = 16 * (k % 2);
            gg_u8x16 low = gg_load_u8x16(b + 64 * a + 32 * (g & 1) + l) >> (g < 2 ? 0 : 4) & 15;
            gg_u8x16 high = gg_load_u8x16(b + 128 + 32 * a + l) >> 2 * g & 3;
            gg_scaled16(out, (low | high << 4) - 32, d * (float)(int8_t)b[192 + k]);
        }
    }
}

static void decode_q8_k(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 292, out += 256) {
        float d = gg_bits_float(gg_load_u32(b));
        for (int j = 0; j < 256; j++) out[j] = d * (float)(int8_t)b[4 + j];
    }
}

const gg_codec GG_K(gg_codec_q4_k) = { decode_q4_k, NULL, false };
const gg_codec GG_K(gg_codec_q5_k) = { decode_q5_k, NULL, false };
const gg_codec GG_K(gg_codec_q6_k) = { decode_q6_k, NULL, false };
const gg_codec GG_K(gg_codec_q8_k) = { decode_q8_k, NULL, false };

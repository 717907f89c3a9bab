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
 */
#include "lanes.h"

static void decode_q2_k(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 84) {
        float d = gg_load_f16(b + 80), m = gg_load_f16(b + 82);
#pragma GCC unroll 16
        for (int k = 0; k < 16; k++, out += 16) {
            gg_u8x16 q = gg_load_u8x16(b + 16 + 32 * (k / 8) + 16 * (k % 2));
            float scale = d * (float)(b[k] & 15), min = m * (float)(b[k] >> 4);
            gg_affine16(out, q >> 2 * (k % 8 / 2) & 3, scale, -min);
        }
    }
}

static void q3_unpack_scales(const uint8_t *p, int8_t scale[16])
{
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
#pragma GCC unroll 16
        for (int k = 0; k < 16; k++, out += 16) {
            gg_u8x16 q = gg_load_u8x16(b + 32 + 32 * (k / 8) + 16 * (k % 2));
            gg_u8x16 h = gg_load_u8x16(b + 16 * (k % 2));
            q = (q >> 2 * (k % 8 / 2) & 3) | (h >> k / 2 & 1) << 2;
            gg_scaled16(out, q - 4, d * (float)scale[k]);
        }
    }
}

const gg_codec GG_K(gg_codec_q2_k) = { decode_q2_k, NULL, false };
const gg_codec GG_K(gg_codec_q3_k) = { decode_q3_k, NULL, false };

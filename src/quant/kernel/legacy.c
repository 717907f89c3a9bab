/* legacy.c - the 32-value blocks of ggml: one scale, at most one offset.
 *
 *          0     2     4     6     8                       q               y
 *   Q4_0   | d   | nibbles 16 .............. 18 |         n - 8           q*d
 *   Q4_1   | d   | m   | nibbles 16 ........ 20 |         n               q*d + m
 *   Q5_0   | d   | high 32 bit | nibbles 16  22 |        (n | h<<4) - 16  q*d
 *   Q5_1   | d   | m   | high 32 bit | nibbles 16  24 |   n | h<<4        q*d + m
 *   Q8_0   | d   | int8 32 ................. 34 |         int8            q*d
 *   Q8_1   | d   | s   | int8 32 ........... 36 |         int8            q*d      s = d*sum(q)
 *
 * d, m and s are f16. Nibble n of value j < 16 is the low half of byte j, of value
 * j + 16 its high half; bit h of value j is bit j of the 32.
 */
#include "lanes.h"

enum { N = 32, H = 16 };

/* Sixteen of the fifth bits as 0 or 16 a value. Bytes are tested against a table
 * of bits, because SSE2 cannot shift each lane by its own count. */
static inline gg_u8x16 high_bits(const uint8_t *p)
{
    const gg_u8x16 bit = { 1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128 };
    const uint64_t spread = UINT64_C(0x0101010101010101), half[2] = { p[0] * spread, p[1] * spread };
    gg_u8x16 v;
    memcpy(&v, half, sizeof v);
    return (gg_u8x16)((v & bit) == bit) & 16;
}

static void decode_q4_0(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 18, out += N) {
        float d = gg_load_f16(b);
        gg_u8x16 q = gg_load_u8x16(b + 2);
        gg_scaled16(out, (q & 15) - 8, d);
        gg_scaled16(out + H, (q >> 4) - 8, d);
    }
}

static void decode_q4_1(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 20, out += N) {
        float d = gg_load_f16(b), m = gg_load_f16(b + 2);
        gg_u8x16 q = gg_load_u8x16(b + 4);
        gg_affine16(out, q & 15, d, m);
        gg_affine16(out + H, q >> 4, d, m);
    }
}

static void decode_q5_0(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 22, out += N) {
        float d = gg_load_f16(b);
        gg_u8x16 q = gg_load_u8x16(b + 6);
        gg_scaled16(out, ((q & 15) | high_bits(b + 2)) - 16, d);
        gg_scaled16(out + H, ((q >> 4) | high_bits(b + 4)) - 16, d);
    }
}

static void decode_q5_1(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 24, out += N) {
        float d = gg_load_f16(b), m = gg_load_f16(b + 2);
        gg_u8x16 q = gg_load_u8x16(b + 8);
        gg_affine16(out, (q & 15) | high_bits(b + 4), d, m);
        gg_affine16(out + H, (q >> 4) | high_bits(b + 6), d, m);
    }
}

static inline void decode_q8(const uint8_t *b, float *restrict out, float d)
{
    for (int j = 0; j < N; j++) out[j] = (float)(int8_t)b[j] * d;
}

static void decode_q8_0(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 34, out += N) decode_q8(b + 2, out, gg_load_f16(b));
}

static void decode_q8_1(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 36, out += N) decode_q8(b + 4, out, gg_load_f16(b));
}

const gg_codec GG_K(gg_codec_q4_0) = { decode_q4_0, NULL, false };
const gg_codec GG_K(gg_codec_q4_1) = { decode_q4_1, NULL, false };
const gg_codec GG_K(gg_codec_q5_0) = { decode_q5_0, NULL, false };
const gg_codec GG_K(gg_codec_q5_1) = { decode_q5_1, NULL, false };
const gg_codec GG_K(gg_codec_q8_0) = { decode_q8_0, NULL, false };
const gg_codec GG_K(gg_codec_q8_1) = { decode_q8_1, NULL, false };

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

/* The fifth bits as 0 or 16 a value. Testing against a table of bits vectorizes
 * where a shift by the lane's index would not (SSE2 has none). */
static inline void spread_high_bits(uint32_t bits, uint8_t high[N])
{
    static const uint8_t bit[8] = { 1, 2, 4, 8, 16, 32, 64, 128 };
    for (int b = 0; b < 4; b++)
        for (int i = 0; i < 8; i++) high[8 * b + i] = (bits >> 8 * b & bit[i]) != 0 ? 16 : 0;
}

static void decode_q4_0(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 18, out += N) {
        float d = gg_load_f16(b);
        for (int j = 0; j < H; j++) {
            out[j] = (float)((b[2 + j] & 15) - 8) * d;
            out[j + H] = (float)((b[2 + j] >> 4) - 8) * d;
        }
    }
}

static void decode_q4_1(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 20, out += N) {
        float d = gg_load_f16(b), m = gg_load_f16(b + 2);
        for (int j = 0; j < H; j++) {
            out[j] = (float)(b[4 + j] & 15) * d + m;
            out[j + H] = (float)(b[4 + j] >> 4) * d + m;
        }
    }
}

static void decode_q5_0(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 22, out += N) {
        float d = gg_load_f16(b);
        uint8_t high[N];
        spread_high_bits(gg_load_u32(b + 2), high);
        for (int j = 0; j < H; j++) {
            out[j] = (float)(((b[6 + j] & 15) | high[j]) - 16) * d;
            out[j + H] = (float)((b[6 + j] >> 4 | high[j + H]) - 16) * d;
        }
    }
}

static void decode_q5_1(const uint8_t *b, float *restrict out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += 24, out += N) {
        float d = gg_load_f16(b), m = gg_load_f16(b + 2);
        uint8_t high[N];
        spread_high_bits(gg_load_u32(b + 4), high);
        for (int j = 0; j < H; j++) {
            out[j] = (float)((b[8 + j] & 15) | high[j]) * d + m;
            out[j + H] = (float)(b[8 + j] >> 4 | high[j + H]) * d + m;
        }
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

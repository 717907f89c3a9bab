/* pick.c - decode single values of a block, for samples that are farther apart than a block.
 *
 * The layouts are drawn in plain.c, legacy.c, k23.c and k456.c. The arithmetic is the same as
 * there, operation by operation, so the bits are the same. */
#include "pick.h"

#include "lanes.h"

static float pick_f32(const uint8_t *b, unsigned j)
{
    (void)j;
    return gg_bits_float(gg_load_u32(b));
}

static float pick_f16(const uint8_t *b, unsigned j)
{
    (void)j;
    return gg_load_f16(b);
}

static float pick_bf16(const uint8_t *b, unsigned j)
{
    (void)j;
    return gg_bf16_decode(gg_load_u16(b));
}

static float pick_q4_0(const uint8_t *b, unsigned j)
{
    unsigned q = (j < 16 ? b[2 + j] : b[2 + j - 16] >> 4) & 15u;
    return (float)((int)q - 8) * gg_load_f16(b);
}

static float pick_q4_1(const uint8_t *b, unsigned j)
{
    unsigned q = (j < 16 ? b[4 + j] : b[4 + j - 16] >> 4) & 15u;
    return (float)q * gg_load_f16(b) + gg_load_f16(b + 2);
}

static float pick_q8_0(const uint8_t *b, unsigned j)
{
    return (float)(int8_t)b[2 + j] * gg_load_f16(b);
}

/* Group k of Q4_K and Q5_K: y = q * (d * scale) - m * min. */
static inline float k4_value(const uint8_t *b, unsigned k, unsigned q)
{
    const uint8_t *p = b + 4;
    unsigned scale = k < 4 ? p[k] & 63u : (p[k + 4] & 15u) | (unsigned)p[k - 4] >> 6 << 4;
    unsigned min = k < 4 ? p[k + 4] & 63u : (unsigned)p[k + 4] >> 4 | (unsigned)p[k] >> 6 << 4;
    float ds = gg_load_f16(b) * (float)scale, ms = gg_load_f16(b + 2) * (float)min;
    return (float)q * ds + -ms;
}

static float pick_q4_k(const uint8_t *b, unsigned j)
{
    unsigned k = j / 32, byte = b[16 + 32 * (k / 2) + j % 32];
    return k4_value(b, k, k % 2 ? byte >> 4 : byte & 15);
}

static float pick_q5_k(const uint8_t *b, unsigned j)
{
    unsigned k = j / 32, byte = b[48 + 32 * (k / 2) + j % 32],
             fifth = (unsigned)b[16 + j % 32] >> k & 1;
    return k4_value(b, k, (k % 2 ? byte >> 4 : byte & 15) | fifth << 4);
}

static float pick_q6_k(const uint8_t *b, unsigned j)
{
    unsigned a = j / 128, g = j / 32 % 4, l = j % 32, byte = b[64 * a + 32 * (g & 1) + l];
    unsigned low = (g < 2 ? byte : byte >> 4) & 15,
             high = (unsigned)b[128 + 32 * a + l] >> 2 * g & 3;
    return (float)((int)(low | high << 4) - 32) *
           (gg_load_f16(b + 208) * (float)(int8_t)b[192 + j / 16]);
}

static float pick_q2_k(const uint8_t *b, unsigned j)
{
    unsigned k = j / 16, q = (unsigned)b[16 + 32 * (j / 128) + j % 32] >> 2 * (j / 32 % 4) & 3;
    float scale = gg_load_f16(b + 80) * (float)(b[k] & 15),
          min = gg_load_f16(b + 82) * (float)(b[k] >> 4);
    return (float)q * scale + -min;
}

static float pick_q3_k(const uint8_t *b, unsigned j)
{
    unsigned k = j / 16, q = (unsigned)b[32 + 32 * (j / 128) + j % 32] >> 2 * (j / 32 % 4) & 3;
    unsigned third = (unsigned)b[j % 32] >> j / 32 & 1,
             low = (k < 8 ? b[96 + k] : b[96 + k - 8] >> 4) & 15u;
    unsigned high = (unsigned)b[104 + k % 4] >> 2 * (k / 4) & 3;
    float scale = gg_load_f16(b + 108) * (float)((int)(low | high << 4) - 32);
    return (float)((int)(q | third << 2) - 4) * scale;
}

static const int8_t iq4_levels[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
                                       1,    13,   25,  38,  53,  69,  89,  113 };

static float pick_iq4_nl(const uint8_t *b, unsigned j)
{
    unsigned q = (j < 16 ? b[2 + j] : b[2 + j - 16] >> 4) & 15u;
    return (float)iq4_levels[q] * gg_load_f16(b);
}

static float pick_iq4_xs(const uint8_t *b, unsigned j)
{
    unsigned k = j / 32, l = j % 32, high = (unsigned)gg_load_u16(b + 2) >> 2 * k & 3,
             scale = ((unsigned)b[4 + k / 2] >> 4 * (k & 1) & 15u) | high << 4,
             byte = b[8 + 16 * k + l % 16], q = (l < 16 ? byte : byte >> 4) & 15;
    return (float)iq4_levels[q] * (gg_load_f16(b) * (float)((int)scale - 32));
}

gg_pick_fn GG_K(gg_pick_of)(uint32_t dtype)
{
    static const gg_pick_fn table[GG_DTYPE_COUNT] = {
        [GG_F32] = pick_f32,       [GG_F16] = pick_f16,   [GG_BF16] = pick_bf16,
        [GG_Q4_0] = pick_q4_0,     [GG_Q8_0] = pick_q8_0, [GG_Q2_K] = pick_q2_k,
        [GG_Q3_K] = pick_q3_k,     [GG_Q4_K] = pick_q4_k, [GG_Q5_K] = pick_q5_k,
        [GG_Q6_K] = pick_q6_k,     [GG_Q4_1] = pick_q4_1, [GG_IQ4_NL] = pick_iq4_nl,
        [GG_IQ4_XS] = pick_iq4_xs,
    };
    return dtype < GG_DTYPE_COUNT ? table[dtype] : NULL;
}

/* pick.c - decode single values of a block, for samples that are farther apart than a block.
 *
 * The layouts are drawn in the files of the codecs. The arithmetic is the same as there, operation
 * by operation, so the bits are the same. Positions of samples have no pattern, so branches on them
 * would often be mispredicted: fields are shifted instead. */
#include "measure/pick.h"

#include "quant/iq_grid.h"
#include "quant/kernel/fields.h"

/* Nibble j of a run of 32 values, of which value j and value j + 16 share a byte. */
static inline unsigned nibble32(const uint8_t *p, unsigned j)
{
    return (unsigned)p[j % 16] >> j / 16 * 4 & 15;
}

static inline unsigned bit_of(const uint8_t *p, unsigned j)
{
    return (unsigned)p[j / 8] >> j % 8 & 1;
}

/* Half k of the nibbles at p, the low one first. */
static inline unsigned nibble(const uint8_t *p, unsigned k)
{
    return (unsigned)p[k / 2] >> 4 * (k & 1) & 15;
}

static float pick_q4_0(const uint8_t *b, unsigned j)
{
    return (float)((int)nibble32(b + 2, j) - 8) * gg_load_f16(b);
}

static float pick_q4_1(const uint8_t *b, unsigned j)
{
    return (float)nibble32(b + 4, j) * gg_load_f16(b) + gg_load_f16(b + 2);
}

static float pick_q5_0(const uint8_t *b, unsigned j)
{
    unsigned q = nibble32(b + 6, j) | bit_of(b + 2, j) << 4;
    return (float)((int)q - 16) * gg_load_f16(b);
}

static float pick_q5_1(const uint8_t *b, unsigned j)
{
    unsigned q = nibble32(b + 8, j) | bit_of(b + 4, j) << 4;
    return (float)q * gg_load_f16(b) + gg_load_f16(b + 2);
}

static float pick_q8_0(const uint8_t *b, unsigned j)
{
    return (float)(int8_t)b[2 + j] * gg_load_f16(b);
}

static float pick_q8_1(const uint8_t *b, unsigned j)
{
    return (float)(int8_t)b[4 + j] * gg_load_f16(b);
}

static float pick_q8_k(const uint8_t *b, unsigned j)
{
    return (float)(int8_t)b[4 + j] * gg_bits_float(gg_load_u32(b));
}

/* Group k of Q4_K and Q5_K: y = q * (d * scale) - m * min. */
static inline float k4_value(const uint8_t *b, unsigned k, unsigned q)
{
    const uint8_t *p = b + 4 + k % 4;
    unsigned first = k / 4 - 1; /* all bits or none */
    unsigned scale = (p[0] & 63u & first) | (((p[8] & 15u) | (unsigned)p[0] >> 6 << 4) & ~first);
    unsigned min = (p[4] & 63u & first) |
                   (((unsigned)p[8] >> 4 | (unsigned)p[4] >> 6 << 4) & ~first);
    float ds = gg_load_f16(b) * (float)scale, ms = gg_load_f16(b + 2) * (float)min;
    return (float)q * ds + -ms;
}

static float pick_q4_k(const uint8_t *b, unsigned j)
{
    unsigned k = j / 32, byte = b[16 + 32 * (k / 2) + j % 32];
    return k4_value(b, k, byte >> 4 * (k & 1) & 15);
}

static float pick_q5_k(const uint8_t *b, unsigned j)
{
    unsigned k = j / 32, byte = b[48 + 32 * (k / 2) + j % 32],
             fifth = (unsigned)b[16 + j % 32] >> k & 1;
    return k4_value(b, k, (byte >> 4 * (k & 1) & 15) | fifth << 4);
}

static float pick_q6_k(const uint8_t *b, unsigned j)
{
    unsigned a = j / 128, g = j / 32 % 4, l = j % 32, byte = b[64 * a + 32 * (g & 1) + l];
    unsigned low = byte >> 4 * (g >> 1) & 15, high = (unsigned)b[128 + 32 * a + l] >> 2 * g & 3;
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
             low = (unsigned)b[96 + k % 8] >> k / 8 * 4 & 15;
    unsigned high = (unsigned)b[104 + k % 4] >> 2 * (k / 4) & 3;
    float scale = gg_load_f16(b + 108) * (float)((int)(low | high << 4) - 32);
    return (float)((int)(q | third << 2) - 4) * scale;
}

static float pick_tq1_0(const uint8_t *b, unsigned j)
{
    static const uint8_t pow3[5] = { 1, 3, 9, 27, 81 };
    unsigned base = j < 160   ? 0
                    : j < 240 ? 160
                              : 240,
             i = j - base,
             width = j < 160   ? 32
                     : j < 240 ? 16
                               : 4;
    /* not 0: 4, 16 or 32 */
    unsigned frac = (uint8_t)(b[base / 5 + i % width] * pow3[i / width]);
    return (float)((int)(frac * 3 >> 8) - 1) * gg_load_f16(b + 52);
}

static float pick_tq2_0(const uint8_t *b, unsigned j)
{
    unsigned q = (unsigned)b[32 * (j / 128) + j % 32] >> 2 * (j / 32 % 4) & 3;
    return (float)((int)q - 1) * gg_load_f16(b + 64);
}

static float pick_q1_0(const uint8_t *b, unsigned j)
{
    return gg_bits_float(gg_float_bits(gg_load_f16(b)) ^ (bit_of(b + 2, j) ^ 1) << 31);
}

static float pick_q2_0(const uint8_t *b, unsigned j)
{
    return (float)((int)((unsigned)b[2 + j / 4] >> 2 * (j % 4) & 3) - 1) * gg_load_f16(b);
}

static float pick_mxfp4(const uint8_t *b, unsigned j)
{
    return (float)gg_fp4_levels[nibble32(b + 1, j)] * gg_mx_scale(b[0]);
}

static float pick_nvfp4(const uint8_t *b, unsigned j)
{
    unsigned q = (unsigned)b[4 + j / 16 * 8 + j % 8] >> 4 * (j / 8 & 1) & 15;
    return (float)gg_fp4_levels[q] * gg_nv_scale(b[j / 16]);
}

static float pick_iq4_nl(const uint8_t *b, unsigned j)
{
    return (float)gg_iq4_levels[nibble32(b + 2, j)] * gg_load_f16(b);
}

static float pick_iq4_xs(const uint8_t *b, unsigned j)
{
    unsigned k = j / 32, high = (unsigned)gg_load_u16(b + 2) >> 2 * k & 3,
             scale = nibble(b + 4, k) | high << 4, q = nibble32(b + 8 + 16 * k, j % 32);
    return (float)gg_iq4_levels[q] * (gg_load_f16(b) * (float)((int)scale - 32));
}

/* Element e of a grid entry. */
static inline int element(uint64_t entry, unsigned e)
{
    return (int8_t)(entry >> 8 * e);
}

static inline float with_sign(int level, unsigned sign)
{
    return (float)((level ^ -(int)sign) + (int)sign);
}

static float pick_iq2_xxs(const uint8_t *b, unsigned j)
{
    const uint8_t *run = b + 2 + j / 32 * 8;
    const uint32_t w = gg_load_u32(run + 4);
    unsigned l = j / 8 % 4, sign = (unsigned)gg_iq_sign7[w >> 7 * l & 127] >> j % 8 & 1;
    return gg_iq2_scale(gg_load_f16(b), w >> 28) *
           with_sign(element(gg_iq2xxs_grid[run[l]], j % 8), sign);
}

static float pick_iq2_xs(const uint8_t *b, unsigned j)
{
    unsigned w = gg_load_u16(b + 2 + j / 8 * 2), sign = (unsigned)gg_iq_sign7[w >> 9] >> j % 8 & 1;
    return gg_iq2_scale(gg_load_f16(b), nibble(b + 66, j / 16)) *
           with_sign(element(gg_iq2xs_grid[w & 511], j % 8), sign);
}

static float pick_iq2_s(const uint8_t *b, unsigned j)
{
    unsigned t = j / 8, high = (unsigned)b[66 + t / 4] >> 2 * (t % 4) & 3;
    return gg_iq2_scale(gg_load_f16(b), nibble(b + 74, j / 16)) *
           with_sign(element(gg_iq2s_grid[b[2 + t] | high << 8], j % 8), bit_of(b + 34, j));
}

static float pick_iq3_xxs(const uint8_t *b, unsigned j)
{
    const uint32_t w = gg_load_u32(b + 66 + j / 32 * 4);
    unsigned sign = (unsigned)gg_iq_sign7[w >> 7 * (j / 8 % 4) & 127] >> j % 8 & 1;
    return gg_load_f16(b) * (0.5f + (float)(w >> 28)) * 0.5f *
           with_sign(element(gg_iq3xxs_grid[b[2 + j / 4]], j % 4), sign);
}

static float pick_iq3_s(const uint8_t *b, unsigned j)
{
    unsigned entry = b[2 + j / 4] | bit_of(b + 66, j / 4) << 8, scale = nibble(b + 106, j / 32);
    return gg_load_f16(b) * (float)(int)(1 + 2 * scale) *
           with_sign(element(gg_iq3s_grid[entry], j % 4), bit_of(b + 74, j));
}

static float pick_iq1_s(const uint8_t *b, unsigned j)
{
    unsigned t = j / 8, hi = gg_load_u16(b + 34 + t / 4 * 2),
             entry = b[2 + t] | (hi >> 3 * (t % 4) & 7) << 8;
    return gg_load_f16(b) * (float)(int)(2 * (hi >> 12 & 7) + 1) *
           ((float)element(gg_iq1s_grid[entry], j % 8) + gg_iq1_shift[hi >> 15]);
}

static float pick_iq1_m(const uint8_t *b, unsigned j)
{
    unsigned t = j / 8, h = j / 16, hi = nibble(b + 32, t), entry = b[t] | (hi & 7) << 8;
    unsigned scale = (unsigned)gg_load_u16(b + 48 + h / 4 * 2) >> 3 * (h % 4) & 7;
    return gg_iq1_m_scale(b + 48) * (float)(int)(2 * scale + 1) *
           ((float)element(gg_iq1s_grid[entry], j % 8) + gg_iq1_shift[hi >> 3]);
}

gg_pick_fn GG_K(gg_pick_of)(uint32_t dtype)
{
    /* clang-format off */
    static const gg_pick_fn table[GG_DTYPE_COUNT] = {
        [GG_Q4_0] = pick_q4_0, [GG_Q4_1] = pick_q4_1, [GG_Q5_0] = pick_q5_0,
        [GG_Q5_1] = pick_q5_1, [GG_Q8_0] = pick_q8_0, [GG_Q8_1] = pick_q8_1,
        [GG_Q8_K] = pick_q8_k, [GG_Q2_K] = pick_q2_k, [GG_Q3_K] = pick_q3_k,
        [GG_Q4_K] = pick_q4_k, [GG_Q5_K] = pick_q5_k, [GG_Q6_K] = pick_q6_k,
        [GG_TQ1_0] = pick_tq1_0, [GG_TQ2_0] = pick_tq2_0, [GG_Q1_0] = pick_q1_0,
        [GG_Q2_0] = pick_q2_0, [GG_MXFP4] = pick_mxfp4, [GG_NVFP4] = pick_nvfp4,
        [GG_IQ4_NL] = pick_iq4_nl, [GG_IQ4_XS] = pick_iq4_xs, [GG_IQ2_XXS] = pick_iq2_xxs,
        [GG_IQ2_XS] = pick_iq2_xs, [GG_IQ2_S] = pick_iq2_s, [GG_IQ3_XXS] = pick_iq3_xxs,
        [GG_IQ3_S] = pick_iq3_s, [GG_IQ1_S] = pick_iq1_s, [GG_IQ1_M] = pick_iq1_m,
    };
    /* clang-format on */
    gg_iq_grids_fill(dtype);
    return dtype < GG_DTYPE_COUNT ? table[dtype] : NULL;
}

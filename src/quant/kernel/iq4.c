/* iq4.c - IQ4_NL (32 values in 18 bytes) and IQ4_XS (256 in 136): 4-bit values on a nonlinear
 * scale that is denser around zero, like the distribution of weights.
 *
 *           0        2       4       8                                        136
 *   IQ4_NL  | d f16  | u8 qs[16]
 *   IQ4_XS  | d f16  | u16 h | l[4]  | u8 qs[8][16]                            |
 *
 *   qs: low nibble of byte j is value j of the 32, high nibble value j + 16.
 *   IQ4_XS, run k of 32: s = nibble k of l | (h >> 2k & 3) << 4, low nibble first.
 *
 *   IQ4_NL  y = d * K[q]            IQ4_XS  y = (d * (s - 32)) * K[q]
 */
#include "fields.h"
#include "grid.h"

enum { RUNS = 8, NL_BYTES = 18, XS_BYTES = 136 };

static void decode_iq4_nl(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += NL_BYTES, out += 32)
        gg_nibbles32(b + 2, gg_iq4_levels, gg_load_f16(b), out);
}

static void decode_iq4_xs(const uint8_t *b, float *out, size_t nblocks)
{
    for (; nblocks > 0; nblocks--, b += XS_BYTES) {
        const float d = gg_load_f16(b);
        const unsigned h = gg_load_u16(b + 2);
        GG_UNROLL(8)
        for (int k = 0; k < RUNS; k++, out += 32) {
            const unsigned s = ((unsigned)b[4 + k / 2] >> 4 * (k & 1) & 15u) | (h >> 2 * k & 3)
                                                                                   << 4;
            gg_nibbles32(b + 8 + 16 * k, gg_iq4_levels, d * (float)((int)s - 32), out);
        }
    }
}

/* --- encode ---------------------------------------------------------------
 *
 * For a given scale d, the best q of each value is the level nearest to x / d. For given q, the
 * best d is sum(w x q) / sum(w q q), which reduces the weighted error by sum(w x q)^2 / sum(w q q).
 * Because q jumps with d, neither step alone finds the optimum. So 16 initial scales are tried:
 * those that put the largest value on 127 + TRIES .. 127 - TRIES of the negative side (which
 * reaches further), and the one that puts it on 127 of the positive side.
 *
 * Weights: an importance matrix has the mean square of the activation of each column. It is
 * multiplied by sqrt(2 mean x^2 + x^2), which slightly favours large values, because their errors
 * do not average out. Without a matrix, the weight is this factor alone.
 *
 * x and the weights are divided by the largest of the block, rounded to a power of two. This is
 * exact and prevents sums from overflowing or underflowing.
 */
enum { TRIES = 7 };

/* Midpoints between levels. */
static const float mid[15] = { -115.5f, -93.5f, -74.0f, -57.0f, -42.0f, -28.5f, -16.0f, -4.5f,
                               7.0f,    19.0f,  31.5f,  45.5f,  61.0f,  79.0f,  101.0f };
static const float level[16] = { -127.0f, -104.0f, -83.0f, -65.0f, -49.0f, -35.0f, -22.0f, -10.0f,
                                 1.0f,    13.0f,   25.0f,  38.0f,  53.0f,  69.0f,  89.0f,  113.0f };

/* 32 values that share a scale. */
typedef struct run {
    gg_f32x8 x[4], w[4], wx[4];
} run;

/* Index of the level nearest to v, without branches, which would often be mispredicted. */
GG_INLINE int nearest1(float v)
{
    int i = v >= mid[7] ? 8 : 0;
    i += v >= mid[i + 3] ? 4 : 0;
    i += v >= mid[i + 1] ? 2 : 0;
    return i + (v >= mid[i] ? 1 : 0);
}

/* The value of the level nearest to each lane. */
GG_INLINE gg_f32x8 nearest_level(gg_f32x8 v)
{
#if GG_LEVEL == 1
    /* A binary search in which each comparison selects the next threshold from a register. */
    const __m256 x = (__m256)v;
    const __m256 high = _mm256_cmp_ps(x, _mm256_set1_ps(mid[7]), _CMP_GE_OQ);
    const __m256 second = _mm256_blendv_ps(_mm256_set1_ps(mid[3]), _mm256_set1_ps(mid[11]), high);
    const __m256i b3 = _mm256_srli_epi32((__m256i)high, 31);
    const __m256i b2 = _mm256_srli_epi32((__m256i)_mm256_cmp_ps(x, second, _CMP_GE_OQ), 31);
    const __m256i i2 = _mm256_add_epi32(_mm256_add_epi32(b3, b3), b2);
    const __m256 third = _mm256_permutevar8x32_ps(
        _mm256_setr_ps(mid[1], mid[5], mid[9], mid[13], 0, 0, 0, 0), i2);
    const __m256i b1 = _mm256_srli_epi32((__m256i)_mm256_cmp_ps(x, third, _CMP_GE_OQ), 31);
    const __m256i i3 = _mm256_add_epi32(_mm256_add_epi32(i2, i2), b1);
    const __m256 fourth = _mm256_permutevar8x32_ps(
        _mm256_setr_ps(mid[0], mid[2], mid[4], mid[6], mid[8], mid[10], mid[12], mid[14]), i3);
    const __m256 up = _mm256_cmp_ps(x, fourth, _CMP_GE_OQ);
    const __m256 even = _mm256_permutevar8x32_ps(_mm256_setr_ps(level[0], level[2], level[4],
                                                                level[6], level[8], level[10],
                                                                level[12], level[14]),
                                                 i3);
    const __m256 odd = _mm256_permutevar8x32_ps(_mm256_setr_ps(level[1], level[3], level[5],
                                                               level[7], level[9], level[11],
                                                               level[13], level[15]),
                                                i3);
    return (gg_f32x8)_mm256_blendv_ps(even, odd, up);
#else
    float lane[8];
    gg_store8(lane, v);
    GG_UNROLL(8)
    for (int i = 0; i < 8; i++) lane[i] = level[nearest1(lane[i])];
    return gg_load8(lane);
#endif
}

/* Tries 1 / scale = id and replaces *scale if the fit is better. */
GG_INLINE void try_scale(const run *r, float id, float *scale, float *best)
{
    gg_f32x8 xq = { 0 }, qq = { 0 };
    GG_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const gg_f32x8 q = nearest_level(r->x[i] * gg_splat8(id));
        xq += r->wx[i] * q;
        qq += r->w[i] * q * q;
    }
    const float sumxq = gg_sum8(xq), sumqq = gg_sum8(qq);
    if (sumqq > 0.0f && sumxq * sumxq > *best * sumqq) {
        *scale = sumxq / sumqq;
        *best = *scale * sumxq;
    }
}

/* Finds the scale of a run; max is the value with the largest magnitude. */
static float fit_scale(const run *r, float max)
{
    float scale = 0.0f, best = 0.0f;
    if (max == 0.0f) return 0.0f;
    try_scale(r, 127.0f / max, &scale, &best);
    for (int t = -TRIES; t <= TRIES; t++) try_scale(r, (float)(t - 127) / max, &scale, &best);
    return scale;
}

/* Loads 32 values times norm and returns the one with the largest magnitude. */
static float load_run(run *r, const float *x, float norm, float sigma2, const float *imatrix,
                      float wnorm)
{
    float lane[32];
    GG_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const gg_f32x8 v = gg_load8(x + 8 * i) * gg_splat8(norm);
        r->x[i] = v;
        r->w[i] = gg_sqrt8(v * v + gg_splat8(sigma2));
        if (imatrix) r->w[i] *= gg_weights8(imatrix + 8 * i, wnorm);
        r->wx[i] = r->w[i] * v;
        gg_store8(lane + 8 * i, v);
    }
    const float top = gg_largest(lane, 32);
    for (int j = 0; j < 32; j++)
        if (lane[j] == top) return top;
    return -top;
}

/* Writes the nibbles of 32 values for the scale that will be read back. */
static void pack_run(const float *x, float scale, uint8_t *qs)
{
    const float id = scale != 0.0f ? 1.0f / scale : 0.0f;
    for (int j = 0; j < 16; j++)
        qs[j] = (uint8_t)(nearest1(x[j] * id) | nearest1(x[j + 16] * id) << 4);
}

/* Subnormal F16 values have large steps and the levels are not symmetric, so the F16 nearest to the
 * best scale may not be the best one. Returns the best of the F16 values around +scale and -scale.
 * Larger scales are returned unchanged. */
static float best_small_scale(const float *x, float scale)
{
    const float unit = 0x1p-24f, size = fabsf(scale) / unit;
    if (size >= 64.0f) return scale;
    float best = 0.0f, least = HUGE_VALF;
    for (int t = 0; t < 6; t++) {
        const float d = (t & 1 ? -unit : unit) * (float)((int)size + t / 2);
        const float id = d != 0.0f ? 1.0f / d : 0.0f;
        float error = 0.0f;
        for (int j = 0; j < 32; j++) {
            const float e = (x[j] - d * level[nearest1(x[j] * id)]) / unit;
            error += e * e;
        }
        if (error < least) {
            least = error;
            best = d;
        }
    }
    return best;
}

static void encode_iq4_nl(const float *x, uint8_t *b, size_t nblocks, const float *imatrix)
{
    for (; nblocks > 0; nblocks--, x += 32, b += NL_BYTES) {
        const float amax = gg_largest(x, 32);
        float scale = 0.0f;
        if (amax >= GG_GRID_TINY) {
            run r;
            const float norm = gg_norm(amax),
                        wnorm = imatrix ? gg_norm(gg_largest(imatrix, 32)) : 1.0f;
            const float max = load_run(&r, x, norm, 2.0f * gg_mean_square(x, 32, norm), imatrix,
                                       wnorm);
            scale = best_small_scale(x, fit_scale(&r, max) / norm);
        }
        pack_run(x, gg_settle_scale(b, scale), b + 2);
        if (imatrix) imatrix += 32;
    }
}

/* The run with the largest scale gets the multiple -32, which reaches further than +31. */
static void encode_iq4_xs(const float *x, uint8_t *b, size_t nblocks, const float *imatrix)
{
    for (; nblocks > 0; nblocks--, x += 256, b += XS_BYTES) {
        const float amax = gg_largest(x, 256);
        float scale[RUNS] = { 0 }, top = 0.0f;
        if (amax >= GG_GRID_TINY) {
            const float norm = gg_norm(amax), sigma2 = 2.0f * gg_mean_square(x, 256, norm);
            const float wnorm = imatrix ? gg_norm(gg_largest(imatrix, 256)) : 1.0f;
            for (int k = 0; k < RUNS; k++) {
                run r;
                const float max = load_run(&r, x + 32 * k, norm, sigma2,
                                           imatrix ? imatrix + 32 * k : NULL, wnorm);
                scale[k] = fit_scale(&r, max) / norm;
                if (fabsf(scale[k]) > fabsf(top)) top = scale[k];
            }
        }
        const float d = gg_settle_scale(b, top / -32.0f), id = d != 0.0f ? 1.0f / d : 0.0f;
        unsigned high = 0;
        memset(b + 4, 0, 4);
        for (int k = 0; k < RUNS; k++) {
            float m = id * scale[k];
            m = m < -32.0f ? -32.0f : m > 31.0f ? 31.0f : m;
            const int s = gg_round1(m);
            pack_run(x + 32 * k, d * (float)s, b + 8 + 16 * k);
            b[4 + k / 2] = (uint8_t)(b[4 + k / 2] | ((s + 32) & 15) << 4 * (k & 1));
            high |= (unsigned)(s + 32) >> 4 << 2 * k;
        }
        gg_store_u16(b + 2, (uint16_t)high);
        if (imatrix) imatrix += 256;
    }
}

GG_CODEC(iq4_nl, decode_iq4_nl, encode_iq4_nl, NULL)
GG_CODEC(iq4_xs, decode_iq4_xs, encode_iq4_xs, NULL)

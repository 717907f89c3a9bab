/* k_fusion.c - the loops of Arcee fusion.
 *
 * The arithmetic follows that of the reference (float32, sums in eight lanes): of rows that differ
 * little, the divergence is hardly larger than the rounding of its terms, so another order of
 * the same sums would choose other values. */
#include "merge/merge_values.h"

#include "numeric/nlanes.h"

#include <math.h>

#define LANES 8
#define RUN 64
#define ROUND 12582912.0f /* 1.5 * 2^23: adding and subtracting it rounds to an integer */

static inline gg_f32x8 splat(float x)
{
    return (gg_f32x8){ x, x, x, x, x, x, x, x };
}

/* 2^q for -126 <= q <= 127 */
static inline gg_f32x8 power(gg_i32x8 q)
{
    return (gg_f32x8)((q + 127) << 23);
}

/* exp(x) in float32, for x <= 0: a polynomial after reduction by ln 2 in two parts, with the
 * coefficients of the library SLEEF, which the reference uses. 0 below -100. */
static inline void exponential(gg_f32x8 *out)
{
    static const float c[] = { 0.00139304355252534151f, 0.00833336077630519867f,
                               0.0416664853692054749f, 0.166666671633720398f, 0.5f };
    gg_i32x8 in_range = NK_COMPARE8(f, *out, >=, splat(-100));
    gg_f32x8 x = (gg_f32x8)(((gg_i32x8)*out & in_range) | ((gg_i32x8)splat(-100) & ~in_range));
    gg_f32x8 q = (x * 1.44269504088896341f + ROUND) - ROUND, u = splat(0.000198527617612853646f);
    gg_i32x8 whole = __builtin_convertvector(q, gg_i32x8), half = whole >> 1;
    x += q * -0.693145751953125f;
    x += q * -1.428606765330187045e-06f;
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) u = u * x + c[i];
    /* In two steps, because 2^q may be below the least normal number. Only the last one rounds. */
    x = (1 + (x * x * u + x)) * power(half) * power(whole - half);
    *out = (gg_f32x8)((gg_i32x8)x & in_range);
}

#define GROUPS 4

static inline void raise(gg_f32x8 *most, const float *x)
{
    gg_f32x8 v;
    memcpy(&v, x, sizeof v);
    gg_i32x8 more = v > *most;
    *most = (gg_f32x8)(((gg_i32x8)v & more) | ((gg_i32x8)*most & ~more));
}

static float largest(const float *x, size_t n)
{
    float most = x[0];
    gg_f32x8 lanes[GROUPS];
    size_t i = 0;
    for (size_t g = 0; g < GROUPS; g++) lanes[g] = splat(most);
    for (; i + GROUPS * LANES <= n; i += GROUPS * LANES) {
        GG_UNROLL(4)
        for (size_t g = 0; g < GROUPS; g++) raise(&lanes[g], x + i + g * LANES);
    }
    for (size_t g = 0; g < GROUPS; g++)
        for (size_t l = 0; l < LANES; l++) most = lanes[g][l] > most ? lanes[g][l] : most;
    for (; i < n; i++) most = x[i] > most ? x[i] : most;
    return most;
}

/* exp(x - max). Returns 1 / their sum. */
static float exponentials(const float *x, size_t n, float *out)
{
    const float most = largest(x, n);
    gg_f32x8 sum = splat(0);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        gg_f32x8 v;
        memcpy(&v, x + i, sizeof v);
        v -= most;
        exponential(&v);
        memcpy(out + i, &v, sizeof v);
        sum += v;
    }
    if (i < n) {
        gg_f32x8 v = splat(-INFINITY); /* its exponential is 0 */
        for (size_t l = 0; i + l < n; l++) v[l] = x[i + l] - most;
        exponential(&v);
        sum += v;
        for (size_t l = 0; i + l < n; l++) out[i + l] = v[l];
    }
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++) sum[l] += sum[l + half];
    return 1 / sum[0];
}

/* The natural logarithm of a positive normal number, computed in double with a relative error below
 * 1e-10 and rounded to float32: see numeric/ownmath.h, which needs more terms. */
static inline float logarithm(float x)
{
    uint32_t u = gg_float_bits(x), octaves = (u - 0x3f3504f3u) & 0xff800000u; /* above 0.7071 */
    double e = (double)((int32_t)octaves / (1 << 23)), m = (double)gg_bits_float(u - octaves);
    double t = (m - 1) / (m + 1), z = t * t, w = z * z;
    double even = 1.0 / 3 + w * (1.0 / 7 + w * (1.0 / 11)), odd = 1.0 / 5 + w * (1.0 / 9);
    return (float)(e * 0.69314718055994530942 + 2 * (t + t * z * (even + z * odd)));
}

float GG_K(gg_mk_divergence)(const float *base, const float *x, size_t n, float *scratch)
{
    float *p = scratch, *q = scratch + n, sum = 0, term[RUN];
    const float part_p = exponentials(x, n, p), part_q = exponentials(base, n, q);
    for (size_t at = 0; at < n; at += RUN) {
        size_t m = n - at < RUN ? n - at : RUN;
        for (size_t i = 0; i < m; i++) {
            float a = p[at + i] * part_p + 1e-8f, b = q[at + i] * part_q + 1e-8f;
            term[i] = a * logarithm(a / b);
        }
        for (size_t i = 0; i < m; i++) sum += term[i];
    }
    return sum;
}

void GG_K(gg_mk_importances)(float *out, const float *base, const float *x, float by, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = gg_bits_float(gg_magnitude(x[i] - base[i])) * by;
}

void GG_K(gg_mk_take_from)(float *out, const float *base, const float *x, float border, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t take = (uint32_t) - (out[i] >= border);
        float changed = base[i] + (x[i] - base[i]);
        out[i] = gg_bits_float((gg_float_bits(changed) & take) | (gg_float_bits(base[i]) & ~take));
    }
}

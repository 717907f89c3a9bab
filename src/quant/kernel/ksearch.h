/* ksearch.h - the scale searches of the encoders. Internal.
 *
 * The encoder of a group of values must choose a scale (and an offset) so that the values, rounded
 * to a few integer levels, have the smallest error. The error as a function of the scale is not
 * smooth: each time a value jumps to another level, the best scale changes. So each search tries
 * several candidates around the obvious scale, rounds the values with each, solves the least
 * squares problem for these levels, and keeps the best.
 *
 * Searches and order of sums are those of ggml's make_q* functions, so the bytes are the same. But
 * each vector lane holds a group, and the values of a group are processed one after another. No
 * lane needs the sum of another lane, so the result does not depend on the width of the registers.
 *
 * In the affine search a candidate that is better moves the offset of those after it, which reduces
 * the error by 1 to 4 %.
 *
 * All searches work on groups of n values, n a multiple of 16 and at most 32, and return finite
 * scales for finite input below GG_SEARCH_LIMIT.
 */
#pragma once

#include "lanes.h"

/* Groups with a smaller range are treated as constant: the reciprocal would overflow, and the scale
 * would be 0 in f16 anyway. */
#define GG_SEARCH_EPS 1e-30f

/* No K or 32-value block can represent larger values (65504, the largest f16, * 128 * 32). Encoders
 * clamp to this first, so that squares and fourth powers do not overflow. */
#define GG_SEARCH_LIMIT 2.7e8f

/* x = scale * l with symmetric levels l = -nmax .. nmax-1, stored as L = l + nmax. If w is NULL,
 * the weight is x*x. Sets the scale of each group; for one of zeros the scale and all L are 0. */
GG_DECLARE_KF(void, gg_search_symmetric,
              (int groups, int n, int nmax, const float *x, const float *w, uint8_t *L,
               float *scale));

/* Parameters of an affine search: the levels are 0..nmax, and the candidates for 1 / scale are
 * (nmax + first + i * step) / range, i = 0..last. The error is absolute or squared. */
typedef struct gg_affine_plan {
    int nmax;
    float first, step;
    int last;
    bool absolute;
} gg_affine_plan;

/* x = scale * L - min, L = 0..nmax, min >= 0, for each group. */
GG_DECLARE_KF(void, gg_search_affine,
              (int groups, int n, const gg_affine_plan *plan, const float *x, const float *w,
               uint8_t *L, float *scale, float *min));
#ifdef GG_HAVE_L1 /* called by that of level 1 */
void gg_search_affine_l2(int groups, int n, const gg_affine_plan *plan, const float *x,
                         const float *w, uint8_t *L, float *scale, float *min);
#endif

/* Results of the searches for the groups of a block. */
typedef struct gg_affine_found {
    float scale[16], min[16];
    float weight[16];     /* weight of each group, with an importance matrix */
    uint8_t s[16], t[16]; /* the quantized scales and minima, set by gg_store_affine */
    float d, m;           /* their units */
} gg_affine_found;

/* x = scale * L, L = 0..nmax, for x >= 0. Used to quantize the scales of the groups of a block. */
GG_DECLARE_KF(float, gg_search_positive,
              (int n, int nmax, const float *x, const float *w, uint8_t *L));

/* The value with the largest magnitude, with its sign; the first one if several are equal. */
GG_INLINE float gg_extreme(const float *x, int n)
{
    gg_f32x8 top = gg_load8(x), low = top;
    for (int i = 8; i < n; i += 8) {
        top = gg_max8(top, gg_load8(x + i));
        low = gg_min8(low, gg_load8(x + i));
    }
    float hi = gg_top8(top), lo = -gg_top8(-low);
    if (hi != -lo) return hi > -lo ? hi : lo;
    if (!(hi > 0.0f)) return 0.0f;
    for (int i = 0; i < n; i++)
        if (x[i] == hi || x[i] == lo) return x[i];
    return hi;
}

/* Returns x, or if a value exceeds +-limit, a clamped copy in `room`. */
GG_INLINE const float *gg_clamped(const float *x, int n, float limit, float *room)
{
    gg_f32x8 top = gg_splat8(0.0f);
    for (int i = 0; i < n; i += 8) top = gg_max8(top, gg_abs8(gg_load8(x + i)));
    if (gg_top8(top) <= limit) return x;
    for (int i = 0; i < n; i++) room[i] = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
    return room;
}

/* Levels of eight values, clamped to low..high. */
GG_INLINE gg_i32x8 gg_level8(gg_f32x8 v, float low, float high)
{
    return gg_trunc8(gg_max8(gg_min8(gg_rint8(v), gg_splat8(high)), gg_splat8(low)));
}

/* Compute the levels of 16 values again with the scale as stored. If that scale is 0, the levels of
 * the search remain. */
GG_INLINE void gg_relevel_symmetric16(const float *x, float d, int nmax, uint8_t *L)
{
    if (d == 0.0f) return;
    float low = (float)-nmax, high = (float)(nmax - 1);
    gg_store_bytes16(L, gg_level8(gg_load8(x) / d, low, high) + nmax,
                     gg_level8(gg_load8(x + 8) / d, low, high) + nmax);
}

GG_INLINE void gg_relevel_affine16(const float *x, float d, float m, int nmax, uint8_t *L)
{
    if (d == 0.0f) return;
    float high = (float)nmax;
    gg_store_bytes16(L, gg_level8((gg_load8(x) + m) / d, 0.0f, high),
                     gg_level8((gg_load8(x + 8) + m) / d, 0.0f, high));
}

/* Sum of squares, in the order of the values. */
GG_INLINE float gg_sum_squares(const float *x, int n)
{
    float sum = 0.0f;
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    return sum;
}

/* Weights: the importance of the column times sqrt(variance + x*x), so that small values have some
 * weight too. Returns the sum of the weights. */
GG_INLINE float gg_weigh(int n, const float *x, const float *imatrix, float variance, float *w)
{
    float sum = 0.0f;
    for (int i = 0; i < n; i++) w[i] = imatrix[i] * __builtin_sqrtf(variance + x[i] * x[i]);
    for (int i = 0; i < n; i++) sum += w[i];
    return sum;
}

/* Quantizes n scales >= 0 to integers; the largest scale becomes nmax. Returns the unit. */
GG_INLINE float gg_quantize_scales(int n, int nmax, const float *scale, uint8_t *L)
{
    float max = 0.0f;
    for (int i = 0; i < n; i++) max = scale[i] > max ? scale[i] : max;
    float inverse = max > 0.0f ? (float)nmax / max : 0.0f;
    for (int i = 0; i < n; i++) {
        float l = inverse * scale[i];
        L[i] = (uint8_t)(l > 0.0f ? l < (float)nmax ? gg_round1(l) : nmax : 0);
    }
    return max / (float)nmax;
}

#if GG_LEVEL < 2
/* Quantizes the n scales and minima of a block, and stores their units at p. */
GG_INLINE void gg_store_affine(uint8_t *p, int n, int nmax, gg_affine_found *f, bool weighed)
{
    if (weighed) {
        f->d = GG_K(gg_search_positive)(n, nmax, f->scale, f->weight, f->s);
        f->m = GG_K(gg_search_positive)(n, nmax, f->min, f->weight, f->t);
    } else {
        f->d = gg_quantize_scales(n, nmax, f->scale, f->s);
        f->m = gg_quantize_scales(n, nmax, f->min, f->t);
    }
    gg_store_scale(p, f->d);
    gg_store_scale(p + 2, f->m);
    f->d = gg_load_f16(p);
    f->m = gg_load_f16(p + 2);
}
#endif

/* Defines an encoder of blocks of 256 values, which are clamped first. */
#define GG_ENCODES_256(name, bytes, encode_block) \
    static void name(const float *x, uint8_t *b, size_t nblocks, const float *imatrix) \
    { \
        float room[256]; \
        for (size_t i = 0; i < nblocks; i++, x += 256, b += (bytes)) \
            encode_block(gg_clamped(x, 256, GG_SEARCH_LIMIT, room), b, \
                         imatrix ? imatrix + 256 * i : NULL); \
    }

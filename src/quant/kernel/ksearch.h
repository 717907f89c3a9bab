/* ksearch.h - the scale searches of the encoders. Internal.
 *
 * An encoder of a group of values has to pick a scale (and an offset) so that the
 * values, rounded to a few integer levels, come back with the least error. The
 * error as a function of the scale is jagged: each time a value jumps to another
 * level the best scale moves. So each search tries a row of candidates around the
 * obvious scale, rounds the values with each, solves the least squares problem for
 * the levels found, and keeps the best. Same searches and same order of sums as
 * ggml's make_q* family, hence the same bytes, but the lanes hold CANDIDATES (up to
 * eight at a time) while the values come one after another: no lane ever needs the
 * sum of another, so the result cannot depend on the width of the machine.
 *
 * The affine search moves its offset with each candidate that wins, and later
 * candidates round against the moved offset: that is worth 1 to 4 % of error. A
 * register of them runs on the bet that none wins; when one does, those after it
 * run again.
 *
 * All are exact on groups of 16 or 32 values (n a multiple of 16, at most 32), and
 * return finite scales for finite input below GG_SEARCH_LIMIT.
 */
#ifndef GG_KSEARCH_H
#define GG_KSEARCH_H

#include "lanes.h"

/* Groups flatter than this are taken as constant: their reciprocals overflow, and
 * every scale of theirs is 0 in f16 in any case. */
#define GG_SEARCH_EPS 1e-30f

/* No K or 32-value block reaches beyond it (f16's 65504 * 128 * 32): encoders
 * clamp to it first, so that squares and fourth powers stay in range. */
#define GG_SEARCH_LIMIT 2.7e8f

/* x = scale * (L - zero): symmetric levels -nmax .. nmax-1, stored as L = l + nmax.
 * w NULL: x*x is the weight. Returns the scale, 0 with all L zero for a zero group. */
GG_DECLARE_KF(float, gg_search_symmetric,
              (int n, int nmax, const float *x, const float *w, uint8_t *L));

/* The levels of an affine search, 0..nmax, and how far it goes: candidates
 * (nmax + first + i * step) / range, i = 0..last; absolute error instead of squared. */
typedef struct gg_affine_plan {
    int nmax;
    float first, step;
    int last;
    bool absolute;
} gg_affine_plan;

/* x = scale * L - min, L = 0..nmax, min >= 0. Returns the scale. */
GG_DECLARE_KF(float, gg_search_affine,
              (int n, const gg_affine_plan *plan, const float *x, const float *w, uint8_t *L,
               float *min));

/* What the searches of a block's groups found. */
typedef struct gg_affine_found {
    float scale[16], min[16];
    float weight[16]; /* of a group, with an importance matrix */
} gg_affine_found;

/* x = scale * L, L = 0..nmax, x >= 0: the scales of the groups of a block. */
GG_DECLARE_KF(float, gg_search_positive,
              (int n, int nmax, const float *x, const float *w, uint8_t *L));

/* The value of largest magnitude with its sign; the first of equals. */
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

/* Returns x, or a copy in `room` clamped to +-limit when some value is beyond it. */
GG_INLINE const float *gg_clamped(const float *x, int n, float limit, float *room)
{
    gg_f32x8 top = gg_splat8(0.0f);
    for (int i = 0; i < n; i += 8) top = gg_max8(top, gg_abs8(gg_load8(x + i)));
    if (gg_top8(top) <= limit) return x;
    for (int i = 0; i < n; i++) room[i] = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
    return room;
}

/* The levels of 16 values under the scale as stored. A scale that became 0 says
 * nothing: the levels of the search stay. */
GG_INLINE gg_i32x8 gg_level8(gg_f32x8 v, float low, float high)
{
    return gg_trunc8(gg_max8(gg_min8(gg_rint8(v), gg_splat8(high)), gg_splat8(low)));
}

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

/* Importance of the column times the size of the value, tempered by the variance
 * about it: a small value is not worth nothing. Returns the sum of the weights. */
GG_INLINE float gg_weigh(int n, const float *x, const float *imatrix, float variance, float *w)
{
    float sum = 0.0f;
    for (int i = 0; i < n; i++) w[i] = imatrix[i] * __builtin_sqrtf(variance + x[i] * x[i]);
    for (int i = 0; i < n; i++) sum += w[i];
    return sum;
}

/* n scales >= 0 as integers 0..nmax of the largest. Returns the unit. */
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

#endif

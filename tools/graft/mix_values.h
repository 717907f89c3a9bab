/* mix_values.h - the arithmetic of blends and folded adapters on arrays of values.
 *
 * Every function exists once per instruction-set level (base/isa.h) and gives the same bits at
 * each. Arrays have n values, may have any alignment, and do not overlap.
 */
#pragma once

#include "base/isa.h"

/* a = wa a + wb b, computed in double. */
GG_DECLARE_KF(void, gg_mix_two, (float *a, const float *b, double wa, double wb, size_t n));

/* a += w (b - c), computed in double. c may be a itself. */
GG_DECLARE_KF(void, gg_mix_difference,
              (float *a, const float *b, const float *c, double w, size_t n));

/* Sums over all values so far: aa, bb, ab. Value i of a call belongs to lane i mod 4, so additions
 * are independent while their order stays fixed. Start from all zero. */
typedef struct gg_products {
    double aa[4], bb[4], ab[4];
} gg_products;

GG_DECLARE_KF(void, gg_mix_products, (gg_products * s, const float *a, const float *b, size_t n));

/* A low-rank change: delta[o][i] = scale sum_k tall[o][k] wide[k][i]. */
typedef struct gg_low_rank {
    const float *wide; /* r rows */
    size_t stride;     /* distance of two rows, of wide and of the values to change */
    size_t r;
    float scale;
} gg_low_rank;

/* x[o][i] += delta[o][i] for `rows` rows of x and of tall (r values each), and for the first n
 * columns. In float32; each sum runs over k in order, so it does not depend on rows and n. */
GG_DECLARE_KF(void, gg_mix_low_rank,
              (const gg_low_rank *l, float *x, const float *tall, size_t rows, size_t n));

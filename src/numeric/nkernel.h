/* nkernel.h - the hot loops of the numeric layer, one object per ISA level.
 *
 * All sums are in double over lanes that the source fixes (value i goes to lane
 * i mod NK_LANES, lanes are folded in a fixed tree), so that every level
 * and every compiler gives the same bits.
 */
#ifndef GG_NKERNEL_H
#define GG_NKERNEL_H

#include "../base/isa.h"
#include "gg_numeric.h"

#define NK_LANES 8

/* Keys live in memory that was or will be floats. */
typedef uint32_t __attribute__((__may_alias__)) nk_key;

typedef struct nk_range {
    double sum;
    float min, max;
} nk_range;

typedef struct nk_central {
    double m2, m4; /* sums, not means */
} nk_central;

/* Non-finite values among n. */
GG_DECLARE_KF(size_t, nk_nonfinite, (const float *x, size_t n));
/* Sum, min and max of n >= 1 finite values. */
GG_DECLARE_KF(nk_range, nk_range, (const float *x, size_t n));
/* Sums of (x - mean)^2 and (x - mean)^4. */
GG_DECLARE_KF(nk_central, nk_central, (const float *x, size_t n, double mean));
/* Add n values to counts[GG_DIM_BINS_MAX]; range = max - min > 0. */
GG_DECLARE_KF(void, nk_histogram, (const float *x, size_t n, double min, double range, uint64_t *counts));
/* Float bits to keys that sort as the values do, and back. May be in place. */
GG_DECLARE_KF(void, nk_keys, (const float *x, size_t n, nk_key *keys));
GG_DECLARE_KF(void, nk_unkeys, (const nk_key *keys, size_t n, float *x));
/* bin[i] = trunc((x[i] - min) scale), in float32. */
GG_DECLARE_KF(void, nk_bins, (const float *x, size_t n, float min, float scale, int32_t *bin));
/* Sum of (gap - mean_gap)^2 over the n - 1 gaps of n sorted keys. */
GG_DECLARE_KF(double, nk_gaps, (const nk_key *keys, size_t n, double mean_gap));

/* Sums over the pairs of which both are finite. */
typedef struct nk_pair_means {
    double a, b;
    uint64_t n;
} nk_pair_means;

typedef struct nk_pair_central {
    double aa, bb, ab;
} nk_pair_central;

GG_DECLARE_KF(nk_pair_means, nk_pair_means, (const float *a, const float *b, size_t n));
GG_DECLARE_KF(nk_pair_central, nk_pair_central,
              (const float *a, const float *b, size_t n, double mean_a, double mean_b));
GG_DECLARE_KF(void, nk_compare, (gg_compare * acc, const float *a, const float *b, size_t n));

#endif

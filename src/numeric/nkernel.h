/* nkernel.h - the hot loops of the numeric layer, compiled per instruction-set level. Internal.
 *
 * All sums run in double over fixed lanes: value i goes to lane i mod NK_LANES, and the lanes are
 * added in a fixed tree. Every level and every compiler therefore gives the same bits.
 */
#pragma once

#include "base/isa.h"
#include "numeric.h"

#define NK_LANES 8

/* Sort keys share their memory with floats, so they may alias. */
typedef uint32_t __attribute__((__may_alias__)) gg_nk_key;

typedef struct gg_nk_range {
    double sum;
    float min, max;
} gg_nk_range;

typedef struct gg_nk_central {
    double m2, m4; /* sums, not means */
} gg_nk_central;

/* Sum, min and max of n >= 1 finite values. If some are not finite, neither is the sum. */
GG_DECLARE_KF(gg_nk_range, gg_nk_range, (const float *x, size_t n));
/* Sums of (x - mean)^2 and (x - mean)^4. */
GG_DECLARE_KF(gg_nk_central, gg_nk_central, (const float *x, size_t n, double mean));
/* Adds n sorted keys to counts[GG_DIM_BINS_MAX]; range = max - min > 0. */
GG_DECLARE_KF(void, gg_nk_histogram_sorted,
              (const gg_nk_key *keys, size_t n, double min, double range, uint64_t *counts));
/* Converts floats to keys that sort in the same order. May work in place. */
GG_DECLARE_KF(void, gg_nk_keys, (const float *x, size_t n, gg_nk_key *keys));
/* The magnitudes of n keys, which are the bits of the values without their signs: all their bits,
 * the least above 0 minus 1, and the largest. */
typedef struct gg_nk_bounds {
    uint32_t bits, low, high;
} gg_nk_bounds;
GG_DECLARE_KF(gg_nk_bounds, gg_nk_magnitudes, (const gg_nk_key *keys, size_t n));
/* Subtracts `low` from the magnitudes above 0, which are larger than it, and then `base` from the
 * keys; and the inverse. */
GG_DECLARE_KF(void, gg_nk_fold_keys, (gg_nk_key * keys, size_t n, uint32_t low, uint32_t base));
GG_DECLARE_KF(void, gg_nk_unfold_keys, (gg_nk_key * keys, size_t n, uint32_t low, uint32_t base));
/* The first i >= from >= 1 whose key is less than the one before, or n. */
GG_DECLARE_KF(size_t, gg_nk_descent, (const gg_nk_key *keys, size_t from, size_t n));
/* Sum of (gap - mean_gap)^2 over the n - 1 gaps of n sorted keys. */
GG_DECLARE_KF(double, gg_nk_gaps, (const gg_nk_key *keys, size_t n, double mean_gap));

/* Sum of a[i] b[i]; to[i] -= factor from[i]. */
GG_DECLARE_KF(double, gg_nk_dot, (const float *a, const float *b, size_t n));
GG_DECLARE_KF(void, gg_nk_subtract, (float *to, const float *from, double factor, size_t n));

/* The polar method for n <= GG_POLAR_MOST pairs (u, v), each in the halves of a word: copies those
 * with u^2 + v^2 < 1 and returns their number; turns such pairs into two Gaussians each. */
#define GG_POLAR_MOST 256
GG_DECLARE_KF(size_t, gg_nk_in_disc, (const uint64_t *tries, size_t n, uint64_t *pairs));
GG_DECLARE_KF(void, gg_nk_polar, (const uint64_t *pairs, size_t n, float *out));

/* ---- measure.c ---- */

/* The steps of all ways to measure. gg_keep_finite copies the finite ones of n values and returns
 * their number; x and out may be the same. */
size_t gg_keep_finite(const float *x, size_t n, float *out);
/* Sets min, max and mean from the range of n > 0 values. Returns max - min. */
double gg_measure_set_range(gg_measure *out, const gg_nk_range *r, uint64_t n);
/* Sets std, kurtosis, entropy and dimension from the sums of n values and their histogram of
 * GG_DIM_BINS_MAX bins, which is overwritten. */
void gg_measure_set_moments(gg_measure *out, uint64_t n, gg_nk_central sums, uint64_t *count);
/* Sets cv, theta and signal. squares is the sum of (gap - mean)^2 over the n - 1 gaps. */
void gg_measure_set_gaps(gg_measure *out, uint64_t n, double squares);

/* ---- sort.c ---- */

#define GG_SORT_FEW 96 /* up to this number of keys insertion sort is faster, and needs no tmp */

/* Sorts n < 2^32 keys in ascending order; tmp has room for n keys. Returns the one of the two
 * arrays that has the result. The contents of the other are undefined. */
gg_nk_key *gg_sort_keys(gg_nk_key *keys, size_t n, gg_nk_key *tmp);

/* The same for entries with a key in the upper 32 bits. Entries with equal keys must come
 * in ascending order of the lower bits. */
uint64_t *gg_sort_entries(uint64_t *entries, size_t n, uint64_t *tmp);

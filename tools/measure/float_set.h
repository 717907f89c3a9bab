/* float_set.h - the histogram and the different values of many floats, in bounded memory.
 *
 * A bucket with many values has a bitmap of the 2^19 floats that it may hold, and a
 * bucket with few values a list. Setting bits all over the bitmaps would miss the cache at each
 * value, so that each thread has a buffer for every bucket, which is emptied when it is full:
 *
 *     pool  |bitmap|list|bitmap| ...   |buffers of thread 0|buffers of thread 1| ...
 *
 * The pool has a fixed size. If the buckets do not fit, they are filled in several parts, and each
 * part needs another pass over the values. There are at most 19 parts, however many values there
 * are.
 */
#pragma once

#include "numeric/nkernel.h"

/* All floats with the same sign, exponent and next 4 bits are a bucket. */
#define GG_FLOAT_BUCKETS 8192
#define GG_FLOAT_BUCKET(bits) ((bits) >> 19)
#define GG_BUCKET_TABLES 4 /* of counters, so that equal values do not wait for each other */
/* Count the buckets of n values in GG_BUCKET_TABLES tables of GG_FLOAT_BUCKETS counters, or n codes
 * of 16 bits in counts[65536]. */
GG_DECLARE_KF(void, gg_nk_count_buckets, (const float *x, size_t n, uint32_t *counts));
GG_DECLARE_KF(void, gg_nk_count_codes, (const uint16_t *codes, size_t n, uint32_t *counts));
/* Number of floats of the same sign whose bits are at least `from`. */
GG_DECLARE_KF(size_t, gg_nk_count_from, (const float *x, size_t n, uint32_t from));
/* Adds n values to counts[GG_DIM_BINS_MAX]; range = max - min > 0. */
GG_DECLARE_KF(void, gg_nk_histogram,
              (const float *x, size_t n, double min, double range, uint64_t *counts));

typedef struct gg_float_set gg_float_set;

/* Allocates a set for a number of threads: 28 MiB for bitmaps and lists, and for the buffers
 * 12 MiB, or 0.6 MiB per thread if that is more. Returns NULL without memory. */
gg_float_set *gg_float_set_new(unsigned threads);
void gg_float_set_free(gg_float_set *s); /* accepts NULL */

/* Starts with the number of values per bucket; those of buckets that are not finite are ignored.
 * The histogram has GG_DIM_BINS_MAX bins from min to min + range. */
void gg_float_set_begin(gg_float_set *s, const uint64_t *count, double min, double range);

/* Prepares the next part, or the first. Returns false if there is none. */
bool gg_float_set_next(gg_float_set *s);

/* Adds finite values; those that are not in this part are ignored. Each thread has its own number,
 * so that several can add values at the same time. */
void gg_float_set_add(gg_float_set *s, unsigned thread, const float *x, size_t n);

/* Empties the buffers of a thread: after all values of the part were added, and before
 * gg_gap_sum_add. */
void gg_float_set_flush(gg_float_set *s, unsigned thread);

/* Adds the counts of all parts to bins. */
void gg_float_set_bins(const gg_float_set *s, uint64_t *bins);

/* ---- gaps ---------------------------------------------------------------------- */

/* Sum of (gap - mean_gap)^2 over the gaps between neighbours among the different values of one
 * sign. The magnitudes are added in ascending order. */
typedef struct gg_gap_sum {
    double sum, mean_gap;
    uint64_t different;    /* values so far */
    gg_nk_key first, last; /* keys of the lowest and the highest magnitude, if different > 0 */
} gg_gap_sum;

/* Adds the values of this part in the buckets [from, to). They must have the same sign.
 * Their memory and the buffers of the thread are overwritten. */
void gg_gap_sum_add(gg_gap_sum *g, gg_float_set *s, unsigned thread, uint32_t from, uint32_t to);
/* Adds a sum whose magnitudes are all above those of g. */
void gg_gap_sum_join(gg_gap_sum *g, const gg_gap_sum *next);
/* The sum for both signs; includes the gap between the smallest magnitudes. */
double gg_gap_sum_both(const gg_gap_sum *negative, const gg_gap_sum *positive);

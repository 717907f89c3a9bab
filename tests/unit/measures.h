/* measures.h - whole arrays by the functions that the library uses piece by piece, for tests. */
#ifndef T_MEASURES_H
#define T_MEASURES_H

#include "base/float_bits.h"
#include "measure/rowtheta.h"
#include "numeric/nkernel.h"
#include "numeric/numeric.h"

/* Pearson's r of two arrays. */
static inline double t_pearson(const float *a, const float *b, size_t n)
{
    gg_pair_sums sums = { 0 };
    GG_PICK(gg_pearson_add)(&sums, a, b, n);
    return gg_pearson_of(&sums);
}

static inline void t_row_theta_add(gg_row_theta *acc, const float *a, const float *b, size_t n)
{
    gg_pair_sums sums = { 0 };
    GG_PICK(gg_pearson_add)(&sums, a, b, n);
    gg_row_theta_add_sums(acc, &sums);
}

/* The first row of pair i; the second is the next. */
static inline uint64_t t_row_pair(uint64_t i, uint64_t rows)
{
    return gg_sample_index(i, rows < 2 ? 0 : rows - 1, gg_row_pairs(rows));
}

/* Sorts in ascending total order: negative NaN, -Inf, ..., -0, +0, ..., +Inf, NaN. tmp has room for
 * n floats. */
static inline void t_sort_floats(float *values, size_t n, float *tmp)
{
    gg_nk_key *keys = (gg_nk_key *)(void *)values, *other = (gg_nk_key *)(void *)tmp;
    GG_PICK(gg_nk_keys)(values, n, keys);
    const gg_nk_key *sorted = gg_sort_keys(keys, n, other);
    for (size_t i = 0; i < n; i++)
        values[i] = gg_bits_float(sorted[i] & 0x80000000u ? sorted[i] ^ 0x80000000u : ~sorted[i]);
}

#endif

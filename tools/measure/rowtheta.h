/* rowtheta.h - the angle between adjacent rows. */
#pragma once

#include "numeric/numeric.h"

#define GG_ROW_PAIRS 64

/* Number of pairs of adjacent rows to sample: min(GG_ROW_PAIRS, rows - 1); 0 for one row. The first
 * row of pair i is floor(i (rows - 1) / pairs); the second is the next. */
uint64_t gg_row_pairs(uint64_t rows);

/* Pearson's r of rows that are read in pieces, in double, clamped to -1..1: start from {0} and add
 * the pieces in order. Where they are cut changes only the last bits. Pairs with a value that is
 * not finite are ignored. r is 0 if fewer than two pairs remain or if either side is constant. */
typedef struct gg_pair_sums {
    uint64_t n; /* pairs with two finite values */
    double mean_a, mean_b;
    double aa, bb, ab; /* sums of products of the differences from the means */
} gg_pair_sums;

GG_DECLARE_KF(void, gg_pearson_add,
              (gg_pair_sums * sums, const float *a, const float *b, size_t n));
double gg_pearson_of(const gg_pair_sums *sums);

/* Sums |r| over the pairs, added in the order of i. Start from {0}. For a tensor with a single row,
 * add (x, x + 1, n - 1). */
typedef struct gg_row_theta {
    double sum_abs;
    uint64_t pairs;
} gg_row_theta;

void gg_row_theta_add_sums(gg_row_theta *acc, const gg_pair_sums *sums);

/* arccos(mean |r|) in degrees; 90 if nothing was added. */
double gg_row_theta_degrees(const gg_row_theta *acc);

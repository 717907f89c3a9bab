/* rowtheta.h - the angle between adjacent rows. */
#pragma once

#include "numeric/numeric.h"

/* Sums |r| over the pairs, added in the order of i. Start from {0}. For a tensor with a single row,
 * add (x, x + 1, n - 1). */
typedef struct gg_row_theta {
    double sum_abs;
    uint64_t pairs;
} gg_row_theta;

void gg_row_theta_add_sums(gg_row_theta *acc, const gg_pair_sums *sums);

/* arccos(mean |r|) in degrees; 90 if nothing was added. */
double gg_row_theta_degrees(const gg_row_theta *acc);

/* cholesky.h - linear equations with a symmetric positive definite matrix, in double. Internal.
 *
 * Each value is computed by one thread in a fixed order, so results do not depend on their number.
 */
#pragma once

#include "organ/gg_status.h"

/* Replaces the lower triangle of s (n x n, row-major) by L with s = L L'. The rest is not read.
 * GG_EFORMAT if s is not positive definite; GG_ENOMEM. */
gg_status gg_cholesky(double *s, size_t n, unsigned threads, gg_error *err);

/* Replaces each of the rows of x (rows x n) by that row times the inverse of L L'. Uses 32 n bytes
 * per thread. GG_ENOMEM. */
gg_status gg_cholesky_solve(const double *l, size_t n, float *x, size_t rows, unsigned threads,
                            gg_error *err);

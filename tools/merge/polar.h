/* polar.h - polar factors of matrices. */
#pragma once

#include "organ/gg_status.h"

/* ---- polar factors ----------------------------------------------------------------------
 *
 * For the singular value decomposition X = U S V', the polar factor is U V': the matrix with the
 * same singular vectors in which all singular values are 1. It is computed with 8 steps of a
 * Newton-Schulz iteration, that is, with products of matrices only.
 *
 * The steps bring every singular value of at least 1/2000 of a bound of the largest one to 1, with
 * an error of at most 1e-3. The bound is the eighth root of the sum of their eighth powers: at most
 * 1.8 times the largest value for 100 equal ones, 2.4 times for 1000. Smaller singular values end
 * between 0 and 1, the smaller the nearer to 0, and never above 1. A rank-deficient matrix thus
 * gets the polar factor of its range: directions without a signal stay without one.
 */

/* Replaces the row-major matrix x, whose values are finite, with its polar factor. A zero matrix
 * remains zero. Memory: at most as much again as x, and that of gg_matmul_polynomial.
 * GG_ENOMEM if there is not enough. */
gg_status gg_polar(float *x, size_t rows, size_t cols, unsigned threads, gg_error *err);

/* Isotropic merging (Iso-C; Marczak et al., "No Task Left Behind: Isotropic Model Merging with
 * Common and Task-Specific Subspaces", 2025): replaces the difference d = U S V' with
 * mean(S) U V', where mean(S) = trace(S) / min(rows, cols) = <U V', d> / min(rows, cols).
 * A zero matrix remains zero. Memory as above, and a copy of d. *mean (may be NULL) gets
 * mean(S). */
gg_status gg_isotropic(float *d, size_t rows, size_t cols, unsigned threads, double *mean,
                       gg_error *err);

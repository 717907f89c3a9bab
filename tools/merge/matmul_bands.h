/* matmul_bands.h - products of matrices with a square matrix, in place. */
#pragma once

#include "numeric/matrix.h"

/* x = x p if `right`, else x = p x, in place, for a square matrix p that does not overlap x. x has
 * col_step 1. Uses at most 1 MiB and 256 columns (or rows, for p x) of x's other side per thread.
 * Fails only with GG_ENOMEM. */
gg_status gg_matmul_in_place(const gg_matrix *x, const gg_matrix *p, bool right, unsigned threads,
                             gg_error *err);

/* x = k[0] x + k[1] x g + k[2] x g^2 if `right`, else with the products from the left, for a square
 * matrix g, without memory for g^2. Otherwise like gg_matmul_in_place, with twice its columns. */
gg_status gg_matmul_polynomial(const gg_matrix *x, const gg_matrix *g, const double *k, bool right,
                               unsigned threads, gg_error *err);

/* The sum of the squares of all values of g^2, likewise. */
gg_status gg_matmul_square_norm(const gg_matrix *g, unsigned threads, double *sum, gg_error *err);

/* matrix.h - products, factors, decompositions and equations of matrices. Internal.
 *
 * Matrices are float32 unless stated otherwise. Bits are the same on every instruction-set level
 * and with every number of threads.
 */
#pragma once

#include "base/isa.h"
#include "organ/gg_status.h"

/* ---- products --------------------------------------------------------------------------
 *
 * Every element of a product is summed in the same order: over blocks of GG_MATMUL_DEPTH terms, in
 * float32, first to last, and the sums of the blocks are added first to last. No multiplication is
 * fused with an addition.
 */

#define GG_MATMUL_DEPTH 256

/* A matrix in memory: element (i, j) is x[i * row_step + j * col_step]. A row-major matrix has
 * col_step 1 and row_step = cols; with the two steps exchanged the same memory is its transpose. */
typedef struct gg_matrix {
    float *x;
    size_t rows, cols, row_step, col_step;
} gg_matrix;

gg_matrix gg_matrix_of(float *x, size_t rows, size_t cols); /* row-major */
gg_matrix gg_matrix_transposed(const gg_matrix *m);

/* c = a b. a is m x k, b is k x n, and c is m x n with col_step 1 and overlaps neither. k may be 0:
 * then c becomes 0. Fails only with GG_ENOMEM; uses at most 1 MiB per thread. */
gg_status gg_matmul(const gg_matrix *c, const gg_matrix *a, const gg_matrix *b, unsigned threads,
                    gg_error *err);

/* The same for a product that is known to be symmetric, such as a' a: only the tiles on and above
 * the diagonal are computed, and the rest is mirrored. */
gg_status gg_matmul_symmetric(const gg_matrix *c, const gg_matrix *a, const gg_matrix *b,
                              unsigned threads, gg_error *err);

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

/* ---- the kernel: a product on one thread ---- */

/* The most rows and columns that are packed at once. Together with GG_MATMUL_DEPTH they are chosen
 * for 1 MiB of cache per core. Multiples of every level's tile of registers. */
#define GG_MATMUL_ROWS 192
#define GG_MATMUL_COLS 512

/* Floats of a packed block of rows (`most` is GG_MATMUL_ROWS) or columns (GG_MATMUL_COLS): a
 * multiple of 64 bytes. 48 is a multiple of the sides of every tile. */
static inline size_t gg_matmul_packed(size_t lines, size_t most, size_t terms)
{
    lines = lines < most ? (lines + 47) / 48 * 48 : most;
    return lines * (terms < GG_MATMUL_DEPTH ? terms : GG_MATMUL_DEPTH);
}

/* Floats of scratch for one product, including room to align them. */
static inline size_t gg_matmul_scratch(size_t rows, size_t cols, size_t terms)
{
    return gg_matmul_packed(rows, GG_MATMUL_ROWS, terms) +
           gg_matmul_packed(cols, GG_MATMUL_COLS, terms) + 64 / sizeof(float);
}

/* As gg_matmul, for a part of c of any size. Needs gg_matmul_scratch floats. */
GG_DECLARE_KF(void, gg_nk_matmul,
              (const gg_matrix *c, const gg_matrix *a, const gg_matrix *b, float *scratch));

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

/* ---- the leading part of a singular value decomposition ---------------------------------- */

/* D = U S V' cut after `rank` singular values: tall (rows x rank) is U sqrt(S), wide
 * (rank x cols) is sqrt(S) V', so that tall wide is the best approximation of D of that rank.
 * kept and total are sums of squares of the singular values: those of the factors and all. */
typedef struct gg_factors {
    size_t rank;
    float *tall, *wide;
    double kept, total;
} gg_factors;

typedef struct gg_lowrank {
    size_t rank;   /* at most that many; 0 = as many as `energy` needs */
    double energy; /* share of the sum of squares to keep, above 0 and at most 1 */
    uint64_t seed; /* of the random start */
    unsigned threads;
} gg_lowrank;

/* Decomposes the row-major matrix d, whose values are finite, by randomized subspace iteration
 * (Halko, Martinsson and Tropp 2011). All singular values are exact, up to rounding, if d has no
 * more than rank + 8 of them that differ from 0, or if rank + 8 reaches the shorter side; else the
 * product is nearly the best one: the more the singular values differ, the nearer.
 *
 * The rank is at most the shorter side, and 0 for a zero matrix. With `energy` the work is repeated
 * with twice the rank until it suffices. Memory: 8 (rank + 8) (rows + cols) bytes, and
 * 16 (rank + 8)^2. out's arrays are to be freed with gg_factors_free. Fails only with GG_ENOMEM. */
gg_status gg_truncate_matrix(float *d, size_t rows, size_t cols, const gg_lowrank *o,
                             gg_factors *out, gg_error *err);
void gg_factors_free(gg_factors *f);

/* ---- the largest singular value, compared with that of noise ------------------------------ */

/* Computes sigma1^2 / (var (sqrt m + sqrt n)^2) of a matrix of m = of_rows rows and n = cols
 * columns, of which x holds `rows` rows, row-major and evenly spread. sigma1 is the largest
 * singular value and var the variance of the values. The result is about 1 for independent random
 * values (the edge of the Marchenko-Pastur law), more if rows have something in common, and 0 if
 * all values are equal to 0 or var is 0.
 *
 * sigma1 comes from the Lanczos method on x' x, each step of which reads x once. The result is at
 * most the true one, and less than 1 % below it.
 *
 * If rows < of_rows, the result is an estimate: it assumes one common direction in white noise,
 * whose strength is found from the rows given (Baik, Ben Arous and Peche 2005) and extrapolated.
 *
 * Values that are not finite count as 0. x is changed. Memory: 1 KiB per column.
 * Fails only with GG_ENOMEM. */
typedef struct gg_spectral_rows {
    float *x;
    size_t rows, cols;
    uint64_t of_rows; /* at least rows */
} gg_spectral_rows;

gg_status gg_spectral_edge(const gg_spectral_rows *m, unsigned threads, double *edge,
                           gg_error *err);

/* ---- equations with a symmetric positive definite matrix, in double ----------------------- */

/* Replaces the lower triangle of s (n x n, row-major) by L with s = L L'. The rest is not read.
 * GG_EFORMAT if s is not positive definite; GG_ENOMEM. */
gg_status gg_cholesky(double *s, size_t n, unsigned threads, gg_error *err);

/* Replaces each of the rows of x (rows x n) by that row times the inverse of L L'. Uses 32 n bytes
 * per thread. GG_ENOMEM. */
gg_status gg_cholesky_solve(const double *l, size_t n, float *x, size_t rows, unsigned threads,
                            gg_error *err);

/* ---- matching the rows of a sparse matrix of weights with its columns --------------------- */

#define GG_ASSIGN_MAX ((size_t)1 << 20) /* rows */
#define GG_ASSIGN_REACH 4096            /* columns that one search may settle */

/* The candidates of n rows among n columns. Row i has count[i] <= most of them, at i * most in
 * `column` and `weight`. No column occurs twice in a row. Weights are finite. */
typedef struct gg_candidates {
    size_t n, most;
    const uint32_t *count;
    const uint32_t *column;
    const float *weight;
} gg_candidates;

/* Finds distinct columns for the rows: match[i] is the column of row i. First as many rows as
 * possible are matched with one of their candidates, and among all ways to do so the sum of the
 * weights is the largest. Rows that are left over take their own number if that column is free,
 * and otherwise the free columns in ascending order.
 *
 * Method: shortest augmenting paths (the Hungarian method on a sparse graph). Memory: 40 n bytes
 * and at most 24 bytes per candidate. Time: O(n most log n) if most rows have a column of their
 * own. A search settles at most GG_ASSIGN_REACH columns and then leaves its row over, so that the
 * time is bounded by O(n GG_ASSIGN_REACH most log n), and the result is exact up to
 * n = GG_ASSIGN_REACH. It depends on nothing but the candidates.
 * Errors: GG_EUNSUPPORTED for n above GG_ASSIGN_MAX; GG_ENOMEM. */
gg_status gg_assign(const gg_candidates *c, uint32_t *match, gg_error *err);

/* matrix.h - products, factors, decompositions and equations of matrices. Internal.
 *
 * Matrices are float32 unless stated otherwise. Bits are the same on every instruction-set level
 * and with every number of threads.
 */
#pragma once

#include "base/isa.h"
#include "base/parallel.h"
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
/* The part of m that starts at (row, col). */
gg_matrix gg_matrix_part(const gg_matrix *m, size_t row, size_t col, size_t rows, size_t cols);

/* c = a b. a is m x k, b is k x n, and c is m x n with col_step 1 and overlaps neither. k may be 0:
 * then c becomes 0. Fails only with GG_ENOMEM; uses at most 1 MiB per thread. */
gg_status gg_matmul(const gg_matrix *c, const gg_matrix *a, const gg_matrix *b, unsigned threads,
                    gg_error *err);

/* The same for a product that is known to be symmetric, such as a' a: only the tiles on and above
 * the diagonal are computed, and the rest is mirrored. */
gg_status gg_matmul_symmetric(const gg_matrix *c, const gg_matrix *a, const gg_matrix *b,
                              unsigned threads, gg_error *err);

/* Runs the tasks with `floats` values of scratch for each thread. GG_ENOMEM. */
gg_status gg_matmul_run(float ***scratch, size_t floats, size_t tasks, gg_task task, void *ctx,
                        unsigned threads, gg_error *err);

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

/* ---- equations with a symmetric positive definite matrix, in double ----------------------- */

/* Replaces the lower triangle of s (n x n, row-major) by L with s = L L'. The rest is not read.
 * GG_EFORMAT if s is not positive definite; GG_ENOMEM. */
gg_status gg_cholesky(double *s, size_t n, unsigned threads, gg_error *err);

/* Replaces each of the rows of x (rows x n) by that row times the inverse of L L'. Uses 32 n bytes
 * per thread. GG_ENOMEM. */
gg_status gg_cholesky_solve(const double *l, size_t n, float *x, size_t rows, unsigned threads,
                            gg_error *err);

/* matmul_kernel.h - the product of matrices on one thread, per instruction-set level. Internal. */
#ifndef GG_MATMUL_KERNEL_H
#define GG_MATMUL_KERNEL_H

#include "base/isa.h"
#include "matmul.h"

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

#endif

/* matmul_kernel.h - the product of matrices on one thread, per instruction-set level. Internal. */
#ifndef GG_MATMUL_KERNEL_H
#define GG_MATMUL_KERNEL_H

#include "base/isa.h"
#include "matmul.h"

/* The most rows and columns that are packed at once. Together with GG_MATMUL_DEPTH they are chosen
 * for 1 MiB of cache per core. Multiples of every level's tile of registers. */
#define GG_MATMUL_ROWS 192
#define GG_MATMUL_COLS 512

/* Floats of scratch, including room to align them. */
#define GG_MATMUL_SCRATCH \
    ((size_t)GG_MATMUL_DEPTH * (GG_MATMUL_ROWS + GG_MATMUL_COLS) + 64 / sizeof(float))

/* As gg_matmul, for a part of c of any size. */
GG_DECLARE_KF(void, gg_nk_matmul,
              (const gg_matrix *c, const gg_matrix *a, const gg_matrix *b, float *scratch));

#endif

/* lowrank_kernel.h - loops over vectors, per instruction-set level. Internal. */
#ifndef GG_LOWRANK_KERNEL_H
#define GG_LOWRANK_KERNEL_H

#include "base/isa.h"

#include <stddef.h>

/* Sum of a[i] b[i], in double over eight fixed lanes. */
GG_DECLARE_KF(double, gg_nk_dot, (const float *a, const float *b, size_t n));

/* to[i] -= factor from[i] */
GG_DECLARE_KF(void, gg_nk_subtract, (float *to, const float *from, double factor, size_t n));

#endif

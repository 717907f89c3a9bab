/* spectral_kernel.h - the loop of the Lanczos method, per instruction-set level. Internal. */
#ifndef GG_SPECTRAL_KERNEL_H
#define GG_SPECTRAL_KERNEL_H

#include "base/isa.h"

#include <stddef.h>

/* z = sum over the rows w of x (rows x cols) of (w . v) w. Sums run over fixed lanes. */
GG_DECLARE_KF(void, gg_nk_gram_times,
              (const float *x, size_t rows, size_t cols, const float *v, float *z));

#endif

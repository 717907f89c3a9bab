/* fft_vec.h - the lanes of one machine register, for the kernels of the FFT. Internal.
 *
 * Without AVX a register has half of the lanes of a point, and every loop runs twice, because gcc
 * makes poor code for vectors larger than a register. Lanes are independent, so the bits are the
 * same.
 */
#ifndef GG_FFT_VEC_H
#define GG_FFT_VEC_H

#include "base/isa.h"

#if GG_LEVEL == 0
#define HALVES 2
typedef float vec __attribute__((vector_size(16), __may_alias__));
typedef int32_t ivec __attribute__((vector_size(16), __may_alias__));
#else
#define HALVES 1
typedef float vec __attribute__((vector_size(32), __may_alias__));
typedef int32_t ivec __attribute__((vector_size(32), __may_alias__));
#endif

typedef struct point { /* the same memory as an fft_point */
    vec re[HALVES], im[HALVES];
} point;

#endif

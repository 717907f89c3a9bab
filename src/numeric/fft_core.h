/* fft_core.h - structures and kernels of the FFT. Internal.
 *
 * Sixteen real rows are transformed at once: rows 0-7 are the real parts and rows 8-15 the
 * imaginary parts of eight complex sequences, one per vector lane. A point is { re[8], im[8] },
 * 64 bytes, so every butterfly is plain vector arithmetic for any length. Special butterflies for
 * real input are not needed, because the rows can be separated afterwards: with Z the transform of
 * z = a + i b, A[k] = (Z[k] + conj Z[n-k]) / 2 and B[k] = (Z[k] - conj Z[n-k]) / 2i.
 */
#ifndef GG_FFT_CORE_H
#define GG_FFT_CORE_H

#include "base/isa.h"
#include "numeric/numeric.h"
#include "organ/gg_numeric.h"

#define FFT_LANES 8
#define FFT_MAX_RADIX 31
#define FFT_MAX_STEPS 32

typedef struct fft_point {
    gg_f32x8 re, im;
} fft_point;

/* One step of Stockham's algorithm with decimation in frequency; see k_fft_pass.c. */
typedef struct fft_step {
    size_t radix, ido, l1;
    const float *twiddle; /* {re, im} of exp(-2 pi I i j l1 / n), [i][j - 1]; I^2 = -1 */
    const float *root;    /* {re, im} of exp(-2 pi I j / radix), radix above 5 */
} fft_step;

typedef struct fft_core {
    size_t n;
    unsigned steps;
    fft_step step[FFT_MAX_STEPS];
    float *table;
} fft_core;

/* Conditioning of rows, so that two can share a complex sequence without affecting each other.
 * Each row is scaled by a power of two to about 1. A row that is missing or not finite is replaced
 * by zeros (mask 0). */
typedef struct fft_lanes {
    _Alignas(32) int32_t mask[2][FFT_LANES];
    _Alignas(32) float scale[2][FFT_LANES];
    _Alignas(32) float unscale[2][FFT_LANES];
} fft_lanes;

/* Forward transform of core->n points at a. Returns whether the result is at b. */
GG_DECLARE_KF(bool, gg_nk_fft_run, (const fft_core *core, fft_point *a, fft_point *b));

/* Determines masks and scales from `count` rows of n values. */
GG_DECLARE_KF(void, gg_nk_fft_lanes,
              (fft_lanes * lanes, const float *rows, size_t n, size_t count));
GG_DECLARE_KF(void, gg_nk_fft_load,
              (const fft_lanes *lanes, const float *rows, size_t n, size_t count, fft_point *z));
GG_DECLARE_KF(void, gg_nk_fft_spectra,
              (const fft_lanes *lanes, const fft_point *z, size_t n, size_t count, float *spectra));
/* Loads the packed spectrum with re and im swapped. The forward transform then computes the inverse
 * with re and im swapped; gg_nk_fft_store swaps them back and scales by 1 / n. */
GG_DECLARE_KF(void, gg_nk_fft_load_spectra,
              (const fft_lanes *lanes, const float *spectra, size_t n, size_t count, fft_point *z));
GG_DECLARE_KF(void, gg_nk_fft_store,
              (const fft_lanes *lanes, const fft_point *z, size_t n, size_t count, float *rows));

/* out[k] = in[k] w[k], or its conjugate. w has {re, im} pairs. May work in place. */
GG_DECLARE_KF(void, gg_nk_fft_multiply,
              (fft_point * out, const fft_point *in, const float *w, size_t n));
GG_DECLARE_KF(void, gg_nk_fft_multiply_conj,
              (fft_point * out, const fft_point *in, const float *w, size_t n));

#endif

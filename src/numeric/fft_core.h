/* fft_core.h - inside the FFT: what plan and kernels share.
 *
 * Sixteen real rows are transformed at once: rows 0-7 are the real and rows 8-15 the
 * imaginary parts of eight complex sequences, one a vector lane. So a point is
 * { re[8], im[8] }, 64 bytes, every butterfly is plain vector arithmetic whatever
 * the length, and no real-input butterflies are needed: with Z the transform of
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

/* One step of Stockham's algorithm, decimation in frequency, see k_fft_pass.c. */
typedef struct fft_step {
    size_t radix, ido, l1;
    const float *twiddle; /* {re, im} of e^(-2 pi i i j l1 / n), [i][j - 1] */
    const float *root;    /* {re, im} of e^(-2 pi i j / radix), radix above 5 */
} fft_step;

typedef struct fft_core {
    size_t n;
    unsigned steps;
    fft_step step[FFT_MAX_STEPS];
    float *table;
} fft_core;

/* What makes a row safe to share a complex sequence with another: it is scaled by a
 * power of two to about 1, and replaced by zeros (mask 0) if it is missing or
 * not finite. */
typedef struct fft_lanes {
    _Alignas(32) int32_t mask[2][FFT_LANES];
    _Alignas(32) float scale[2][FFT_LANES];
    _Alignas(32) float unscale[2][FFT_LANES];
} fft_lanes;

/* Forward transform of core->n points at a; true if the result is at b. */
GG_DECLARE_KF(bool, gg_nk_fft_run, (const fft_core *core, fft_point *a, fft_point *b));

/* Find the lanes' scales from `count` rows of n values. */
GG_DECLARE_KF(void, gg_nk_fft_lanes,
              (fft_lanes * lanes, const float *rows, size_t n, size_t count));
GG_DECLARE_KF(void, gg_nk_fft_load,
              (const fft_lanes *lanes, const float *rows, size_t n, size_t count, fft_point *z));
GG_DECLARE_KF(void, gg_nk_fft_spectra,
              (const fft_lanes *lanes, const fft_point *z, size_t n, size_t count, float *spectra));
/* Load the packed spectrum with re and im swapped: the forward transform is then the
 * inverse, swapped again, which gg_nk_fft_store undoes (and scales by 1 / n). */
GG_DECLARE_KF(void, gg_nk_fft_load_spectra,
              (const fft_lanes *lanes, const float *spectra, size_t n, size_t count, fft_point *z));
GG_DECLARE_KF(void, gg_nk_fft_store,
              (const fft_lanes *lanes, const fft_point *z, size_t n, size_t count, float *rows));

/* out[k] = in[k] w[k] or its conjugate; w is {re, im} pairs. May be in place. */
GG_DECLARE_KF(void, gg_nk_fft_multiply,
              (fft_point * out, const fft_point *in, const float *w, size_t n));
GG_DECLARE_KF(void, gg_nk_fft_multiply_conj,
              (fft_point * out, const fft_point *in, const float *w, size_t n));

#endif

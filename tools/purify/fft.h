/* fft.h - the real FFT of rows of any length, in float32. Internal.
 *
 * Lengths with prime factors up to 127 use a mixed radix, others Bluestein's algorithm. Sixteen
 * rows are transformed at once: rows 0-7 are the real parts and rows 8-15 the imaginary parts of
 * eight complex sequences, one per vector lane. A point is { re[8], im[8] }, so every butterfly is
 * plain vector arithmetic for any length. Special butterflies for real input are not needed,
 * because the rows can be separated afterwards: with Z the transform of z = a + i b, A[k] = (Z[k] +
 * conj Z[n-k]) / 2 and B[k] = (Z[k] - conj Z[n-k]) / 2i. The last bits of a row may depend on the
 * other rows of its batch.
 */
#pragma once

#include "base/isa.h"

#define GG_FFT_BATCH 16 /* rows that are transformed together */

typedef struct gg_fft_point {
    gg_f32x8 re, im;
} gg_fft_point;

/* One value per row of a batch. */
typedef float gg_fft_rows[GG_FFT_BATCH] __attribute__((aligned(32)));

/* A plan is read-only after its creation, so threads can share it. */
typedef struct gg_fft_plan gg_fft_plan;

/* Makes a plan for n values; free it with gg_fft_plan_free, which accepts NULL. Returns NULL and an
 * error if n is 0 (GG_EUSAGE) or above 2^28 (GG_EUNSUPPORTED), or without memory. */
GG_DECLARE_KF(gg_fft_plan *, gg_fft_plan_new, (size_t n, gg_error *err));
GG_DECLARE_KF(void, gg_fft_plan_free, (gg_fft_plan * plan));

/* Bytes of scratch, whose address is a multiple of 64: 256 + 128 n; with Bluestein's algorithm
 * 256 n to 283 n. */
GG_DECLARE_KF(size_t, gg_fft_scratch, (const gg_fft_plan *plan));

/* The spectra of a batch, in the scratch: bins 0 to n / 2, each of rows 0-7 and of rows 8-15.
 * Unscaled: X[k] = sum x[j] e^(-2 pi i j k / n). */
typedef struct gg_fft_spectra {
    gg_fft_point (*bin)[2];
    gg_fft_point *z; /* room for the transform */
} gg_fft_spectra;

/* Transforms `count` <= GG_FFT_BATCH rows of n finite values; the spectra of the other rows are
 * 0. Rows of very different size do not affect each other. */
GG_DECLARE_KF(gg_fft_spectra, gg_fft_forward,
              (const gg_fft_plan *plan, const float *rows, size_t count, void *scratch));

/* The inverse, scaled by 1 / n, of spectra that are finite. The imaginary parts of bin 0 and, for
 * even n, of bin n / 2 are ignored. Returns the `count` rows, which are in the scratch. */
GG_DECLARE_KF(const float *, gg_fft_inverse,
              (const gg_fft_plan *plan, const gg_fft_spectra *s, size_t count));

/* The largest magnitude of a part of the bins [from, n / 2] of each row. Its bits are at least
 * those of infinity if a part is not finite. */
GG_DECLARE_KF(void, gg_fft_largest,
              (const gg_fft_spectra *s, size_t n, size_t from, float *largest));

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
#ifndef GG_FFT_H
#define GG_FFT_H

#include "base/isa.h"

#define GG_FFT_BATCH 16 /* rows that are transformed together */
#define GG_FFT_RADIX 127
#define GG_FFT_STEPS 32

typedef struct gg_fft_point {
    gg_f32x8 re, im;
} gg_fft_point;

/* One value per row of a batch. */
typedef float gg_fft_rows[GG_FFT_BATCH] __attribute__((aligned(32)));

/* One step of Stockham's algorithm with decimation in frequency; see k_fft.c. */
typedef struct gg_fft_step {
    size_t radix, ido, l1;
    const float *twiddle; /* {re, im} of exp(-2 pi I i j l1 / n), [i][j - 1]; I^2 = -1 */
    const float *root;    /* {re, im} of exp(-2 pi I j / radix) */
} gg_fft_step;

/* The steps of a length without large prime factors. */
typedef struct gg_fft_core {
    size_t n;
    unsigned steps;
    gg_fft_step step[GG_FFT_STEPS];
    float *table;
} gg_fft_core;

/* A plan is read-only after its creation, so threads can share it. */
typedef struct gg_fft_plan gg_fft_plan;

/* Makes a plan for n values; free it with gg_fft_plan_free, which accepts NULL. Returns NULL and an
 * error if n is 0 (GG_EUSAGE) or above 2^28 (GG_EUNSUPPORTED), or without memory. */
gg_fft_plan *gg_fft_plan_new(size_t n, gg_error *err);
void gg_fft_plan_free(gg_fft_plan *plan);

/* Bytes of scratch, whose address is a multiple of 64: 256 + 128 n; with Bluestein's algorithm
 * 256 n to 283 n. */
size_t gg_fft_scratch(const gg_fft_plan *plan);

/* The spectra of a batch, in the scratch: bins 0 to n / 2 of rows 0-7 in a, and of rows 8-15 in b.
 * Unscaled: X[k] = sum x[j] e^(-2 pi i j k / n). */
typedef struct gg_fft_spectra {
    gg_fft_point *a, *b;
    gg_fft_point *z; /* room for the transform */
} gg_fft_spectra;

/* Transforms `count` <= GG_FFT_BATCH rows of n finite values; the spectra of the other rows are
 * 0. Rows of very different size do not affect each other. */
gg_fft_spectra gg_fft_forward(const gg_fft_plan *plan, const float *rows, size_t count,
                              void *scratch);

/* The inverse, scaled by 1 / n, of spectra that are finite. The imaginary parts of bin 0 and, for
 * even n, of bin n / 2 are ignored. Returns the `count` rows, which are in the scratch. */
const float *gg_fft_inverse(const gg_fft_plan *plan, const gg_fft_spectra *s, size_t count);

/* ---- kernels ---- */

/* Forward transform of core->n points at a. Returns whether the result is at b. */
GG_DECLARE_KF(bool, gg_nk_fft_run, (const gg_fft_core *core, gg_fft_point *a, gg_fft_point *b));
/* z[k] *= w[k] for n points. w has {re, im} pairs. */
GG_DECLARE_KF(void, gg_nk_fft_multiply, (gg_fft_point * z, const float *w, size_t n));

/* Moves `count` rows, scaled, to n points and back. The inverse transform exchanges re and im and
 * needs the factor 1 / n. */
GG_DECLARE_KF(void, gg_nk_fft_load,
              (const float *rows, size_t n, size_t count, const float *scale, gg_fft_point *z));
GG_DECLARE_KF(void, gg_nk_fft_store,
              (const gg_fft_point *z, size_t n, size_t count, const float *scale, float *rows));
/* Separates s->z into the spectra, scaled. */
GG_DECLARE_KF(void, gg_nk_fft_split, (const gg_fft_spectra *s, size_t n, const float *scale));
/* Joins the spectra, scaled, in s->z with re and im exchanged. The forward transform then computes
 * the inverse with re and im exchanged. */
GG_DECLARE_KF(void, gg_nk_fft_join, (const gg_fft_spectra *s, size_t n, const float *scale));
/* The largest magnitude of a part of the bins [from, n / 2] of each row. Its bits are at least
 * those of infinity if a part is not finite. */
GG_DECLARE_KF(void, gg_nk_fft_largest,
              (const gg_fft_spectra *s, size_t n, size_t from, float *largest));
/* The energies 2 |scale X[k]|^2 of all bins except bin 0, half of that for the last bin of even n.
 */
GG_DECLARE_KF(void, gg_nk_fft_energies,
              (const gg_fft_spectra *s, size_t n, const float *scale, gg_fft_point *energy));
/* Sets bin 0 to 0, and every bin whose energy is not below the row's cut. */
GG_DECLARE_KF(void, gg_nk_fft_keep_below,
              (const gg_fft_spectra *s, size_t n, gg_fft_point *energy, const float *cut));

#endif

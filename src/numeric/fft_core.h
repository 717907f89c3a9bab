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
#include "numeric/nkernel.h"
#include "numeric/numeric.h"
#include "organ/gg_numeric.h"

#define FFT_LANES 8
#define FFT_MAX_RADIX 127
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

/* One value per row; row l has lane l mod 8 of half l / 8. */
typedef float fft_values[2][FFT_LANES] __attribute__((aligned(32)));
typedef int32_t fft_bits[2][FFT_LANES] __attribute__((aligned(32)));
typedef double fft_sums[2][FFT_LANES] __attribute__((aligned(32)));

/* Spectra of sixteen rows: {re, im} of bin k of rows 0-7 in a[k], and of rows 8-15 in b[k]. The
 * filter also has the energies of all rows, as the two halves of energy[k]. */
typedef struct fft_spectra {
    fft_point *a, *b, *energy;
} fft_spectra;

/* Energies of each row without bin 0: their sum, and the bits of the largest and of the least above
 * 0, minus 1. */
typedef struct fft_totals {
    fft_sums sum;
    fft_bits top, least;
} fft_totals;

/* Bits of energies: row l has n[l] of them, of which `room` are stored from keys[l * room]. */
typedef struct fft_lists {
    gg_nk_key *keys;
    size_t room, *n;
} fft_lists;

/* ---- fft.c ---- */

/* The points of a batch of rows, and as much memory: gg_fft_room points each, which is enough for
 * both parts of the spectra, or for the rows. */
typedef struct fft_buffers {
    fft_point *now, *other;
} fft_buffers;

size_t gg_fft_room(const gg_fft_plan *plan);
fft_buffers gg_fft_buffers(const gg_fft_plan *plan, void *scratch);

/* Determines masks and scales of `count` rows from the bits of their largest magnitudes. Returns
 * whether all these rows are finite. */
bool gg_fft_condition(fft_lanes *lanes, fft_bits largest, size_t count);

/* Forward transform of the points in z->now, which may exchange the buffers. */
void gg_fft_transform(const gg_fft_plan *p, fft_buffers *z);

/* Transforms the spectra in z->other back to `count` rows; those that are not finite become NaN.
 * Without `rows`, they are left in z->other, and must be finite. */
void gg_fft_inverse(const gg_fft_plan *plan, const fft_lanes *lanes, size_t count, fft_buffers *z,
                    float *rows);

/* ---- kernels ---- */

/* Forward transform of core->n points at a. Returns whether the result is at b. */
GG_DECLARE_KF(bool, gg_nk_fft_run, (const fft_core *core, fft_point *a, fft_point *b));

/* Bits of the largest magnitude of each of `count` rows of n values, at least 0x7f800000 if a value
 * is not finite. 0 for missing rows. */
GG_DECLARE_KF(void, gg_nk_fft_largest,
              (const float *rows, size_t n, size_t count, fft_bits largest));
GG_DECLARE_KF(void, gg_nk_fft_load,
              (const fft_lanes *lanes, const float *rows, size_t n, size_t count, fft_point *z));
/* Swaps re and im back after an inverse transform, and scales by 1 / n. */
GG_DECLARE_KF(void, gg_nk_fft_store,
              (const fft_lanes *lanes, const fft_point *z, size_t n, size_t count, float *rows));

/* Separates the spectra, and finds the bits of the largest part of a bin, without bin 0. */
GG_DECLARE_KF(void, gg_nk_fft_split,
              (const fft_lanes *lanes, const fft_point *z, size_t n, const fft_spectra *s,
               fft_bits largest));
/* Joins the spectra with re and im swapped. The forward transform then computes the inverse with re
 * and im swapped. */
GG_DECLARE_KF(void, gg_nk_fft_join,
              (const fft_lanes *lanes, const fft_spectra *s, size_t n, fft_point *z));
/* Moves spectra to rows of {re, im}, and back. */
GG_DECLARE_KF(void, gg_nk_fft_put_spectra,
              (const fft_spectra *s, size_t bins, size_t count, float *spectra));
GG_DECLARE_KF(void, gg_nk_fft_get_spectra,
              (const fft_spectra *s, size_t bins, size_t count, const float *spectra));

/* Computes the energies 2 |scale X[k]|^2 of all bins except bin 0, half of that for the last bin of
 * even n. */
GG_DECLARE_KF(void, gg_nk_fft_energies,
              (const fft_spectra *s, size_t n, fft_values scale, fft_totals *out));
/* Sums the energies below a limit for each row. */
GG_DECLARE_KF(void, gg_nk_fft_sum_below,
              (const fft_spectra *s, size_t bins, fft_values limit, fft_sums sum));
/* Lists the energies in [from, end) of each row. */
GG_DECLARE_KF(void, gg_nk_fft_collect,
              (const fft_spectra *s, size_t bins, fft_values from, fft_values end,
               const fft_lists *lists));
/* Zeroes bin 0, every bin whose energy is not below the row's cut, and rows whose cut is 0. Finds
 * the bits of the largest part that is left. */
GG_DECLARE_KF(void, gg_nk_fft_keep_below,
              (const fft_spectra *s, size_t bins, fft_values cut, fft_bits largest));

/* out[k] = in[k] w[k], or its conjugate. w has {re, im} pairs. May work in place. */
GG_DECLARE_KF(void, gg_nk_fft_multiply,
              (fft_point * out, const fft_point *in, const float *w, size_t n));
GG_DECLARE_KF(void, gg_nk_fft_multiply_conj,
              (fft_point * out, const fft_point *in, const float *w, size_t n));

#endif

/* numeric.h - the arithmetic of libgguf: measures, comparison, FFT, wavelets.
 *
 * Everything here works on arrays of float32 in memory and is independent of files, tensor names
 * and dtypes. Results have the same bits on every instruction-set level (isa.h) and with every
 * number of threads. To achieve this, sums run in double over fixed lanes in a fixed order, and
 * logarithms use only correctly rounded + - * / instead of libm.
 *
 * The caller provides scratch memory: `void *scratch` has at least the stated number of bytes and
 * any alignment. Its contents are undefined before and after. Use one scratch per thread.
 * Functions without a gg_error cannot fail.
 */
#ifndef GG_NUMERIC_INTERNAL_H
#define GG_NUMERIC_INTERNAL_H

#include "organ/gg_numeric.h"

/* ---- sampling ---------------------------------------------------------- */

/* Number of values to sample: min(wanted, elements); wanted 0 means all. */
uint64_t gg_sample_count(uint64_t elements, uint64_t wanted);

/* The element of sample i < count: floor(i * elements / count), computed exactly in 128 bits.
 * elements is at most 2^63. Returns 0 if count is 0. */
uint64_t gg_sample_index(uint64_t i, uint64_t elements, uint64_t count);

/* ---- measures ---------------------------------------------------------- */

#define GG_BINS 256        /* number of bins for the entropy */
#define GG_DIM_BINS_MIN 16 /* the dimension uses 16, 32, ... 1024 bins */
#define GG_DIM_BINS_MAX 1024

/* Bytes of scratch that gg_measure_values needs for n values: slightly more than 8 n. SIZE_MAX if
 * that overflows. */
size_t gg_measure_scratch(size_t n);

/* Measures n values without changing them. A value x belongs to bin
 * min(bins - 1, floor((x - min) / (max - min) * bins)), computed in double. Scaling by a power of
 * two is exact, so adding neighbouring bins of the 1024-bin histogram gives exactly the
 * histograms with 512 to 16 bins. */
void gg_measure_values(const float *values, size_t n, void *scratch, gg_measure *out);

/* The scores, each 0..1, and the angle, as docs/method.md defines them:
 * e = 1 for 0.3 <= H <= 0.7, (0.95 - H) / 0.25 above, H / 0.3 below, and never less than 0;
 * k = min(|K| / 3, 1); c = (C - 0.5) / 0.5 clamped to 0..1;
 * theta = 90 (e + k + c) / 3 degrees. */
double gg_score_entropy(double h);
double gg_score_kurtosis(double k);
double gg_score_cv(double c);
double gg_theta(double h, double k, double c);

/* 90 max(0, theta - null) / (90 - null), or 0 if null >= 90. */
double gg_calibrated(double theta, double null_theta);

/* Sorts floats in ascending total order: negative NaN, -Inf, ..., -0, +0, ..., +Inf, NaN. tmp has
 * room for n floats. O(n) time, no allocation. */
void gg_sort_floats(float *values, size_t n, float *tmp);

/* ---- row angle --------------------------------------------------------- */

#define GG_ROW_PAIRS 64

/* Number of pairs of adjacent rows to sample: min(GG_ROW_PAIRS, rows - 1); 0 for one row. */
uint64_t gg_row_pairs(uint64_t rows);

/* The first row of pair i: floor(i (rows - 1) / pairs); the second is the next. */
uint64_t gg_row_pair(uint64_t i, uint64_t rows);

/* Pearson's r of a and b in two passes, in double, clamped to -1..1. Pairs with a value that is
 * not finite are ignored. Returns 0 if fewer than two pairs remain or if either side is
 * constant. */
double gg_pearson(const float *a, const float *b, size_t n);

/* The same for rows that are read in pieces: start from {0} and add the pieces in order. A single
 * piece gives the same bits as gg_pearson; with several, only the last bits may differ. */
typedef struct gg_pair_sums {
    uint64_t n; /* pairs with two finite values */
    double mean_a, mean_b;
    double aa, bb, ab; /* sums of products of the differences from the means */
} gg_pair_sums;

void gg_pearson_add(gg_pair_sums *sums, const float *a, const float *b, size_t n);
double gg_pearson_of(const gg_pair_sums *sums);

/* Sums |r| over the pairs, added in the order of i. Start from {0}. For a tensor with a single row,
 * add (x, x + 1, n - 1). */
typedef struct gg_row_theta {
    double sum_abs;
    uint64_t pairs;
} gg_row_theta;

void gg_row_theta_add(gg_row_theta *acc, const float *a, const float *b, size_t n);
void gg_row_theta_add_sums(gg_row_theta *acc, const gg_pair_sums *sums);

/* arccos(mean |r|) in degrees; 90 if nothing was added. */
double gg_row_theta_degrees(const gg_row_theta *acc);

/* ---- null model -------------------------------------------------------- */

#define GG_NULL_SEED UINT64_C(0x676775665f6e756c)

/* Writes n Gaussian values with mean 0 and std 1. The same seed gives the same bits on every
 * machine, and a shorter fill is the start of a longer one. Uses the polar method on xoshiro256++,
 * seeded by splitmix64. */
void gg_gauss_fill(float *out, size_t n, uint64_t seed);

/* ---- comparison -------------------------------------------------------- */

/* Sums over pairs of values (a of A, b of B). Start from GG_COMPARE_INIT and add chunks in order,
 * or use one accumulator per chunk and merge them in the order of the chunks. The result depends
 * on the chunk boundaries but not on the threads. */
typedef struct gg_compare {
    uint64_t n;         /* all pairs */
    uint64_t nonfinite; /* pairs with a value that is not finite; they are not in the sums */
    uint64_t differing; /* pairs whose bits differ; two NaN with the same bits are equal */
    double dot, aa, bb, diff2;
    double maxabs; /* largest |a - b| */
} gg_compare;

/* clang-format off */
#define GG_COMPARE_INIT { 0, 0, 0, 0, 0, 0, 0, 0 }
/* clang-format on */

/* Adds n pairs. Runs of 256 pairs whose squares neither overflow nor underflow are summed partly in
 * float: the error of a sum is at most 2^-20 (1e-6) of the sum of the magnitudes of its terms, and
 * usually below 1e-8, and maxabs is then rounded to float. All others are exact to double. */
void gg_compare_add(gg_compare *acc, const float *a, const float *b, size_t n);

/* Sets x[0] and x[1] to the values [at, at + n) of A and of B, which stay valid until the next
 * call. n is GG_PAIR_BLOCK, or less at the end. */
#define GG_PAIR_BLOCK ((size_t)4096)
typedef void (*gg_pair_reader)(void *ctx, size_t at, size_t n, const float *x[2]);
/* Adds n pairs with the same result. They can be decoded block by block, so that they are still in
 * the first-level cache. `exact` says that floats can hold the product of any two of the values, as
 * those of F16 values; it saves time. */
void gg_compare_read(gg_compare *acc, gg_pair_reader next, void *ctx, size_t n, bool exact);
void gg_compare_merge(gg_compare *acc, const gg_compare *next);

/* Adds the sums of w a^2 and of w (b - a)^2 over n values to sums[0] and sums[1]. Pairs with a
 * value that is not finite are left out; weights must be finite. */
void gg_weighted_add(const float *w, const float *a, const float *b, size_t n, double sums[2]);

/* cosine is a.b / (|a| |b|), clamped to -1..1; 1 if both are zero vectors, 0 if only one is.
 * rel_l2 is |a - b| / |a|. If a is the zero vector, it is |a - b| / |b| = 1, or 0 if both are.
 * Without any pairs, cosine is 1, rel_l2 is 0, and identical is true. */
typedef struct gg_compare_result {
    double cosine, rel_l2, maxabs;
    bool identical; /* every pair has the same bits */
} gg_compare_result;

gg_compare_result gg_compare_finish(const gg_compare *acc);

/* ---- FFT --------------------------------------------------------------- */

/* Real FFT of rows of any length n >= 1, in float32. inverse(forward(x)) equals x to within 1e-6 of
 * the row's L2 norm. Lengths with prime factors up to 127 use a mixed radix, others Bluestein's
 * algorithm. A plan is read-only after its creation, so threads can share it. */
typedef struct gg_fft_plan gg_fft_plan;

/* Number of rows transformed together. The last bits of a row may depend on the other rows of its
 * group. Groups start at multiples of this number in each call. */
#define GG_FFT_BATCH 16

/* Makes a plan; free it with gg_fft_plan_free, which accepts NULL. Returns NULL and an error if n
 * is 0 (GG_EUSAGE) or above 2^28 (GG_EUNSUPPORTED), or without memory. */
gg_fft_plan *gg_fft_plan_new(size_t n, gg_error *err);
void gg_fft_plan_free(gg_fft_plan *plan);

size_t gg_fft_size(const gg_fft_plan *plan); /* n */
size_t gg_fft_bins(const gg_fft_plan *plan); /* n / 2 + 1 */
/* Bytes of scratch: 320 + 128 n; by Bluestein's chirp 320 + 256 n to 320 + 283 n. */
size_t gg_fft_scratch(const gg_fft_plan *plan);

/* rows: n_rows x n floats. spectra: n_rows x bins x {re, im}, unscaled:
 * X[k] = sum x[j] e^(-2 pi i j k / n). rows and spectra must not overlap. The spectrum of a row
 * with a non-finite value is NaN; other rows are not affected. */
void gg_rfft(const gg_fft_plan *plan, const float *rows, size_t n_rows, float *spectra,
             void *scratch);

/* The inverse, scaled by 1 / n. The imaginary parts of bin 0 and, for even n, of bin n / 2 are
 * ignored. */
void gg_irfft(const gg_fft_plan *plan, const float *spectra, size_t n_rows, float *rows,
              void *scratch);

/* ---- Haar wavelet ------------------------------------------------------ */

/* Orthonormal Haar transform in place. n must be a power of two; otherwise nothing is done and
 * false is returned. Afterwards x[0] is the mean times sqrt(n), and x[2^k ... 2^(k+1)-1] are the
 * details of scale n / 2^k, from coarse to fine. scratch: n floats. */
bool gg_haar_forward(float *x, size_t n, float *scratch);
bool gg_haar_inverse(float *x, size_t n, float *scratch);

/* ---- purification ------------------------------------------------------ */

/* The strength s is 0..1. Strength 0 leaves every bit of the values unchanged.
 *
 * fft: works along each row. The bins with the highest energies are kept, up to a share of
 * 1 - s^2 of the row's energy, and the others are dropped. The mean does not count and is always
 * kept, as is the strongest bin. So s limits the relative L2 change of a row by the filter.
 *
 * haar: works along the whole tensor. A detail d at scale s and its parent p at 2s have the
 * relative energies e = d^2 / E(s) and f = p^2 / E(2s), where E is the mean over the scale. Their
 * coherence is q = min(e, f) / max(e, f). The detail is multiplied by 1 - s w (1 - q), where
 * w = min(1, E(finest) / E(s)) is the share of the scale's energy that white noise as strong as
 * the finest scale explains. The coarsest detail and the mean are kept. If a scale has an odd
 * number of nodes, the last one is doubled as padding. Padding has no detail and does not count in
 * the means.
 *
 * Both methods then restore the mean and std of the finite values with one affine map. Non-finite
 * values remain unchanged. For the filter they are replaced by the mean of the finite values
 * around them (in the row, or in a run of 4096 values). */
typedef struct gg_purify_report {
    uint64_t values, nonfinite;
    double mean, std;   /* of the finite values, before (and after) */
    double energy_kept; /* share of the energy around the mean that the filter kept, 0..1 */
    double rel_l2;      /* |after - before| / |before| after the affine map; 0 for all zeros */
} gg_purify_report;

/* A purification runs in phases. Each phase has independent parts, which any threads can run in
 * any order, and ends with a join. Results do not depend on the threads.
 *
 *     p = gg_purify_new(method, elements, row, strength, &err);
 *     for (phase = 0; phase < gg_purify_phases(p); phase++) {
 *         for (part = 0; part < gg_purify_parts(p, phase); part++)    // in parallel
 *             gg_purify_part(p, phase, part, x, scratch);
 *         gg_purify_join(p, phase);
 *     }
 *     gg_purify_finish(p, x, x, elements);
 *     gg_purify_result(p, &report); gg_purify_free(p);
 *
 * x has the tensor's `elements` values, is the same array in every phase, and is changed in place.
 * row is dims[0] and must divide elements; haar ignores it. x remains unchanged, bit for bit, if
 * strength or elements is 0, if the values have no variance, or if their std is outside
 * 1e-12 .. 1e12 (haar only). */
typedef struct gg_purify gg_purify;

/* Returns NULL and an error on failure: GG_EUSAGE (strength not in 0..1, or row does not divide
 * elements), GG_EUNSUPPORTED (row above 2^28 for fft) or GG_ENOMEM. Uses about elements / 150
 * bytes of memory. */
gg_purify *gg_purify_new(gg_purify_method method, uint64_t elements, uint64_t row, double strength,
                         gg_error *err);
void gg_purify_free(gg_purify *p);
unsigned gg_purify_phases(const gg_purify *p);
size_t gg_purify_parts(const gg_purify *p, unsigned phase);
/* Bytes of scratch per thread. haar: 65 KiB for any tensor. fft: 2 KB and 169 bytes per value of a
 * row, or 297 to 320 if the length of the row has a prime factor above 127, but at least 16 KiB.
 * This includes the points, spectra and energies of GG_FFT_BATCH rows. */
size_t gg_purify_scratch(const gg_purify *p);
void gg_purify_part(gg_purify *p, unsigned phase, size_t part, float *x, void *scratch);
void gg_purify_join(gg_purify *p, unsigned phase);
/* Returns the number of elements of a part and sets *first to its first element. Parts are whole
 * rows for fft, and 262144 values for haar. Phase 0 of a part uses its own values only, so it can
 * run as soon as these are known. */
uint64_t gg_purify_extent(const gg_purify *p, size_t part, uint64_t *first);
/* Restores mean and std in any n of the filtered values. out may be x. */
void gg_purify_finish(const gg_purify *p, const float *x, float *out, size_t n);
void gg_purify_result(const gg_purify *p, gg_purify_report *out);

/* Runs all phases on one thread. */
gg_status gg_purify_values(gg_purify_method method, float *x, uint64_t elements, uint64_t row,
                           double strength, gg_purify_report *out, gg_error *err);

#endif

/* numeric.h - the arithmetic of libgguf: measures, comparison, FFT, wavelets.
 *
 * Everything here works on arrays of float32 in memory; nothing knows of files,
 * tensors' names or dtypes. All results are the same bits on every ISA level
 * (isa.h) and, for given inputs and pieces, for every number of threads: sums run
 * in double over fixed lanes in a fixed order, and logarithms are our own (built
 * from correctly rounded + - * /), not libm's.
 *
 * Scratch memory is the caller's: `void *scratch` of at least the bytes asked for,
 * of any alignment, contents undefined before and after. One scratch a thread.
 * Functions without a gg_error cannot fail.
 */
#ifndef GG_NUMERIC_INTERNAL_H
#define GG_NUMERIC_INTERNAL_H

#include "organ/gg_numeric.h"

/* ---- sampling ---------------------------------------------------------- */

/* How many values are looked at: min(wanted, elements); wanted 0 means all. */
uint64_t gg_sample_count(uint64_t elements, uint64_t wanted);

/* floor(i * elements / count), exact (128-bit): the element of sample i < count.
 * elements up to 2^63; count 0 gives 0. */
uint64_t gg_sample_index(uint64_t i, uint64_t elements, uint64_t count);

/* ---- measures ---------------------------------------------------------- */

#define GG_BINS 256        /* bins of the entropy */
#define GG_DIM_BINS_MIN 16 /* dimension: 16, 32, ... 1024 bins */
#define GG_DIM_BINS_MAX 1024

/* Bytes of scratch that gg_measure_values needs for n values (8 n and a little);
 * SIZE_MAX if that overflows. */
size_t gg_measure_scratch(size_t n);

/* Measure n values. They are only read. A value x falls in bin
 * min(bins - 1, floor((x - min) / (max - min) * bins)), computed in double; as
 * scaling by a power of two is exact there, the histograms of 16 to 512 bins are
 * those of 1024 with neighbours added, to the last count. */
void gg_measure_values(const float *values, size_t n, void *scratch, gg_measure *out);

/* The scores, each 0..1, and the angle, as docs/method.md defines them:
 * e = 1 on 0.3 <= H <= 0.7, (0.95 - H) / 0.25 above, H / 0.3 below, never under 0;
 * k = min(|K| / 3, 1); c = (C - 0.5) / 0.5 held to 0..1;
 * theta = 90 (e + k + c) / 3 degrees. */
double gg_score_entropy(double h);
double gg_score_kurtosis(double k);
double gg_score_cv(double c);
double gg_theta(double h, double k, double c);

/* 90 max(0, theta - null) / (90 - null); 0 where null >= 90. */
double gg_calibrated(double theta, double null_theta);

/* Sort floats ascending by their bits read as a total order: negative NaN, -Inf,
 * ..., -0, +0, ..., +Inf, NaN. tmp holds n floats. O(n), no allocation. */
void gg_sort_floats(float *values, size_t n, float *tmp);

/* ---- row angle --------------------------------------------------------- */

#define GG_ROW_PAIRS 64

/* Pairs of adjacent rows to look at: min(GG_ROW_PAIRS, rows - 1); 0 for one row. */
uint64_t gg_row_pairs(uint64_t rows);

/* The first row of pair i: floor(i (rows - 1) / pairs); the second is the next. */
uint64_t gg_row_pair(uint64_t i, uint64_t rows);

/* Pearson r of a and b, two passes in double. Pairs of values of which either is
 * not finite are left out. 0 if fewer than two are left or either side is
 * constant. Held to -1..1. */
double gg_pearson(const float *a, const float *b, size_t n);

/* The same for rows that come in runs: start from {0}, add runs in order. One run alone
 * gives the bits of gg_pearson; where rows are cut shows in the last bits only. */
typedef struct gg_pair_sums {
    uint64_t n; /* pairs of which both values are finite */
    double mean_a, mean_b;
    double aa, bb, ab; /* sums of products of the differences from the means */
} gg_pair_sums;

void gg_pearson_add(gg_pair_sums *sums, const float *a, const float *b, size_t n);
double gg_pearson_of(const gg_pair_sums *sums);

/* Collect |r| pair by pair, in order of i. Start from {0}. For a tensor of one row
 * add (x, x + 1, n - 1). */
typedef struct gg_row_theta {
    double sum_abs;
    uint64_t pairs;
} gg_row_theta;

void gg_row_theta_add(gg_row_theta *acc, const float *a, const float *b, size_t n);
void gg_row_theta_add_sums(gg_row_theta *acc, const gg_pair_sums *sums);

/* arccos(mean |r|) in degrees; 90 when nothing was added. */
double gg_row_theta_degrees(const gg_row_theta *acc);

/* ---- null model -------------------------------------------------------- */

#define GG_NULL_SEED UINT64_C(0x676775665f6e756c)

/* n values of a Gaussian of mean 0 and std 1: the same bits for the same seed on
 * every machine. A shorter fill is the beginning of a longer one. Method: polar,
 * on xoshiro256++ seeded by splitmix64. */
void gg_gauss_fill(float *out, size_t n, uint64_t seed);

/* ---- comparison -------------------------------------------------------- */

/* Sums over pairs of values (a of A, b of B). Start from GG_COMPARE_INIT, add
 * chunks in order; or one accumulator a chunk, merged in order of the chunks:
 * results then depend on where the chunks are cut, never on who computed them. */
typedef struct gg_compare {
    uint64_t n;         /* pairs, non-finite ones included */
    uint64_t nonfinite; /* pairs of which either is not finite: left out of the sums */
    uint64_t differing; /* pairs whose 32 bits differ (NaN = the same NaN) */
    double dot, aa, bb, diff2;
    double maxabs; /* largest |a - b|, in double */
} gg_compare;

/* clang-format off */
#define GG_COMPARE_INIT { 0, 0, 0, 0, 0, 0, 0, 0 }
/* clang-format on */

void gg_compare_add(gg_compare *acc, const float *a, const float *b, size_t n);
void gg_compare_merge(gg_compare *acc, const gg_compare *next);

/* cosine: a.b / (|a| |b|), held to -1..1; 1 if both are zero vectors, 0 if one is.
 * rel_l2: |a - b| / |a|; where a is the zero vector |a - b| / |b|, which is 1, and
 * 0 where both are. No pairs at all: cosine 1, rel_l2 0, identical. */
typedef struct gg_compare_result {
    double cosine, rel_l2, maxabs;
    bool identical; /* every pair has the same bits */
} gg_compare_result;

gg_compare_result gg_compare_finish(const gg_compare *acc);

/* ---- FFT --------------------------------------------------------------- */

/* Real FFT of rows of any length n >= 1, in float32: inverse(forward(x)) = x to
 * 1e-6 of the row's L2 norm. Sizes with prime factors up to 31 by mixed radix,
 * others by Bluestein's chirp. A plan is read-only once made: threads share it. */
typedef struct gg_fft_plan gg_fft_plan;

/* Rows transformed together. A row's last bits may depend on the rows it is
 * grouped with (groups start at multiples of this in each call). */
#define GG_FFT_BATCH 16

/* NULL and an error: n 0 (GG_EUSAGE), no memory, n above 2^28 (GG_EUNSUPPORTED).
 * Free with gg_fft_plan_free (NULL allowed). */
gg_fft_plan *gg_fft_plan_new(size_t n, gg_error *err);
void gg_fft_plan_free(gg_fft_plan *plan);

size_t gg_fft_size(const gg_fft_plan *plan); /* n */
size_t gg_fft_bins(const gg_fft_plan *plan); /* n / 2 + 1 */
size_t gg_fft_scratch(
    const gg_fft_plan *plan); /* bytes: 128 n; by Bluestein's chirp 256 n to 270 n */

/* rows: n_rows x n floats. spectra: n_rows x bins x {re, im}, unscaled:
 * X[k] = sum x[j] e^(-2 pi i j k / n). rows and spectra must not overlap. A row
 * with a non-finite value gets a spectrum of NaN, its neighbours stay sound. */
void gg_rfft(const gg_fft_plan *plan, const float *rows, size_t n_rows, float *spectra,
             void *scratch);

/* The inverse, scaled by 1 / n. The imaginary parts of bin 0 and, for even n, of
 * bin n / 2 are taken as 0. */
void gg_irfft(const gg_fft_plan *plan, const float *spectra, size_t n_rows, float *rows,
              void *scratch);

/* ---- Haar wavelet ------------------------------------------------------ */

/* Orthonormal Haar transform in place, n a power of two (else nothing is done and
 * false returned). Afterwards x[0] is the mean times sqrt(n) and x[2^k ... 2^(k+1)-1]
 * are the details of scale n / 2^k, coarse to fine. scratch: n floats. */
bool gg_haar_forward(float *x, size_t n, float *scratch);
bool gg_haar_inverse(float *x, size_t n, float *scratch);

/* ---- purification ------------------------------------------------------ */

/* Strength is 0..1. 0 is the identity: not a bit of the values is touched.
 *
 * fft: along each row, the highest-energy bins are kept up to a share of 1 - s^2
 * of the row's energy (the mean not counted, and always kept, as is the highest
 * bin) and the tail is dropped: s bounds a row's relative L2 change by the filter.
 *
 * haar: along the whole tensor. A detail d at scale s and its parent p at 2s have
 * the relative energies e = d^2 / E(s) and f = p^2 / E(2s), E being the mean
 * over the scale. Coherence is q = min(e, f) / max(e, f), and the detail is multiplied
 * by 1 - s w (1 - q), where w = min(1, E(finest) / E(s)) is the share of the scale's
 * energy that white noise as strong as the finest scale explains. The coarsest detail
 * and the mean are kept. Padding: where a scale has an odd number of
 * nodes the last one is continued by its own value, so that the padding has no
 * detail, no edge and no say in the means.
 *
 * Both then restore the tensor's mean and std (of the finite values) by one affine map.
 * Non-finite values stay as they are, standing in as the mean of the finite ones
 * around them (row, or run of 4096 values). */
typedef struct gg_purify_report {
    uint64_t values, nonfinite;
    double mean, std;   /* of the finite values, before (and after) */
    double energy_kept; /* of the energy around the mean, by the filter: 0..1 */
    double rel_l2;      /* |after - before| / |before|, restoring included; 0 for zeros */
} gg_purify_report;

/* A purification in phases, each of independent parts that any threads may run in any
 * order, with a join after each phase. Results do not depend on the threads.
 *
 *     p = gg_purify_new(method, elements, row, strength, &err);
 *     for (phase = 0; phase < gg_purify_phases(p); phase++) {
 *         for (part = 0; part < gg_purify_parts(p, phase); part++)    // in parallel
 *             gg_purify_part(p, phase, part, x, scratch);
 *         gg_purify_join(p, phase);
 *     }
 *     gg_purify_result(p, &report); gg_purify_free(p);
 *
 * x is the tensor's `elements` values, the same array in every phase, changed in
 * place. row is dims[0]; it must divide elements (haar ignores it). With strength 0,
 * no elements, a tensor without variance, or for haar a std outside 1e-12 .. 1e12, x is
 * left as it is, bit for bit. */
typedef struct gg_purify gg_purify;

/* NULL and an error: GG_EUSAGE (strength not in 0..1, row 0 or no divisor), GG_ENOMEM,
 * GG_EUNSUPPORTED (row above 2^28 for fft). Memory: about elements / 150 bytes. */
gg_purify *gg_purify_new(gg_purify_method method, uint64_t elements, uint64_t row, double strength,
                         gg_error *err);
void gg_purify_free(gg_purify *p);
unsigned gg_purify_phases(const gg_purify *p);
size_t gg_purify_parts(const gg_purify *p, unsigned phase);
/* Bytes a thread. haar: 65 KiB for any tensor. fft: 262 a value of a row, 390 to
 * 404 where the row has a prime factor above 31 (batches of GG_FFT_BATCH rows, their spectra
 * and the FFT's own scratch). */
size_t gg_purify_scratch(const gg_purify *p);
void gg_purify_part(gg_purify *p, unsigned phase, size_t part, float *x, void *scratch);
void gg_purify_join(gg_purify *p, unsigned phase);
void gg_purify_result(const gg_purify *p, gg_purify_report *out);

/* All of the above on one thread. */
gg_status gg_purify_values(gg_purify_method method, float *x, uint64_t elements, uint64_t row,
                           double strength, gg_purify_report *out, gg_error *err);

#endif

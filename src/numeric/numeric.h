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
#pragma once

#include "base/isa.h"
#include "numeric/gg_numeric.h"

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

/* ---- null model -------------------------------------------------------- */

#define GG_NULL_SEED UINT64_C(0x676775665f6e756c)

/* Writes n Gaussian values with mean 0 and std 1. The same seed gives the same bits on every
 * machine, and a shorter fill is the start of a longer one. Uses the polar method on xoshiro256++,
 * seeded by splitmix64. */
void gg_gauss_fill(float *out, size_t n, uint64_t seed);

/* The same in pieces, each of an even number of values but the last: draws n pairs, in order, and
 * turns pairs into n values, which need not be in order. */
typedef struct gg_gauss {
    uint64_t s[4];
} gg_gauss;

gg_gauss gg_gauss_start(uint64_t seed);
void gg_gauss_draw(gg_gauss *g, size_t n, uint64_t *pairs);
void gg_gauss_values(const uint64_t *pairs, float *out, size_t n);

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
GG_DECLARE_KF(void, gg_compare_read,
              (gg_compare * acc, gg_pair_reader next, void *ctx, size_t n, bool exact));
void gg_compare_merge(gg_compare *acc, const gg_compare *next);

/* Adds the sums of w a^2 and of w (b - a)^2 over n values to sums[0] and sums[1]. Pairs with a
 * value that is not finite are left out; weights must be finite. */
GG_DECLARE_KF(void, gg_weighted_add,
              (const float *w, const float *a, const float *b, size_t n, double sums[2]));

/* cosine is a.b / (|a| |b|), clamped to -1..1; 1 if both are zero vectors, 0 if only one is.
 * rel_l2 is |a - b| / |a|. If a is the zero vector, it is |a - b| / |b| = 1, or 0 if both are.
 * Without any pairs, cosine is 1, rel_l2 is 0, and identical is true. */
typedef struct gg_compare_result {
    double cosine, rel_l2, maxabs;
    bool identical; /* every pair has the same bits */
} gg_compare_result;

gg_compare_result gg_compare_finish(const gg_compare *acc);

/* ---- mixes of values ---------------------------------------------------- */

/* Number of values whose magnitude is not below `limit`, and of NaNs; limit may be INFINITY. */
GG_DECLARE_KF(size_t, gg_mix_beyond, (const float *x, size_t n, float limit));

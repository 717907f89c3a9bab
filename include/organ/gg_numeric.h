/* gg_numeric.h - numbers of an array of values, and the filters that purify one.
 *
 * These types appear in the options and rows of gg_measure_model.h and gg_purify.h.
 */
#ifndef GG_NUMERIC_H
#define GG_NUMERIC_H

#include "gg_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Values of a tensor that are measured unless the caller asks for another number. */
#define GG_SAMPLE_DEFAULT 100000u

/* No member is ever NaN or infinite. With no finite value at all every double is
 * 0; with one, or with all equal, mean, min and max are that value and the
 * rest is 0 (entropy, kurtosis, cv and dimension 0, so theta 0). */
typedef struct gg_measure {
    uint64_t sampled;   /* values looked at, non-finite ones included */
    uint64_t nonfinite; /* NaN or infinite, left out of everything below */
    double mean, std;   /* population: std^2 = m2 */
    double min, max;
    double entropy;   /* H: bits of 256 equal bins over [min, max], / 8: 0..1 */
    double kurtosis;  /* K: m4 / m2^2 - 3 */
    double cv;        /* C: std / mean of the differences of the sorted values */
    double theta;     /* degrees, 0..90: gg_theta(H, K, C) */
    double signal;    /* sin(theta) */
    double dimension; /* slope of the entropy in bits against log2 of the bins */
} gg_measure;

/* The filters. docs/method.md describes them. */
typedef enum gg_purify_method { GG_PURIFY_HAAR, GG_PURIFY_FFT } gg_purify_method;

/* Default strengths. Strength is 0..1; 0 changes nothing. */
#define GG_PURIFY_FFT_STRENGTH 0.04   /* Gaussian values: relative L2 change 0.04 */
#define GG_PURIFY_HAAR_STRENGTH 0.125 /* Gaussian values: relative L2 change about 0.04 */

#ifdef __cplusplus
}
#endif

#endif

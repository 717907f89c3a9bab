/* gg_numeric.h - types that describe a set of values, and the filters that purify tensors.
 *
 * This header has types and constants only. gg_measure_model.h fills in gg_measure, and
 * gg_purify.h takes a gg_purify_method. docs/method.md defines every number.
 */
#pragma once

#include "organ/gg_status.h"

/* The number of values per tensor that the tools measure by default. */
#define GG_SAMPLE_DEFAULT 100000u

/* Measures of the sampled values of a tensor. No member is ever NaN or infinite. Without any
 * finite value, all doubles are 0. If all finite values are equal, mean, min and max have that
 * value and the other doubles are 0. */
typedef struct gg_measure {
    uint64_t sampled;   /* number of values examined, including those that are not finite */
    uint64_t nonfinite; /* number of NaN and infinite values; the rest of the struct ignores them */
    double mean;
    double std; /* population standard deviation */
    double min, max;
    double entropy;   /* of a histogram with 256 equal bins over [min, max], in bits / 8: 0..1 */
    double kurtosis;  /* excess kurtosis: m4 / m2^2 - 3 */
    double cv;        /* std / mean of the differences between neighbours in sorted order */
    double theta;     /* degrees, 0..90; computed from entropy, kurtosis and cv */
    double signal;    /* sin(theta) */
    double dimension; /* slope of the entropy in bits over log2 of the number of bins */
} gg_measure;

/* The filters. docs/method.md describes them. */
typedef enum gg_purify_method {
    GG_PURIFY_HAAR, /* Haar wavelets over all values of a tensor */
    GG_PURIFY_FFT   /* Fourier transform of each row */
} gg_purify_method;

/* Strengths that the tools use by default. A strength lies in 0..1, and 0 changes nothing.
 * Both change Gaussian values by a relative L2 distance of about 0.04. */
#define GG_PURIFY_FFT_STRENGTH 0.04
#define GG_PURIFY_HAAR_STRENGTH 0.125

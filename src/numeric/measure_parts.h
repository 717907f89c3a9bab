/* measure_parts.h - the steps that gg_measure_values and gg_measure_big share. Internal. */
#ifndef GG_MEASURE_PARTS_H
#define GG_MEASURE_PARTS_H

#include "measure_big.h"
#include "nkernel.h"

/* Copies the finite ones of n values and returns their number. x and out may be the same. */
size_t gg_copy_finite(const float *x, size_t n, float *out);

/* Sets min, max and mean from the range of n > 0 values. Returns max - min. */
double gg_measure_set_range(gg_measure *out, const gg_nk_range *r, uint64_t n);

/* Sets std, kurtosis, entropy and dimension from the sums of n values and their histogram of
 * GG_DIM_BINS_MAX bins, which is overwritten. */
void gg_measure_set_moments(gg_measure *out, uint64_t n, gg_nk_central sums, uint64_t *count);

/* Sets cv, theta and signal. squares is the sum of (gap - mean)^2 over the n - 1 gaps. */
void gg_measure_set_gaps(gg_measure *out, uint64_t n, double squares);

/* Adds a value that occurs `times` times. */
void gg_central_add(gg_nk_central *c, double x, double times, double mean);
/* The bin of a value of the histogram. */
size_t gg_measure_bin(double x, double min, double range);

/* Measures n values, given how often each code of a type of 16 bits occurs. */
void gg_measure_codes(const uint64_t *count, const float *of_code, uint64_t n, gg_measure *out);

#endif

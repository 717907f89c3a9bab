/* spectral.h - the largest singular value of a matrix, compared with that of noise. */
#pragma once

#include "base/isa.h"

/* ---- the largest singular value, compared with that of noise ------------------------------ */

/* Computes sigma1^2 / (var (sqrt m + sqrt n)^2) of a matrix of m = of_rows rows and n = cols
 * columns, of which x holds `rows` rows, row-major and evenly spread. sigma1 is the largest
 * singular value and var the variance of the values. The result is about 1 for independent random
 * values (the edge of the Marchenko-Pastur law), more if rows have something in common, and 0 if
 * all values are equal to 0 or var is 0.
 *
 * sigma1 comes from the Lanczos method on x' x, each step of which reads x once. The result is at
 * most the true one, and less than 1 % below it.
 *
 * If rows < of_rows, the result is an estimate: it assumes one common direction in white noise,
 * whose strength is found from the rows given (Baik, Ben Arous and Peche 2005) and extrapolated.
 *
 * Values that are not finite count as 0. x is changed. Memory: 1 KiB per column.
 * Fails only with GG_ENOMEM. */
typedef struct gg_spectral_rows {
    float *x;
    size_t rows, cols;
    uint64_t of_rows; /* at least rows */
} gg_spectral_rows;

gg_status gg_spectral_edge(const gg_spectral_rows *m, unsigned threads, double *edge,
                           gg_error *err);

/* z = sum over the rows w of x (rows x cols) of (w . v) w, in float. */
GG_DECLARE_KF(void, gg_nk_gram_times,
              (const float *x, size_t rows, size_t cols, const float *v, float *z));

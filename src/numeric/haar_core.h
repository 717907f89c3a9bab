/* haar_core.h - kernels of the Haar filter and sums over the removed part. Internal. */
#ifndef GG_HAAR_CORE_H
#define GG_HAAR_CORE_H

#include "base/isa.h"
#include "numeric/numeric.h"
#include "organ/gg_numeric.h"

/* Number of values that are processed together; they fit into the first-level cache at all
 * scales. */
#define HAAR_TILE 4096u
#define HAAR_TILE_LEVELS 12

/* Sums over the removed part r of the values: r, r^2 and (x - mean) r, finite values only. */
typedef struct removal {
    double r, rr, xr;
} removal;

/* sum[i] = (x[2i] + x[2i+1]) / sqrt 2 and detail[i] = (x[2i] - x[2i+1]) / sqrt 2, and the inverse.
 * The arrays must not overlap. */
GG_DECLARE_KF(void, gg_nk_haar_split, (const float *x, size_t pairs, float *sum, float *detail));
GG_DECLARE_KF(void, gg_nk_haar_merge,
              (const float *sum, const float *detail, size_t pairs, float *x));
/* Like gg_nk_haar_merge, but subtracts the result from x. */
GG_DECLARE_KF(void, gg_nk_haar_subtract,
              (const float *sum, const float *detail, size_t pairs, float *x));
/* Sum of squares with a relative error below 1e-6, for values whose squares fit float32. */
GG_DECLARE_KF(double, gg_nk_energy, (const float *x, size_t n));
/* gg_nk_haar_split without storing the details; returns their energy like gg_nk_energy. This and
 * gg_nk_haar_damp prefetch the next tile, which starts at `soon` (NULL: none). */
GG_DECLARE_KF(double, gg_nk_haar_energy,
              (const float *x, size_t pairs, float *sum, const float *soon));

/* Replaces each of n details d by the part to remove, gain (1 - q) d. q compares (d inv)^2 with
 * (p inv_parent)^2, where p is the parent, at index i / 2. Adds the squares of the removed parts
 * to sums->rr and their products with the details to sums->xr. */
typedef struct haar_damping {
    float gain, inv, inv_parent;
} haar_damping;
GG_DECLARE_KF(void, gg_nk_haar_damp,
              (float *detail, const float *parent, size_t n, haar_damping how, removal *sums,
               const float *soon));

/* Sum of n values, and whether all are finite; and the sum of (x - mean)^2. */
GG_DECLARE_KF(double, gg_nk_sum, (const float *x, size_t n, bool *finite));
GG_DECLARE_KF(double, gg_nk_variance, (const float *x, size_t n, double mean));
/* x -= r where x is finite; adds to *sums. `finite` says that all values of x are. */
typedef struct removal_of {
    double mean;
    bool finite;
} removal_of;
GG_DECLARE_KF(void, gg_nk_remove,
              (float *x, const float *r, size_t n, const removal_of *of, removal *sums));
/* out = scale x + shift where x is finite, else x. out may be x. */
GG_DECLARE_KF(void, gg_nk_affine,
              (const float *x, float *out, size_t n, double scale, double shift));

#endif

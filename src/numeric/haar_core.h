/* haar_core.h - inside the purification: wavelet kernels, and what removal adds up to. */
#ifndef GG_HAAR_CORE_H
#define GG_HAAR_CORE_H

#include "base/isa.h"
#include "numeric/numeric.h"
#include "organ/gg_numeric.h"

/* A run of values that stays in the first-level cache through all its scales. */
#define HAAR_TILE 4096u
#define HAAR_TILE_LEVELS 12

/* What a filter took away: sums of r, r^2 and (x - mean) r over finite values. */
typedef struct removal {
    double r, rr, xr;
} removal;

/* sum[i], detail[i] = (x[2i] + x[2i+1], x[2i] - x[2i+1]) / sqrt 2, and back. No overlap. */
GG_DECLARE_KF(void, gg_nk_haar_split, (const float *x, size_t pairs, float *sum, float *detail));
GG_DECLARE_KF(void, gg_nk_haar_merge,
              (const float *sum, const float *detail, size_t pairs, float *x));
/* As merge, but what is merged is subtracted from x. */
GG_DECLARE_KF(void, gg_nk_haar_subtract,
              (const float *sum, const float *detail, size_t pairs, float *x));
/* Sum of squares, to 1e-6, of values that float32 can square. */
GG_DECLARE_KF(double, gg_nk_energy, (const float *x, size_t n));
/* gg_nk_haar_split without storing the details; returns their energy as gg_nk_energy does. This
 * and gg_nk_haar_damp ask meanwhile for the next tile, from `soon` on, to come into cache
 * (NULL: none). */
GG_DECLARE_KF(double, gg_nk_haar_energy,
              (const float *x, size_t pairs, float *sum, const float *soon));

/* Replace n details by what is removed of them, gain (1 - q) d, where q compares
 * (d inv)^2 with (p inv_parent)^2, p the parent i / 2. Adds to sums->rr and, of the
 * product of detail and removal, to sums->xr. */
typedef struct haar_damping {
    float gain, inv, inv_parent;
} haar_damping;
GG_DECLARE_KF(void, gg_nk_haar_damp,
              (float *detail, const float *parent, size_t n, haar_damping how, removal *sums,
               const float *soon));

/* x -= r where x is finite; adds to *sums. */
GG_DECLARE_KF(void, gg_nk_remove, (float *x, const float *r, size_t n, double mean, removal *sums));
/* x = scale x + shift where x is finite. */
GG_DECLARE_KF(void, gg_nk_affine, (float *x, size_t n, double scale, double shift));

GG_DECLARE_KF(uint32_t, gg_nk_largest, (const float *x, size_t n));
/* energy[k] = 2 |scale X[k]|^2, and zero every bin of which the energy is not below cut. */
GG_DECLARE_KF(void, gg_nk_bin_energies,
              (const float *spectrum, size_t bins, float scale, float *energy));
GG_DECLARE_KF(void, gg_nk_keep_below,
              (float *spectrum, const float *energy, size_t bins, float cut));

#endif

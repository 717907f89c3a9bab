/* purify.h - the filters of organ-purify, for float32 arrays in memory. Internal.
 *
 * The strength s is 0..1. Strength 0 leaves every bit of the values unchanged.
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
 * Both methods then restore the mean and std with one affine map.
 */
#pragma once

#include "base/isa.h"
#include "numeric/gg_numeric.h"

typedef struct gg_filter {
    gg_purify_method method;
    double strength;
    uint64_t row;     /* dims[0] of the tensor, which divides its number of elements */
    unsigned threads; /* at least 1; the results do not depend on it */
} gg_filter;

typedef struct gg_filtered {
    uint64_t nonfinite; /* if there are any, the values are unchanged, and the rest is unused */
    double mean, std;   /* before (and after) */
    double energy_kept; /* share of the energy around the mean that the filter kept, 0..1 */
    double rel_l2;      /* |after - before| / |before| after the affine map; 0 for all zeros */
} gg_filtered;

/* Filters the values in place. They remain unchanged, bit for bit, if strength or elements is 0, if
 * they have no variance, or if their std is outside 1e-12 .. 1e12 (haar only).
 *
 * Uses about elements / 150 bytes of memory for haar. Each thread needs 65 KiB for haar, and for
 * fft 194 bytes per value of a row, or 322 to 350 if the length of the row has a prime factor above
 * 127.
 *
 * Fails with GG_EUSAGE (strength not in 0..1, or row does not divide elements), GG_EUNSUPPORTED
 * (row above 2^28 for fft), GG_ENOMEM or GG_ECANCELLED. */
GG_DECLARE_KF(gg_status, gg_filter_values,
              (const gg_filter *f, float *x, uint64_t elements, gg_filtered *out, gg_error *err));

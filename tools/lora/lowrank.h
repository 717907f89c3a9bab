/* lowrank.h - the leading part of a singular value decomposition. */
#pragma once

#include "organ/gg_status.h"

/* ---- the leading part of a singular value decomposition ---------------------------------- */

/* D = U S V' cut after `rank` singular values: tall (rows x rank) is U sqrt(S), wide
 * (rank x cols) is sqrt(S) V', so that tall wide is the best approximation of D of that rank.
 * kept and total are sums of squares of the singular values: those of the factors and all. */
typedef struct gg_factors {
    size_t rank;
    float *tall, *wide;
    double kept, total;
} gg_factors;

typedef struct gg_lowrank {
    size_t rank;   /* at most that many; 0 = as many as `energy` needs */
    double energy; /* share of the sum of squares to keep, above 0 and at most 1 */
    uint64_t seed; /* of the random start */
    unsigned threads;
} gg_lowrank;

/* Decomposes the row-major matrix d, whose values are finite, by randomized subspace iteration
 * (Halko, Martinsson and Tropp 2011). All singular values are exact, up to rounding, if d has no
 * more than rank + 8 of them that differ from 0, or if rank + 8 reaches the shorter side; else the
 * product is nearly the best one: the more the singular values differ, the nearer.
 *
 * The rank is at most the shorter side, and 0 for a zero matrix. With `energy` the work is repeated
 * with twice the rank until it suffices. Memory: 8 (rank + 8) (rows + cols) bytes, and
 * 16 (rank + 8)^2. out's arrays are to be freed with gg_factors_free. Fails only with GG_ENOMEM. */
gg_status gg_truncate_matrix(float *d, size_t rows, size_t cols, const gg_lowrank *o,
                             gg_factors *out, gg_error *err);
void gg_factors_free(gg_factors *f);

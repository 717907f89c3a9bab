/* profile.h - entropy and dimension from a histogram. Internal. */
#ifndef GG_PROFILE_H
#define GG_PROFILE_H

#include "organ/gg_numeric.h"

#include "numeric/numeric.h"

/* Sets entropy and dimension of `out` from GG_DIM_BINS_MAX counts that sum to n >= 1. Overwrites
 * the counts. */
void gg_entropy_profile(uint64_t *count, double n, gg_measure *out);

#endif

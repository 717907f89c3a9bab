/* sort.h - inside the numeric layer: sorting of 32-bit keys. */
#ifndef GG_SORT_H
#define GG_SORT_H

#include "nkernel.h"

/* Sort n keys ascending, with n more as scratch. Returns whichever of the two holds
 * the result; the other's contents are undefined. */
gg_nk_key *gg_sort_keys(gg_nk_key *keys, size_t n, gg_nk_key *tmp);

/* Sort the keys of n finite values between min and max. x may share its memory with keys,
 * not with tmp. Returns where the result is. */
gg_nk_key *gg_sort_values(const float *x, size_t n, float min, float max, gg_nk_key *keys,
                          gg_nk_key *tmp);

/* As gg_sort_keys, for arrays that are often short: insertion below some dozens. */
gg_nk_key *gg_sort_few(gg_nk_key *keys, size_t n, gg_nk_key *tmp);

#endif

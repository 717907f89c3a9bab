/* sort.h - sorts keys and entries. Internal to the numeric layer. */
#pragma once

#include "nkernel.h"

#define GG_SORT_FEW 96 /* up to this number of keys insertion sort is faster, and needs no tmp */

/* Sorts n < 2^32 keys in ascending order; tmp has room for n keys. Returns the one of the two
 * arrays that has the result. The contents of the other are undefined. */
gg_nk_key *gg_sort_keys(gg_nk_key *keys, size_t n, gg_nk_key *tmp);

/* The same for entries with a key in the upper 32 bits. Entries with equal keys must come
 * in ascending order of the lower bits. */
uint64_t *gg_sort_entries(uint64_t *entries, size_t n, uint64_t *tmp);

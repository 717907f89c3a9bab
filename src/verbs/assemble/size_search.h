/* size_search.h - the choice of one type per tensor that has the least loss within a size.
 * Internal. */
#ifndef GG_SIZE_SEARCH_H
#define GG_SIZE_SEARCH_H

#include "organ/gg_status.h"

typedef struct gg_size_option {
    uint64_t bytes;
    double loss; /* 0 or more, finite */
} gg_size_option;

/* A tensor with n options, n > 0. */
typedef struct gg_size_item {
    const gg_size_option *options;
    size_t n;
    size_t chosen; /* the result */
} gg_size_item;

/* Sets `chosen` of all items so that the sum of bytes is at most `limit` and the sum of losses is
 * small: for a factor L, each item has the option with the least loss + L bytes. L is the least
 * for which the sum is within the limit. Better options that still fit are taken afterwards. *least
 * is the smallest possible sum of bytes; if it is above the limit, the smallest options are chosen.
 * Takes O(n log n) for n options in all. */
gg_status gg_size_search(gg_size_item *items, size_t n, uint64_t limit, uint64_t *least,
                         gg_error *err);

#endif

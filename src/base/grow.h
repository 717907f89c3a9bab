/* grow.h - grow arrays one item at a time, and order them. Internal. */
#ifndef GG_GROW_H
#define GG_GROW_H

#include "organ/gg_status.h"

/* Makes room for one more item of `size` bytes in a malloc'd list that has n items and room for
 * *cap. Start with NULL and 0. Returns the new address of the list. If there is no memory, it
 * returns NULL, records GG_ENOMEM in err and leaves the list unchanged. The capacity doubles, so
 * appending n items takes O(n) time. */
void *gg_grow(void *list, size_t n, size_t *cap, size_t size, gg_error *err);

/* The same for short lists that do not store their capacity: the capacity is n rounded up to a
 * power of two. Such a list must not be grown in any other way. */
void *gg_grow_pow2(void *list, size_t n, size_t size, gg_error *err);

/* Ascending orders of int64_t and of doubles, for qsort and bsearch. */
int gg_order_i64(const void *a, const void *b);
int gg_order_f64(const void *a, const void *b);

#endif

/* grow.h - grow arrays one item at a time, allocate large ones, and order them. Internal. */
#pragma once

#include "organ/gg_status.h"

/* Makes room for one more item of `size` bytes in a malloc'd list that has n items. `list` is the
 * address of the pointer to it, which is NULL at first. The capacity doubles, so appending n items
 * takes O(n) time; it is kept in *cap, which is 0 at first. With cap NULL it is n rounded up to a
 * power of two, and the list must not be grown in any other way. If there is no memory, the list
 * remains unchanged, and GG_ENOMEM is returned. */
gg_status gg_room(void *list, size_t n, size_t *cap, size_t size, gg_error *err);

/* The same for a list by its name: GG_ROOM(x->list, x->n, &x->cap, err). */
#define GG_ROOM(list, n, cap, err) gg_room(&(list), n, cap, sizeof *(list), err)

/* Ascending orders of int64_t and of doubles, for qsort and bsearch. */
int gg_order_i64(const void *a, const void *b);
int gg_order_f64(const void *a, const void *b);

/* malloc for arrays of many megabytes, with few page faults where the system has large pages. */
void *gg_new_large(size_t bytes);

/* grow.h - lists that get one more item. Internal. */
#ifndef GG_GROW_H
#define GG_GROW_H

#include "organ/gg_status.h"

/* Makes room for one more item of `size` bytes in a malloc'd list that holds n items and has
 * room for *cap (NULL and 0 at first). Returns where the list is now. Without memory it
 * returns NULL, sets GG_ENOMEM in err and leaves the list unchanged. The room doubles, so
 * that n items cost n copies. */
void *gg_grow(void *list, size_t n, size_t *cap, size_t size, gg_error *err);

/* The same for short lists that keep no capacity: there is room for a power of two. Such a
 * list must never be grown in another way. */
void *gg_grow_pow2(void *list, size_t n, size_t size, gg_error *err);

#endif

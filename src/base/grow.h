/* grow.h - lists that get one item more. Internal. */
#ifndef GG_GROW_H
#define GG_GROW_H

#include "organ/gg_status.h"

/* Room for one more item of `size` bytes in a malloc'd list that holds n and has room
 * for *cap (NULL and 0 to begin with). Returns where the list is now; NULL, with
 * GG_ENOMEM in err, when there is no memory, and the list is as it was. The room
 * doubles, so that n items cost n copies. */
void *gg_grow(void *list, size_t n, size_t *cap, size_t size, gg_error *err);

#endif

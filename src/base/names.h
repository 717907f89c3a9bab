/* names.h - many short strings that live as long as each other. Internal.
 *
 * A list of 100000 tensors with a buffer each for the longest name is 25 MB of
 * nothing; here a name takes its length and a NUL, its address never changes, and
 * all go at once.
 */
#ifndef GG_NAMES_H
#define GG_NAMES_H

#include "organ/gg_status.h"

typedef struct gg_names {
    struct gg_names_chunk *last; /* NULL while nothing is held */
} gg_names;

/* A copy of n bytes with a NUL behind them; NULL and GG_ENOMEM in err when there is
 * no memory. The address is good until gg_names_free. */
const char *gg_names_add(gg_names *names, const char *bytes, size_t n, gg_error *err);

void gg_names_free(gg_names *names); /* back to all zero */

#endif

/* names.h - compact storage for many short strings that are freed together. Internal.
 *
 * A fixed-size name buffer per tensor would waste 25 MB on a list of 100000 tensors. Here each
 * name takes its length plus one NUL, and its address never changes.
 */
#pragma once

#include "organ/gg_status.h"

typedef struct gg_names {
    struct gg_names_chunk *last; /* NULL while there are no names */
} gg_names;

/* Returns a copy of n bytes followed by a NUL, valid until gg_names_free. Returns NULL and
 * records GG_ENOMEM in err if there is no memory. */
const char *gg_names_add(gg_names *names, const char *bytes, size_t n, gg_error *err);

void gg_names_free(gg_names *names); /* frees all names and zeroes *names */

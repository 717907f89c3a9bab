/* output_guard.h - outputs must not fall into what is read. Internal. */
#ifndef GG_OUTPUT_GUARD_H
#define GG_OUTPUT_GUARD_H

#include "organ/gg_organ.h"

/* GG_EUSAGE if the output `path` would lie within the organ directory that s is, where
 * with run->force it could take the place of the manifest or of a record. Its own name is
 * no such place, nor is a name beside the manifest that the directory has no use for.
 * s may be NULL, or any source. */
gg_status gg_guard_output(const char *path, const gg_source *s, gg_error *err);

#endif

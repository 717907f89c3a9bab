/* manifest_read.h - the JSON half of gg_manifest_load. Internal. */
#ifndef GG_MANIFEST_READ_H
#define GG_MANIFEST_READ_H

#include "organ/gg_organ.h"

#include "organ/manifest.h"

/* Structures from the text alone; files are not looked at. */
gg_status gg_manifest_read(const char *path, gg_manifest **out, gg_error *err);

/* Bytes of a manifest: 1 GiB, beyond which it has no business. More is neither read nor
 * written. */
#define GG_MANIFEST_MOST ((uint64_t)1 << 30)

/* The whole file, malloc'd: NULL when it fails. Anything but a regular file is refused. */
gg_status gg_manifest_slurp(const char *path, char **text, size_t *len, gg_error *err);

#endif

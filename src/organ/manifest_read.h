/* manifest_read.h - the JSON half of gg_manifest_load. Internal. */
#ifndef GG_MANIFEST_READ_H
#define GG_MANIFEST_READ_H

#include "gg_organ.h"

/* Structures from the text alone; files are not looked at. */
gg_status gg_manifest_read(const char *path, gg_manifest **out, gg_error *err);

/* The whole file, malloc'd: NULL when it fails. Of at most 1 GiB: a manifest has no
 * business beyond. */
gg_status gg_manifest_slurp(const char *path, char **text, size_t *len, gg_error *err);

#endif

/* manifest_read.h - the JSON half of gg_manifest_load. Internal. */
#ifndef GG_MANIFEST_READ_H
#define GG_MANIFEST_READ_H

#include "gg_organ.h"

/* Structures from the text alone; files are not looked at. */
gg_status gg_manifest_read(const char *path, gg_manifest **out, gg_error *err);

#endif

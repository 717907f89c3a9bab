/* manifest_read.h - parse the JSON text of a manifest. Internal. */
#ifndef GG_MANIFEST_READ_H
#define GG_MANIFEST_READ_H

#include "organ/gg_organ.h"

#include "organ/manifest.h"

/* Parses the manifest at `path` without opening the record files. */
gg_status gg_manifest_read(const char *path, gg_manifest **out, gg_error *err);

/* Maximum size of a manifest in bytes. A larger one is neither read nor written. */
#define GG_MANIFEST_MOST ((uint64_t)1 << 30)

/* Reads the whole file and takes its stamp; *text is malloc'd, or NULL on failure. The file must be
 * a regular file. */
gg_status gg_manifest_slurp(const char *path, char **text, size_t *len, gg_stamp *stamp,
                            gg_error *err);

#endif

/* organ_dir_manifest.h - builds the manifest of a new organ directory. Internal. */
#ifndef GG_ORGAN_DIR_MANIFEST_H
#define GG_ORGAN_DIR_MANIFEST_H

#include "organ_dir.h"

#include "organ/manifest.h"

/* Takes the metadata and layout of the base and adds one entry per item, with its file and
 * hash, and the stacks of items that are experts. Measures of a base directory are kept if the
 * data did not change; the history is always kept, with the item's own appended. The manifest
 * takes ownership of the file names of the items. */
gg_status gg_organ_dir_manifest(const gg_organ_dir *d, gg_manifest **out, gg_error *err);

#endif

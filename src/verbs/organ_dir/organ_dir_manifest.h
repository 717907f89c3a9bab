/* organ_dir_manifest.h - the manifest of an organ directory being written. Internal. */
#ifndef GG_ORGAN_DIR_MANIFEST_H
#define GG_ORGAN_DIR_MANIFEST_H

#include "organ_dir.h"

#include "organ/manifest.h"

/* Metadata and layout of the base, an entry an item with its file and hash, stacks
 * noted where items are experts. z of a base directory goes along where the data did
 * not change, history always, with the item's own appended. The file names of the items
 * pass to the manifest. */
gg_status gg_organ_dir_manifest(const gg_organ_dir *d, gg_manifest **out, gg_error *err);

#endif

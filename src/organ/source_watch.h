/* source_watch.h - refuse results of sources that changed while they were read. Internal. */
#pragma once

#include "organ/gg_organ.h"

/* Checks that no file of the source has changed since the source was opened: each shard of a
 * model, the manifest and each record of an organ directory, each file of records, and stdin if
 * it is a regular file. Returns GG_EIO if one has. A NULL source counts as unchanged. Call it
 * after the last read and before an output gets its name. */
gg_status gg_source_unchanged(const gg_source *s, gg_error *err);

/* Fails with GG_EIO because `path` was changed. */
gg_status gg_fail_changed(const char *path, gg_error *err);

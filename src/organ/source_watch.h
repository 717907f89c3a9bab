/* source_watch.h - refuse results of sources that changed while they were read. Internal. */
#ifndef GG_SOURCE_WATCH_H
#define GG_SOURCE_WATCH_H

#include "organ/gg_organ.h"

/* GG_EIO if a file of the source is no longer as it was when the source was opened: of a model
 * each shard, of an organ directory the manifest and each record, of records each file, of a
 * pipe the file that stdin is, if it is one. NULL is unchanged. Call it after the last read
 * and before an output gets its name. */
gg_status gg_source_unchanged(const gg_source *s, gg_error *err);

/* Fails with GG_EIO because `path` was changed. */
gg_status gg_fail_changed(const char *path, gg_error *err);

#endif

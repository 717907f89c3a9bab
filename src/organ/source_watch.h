/* source_watch.h - refuse results of sources that changed while they were read. Internal. */
#pragma once

#include "base/io.h"
#include "organ/gg_organ.h"

/* Calls fn for each file of the source, with its stamp from when the source was opened: each shard
 * of a model, the manifest and each record of an organ directory, each file of records or of a
 * checkpoint, and stdin if it is not stored. fd is -1 if the file is known by its name only. Any
 * status but GG_OK ends the calls. A NULL source has no files. */
typedef gg_status gg_source_file_fn(void *ctx, const gg_stamp *was, int fd, const char *path,
                                    gg_error *err);
gg_status gg_source_each_file(const gg_source *s, gg_source_file_fn *fn, void *ctx, gg_error *err);

/* Checks that no file of the source has changed since the source was opened. Returns GG_EIO if one
 * has. Call it after the last read and before an output gets its name. */
gg_status gg_source_unchanged(const gg_source *s, gg_error *err);

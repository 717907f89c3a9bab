/* output_guard.h - refuse outputs that would overwrite an input. Internal. */
#pragma once

#include "organ/gg_organ.h"

/* Fails with GG_EUSAGE if the output `path` would destroy what s reads, also through a link: it is
 * a file of s (any shard, or stdin if that is a file) or the organ directory itself, or lies inside
 * that directory, where it could replace the manifest or a record. A new name at its top level that
 * organ directories do not use is allowed. s may be NULL or any source. */
gg_status gg_guard_output(const char *path, const gg_source *s, gg_error *err);

/* Opens a file for changes in place, and takes the lock that all of them use. The caller closes
 * *out, also after an error, unless it is -1. Errors: GG_EIO if another process has the lock, or if
 * the file is not the one that `fd` reads (-1: any); GG_EUSAGE if the file has several names (hard
 * links), which would all change, and `links` is false. */
gg_status gg_open_in_place(const char *path, int fd, bool links, int *out, gg_error *err);

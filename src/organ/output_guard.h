/* output_guard.h - refuse outputs that would overwrite an input. Internal. */
#pragma once

#include "organ/gg_organ.h"

/* Fails with GG_EUSAGE if the output `path` would destroy what s reads, also through a link: it is
 * a file of s (any shard, or stdin if that is a file) or the organ directory itself, or lies inside
 * that directory, where it could replace the manifest or a record. A new name at its top level that
 * organ directories do not use is allowed. s may be NULL or any source. */
gg_status gg_guard_output(const char *path, const gg_source *s, gg_error *err);

/* Which files may be changed in place. */
typedef struct gg_in_place {
    bool links;  /* that have several names (hard links), which would all change */
    bool follow; /* that a symbolic link leads to */
} gg_in_place;

/* Opens a file for changes in place, and takes the lock that all of them use. The caller closes
 * *out, also after an error, unless it is -1. Errors: GG_EIO if another process has the lock, or if
 * the file is not the one that `fd` reads (-1: any); GG_EUSAGE if it is not `allowed`. */
gg_status gg_open_in_place(const char *path, int fd, gg_in_place allowed, int *out, gg_error *err);

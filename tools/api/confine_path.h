/* confine_path.h - look up untrusted path names below one folder only. Internal.
 *
 * `root` must be a path as realpath() returns it. Symbolic links are followed if they lead to
 * something below root. An absolute name, a name with "..", and a link that leads out of root
 * fail with GG_NO. A name that does not exist fails with GG_EIO and sys_errno ENOENT.
 */
#pragma once

#include "organ/gg_status.h"

/* Sets *real to the malloc'd real path of `relative`. */
gg_status gg_confine_path(const char *root, const char *relative, char **real, gg_error *err);

/* Opens a file for reading; never blocks on a FIFO. If `real` is not NULL, *real is set to its
 * malloc'd real path. A symbolic link that is planted between the check and the open also
 * fails with GG_NO, because the real path is then opened from root one folder at a time
 * without following links. */
gg_status gg_confine_open(const char *root, const char *relative, int *fd, char **real,
                          gg_error *err);

/* Checks whether a file may be created or replaced under that name: its folder must lie below
 * root, and if the name is a link, so must its target. */
gg_status gg_confine_new(const char *root, const char *relative, gg_error *err);

/* Checks that every link in the tree at `real` leads to something below root. A tree with more
 * than 8 levels of folders fails with GG_NO. */
gg_status gg_confine_tree(const char *root, const char *real, gg_error *err);

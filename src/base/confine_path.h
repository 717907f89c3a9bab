/* confine_path.h - names from strangers, looked up below one folder and nowhere else.
 * Internal.
 *
 * `root` is a real path (as realpath gives it). Links are followed as long as
 * they lead to something beneath root; "..", an absolute name and a link that
 * leads out are GG_NO. What does not exist is GG_EIO with sys_errno ENOENT.
 */
#ifndef GG_CONFINE_PATH_H
#define GG_CONFINE_PATH_H

#include "organ/gg_status.h"

/* Does the real path lie beneath root (or is it root)? Text only. */
bool gg_path_within(const char *root, const char *real);

/* *real: where `relative` is in truth, malloc'd. */
gg_status gg_confine_path(const char *root, const char *relative, char **real, gg_error *err);

/* Open for reading, never blocking on a FIFO. A link put in its way between the
 * look and the open is GG_NO too: the real path is walked again from root, a
 * folder at a time, and no link is followed then. real may be NULL; else malloc'd. */
gg_status gg_confine_open(const char *root, const char *relative, int *fd, char **real,
                          gg_error *err);

/* May something be made or replaced under that name? Its folder must lie beneath
 * root; so must what a link of that name leads to. */
gg_status gg_confine_new(const char *root, const char *relative, gg_error *err);

/* Does every link in the tree at `real` lead to something beneath root? Looks 8
 * folders deep; what is deeper is refused. */
gg_status gg_confine_tree(const char *root, const char *real, gg_error *err);

#endif

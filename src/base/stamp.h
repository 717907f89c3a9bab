/* stamp.h - notice that a file was changed by someone else while it was read. Internal. */
#ifndef GG_STAMP_H
#define GG_STAMP_H

#include <stdbool.h>
#include <stdint.h>

/* The properties of a file that are compared. All zero: the file is not watched (it is a pipe or a
 * device). */
typedef struct gg_stamp {
    uint64_t device, inode, size, links;
    int64_t modified[2], changed[2]; /* seconds and nanoseconds of mtime and ctime */
} gg_stamp;

/* The stamp of an open file; all zero unless it is a regular file. */
gg_stamp gg_stamp_fd(int fd);

/* Whether the open file, or the file of that name, is unchanged. It counts as changed if the name
 * no longer exists or belongs to another file. ctime is not compared if links to the file
 * were made or removed meanwhile, which changes it too. */
bool gg_stamp_holds_fd(const gg_stamp *was, int fd);
bool gg_stamp_holds_name(const gg_stamp *was, const char *path);

#endif

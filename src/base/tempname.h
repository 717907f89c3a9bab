/* tempname.h - temporary names and renames, shared by output.c and outdir.c. Internal. */
#ifndef GG_TEMPNAME_H
#define GG_TEMPNAME_H

#include "organ/gg_status.h"

#include <stdio.h>
#if defined __linux__ && !defined RENAME_NOREPLACE
#include <sys/syscall.h>
#include <unistd.h>

/* musl 1.2.3 declares neither renameat2 nor its flags, but the kernel has both. */
#define RENAME_NOREPLACE 1u
#define RENAME_EXCHANGE 2u

static inline int renameat2(int from_dir, const char *from, int to_dir, const char *to,
                            unsigned flags)
{
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}
#endif

/* Creates a file or folder under a new name. Returns a descriptor or 0, or -1 with errno;
 * EEXIST means that the name is taken. */
typedef int (*gg_temp_maker)(const char *temp);

/* Calls `make` with names ".NAME.PID-N.tmp" in the folder of `path` until one is free. Sets
 * *temp to the malloc'd name and *made to the result of `make`. `what` is for messages, such as
 * "a folder". Fails with GG_ENOMEM, or with GG_EIO and advice. */
gg_status gg_temp_make(const char *path, const char *what, gg_temp_maker make, char **temp,
                       int *made, gg_error *err);

/* Fails with GG_EUSAGE if path is empty, "-", or exists and force is false. */
gg_status gg_refuse_existing(const char *path, bool force, gg_error *err);

/* Renames temp to path. Without force an existing path is never replaced. */
gg_status gg_put_in_place(const char *temp, const char *path, bool force, gg_error *err);

/* Calls fsync on the folder of path, so that the rename itself is on disk. */
gg_status gg_sync_parent(const char *path, gg_error *err);

#endif

/* tempname.h - the steps that output.c and outdir.c share. Internal. */
#ifndef GG_TEMPNAME_H
#define GG_TEMPNAME_H

#include "organ/gg_status.h"

/* Makes something under a new name: not negative, or -1 with errno (EEXIST: the name is
 * taken). */
typedef int (*gg_temp_maker)(const char *temp);

/* `what` ("a folder") made as ".NAME.PID-N.tmp" in the folder of path, whatever N is free.
 * *temp is malloc'd, *made what the maker gave. GG_ENOMEM, or GG_EIO with what to do. */
gg_status gg_temp_make(const char *path, const char *what, gg_temp_maker make, char **temp,
                       int *made, gg_error *err);

/* GG_EUSAGE if path exists and force is false. */
gg_status gg_refuse_existing(const char *path, bool force, gg_error *err);

/* rename temp to path; without force never over an existing name. */
gg_status gg_put_in_place(const char *temp, const char *path, bool force, gg_error *err);

/* fsync the folder that holds path, so that the rename itself is on disk. */
gg_status gg_sync_parent(const char *path, gg_error *err);

#endif

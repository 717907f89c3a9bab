/* tempname.h - the steps that output.c and outdir.c share. Internal. */
#ifndef GG_TEMPNAME_H
#define GG_TEMPNAME_H

#include "gg_status.h"

/* ".NAME.PID-N.tmp" in the folder of path, malloc'd; NULL without memory. */
char *gg_temp_name(const char *path);

/* GG_EIO from errno: `what` ("a folder") could not be made beside path; and what to do. */
gg_status gg_cannot_create(const char *what, const char *path, gg_error *err);

/* GG_EUSAGE if path exists and force is false. */
gg_status gg_refuse_existing(const char *path, bool force, gg_error *err);

/* rename temp to path; without force never over an existing name. */
gg_status gg_put_in_place(const char *temp, const char *path, bool force, gg_error *err);

/* fsync the folder that holds path, so that the rename itself is on disk. */
gg_status gg_sync_parent(const char *path, gg_error *err);

#endif

/* output.h - output files and folders that appear under their name only when complete. Internal.
 *
 * A file is written as ".NAME.PID-N.tmp" in its final folder, synced and renamed. An output
 * folder is handled in the same way as a whole. N is the first free number; temporary names of
 * other runs, even of killed ones, are never removed. If the final name exists, opening fails
 * with GG_EUSAGE unless `force` is true. Abort and a failed commit remove what was written.
 * After a SIGKILL the temporary name may remain, but the final name never appears.
 * What replaces a file or folder gets its mode and, if permitted, its owner and group, as with cp;
 * the times are those of the new content. Files in a new folder are as in any other folder.
 */
#pragma once

#include "organ/gg_status.h"

typedef struct gg_output gg_output;

gg_status gg_output_open(const char *path, bool force, gg_output **out, gg_error *err);
int gg_output_fd(const gg_output *o);

/* Reserves disk space for the final size, so that a full disk is noticed before the work is
 * done. Does nothing if the file system does not support it. In tmpfs the size is only compared
 * with the free space: together with `before`, the bytes reserved so far for other files there. */
gg_status gg_output_reserve(gg_output *o, uint64_t bytes, uint64_t before, gg_error *err);

/* Syncs the file to disk. When there are several files, sync all of them before the first
 * commit: after that nothing slow happens, and commits ignore gg_cancel. */
gg_status gg_output_sync(gg_output *o, gg_error *err);

/* Both free `o`. Commit calls fsync (unless gg_output_sync did), rename, and fsync of the
 * folder. Abort accepts NULL. */
gg_status gg_output_commit(gg_output *o, gg_error *err);
void gg_output_abort(gg_output *o);

/* Commit in two steps, for outputs of several files: place all of them, then end all of them.
 * Place does all that commit does but free `o`. End frees `o`, which may be NULL; without
 * `keep` it also removes the file that was placed, so that a set whose last file failed does not
 * leave its first files behind. */
gg_status gg_output_place(gg_output *o, gg_error *err);
void gg_output_end(gg_output *o, bool keep);

/* ---- several outputs of one run ----
 *
 * A program that calls gg_outputs_hold gives the files and folders that it opens afterwards their
 * names at its end, all of them or none. Until then a committed output has its temporary name.
 * gg_outputs_release gives the names, and ignores gg_cancel. If it cannot give one, it removes all,
 * and what they replaced is there again. Until all have their names, what they replaced has their
 * temporary names, also after a SIGKILL.
 * gg_outputs_drop removes what still waits. Only one thread may use outputs then. */
void gg_outputs_hold(void);
gg_status gg_outputs_release(gg_error *err);
void gg_outputs_drop(void);

/* The path under which a committed output can be read now; `path` itself if it does not wait. */
const char *gg_output_where(const char *path);

/* Makes the folder of an output unless it exists. If the outputs of this run wait, it is removed
 * with them. Fails with GG_EUSAGE if there is a file of that name, or GG_EIO. */
gg_status gg_output_folder(const char *path, gg_error *err);

/* The output gets its name when it is committed, because something else is changed only then. */
void gg_output_at_once(gg_output *o);

typedef struct gg_output gg_outdir; /* that is a folder */

/* Creates the temporary folder for `path`, and missing parent folders, which abort removes. An
 * existing empty folder is always replaced on commit. With `force`, another existing folder is
 * replaced too, if `may_replace` is NULL or returns true for it; otherwise the call fails with
 * GG_EUSAGE. */
typedef bool (*gg_outdir_check)(const char *path, gg_error *err);
gg_status gg_outdir_open(const char *path, bool force, gg_outdir_check may_replace, gg_outdir **out,
                         gg_error *err);

/* Descriptor of the temporary folder. Use it only to open files created by the functions
 * below. */
int gg_outdir_fd(const gg_outdir *d);

/* Creates a new file "NAME" or "SUB/NAME" with O_EXCL, without following links. The folder SUB
 * is created if needed. The caller closes *fd. */
gg_status gg_outdir_create(gg_outdir *d, const char *name, int *fd, gg_error *err);

/* Like gg_outdir_create, but the new file is a hard link to `source`. */
gg_status gg_outdir_link(gg_outdir *d, const char *source, const char *name, gg_error *err);

/* Both free `d`. Commit calls fsync on every file and folder, then renames the folder. It can
 * fail with GG_ECANCELLED between two files. Abort accepts NULL. */
gg_status gg_outdir_commit(gg_outdir *d, gg_error *err);
void gg_outdir_abort(gg_outdir *d);

/* Removes a folder with everything in it. Does not follow links; errors are ignored. */
void gg_remove_tree(const char *path);

/* Fails with GG_EUSAGE if path is empty, "-", or exists and force is false. */
gg_status gg_refuse_existing(const char *path, bool force, gg_error *err);

/* Renames temp to path. Without force an existing path is never replaced. */
gg_status gg_put_in_place(const char *temp, const char *path, bool force, gg_error *err);

/* Calls fsync on the folder of path, so that the rename itself is on disk. */
gg_status gg_sync_parent(const char *path, gg_error *err);

/* output.h - files and folders that appear under their name only when whole.
 * Internal.
 *
 * A file is written as ".NAME.PID-N.tmp" beside its final place, then fsync, then
 * rename; a folder likewise as a whole. N is one that is free: names in use, or left by
 * a killed run, are nobody's to remove here. An existing name is refused (GG_EUSAGE)
 * unless `force`. Abort (or a failed commit) removes what was written; after a
 * SIGKILL the temporary name may stay behind, the final name never appears.
 */
#ifndef GG_OUTPUT_H
#define GG_OUTPUT_H

#include "organ/gg_status.h"

typedef struct gg_output gg_output;

gg_status gg_output_open(const char *path, bool force, gg_output **out, gg_error *err);
int gg_output_fd(const gg_output *o);

/* Room for the final size ahead, so that a full disk shows before the work is done;
 * nothing where the file system cannot. */
gg_status gg_output_reserve(gg_output *o, uint64_t bytes, gg_error *err);

/* Everything to disk. Of several files all are synced before the first is committed:
 * from then on nothing slow happens and no signal is heeded. */
gg_status gg_output_sync(gg_output *o, gg_error *err);

/* Both free `o`. abort takes NULL. A commit is fsync, rename, fsync of the folder. */
gg_status gg_output_commit(gg_output *o, gg_error *err);
void gg_output_abort(gg_output *o);

typedef struct gg_outdir gg_outdir;

/* Create the temporary folder for `path`, and the folders that lead to it; those go again if
 * nothing comes of it. With force an existing folder is replaced
 * on commit, but only if `may_replace` says yes to it (GG_EUSAGE otherwise). */
typedef bool (*gg_outdir_check)(const char *path);
gg_status gg_outdir_open(const char *path, bool force, gg_outdir_check may_replace, gg_outdir **out,
                         gg_error *err);

/* Where to create things meanwhile: use it only with the names given here. */
int gg_outdir_fd(const gg_outdir *d);

/* Create a new file "NAME" or "SUB/NAME" (SUB is made as needed), O_EXCL, never
 * through a link. The caller closes the descriptor with gg_outdir_close. */
gg_status gg_outdir_create(gg_outdir *d, const char *name, int *fd, gg_error *err);

/* As create, but the file is a hard link to `source`. */
gg_status gg_outdir_link(gg_outdir *d, const char *source, const char *name, gg_error *err);

/* fsync every file and folder, then rename; frees d. GG_ECANCELLED between two files. */
gg_status gg_outdir_commit(gg_outdir *d, gg_error *err);
void gg_outdir_abort(gg_outdir *d);

/* Remove a tree of folders and files, links not followed. */
void gg_remove_tree(const char *path);

#endif

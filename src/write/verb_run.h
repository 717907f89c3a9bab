/* verb_run.h - notes, progress and the watched sources of a run. Internal. */
#pragma once

#include "organ/gg_gguf.h"
#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"

#include <stdarg.h>
#include <string.h>

/* Used in the first lines of a verb: the caller's argument or, if that is NULL, a zeroed value
 * that lives as long as the outermost block of the verb. A report is zeroed. */
#define GG_OPTIONS(type, given) ((given) ? (given) : &(const type){ 0 })
#define GG_REPORT(type, given) memset((given) ? (given) : &(type){ 0 }, 0, sizeof(type))

/* Gives a printf-style note; does nothing if run->note is NULL. */
void gg_note(const gg_run *run, const char *fmt, ...) GG_PRINTF(2, 3);
/* The same with the arguments of a printf-style function. */
void gg_note_list(const gg_run *run, const char *fmt, va_list ap);

/* Notes that are given once the output is complete, so that a run that fails prints only its error.
 * Initialize with zeros. */
typedef struct gg_held_notes {
    char *lines[20]; /* owned */
    size_t n;
} gg_held_notes;

/* Adds a note. Does nothing if there are already twenty. */
gg_status gg_held_add(gg_held_notes *notes, gg_error *err, const char *fmt, ...) GG_PRINTF(3, 4);

/* Gives the notes to the run if `done`, and frees them. */
void gg_held_end(gg_held_notes *notes, const gg_run *run, bool done);

/* Has the run review a model before anything is written; of `planned`, meta, tensors, n, files and
 * base are set. Notes of the review are added to `notes`. Errors: those of the review; GG_EUSAGE if
 * run->strict is set without a review. */
gg_status gg_review(gg_planned planned, const gg_run *run, gg_held_notes *notes, gg_error *err);

/* GG_EFORMAT if shards of a source are missing, unless run->partial is set. For sources whose
 * tensors decide which tensors an output has. Does nothing for NULL, and for a pipe, of which a
 * single shard is taken with a note. */
gg_status gg_require_whole(const gg_source *s, const gg_run *run, gg_error *err);

/* gg_fail, with the name of the source and, unless t is NULL, of the tensor. */
gg_status gg_fail_in(gg_error *err, gg_status st, const gg_source *s, const gg_tensor *t,
                     const char *fmt, ...) GG_PRINTF(5, 6);

void gg_progress_add(const gg_run *run, uint64_t bytes);
void gg_progress_total(const gg_run *run, uint64_t bytes);

/* Start from all zero. The sources must outlive it. */
typedef struct gg_watch {
    const gg_source **list;
    size_t n, cap;
} gg_watch;

/* Adds a source. NULL and a source that the list holds already are ignored. */
gg_status gg_watch_add(gg_watch *w, const gg_source *s, gg_error *err);

/* GG_EIO for the first file of a source that changed, see gg_source_unchanged. */
gg_status gg_watch_check(const gg_watch *w, gg_error *err);
void gg_watch_free(gg_watch *w);

/* "4096x14336x8"; "" for a tensor without dims. */
void gg_dims_text(const gg_tensor *t, char out[96]);

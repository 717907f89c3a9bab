/* check_output.h - the rules of a check on a model that is about to be written. Internal. */
#ifndef GG_CHECK_OUTPUT_H
#define GG_CHECK_OUTPUT_H

#include "check_rules.h"

/* What was found: notes to give once the output is complete, so that a run that fails has
 * one line of its own. Start from all zero. */
typedef struct gg_check_notes {
    char *lines[20]; /* owned */
    size_t n;
} gg_check_notes;

/* Run the rules on what will be written. Errors and warnings become notes: at most eight of
 * them, then their number. Those that `base` has too (NULL = no base) are left out, because
 * what is written did not cause them. With run->strict, GG_NO when there are errors, those
 * of the base included; nothing must have been written yet. */
gg_status gg_check_output(const gg_check_input *in, gg_source *base, const gg_run *run,
                          gg_check_notes *notes, gg_error *err);

/* One more note; nothing when there are twenty already. */
gg_status gg_check_notes_add(gg_check_notes *notes, gg_error *err, const char *fmt, ...)
    GG_PRINTF(3, 4);

/* Give the notes to the run if `done`, and free them. */
void gg_check_notes_end(gg_check_notes *notes, const gg_run *run, bool done);

#endif

/* check_output.h - checks a model that is about to be written. Internal. */
#ifndef GG_CHECK_OUTPUT_H
#define GG_CHECK_OUTPUT_H

#include "check_rules.h"

/* The notes of a check. They are given once the output is complete, so that a run that fails
 * prints only its error. Initialize with zeros. */
typedef struct gg_check_notes {
    char *lines[20]; /* owned */
    size_t n;
} gg_check_notes;

/* Run the rules on the planned output. Errors and warnings become notes: at most eight, then
 * the number of the others. Findings that `base` has too (NULL = no base) are left out, because
 * this run did not cause them. With run->strict, returns GG_NO if there are errors, including
 * those of the base. Call it before anything is written. */
gg_status gg_check_output(const gg_check_input *in, gg_source *base, const gg_run *run,
                          gg_check_notes *notes, gg_error *err);

/* Add a note. Does nothing if there are already twenty. */
gg_status gg_check_notes_add(gg_check_notes *notes, gg_error *err, const char *fmt, ...)
    GG_PRINTF(3, 4);

/* Pass the notes to the run if `done`, and free them. */
void gg_check_notes_end(gg_check_notes *notes, const gg_run *run, bool done);

#endif

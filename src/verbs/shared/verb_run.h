/* verb_run.h - notes and progress of a run. Internal. */
#ifndef GG_VERB_RUN_H
#define GG_VERB_RUN_H

#include "organ/gg_verbs.h"

#include <stdarg.h>

/* Used in the first lines of a verb: the caller's argument or, if that is NULL, a zeroed value
 * that lives as long as the outermost block of the verb. */
#define GG_OPTIONS(type, given) ((given) ? (given) : &(const type){ 0 })
#define GG_REPORT(type, given) ((given) ? (given) : &(type){ 0 })

/* Gives a printf-style note; does nothing if run->note is NULL. */
void gg_note(const gg_run *run, const char *fmt, ...) GG_PRINTF(2, 3);
/* The same with the arguments of a printf-style function. */
void gg_note_list(const gg_run *run, const char *fmt, va_list ap);
void gg_progress_add(const gg_run *run, uint64_t bytes);
void gg_progress_total(const gg_run *run, uint64_t bytes);

#endif

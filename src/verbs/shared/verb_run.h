/* verb_run.h - notes and progress of a run. Internal. */
#ifndef GG_VERB_RUN_H
#define GG_VERB_RUN_H

#include "organ/gg_verbs.h"

/* For the first lines of a verb: what the caller gave or, for NULL, a value with all members
 * zero that lives as long as the verb's outermost block. */
#define GG_OPTIONS(type, given) ((given) ? (given) : &(const type){ 0 })
#define GG_REPORT(type, given) ((given) ? (given) : &(type){ 0 })

/* printf-style note; nothing when run->note is NULL. */
void gg_note(const gg_run *run, const char *fmt, ...) GG_PRINTF(2, 3);
void gg_progress_add(const gg_run *run, uint64_t bytes);
void gg_progress_total(const gg_run *run, uint64_t bytes);

#endif

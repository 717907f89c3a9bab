/* check_output.h - the rules of a check on a model that is about to be written. Internal. */
#ifndef GG_CHECK_OUTPUT_H
#define GG_CHECK_OUTPUT_H

#include "organ/gg_check.h"

/* Run the rules on what will be written. Errors and warnings become notes of the run: at
 * most eight of them, then their number. Those that `base` has too (NULL = no base) are
 * left out, because what is written did not cause them. With run->strict, GG_NO when there
 * are errors, those of the base included; nothing must have been written yet. */
gg_status gg_check_output(const gg_check_input *in, gg_source *base, const gg_run *run,
                          gg_error *err);

#endif

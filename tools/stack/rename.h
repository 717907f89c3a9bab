/* rename.h - writes a model in which tensors have other names. Internal. */
#pragma once

#include "assemble/gg_stack.h"

/* Writes the model with new names, "OLD=NEW", as one file; "-" is stdout. If each has a "*", it
 * stands for the same text. The first that fits a tensor counts; names may be exchanged. Data and
 * order of the tensors stay. report->tensors is the number of those that are renamed. Errors: GG_NO
 * if there is no such tensor, or if two tensors would have one name; GG_EUSAGE for other texts and
 * names that are too long; those of writing. */
gg_status gg_stack_rename(gg_source *model, const gg_texts *names, const char *output,
                          const gg_run *run, gg_stack_report *report, gg_error *err);

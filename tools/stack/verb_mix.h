/* verb_mix.h - mixtures of experts of dense models. Internal; see gg_stack.h. */
#pragma once

#include "organ/gg_stack.h"

/* Writes the mixture as gg_stack_blocks does; `run` and `report` are not NULL. */
gg_status gg_stack_mixture(const gg_expert_mix *m, const char *output, const gg_run *run,
                           gg_stack_report *report, gg_error *err);

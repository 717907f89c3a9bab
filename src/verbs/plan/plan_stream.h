/* plan_stream.h - writes a plan in sequence. Internal to src/verbs/plan. */
#ifndef GG_PLAN_STREAM_H
#define GG_PLAN_STREAM_H

#include "plan.h"

/* Whether the plan must be written in sequence: to stdout, or from a pipe. */
bool gg_plan_in_sequence(const gg_plan *p);

/* See gg_plan_write. */
gg_status gg_plan_write_in_sequence(gg_plan *p, const gg_run *run, uint64_t *bytes, gg_error *err);

#endif

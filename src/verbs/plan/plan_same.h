/* plan_same.h - plans to write a model with the same tensors, to change its keys. Internal. */
#ifndef GG_PLAN_SAME_H
#define GG_PLAN_SAME_H

#include "plan.h"

/* Data that a plan uses but does not own; free it after the plan. */
typedef struct gg_plan_kept {
    gg_pad **pads; /* one list per file */
    size_t *n_pads, n_files;
} gg_plan_kept;

/* Plan all tensors of `source` in their order, in one file or, if `output` is named like one of
 * the source's shards, in as many shards. Keys, padding and trailing bytes are those of the
 * source; if several shards become one file, unusual padding and split keys are left out.
 * GG_EUSAGE if `output` is named like a shard of another number of shards. */
gg_status gg_plan_same(gg_plan *p, gg_source *source, const char *output, gg_plan_kept *kept,
                       gg_error *err);
void gg_plan_kept_free(gg_plan_kept *kept);

#endif

/* plan_same.h - a plan that writes a model again as it is, for changes of metadata. Internal. */
#ifndef GG_PLAN_SAME_H
#define GG_PLAN_SAME_H

#include "plan.h"

/* What a plan refers to but does not own: free it after the plan. */
typedef struct gg_plan_kept {
    gg_pad **pads; /* one list per file */
    size_t *n_pads, n_files;
} gg_plan_kept;

/* Every tensor of `source` in its order, and the files: one, or as many as the source has if
 * `output` is the name of one of that many shards. Metadata, padding and what follows the
 * tensors as in the source; where several shards become one file, without padding and split
 * keys. GG_EUSAGE if `output` is a name of another number of shards. */
gg_status gg_plan_same(gg_plan *p, gg_source *source, const char *output, gg_plan_kept *kept,
                       gg_error *err);
void gg_plan_kept_free(gg_plan_kept *kept);

#endif

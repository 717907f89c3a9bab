/* merge_run.h - the state of one call of gg_merge, shared by its two ways: merging tensors, and
 * joining slices. Internal. */
#ifndef GG_MERGE_RUN_H
#define GG_MERGE_RUN_H

#include "merge_config.h"
#include "merge_core.h"
#include "merge_models.h"
#include "verbs/compute/compute_core.h"
#include "verbs/compute/dtype_rules.h"
#include "verbs/compute/imatrix_use.h"
#include "verbs/plan/plan.h"

typedef struct gg_merge_run {
    const gg_merge_options *o;
    const gg_run *run;
    gg_merge_config config;
    gg_merge_models models;
    gg_merging m;
    gg_source *first; /* gives keys, order and dtypes */
    gg_plan plan;
    gg_computations made;
    gg_imatrix *imatrix; /* NULL = none */
    gg_dtype_rules *rules;
    gg_merge_report *report;
    gg_error *err;
} gg_merge_run;

/* Joins the slices of the configuration, which are ranges of blocks, as gg_stack_blocks does. */
gg_status gg_merge_slices(gg_merge_run *g, const char *output);

#endif

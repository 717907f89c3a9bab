/* rank_experts.h - chooses the experts to keep in each block by what they contribute to the output
 * on a calibration text. Internal.
 */
#ifndef GG_RANK_EXPERTS_H
#define GG_RANK_EXPERTS_H

#include "keep_experts.h"

#include "organ/imatrix.h"

/* How many experts of each block are kept, and by what. */
typedef struct gg_expert_choice {
    const gg_imatrix *imatrix;
    uint64_t keep, groups; /* groups: expert_group_count, 0 if there is none */
} gg_expert_choice;

/* Reads all stacks of experts of the plan, which must not have producers yet and whose sources must
 * be seekable, and adds to `keep` the o->keep most important experts of each block. The importance
 * of an expert is that of organ-measure, summed over its matrices: the mean squared output on the
 * text of the importance matrix, times the share of tokens routed to the expert. Of equal experts
 * the first is kept. If o->groups divides o->keep, each of so many groups of experts keeps the same
 * number.
 *
 * In a block that the importance matrix lacks, such as a prediction block, experts are ranked by
 * the sum of their squared weights, with a note. GG_NO if there are no stacks, if a block has fewer
 * than o->keep experts, or if the importance matrix has no block's experts at all; errors of
 * gg_imatrix_read; GG_EUNSUPPORTED for a dtype that cannot be decoded. */
gg_status gg_rank_experts(const gg_plan *p, const gg_expert_choice *o, gg_keep_experts *keep,
                          const gg_run *run, gg_error *err);

#endif

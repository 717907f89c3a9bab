/* keep_experts.h - removes experts from a planned model. Stacks, routers, their biases and
 * expert_count are reduced to the experts that are kept, for any source of the bytes.
 * Internal.
 */
#ifndef GG_KEEP_EXPERTS_H
#define GG_KEEP_EXPERTS_H

#include "verbs/plan/plan.h"

typedef struct gg_keep_experts gg_keep_experts;

/* `text` is a list of experts for every block, such as "0-3,7", or else the name of a file
 * with one line per block: block number, tab, list of experts. GG_EUSAGE for a mistake in
 * either, GG_EIO for a file that cannot be read. */
gg_status gg_keep_experts_parse(const char *text, gg_keep_experts **out, gg_error *err);
/* An empty list, to which blocks are added in ascending order, each with a list of experts. `text`
 * must outlive it. */
gg_status gg_keep_experts_new(const char *text, gg_keep_experts **out, gg_error *err);
gg_status gg_keep_experts_add(gg_keep_experts *k, uint64_t block, const char *list, gg_error *err);
void gg_keep_experts_free(gg_keep_experts *k);

/* Cut the tensors of the plan, which must not have producers yet. The kept experts stay in
 * their order. With p->verify, data with a known sha256 are read and compared first.
 * GG_NO for a model without experts, an expert or block that does not exist, a block without
 * a line, and blocks that would keep different numbers; GG_EFORMAT where tensors count
 * different numbers of experts; GG_EUNSUPPORTED for tensors that cannot lose any. */
gg_status gg_keep_experts_cut(gg_keep_experts *k, gg_plan *p, gg_error *err);

/* Updates <arch>.expert_count. Call it after gg_keep_experts_cut. GG_EFORMAT if expert_used_count
 * or expert_group_count does not allow so few experts. */
gg_status gg_keep_experts_keys(const gg_keep_experts *k, gg_meta *meta, const gg_run *run,
                               gg_error *err);

#endif

/* assemble_experts.h - the experts of a model that is assembled: single ones become stacks again,
 * and a model can lose some of them. Internal. */
#ifndef GG_ASSEMBLE_EXPERTS_H
#define GG_ASSEMBLE_EXPERTS_H

#include "organ/gg_organ.h"
#include "organ/imatrix.h"
#include "organ/manifest.h"
#include "verbs/plan/plan.h"

typedef struct gg_stacks gg_stacks;

/* Find the stack of each expert. GG_EFORMAT if an expert does not match its stack. */
gg_status gg_stacks_new(const gg_manifest *m, gg_stacks **out, gg_error *err);
void gg_stacks_free(gg_stacks *s);

size_t gg_stacks_of(const gg_stacks *s, size_t entry); /* stack index or SIZE_MAX */
size_t gg_stacks_first(const gg_stacks *s,
                       size_t k); /* its first entry, which gives the stack its place */
/* Numbers of the present experts, ascending; *n of them. */
const uint64_t *gg_stacks_experts(const gg_stacks *s, size_t k, size_t *n);

/* Append the stacked tensor to the plan, with one part per expert. */
gg_status gg_stacks_add(const gg_stacks *s, size_t k, gg_source *dir, gg_plan *p, gg_error *err);

/* Writes a model with fewer experts from a directory made with split_experts, after
 * experts were removed from its manifest.
 *
 * The remaining experts keep their order and are numbered from 0. Every other tensor of a block
 * with one entry per expert is cut in the same way: rows of the router
 * (ffn_gate_inp.weight, dims[1]), elements of its bias and of exp_probs_b.bias, the
 * last dimension of ffn_*_exps tensors that the directory has as stacks. <arch>.expert_count is
 * adapted.
 *
 * These are refused, with GG_EFORMAT unless noted otherwise: stacks of a block that keep
 * different experts, blocks that keep different numbers or lost all but their router, an
 * expert that the stack never had, a tensor with another number of experts than the stacks,
 * an expert_count that is neither the old nor the new number, fewer experts than expert_used_count,
 * a number that expert_group_count does not divide; GG_EUNSUPPORTED for ffn_gate_tid2eid, whose
 * values name experts.
 */

typedef struct gg_prune gg_prune;

/* *out is NULL if every stack has all its experts or none, so that nothing is cut. */
gg_status gg_prune_new(const gg_manifest *m, const gg_stacks *stacks, gg_prune **out,
                       const gg_run *run, gg_error *err);
void gg_prune_free(gg_prune *p);

/* True if entry i must be cut. False for an expert of a stack. p may be NULL. */
bool gg_prune_cuts(const gg_prune *p, size_t entry);

/* Append entry i, cut, to the plan. With plan->verify its whole data is first compared with the
 * manifest's sha256. */
gg_status gg_prune_add(const gg_prune *p, size_t entry, gg_source *dir, gg_plan *plan,
                       gg_error *err);

/* Adapt <arch>.expert_count. Does nothing if p is NULL. */
gg_status gg_prune_keys(const gg_prune *p, gg_meta *meta, gg_error *err);

/* The number in <arch>.TAIL, or the largest if each block has its own; 0 if there is none.
 * GG_EFORMAT if the value is not a number. */
gg_status gg_expert_number(const gg_meta *meta, const char *tail, uint64_t *value, gg_error *err);

/* Removes experts from a planned model. Stacks, routers, their biases and
 * expert_count are reduced to the experts that are kept, for any source of the bytes.
 */

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

/* Chooses the experts to keep in each block by what they contribute to the output
 * on a calibration text.
 */

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

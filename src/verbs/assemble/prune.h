/* prune.h - writes a model with fewer experts from a directory made with split_experts, after
 * experts were removed from its manifest. Internal.
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
#ifndef GG_PRUNE_H
#define GG_PRUNE_H

#include "stacks.h"

#include "organ/manifest.h"

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

/* Does the tensor have one row, value or matrix per expert along its last dimension? True of
 * stacks, their biases, and the router with its biases. */
bool gg_counts_experts(const gg_tensor *t, const gg_anatomy *a);

/* GG_EUNSUPPORTED for a tensor with which a model cannot lose experts. */
gg_status gg_refuse_fixed_experts(const gg_tensor *t, const gg_anatomy *a, gg_error *err);

/* The number in <arch>.TAIL, or the largest if each block has its own; 0 if there is none.
 * GG_EFORMAT if the value is not a number. */
gg_status gg_expert_number(const gg_meta *meta, const char *tail, uint64_t *value, gg_error *err);

/* Do expert_count, expert_used_count and expert_group_count allow `left` of `was` experts
 * per block? GG_EFORMAT if not. */
gg_status gg_check_expert_keys(const gg_meta *meta, uint64_t was, uint64_t left, const gg_run *run,
                               gg_error *err);

#endif

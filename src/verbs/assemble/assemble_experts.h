/* assemble_experts.h - the experts of a model that is assembled: single ones become stacks again,
 * and a model can lose some of them. Internal. */
#ifndef GG_ASSEMBLE_EXPERTS_H
#define GG_ASSEMBLE_EXPERTS_H

#include "organ/imatrix.h"
#include "verbs/plan/plan.h"

/* Plans the tensors of an organ directory. Single experts become stacks again. If experts were
 * removed from the manifest of a directory made with split_experts, the model has fewer; *left is
 * then the number per block, else 0.
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
 * values name experts. With p->verify, the whole data of a tensor that is cut are first compared
 * with the manifest's sha256. */
gg_status gg_plan_directory(gg_source *dir, gg_plan *p, uint64_t *left, const gg_run *run,
                            gg_error *err);

/* Sets <arch>.expert_count; does nothing if it is 0. */
gg_status gg_set_expert_count(gg_meta *meta, uint64_t count, gg_error *err);

/* Experts to keep. Stacks, routers, their biases and expert_count are reduced to them, for any
 * source of the bytes. */
typedef struct gg_keep_experts gg_keep_experts;

/* `text` is a list of experts for every block, such as "0-3,7", or else the name of a file
 * with one line per block: block number, tab, list of experts. GG_EUSAGE for a mistake in
 * either, GG_EIO for a file that cannot be read. */
gg_status gg_keep_experts_parse(const char *text, gg_keep_experts **out, gg_error *err);
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

/* Chooses the experts to keep by what they contribute to the output on a calibration text: reads
 * all stacks of experts of the plan, which must not have producers yet and whose sources must be
 * seekable, and lists the most important experts of each block in *keep, as many as the text
 * `number` says. The importance of an expert is that of organ-measure, summed over its matrices:
 * the mean squared output on the text of the importance matrix, times the share of tokens routed to
 * the expert. Of equal experts the first is kept. If expert_group_count in `meta` divides the
 * number, each of so many groups of experts keeps the same number.
 *
 * In a block that the importance matrix lacks, such as a prediction block, experts are ranked by
 * the sum of their squared weights, with a note. GG_NO if there are no stacks, if a block has fewer
 * experts, or if the importance matrix has no block's experts at all; GG_EUSAGE for a wrong number
 * and for a plan that reads a pipe; errors of gg_imatrix_read; GG_EUNSUPPORTED for a dtype that
 * cannot be decoded. Free *keep even on error. */
gg_status gg_rank_experts(const gg_plan *p, const gg_meta *meta, const char *number,
                          const gg_imatrix *imatrix, gg_keep_experts **keep, const gg_run *run,
                          gg_error *err);

#endif

/* assemble_experts.h - the experts of a model that is assembled: single ones become stacks again,
 * and a model can lose some of them. Internal. */
#pragma once

#include "organ/imatrix.h"
#include "verbs/compute/compute.h"
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
 * their order. Matrices that lose hidden units get producers of the list `made`. With p->verify,
 * data with a known sha256 are read and compared first. GG_NO for a model without experts, an
 * expert or block that does not exist, a block without a line, and blocks that would keep different
 * numbers; GG_EFORMAT where tensors count different numbers of experts; GG_EUNSUPPORTED for tensors
 * that cannot lose any. */
gg_status gg_keep_experts_cut(gg_keep_experts *k, gg_plan *p, gg_computations *made, gg_error *err);

/* Updates <arch>.expert_count and the length of the FFNs. Call it after gg_keep_experts_cut.
 * GG_EFORMAT if expert_used_count or expert_group_count does not allow so few experts. */
gg_status gg_keep_experts_keys(const gg_keep_experts *k, gg_meta *meta, const gg_run *run,
                               gg_error *err);

/* Which experts and hidden units to keep. */
typedef struct gg_expert_choice {
    const char *number;      /* of experts per block; NULL = all, or those of `listed` */
    gg_keep_experts *listed; /* NULL = the best */
    uint64_t units;          /* hidden units per expert, or of a dense FFN; 0 = all */
    double share;            /* of the experts' weights, instead of both numbers; 0 = not given */
    const char *scores;      /* instead of the importance: a table of block, expert, score, or a
                                file of activations, of which the mean weighted outputs count */
    const gg_imatrix *imatrix;
    gg_imatrix *const *texts; /* importance matrices of single texts, for notes */
    size_t n_texts;
    bool tell;        /* note the experts that go, and the share of the score that blocks keep */
    gg_source *refit; /* activations; NULL = none. Must live until the plan is written */
} gg_expert_choice;

/* Chooses the experts to keep, and their hidden units, by what they contribute to the output on a
 * calibration text: reads the down projections of the plan, which must not have producers yet and
 * whose sources must be seekable, and lists the choice in *keep. The score of a unit is the sum of
 * its squared outputs on the text of the importance matrix, times the squared norm of its column of
 * the down projection. The score of an expert is the sum over its units, or over those that are
 * kept. Of equal ones the first is kept. If expert_group_count in `meta` divides the number of
 * experts, each of so many groups keeps the same number. The number of units is rounded down to
 * whole blocks of the types. For a share, the number of experts is the one with the largest mean
 * score of a block; at most 16 are compared, from expert_used_count on.
 *
 * If the importance matrix lacks the down projection of a block, its other stacks count. In a block
 * that it lacks, such as a prediction block, experts are ranked by their squared weights, with a
 * note. GG_NO if there are no stacks, if a block has fewer experts or units, if the importance
 * matrix has no block's experts at all or no inputs for those of a block, or if scores are missing
 * or name other experts; GG_EUSAGE for a wrong number and for a plan that reads a pipe; errors of
 * gg_imatrix_read; GG_EUNSUPPORTED for a dtype that cannot be decoded. Free *keep even on error.
 * Memory: 4 bytes per hidden unit of the model, if units are chosen. */
gg_status gg_rank_experts(const gg_plan *p, const gg_meta *meta, const gg_expert_choice *o,
                          gg_keep_experts **keep, const gg_run *run, gg_error *err);

/* Writes an importance matrix for the model of the plan, after the cut; k may be NULL. Errors:
 * GG_EFORMAT for one of another model; GG_NO if no entry is left; as gg_plan_write. */
gg_status gg_keep_experts_imatrix(const gg_keep_experts *k, const gg_plan *p, gg_imatrix *im,
                                  const char *output, const gg_run *run, gg_error *err);

/* experts.h - the experts of a model that is assembled: single ones become stacks again, and a
 * model can lose some of them. Internal. */
#pragma once

#include "compute/compute.h"
#include "organ/imatrix.h"
#include "organ/select.h"
#include "write/plan.h"

/* The experts of one block; block UINT64_MAX means every block. */
typedef struct kept_line {
    uint64_t block;
    gg_ranges listed; /* as the user wrote them */
    uint64_t *kept;   /* ascending, `n` of them */
    size_t n;
    bool used;
    uint32_t *units; /* the hidden units to keep, ascending: `units` of the list for each of the n
                        experts; NULL = all */
    float *gains;    /* with units: what the down projection of each expert is multiplied by */
} kept_line;

/* Experts to keep. Stacks, routers, their biases and expert_count are reduced to them, for any
 * source of the bytes. */
typedef struct gg_keep_experts {
    kept_line *lines; /* sorted by block */
    size_t n;
    const char *text;   /* as the user wrote it, owned by the caller; NULL = those of a directory */
    uint64_t was, left; /* experts per block, known after the cut */
    uint64_t units_was, units; /* hidden units per expert; units is 0 if all are kept */
    bool dense;                /* FFNs without experts: only units are removed */
    gg_computations *made;     /* for tensors that lose units */
    gg_source *refit;          /* activations; NULL = none */
    const gg_meta *meta;       /* with `refit`: the keys of the model */
    size_t refitted;           /* tensors of which it has samples */
    const char *unfit;         /* why the outputs of removed experts are not replaced; static */
} gg_keep_experts;

/* An empty list. */
gg_status gg_keep_experts_new(const char *text, gg_keep_experts **out, gg_error *err);
void gg_keep_experts_free(gg_keep_experts *k);

/* Appends a line for a block, which must be the highest so far. */
gg_status gg_keep_experts_add(gg_keep_experts *k, uint64_t block, kept_line **out, gg_error *err);

/* The order of lines by their blocks, for qsort. */
int gg_kept_line_order(const void *a, const void *b);

/* The line for a block; NULL if there is none. GG_NO, with `why`, if the user's list has none. */
kept_line *gg_kept_line_of(const gg_keep_experts *k, uint64_t block);
gg_status gg_kept_line_lacks(const gg_keep_experts *k, uint64_t block, gg_error *err);

/* Lists which of `was` experts are kept. All listed experts must exist. */
gg_status gg_kept_line_list(kept_line *l, uint64_t was, gg_error *err);

/* The number in <arch>.TAIL, or the largest if each block has its own; 0 if there is none.
 * GG_EFORMAT if the value is not a number. */
gg_status gg_expert_number(const gg_meta *meta, const char *tail, uint64_t *value, gg_error *err);

/* Plans the tensors of an organ directory. Single experts become stacks again. If experts were
 * removed from the manifest of a directory made with split_experts, the model has fewer: *missing
 * lists those that are there, and the plan is cut as by gg_keep_experts_cut. Free it even on error;
 * it may be NULL. GG_EFORMAT if the stacks of a block keep different experts, and as below. */
gg_status gg_plan_directory(gg_source *dir, gg_plan *p, gg_keep_experts **missing, gg_error *err);

/* Records what was removed: gg_record_step. */
gg_status gg_keep_experts_record(const gg_keep_experts *k, gg_meta *meta, const gg_run *run,
                                 gg_error *err);

/* Cut the tensors of the plan, which must not have producers yet. The kept experts stay in
 * their order and are numbered from 0: rows of the router (ffn_gate_inp.weight, dims[1]), elements
 * of its bias and of exp_probs_b.bias, and the last dimension of stacks. With p->verify, data of
 * several experts with a known sha256 are read and compared first. GG_NO (GG_EFORMAT for a
 * directory) for a model without experts, an expert or block that does not exist, a block without a
 * line, and blocks that would keep different numbers; GG_EFORMAT where tensors count different
 * numbers of experts; GG_EUNSUPPORTED for tensors that cannot lose any, such as ffn_gate_tid2eid,
 * whose values name experts. */
gg_status gg_keep_experts_cut(gg_keep_experts *k, gg_plan *p, gg_error *err);

/* Reads the data of parts of more than `step` bytes with a known sha256, and compares them. */
gg_status gg_verify_parts(const gg_plan_tensor *pt, uint64_t step, gg_error *err);

/* Updates <arch>.expert_count. Call it after gg_keep_experts_cut.
 * GG_EFORMAT if expert_count is neither the old nor the new number, or expert_used_count or
 * expert_group_count does not allow so few experts. */
gg_status gg_keep_experts_keys(const gg_keep_experts *k, gg_meta *meta, const gg_run *run,
                               gg_error *err);

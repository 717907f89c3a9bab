/* prune.h - removes experts and hidden units from a model. */
#pragma once

#include "assemble/experts.h"
#include "compute/compute.h"
#include "organ/gg_verbs.h"
#include "organ/imatrix.h"
#include "write/plan.h"

#define EXPERT_LIST_MAX ((size_t)16 << 20) /* bytes of a list of experts, or of their scores */

/* `text` is a list of experts for every block, such as "0-3,7", or else the name of a file
 * with one line per block: block number, tab, list of experts. GG_EUSAGE for a mistake in
 * either, GG_EIO for a file that cannot be read. */
gg_status gg_keep_experts_parse(const char *text, gg_keep_experts **out, gg_error *err);

/* What to keep. All zero keeps everything. */
typedef struct gg_prune_options {
    /* How the model is written; its `edit` is not used. output.imatrix gives the importance. */
    gg_assemble_options how;
    uint64_t experts; /* the number of experts to keep in every block; 0 = all, or `list` */
    /* Experts to keep in every block, such as "0-3,7", or the name of a file with one line per
     * block: number, tab, experts. NULL = all. */
    const char *list;
    /* What ranks experts: "importance" (the same as NULL): the sum of their squared outputs on the
     * calibration text, that of gg_measure_options.imatrix of the down projection. In a block that
     * the file lacks, such as a prediction block, those with the largest weights are kept.
     * Otherwise the name of a table of scores (block, tab, expert, tab, score) or of a file of
     * activations. */
    const char *by;
    /* Hidden units to keep in each expert, or in each FFN of a model without experts: those with
     * the largest squared outputs. Rounded down to whole blocks of the types. 0 = all. */
    uint64_t units;
    /* The share of the experts' weights to keep, above 0 and below 1: the number of experts, up to
     * `experts` if that is given, and of units that keep most of the scores. 0 = all. */
    double share;
    /* Importance matrices of single texts: notes tell which share of each text's score the blocks
     * keep, and which experts are removed that carry much of it. */
    gg_texts texts;
    /* A file of activations (organ-probe). Where units are removed, the remaining ones replace
     * them: by least squares on samples of the hidden units, expert by expert, instead of one
     * factor per expert. Where experts are removed, the down projections of the others are changed
     * together, by ridge regression, so that the outputs of the block on samples of its inputs are
     * those of all experts. A note tells where that is not possible, and whether the file names
     * another model. NULL = none. */
    const char *refit;
    const char *imatrix_out; /* the importance matrix for the new model is written here; NULL =
                                nowhere */
} gg_prune_options;

/* Writes `model` with fewer experts or hidden units. Stacks, routers, their biases and
 * <arch>.expert_count follow; the kept experts get new numbers from 0 in their order. A choice by
 * scores reads the model once more, so that it cannot be a pipe, and allows no other types.
 * Errors: GG_EUSAGE for options that do not fit together; GG_NO if the model has no such experts or
 * units; those of gg_assemble. */
gg_status gg_prune(gg_source *model, const gg_prune_options *o, const char *output,
                   const gg_run *run, gg_assemble_report *report, gg_error *err);

/* ---- choosing: experts_rank.c --------------------------------------------------------------- */

/* The dimension of a tensor of FFNs that counts hidden units; -1 for other tensors. *down: it is
 * the down projection. */
int gg_unit_dim(const gg_tensor *t, bool *down);

/* Reads n bytes from byte `at` of the parts on, which lie in one of them. */
gg_status gg_read_parts(const gg_plan_part *parts, size_t n_parts, uint64_t at, void *to, size_t n,
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

/* ---- cutting: units.c ----------------------------------------------------------------------- */

/* After gg_keep_experts_cut: leaves the kept units of the matrices of FFNs, which get producers of
 * the list `made`, and fits the rest to the activations. GG_NO if there is nothing to fit. */
gg_status gg_units_cut(gg_keep_experts *k, gg_plan *p, gg_computations *made, gg_error *err);

/* Updates the length of the FFNs. GG_EUNSUPPORTED if blocks differ in it. */
gg_status gg_units_keys(const gg_keep_experts *k, gg_meta *meta, const gg_run *run, gg_error *err);

/* Writes an importance matrix for the model of the plan, after the cut; k may be NULL. Errors:
 * GG_EFORMAT for one of another model; GG_NO if no entry is left; as gg_plan_write. */
gg_status gg_keep_experts_imatrix(const gg_keep_experts *k, const gg_plan *p, gg_imatrix *im,
                                  const char *output, const gg_run *run, gg_error *err);

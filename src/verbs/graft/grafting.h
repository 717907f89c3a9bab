/* grafting.h - what grafts and transplants share: the bytes of moved tensors, keys, mismatches, and
 * notes on models that may not belong together. Internal. */
#ifndef GG_GRAFTING_H
#define GG_GRAFTING_H

#include "organ/gg_transplant.h"
#include "verbs/check/check_output.h"
#include "verbs/compute/compute.h"
#include "verbs/plan/plan.h"

/* gg_transplant with o->directory (verb_graft.c). `report` is all zero. */
gg_status gg_transplant_directory(gg_source *base, gg_source *donor, const gg_transplant_options *o,
                                  const char *output, const gg_run *run,
                                  gg_transplant_report *report, gg_error *err);

/* ---- moves.c ----------------------------------------------------------------------------- */

typedef struct gg_mover {
    gg_source *base, *donor;
    const gg_blend *blend;        /* belongs to the options, which must live as long */
    uint64_t blocks;              /* of the base, for a ramp over the blocks */
    gg_computations list;         /* owns the producers; free it after writing */
    const gg_select *select;      /* which experts, for moves of a part of a stack */
    struct gg_mover_parts *parts; /* parts of inputs and copies, in chained blocks */
} gg_mover;

/* The bytes of a move: either a producer, or parts to copy one after another. Both live as
 * long as the maker. */
typedef struct gg_moved_bytes {
    gg_producer p; /* p.make NULL = copy the parts */
    const gg_plan_part *parts;
    size_t n_parts;
} gg_moved_bytes;

void gg_mover_open(gg_mover *m, gg_source *base, gg_source *donor, const gg_match_options *o);
void gg_mover_close(gg_mover *m);

/* *out gets the name, shape and bytes of the tensor that the move writes. */
gg_status gg_mover_bytes(gg_mover *m, const gg_move *move, gg_tensor *out, gg_moved_bytes *made,
                         gg_error *err);

/* A LoRA adapter folded into the tensors of a base. */
typedef struct gg_fold {
    gg_source *base;
    gg_lora lora;
    gg_computations list; /* owns the producers; close the fold after writing */
} gg_fold;

/* Check the adapter as gg_lora_open does. Both sources must outlive the fold. */
gg_status gg_fold_open(gg_fold *f, gg_source *base, gg_source *adapter, double scale,
                       gg_error *err);

/* Get the producer of tensor i of the base with the adapter folded in. If the adapter does not
 * change the tensor, p->make is NULL and GG_OK is returned. GG_EUNSUPPORTED if the values are
 * scaled by a separate tensor. */
gg_status gg_fold_tensor(gg_fold *f, size_t i, gg_producer *p, gg_error *err);

void gg_fold_close(gg_fold *f);

/* Drop mismatches (counted in report->skipped) or fail with the first one. GG_NO if no move is
 * left. */
gg_status gg_moves_drop_mismatched(gg_moves *moves, const gg_source *base, const gg_source *donor,
                                   bool skip_mismatched, gg_transplant_report *report,
                                   gg_error *err);

/* Updates the type keys in `meta`, which has the base's keys, for the planned tensors. */
gg_status gg_moves_follow_types(const gg_source *base, const gg_plan *plan, gg_meta *meta,
                                gg_error *err);

/* Apply copy_kv and then set_kv. */
gg_status gg_moves_edit_keys(const gg_source *donor, const gg_transplant_options *o, gg_meta *meta,
                             gg_error *err);

/* ---- new_blocks.c ------------------------------------------------------------------------- */

/* Write the base's keys to `meta` (empty). If moves add blocks from the base's block_count on,
 * block_count and every key with one value per block are extended by the donor's values, as
 * for MTP blocks; see gg_layer_keys. GG_NO if there is a gap after the base's blocks, or if
 * gg_layer_keys refuses the blocks. A base without block_count keeps its keys. */
gg_status gg_added_blocks_meta(const gg_source *base, const gg_source *donor, const gg_moves *moves,
                               gg_meta *meta, gg_error *err);

/* Fills in `moves` for gg_match_options.mtp, with the rules of gg_match_tensors. */
gg_status gg_mtp_moves(const gg_source *base, const gg_source *donor, gg_moves *moves,
                       gg_error *err);

/* Writes the base's keys to `meta` (empty), with block_count, nextn_predict_layers and every
 * per-layer array extended by the donor's values for those blocks. */
gg_status gg_mtp_meta(const gg_source *base, const gg_source *donor, gg_meta *meta, gg_error *err);

/* ---- kinship.c ----------------------------------------------------------------------------- */

/* Add notes for a graft with these moves: on conflicting keys (architecture, vocabulary, RoPE
 * and so on), on models that share no lineage, by a few of the moved matrices, and on blocks
 * whose per-layer keys differ from those of the blocks they replace. Does nothing if the run
 * takes no notes, or if one of the models is a pipe or bare records. */
gg_status gg_kinship_notes(gg_source *base, gg_source *donor, const gg_moves *moves,
                           const gg_run *run, gg_check_notes *notes, gg_error *err);

#endif

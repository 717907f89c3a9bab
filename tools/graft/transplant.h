/* transplant.h - a transplant, as the files that make it share it: verb_transplant.c plans and
 * writes a model or an organ directory, transplant_in_place.c changes the base, and
 * transplant_kinship.c tells whether base and donor fit. Internal.
 */
#pragma once

#include "graft.h"

#include "compute/compute.h"
#include "compute/dtype_rules.h"
#include "fold_lora.h"
#include "gguf/gguf.h"
#include "organ/source_layout.h"
#include "write/organ_dir.h"
#include "write/plan.h"
#include "write/verb_run.h"

typedef struct transplant {
    gg_source *base, *donor;
    const gg_transplant_options *o;
    const gg_blend *blend;   /* of the options */
    const gg_select *select; /* which experts, for moves of a part of a stack */
    uint64_t blocks;         /* of the base: one more than the highest number */
    const gg_run *run;
    gg_moves moves;
    gg_lora lora;          /* the folded adapter */
    gg_computations made;  /* by moves, the adapter and the rules; free it after writing */
    gg_imatrix *imatrix;   /* NULL = none */
    gg_dtype_rules *rules; /* NULL = keep the dtypes of the base and the moves */
    gg_plan plan;          /* of a model; in place a tensor per move, without files */
    gg_organ_dir dir;      /* with o->directory */
    gg_meta meta;
    const gg_model *model; /* in place: the base, which is changed itself */
    int *fds;              /* writable, one per file of it */
    gg_held_notes notes;
    gg_transplant_report *report;
    gg_error *err;
} transplant;

/* Finds the moves, or checks the adapter. */
gg_status gg_transplant_find(transplant *job);

/* The tensor that a move writes, and its parts or its producer. */
gg_tensor gg_moved_tensor(const transplant *job, const gg_move *move);
gg_status gg_fill_moved(transplant *job, const gg_move *move, gg_plan_tensor *pt);

/* Both begin and end each transplant; the latter returns st. */
void gg_transplant_open(transplant *job);
gg_status gg_transplant_close(transplant *job, gg_status st);

/* ---- transplant_kinship.c ------------------------------------------------------------------ */

/* Add notes for a graft with these moves: on conflicting keys (architecture, vocabulary, RoPE
 * and so on), on models that share no lineage, by a few of the moved matrices, and on blocks
 * whose per-layer keys differ from those of the blocks they replace. Does nothing if one of the
 * models is a pipe or bare records. With an adapter, a base that is another one than that which it
 * was made from is noted. */
gg_status gg_note_kinship(const transplant *job, gg_held_notes *notes);

/* Lists what the moves, and the comparison of the models, read of donor and ancestor. */
void gg_transplant_reads(gg_source *base, gg_source *donor, const gg_match_options *o,
                         const gg_moves *moves, gg_reads r);

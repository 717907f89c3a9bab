/* kinship.h - notes on models that may not belong together. Internal. */
#ifndef GG_KINSHIP_H
#define GG_KINSHIP_H

#include "organ/gg_transplant.h"
#include "verbs/check/check_output.h"

/* Add notes for a graft with these moves: on conflicting keys (architecture, vocabulary, RoPE
 * and so on), on models that share no lineage, by a few of the moved matrices, and on blocks
 * whose per-layer keys differ from those of the blocks they replace. Does nothing if the run
 * takes no notes, or if one of the models is a pipe or bare records. */
gg_status gg_kinship_notes(gg_source *base, gg_source *donor, const gg_moves *moves,
                           const gg_run *run, gg_check_notes *notes, gg_error *err);

#endif

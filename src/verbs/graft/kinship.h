/* kinship.h - notes on models that may not belong together. Internal. */
#ifndef GG_KINSHIP_H
#define GG_KINSHIP_H

#include "organ/gg_transplant.h"
#include "verbs/check/check_output.h"

/* Notes for a graft of these moves: keys that conflict (architecture, vocabulary, RoPE and
 * the like), models that share no lineage, judged on a few of the moved matrices, and
 * blocks whose per-layer keys differ from those of the blocks they replace. Nothing
 * when the run takes no notes, or one of the two is a pipe or bare records. */
gg_status gg_kinship_notes(gg_source *base, gg_source *donor, const gg_moves *moves,
                           const gg_run *run, gg_check_notes *notes, gg_error *err);

#endif

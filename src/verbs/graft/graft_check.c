/* graft_check.c - checks whether a graft would work: keys that must agree, and lineage. */
#include "organ/gg_compare_model.h"
#include "organ/gg_transplant.h"
#include "verbs/plan/key_compat.h"
#include "verbs/shared/verb_run.h"

#include <stdio.h>
#include <stdlib.h>

static void note_conflict(void *run, const char *line)
{
    gg_note(run, "%s", line);
}

gg_status gg_graft_check(gg_source *base, gg_source *donor, const gg_moves *moves,
                         const gg_run *run, gg_graft_check_report *out, gg_error *err)
{
    run = GG_OPTIONS(gg_run, run);
    *out = (gg_graft_check_report){ 0 };
    gg_tensor_pair *pairs = calloc(moves->n ? moves->n : 1, sizeof *pairs);
    if (!pairs) return gg_fail(err, GG_ENOMEM, "no memory for %zu pairs", moves->n);
    size_t k = 0;
    for (size_t i = 0; i < moves->n; i++) {
        const gg_move *move = &moves->list[i];
        if (move->kind == GG_MOVE_MISMATCH) {
            out->mismatched++;
            continue;
        }
        out->move++;
        /* Compared by name, whatever the map, because blocks at different depths are orthogonal
         * even within one model. */
        size_t twin = move->base == SIZE_MAX ? SIZE_MAX
                                             : gg_source_find(donor, move->name, move->name_len);
        if (twin != SIZE_MAX) pairs[k++] = (gg_tensor_pair){ move->base, twin };
    }
    gg_run quiet = *run; /* no progress for the check */
    quiet.progress = NULL;
    out->conflicts = gg_key_conflicts(gg_source_meta(base), gg_source_meta(donor), 0, note_conflict,
                                      &quiet);
    gg_lineage l;
    gg_compare_options o = { .sample = GG_LINEAGE_SAMPLE, .pairs = pairs, .n_pairs = k };
    gg_status st = gg_lineage_of(base, donor, &o, &quiet, &l, err);
    free(pairs);
    if (st != GG_OK) return st;
    out->strangers = l.verdict == GG_LINEAGE_STRANGERS;
    gg_lineage_text(&l, out->lineage, sizeof out->lineage);
    return GG_OK;
}

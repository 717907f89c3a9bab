/* plan_moves.h - prepares a list of moves before a transplant writes. Internal. */
#ifndef GG_PLAN_MOVES_H
#define GG_PLAN_MOVES_H

#include "organ/gg_transplant.h"
#include "verbs/plan/plan.h"

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

#endif

/* verb_transplant.c - base and donor to a chimera: the base's plan with some parts
 * taken from the donor. */
#include "organ/gg_transplant.h"

#include "added_blocks.h"
#include "kinship.h"
#include "move_bytes.h"
#include "mtp.h"
#include "organ/manifest.h"
#include "organ/output_guard.h"
#include "organ/source_layout.h"
#include "plan_moves.h"
#include "verbs/plan/plan.h"
#include "verbs/shared/verb_run.h"

#include <stdlib.h>
#include <string.h>

typedef struct transplant {
    gg_source *base, *donor;
    gg_move *moves;
    size_t n;
    gg_mover maker;
    gg_transplant_report *report;
    gg_error *err;
} transplant;

/* One tensor of the output that moves: its shape, and bytes from where they come. */
static gg_status plan_moved(transplant *t, gg_plan *p, const gg_move *move)
{
    gg_tensor out;
    gg_plan_tensor *pt;
    gg_moved_bytes made;
    gg_status st = gg_mover_bytes(&t->maker, move, &out, &made, t->err);
    if (st == GG_OK) st = gg_plan_add(p, &out, &pt, t->err);
    if (st != GG_OK) return st;
    if (move->kind == GG_MOVE_ADD) t->report->added++;
    else t->report->moved++;
    t->report->bytes_moved += out.bytes;
    pt->make = made.p.make;
    pt->ctx = made.p.ctx;
    for (size_t i = 0; i < made.n_parts && st == GG_OK; i++)
        st = gg_plan_add_part(pt, &made.parts[i], t->err);
    return st;
}

/* Moves come in the base's order, additions last. */
static gg_status plan_tensors(transplant *t, gg_plan *p)
{
    size_t k = 0;
    gg_status st = GG_OK;
    for (size_t i = 0; i < gg_source_count(t->base) && st == GG_OK; i++) {
        bool here = k < t->n && t->moves[k].base == i;
        st = here ? plan_moved(t, p, &t->moves[k]) : gg_plan_add_copy(p, t->base, i, t->err);
        k += here;
    }
    for (; k < t->n && st == GG_OK; k++) st = plan_moved(t, p, &t->moves[k]);
    return st;
}

static gg_status write_chimera(transplant *t, const gg_transplant_options *o, const char *output,
                               const gg_run *run)
{
    gg_plan p = { .verify = true };
    gg_meta meta = GG_META_INIT;
    const gg_moves moves = { .list = t->moves, .n = t->n };
    gg_status st = plan_tensors(t, &p);
    if (st == GG_OK)
        st = o->mtp ? gg_mtp_meta(t->base, t->donor, &meta, t->err)
                    : gg_added_blocks_meta(t->base, t->donor, &moves, &meta, t->err);
    if (st == GG_OK) st = gg_moves_edit_keys(t->base, t->donor, o, &p, &meta, t->err);
    if (st == GG_OK)
        st = gg_plan_changed_file(&p, output, gg_plan_version(t->base), &meta, t->base, t->err);
    if (st == GG_OK) st = gg_plan_write(&p, run, &t->report->bytes_written, t->err);
    gg_meta_free(&meta);
    gg_plan_free(&p);
    return st;
}

gg_status gg_transplant(gg_source *base, gg_source *donor, const gg_transplant_options *o,
                        const char *output, const gg_run *run, gg_transplant_report *report,
                        gg_error *err)
{
    o = GG_OPTIONS(gg_transplant_options, o);
    run = GG_OPTIONS(gg_run, run);
    report = GG_REPORT(gg_transplant_report, report);
    gg_moves moves = { 0 };
    *report = (gg_transplant_report){ 0 };
    if (!gg_source_meta(base)) {
        gg_fail(err, GG_EUSAGE,
                "the base is bare organ records; a model or an organ directory is needed");
        return gg_at_file(err, gg_source_name(base));
    }
    gg_status refused = gg_refuse_split_experts(base, err);
    if (refused == GG_OK) refused = gg_guard_output(output, base, err);
    if (refused == GG_OK) refused = gg_guard_output(output, donor, err);
    if (refused == GG_OK) refused = gg_guard_output(output, o->match.blend.ancestor, err);
    if (refused == GG_OK && (o->mtp || o->match.add)) refused = gg_refuse_split_experts(donor, err);
    if (refused != GG_OK) return refused;
    gg_status st = o->mtp ? gg_mtp_moves(base, donor, &moves, err)
                          : gg_match_tensors(base, donor, &o->match, &moves, err);
    if (st == GG_OK)
        st = gg_moves_drop_mismatched(&moves, base, donor, o->skip_mismatched, report, err);
    transplant t = { .base = base,
                     .donor = donor,
                     .moves = moves.list,
                     .n = moves.n,
                     .report = report,
                     .err = err };
    gg_mover_open(&t.maker, base, donor, &o->match);
    gg_check_notes notes = { 0 };
    if (st == GG_OK) st = gg_kinship_notes(base, donor, &moves, run, &notes, err);
    if (st == GG_OK) st = write_chimera(&t, o, output, run);
    gg_check_notes_end(&notes, run, st == GG_OK);
    gg_mover_close(&t.maker);
    gg_moves_free(&moves);
    return st;
}

/* verb_transplant.c - makes a chimera from base and donor: copies the base, but takes some
 * parts from the donor, or folds in an adapter. */
#include "grafting.h"
#include "organ/gg_transplant.h"

#include "gguf/gguf.h"
#include "organ/manifest.h"
#include "organ/output_guard.h"
#include "organ/source_layout.h"
#include "verbs/compute/dtype_rules.h"
#include "verbs/compute/imatrix_use.h"
#include "verbs/plan/plan.h"
#include "verbs/shared/verb_run.h"

#include <stdlib.h>
#include <string.h>

typedef struct transplant {
    gg_source *base, *donor;
    const gg_transplant_options *o;
    const gg_run *run;
    gg_moves moves;
    gg_mover maker;
    gg_fold fold;           /* the folded adapter */
    gg_imatrix *imatrix;    /* NULL = none */
    gg_dtype_rules *rules;  /* NULL = keep the dtypes of the base and the moves */
    gg_computations retype; /* producers for the rules */
    gg_plan plan;
    gg_transplant_report *report;
    gg_error *err;
} transplant;

/* ---- tensors -------------------------------------------------------------------------- */

/* Plans a moved tensor of the output: its shape and the source of its bytes. */
static gg_status plan_moved(transplant *t, const gg_move *move)
{
    gg_tensor out;
    gg_plan_tensor *pt;
    gg_moved_bytes made;
    gg_status st = gg_mover_bytes(&t->maker, move, &out, &made, t->err);
    if (st == GG_OK) st = gg_plan_add(&t->plan, &out, &pt, t->err);
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

/* Moves are in the base's order, added tensors at the end. */
static gg_status plan_chimera(transplant *t)
{
    size_t k = 0;
    const gg_moves *m = &t->moves;
    gg_status st = GG_OK;
    for (size_t i = 0; i < gg_source_count(t->base) && st == GG_OK; i++) {
        bool here = k < m->n && m->list[k].base == i;
        st = here ? plan_moved(t, &m->list[k]) : gg_plan_add_copy(&t->plan, t->base, i, t->err);
        k += here;
    }
    for (; k < m->n && st == GG_OK; k++) st = plan_moved(t, &m->list[k]);
    return st;
}

static gg_status plan_folded(transplant *t)
{
    gg_status st = gg_fold_open(&t->fold, t->base, t->donor, t->o->scale, t->err);
    t->fold.list.imatrix = t->imatrix;
    for (size_t i = 0; i < gg_source_count(t->base) && st == GG_OK; i++) {
        gg_producer p;
        gg_plan_tensor *pt;
        st = gg_fold_tensor(&t->fold, i, &p, t->err);
        if (st == GG_OK && !p.make) st = gg_plan_add_copy(&t->plan, t->base, i, t->err);
        if (st != GG_OK || !p.make) continue;
        st = gg_plan_add(&t->plan, gg_source_tensor(t->base, i), &pt, t->err);
        if (st != GG_OK) break;
        pt->make = p.make;
        pt->ctx = p.ctx;
        t->report->moved++;
        t->report->bytes_moved += pt->t.bytes;
    }
    return st;
}

/* ---- keys and files --------------------------------------------------------------------- */

/* Adapts the base's keys to the planned tensors. */
static gg_status chimera_keys(const transplant *t, gg_meta *meta)
{
    gg_status st = t->o->adapter ? gg_meta_copy(meta, gg_source_meta(t->base), t->err)
                   : t->o->match.mtp
                       ? gg_mtp_meta(t->base, t->donor, meta, t->err)
                       : gg_added_blocks_meta(t->base, t->donor, &t->moves, meta, t->err);
    return st == GG_OK ? gg_moves_follow_types(t->base, &t->plan, meta, t->err) : st;
}

static gg_status write_chimera(transplant *t, const char *output)
{
    gg_meta meta = GG_META_INIT;
    size_t changed = 0;
    gg_status st = chimera_keys(t, &meta);
    if (st == GG_OK && t->rules)
        st = gg_dtype_rules_apply(t->rules, &t->plan, &meta, &t->retype, &changed, t->run, t->err);
    if (st == GG_OK) st = gg_imatrix_review(t->imatrix, &t->plan, NULL, t->run, t->err);
    gg_split split = { t->o->output.shards, t->o->output.shard_size };
    if (st == GG_OK) st = gg_plan_output(&t->plan, &split, output, &meta, t->base, t->run, t->err);
    gg_meta *first = st == GG_OK ? &t->plan.files[0].meta : NULL;
    if (st != GG_OK && t->rules) gg_at_file(t->err, gg_source_name(t->base));
    if (first && changed) st = gg_dtype_rules_keys(t->rules, &t->plan, first, t->err);
    if (st == GG_OK) st = gg_moves_edit_keys(t->donor, t->o, first, t->err);
    if (st == GG_OK) st = gg_watch_add(&t->plan.watch, t->base, t->err);
    if (st == GG_OK) st = gg_watch_add(&t->plan.watch, t->donor, t->err);
    if (st == GG_OK) st = gg_watch_add(&t->plan.watch, t->o->match.blend.ancestor, t->err);
    if (st == GG_OK) st = gg_plan_write(&t->plan, t->run, &t->report->bytes_written, t->err);
    gg_meta_free(&meta);
    return st;
}

/* ---- transplant ---------------------------------------------------------------------------- */

static gg_status refuse_output(const transplant *t, const char *output)
{
    const gg_transplant_options *o = t->o;
    if (!gg_source_meta(t->base)) {
        gg_fail(t->err, GG_EUSAGE,
                "the base consists of organ records, but must be a model or an organ directory");
        return gg_at_file(t->err, gg_source_name(t->base));
    }
    gg_status st = gg_refuse_split_experts(t->base, t->err);
    if (st == GG_OK) st = gg_guard_output(output, t->base, t->err);
    if (st == GG_OK) st = gg_guard_output(output, t->donor, t->err);
    if (st == GG_OK) st = gg_guard_output(output, o->match.blend.ancestor, t->err);
    if (st == GG_OK && o->adapter) st = gg_guard_input(output, t->donor, t->err);
    if (st == GG_OK) st = gg_guard_input(output, o->match.blend.ancestor, t->err);
    if (st == GG_OK && (o->match.mtp || o->match.add))
        st = gg_refuse_split_experts(t->donor, t->err);
    return st;
}

static gg_status find_moves(transplant *t)
{
    const gg_transplant_options *o = t->o;
    gg_match_options match = o->match;
    match.weighed = match.weighed || o->output.imatrix;
    gg_status st = gg_match_tensors(t->base, t->donor, &match, &t->moves, t->err);
    if (st != GG_OK) return st;
    return gg_moves_drop_mismatched(&t->moves, t->base, t->donor, o->skip_mismatched, t->report,
                                    t->err);
}

static void close_transplant(transplant *t)
{
    gg_plan_free(&t->plan);
    gg_computations_free(&t->retype);
    gg_dtype_rules_free(t->rules);
    gg_imatrix_close(t->imatrix);
    gg_fold_close(&t->fold);
    gg_mover_close(&t->maker);
    gg_moves_free(&t->moves);
}

gg_status gg_transplant(gg_source *base, gg_source *donor, const gg_transplant_options *o,
                        const char *output, const gg_run *run, gg_transplant_report *report,
                        gg_error *err)
{
    o = GG_OPTIONS(gg_transplant_options, o);
    run = GG_OPTIONS(gg_run, run);
    report = GG_REPORT(gg_transplant_report, report);
    transplant t = { .base = base,
                     .donor = donor,
                     .o = o,
                     .run = run,
                     .plan = { .verify = true },
                     .report = report,
                     .err = err };
    gg_check_notes notes = { 0 };
    *report = (gg_transplant_report){ 0 };
    if (o->directory) return gg_transplant_directory(base, donor, o, output, run, report, err);
    gg_status st = refuse_output(&t, output);
    if (st != GG_OK) return st;
    if (o->output.imatrix) st = gg_imatrix_open(o->output.imatrix, &t.imatrix, err);
    if (st == GG_OK)
        st = gg_dtype_rules_parse(o->output.dtype, o->output.fallback, t.imatrix, &t.rules, err);
    if (st == GG_OK && !o->adapter) st = find_moves(&t);
    gg_mover_open(&t.maker, base, donor, &o->match);
    t.retype.imatrix = t.maker.list.imatrix = t.imatrix;
    if (st == GG_OK && !o->adapter) st = gg_kinship_notes(base, donor, &t.moves, run, &notes, err);
    if (st == GG_OK) st = o->adapter ? plan_folded(&t) : plan_chimera(&t);
    if (st == GG_OK) st = write_chimera(&t, output);
    gg_check_notes_end(&notes, run, st == GG_OK);
    close_transplant(&t);
    return st;
}

/* verb_transplant.c - base and donor to a chimera: the base's plan with some parts
 * taken from the donor. */
#include "gg_transplant.h"

#include "manifest_new.h"
#include "moves.h"
#include "plan.h"

#include <stdlib.h>
#include <string.h>

typedef struct transplant {
    gg_source *base, *donor;
    const gg_move *moves;
    size_t n;
    gg_transplant_report *report;
    gg_error *err;
} transplant;

static gg_status whole_part(gg_plan_tensor *pt, gg_source *from, size_t index, gg_error *err)
{
    gg_plan_part part = { from, index, 0, gg_source_tensor(from, index)->bytes, NULL };
    return gg_plan_add_part(pt, &part, err);
}

/* One tensor of the output: the base's shape, and bytes from where they come. */
static gg_status plan_tensor(transplant *t, gg_plan *p, size_t base, const gg_move *move)
{
    gg_tensor out = *gg_source_tensor(t->base, base);
    gg_plan_tensor *pt;
    if (move && move->kind == GG_MOVE_CONVERT) return gg_fail(t->err, GG_EUNSUPPORTED, "--match convert is not built yet");
    if (move && move->kind == GG_MOVE_RETYPE) {
        const gg_tensor *d = gg_source_tensor(t->donor, move->donor);
        out.dtype = d->dtype;
        out.bytes = d->bytes;
    }
    gg_status st = gg_plan_add(p, &out, &pt, t->err);
    if (st != GG_OK || !move) return st == GG_OK ? whole_part(pt, t->base, base, t->err) : st;
    t->report->moved++;
    t->report->bytes_moved += out.bytes;
    return whole_part(pt, t->donor, move->donor, t->err);
}

static gg_status plan_added(transplant *t, gg_plan *p, const gg_move *move)
{
    gg_tensor out = *gg_source_tensor(t->donor, move->donor);
    gg_plan_tensor *pt;
    out.name = move->name;
    out.name_len = move->name_len;
    gg_status st = gg_plan_add(p, &out, &pt, t->err);
    t->report->added++;
    t->report->bytes_moved += out.bytes;
    return st == GG_OK ? whole_part(pt, t->donor, move->donor, t->err) : st;
}

/* Moves come in the base's order, additions last. */
static gg_status plan_tensors(transplant *t, gg_plan *p)
{
    size_t k = 0;
    gg_status st = GG_OK;
    for (size_t i = 0; i < gg_source_count(t->base) && st == GG_OK; i++) {
        bool here = k < t->n && t->moves[k].base == i;
        st = plan_tensor(t, p, i, here ? &t->moves[k] : NULL);
        k += here;
    }
    for (; k < t->n && st == GG_OK; k++) st = plan_added(t, p, &t->moves[k]);
    return st;
}

/* Odd padding and trailing bytes of a base that is one GGUF file. */
static gg_status keep_odd_bytes(transplant *t, gg_plan *p, gg_pad **pads, size_t *n_pads)
{
    const gg_model *m = gg_source_model(t->base);
    if (!m || m->n_files != 1) return GG_OK;
    gg_status st = gg_source_pads(t->base, 0, pads, n_pads, t->err);
    if (st != GG_OK) return st;
    gg_plan_file *f = &p->files[0];
    f->pads = *pads;
    f->n_pads = *n_pads;
    f->trailing_bytes = gg_source_trailing(t->base, 0);
    f->trailing_at = m->file_sizes[0] - f->trailing_bytes;
    if (f->trailing_bytes && !(f->trailing = strdup(m->paths[0]))) return gg_fail(t->err, GG_ENOMEM, "no memory for a path");
    return GG_OK;
}

static uint32_t version_of(const gg_source *s)
{
    return gg_source_manifest(s) ? gg_source_manifest(s)->version : gg_source_header(s)->version;
}

static gg_status write_chimera(transplant *t, const gg_transplant_options *o, const char *output, const gg_run *run)
{
    gg_plan p = { 0 };
    gg_meta meta = GG_META_INIT;
    gg_pad *pads = NULL;
    size_t n_pads = 0;
    gg_status st = plan_tensors(t, &p);
    if (st == GG_OK) st = gg_moves_meta(t->base, t->donor, o, &meta, t->err);
    const gg_model *m = gg_source_model(t->base);
    if (m && m->n_files > 1) {
        gg_meta_delete(&meta, "split.no");
        gg_meta_delete(&meta, "split.count");
        gg_meta_delete(&meta, "split.tensors.count");
    }
    if (st == GG_OK) st = gg_plan_one_file(&p, output, version_of(t->base), &meta, t->err);
    if (st == GG_OK) st = keep_odd_bytes(t, &p, &pads, &n_pads);
    if (st == GG_OK) st = gg_plan_write(&p, run, &t->report->bytes_written, t->err);
    gg_pads_free(pads, n_pads);
    gg_meta_free(&meta);
    gg_plan_free(&p);
    return st;
}

gg_status gg_transplant(gg_source *base, gg_source *donor, const gg_transplant_options *o,
                        const char *output, const gg_run *run, gg_transplant_report *report, gg_error *err)
{
    gg_move *moves = NULL;
    size_t n = 0;
    *report = (gg_transplant_report){ 0 };
    if (!gg_source_meta(base)) {
        gg_fail(err, GG_EUSAGE, "the base is bare organ records; a model or an organ directory is needed");
        return gg_at_file(err, gg_source_name(base));
    }
    gg_status st = gg_match_tensors(base, donor, &o->match, &moves, &n, err);
    if (st == GG_OK) st = gg_moves_settle(moves, &n, base, donor, o->skip_mismatched, report, err);
    transplant t = { base, donor, moves, n, report, err };
    if (st == GG_OK) st = write_chimera(&t, o, output, run);
    free(moves);
    return st;
}

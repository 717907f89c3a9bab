/* verb_graft.c - writes an organ directory of the base with some organs of the donor. */
#include "grafting.h"

#include "base/buf.h"
#include "organ/manifest.h"
#include "organ/manifest_json.h"
#include "organ/output_guard.h"
#include "organ/record.h"
#include "organ/select.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "verbs/compute/imatrix_use.h"
#include "verbs/organ_dir/organ_dir.h"
#include "verbs/shared/keys.h"
#include "verbs/shared/verb_run.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct graft {
    gg_source *base, *donor;
    gg_organ_dir dir;
    gg_meta meta;
    gg_imatrix *imatrix; /* NULL = none */
    const gg_run *run;
    gg_transplant_report *report;
    gg_error *err;
} graft;

static gg_status no_memory(gg_error *err)
{
    return gg_fail(err, GG_ENOMEM, "no memory for the graft");
}

/* Lists the donor's experts in the same order, unless each has the number of the one it replaced.
 */
static void put_donor_experts(const gg_tensor *stack, const gg_select *select, gg_json_out *o,
                              gg_error *err)
{
    uint64_t n = stack->dims[stack->n_dims - 1];
    bool other = false;
    for (uint64_t e = 0; e < n && !other; e++)
        other = gg_select_expert(select, e) && gg_select_donor_expert(select, e) != e;
    const char *before = ", \"donor_experts\": [";
    for (uint64_t e = 0; e < n && other; e++) {
        char text[64];
        if (!gg_select_expert(select, e)) continue;
        snprintf(text, sizeof text, "%s%llu", before,
                 (unsigned long long)gg_select_donor_expert(select, e));
        gg_json_put_text(o, text, err);
        before = ", ";
    }
    if (other) gg_json_put_text(o, "]", err);
}

/* Lists the experts of the stack that were replaced by the donor's. */
static void put_experts(const gg_tensor *stack, const gg_select *select, gg_json_out *o,
                        gg_error *err)
{
    size_t n = 0;
    for (uint64_t e = 0; e < stack->dims[stack->n_dims - 1]; e++)
        if (gg_select_expert(select, e)) gg_history_expert(o, n++, e, err);
    gg_json_put_text(o, "]", err);
    put_donor_experts(stack, select, o, err);
}

/* {"op": "graft", "from": MODEL, "tensor": NAME, "how": ...} */
static gg_status put_history(const graft *g, gg_dir_item *item, const gg_move *move,
                             const gg_mover *maker)
{
    const gg_tensor *d = gg_source_tensor(g->donor, move->donor);
    gg_buf b = GG_BUF_INIT;
    gg_json_out o = gg_json_to_buf(&b);
    const char *from = gg_source_name(g->donor);
    gg_json_put_text(&o, "{\"op\": \"graft\", \"from\": ", g->err);
    gg_mj_put_bytes(&o, from, strlen(from), g->err);
    gg_json_put_text(&o, ", \"tensor\": ", g->err);
    gg_mj_put_bytes(&o, d->name, d->name_len, g->err);
    gg_json_put_text(&o, ", \"how\": ", g->err);
    const char *how = maker->blend->mode ? maker->blend->text
                      : move->experts    ? "experts"
                                         : gg_move_name(move->kind);
    gg_json_put_string(&o, how, strlen(how), g->err);
    if (move->experts)
        put_experts(gg_source_tensor(g->base, move->base), maker->select, &o, g->err);
    if (gg_source_view_moved(g->donor, move->donor))
        gg_json_put_text(&o, ", \"aligned\": true", g->err);
    gg_json_put_text(&o, "}", g->err);
    if (g->err->status != GG_OK) {
        gg_buf_free(&b);
        return g->err->status;
    }
    item->history = gg_buf_take(&b, NULL);
    return GG_OK;
}

static gg_status add_dir_item(graft *g, const gg_tensor *t, size_t source, gg_dir_item **item)
{
    gg_selected p = { .t = *t, .source = source };
    p.a = source != SIZE_MAX ? gg_source_anatomy(g->base, source)
                             : gg_anatomy_of(t->name, t->name_len);
    return gg_organ_dir_add(&g->dir, &p, item, g->err);
}

static gg_status add_moved(graft *g, gg_mover *maker, const gg_move *move)
{
    gg_tensor out;
    gg_moved_bytes made;
    gg_dir_item *item;
    gg_status st = gg_mover_bytes(maker, move, &out, &made, g->err);
    if (st == GG_OK) st = add_dir_item(g, &out, move->base, &item);
    if (st != GG_OK) return st;
    item->parts = made.parts;
    item->n_parts = made.n_parts;
    item->make = made.p.make;
    item->ctx = made.p.ctx;
    if (move->kind == GG_MOVE_ADD) g->report->added++;
    else g->report->moved++;
    g->report->bytes_moved += out.bytes;
    return put_history(g, item, move, maker);
}

/* Notes what the importance matrix lacks, and names it in the metadata if it is used. */
static gg_status review_imatrix(graft *g)
{
    gg_imatrix_use u = { .imatrix = g->imatrix };
    gg_status st = GG_OK;
    for (size_t i = 0; i < g->dir.n && st == GG_OK; i++)
        if (g->dir.items[i].make) st = gg_imatrix_use_add(&u, &g->dir.items[i].t, g->err);
    if (st == GG_OK) gg_imatrix_use_note(&u, g->run);
    return st == GG_OK && u.used ? gg_imatrix_keys(g->imatrix, &g->meta, g->err) : st;
}

/* Updates the metadata for the new tensors, then writes records and manifest. */
static gg_status finish_directory(graft *g, gg_status st)
{
    gg_tensor *list = NULL;
    if (st == GG_OK) st = gg_organ_dir_names(&g->dir, g->err);
    if (st == GG_OK && !(list = calloc(g->dir.n ? g->dir.n : 1, sizeof *list)))
        st = no_memory(g->err);
    for (size_t i = 0; st == GG_OK && i < g->dir.n; i++) list[i] = g->dir.items[i].t;
    const gg_meta *meta = gg_source_meta(g->base);
    if (st == GG_OK && meta && !g->meta.n) st = gg_meta_copy(&g->meta, meta, g->err);
    if (st == GG_OK) st = gg_type_keys_change(&g->meta, g->base, list, g->dir.n, g->err);
    if (st == GG_OK) st = review_imatrix(g);
    free(list);
    g->dir.meta = &g->meta;
    if (st == GG_OK) st = gg_organ_dir_check(&g->dir, g->err);
    if (st == GG_OK) st = gg_organ_dir_records(&g->dir, g->err);
    st = gg_organ_dir_close(&g->dir, st, g->err);
    gg_meta_free(&g->meta);
    return st;
}

/* Adds the items in the base's order, and then what only the donor has. */
static gg_status add_dir_items(graft *g, gg_mover *maker, const gg_moves *moves)
{
    size_t k = 0;
    gg_status st = GG_OK;
    for (size_t i = 0; i < gg_source_count(g->base) && st == GG_OK; i++) {
        gg_dir_item *item;
        bool here = k < moves->n && moves->list[k].base == i;
        st = here ? add_moved(g, maker, &moves->list[k])
                  : add_dir_item(g, gg_source_tensor(g->base, i), i, &item);
        k += here;
    }
    for (; k < moves->n && st == GG_OK; k++) st = add_moved(g, maker, &moves->list[k]);
    return st;
}

static gg_status graft_donor(graft *g, const gg_transplant_options *o, const char *output,
                             const gg_run *run)
{
    gg_moves moves = { 0 };
    gg_mover maker = { 0 };
    gg_match_options match = o->match;
    gg_error *err = g->err;
    match.weighed = match.weighed || g->imatrix;
    gg_status st = gg_guard_output(output, g->donor, err); /* gg_organ_dir_open guards the base */
    if (st == GG_OK) st = gg_guard_output(output, o->match.blend.ancestor, err);
    if (st == GG_OK) st = gg_match_tensors(g->base, g->donor, &match, &moves, err);
    if (st == GG_OK)
        st = gg_moves_drop_mismatched(&moves, g->base, g->donor, o->skip_mismatched, g->report,
                                      err);
    gg_mover_open(&maker, g->base, g->donor, &o->match);
    maker.list.imatrix = g->imatrix;
    if (st == GG_OK && gg_source_meta(g->base))
        st = gg_added_blocks_meta(g->base, g->donor, &moves, &g->meta, err);
    if (st == GG_OK) st = gg_organ_dir_open(&g->dir, g->base, output, run, err);
    if (st == GG_OK) {
        g->dir.whole = true;
        g->dir.link = o->link;
        st = gg_watch_add(&g->dir.watch, g->donor, err);
        if (st == GG_OK) st = gg_watch_add(&g->dir.watch, o->match.blend.ancestor, err);
        if (st == GG_OK) st = gg_kinship_notes(g->base, g->donor, &moves, run, &g->dir.notes, err);
        if (st == GG_OK) st = add_dir_items(g, &maker, &moves);
        st = finish_directory(g, st);
    }
    gg_mover_close(&maker);
    gg_moves_free(&moves);
    gg_meta_free(&g->meta);
    return st;
}

/* ---- adapters -------------------------------------------------------------------- */

/* {"op": "adapter", "from": MODEL, "scale": S} */
static gg_status put_adapter_history(const graft *g, double scale, gg_dir_item *item)
{
    gg_buf b = GG_BUF_INIT;
    gg_json_out o = gg_json_to_buf(&b);
    const char *from = gg_source_name(g->donor);
    gg_json_put_text(&o, "{\"op\": \"adapter\", \"from\": ", g->err);
    gg_mj_put_bytes(&o, from, strlen(from), g->err);
    gg_json_put_text(&o, ", \"scale\": ", g->err);
    gg_json_put_f64(&o, scale, g->err);
    gg_json_put_text(&o, "}", g->err);
    if (g->err->status == GG_OK) item->history = gg_buf_take(&b, NULL);
    else gg_buf_free(&b);
    return g->err->status;
}

static gg_status add_folded(graft *g, gg_fold *f, double scale, size_t i)
{
    const gg_tensor *t = gg_source_tensor(g->base, i);
    gg_dir_item *item;
    gg_producer p;
    gg_status st = gg_fold_tensor(f, i, &p, g->err);
    if (st == GG_OK) st = add_dir_item(g, t, i, &item);
    if (st != GG_OK || !p.make) return st;
    item->make = p.make;
    item->ctx = p.ctx;
    g->report->moved++;
    g->report->bytes_moved += t->bytes;
    return put_adapter_history(g, scale, item);
}

static gg_status graft_adapter(graft *g, const gg_transplant_options *o, const char *output,
                               const gg_run *run)
{
    gg_fold f;
    gg_status st = gg_fold_open(&f, g->base, g->donor, o->scale, g->err);
    if (st != GG_OK) return st;
    f.list.imatrix = g->imatrix;
    st = gg_organ_dir_open(&g->dir, g->base, output, run, g->err);
    if (st == GG_OK) {
        g->dir.whole = true;
        g->dir.link = o->link;
        st = gg_watch_add(&g->dir.watch, g->donor, g->err);
        for (size_t i = 0; i < gg_source_count(g->base) && st == GG_OK; i++)
            st = add_folded(g, &f, o->scale, i);
        st = finish_directory(g, st);
    }
    gg_fold_close(&f);
    return st;
}

/* ---- either ----------------------------------------------------------------------- */

gg_status gg_transplant_directory(gg_source *base, gg_source *donor, const gg_transplant_options *o,
                                  const char *output, const gg_run *run,
                                  gg_transplant_report *report, gg_error *err)
{
    const char *imatrix = o->output.imatrix;
    graft g = { .base = base, .donor = donor, .run = run, .report = report, .err = err };
    if (!o->adapter && o->match.mtp)
        return gg_fail(err, GG_EUSAGE,
                       "multi-token-prediction blocks can only be moved into a GGUF file");
    gg_status st = imatrix ? gg_imatrix_open(imatrix, &g.imatrix, err) : GG_OK;
    if (st == GG_OK)
        st = o->adapter ? graft_adapter(&g, o, output, run) : graft_donor(&g, o, output, run);
    gg_imatrix_close(g.imatrix);
    return st == GG_OK ? GG_OK
                       : (gg_at_file(err, st == GG_EIO ? output : gg_source_name(base)), st);
}

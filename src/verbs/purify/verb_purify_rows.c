/* verb_purify_rows.c - plans a purification: every tensor of the source, and a row for each
 * selected one. Everything that can be refused is refused here. */
#include "purify_job.h"

#include "base/error.h"
#include "base/grow.h"
#include "organ/manifest.h"
#include "organ/select.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "quant/quant.h"
#include "verbs/shared/selected_tensors.h"
#include "verbs/shared/verb_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *gg_purify_outcome_name(gg_purify_outcome o)
{
    static const char *const names[] = { "purified", "identical", "vector", "integer", "no-codec" };
    return names[o];
}

static bool is_integer(uint32_t dtype)
{
    return dtype >= GG_I8 && dtype <= GG_I64;
}

/* Dtypes that are not used for weights: integers, doubles, and types for dot products only. */
static bool is_rare(uint32_t dtype)
{
    return is_integer(dtype) || dtype == GG_F64 || dtype == GG_Q8_1 || dtype == GG_Q8_K;
}

/* Suggests the dtypes in which rows of `row` values can be encoded. */
static void name_choices(uint64_t row, gg_error *err)
{
    char list[160] = "";
    size_t len = 0;
    const gg_dtype_info *d;
    for (size_t i = 0; (d = gg_dtype_at(i)) != NULL; i++) {
        bool fits = gg_can_encode(d->id) && !is_rare(d->id) && row % d->block_elems == 0;
        if (fits && len + strlen(d->name) + 2 < sizeof list)
            len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", len ? " " : "", d->name);
    }
    gg_fix_hint(err, GG_HINT_DTYPE, "choose one of %s", list);
}

/* ---- rows --------------------------------------------------------------------- */

typedef struct collector {
    purify_job *j;
    const gg_tensor *whole;
    size_t first;
} collector;

/* Unchanged bytes need no encoder. */
static bool stays(const gg_purify_options *o, uint32_t dtype)
{
    return o->strength <= 0 && (!o->dtype || o->dtype->id == dtype);
}

static gg_status check_target(const purify_job *j, const gg_tensor *t, uint32_t dtype,
                              gg_error *err)
{
    uint64_t bytes;
    gg_error why = GG_ERROR_INIT;
    bool needs = gg_encode_needs_imatrix(dtype), has = false;
    if (stays(j->o, t->dtype)) return GG_OK;
    if (needs && j->imatrix && gg_imatrix_check(j->imatrix, t, true, &has, err) != GG_OK)
        return err->status;
    if (needs && !has) {
        gg_fail(err, GG_EUNSUPPORTED,
                j->imatrix ? "the importance matrix lacks it, and %s needs one"
                           : "%s cannot be encoded without an importance matrix",
                gg_dtype_name(dtype));
    } else if (!needs && !gg_can_encode(dtype)) {
        gg_fail(err, GG_EUNSUPPORTED, "there is no encoder for %s", gg_dtype_name(dtype));
    } else if (gg_row_bytes(dtype, t->n_dims ? t->dims[0] : 1, &bytes, &why) != GG_OK) {
        gg_fail(err, GG_EUNSUPPORTED, "rows of %llu values cannot be %s",
                (unsigned long long)t->dims[0], gg_dtype_name(dtype));
    } else {
        return GG_OK;
    }
    name_choices(t->n_dims ? t->dims[0] : 1, err);
    return gg_at_tensor(err, t->name, t->name_len);
}

static gg_status classify(const purify_job *j, const gg_selected *p, gg_purify_row *r,
                          gg_error *err)
{
    bool named = gg_select_by_name(j->o->select, p->t.name);
    uint32_t dims = p->t.n_dims - (p->a.stack && p->t.n_dims ? 1 : 0);
    r->outcome = GG_PURIFY_DONE;
    r->dtype = j->o->dtype ? j->o->dtype->id : p->t.dtype;
    if (!gg_can_decode(p->t.dtype)) r->outcome = GG_PURIFY_NO_CODEC;
    else if (is_integer(p->t.dtype) && !named) r->outcome = GG_PURIFY_INTEGER;
    else if (dims < 2 && !named && !j->sole) r->outcome = GG_PURIFY_VECTOR;
    else return check_target(j, &p->t, r->dtype, err);
    r->dtype = p->t.dtype;
    if (r->outcome != GG_PURIFY_NO_CODEC || !named) return GG_OK;
    gg_fail(err, GG_EUNSUPPORTED, "no codec decodes %s", gg_dtype_name(p->t.dtype));
    return gg_at_tensor(err, p->t.name, p->t.name_len);
}

static gg_status add_row(void *ctx, const gg_selected *p, gg_error *err)
{
    collector *c = ctx;
    purify_job *j = c->j;
    purify_row *grown = gg_grow(j->rows, j->n_rows, &j->cap_rows, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    j->rows = grown;
    purify_row *row = &j->rows[j->n_rows];
    *row = (purify_row){ .r = { .t = p->t, .a = p->a } };
    row->r.t.name = p->expert ? gg_names_add(&j->names, p->t.name, p->t.name_len, err)
                              : c->whole->name;
    if (!row->r.t.name) return GG_ENOMEM;
    if (p->expert) row->expert = p->at / (p->t.bytes ? p->t.bytes : 1);
    purify_unit *u = &j->units[j->n_units];
    u->experts = p->expert;
    gg_status st = classify(j, p, &row->r, err);
    j->n_rows += st == GG_OK;
    u->n += st == GG_OK;
    return st;
}

/* ---- units ----------------------------------------------------------------------- */

/* A tensor has one dtype, so all experts of a stack must have the same dtype. */
static gg_status set_dtype(const purify_job *j, purify_unit *u, gg_error *err)
{
    uint64_t experts;
    uint32_t dtype = u->t.dtype;
    for (size_t i = u->first; i < u->first + u->n; i++) {
        const gg_purify_row *r = &j->rows[i].r;
        if (r->outcome != GG_PURIFY_DONE) continue;
        u->touched = true;
        dtype = r->dtype;
    }
    if (dtype == u->t.dtype) return GG_OK;
    if (u->experts && gg_is_expert_stack(&u->t, &experts) && experts != u->n) {
        gg_fail(err, GG_EUSAGE, "all experts of a stack must have the same dtype");
        gg_fix_hint(err, GG_HINT_WHOLE_STACK,
                    "keep the dtype, select all experts, or split the experts first");
        return gg_at_tensor(err, u->t.name, u->t.name_len);
    }
    u->t.dtype = dtype;
    return gg_tensor_extent(dtype, u->t.n_dims, u->t.dims, NULL, &u->t.bytes, err);
}

gg_status gg_purify_plan(purify_job *j, size_t i, gg_error *err)
{
    purify_unit *grown = gg_grow(j->units, j->n_units, &j->cap_units, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    j->units = grown;
    const gg_manifest *m = gg_source_manifest(j->source);
    purify_unit *u = &j->units[j->n_units];
    *u = (purify_unit){
        .job = j, .source = i, .t = *gg_source_tensor(j->source, i), .first = j->n_rows
    };
    u->sha256 = m ? m->entries[i].sha256 : NULL;
    collector c = { j, &u->t, j->n_rows };
    gg_visit visit = { j->o->select, false, add_row, &c };
    gg_status st = gg_selected_of(j->source, i, &visit, err);
    if (st == GG_OK) st = set_dtype(j, u, err);
    if (st == GG_OK && u->touched) st = gg_imatrix_use_add(&j->weighed, &u->t, err);
    j->n_units += st == GG_OK;
    return st;
}

gg_status gg_purify_plan_all(purify_job *j, gg_error *err)
{
    gg_status st = GG_OK;
    j->sole = !gg_source_meta(j->source) && gg_source_count(j->source) == 1;
    for (size_t i = 0; i < gg_source_count(j->source) && st == GG_OK; i++)
        st = gg_purify_plan(j, i, err);
    uint64_t total = 0;
    for (size_t i = 0; i < j->n_units; i++)
        total += gg_source_tensor(j->source, j->units[i].source)->bytes;
    gg_progress_total(j->run, total);
    return st;
}

static gg_status check_rows(const purify_job *j, gg_error *err)
{
    const gg_select_when end = { .end = true };
    gg_status st = gg_select_check(j->o->select, j->source, NULL, &end, err);
    if (st != GG_OK) return st;
    for (size_t i = 0; i < j->n_rows; i++)
        if (j->rows[i].r.outcome <= GG_PURIFY_IDENTICAL) return GG_OK;
    if (j->n_rows == 0 && gg_select_empty(j->o->select)) return GG_OK;
    if (j->n_rows == 0) {
        gg_fail(err, GG_NO, "no tensor is selected");
        return gg_fix_hint(err, GG_HINT_LIST_TENSORS, "list the names of its tensors");
    }
    gg_fail(err, GG_NO, "no selected tensor is a matrix of floating-point or quantized values");
    return gg_fix_hint(err, GG_HINT_TENSORS, "to purify a vector, select it by its exact name");
}

gg_status gg_purify_plan_check(const purify_job *j, gg_error *err)
{
    gg_status st = check_rows(j, err);
    if (st == GG_OK) gg_imatrix_use_note(&j->weighed, j->run);
    return st;
}

/* patch_write.c - makes patches. */
#include "patch_write.h"

#include "base/cursor.h"
#include "base/parallel.h"
#include "organ/source_layout.h"
#include "write/keys.h"
#include "write/plan.h"
#include "write/verb_run.h"

#include <stdlib.h>
#include <string.h>

#define STEP ((size_t)256 << 10)

typedef struct diff {
    gg_source *a, *b;
    const gg_model *model; /* the model of b */
    const gg_run *run;
    char sha[2][65];
    bool *changed;                /* per tensor of b */
    gg_patch_lists tensors, keys; /* has_order: the default order differs from the order in b */
    gg_pad *pads;
    size_t n_pads;
    uint64_t trailing;
} diff;

/* ---- tensors ------------------------------------------------------------------------ */

static gg_status same_bytes(const diff *d, size_t ia, size_t ib, bool *same, gg_error *err)
{
    gg_data x, y;
    gg_status st = gg_data_open(d->a, ia, &x, err);
    if (st == GG_OK && (st = gg_data_open(d->b, ib, &y, err)) != GG_OK) gg_data_close(&x);
    if (st != GG_OK) return st;
    size_t most = x.bytes < STEP ? (size_t)x.bytes : STEP;
    uint8_t *buf = malloc(2 * most + 1);
    if (!buf) st = gg_fail(err, GG_ENOMEM, "no memory for a buffer");
    *same = true;
    for (uint64_t at = 0; at < x.bytes && *same && st == GG_OK; at += most) {
        size_t n = x.bytes - at < most ? (size_t)(x.bytes - at) : most;
        st = gg_data_read(&x, at, buf, n, err);
        if (st == GG_OK) st = gg_data_read(&y, at, buf + most, n, err);
        if (st == GG_OK) *same = memcmp(buf, buf + most, n) == 0;
    }
    gg_data_close(&x);
    gg_data_close(&y);
    free(buf);
    return st;
}

/* Tasks 0 and 1 hash the files. Each other task compares one tensor of B. */
static gg_status compare_task(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    diff *d = ctx;
    (void)worker;
    if (i < 2) return gg_patch_file_sha256(i == 0 ? d->a : d->b, d->sha[i], d->run, err);
    size_t ib = i - 2;
    const gg_tensor *t = gg_source_tensor(d->b, ib);
    size_t ia = gg_source_find(d->a, t->name, t->name_len);
    const gg_tensor *was = ia == SIZE_MAX ? NULL : gg_source_tensor(d->a, ia);
    bool same = was && was->n_dims == t->n_dims && was->dtype == t->dtype && gg_same_dims(was, t);
    gg_status st = same ? same_bytes(d, ia, ib, &same, err) : GG_OK;
    d->changed[ib] = !same;
    gg_progress_add(d->run, t->bytes);
    return st;
}

/* ---- lists -------------------------------------------------------------------------- */

/* Per key of b. */
static gg_status changed_keys(const diff *d, bool *changed, gg_error *err)
{
    const gg_meta *a = gg_source_meta(d->a), *b = gg_source_meta(d->b);
    gg_meta_order in_a = { 0 };
    gg_status st = gg_meta_order_make(a, &in_a, err);
    for (size_t i = 0; i < b->n && st == GG_OK; i++) {
        const gg_kv *was = gg_meta_order_find(&in_a, b->kv[i].key, b->kv[i].key_len);
        changed[i] = !(was && gg_same_value(was, &b->kv[i]));
    }
    free(in_a.list);
    return st;
}

/* Lists what the patch has and deletes, and whether the default order differs from that of b. */
static gg_status take_changes(gg_patch_lists *l, const bool *changed, gg_error *err)
{
    gg_patch_names made = { 0 };
    gg_status st = gg_patch_sort(&l->order, err);
    for (size_t i = 0; i < l->base.n && st == GG_OK; i++)
        if (!gg_patch_find(&l->order, &l->base.list[i]))
            st = gg_patch_add(&l->deleted, &l->base.list[i], err);
    for (size_t i = 0; i < l->order.n && st == GG_OK; i++)
        if (changed[i]) st = gg_patch_add(&l->patch, &l->order.list[i], err);
    if (st == GG_OK) st = gg_patch_merge(l, &made, err);
    l->has_order = made.n != l->order.n;
    for (size_t i = 0; i < made.n && !l->has_order; i++)
        l->has_order = gg_patch_name_order(&made.list[i], &l->order.list[i]) != 0;
    gg_patch_names_free(&made);
    return st;
}

static gg_status list_changes(diff *d, gg_error *err)
{
    bool *keys = calloc(gg_source_meta(d->b)->n + 1, sizeof *keys);
    gg_status st = keys ? changed_keys(d, keys, err)
                        : gg_fail(err, GG_ENOMEM, "no memory for the metadata");
    if (st == GG_OK) st = gg_patch_keys(d->a, false, &d->keys.base, err);
    if (st == GG_OK) st = gg_patch_keys(d->b, false, &d->keys.order, err);
    if (st == GG_OK) st = gg_patch_tensors(d->a, false, &d->tensors.base, err);
    if (st == GG_OK) st = gg_patch_tensors(d->b, false, &d->tensors.order, err);
    if (st == GG_OK) st = take_changes(&d->tensors, d->changed, err);
    if (st == GG_OK) st = take_changes(&d->keys, keys, err);
    free(keys);
    return st;
}

/* ---- the file ------------------------------------------------------------------------ */

static gg_status put_names(gg_meta *meta, const char *key, const gg_patch_names *names,
                           gg_error *err)
{
    gg_buf bytes = GG_BUF_INIT;
    gg_status st = GG_OK;
    for (size_t i = 0; i < names->n && st == GG_OK; i++)
        st = gg_array_add_str(&bytes, names->list[i].name, names->list[i].len, err);
    if (st == GG_OK) st = gg_meta_set_array(meta, key, GG_TYPE_STR, names->n, &bytes, err);
    gg_buf_free(&bytes);
    return st;
}

/* Padding that differs from the usual zeros: the place (0 = after the header, i = after tensor
 * i - 1 of the result), the number of bytes, and the bytes of all pads. */
static gg_status put_padding(const diff *d, gg_meta *meta, gg_error *err)
{
    gg_buf lists[3] = { GG_BUF_INIT, GG_BUF_INIT, GG_BUF_INIT };
    gg_status st = GG_OK;
    for (size_t i = 0; i < d->n_pads && st == GG_OK; i++) {
        const gg_pad *pad = &d->pads[i];
        uint8_t le[8];
        gg_put_le64(le, pad->after ? gg_source_find(d->b, pad->after, pad->after_len) + 1 : 0);
        st = gg_buf_append(&lists[0], le, 8, err);
        gg_put_le64(le, pad->n);
        if (st == GG_OK) st = gg_buf_append(&lists[1], le, 8, err);
        if (st == GG_OK) st = gg_buf_append(&lists[2], pad->bytes, pad->n, err);
    }
    if (st == GG_OK)
        st = gg_meta_set_array(meta, GG_PATCH_PAD_AFTER, GG_TYPE_U64, d->n_pads, &lists[0], err);
    if (st == GG_OK)
        st = gg_meta_set_array(meta, GG_PATCH_PAD_SIZES, GG_TYPE_U64, d->n_pads, &lists[1], err);
    if (st == GG_OK)
        st = gg_meta_set_array(meta, GG_PATCH_PAD_BYTES, GG_TYPE_U8, lists[2].len, &lists[2], err);
    for (int k = 0; k < 3; k++) gg_buf_free(&lists[k]);
    return st;
}

static gg_status make_meta(const diff *d, gg_meta *meta, gg_error *err)
{
    const gg_meta *b = gg_source_meta(d->b);
    gg_status st = gg_meta_set_u32(meta, GG_PATCH_VERSION, 1, err);
    if (st == GG_OK) st = gg_meta_set_str(meta, GG_PATCH_BASE, d->sha[0], 64, err);
    if (st == GG_OK) st = gg_meta_set_str(meta, GG_PATCH_RESULT, d->sha[1], 64, err);
    if (st == GG_OK) st = put_names(meta, GG_PATCH_DELETE_KEYS, &d->keys.deleted, err);
    if (st == GG_OK) st = put_names(meta, GG_PATCH_DELETE_TENSORS, &d->tensors.deleted, err);
    if (st == GG_OK && d->keys.has_order)
        st = put_names(meta, GG_PATCH_ORDER_KEYS, &d->keys.order, err);
    if (st == GG_OK && d->tensors.has_order)
        st = put_names(meta, GG_PATCH_ORDER_TENSORS, &d->tensors.order, err);
    if (st == GG_OK && d->n_pads) st = put_padding(d, meta, err);
    for (size_t i = 0; i < d->keys.patch.n && st == GG_OK; i++)
        st = gg_meta_append(meta, &b->kv[d->keys.patch.list[i].index], err);
    return st;
}

/* Stores the bytes after the last tensor of B as a tensor of the patch. */
static gg_status copy_trailing(void *ctx, const gg_target *to, gg_error *err)
{
    const diff *d = ctx;
    const gg_model *m = d->model;
    gg_place from = { m->fds[0], m->file_sizes[0] - to->t->bytes };
    return gg_copy(m->paths[0], from, (gg_place){ to->fd, to->at }, to->t->bytes, err);
}

static gg_status add_trailing(diff *d, gg_plan *p, gg_error *err)
{
    gg_tensor t = { .name = GG_PATCH_TRAILING,
                    .name_len = strlen(GG_PATCH_TRAILING),
                    .n_dims = 1,
                    .dims = { d->trailing, 1, 1, 1 },
                    .dtype = gg_dtype_by_name("I8")->id };
    return gg_plan_add_made(p, &t, copy_trailing, d, err);
}

static gg_status write_file(diff *d, const char *output, gg_patch_report *r, gg_error *err)
{
    gg_plan p = { 0 };
    gg_meta meta = GG_META_INIT;
    gg_run quiet = *d->run; /* the rules for models do not apply to a patch */
    quiet.note = NULL;
    quiet.strict = false;
    gg_status st = make_meta(d, &meta, err);
    for (size_t i = 0; i < d->tensors.patch.n && st == GG_OK; i++)
        st = gg_plan_add_copy(&p, d->b, d->tensors.patch.list[i].index, err);
    if (st == GG_OK && d->trailing) st = add_trailing(d, &p, err);
    if (st == GG_OK) st = gg_plan_one_file(&p, output, d->model->files[0]->version, &meta, err);
    if (st == GG_OK) st = gg_watch_add(&p.watch, d->a, err);
    if (st == GG_OK) st = gg_watch_add(&p.watch, d->b, err);
    if (st == GG_OK) st = gg_plan_write(&p, &quiet, &r->bytes, err);
    gg_meta_free(&meta);
    gg_plan_free(&p);
    return st;
}

static gg_status refuse_patch(const diff *d, gg_error *err)
{
    const gg_meta *b = gg_source_meta(d->b);
    bool own = gg_source_find(d->b, GG_PATCH_TRAILING, strlen(GG_PATCH_TRAILING)) != SIZE_MAX;
    for (size_t i = 0; i < b->n && !own; i++) own = gg_is_patch_key(b->kv[i].key, b->kv[i].key_len);
    if (!own) return GG_OK;
    gg_fail_in(err, GG_EUSAGE, d->b, NULL,
               "it is already a patch, and a patch cannot be made from another patch");
    return gg_fix(err, "apply it to its base first, with organ-transplant");
}

static gg_status find_differences(diff *d, gg_error *err)
{
    size_t n = gg_source_count(d->b);
    d->changed = calloc(n + 1, sizeof *d->changed);
    if (!d->changed) return gg_fail(err, GG_ENOMEM, "no memory for %zu tensors", n);
    uint64_t total = gg_source_model(d->a)->file_sizes[0] + d->model->file_sizes[0];
    for (size_t i = 0; i < n; i++) total += gg_source_tensor(d->b, i)->bytes;
    gg_progress_total(d->run, total);
    gg_status st = gg_parallel(n + 2, d->run->threads, compare_task, d, err);
    if (st == GG_OK) st = list_changes(d, err);
    if (st == GG_OK) st = gg_source_pads(d->b, 0, &d->pads, &d->n_pads, err);
    d->trailing = gg_source_trailing(d->b, 0);
    return st;
}

gg_status gg_patch_write(gg_source *a, gg_source *b, const char *output, const gg_run *run,
                         gg_patch_report *report, gg_error *err)
{
    report = GG_REPORT(gg_patch_report, report);
    run = GG_OPTIONS(gg_run, run);
    diff d = { .a = a, .b = b, .model = gg_source_model(b), .run = run };
    gg_status st = gg_patch_needs_one_file(a, err);
    if (st == GG_OK) st = gg_patch_needs_one_file(b, err);
    if (st == GG_OK) st = refuse_patch(&d, err);
    if (st == GG_OK) st = find_differences(&d, err);
    if (st == GG_OK) st = write_file(&d, output, report, err);
    gg_patch_count_and_free(&d.tensors, &d.keys, report);
    gg_pads_free(d.pads, d.n_pads);
    free(d.changed);
    return st;
}

/* patch_write.c - writes a GGUF file with the changes that turn A into B. */
#include "patch_format.h"

#include "base/buf.h"
#include "base/cursor.h"
#include "base/io.h"
#include "base/parallel.h"
#include "gguf/gguf.h"
#include "organ/source_layout.h"
#include "verbs/plan/plan.h"
#include "verbs/shared/verb_run.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define STEP ((size_t)256 << 10)

typedef struct diff {
    gg_source *a, *b;
    const gg_model *model; /* the model of b */
    const gg_run *run;
    char sha[2][65];
    bool *changed; /* per tensor of b */
    patch_lists tensors, keys;
    bool order_tensors, order_keys; /* the default order differs from the order in b */
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
static gg_status task(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    diff *d = ctx;
    (void)worker;
    if (i < 2) return gg_patch_hash(i == 0 ? d->a : d->b, d->sha[i], d->run, err);
    size_t ib = i - 2;
    const gg_tensor *t = gg_source_tensor(d->b, ib);
    size_t ia = gg_source_find(d->a, t->name, t->name_len);
    const gg_tensor *was = ia == SIZE_MAX ? NULL : gg_source_tensor(d->a, ia);
    bool same = was && was->n_dims == t->n_dims && was->dtype == t->dtype &&
                memcmp(was->dims, t->dims, sizeof t->dims) == 0;
    gg_status st = same ? same_bytes(d, ia, ib, &same, err) : GG_OK;
    d->changed[ib] = !same;
    gg_progress_add(d->run, t->bytes);
    return st;
}

static gg_status compare_tensors(diff *d, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < gg_source_count(d->a) && st == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(d->a, i);
        st = gg_patch_names_add(&d->tensors.base, t->name, t->name_len, i, err);
        if (st == GG_OK && gg_source_find(d->b, t->name, t->name_len) == SIZE_MAX)
            st = gg_patch_names_add(&d->tensors.deleted, t->name, t->name_len, i, err);
    }
    for (size_t i = 0; i < gg_source_count(d->b) && st == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(d->b, i);
        st = gg_patch_names_add(&d->tensors.order, t->name, t->name_len, i, err);
        if (st == GG_OK && d->changed[i])
            st = gg_patch_names_add(&d->tensors.patch, t->name, t->name_len, i, err);
    }
    return st;
}

/* ---- keys --------------------------------------------------------------------------- */

static bool same_value(const gg_kv *a, const gg_kv *b)
{
    return a->type == b->type && a->elem_type == b->elem_type && a->count == b->count &&
           a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

static gg_status list_keys(diff *d, gg_error *err)
{
    const gg_meta *a = gg_source_meta(d->a), *b = gg_source_meta(d->b);
    gg_meta_order in_a = { 0 }, in_b = { 0 };
    gg_status st = gg_meta_order_make(a, &in_a, err);
    if (st == GG_OK) st = gg_meta_order_make(b, &in_b, err);
    for (size_t i = 0; i < a->n && st == GG_OK; i++) {
        const gg_kv *kv = &a->kv[i];
        st = gg_patch_names_add(&d->keys.base, kv->key, kv->key_len, i, err);
        if (st == GG_OK && !gg_meta_order_find(&in_b, kv->key, kv->key_len))
            st = gg_patch_names_add(&d->keys.deleted, kv->key, kv->key_len, i, err);
    }
    for (size_t i = 0; i < b->n && st == GG_OK; i++) {
        const gg_kv *kv = &b->kv[i], *was = gg_meta_order_find(&in_a, kv->key, kv->key_len);
        st = gg_patch_names_add(&d->keys.order, kv->key, kv->key_len, i, err);
        if (st == GG_OK && !(was && same_value(was, kv)))
            st = gg_patch_names_add(&d->keys.patch, kv->key, kv->key_len, i, err);
    }
    free(in_a.list);
    free(in_b.list);
    return st;
}

/* Whether the default order differs from the order in B. */
static gg_status needs_order(const patch_lists *l, bool *needed, gg_error *err)
{
    patch_pick *picks = NULL;
    size_t n = 0;
    gg_status st = gg_patch_merge(l, &picks, &n, err);
    *needed = n != l->order.n;
    for (size_t i = 0; i < n && !*needed; i++) {
        const patch_name *x = picks[i].patch ? &l->patch.list[picks[i].index]
                                             : &l->base.list[picks[i].index];
        const patch_name *y = &l->order.list[i];
        *needed = x->len != y->len || memcmp(x->name, y->name, x->len) != 0;
    }
    free(picks);
    return st;
}

/* ---- the file ------------------------------------------------------------------------ */

static gg_status put_names(gg_meta *meta, const char *key, const patch_names *names, gg_error *err)
{
    gg_buf data = GG_BUF_INIT;
    gg_status st = gg_buf_reserve(&data, 1, err);
    for (size_t i = 0; i < names->n && st == GG_OK; i++) {
        uint8_t le[8];
        gg_put_le64(le, names->list[i].len);
        st = gg_buf_append(&data, le, 8, err);
        if (st == GG_OK) st = gg_buf_append(&data, names->list[i].name, names->list[i].len, err);
    }
    gg_kv kv = { key,      strlen(key),          GG_TYPE_ARR, GG_TYPE_STR,
                 names->n, (uint8_t *)data.data, data.len };
    if (st == GG_OK) st = gg_meta_set(meta, &kv, err);
    gg_buf_free(&data);
    return st;
}

static gg_status put_array(gg_meta *meta, const char *key, uint32_t type, const gg_buf *data,
                           gg_error *err)
{
    size_t size = gg_type_size(type);
    gg_kv kv = { key,      strlen(key), GG_TYPE_ARR, type, data->len / size, (uint8_t *)data->data,
                 data->len };
    return gg_meta_set(meta, &kv, err);
}

/* Padding that differs from the usual zeros: the place (0 = after the header, i = after tensor
 * i - 1 of the result), the number of bytes, and the bytes of all pads. */
static gg_status put_padding(const diff *d, gg_meta *meta, gg_error *err)
{
    gg_buf lists[3] = { GG_BUF_INIT, GG_BUF_INIT, GG_BUF_INIT };
    gg_status st = GG_OK;
    for (int k = 0; k < 3 && st == GG_OK; k++) st = gg_buf_reserve(&lists[k], 1, err);
    for (size_t i = 0; i < d->n_pads && st == GG_OK; i++) {
        const gg_pad *pad = &d->pads[i];
        uint8_t le[8];
        gg_put_le64(le, pad->after ? gg_source_find(d->b, pad->after, pad->after_len) + 1 : 0);
        st = gg_buf_append(&lists[0], le, 8, err);
        gg_put_le64(le, pad->n);
        if (st == GG_OK) st = gg_buf_append(&lists[1], le, 8, err);
        if (st == GG_OK) st = gg_buf_append(&lists[2], pad->bytes, pad->n, err);
    }
    if (st == GG_OK) st = put_array(meta, PATCH_PAD_AFTER, GG_TYPE_U64, &lists[0], err);
    if (st == GG_OK) st = put_array(meta, PATCH_PAD_SIZES, GG_TYPE_U64, &lists[1], err);
    if (st == GG_OK) st = put_array(meta, PATCH_PAD_BYTES, GG_TYPE_U8, &lists[2], err);
    for (int k = 0; k < 3; k++) gg_buf_free(&lists[k]);
    return st;
}

static gg_status make_meta(const diff *d, gg_meta *meta, gg_error *err)
{
    const gg_meta *b = gg_source_meta(d->b);
    gg_status st = gg_meta_set_u32(meta, PATCH_VERSION, 1, err);
    if (st == GG_OK) st = gg_meta_set_str(meta, PATCH_BASE, d->sha[0], 64, err);
    if (st == GG_OK) st = gg_meta_set_str(meta, PATCH_RESULT, d->sha[1], 64, err);
    if (st == GG_OK) st = put_names(meta, PATCH_DELETE_KEYS, &d->keys.deleted, err);
    if (st == GG_OK) st = put_names(meta, PATCH_DELETE_TENSORS, &d->tensors.deleted, err);
    if (st == GG_OK && d->order_keys) st = put_names(meta, PATCH_ORDER_KEYS, &d->keys.order, err);
    if (st == GG_OK && d->order_tensors)
        st = put_names(meta, PATCH_ORDER_TENSORS, &d->tensors.order, err);
    if (st == GG_OK && d->n_pads) st = put_padding(d, meta, err);
    gg_meta own = { .kv = malloc((b->n + 1) * sizeof *own.kv) };
    if (!own.kv) return gg_fail(err, GG_ENOMEM, "no memory for the metadata");
    for (size_t i = 0; i < d->keys.patch.n; i++)
        own.kv[own.n++] = b->kv[d->keys.patch.list[i].index];
    if (st == GG_OK) st = gg_meta_copy(meta, &own, err);
    free(own.kv);
    return st;
}

/* Stores the bytes after the last tensor of B as a tensor of the patch. */
static gg_status copy_trailing(void *ctx, const gg_target *to, gg_error *err)
{
    const diff *d = ctx;
    const gg_model *m = d->model;
    gg_place from = { m->fds[0], m->file_sizes[0] - to->t->bytes };
    return gg_copy_from(m->paths[0], from, (gg_place){ to->fd, to->at }, to->t->bytes, err);
}

static gg_status add_trailing(diff *d, gg_plan *p, gg_error *err)
{
    gg_plan_tensor *pt;
    gg_tensor t = { .name = PATCH_TRAILING,
                    .name_len = strlen(PATCH_TRAILING),
                    .n_dims = 1,
                    .dims = { d->trailing, 1, 1, 1 },
                    .dtype = gg_dtype_by_name("I8")->id };
    gg_status st = gg_tensor_extent(t.dtype, 1, t.dims, &t.elements, &t.bytes, err);
    if (st == GG_OK) st = gg_plan_add(p, &t, &pt, err);
    if (st != GG_OK) return st;
    pt->make = copy_trailing;
    pt->ctx = d;
    return GG_OK;
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
    bool own = gg_source_find(d->b, PATCH_TRAILING, strlen(PATCH_TRAILING)) != SIZE_MAX;
    for (size_t i = 0; i < b->n && !own; i++) own = gg_patch_is_own(b->kv[i].key, b->kv[i].key_len);
    if (!own) return GG_OK;
    gg_fail(err, GG_EUSAGE, "it is already a patch, and a patch cannot be made from another patch");
    gg_fix(err, "apply it to its base first, with organ-transplant");
    return gg_at_file(err, gg_source_name(d->b));
}

static gg_status find_differences(diff *d, gg_error *err)
{
    size_t n = gg_source_count(d->b);
    d->changed = calloc(n + 1, sizeof *d->changed);
    if (!d->changed) return gg_fail(err, GG_ENOMEM, "no memory for %zu tensors", n);
    uint64_t total = gg_source_model(d->a)->file_sizes[0] + d->model->file_sizes[0];
    for (size_t i = 0; i < n; i++) total += gg_source_tensor(d->b, i)->bytes;
    gg_progress_total(d->run, total);
    gg_status st = gg_parallel(n + 2, d->run->threads, task, d, err);
    if (st == GG_OK) st = compare_tensors(d, err);
    if (st == GG_OK) st = list_keys(d, err);
    if (st == GG_OK) st = needs_order(&d->tensors, &d->order_tensors, err);
    if (st == GG_OK) st = needs_order(&d->keys, &d->order_keys, err);
    if (st == GG_OK) st = gg_source_pads(d->b, 0, &d->pads, &d->n_pads, err);
    d->trailing = gg_source_trailing(d->b, 0);
    return st;
}

gg_status gg_patch_write(gg_source *a, gg_source *b, const char *output, const gg_run *run,
                         gg_patch_report *report, gg_error *err)
{
    report = GG_REPORT(gg_patch_report, report);
    run = GG_OPTIONS(gg_run, run);
    *report = (gg_patch_report){ 0 };
    diff d = { .a = a, .b = b, .model = gg_source_model(b), .run = run };
    gg_status st = gg_patch_check_file(a, err);
    if (st == GG_OK) st = gg_patch_check_file(b, err);
    if (st == GG_OK) st = refuse_patch(&d, err);
    if (st == GG_OK) st = find_differences(&d, err);
    if (st == GG_OK) st = write_file(&d, output, report, err);
    gg_patch_lists_end(&d.tensors, &d.keys, report);
    gg_pads_free(d.pads, d.n_pads);
    free(d.changed);
    return st;
}

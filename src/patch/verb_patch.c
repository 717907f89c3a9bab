/* verb_patch.c - makes and applies patches. */
#include "patch/gg_patch.h"

#include "base/buf.h"
#include "base/cursor.h"
#include "base/grow.h"
#include "base/io.h"
#include "base/parallel.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "organ/output_guard.h"
#include "organ/source_layout.h"
#include "write/copy.h"
#include "write/keys.h"
#include "write/plan.h"
#include "write/verb_run.h"

#include <stdlib.h>
#include <string.h>

#define PATCH_PREFIX "patch."
#define PATCH_VERSION "patch.version"
#define PATCH_BASE "patch.base.sha256"
#define PATCH_RESULT "patch.result.sha256"
#define PATCH_DELETE_KEYS "patch.delete.keys"
#define PATCH_DELETE_TENSORS "patch.delete.tensors"
#define PATCH_ORDER_KEYS "patch.order.keys"
#define PATCH_ORDER_TENSORS "patch.order.tensors"
#define PATCH_PAD_AFTER "patch.padding.after"
#define PATCH_PAD_SIZES "patch.padding.sizes"
#define PATCH_PAD_BYTES "patch.padding.bytes"
#define PATCH_TRAILING "patch.trailing" /* a tensor */

/* A key or tensor of the base or the patch. */
typedef struct patch_name {
    const char *name;
    size_t len, index; /* index: in the base, or in the patch */
    bool patch;
} patch_name;

/* A list of names in the order in which they were added. */
typedef struct patch_names {
    patch_name *list;
    size_t n, cap;
    patch_name *sorted; /* by name, for find_name; NULL until sort_names */
} patch_names;

/* The inputs of a merge, for keys or for tensors. */
typedef struct patch_lists {
    patch_names base, patch, deleted;
    patch_names order; /* all names of the result; used if has_order */
    bool has_order;
} patch_lists;

static gg_status add_name(patch_names *names, const patch_name *one, gg_error *err)
{
    if (GG_ROOM(names->list, names->n, &names->cap, err) != GG_OK) return GG_ENOMEM;
    names->list[names->n++] = *one;
    return GG_OK;
}

static void names_free(patch_names *names)
{
    free(names->list);
    free(names->sorted);
    *names = (patch_names){ 0 };
}

/* Counts the entries of a patch in the report, and frees both lists. */
static void count_and_free_lists(patch_lists *tensors, patch_lists *keys, gg_patch_report *report)
{
    patch_lists *const both[] = { tensors, keys };
    report->tensors = tensors->patch.n;
    report->keys = keys->patch.n;
    report->deleted_tensors = tensors->deleted.n;
    report->deleted_keys = keys->deleted.n;
    for (int i = 0; i < 2; i++) {
        names_free(&both[i]->base);
        names_free(&both[i]->patch);
        names_free(&both[i]->deleted);
        names_free(&both[i]->order);
    }
}

/* begins with "patch." */
static bool is_patch_key(const char *name, size_t len)
{
    size_t n = strlen(PATCH_PREFIX);
    return len >= n && memcmp(name, PATCH_PREFIX, n) == 0;
}

/* Lists the keys, of a patch without its own. */
static gg_status list_keys(const gg_source *s, bool patch, patch_names *out, gg_error *err)
{
    const gg_meta *meta = gg_source_meta(s);
    gg_status st = GG_OK;
    for (size_t i = 0; i < meta->n && st == GG_OK; i++) {
        patch_name one = { meta->kv[i].key, meta->kv[i].key_len, i, patch };
        if (!patch || !is_patch_key(one.name, one.len)) st = add_name(out, &one, err);
    }
    return st;
}

static gg_status list_tensors(const gg_source *s, bool patch, patch_names *out, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < gg_source_count(s) && st == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(s, i);
        patch_name one = { t->name, t->name_len, i, patch };
        if (!patch || !gg_text_is(t->name, t->name_len, PATCH_TRAILING))
            st = add_name(out, &one, err);
    }
    return st;
}

static int by_patch_name(const void *a, const void *b)
{
    const patch_name *x = a, *y = b;
    return gg_text_order(x->name, x->len, y->name, y->len);
}

/* To be called when the list is complete. */
static gg_status sort_names(patch_names *names, gg_error *err)
{
    if (names->sorted) return GG_OK;
    names->sorted = malloc((names->n + 1) * sizeof *names->sorted);
    if (!names->sorted) return gg_fail(err, GG_ENOMEM, "no memory for an order");
    if (names->n) memcpy(names->sorted, names->list, names->n * sizeof *names->list);
    qsort(names->sorted, names->n, sizeof *names->sorted, by_patch_name);
    return GG_OK;
}

static const patch_name *find_name(const patch_names *in, const patch_name *name)
{
    return bsearch(name, in->sorted, in->n, sizeof *in->sorted, by_patch_name);
}

/* Puts the names of the result in another order, which must have each of them once. */
static gg_status put_in_order(patch_names *order, patch_names *out, gg_error *err)
{
    gg_status st = sort_names(order, err);
    if (st == GG_OK) st = sort_names(out, err);
    bool same = st == GG_OK && order->n == out->n;
    for (size_t i = 0; i < out->n && same; i++)
        same = by_patch_name(&order->sorted[i], &out->sorted[i]) == 0 &&
               !(i && by_patch_name(&out->sorted[i - 1], &out->sorted[i]) == 0);
    for (size_t i = 0; i < out->n && same; i++) out->list[i] = *find_name(out, &order->list[i]);
    if (st != GG_OK || same) return st;
    gg_fail(err, GG_EFORMAT, "the patch orders other keys or tensors than its result has");
    return gg_fix(err, "make the patch again: it is damaged");
}

/* Lists the entries of the result. The default order is that of the base without the deleted
 * entries, followed by the entries that only the patch has. An entry of the patch replaces the
 * entry of the base with the same name. Whether the right names are deleted is known by the hash
 * of the result. */
static gg_status merge_lists(patch_lists *l, patch_names *out, gg_error *err)
{
    gg_status st = sort_names(&l->base, err);
    if (st == GG_OK) st = sort_names(&l->patch, err);
    if (st == GG_OK) st = sort_names(&l->deleted, err);
    for (size_t i = 0; i < l->base.n && st == GG_OK; i++) {
        const patch_name *name = &l->base.list[i], *with = find_name(&l->patch, name);
        if (!find_name(&l->deleted, name)) st = add_name(out, with ? with : name, err);
    }
    for (size_t i = 0; i < l->patch.n && st == GG_OK; i++)
        if (!find_name(&l->base, &l->patch.list[i])) st = add_name(out, &l->patch.list[i], err);
    return st == GG_OK && l->has_order ? put_in_order(&l->order, out, err) : st;
}

/* Check that the model is exactly one GGUF file. GG_EUSAGE if not. */
static gg_status require_one_file(gg_source *s, gg_error *err)
{
    const gg_model *m = gg_source_model(s);
    uint64_t shards = 1;
    if (m) gg_kv_u64(gg_meta_find(&m->files[0]->meta, "split.count"), &shards);
    if (m && m->n_files == 1 && shards <= 1) return GG_OK;
    gg_fail_in(err, GG_EUSAGE, s, NULL, "patches are for models of one GGUF file");
    return gg_fix(err, m ? "merge the shards with organ-assemble"
                         : "make a GGUF file with organ-assemble");
}

/* The sha256 of the single file of a model. */
static gg_status hash_model_file(const gg_source *s, char sha[65], const gg_run *run, gg_error *err)
{
    const gg_model *m = gg_source_model(s);
    gg_status st = gg_file_sha256(m->fds[0], 0, m->file_sizes[0], sha, run, err);
    return st == GG_OK ? st : gg_at_file(err, m->paths[0]);
}

bool gg_is_patch(const gg_source *s)
{
    const gg_meta *meta = gg_source_meta(s);
    return meta && gg_meta_find(meta, PATCH_BASE);
}

#define STEP ((size_t)256 << 10)

typedef struct diff {
    gg_source *a, *b;
    const gg_model *model; /* the model of b */
    const gg_run *run;
    char sha[2][65];
    bool *changed;             /* per tensor of b */
    patch_lists tensors, keys; /* has_order: the default order differs from the order in b */
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
    if (i < 2) return hash_model_file(i == 0 ? d->a : d->b, d->sha[i], d->run, err);
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
static gg_status take_changes(patch_lists *l, const bool *changed, gg_error *err)
{
    patch_names made = { 0 };
    gg_status st = sort_names(&l->order, err);
    for (size_t i = 0; i < l->base.n && st == GG_OK; i++)
        if (!find_name(&l->order, &l->base.list[i]))
            st = add_name(&l->deleted, &l->base.list[i], err);
    for (size_t i = 0; i < l->order.n && st == GG_OK; i++)
        if (changed[i]) st = add_name(&l->patch, &l->order.list[i], err);
    if (st == GG_OK) st = merge_lists(l, &made, err);
    l->has_order = made.n != l->order.n;
    for (size_t i = 0; i < made.n && !l->has_order; i++)
        l->has_order = by_patch_name(&made.list[i], &l->order.list[i]) != 0;
    names_free(&made);
    return st;
}

static gg_status list_changes(diff *d, gg_error *err)
{
    bool *keys = calloc(gg_source_meta(d->b)->n + 1, sizeof *keys);
    gg_status st = keys ? changed_keys(d, keys, err)
                        : gg_fail(err, GG_ENOMEM, "no memory for the metadata");
    if (st == GG_OK) st = list_keys(d->a, false, &d->keys.base, err);
    if (st == GG_OK) st = list_keys(d->b, false, &d->keys.order, err);
    if (st == GG_OK) st = list_tensors(d->a, false, &d->tensors.base, err);
    if (st == GG_OK) st = list_tensors(d->b, false, &d->tensors.order, err);
    if (st == GG_OK) st = take_changes(&d->tensors, d->changed, err);
    if (st == GG_OK) st = take_changes(&d->keys, keys, err);
    free(keys);
    return st;
}

/* ---- the file ------------------------------------------------------------------------ */

static gg_status put_names(gg_meta *meta, const char *key, const patch_names *names, gg_error *err)
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
        st = gg_meta_set_array(meta, PATCH_PAD_AFTER, GG_TYPE_U64, d->n_pads, &lists[0], err);
    if (st == GG_OK)
        st = gg_meta_set_array(meta, PATCH_PAD_SIZES, GG_TYPE_U64, d->n_pads, &lists[1], err);
    if (st == GG_OK)
        st = gg_meta_set_array(meta, PATCH_PAD_BYTES, GG_TYPE_U8, lists[2].len, &lists[2], err);
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
    if (st == GG_OK && d->keys.has_order)
        st = put_names(meta, PATCH_ORDER_KEYS, &d->keys.order, err);
    if (st == GG_OK && d->tensors.has_order)
        st = put_names(meta, PATCH_ORDER_TENSORS, &d->tensors.order, err);
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
    gg_tensor t = { .name = PATCH_TRAILING,
                    .name_len = strlen(PATCH_TRAILING),
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
    bool own = gg_source_find(d->b, PATCH_TRAILING, strlen(PATCH_TRAILING)) != SIZE_MAX;
    for (size_t i = 0; i < b->n && !own; i++) own = is_patch_key(b->kv[i].key, b->kv[i].key_len);
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
    gg_status st = require_one_file(a, err);
    if (st == GG_OK) st = require_one_file(b, err);
    if (st == GG_OK) st = refuse_patch(&d, err);
    if (st == GG_OK) st = find_differences(&d, err);
    if (st == GG_OK) st = write_file(&d, output, report, err);
    count_and_free_lists(&d.tensors, &d.keys, report);
    gg_pads_free(d.pads, d.n_pads);
    free(d.changed);
    return st;
}

typedef struct application {
    gg_source *base, *patch;
    const char *base_sha, *result_sha; /* 64 digits each, not NUL-terminated */
    patch_lists tensors, keys;
    patch_names new_tensors, new_keys; /* of the result */
    const gg_kv *pads[3];              /* after, sizes, bytes: either all or none are present */
    gg_pad *pad_list;                  /* the sources own the names, the patch owns the bytes */
    size_t trailing;                   /* index of a tensor of the patch, or SIZE_MAX */
} application;

/* ---- the patch's own keys ------------------------------------------------------------ */

static gg_status bad_key(const char *key, const char *want, gg_error *err)
{
    gg_fail(err, GG_EFORMAT, "its key %s must be %s", key, want);
    return gg_fix(err, "make the patch again: it is damaged");
}

static gg_status get_sha(const gg_meta *meta, const char *key, const char **out, gg_error *err)
{
    size_t n;
    bool ok = gg_kv_str(gg_meta_find(meta, key), out, &n) && n == 64;
    for (size_t i = 0; ok && i < 64; i++)
        ok = ((*out)[i] >= '0' && (*out)[i] <= '9') || ((*out)[i] >= 'a' && (*out)[i] <= 'f');
    return ok ? GG_OK : bad_key(key, "a sha256", err);
}

static gg_status get_array(const gg_meta *meta, const char *key, uint32_t type, const gg_kv **out,
                           gg_error *err)
{
    const gg_kv *kv = gg_meta_find(meta, key);
    *out = kv;
    if (!kv || (kv->type == GG_TYPE_ARR && kv->elem_type == type)) return GG_OK;
    return bad_key(key, "an array of the right type", err);
}

static gg_status get_names(const gg_meta *meta, const char *key, patch_names *out, bool *found,
                           gg_error *err)
{
    const gg_kv *kv;
    uint64_t pos = 0;
    patch_name one = { 0 };
    gg_status st = get_array(meta, key, GG_TYPE_STR, &kv, err);
    if (found) *found = kv != NULL;
    while (kv && st == GG_OK && gg_kv_next_str(kv, &pos, &one.name, &one.len))
        st = add_name(out, &one, err);
    return st;
}

/* An unknown key is refused, because the result may depend on it. */
static gg_status refuse_unknown(const gg_meta *meta, gg_error *err)
{
    static const char known[] = PATCH_VERSION
        " " PATCH_BASE " " PATCH_RESULT " " PATCH_DELETE_KEYS " " PATCH_DELETE_TENSORS
        " " PATCH_ORDER_KEYS " " PATCH_ORDER_TENSORS " " PATCH_PAD_AFTER " " PATCH_PAD_SIZES
        " " PATCH_PAD_BYTES;
    uint64_t version = 0;
    const gg_kv *v = gg_meta_find(meta, PATCH_VERSION);
    if (!v || v->type != GG_TYPE_U32 || !gg_kv_u64(v, &version))
        return bad_key(PATCH_VERSION, "a u32", err);
    if (version != 1) {
        gg_fail(err, GG_EUNSUPPORTED,
                "this patch has version %llu, but only version 1 is supported",
                (unsigned long long)version);
        return gg_fix(err, "use a newer version of these tools");
    }
    for (size_t i = 0; i < meta->n; i++) {
        const gg_kv *kv = &meta->kv[i];
        if (!is_patch_key(kv->key, kv->key_len) || gg_text_has_word(known, kv->key, kv->key_len))
            continue;
        char shown[128];
        gg_escape(kv->key, kv->key_len < 64 ? kv->key_len : 64, shown, sizeof shown);
        gg_fail(err, GG_EUNSUPPORTED, "this patch has the unknown key %s", shown);
        return gg_fix(err, "use a newer version of these tools");
    }
    return GG_OK;
}

static gg_status read_keys(application *p, gg_error *err)
{
    const gg_meta *meta = gg_source_meta(p->patch);
    gg_status st = refuse_unknown(meta, err);
    if (st == GG_OK) st = get_sha(meta, PATCH_BASE, &p->base_sha, err);
    if (st == GG_OK) st = get_sha(meta, PATCH_RESULT, &p->result_sha, err);
    if (st == GG_OK) st = get_names(meta, PATCH_DELETE_KEYS, &p->keys.deleted, NULL, err);
    if (st == GG_OK) st = get_names(meta, PATCH_DELETE_TENSORS, &p->tensors.deleted, NULL, err);
    if (st == GG_OK)
        st = get_names(meta, PATCH_ORDER_KEYS, &p->keys.order, &p->keys.has_order, err);
    if (st == GG_OK)
        st = get_names(meta, PATCH_ORDER_TENSORS, &p->tensors.order, &p->tensors.has_order, err);
    if (st == GG_OK) st = get_array(meta, PATCH_PAD_AFTER, GG_TYPE_U64, &p->pads[0], err);
    if (st == GG_OK) st = get_array(meta, PATCH_PAD_SIZES, GG_TYPE_U64, &p->pads[1], err);
    if (st == GG_OK) st = get_array(meta, PATCH_PAD_BYTES, GG_TYPE_U8, &p->pads[2], err);
    return st;
}

/* ---- the result ------------------------------------------------------------------------ */

static gg_status merge_all(application *p, gg_error *err)
{
    p->trailing = gg_source_find(p->patch, PATCH_TRAILING, strlen(PATCH_TRAILING));
    gg_status st = list_keys(p->base, false, &p->keys.base, err);
    if (st == GG_OK) st = list_keys(p->patch, true, &p->keys.patch, err);
    if (st == GG_OK) st = list_tensors(p->base, false, &p->tensors.base, err);
    if (st == GG_OK) st = list_tensors(p->patch, true, &p->tensors.patch, err);
    if (st == GG_OK) st = merge_lists(&p->keys, &p->new_keys, err);
    return st == GG_OK ? merge_lists(&p->tensors, &p->new_tensors, err) : st;
}

static gg_status plan_result(const application *p, gg_plan *plan, const char *output, gg_error *err)
{
    const gg_meta *base = gg_source_meta(p->base), *patch = gg_source_meta(p->patch);
    size_t n = p->new_keys.n;
    gg_meta meta = { .kv = malloc((n + 1) * sizeof *meta.kv), .n = n };
    gg_status st = meta.kv ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the metadata");
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        const patch_name *one = &p->new_keys.list[i];
        meta.kv[i] = (one->patch ? patch : base)->kv[one->index];
    }
    for (size_t i = 0; i < p->new_tensors.n && st == GG_OK; i++) {
        const patch_name *one = &p->new_tensors.list[i];
        st = gg_plan_add_copy(plan, one->patch ? p->patch : p->base, one->index, err);
    }
    if (st == GG_OK)
        st = gg_plan_one_file(plan, output, gg_source_header(p->patch)->version, &meta, err);
    free(meta.kv);
    return st;
}

/* Checks that the three lists agree with each other and with the number of tensors. A pad in
 * the wrong place is detected by the hash of the result. */
static gg_status plan_padding(application *p, gg_plan *plan, gg_error *err)
{
    const gg_kv *after = p->pads[0], *sizes = p->pads[1], *bytes = p->pads[2];
    if (!after && !sizes && !bytes) return GG_OK;
    bool ok = after && sizes && bytes && after->count == sizes->count;
    uint64_t n = ok ? after->count : 0, left = ok ? bytes->count : 0;
    p->pad_list = calloc((size_t)n + 1, sizeof *p->pad_list);
    if (!p->pad_list) return gg_fail(err, GG_ENOMEM, "no memory for padding");
    for (uint64_t i = 0; i < n && ok; i++) {
        uint64_t at = gg_le64(after->data + i * 8), size = gg_le64(sizes->data + i * 8);
        gg_pad *pad = &p->pad_list[i];
        ok = at <= plan->n && size <= left;
        if (!ok) break;
        const gg_tensor *t = at ? &plan->tensors[at - 1].t : NULL;
        pad->after = t ? (char *)(uintptr_t)t->name : NULL;
        pad->after_len = t ? t->name_len : 0;
        pad->bytes = (uint8_t *)(uintptr_t)(bytes->data + (bytes->count - left));
        pad->n = (size_t)size;
        left -= size;
    }
    if (!ok || left)
        return bad_key(PATCH_PAD_SIZES, "those of " PATCH_PAD_BYTES " after tensors of the result",
                       err);
    plan->files[0].pads = p->pad_list;
    plan->files[0].n_pads = (size_t)n;
    return GG_OK;
}

static gg_status plan_trailing(const application *p, gg_plan *plan, gg_error *err)
{
    if (p->trailing == SIZE_MAX) return GG_OK;
    const gg_model *m = gg_source_model(p->patch);
    const gg_tensor *t = gg_source_tensor(p->patch, p->trailing);
    gg_plan_file *f = &plan->files[0];
    f->trailing = strdup(m->paths[0]);
    if (!f->trailing) return gg_fail(err, GG_ENOMEM, "no memory for a path");
    f->trailing_at = gg_model_at(m, t);
    f->trailing_bytes = t->bytes;
    return GG_OK;
}

static gg_status write_result(application *p, const char *output, const gg_run *run,
                              gg_patch_report *r, gg_error *err)
{
    char sha[65] = "";
    gg_plan plan = { .result_sha256 = sha };
    gg_run quiet = *run; /* the result is fixed by the patch, so it is not checked */
    quiet.note = NULL;
    quiet.strict = false;
    memcpy(sha, p->result_sha, 64);
    gg_status st = plan_result(p, &plan, output, err);
    if (st == GG_OK) st = plan_padding(p, &plan, err);
    if (st == GG_OK) st = plan_trailing(p, &plan, err);
    if (st == GG_OK) st = gg_plan_write(&plan, &quiet, &r->bytes, err);
    gg_plan_free(&plan);
    return st;
}

static gg_status check_base(const application *p, const gg_run *run, gg_error *err)
{
    char sha[65];
    gg_progress_total(run, gg_source_model(p->base)->file_sizes[0]);
    gg_status st = hash_model_file(p->base, sha, run, err);
    if (st != GG_OK || memcmp(sha, p->base_sha, 64) == 0) return st;
    gg_fail(err, GG_NO, "the patch is for another base, whose sha256 is %.64s", p->base_sha);
    gg_fix(err, "this file has the sha256 %s", sha);
    return gg_at_file(err, gg_source_name(p->base)), GG_NO;
}

gg_status gg_patch_apply(gg_source *base, gg_source *patch, const char *output, const gg_run *run,
                         gg_patch_report *report, gg_error *err)
{
    report = GG_REPORT(gg_patch_report, report);
    run = GG_OPTIONS(gg_run, run);
    application p = { .base = base, .patch = patch };
    gg_status st = GG_OK;
    if (strcmp(output, "-") == 0) {
        gg_fail(err, GG_EUSAGE,
                "a patch cannot be applied to stdout, because the result is verified before it "
                "gets its name");
        return gg_fix(err, "give the name of a file as the output");
    }
    st = gg_guard_output(output, patch, err);
    if (st == GG_OK) st = gg_guard_output(output, base, err);
    if (st == GG_OK) st = require_one_file(base, err);
    if (st == GG_OK) st = require_one_file(patch, err);
    if (st == GG_OK) st = read_keys(&p, err);
    if (st == GG_OK) st = check_base(&p, run, err);
    if (st == GG_OK) st = merge_all(&p, err);
    if (st == GG_OK) st = write_result(&p, output, run, report, err);
    if (st == GG_EFORMAT || st == GG_EUNSUPPORTED) gg_at_file(err, gg_source_name(patch));
    count_and_free_lists(&p.tensors, &p.keys, report);
    names_free(&p.new_tensors);
    names_free(&p.new_keys);
    free(p.pad_list);
    return st;
}

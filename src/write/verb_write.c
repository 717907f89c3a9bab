/* verb_write.c - writes a base with the caller's tensors and keys. */
#include "organ/gg_write.h"

#include "base/error.h"
#include "base/io.h"
#include "organ/output_guard.h"
#include "organ/source_layout.h"
#include "plan.h"
#include "quant/quant.h"
#include "verb_run.h"

#include <stdlib.h>
#include <string.h>

#define PIECE ((size_t)1 << 20) /* bytes requested from a callback at a time */

typedef struct writing {
    gg_source *base; /* NULL = none */
    const gg_override *list;
    size_t n;
    const gg_override **by_name; /* the same, sorted */
    bool retyped;                /* a tensor is new or changes its dtype */
    gg_plan plan;
} writing;

/* ---- overrides -------------------------------------------------------------------- */

static gg_status fail_at_override(const gg_override *v, gg_status st, const char *why,
                                  gg_error *err)
{
    gg_fail(err, st, "%s", why);
    return gg_at_tensor(err, v->name, strlen(v->name));
}

static int by_override_name(const void *a, const void *b)
{
    return strcmp((*(const gg_override *const *)a)->name, (*(const gg_override *const *)b)->name);
}

static const gg_override *find_override(const writing *w, const char *name)
{
    const gg_override key = { .name = name }, *k = &key;
    const gg_override **hit = w->n ? bsearch(&k, w->by_name, w->n, sizeof *w->by_name,
                                             by_override_name)
                                   : NULL;
    return hit ? *hit : NULL;
}

/* Checks that each name occurs once and that each override has exactly one source of data. */
static gg_status sort_overrides(writing *w, gg_error *err)
{
    w->by_name = calloc(w->n ? w->n : 1, sizeof *w->by_name);
    if (!w->by_name) return gg_fail(err, GG_ENOMEM, "no memory for %zu overrides", w->n);
    for (size_t i = 0; i < w->n; i++) {
        const gg_override *v = w->by_name[i] = &w->list[i];
        if (!v->name || !v->name[0]) return gg_fail(err, GG_EUSAGE, "override %zu has no name", i);
        if ((v->bytes != NULL) + (v->read_bytes != NULL) + (v->read_rows != NULL) != 1)
            return fail_at_override(v, GG_EUSAGE,
                                    "its data must come from one buffer or one callback", err);
    }
    qsort(w->by_name, w->n, sizeof *w->by_name, by_override_name);
    for (size_t i = 1; i < w->n; i++)
        if (strcmp(w->by_name[i - 1]->name, w->by_name[i]->name) == 0)
            return fail_at_override(w->by_name[i], GG_EUSAGE, "this tensor is given twice", err);
    return GG_OK;
}

/* ---- data --------------------------------------------------------------------------- */

/* A callback may return a failure without a reason. */
static gg_status from_callback(gg_status st, gg_error *err)
{
    if (st == GG_OK) return err->status;
    return gg_fail(err, st, "the callback failed to provide its values");
}

static gg_status make_bytes(void *ctx, const gg_target *to, gg_error *err)
{
    const gg_override *v = ctx;
    uint64_t bytes = to->t->bytes, at = to->at;
    void *buf = v->bytes ? NULL : malloc(PIECE);
    if (!v->bytes && !buf) return gg_fail(err, GG_ENOMEM, "no memory for a piece of a tensor");
    gg_status st = GG_OK;
    for (uint64_t done = 0; done < bytes && st == GG_OK;) {
        size_t n = bytes - done < PIECE ? (size_t)(bytes - done) : PIECE;
        st = gg_cancelled(err);
        if (st == GG_OK && buf) st = from_callback(v->read_bytes(v->ctx, done, buf, n, err), err);
        const void *from = buf ? buf : (const char *)v->bytes + done;
        if (st == GG_OK) st = gg_put_all(to->fd, from, n, at, err);
        at = gg_offset_after(at, n);
        done += n;
        gg_progress_add(to->run, n);
    }
    free(buf);
    return st;
}

static gg_status make_rows(void *ctx, const gg_target *to, gg_error *err)
{
    const gg_override *v = ctx;
    const gg_tensor *t = to->t;
    if (t->bytes == 0) return GG_OK;
    /* not 0: it has bytes */
    uint64_t row = t->dims[0], rows = t->elements / row, row_bytes = t->bytes / rows, at = to->at;
    uint64_t step = row < PIECE / sizeof(float) ? PIECE / sizeof(float) / row : 1;
    if (step > rows) step = rows;
    if (row > SIZE_MAX / 8 / step) return gg_fail(err, GG_ENOMEM, "its rows are too long");
    float *x = malloc((size_t)(step * row) * sizeof *x);
    void *out = malloc((size_t)(step * row_bytes));
    gg_status st = x && out ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for a tensor's rows");
    for (uint64_t r = 0; r < rows && st == GG_OK;) {
        size_t n = (size_t)(rows - r < step ? rows - r : step), bytes = n * (size_t)row_bytes;
        st = gg_cancelled(err);
        if (st == GG_OK) st = from_callback(v->read_rows(v->ctx, r, n, x, err), err);
        bool plain = t->dtype == GG_F32; /* any value is allowed, even NaN */
        if (st == GG_OK && !plain)
            st = gg_encode(t->dtype, x, out, n * (size_t)row, (size_t)row, NULL, err);
        if (st == GG_OK) st = gg_put_all(to->fd, plain ? (const void *)x : out, bytes, at, err);
        at = gg_offset_after(at, bytes);
        r += n;
        gg_progress_add(to->run, bytes);
    }
    free(x);
    free(out);
    return st;
}

/* ---- the plan ----------------------------------------------------------------------- */

/* The tensor to write: the tensor of the base (NULL = none), changed by the override. */
static gg_status shape_of(const gg_override *v, const gg_tensor *was, gg_tensor *t, gg_error *err)
{
    *t = was ? *was : (gg_tensor){ .name = v->name, .name_len = strlen(v->name) };
    if (!was && (!v->dtype || v->n_dims == 0))
        return fail_at_override(v, GG_EUSAGE, "a tensor that is added needs a dtype and dims", err);
    if (v->n_dims > GG_MAX_DIMS)
        return fail_at_override(v, GG_EUSAGE, "a tensor has at most 8 dimensions", err);
    if (v->dtype) t->dtype = v->dtype->id;
    if (v->n_dims) t->n_dims = v->n_dims;
    for (uint32_t d = 0; v->n_dims && d < GG_MAX_DIMS; d++)
        t->dims[d] = d < v->n_dims ? v->dims[d] : 1;
    gg_status st = gg_tensor_extent(t->dtype, t->n_dims, t->dims, &t->elements, &t->bytes, err);
    if (st == GG_OK && v->bytes && v->size != t->bytes)
        st = gg_fail(err, GG_EUSAGE, "its buffer has %llu bytes, but its dims and dtype need %llu",
                     (unsigned long long)v->size, (unsigned long long)t->bytes);
    if (st == GG_OK && v->read_rows && !gg_can_encode(t->dtype))
        st = gg_fail(err, GG_EUNSUPPORTED, "%s cannot be encoded from values",
                     gg_dtype_get(t->dtype)->name);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, v->name, strlen(v->name));
}

static gg_status add_override(writing *w, const gg_override *v, const gg_tensor *was, gg_error *err)
{
    gg_tensor t;
    void *ctx = (void *)(uintptr_t)v; /* the callback is called with v->ctx */
    gg_status st = shape_of(v, was, &t, err);
    if (st != GG_OK) return st;
    if (!was || was->dtype != t.dtype) w->retyped = true;
    return gg_plan_add_made(&w->plan, &t, v->read_rows ? make_rows : make_bytes, ctx, err);
}

static gg_status plan_tensors(writing *w, gg_error *err)
{
    size_t replaced = 0, n = w->base ? gg_source_count(w->base) : 0, added = 0;
    gg_status st = GG_OK;
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(w->base, i);
        /* An override cannot have a name that contains a NUL. */
        const gg_override *v = strlen(t->name) == t->name_len ? find_override(w, t->name) : NULL;
        if (v && v->add)
            return fail_at_override(v, GG_EUSAGE, "the base has a tensor of this name", err);
        replaced += v != NULL;
        st = v ? add_override(w, v, t, err) : gg_plan_add_copy(&w->plan, w->base, i, err);
    }
    for (size_t i = 0; i < w->n && st == GG_OK; i++) {
        if (!w->list[i].add) continue;
        added++;
        st = add_override(w, &w->list[i], NULL, err);
    }
    if (st != GG_OK || replaced + added == w->n) return st;
    for (size_t i = 0; i < w->n; i++) { /* find the override whose tensor is missing */
        const gg_override *v = &w->list[i];
        if (!v->add && (!w->base || gg_source_find(w->base, v->name, strlen(v->name)) == SIZE_MAX))
            return fail_at_override(v, GG_EUSAGE, "the base has no tensor of this name", err);
    }
    return gg_fail(err, GG_EUSAGE, "the base has two tensors with the same name");
}

static gg_status plan_file(writing *w, const gg_meta *meta, const char *path, gg_error *err)
{
    if (!w->base) return gg_plan_one_file(&w->plan, path, 3, meta, err);
    const gg_meta *keys = meta ? meta : gg_source_meta(w->base);
    uint32_t version = gg_source_meta(w->base) ? gg_plan_version(w->base) : 3;
    gg_status st = gg_plan_changed_file(&w->plan, path, version, keys, w->base, err);
    if (st != GG_OK || meta || !w->retyped) return st;
    return gg_plan_type_keys(&w->plan, &w->plan.files[0].meta, err);
}

static gg_status check_base(const gg_source *base, const gg_meta *meta, const char *path,
                            gg_error *err)
{
    if (!base && !meta) return gg_fail(err, GG_EUSAGE, "a model without a base needs keys");
    if (!base) return GG_OK;
    gg_status st = gg_guard_output(path, base, err);
    if (st == GG_OK) st = gg_refuse_split_experts(base, err);
    if (st == GG_OK && !gg_source_seekable(base) && !gg_source_header(base)) {
        gg_fail_in(err, GG_EUSAGE, base, NULL,
                   "the tensors of an organ stream on a pipe are not known in advance");
        return gg_fix(err, "store the stream in a file first");
    }
    if (st != GG_OK || meta || gg_source_meta(base)) return st;
    return gg_fail_in(err, GG_EUSAGE, base, NULL,
                      "bare organ records have no keys, and none were given");
}

gg_status gg_write_model(gg_source *base, const gg_write_options *o, const char *output,
                         const gg_run *run, gg_write_report *report, gg_error *err)
{
    o = GG_OPTIONS(gg_write_options, o);
    run = GG_OPTIONS(gg_run, run);
    report = GG_REPORT(gg_write_report, report);
    writing w = {
        .base = base, .list = o->overrides, .n = o->n_overrides, .plan = { .verify = true }
    };
    uint64_t bytes = 0;
    gg_status st = check_base(base, o->meta, output, err);
    if (st == GG_OK) st = sort_overrides(&w, err);
    if (st == GG_OK) st = plan_tensors(&w, err);
    if (st == GG_OK) st = plan_file(&w, o->meta, output, err);
    if (st == GG_OK && base && !gg_source_seekable(base)) w.plan.pipe = base;
    w.plan.keep_odd = w.plan.pipe != NULL;
    if (st == GG_OK) st = gg_plan_write(&w.plan, run, &bytes, err);
    report->bytes = st == GG_OK ? bytes : 0;
    gg_plan_free(&w.plan);
    free(w.by_name);
    return st;
}

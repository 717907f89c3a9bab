/* imatrix_write.c - writes importance matrices that are made of others. */
#include "imatrix_write.h"

#include "base/buf.h"
#include "base/cursor.h"
#include "base/error.h"
#include "base/float_bits.h"
#include "base/io.h"
#include "base/output.h"
#include "gguf/gguf.h"
#include "quant/quant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What an entry is made of: its name and parts follow the numbers. */
typedef struct sum_ctx {
    gg_computation base; /* first: see compute.h */
    gg_imatrix_sum s;
    double chunk; /* tokens of a call of the older format */
} sum_ctx;

/* ---- values ------------------------------------------------------------------------------ */

/* The sums of a matrix so far. */
typedef struct matrix_sums {
    float *room; /* for the columns of a part */
    double *to;  /* NULL = only the count is wanted */
    double count;
} matrix_sums;

static gg_status add_matrix_part(const sum_ctx *c, const gg_imatrix_part *p, matrix_sums *x,
                                 gg_error *err)
{
    const gg_imatrix_sum *s = &c->s;
    float n = 0;
    if (!p->im) return GG_OK;
    double scale = gg_imatrix_meta(p->im) ? 1 : c->chunk;
    gg_status st = gg_imatrix_count(p->im, p->entry, p->matrix, &n, err);
    if (st == GG_OK && x->to)
        st = gg_imatrix_sums(p->im, p->entry, p->matrix * s->from_columns, s->from_columns, x->room,
                             err);
    if (st != GG_OK) return st;
    x->count += scale * (double)n;
    for (uint64_t j = 0; x->to && j < s->columns; j++) {
        float v = x->room[p->columns ? p->columns[j] : j];
        if (!isfinite(v) || v < 0) {
            gg_fail(err, GG_EFORMAT,
                    "the importance matrix has values that are negative or not finite");
            return gg_at_tensor(err, s->name, s->name_len);
        }
        x->to[j] += scale * (double)v;
    }
    return GG_OK;
}

/* Of matrix m: the sums of all columns, unless `to` is NULL, and the count. */
static gg_status add_up_matrix(const sum_ctx *c, uint64_t m, double *to, double *count,
                               gg_error *err)
{
    matrix_sums x = { to ? malloc(c->s.from_columns * sizeof *x.room) : NULL, to, 0 };
    gg_status st = GG_OK;
    if (to && !x.room) return gg_fail(err, GG_ENOMEM, "no memory for an importance matrix");
    for (uint64_t j = 0; to && j < c->s.columns; j++) to[j] = 0;
    for (size_t k = 0; k < c->s.n && st == GG_OK; k++)
        st = add_matrix_part(c, &c->s.parts[m * c->s.n + k], &x, err);
    *count = x.count;
    free(x.room);
    return st;
}

static gg_status put_floats(const float *x, size_t n, gg_target *to, gg_error *err)
{
    gg_status st = gg_put_all(to->fd, x, n * sizeof *x, to->at, err);
    if (to->hash) gg_sha256_update(to->hash, x, n * sizeof *x);
    to->at = gg_offset_after(to->at, n * sizeof *x);
    return st;
}

static gg_status make_sums(void *ctx, const gg_target *target, gg_error *err)
{
    const sum_ctx *c = ctx;
    gg_target to = *target;
    double *sums = calloc(c->s.columns, sizeof *sums), count;
    float *x = calloc(c->s.columns, sizeof *x);
    gg_status st = sums && x ? GG_OK
                             : gg_fail(err, GG_ENOMEM, "no memory for an importance matrix");
    for (uint64_t m = 0; m < c->s.matrices && st == GG_OK; m++) {
        st = add_up_matrix(c, m, sums, &count, err);
        for (uint64_t j = 0; j < c->s.columns; j++) x[j] = (float)sums[j];
        if (st == GG_OK) st = put_floats(x, c->s.columns, &to, err);
    }
    free(sums);
    free(x);
    return st;
}

static gg_status make_counts(void *ctx, const gg_target *target, gg_error *err)
{
    const sum_ctx *c = ctx;
    gg_target to = *target;
    gg_status st = GG_OK;
    for (uint64_t m = 0; m < c->s.matrices && st == GG_OK; m++) {
        double count = 0;
        st = add_up_matrix(c, m, NULL, &count, err);
        float x = (float)count;
        if (st == GG_OK) st = put_floats(&x, 1, &to, err);
    }
    return st;
}

/* ---- entries ----------------------------------------------------------------------------- */

static uint32_t chunk_size(const gg_imatrix_file *f)
{
    uint64_t n = 0;
    if (f->chunk) return f->chunk;
    for (size_t i = 0; i < f->n_from; i++) {
        const gg_meta *meta = gg_imatrix_meta(f->from[i]);
        if (meta && gg_kv_u64(gg_meta_find(meta, "imatrix.chunk_size"), &n) && n > 0 &&
            n <= INT32_MAX)
            return (uint32_t)n;
    }
    return GG_IMATRIX_CHUNK;
}

static gg_status plan_part(gg_imatrix_file *f, sum_ctx *c, const char *suffix, uint64_t columns,
                           gg_plan_make make, gg_error *err)
{
    gg_buf name = GG_BUF_INIT;
    gg_tensor t = { .dtype = GG_F32, .n_dims = 2, .dims = { columns, c->s.matrices, 1, 1 } };
    gg_plan_tensor *pt;
    gg_buf_append(&name, c->s.name, c->s.name_len, err);
    gg_status st = gg_buf_text(&name, suffix, err);
    t.name = name.data;
    t.name_len = name.len;
    if (st == GG_OK) st = gg_tensor_extent(t.dtype, t.n_dims, t.dims, &t.elements, &t.bytes, err);
    if (st == GG_OK) st = gg_plan_add(&f->plan, &t, &pt, err);
    gg_buf_free(&name);
    if (st != GG_OK) return st;
    pt->make = make;
    pt->ctx = c;
    return GG_OK;
}

gg_status gg_imatrix_file_add(gg_imatrix_file *f, const gg_imatrix_sum *sum, gg_error *err)
{
    size_t parts = (size_t)sum->matrices * sum->n * sizeof *sum->parts;
    sum_ctx *c = gg_compute_new(&f->made, sizeof *c + parts + sum->name_len, err);
    if (!c) return err->status;
    c->s = *sum;
    c->chunk = chunk_size(f);
    c->s.parts = memcpy(c + 1, sum->parts, parts);
    c->s.name = memcpy((char *)(c + 1) + parts, sum->name, sum->name_len);
    gg_status st = plan_part(f, c, ".in_sum2", sum->columns, make_sums, err);
    return st == GG_OK ? plan_part(f, c, ".counts", 1, make_counts, err) : st;
}

gg_status gg_imatrix_entry_of(const gg_imatrix *im, const gg_tensor *t, size_t *at, gg_error *err)
{
    bool has;
    gg_status st = gg_imatrix_check(im, t, false, &has, err);
    *at = gg_imatrix_find_form(im, t->name, t->name_len);
    if (st != GG_OK || !has || *at != SIZE_MAX) return st;
    gg_fail(err, GG_NO, "the importance matrix has a stack, but this is a single expert");
    return gg_at_tensor(err, t->name, t->name_len);
}

gg_status gg_imatrix_file_cut(gg_imatrix_file *f, const gg_imatrix *im, const gg_tensor *t,
                              const gg_imatrix_cut *cut, gg_error *err)
{
    const gg_tensor *was = cut->was;
    size_t at;
    uint64_t n = gg_dims_from(t, 2), columns = t->dims[0];
    gg_status st = gg_imatrix_entry_of(im, was, &at, err);
    if (st != GG_OK || at == SIZE_MAX) return st;
    gg_imatrix_part *parts = calloc(n + 1, sizeof *parts);
    gg_imatrix_sum sum = { t->name, t->name_len, 1, n, was->dims[0], columns, parts };
    if (!parts) return gg_fail(err, GG_ENOMEM, "no memory for an importance matrix");
    for (uint64_t m = 0; m < n && st == GG_OK; m++) {
        uint64_t from = cut->matrices ? cut->matrices[m] : m;
        parts[m] = (gg_imatrix_part){ im, at, from,
                                      cut->columns ? cut->columns + m * columns : NULL };
        if (from < gg_dims_from(was, 2)) continue;
        gg_fail(err, GG_EFORMAT, "the importance matrix has no expert %llu of it",
                (unsigned long long)from);
        st = gg_at_tensor(err, was->name, was->name_len);
    }
    if (st == GG_OK) st = gg_imatrix_file_add(f, &sum, err);
    free(parts);
    return st;
}

/* ---- keys -------------------------------------------------------------------------------- */

static gg_status add_dataset(gg_buf *list, uint64_t *n, const char *text, size_t len, gg_error *err)
{
    for (size_t at = 0; at < list->len;) { /* each text once */
        uint64_t have = gg_le64((const uint8_t *)list->data + at);
        if (have == len && memcmp(list->data + at + 8, text, len) == 0) return GG_OK;
        at += 8 + (size_t)have;
    }
    ++*n;
    return gg_array_add_str(list, text, len, err);
}

/* The names of all texts, each once. Returns their number. */
static uint64_t list_datasets(const gg_imatrix_file *f, gg_buf *list, gg_error *err)
{
    uint64_t n = 0;
    for (size_t i = 0; i < f->n_from; i++) {
        const gg_meta *own = gg_imatrix_meta(f->from[i]);
        const gg_kv *sets = own ? gg_meta_find(own, "imatrix.datasets") : NULL;
        gg_imatrix_info info = gg_imatrix_info_of(f->from[i]);
        const char *text;
        uint64_t pos = 0;
        size_t len;
        while (sets && gg_kv_next_str(sets, &pos, &text, &len))
            add_dataset(list, &n, text, len, err);
        if (!sets && info.dataset[0])
            add_dataset(list, &n, info.dataset, strlen(info.dataset), err);
    }
    return n;
}

/* The names of all texts, and the sum of their chunks. */
static gg_status put_keys(const gg_imatrix_file *f, gg_meta *meta, gg_error *err)
{
    gg_buf list = GG_BUF_INIT;
    uint64_t n = list_datasets(f, &list, err), chunks = 0;
    for (size_t i = 0; i < f->n_from; i++) chunks += gg_imatrix_info_of(f->from[i]).chunks;
    gg_meta_set_str(meta, "general.type", "imatrix", 7, err);
    if (err->status == GG_OK)
        gg_meta_set_array(meta, "imatrix.datasets", GG_TYPE_STR, n, &list, err);
    if (err->status == GG_OK)
        gg_meta_set_u32(meta, "imatrix.chunk_count",
                        chunks < UINT32_MAX ? (uint32_t)chunks : UINT32_MAX, err);
    if (err->status == GG_OK) gg_meta_set_u32(meta, "imatrix.chunk_size", chunk_size(f), err);
    gg_buf_free(&list);
    return err->status;
}

/* ---- the older format -------------------------------------------------------------------- */

static void put_u32(gg_buf *b, double v, gg_error *err)
{
    uint8_t le[4];
    gg_put_le32(le, v < INT32_MAX ? (uint32_t)v : INT32_MAX);
    gg_buf_append(b, le, sizeof le, err);
}

/* As llama.cpp writes it: calls times the mean, and 1 for a matrix without inputs. */
static gg_status put_old_entry(const gg_imatrix_file *f, const sum_ctx *c, gg_buf *b, gg_error *err)
{
    const gg_imatrix_sum *s = &c->s;
    double *sums = calloc(s->columns, sizeof *sums), count, most = 0;
    gg_status st = sums ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for an importance matrix");
    for (uint64_t m = 0; m < s->matrices && st == GG_OK; m++) {
        st = add_up_matrix(c, m, NULL, &count, err);
        most = count > most ? count : most;
    }
    double calls = most / chunk_size(f);
    if (!gg_is_whole(calls)) calls = (double)((uint64_t)calls + 1);
    put_u32(b, (double)s->name_len, err);
    gg_buf_append(b, s->name, s->name_len, err);
    put_u32(b, calls, err);
    put_u32(b, (double)(s->columns * s->matrices), err);
    for (uint64_t m = 0; m < s->matrices && st == GG_OK; m++) {
        st = add_up_matrix(c, m, sums, &count, err);
        for (uint64_t j = 0; j < s->columns && st == GG_OK; j++) {
            float v = (float)(count > 0 ? sums[j] / count * calls : calls);
            st = gg_buf_append(b, &v, sizeof v, err);
        }
    }
    free(sums);
    return st;
}

static gg_status write_old(gg_imatrix_file *f, const char *path, const gg_run *run, gg_error *err)
{
    gg_buf b = GG_BUF_INIT;
    gg_output *out = NULL;
    uint64_t at = 0, chunks = 0, texts = list_datasets(f, &b, err);
    const char *text = "";
    gg_buf_clear(&b);
    gg_status st = gg_output_open(path, run->force, &out, err);
    put_u32(&b, (double)(f->plan.n / 2), err);
    for (size_t i = 0; i < f->plan.n && st == GG_OK; i += 2) { /* sums, then counts */
        st = put_old_entry(f, f->plan.tensors[i].ctx, &b, err);
        if (st == GG_OK) st = gg_put_all(gg_output_fd(out), b.data, b.len, at, err);
        at += b.len;
        gg_buf_clear(&b);
    }
    for (size_t i = 0; i < f->n_from; i++) {
        gg_imatrix_info info = gg_imatrix_info_of(f->from[i]);
        chunks += info.chunks;
        if (info.dataset[0]) text = info.dataset;
    }
    if (texts > 1)
        gg_note(run, "the older format names one text, so %llu of the %llu names are left out",
                (unsigned long long)texts - 1, (unsigned long long)texts);
    put_u32(&b, (double)chunks, err);
    put_u32(&b, (double)strlen(text), err);
    if (st == GG_OK) st = gg_buf_text(&b, text, err);
    if (st == GG_OK) st = gg_put_all(gg_output_fd(out), b.data, b.len, at, err);
    gg_buf_free(&b);
    if (st == GG_OK) return gg_output_commit(out, err);
    gg_output_abort(out);
    return gg_at_file(err, path);
}

/* ---- the file ---------------------------------------------------------------------------- */

gg_status gg_imatrix_file_write(gg_imatrix_file *f, const char *path, bool old, const gg_run *run,
                                gg_error *err)
{
    gg_meta meta = GG_META_INIT;
    uint64_t bytes;
    if (f->plan.n == 0)
        return gg_fail(err, GG_NO, "the new importance matrix would have no entries");
    if (old) return write_old(f, path, run, err);
    gg_status st = put_keys(f, &meta, err);
    if (st == GG_OK) st = gg_plan_one_file(&f->plan, path, 3, &meta, err);
    if (st == GG_OK) st = gg_plan_write(&f->plan, run, &bytes, err);
    gg_meta_free(&meta);
    return st;
}

void gg_imatrix_file_free(gg_imatrix_file *f)
{
    gg_plan_free(&f->plan);
    gg_computations_free(&f->made);
}

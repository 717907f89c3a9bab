/* align_table.c - reads the rows and columns of units, and shortens them. */
#include "align_core.h"

#include "base/error.h"
#include "base/parallel.h"
#include "quant/quant.h"
#include "verbs/shared/verb_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_FLOATS ((size_t)16 << 20) /* 64 MiB per table */
#define SHORTEST 32                     /* elements of a shortened vector */
#define MOST 512                        /* for FFN units and embeddings */
#define MOST_HEADS 8192                 /* of the heads, which are few */
#define READ ((size_t)128 << 10)        /* bytes read at a time */

typedef struct builder {
    const align_group *g;
    const unit_choice *c;
    const gg_run *run;
    unit_table *t;
    size_t most; /* elements of a shortened vector */
    /* The current part: */
    gg_slice s;
    const gg_tensor *tensor;
    uint64_t row_bytes;
    size_t at;    /* its first row in the table */
    size_t dims;  /* its number of rows there */
    size_t turn;  /* with columns: every turn-th row is added to the same rows of the table */
    size_t batch; /* units, or turns, per task */
} builder;

/* Elements from `most` on are added to earlier ones with a random sign. */
static float sign_of(uint64_t k, uint64_t most)
{
    return k < most || (k * 0x9E3779B97F4A7C15u) >> 63 ? 1.0f : -1.0f;
}

static uint32_t unit_no(const builder *b, size_t i)
{
    return b->c->units ? b->c->units[i] : (uint32_t)i;
}

/* ---- rows --------------------------------------------------------------------------------- */

typedef struct row_reader {
    const builder *b;
    gg_data data;
    uint8_t *raw;
    float *x;          /* one row */
    uint64_t first, n; /* the rows in `raw` */
    uint64_t per_read;
} row_reader;

static gg_status row_reader_open(row_reader *r, const builder *b, gg_error *err)
{
    *r = (row_reader){ .b = b };
    r->per_read = b->row_bytes < READ ? READ / b->row_bytes : 1;
    gg_status st = gg_data_open(b->c->source, b->s.index, &r->data, err);
    if (st != GG_OK) return st;
    r->raw = malloc((size_t)(r->per_read * b->row_bytes));
    r->x = malloc((size_t)b->tensor->dims[0] * sizeof *r->x);
    if (r->raw && r->x) return GG_OK;
    gg_data_close(&r->data);
    free(r->raw);
    free(r->x);
    return gg_fail(err, GG_ENOMEM, "no memory for a row of a tensor");
}

static void row_reader_close(row_reader *r)
{
    gg_data_close(&r->data);
    free(r->raw);
    free(r->x);
}

/* Decodes a row into r->x. Rows from `row` to `end` are likely to be needed next. Values that are
 * not finite count as 0. */
static gg_status read_row(row_reader *r, uint64_t row, uint64_t end, gg_error *err)
{
    const builder *b = r->b;
    gg_status st = GG_OK;
    if (row < r->first || row >= r->first + r->n) {
        r->first = row;
        r->n = end - row < r->per_read ? end - row : r->per_read;
        st = gg_cancelled(err);
        if (st == GG_OK)
            st = gg_data_read(&r->data, row * b->row_bytes, r->raw, (size_t)(r->n * b->row_bytes),
                              err);
        gg_progress_add(b->run, r->n * b->row_bytes);
    }
    size_t n = (size_t)b->tensor->dims[0];
    if (st == GG_OK)
        st = gg_decode(b->tensor->dtype, r->raw + (row - r->first) * b->row_bytes, r->x, n, err);
    for (size_t i = 0; i < n && st == GG_OK; i++)
        if (!isfinite(r->x[i])) r->x[i] = 0;
    return st;
}

/* Adds the rows of one unit to its column of the table. */
static gg_status add_unit(row_reader *r, size_t i, uint64_t end, float *sum, gg_error *err)
{
    const builder *b = r->b;
    size_t cols = (size_t)b->tensor->dims[0], to = 0;
    uint64_t row = b->s.first + unit_no(b, i) * b->s.per, k = 0;
    gg_status st = GG_OK;
    memset(sum, 0, b->dims * sizeof *sum);
    for (uint64_t l = 0; l < b->s.per && st == GG_OK; l++) {
        st = read_row(r, row + l, end, err);
        for (size_t c = 0; c < cols && st == GG_OK; c++, k++) {
            sum[to] += sign_of(k, b->dims) * r->x[c];
            to = to + 1 == b->dims ? 0 : to + 1;
        }
    }
    for (size_t d = 0; d < b->dims; d++) b->t->x[(b->at + d) * b->t->n + i] = sum[d];
    return st;
}

static gg_status row_task(void *ctx, size_t task, unsigned worker, gg_error *err)
{
    const builder *b = ctx;
    row_reader r;
    (void)worker;
    size_t from = task * b->batch, to = from + b->batch < b->t->n ? from + b->batch : b->t->n;
    float *sum = malloc(b->dims * sizeof *sum);
    gg_status st = sum ? row_reader_open(&r, b, err)
                       : gg_fail(err, GG_ENOMEM, "no memory for a row of a tensor");
    if (st == GG_OK) {
        for (size_t i = from; i < to && st == GG_OK; i++) {
            uint64_t first = b->s.first + unit_no(b, i) * b->s.per;
            st = add_unit(&r, i, b->c->units ? first + b->s.per : b->s.first + to * b->s.per, sum,
                          err);
        }
        row_reader_close(&r);
    }
    free(sum);
    return st;
}

/* ---- columns ------------------------------------------------------------------------------ */

static void add_row(const builder *b, const float *x, uint64_t row)
{
    size_t per = (size_t)b->s.per, n = b->t->n, at = b->at + (size_t)(row % b->turn) * per;
    float sign = sign_of(row, b->turn);
    for (size_t c = 0; c < per; c++) {
        float *to = b->t->x + (at + c) * n;
        const float *from = x + b->s.first + c;
        for (size_t i = 0; i < n; i++) to[i] += sign * from[unit_no(b, i) * per];
    }
}

/* Every turn-th row of the tensor is added to the same rows of the table, which belong to one
 * task. */
static gg_status column_task(void *ctx, size_t task, unsigned worker, gg_error *err)
{
    const builder *b = ctx;
    row_reader r;
    (void)worker;
    gg_status st = row_reader_open(&r, b, err);
    if (st != GG_OK) return st;
    for (uint64_t base = task * b->batch; base < b->s.rows && st == GG_OK; base += b->turn) {
        uint64_t end = base / b->turn * b->turn + b->turn;
        if (end > base + b->batch) end = base + b->batch;
        if (end > b->s.rows) end = b->s.rows;
        for (uint64_t row = base; row < end && st == GG_OK; row++) {
            st = read_row(&r, b->s.row + row, b->s.row + end, err);
            if (st == GG_OK) add_row(b, r.x, row);
        }
    }
    row_reader_close(&r);
    return st;
}

/* ---- tables ------------------------------------------------------------------------------- */

static size_t part_dims(const builder *b, const gg_slice *s, const gg_tensor *t)
{
    if (s->columns) {
        uint64_t turn = b->most / s->per;
        if (turn == 0) turn = 1;
        return (size_t)((s->rows < turn ? s->rows : turn) * s->per);
    }
    uint64_t length = s->per * t->dims[0];
    return length < b->most ? (size_t)length : b->most;
}

/* Gives each unit's vector the length 1, unless it is 0. */
static void normalize_units(const builder *b, double *norms)
{
    size_t n = b->t->n;
    memset(norms, 0, n * sizeof *norms);
    for (size_t d = 0; d < b->dims; d++)
        for (size_t i = 0; i < n; i++) {
            double v = (double)b->t->x[(b->at + d) * n + i];
            norms[i] += v * v;
        }
    for (size_t i = 0; i < n; i++) norms[i] = norms[i] > 0 ? 1 / sqrt(norms[i]) : 0;
    for (size_t d = 0; d < b->dims; d++)
        for (size_t i = 0; i < n; i++) {
            float *v = &b->t->x[(b->at + d) * n + i];
            *v = (float)((double)*v * norms[i]);
        }
}

static gg_status add_part_vectors(builder *b, const gg_slice *s, double *norms, gg_error *err)
{
    b->s = *s;
    b->tensor = gg_source_tensor(b->c->source, s->index);
    b->dims = part_dims(b, s, b->tensor);
    b->turn = b->dims / (size_t)s->per;
    b->batch = s->columns ? 16 : s->per > 1 ? 1 : 64;
    gg_status st = gg_row_bytes(b->tensor->dtype, b->tensor->dims[0], &b->row_bytes, err);
    unsigned threads = b->run ? b->run->threads : 0;
    size_t tasks = ((s->columns ? b->turn : b->t->n) + b->batch - 1) / b->batch;
    if (st == GG_OK) st = gg_parallel(tasks, threads, s->columns ? column_task : row_task, b, err);
    if (st == GG_OK) normalize_units(b, norms);
    b->at += b->dims;
    return st;
}

static const gg_slice *slice_of(const builder *b, size_t i)
{
    return b->c->donor ? &b->g->parts[i].b : &b->g->parts[i].a;
}

gg_status gg_unit_table(const align_group *g, const unit_choice *c, const gg_run *run,
                        unit_table *out, gg_error *err)
{
    builder b = { .g = g, .c = c, .run = run, .t = out };
    *out = (unit_table){ .kind = g->kind, .n = c->units ? c->n : g->n };
    for (size_t i = 0; i < g->n_parts; i++) out->parts += g->parts[i].counts;
    bool heads = g->kind == GG_ALIGN_KV || g->kind == GG_ALIGN_HEAD;
    size_t most = heads ? MOST_HEADS : MOST;
    b.most = TABLE_FLOATS / (g->n * (out->parts ? out->parts : 1));
    b.most = b.most < SHORTEST ? SHORTEST : b.most > most ? most : b.most;
    for (size_t i = 0; i < g->n_parts; i++) {
        const gg_slice *s = slice_of(&b, i);
        if (g->parts[i].counts)
            out->dims += part_dims(&b, s, gg_source_tensor(c->source, s->index));
    }
    out->x = calloc(out->dims ? out->dims : 1, out->n * sizeof *out->x);
    double *norms = malloc(out->n * sizeof *norms);
    gg_status st = out->x && norms ? GG_OK
                                   : gg_fail(err, GG_ENOMEM, "no memory for %zu units", g->n);
    for (size_t i = 0; i < g->n_parts && st == GG_OK; i++)
        if (g->parts[i].counts) st = add_part_vectors(&b, slice_of(&b, i), norms, err);
    free(norms);
    if (st != GG_OK) gg_unit_table_free(out);
    return st;
}

void gg_unit_table_free(unit_table *t)
{
    free(t->x);
    *t = (unit_table){ 0 };
}

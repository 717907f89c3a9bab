/* align_order.c - reads the units of two models into tables, and finds the order in which they fit
 * best. */
#include "align_core.h"

#include "assign.h"
#include "base/parallel.h"
#include "numeric/matrix.h"
#include "numeric/ownmath.h"
#include "write/verb_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_FLOATS ((size_t)16 << 20) /* 64 MiB per table */
#define SHORTEST 32                     /* elements of a shortened vector */
#define MOST 512                        /* for FFN units and embeddings */
#define MOST_FEW 8192                   /* for heads and experts, which are few */
#define READ ((size_t)128 << 10)        /* bytes read at a time */

typedef struct builder {
    const align_group *g;
    const unit_choice *c;
    const gg_run *run;
    unit_table *t;
    size_t most; /* elements of a shortened vector */
    /* The current part: */
    gg_slice s;
    align_sum sum;
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
    float *sum;        /* what one unit adds to the table: b->dims values */
    uint64_t first, n; /* the rows in `raw` */
    uint64_t per_read;
} row_reader;

static void row_reader_close(row_reader *r)
{
    gg_data_close(&r->data);
    free(r->raw);
    free(r->x);
    free(r->sum);
}

static gg_status row_reader_open(row_reader *r, const builder *b, gg_error *err)
{
    *r = (row_reader){ .b = b };
    /* not 0: units are matched in tensors with values */
    r->per_read = b->row_bytes < READ ? READ / b->row_bytes : 1;
    gg_status st = gg_data_open(b->c->source, b->s.index, &r->data, err);
    if (st != GG_OK) return st;
    r->raw = malloc((size_t)(r->per_read * b->row_bytes));
    r->x = malloc((size_t)b->tensor->dims[0] * sizeof *r->x);
    r->sum = malloc(b->dims * sizeof *r->sum);
    if (r->raw && r->x && r->sum) return GG_OK;
    row_reader_close(r);
    return gg_fail(err, GG_ENOMEM, "no memory for a row of a tensor");
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
static gg_status add_unit(row_reader *r, size_t i, uint64_t end, gg_error *err)
{
    const builder *b = r->b;
    size_t cols = (size_t)b->tensor->dims[0], to = 0;
    uint64_t row = b->s.first + unit_no(b, i) * b->s.per, k = 0;
    gg_status st = GG_OK;
    if (b->c->units) end = row + b->s.per;
    memset(r->sum, 0, b->dims * sizeof *r->sum);
    for (uint64_t l = 0; l < b->s.per && st == GG_OK; l++) {
        st = read_row(r, row + l, end, err);
        if (b->sum == ALIGN_SUM_ROWS) k = to = 0;
        for (size_t c = 0; c < cols && st == GG_OK; c++) {
            r->sum[to] += sign_of(k, b->dims) * r->x[c];
            if (b->sum == ALIGN_SUM_COLUMNS && c + 1 < cols) continue;
            k++;
            to = to + 1 == b->dims ? 0 : to + 1;
        }
    }
    for (size_t d = 0; d < b->dims; d++) b->t->x[(b->at + d) * b->t->n + i] = r->sum[d];
    return st;
}

static gg_status row_task(void *ctx, size_t task, unsigned worker, gg_error *err)
{
    const builder *b = ctx;
    row_reader r;
    (void)worker;
    size_t from = task * b->batch, to = from + b->batch < b->t->n ? from + b->batch : b->t->n;
    gg_status st = row_reader_open(&r, b, err);
    if (st != GG_OK) return st;
    for (size_t i = from; i < to && st == GG_OK; i++)
        st = add_unit(&r, i, b->s.first + to * b->s.per, err);
    row_reader_close(&r);
    return st;
}

/* ---- columns ------------------------------------------------------------------------------ */

static void add_row(const builder *b, const float *x, uint64_t row)
{
    /* not 0: part_dims gives at least one unit */
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
        /* not 0: part_dims gives at least one unit */
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

static size_t part_dims(const builder *b, const align_part *p, const gg_tensor *t)
{
    const gg_slice *s = &p->slice;
    if (s->columns) {
        /* not 0: slices have units */
        uint64_t turn = b->most / s->per;
        if (turn == 0) turn = 1;
        return (size_t)((s->rows < turn ? s->rows : turn) * s->per);
    }
    uint64_t length = p->sum == ALIGN_SUM_ROWS      ? t->dims[0]
                      : p->sum == ALIGN_SUM_COLUMNS ? s->per
                                                    : s->per * t->dims[0];
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

static gg_status add_part_vectors(builder *b, const align_part *p, double *norms, gg_error *err)
{
    const gg_slice *s = &b->s;
    b->s = p->slice;
    b->sum = p->sum;
    b->s.index = b->c->donor ? p->b : p->a;
    b->tensor = gg_source_tensor(b->c->source, s->index);
    b->dims = part_dims(b, p, b->tensor);
    /* not 0: slices have units */
    b->turn = b->dims / (size_t)s->per;
    b->batch = s->columns ? 16 : s->per > 1 ? 1 : 64;
    gg_status st = gg_row_bytes(b->tensor->dtype, b->tensor->dims[0], &b->row_bytes, err);
    unsigned threads = b->run ? b->run->threads : 0;
    /* not 0: set above */
    size_t tasks = ((s->columns ? b->turn : b->t->n) + b->batch - 1) / b->batch;
    if (st == GG_OK) st = gg_parallel(tasks, threads, s->columns ? column_task : row_task, b, err);
    if (st == GG_OK) normalize_units(b, norms);
    b->at += b->dims;
    return st;
}

gg_status gg_unit_table(const align_group *g, const unit_choice *c, const gg_run *run,
                        unit_table *out, gg_error *err)
{
    builder b = { .g = g, .c = c, .run = run, .t = out };
    *out = (unit_table){ .kind = g->kind, .n = c->units ? c->n : g->n };
    for (size_t i = 0; i < g->n_parts; i++) out->parts += g->parts[i].counts;
    bool many = g->kind == GG_ALIGN_FFN || g->kind == GG_ALIGN_EMBEDDING;
    size_t most = many ? MOST : MOST_FEW;
    /* not 0: a group has units */
    b.most = TABLE_FLOATS / (g->n * (out->parts ? out->parts : 1));
    b.most = b.most < SHORTEST ? SHORTEST : b.most > most ? most : b.most;
    for (size_t i = 0; i < g->n_parts; i++) {
        const align_part *p = &g->parts[i];
        const gg_tensor *of = gg_source_tensor(c->source, c->donor ? p->b : p->a);
        if (p->counts) out->dims += part_dims(&b, p, of);
    }
    out->x = calloc(out->dims ? out->dims : 1, out->n * sizeof *out->x);
    double *norms = malloc(out->n * sizeof *norms);
    gg_status st = out->x && norms ? GG_OK
                                   : gg_fail(err, GG_ENOMEM, "no memory for %zu units", g->n);
    for (size_t i = 0; i < g->n_parts && st == GG_OK; i++)
        if (g->parts[i].counts) st = add_part_vectors(&b, &g->parts[i], norms, err);
    free(norms);
    if (st != GG_OK) gg_unit_table_free(out);
    return st;
}

void gg_unit_table_free(unit_table *t)
{
    free(t->x);
    *t = (unit_table){ 0 };
}

#define CANDIDATES 32 /* per unit, and the unit of the same number */
#define TILE 64       /* units of A whose products are held */

/* Added to the weight of staying in place, so that equal units do not change places. */
#define STAY 1e-4f

/* A common order is accepted if the mean cosine is at least this, and this many times what chance
 * gives. Values are explained in docs/lineage.md. */
#define LEAST_COSINE 0.25
#define LEAST_EMBEDDING 0.5 /* columns of embeddings have something in common in any two models */
#define LEAST_RATIO 1.5

/* ---- candidates --------------------------------------------------------------------------- */

typedef struct candidates {
    size_t n, most;
    uint32_t *count, *column;
    float *weight;
    const float *products; /* of the tile */
    size_t first;          /* unit of A that the tile starts with */
} candidates;

static void candidates_free(candidates *c)
{
    free(c->count);
    free(c->column);
    free(c->weight);
}

static gg_status candidates_new(size_t n, candidates *c, gg_error *err)
{
    *c = (candidates){ .n = n, .most = n < CANDIDATES + 1 ? n : CANDIDATES + 1 };
    c->count = calloc(n, sizeof *c->count);
    c->column = calloc(n, c->most * sizeof *c->column);
    c->weight = calloc(n, c->most * sizeof *c->weight);
    if (c->count && c->column && c->weight) return GG_OK;
    return gg_fail(err, GG_ENOMEM, "no memory to match %zu units", n);
}

/* Keeps the unit of the same number at place 0, and the largest others in descending order. */
static gg_status choose(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    candidates *c = ctx;
    (void)worker;
    (void)err;
    size_t unit = c->first + i;
    const float *w = c->products + i * c->n;
    uint32_t *column = c->column + unit * c->most, n = 1;
    float *weight = c->weight + unit * c->most;
    column[0] = (uint32_t)unit;
    weight[0] = w[unit] + STAY;
    for (uint32_t j = 0; j < c->n; j++) {
        if (j == unit || (n == c->most && !(w[j] > weight[n - 1])) || c->most == 1) continue;
        uint32_t at = n < c->most ? n++ : n - 1;
        for (; at > 1 && weight[at - 1] < w[j]; at--) {
            weight[at] = weight[at - 1];
            column[at] = column[at - 1];
        }
        weight[at] = w[j];
        column[at] = j;
    }
    c->count[unit] = n;
    return GG_OK;
}

/* Multiplies units of A, from `first` on, with all units of B. `products` has one row per unit. */
static gg_status multiply(const unit_table *a, size_t first, const unit_table *b,
                          const gg_matrix *products, unsigned threads, gg_error *err)
{
    gg_matrix x = { a->x + first, products->rows, a->dims, 1, a->n },
              y = gg_matrix_of(b->x, b->dims, b->n);
    return gg_matmul(products, &x, &y, threads, err);
}

static gg_status gather(candidates *c, const unit_table *a, const unit_table *b, unsigned threads,
                        gg_error *err)
{
    float *products = malloc(TILE * c->n * sizeof *products);
    gg_status st = products ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory to match %zu units", c->n);
    c->products = products;
    for (c->first = 0; c->first < c->n && st == GG_OK; c->first += TILE) {
        size_t rows = c->n - c->first < TILE ? c->n - c->first : TILE;
        st = gg_cancelled(err);
        gg_matrix tile = gg_matrix_of(products, rows, c->n);
        if (st == GG_OK) st = multiply(a, c->first, b, &tile, threads, err);
        if (st == GG_OK) st = gg_parallel(rows, threads, choose, c, err);
    }
    free(products);
    return st;
}

/* ---- the order ---------------------------------------------------------------------------- */

/* The cosine that the best of n partners of a unit has by chance. */
static double by_chance(const unit_table *t, size_t n)
{
    double per_part = t->parts ? (double)t->dims / (double)t->parts : 1;
    double deviation = 1 / sqrt(per_part * (double)(t->parts ? t->parts : 1));
    return deviation * sqrt(2 * own_log((double)(n > 1 ? n : 2)));
}

static gg_status order_new(size_t n, unit_order *o, gg_error *err)
{
    *o = (unit_order){ .n = n };
    o->from = malloc(n * sizeof *o->from);
    o->cosine = calloc(n, sizeof *o->cosine);
    if (o->from && o->cosine) return GG_OK;
    return gg_fail(err, GG_ENOMEM, "no memory for an order of %zu units", n);
}

void gg_unit_order_free(unit_order *o)
{
    free(o->from);
    free(o->cosine);
    *o = (unit_order){ 0 };
}

/* The means of the cosines in the new order and of those in place. */
static void add_up(unit_order *o, const unit_table *t, float *stay)
{
    double parts = (double)(t->parts ? t->parts : 1), sum = 0, before = 0;
    for (size_t i = 0; i < o->n; i++) {
        stay[i] = (float)((double)stay[i] / parts);
        sum += (double)o->cosine[i];
        before += (double)stay[i];
    }
    o->mean = sum / (double)o->n;
    o->before = before / (double)o->n;
}

static bool common(const unit_table *t, double mean, size_t n)
{
    double least = t->kind == GG_ALIGN_EMBEDDING ? LEAST_EMBEDDING : LEAST_COSINE;
    return mean >= least && mean >= LEAST_RATIO * by_chance(t, n);
}

/* Without units in common, nothing moves. */
static void decide(unit_order *o, bool found, const float *stay)
{
    o->found = found;
    for (uint32_t i = 0; i < o->n; i++) {
        if (!found) {
            o->from[i] = i;
            o->cosine[i] = stay[i];
        }
        o->moved += o->from[i] != i;
    }
}

gg_status gg_align_order(const unit_table *a, const unit_table *b, unsigned threads,
                         unit_order *out, gg_error *err)
{
    candidates c;
    float *stay = calloc(a->n, sizeof *stay);
    gg_status st = order_new(a->n, out, err);
    if (st == GG_OK && !stay) st = gg_fail(err, GG_ENOMEM, "no memory to match %zu units", a->n);
    gg_status made = candidates_new(a->n, &c, err);
    if (st == GG_OK) st = made;
    if (st == GG_OK) st = gather(&c, a, b, threads, err);
    gg_candidates list = { c.n, c.most, c.count, c.column, c.weight };
    if (st == GG_OK) st = gg_assign(&list, out->from, err);
    double parts = (double)(a->parts ? a->parts : 1);
    for (size_t i = 0; i < a->n && st == GG_OK; i++) {
        const float *weight = c.weight + i * c.most;
        stay[i] = weight[0] - STAY;
        for (uint32_t k = 0; k < c.count[i]; k++)
            if (c.column[i * c.most + k] == out->from[i])
                out->cosine[i] = (float)((double)(weight[k] - (k ? 0 : STAY)) / parts);
    }
    if (st == GG_OK) {
        add_up(out, a, stay);
        decide(out, common(a, out->mean, a->n), stay);
    }
    candidates_free(&c);
    free(stay);
    if (st != GG_OK) gg_unit_order_free(out);
    return st;
}

/* ---- a sample ---------------------------------------------------------------------------------
 */

static int ascending_units(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

gg_status gg_align_partners(const unit_table *a, const uint32_t *units, const unit_table *b,
                            unsigned threads, unit_order *out, gg_error *err)
{
    float *products = malloc(a->n * b->n * sizeof *products);
    gg_status st = order_new(a->n, out, err);
    if (st == GG_OK && !products) st = gg_fail(err, GG_ENOMEM, "no memory for %zu units", b->n);
    gg_matrix all = gg_matrix_of(products, a->n, b->n);
    if (st == GG_OK) st = multiply(a, 0, b, &all, threads, err);
    for (size_t i = 0; i < a->n && st == GG_OK; i++) {
        const float *w = products + i * b->n;
        uint32_t best = units[i];
        for (uint32_t j = 0; j < b->n; j++)
            if (w[j] > w[best] + (best == units[i] ? STAY : 0)) best = j;
        out->from[i] = best;
        out->mean += (double)w[best] / (double)(a->parts ? a->parts : 1) / (double)a->n;
        out->moved += best != units[i];
    }
    free(products);
    if (st != GG_OK) {
        gg_unit_order_free(out);
        return st;
    }
    qsort(out->from, a->n, sizeof *out->from, ascending_units);
    size_t twice = 0;
    for (size_t i = 1; i < a->n; i++) twice += out->from[i] == out->from[i - 1];
    out->found = common(a, out->mean, b->n) && twice <= a->n / 10;
    return GG_OK;
}

/* ---- heads -------------------------------------------------------------------------------- */

typedef struct head_match {
    size_t groups, per; /* key and value heads, and query heads of each */
    float *kv, *q;      /* products */
    float *score;       /* of each pair of groups, with their query heads in the best order */
    uint32_t *within;   /* that order: per entries for each pair */
    uint32_t *count, *column;
} head_match;

/* The best order of the whole square matrix `weight` of n x n. */
static gg_status solve(const head_match *h, size_t n, const float *weight, uint32_t *match,
                       gg_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        h->count[i] = (uint32_t)n;
        for (uint32_t j = 0; j < n; j++) h->column[i * n + j] = j;
    }
    return gg_assign(&(gg_candidates){ n, n, h->count, h->column, weight }, match, err);
}

static gg_status match_pair(const head_match *h, size_t g, size_t theirs, float *room,
                            gg_error *err)
{
    size_t n = h->groups * h->per, at = g * h->groups + theirs;
    for (size_t i = 0; i < h->per; i++)
        for (size_t j = 0; j < h->per; j++)
            room[i * h->per + j] = h->q[(g * h->per + i) * n + theirs * h->per + j] +
                                   (i == j ? STAY : 0);
    uint32_t *match = h->within + at * h->per;
    gg_status st = solve(h, h->per, room, match, err);
    h->score[at] = h->kv[at] + (g == theirs ? STAY : 0);
    for (size_t i = 0; i < h->per && st == GG_OK; i++) h->score[at] += room[i * h->per + match[i]];
    return st;
}

static gg_status head_match_new(head_match *h, size_t groups, size_t n, gg_error *err)
{
    /* not 0: the caller has heads */
    *h = (head_match){ .groups = groups, .per = n / groups };
    h->kv = calloc(groups, groups * sizeof *h->kv);
    h->q = calloc(n, n * sizeof *h->q);
    h->score = calloc(groups, groups * sizeof *h->score);
    h->within = calloc(groups, n * sizeof *h->within);
    h->count = calloc(n, sizeof *h->count);
    h->column = calloc(n, n * sizeof *h->column);
    if (h->kv && h->q && h->score && h->within && h->count && h->column) return GG_OK;
    return gg_fail(err, GG_ENOMEM, "no memory to match %zu heads", n);
}

static void head_match_free(head_match *h)
{
    free(h->kv);
    free(h->q);
    free(h->score);
    free(h->within);
    free(h->count);
    free(h->column);
}

/* Both orders from the matched groups. `stay` has room for all heads. */
static void read_orders(const head_match *h, const unit_table *kv, const unit_table *q, float *stay,
                        unit_order out[2])
{
    size_t n = h->groups * h->per;
    float kv_parts = (float)(kv->parts ? kv->parts : 1), q_parts = (float)(q->parts ? q->parts : 1);
    for (size_t g = 0; g < h->groups; g++) {
        size_t theirs = out[0].from[g];
        const uint32_t *within = h->within + (g * h->groups + theirs) * h->per;
        out[0].cosine[g] = h->kv[g * h->groups + theirs] / kv_parts;
        for (size_t i = 0; i < h->per; i++) {
            size_t head = g * h->per + i;
            out[1].from[head] = (uint32_t)(theirs * h->per) + within[i];
            out[1].cosine[head] = h->q[head * n + out[1].from[head]] / q_parts;
        }
    }
    float *stay_q = stay + h->groups;
    for (size_t g = 0; g < h->groups; g++) stay[g] = h->kv[g * h->groups + g];
    for (size_t i = 0; i < n; i++) stay_q[i] = h->q[i * n + i];
    add_up(&out[0], kv, stay);
    add_up(&out[1], q, stay_q);
    bool found = common(q, (out[0].mean + out[1].mean) / 2, n);
    decide(&out[0], found, stay);
    decide(&out[1], found, stay_q);
}

gg_status gg_align_head_order(const unit_table kv[2], const unit_table q[2], unsigned threads,
                              unit_order out[2], gg_error *err)
{
    head_match h;
    size_t groups = kv[0].n, n = q[0].n;
    float *room = malloc((n * n + groups) * sizeof *room);
    gg_status st = head_match_new(&h, groups, n, err);
    if (st == GG_OK && !room) st = gg_fail(err, GG_ENOMEM, "no memory to match %zu heads", n);
    gg_matrix kv_products = gg_matrix_of(h.kv, groups, groups),
              q_products = gg_matrix_of(h.q, n, n);
    if (st == GG_OK) st = multiply(&kv[0], 0, &kv[1], &kv_products, threads, err);
    if (st == GG_OK) st = multiply(&q[0], 0, &q[1], &q_products, threads, err);
    for (size_t g = 0; g < groups && st == GG_OK; g++)
        for (size_t k = 0; k < groups && st == GG_OK; k++) st = match_pair(&h, g, k, room, err);
    out[0] = out[1] = (unit_order){ 0 };
    if (st == GG_OK) st = order_new(groups, &out[0], err);
    if (st == GG_OK) st = order_new(n, &out[1], err);
    if (st == GG_OK) st = solve(&h, groups, h.score, out[0].from, err);
    if (st == GG_OK) read_orders(&h, &kv[0], &q[0], room, out);
    free(room);
    head_match_free(&h);
    if (st != GG_OK) {
        gg_unit_order_free(&out[0]);
        gg_unit_order_free(&out[1]);
    }
    return st;
}

/* source_view.c - reads tensors with their rows and columns in another order. */
#include "source_view.h"

#include "base/error.h"
#include "base/grow.h"
#include "gguf/gguf.h"
#include "gguf/gguf_read.h"
#include "quant/quant.h"
#include "source.h"

#include <stdlib.h>
#include <string.h>

#define BATCH ((size_t)256 << 10) /* bytes of consecutive rows that are read at once */

typedef struct unit_order {
    struct unit_order *next;
    size_t n;
    uint32_t from[];
} unit_order;

typedef struct moved {
    gg_slice s;
    const unit_order *order;
} moved;

typedef struct tensor_view {
    moved *rows, *cols; /* by first row, and by the first of their rows */
    size_t n_rows, n_cols;
    bool decoded;
} tensor_view;

struct gg_view {
    gg_source *of;
    unit_order *orders;
    tensor_view *tensors;
};

/* ---- opening -------------------------------------------------------------------------- */

gg_status gg_source_view_open(gg_source *of, gg_source **out, gg_error *err)
{
    size_t n = gg_source_count(of);
    gg_source *s = calloc(1, sizeof *s);
    gg_view *v = calloc(1, sizeof *v);
    if (s) *s = (gg_source){ .kind = SOURCE_VIEW, .view = v, .n = n };
    if (s && v) {
        v->of = of;
        v->tensors = calloc(n ? n : 1, sizeof *v->tensors);
        s->name = strdup(gg_source_name(of));
        s->tensors = calloc(n ? n : 1, sizeof *s->tensors);
    }
    gg_status st = s && v && v->tensors && s->name && s->tensors
                       ? GG_OK
                       : gg_fail(err, GG_ENOMEM, "no memory for a list of tensors");
    for (size_t i = 0; i < n && st == GG_OK; i++) s->tensors[i] = *gg_source_tensor(of, i);
    if (st == GG_OK) st = gg_name_index(s->tensors, n, &s->by_name, err);
    if (st == GG_OK) return *out = s, GG_OK;
    if (s) gg_source_close(s);
    else free(v);
    return st;
}

void gg_view_free(gg_view *v, size_t n)
{
    if (!v) return;
    for (unit_order *o = v->orders, *next; o; o = next) {
        next = o->next;
        free(o);
    }
    for (size_t i = 0; v->tensors && i < n; i++) {
        free(v->tensors[i].rows);
        free(v->tensors[i].cols);
    }
    free(v->tensors);
    free(v);
}

gg_source *gg_view_source(const gg_view *v)
{
    return v->of;
}

bool gg_source_view_moved(const gg_source *view, size_t index)
{
    if (view->kind != SOURCE_VIEW) return false;
    const tensor_view *t = &view->view->tensors[index];
    return t->n_rows + t->n_cols > 0;
}

bool gg_source_view_decoded(const gg_source *view, size_t index)
{
    return view->kind == SOURCE_VIEW && view->view->tensors[index].decoded;
}

/* ---- moving --------------------------------------------------------------------------- */

static gg_status insert(moved **list, size_t *n, moved m, gg_error *err)
{
    moved *grown = gg_grow_pow2(*list, *n, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    *list = grown;
    size_t i = (*n)++;
    uint64_t key = m.s.columns ? m.s.row : m.s.first;
    for (; i > 0 && (m.s.columns ? grown[i - 1].s.row : grown[i - 1].s.first) > key; i--)
        grown[i] = grown[i - 1];
    grown[i] = m;
    return GG_OK;
}

static bool whole_blocks(const gg_dtype_info *info, const gg_slice *s)
{
    return info->row_extra == 0 && s->first % info->block_elems == 0 &&
           s->per % info->block_elems == 0;
}

static gg_status move_slice(gg_source *view, moved m, gg_error *err)
{
    gg_view *v = view->view;
    const gg_tensor *stored = gg_source_tensor(v->of, m.s.index);
    tensor_view *t = &v->tensors[m.s.index];
    if (!m.s.columns) return insert(&t->rows, &t->n_rows, m, err);
    gg_status st = insert(&t->cols, &t->n_cols, m, err);
    if (st != GG_OK || whole_blocks(gg_dtype_get(stored->dtype), &m.s)) return st;
    if (!gg_can_decode(stored->dtype)) {
        gg_fail(err, GG_EUNSUPPORTED, "%s cannot be decoded, so its columns cannot be reordered",
                gg_dtype_name(stored->dtype));
        return gg_at_tensor(err, stored->name, stored->name_len);
    }
    gg_tensor *shown = &view->tensors[m.s.index];
    t->decoded = true;
    shown->dtype = GG_F32;
    return gg_tensor_extent(GG_F32, shown->n_dims, shown->dims, NULL, &shown->bytes, err);
}

gg_status gg_source_view_move(gg_source *view, const gg_slice *slices, size_t n,
                              const uint32_t *from, size_t n_units, gg_error *err)
{
    unit_order *o = malloc(sizeof *o + n_units * sizeof o->from[0]);
    if (!o) return gg_fail(err, GG_ENOMEM, "no memory for an order of %zu units", n_units);
    *o = (unit_order){ .next = view->view->orders, .n = n_units };
    memcpy(o->from, from, n_units * sizeof *from);
    view->view->orders = o;
    gg_status st = GG_OK;
    for (size_t i = 0; i < n && st == GG_OK; i++)
        st = move_slice(view, (moved){ slices[i], o }, err);
    return st;
}

/* ---- reading -------------------------------------------------------------------------- */

typedef struct view_reader {
    const tensor_view *v;
    const gg_tensor *stored;
    gg_data *in;
    uint64_t row_in, row_out;    /* bytes per row */
    uint64_t cell;               /* bytes that move together; 4 if decoded */
    uint8_t *raw;                /* consecutive rows as stored */
    float *values;               /* of one row, if decoded */
    uint8_t *row;                /* one row as shown */
    uint32_t *from;              /* by cell of a row */
    uint64_t from_row, from_end; /* the rows for which `from` is filled */
} view_reader;

/* The last moved slice that starts at or before the row; NULL if none. */
static const moved *slice_at(const moved *list, size_t n, uint64_t row, bool columns)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if ((columns ? list[mid].s.row : list[mid].s.first) <= row) low = mid + 1;
        else high = mid;
    }
    return low ? &list[low - 1] : NULL;
}

static uint64_t stored_row(const tensor_view *v, uint64_t row)
{
    const moved *m = slice_at(v->rows, v->n_rows, row, false);
    uint64_t unit = m ? (row - m->s.first) / m->s.per : 0;
    if (!m || unit >= m->order->n) return row;
    return m->s.first + m->order->from[unit] * m->s.per + (row - m->s.first) % m->s.per;
}

/* Fills r->from for this row and those that share its order. Slices whose rows start together
 * cover the same rows. */
static void fill_columns(view_reader *r, uint64_t row)
{
    const tensor_view *v = r->v;
    const gg_dtype_info *info = gg_dtype_get(r->stored->dtype);
    uint64_t cell = v->decoded ? 1 : info->block_elems, cells = r->stored->dims[0] / cell;
    const moved *m = slice_at(v->cols, v->n_cols, row, true);
    for (uint64_t c = 0; c < cells; c++) r->from[c] = (uint32_t)c;
    r->from_row = row;
    r->from_end = row + 1;
    if (!m || row - m->s.row >= m->s.rows) return;
    r->from_row = m->s.row;
    r->from_end = m->s.row + m->s.rows;
    for (uint64_t start = m->s.row; m >= v->cols && m->s.row == start; m--) {
        uint64_t first = m->s.first / cell, per = m->s.per / cell;
        for (uint64_t u = 0; u < m->order->n; u++)
            for (uint64_t k = 0; k < per; k++)
                r->from[first + u * per + k] = (uint32_t)(first + m->order->from[u] * per + k);
    }
}

static void move_cells(const view_reader *r, const uint8_t *from, uint64_t cells)
{
    uint8_t *to = r->row;
    size_t size = (size_t)r->cell;
    if (size == 2)
        for (uint64_t c = 0; c < cells; c++) memcpy(to + 2 * c, from + 2 * (size_t)r->from[c], 2);
    else if (size == 4)
        for (uint64_t c = 0; c < cells; c++) memcpy(to + 4 * c, from + 4 * (size_t)r->from[c], 4);
    else
        for (uint64_t c = 0; c < cells; c++) memcpy(to + size * c, from + size * r->from[c], size);
}

/* Makes the row that is stored in `raw` as the view shows it, in r->row. */
static gg_status make_row(view_reader *r, uint64_t row, const uint8_t *raw, gg_error *err)
{
    if (row < r->from_row || row >= r->from_end) fill_columns(r, row);
    const uint8_t *from = raw;
    if (r->v->decoded) {
        gg_status st = gg_decode(r->stored->dtype, raw, r->values, (size_t)r->stored->dims[0], err);
        if (st != GG_OK) return st;
        from = (const uint8_t *)r->values;
    }
    move_cells(r, from, r->row_out / r->cell);
    return GG_OK;
}

/* Reads a span that lies in `rows` rows that are stored one after another. */
static gg_status read_run(view_reader *r, uint64_t rows, gg_view_span span, gg_error *err)
{
    uint64_t row = span.at / r->row_out, skip = span.at % r->row_out;
    uint64_t from = stored_row(r->v, row) * r->row_in;
    uint8_t *to = span.to;
    size_t n = span.n;
    if (!r->v->n_cols) return gg_data_read(r->in, from + skip, to, n, err);
    gg_status st = gg_data_read(r->in, from, r->raw, (size_t)(rows * r->row_in), err);
    for (uint64_t i = 0; i < rows && st == GG_OK; i++) {
        size_t part = (size_t)(r->row_out - skip) < n ? (size_t)(r->row_out - skip) : n;
        st = make_row(r, row + i, r->raw + i * r->row_in, err);
        if (st != GG_OK) break;
        memcpy(to, r->row + skip, part);
        to += part;
        n -= part;
        skip = 0;
    }
    return st;
}

static gg_status reader_open(view_reader *r, gg_error *err)
{
    const gg_tensor *t = r->stored;
    gg_status st = gg_row_bytes(t->dtype, t->dims[0], &r->row_in, err);
    if (st != GG_OK) return st;
    r->cell = r->v->decoded ? sizeof(float) : gg_dtype_get(t->dtype)->block_bytes;
    r->row_out = r->v->decoded ? t->dims[0] * sizeof(float) : r->row_in;
    if (!r->v->n_cols) return GG_OK;
    size_t batch = r->row_in < BATCH ? BATCH : (size_t)r->row_in;
    r->raw = malloc(batch);
    r->values = malloc((size_t)t->dims[0] * sizeof *r->values);
    r->row = malloc((size_t)r->row_out);
    r->from = malloc((size_t)t->dims[0] * sizeof *r->from);
    return r->raw && r->values && r->row && r->from
               ? GG_OK
               : gg_fail(err, GG_ENOMEM, "no memory for a row of a tensor");
}

static void reader_close(view_reader *r)
{
    free(r->raw);
    free(r->values);
    free(r->row);
    free(r->from);
}

/* The number of rows from `row` on, below `most`, that are stored one after another. */
static uint64_t run_length(const view_reader *r, uint64_t row, uint64_t most)
{
    uint64_t n = 1, first = stored_row(r->v, row);
    while (n < most && (r->v->n_rows == 0 || stored_row(r->v, row + n) == first + n)) n++;
    return n;
}

gg_status gg_view_read(gg_data *in, const gg_view *v, size_t index, gg_view_span span,
                       gg_error *err)
{
    view_reader r = { .v = &v->tensors[index], .stored = gg_source_tensor(v->of, index), .in = in };
    if ((!r.v->n_rows && !r.v->n_cols) || span.n == 0)
        return gg_data_read(in, span.at, span.to, span.n, err);
    gg_status st = reader_open(&r, err);
    while (span.n > 0 && st == GG_OK) {
        uint64_t row = span.at / r.row_out, skip = span.at % r.row_out;
        uint64_t most = (skip + span.n + r.row_out - 1) / r.row_out;
        if (r.v->n_cols && most > BATCH / r.row_in) most = BATCH / r.row_in ? BATCH / r.row_in : 1;
        uint64_t rows = run_length(&r, row, most), bytes = rows * r.row_out - skip;
        gg_view_span part = { span.at, span.to, bytes < span.n ? (size_t)bytes : span.n };
        st = read_run(&r, rows, part, err);
        span = (gg_view_span){ span.at + part.n, (uint8_t *)span.to + part.n, span.n - part.n };
    }
    reader_close(&r);
    return st;
}

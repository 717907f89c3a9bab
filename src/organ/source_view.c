/* source_view.c - sources that show another one with its units in another order. */
#include "source.h"

#include "base/error.h"
#include "base/grow.h"
#include "quant/quant.h"

#include <stdlib.h>
#include <string.h>

#define BATCH ((size_t)256 << 10) /* bytes of consecutive rows that are read at once */

/* An order of the units that a call of gg_source_view_move has moved. */
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

typedef struct source_view {
    gg_source s;
    unit_order *orders;
    tensor_view *tensors;
} source_view;

static const gg_source_kind view_kind;

static source_view *view_of(const gg_source *s)
{
    return (source_view *)(uintptr_t)s;
}

gg_status gg_source_view_open(gg_source *of, bool owned, gg_source **out, gg_error *err)
{
    size_t n = of->n;
    gg_source *s = gg_source_new(&view_kind, of->name, err);
    if (!s) return GG_ENOMEM;
    s->of = of;
    s->meta = of->meta;
    view_of(s)->tensors = calloc(n + 1, sizeof *view_of(s)->tensors);
    s->tensors = calloc(n + 1, sizeof *s->tensors);
    gg_status st = view_of(s)->tensors && s->tensors ? GG_OK : gg_source_no_memory(err);
    for (; s->n < n && st == GG_OK; s->n++) s->tensors[s->n] = *gg_source_tensor(of, s->n);
    st = gg_source_opened(s, st, out, err);
    if (st == GG_OK) s->owned = owned;
    return st;
}

static void close_view(gg_source *s)
{
    source_view *v = view_of(s);
    for (unit_order *o = v->orders, *next; o; o = next) {
        next = o->next;
        free(o);
    }
    for (size_t i = 0; v->tensors && i < s->n; i++) {
        free(v->tensors[i].rows);
        free(v->tensors[i].cols);
    }
    free(v->tensors);
    free(s->tensors);
}

bool gg_source_view_moved(const gg_source *view, size_t index)
{
    if (view->kind != &view_kind) return false;
    const tensor_view *t = &view_of(view)->tensors[index];
    return t->n_rows + t->n_cols > 0;
}

bool gg_source_view_decoded(const gg_source *view, size_t index)
{
    return view->kind == &view_kind && view_of(view)->tensors[index].decoded;
}

static gg_status insert_moved(moved **list, size_t *n, moved m, gg_error *err)
{
    if (GG_ROOM(*list, *n, NULL, err) != GG_OK) return GG_ENOMEM;
    size_t i = (*n)++;
    uint64_t key = m.s.columns ? m.s.row : m.s.first;
    for (; i > 0 && (m.s.columns ? (*list)[i - 1].s.row : (*list)[i - 1].s.first) > key; i--)
        (*list)[i] = (*list)[i - 1];
    (*list)[i] = m;
    return GG_OK;
}

static bool moves_whole_blocks(const gg_dtype_info *info, const gg_slice *s)
{
    return info->row_extra == 0 && s->first % info->block_elems == 0 &&
           s->per % info->block_elems == 0;
}

static gg_status move_slice(gg_source *view, moved m, gg_error *err)
{
    const gg_tensor *stored = gg_source_tensor(view->of, m.s.index);
    tensor_view *t = &view_of(view)->tensors[m.s.index];
    unsigned rows = gg_rows_together(stored->dtype);
    if (rows > 1 && (m.s.columns || m.s.first % rows || m.s.per % rows))
        return gg_refuse_rows_together(stored, err);
    if (!m.s.columns) return insert_moved(&t->rows, &t->n_rows, m, err);
    gg_status st = insert_moved(&t->cols, &t->n_cols, m, err);
    if (st != GG_OK || moves_whole_blocks(gg_dtype_get(stored->dtype), &m.s)) return st;
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
    *o = (unit_order){ .next = view_of(view)->orders, .n = n_units };
    memcpy(o->from, from, n_units * sizeof *from);
    view_of(view)->orders = o;
    gg_status st = GG_OK;
    for (size_t i = 0; i < n && st == GG_OK; i++)
        st = move_slice(view, (moved){ slices[i], o }, err);
    return st;
}

/* Bytes of a tensor to read: n from `at` on, into `to`. */
typedef struct view_span {
    uint64_t at;
    void *to;
    size_t n;
} view_span;

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
    /* not 0: units have rows */
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

uint64_t gg_source_view_place(const gg_source *s, size_t index, uint64_t row, uint64_t *column)
{
    if (s->kind != &view_kind) return row;
    const tensor_view *v = &view_of(s)->tensors[index];
    const moved *m = slice_at(v->cols, v->n_cols, row, true);
    bool covers = m && row - m->s.row < m->s.rows;
    for (uint64_t start = m ? m->s.row : 0; covers && m->s.row == start; m--) {
        /* not 0: units have columns */
        uint64_t at = *column - m->s.first, unit = at / m->s.per;
        bool found = *column >= m->s.first && unit < m->order->n;
        if (found) *column = m->s.first + m->order->from[unit] * m->s.per + at % m->s.per;
        if (found || m == v->cols) break;
    }
    return gg_source_view_place(s->of, index, stored_row(v, row), column);
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
    /* not 0: reader_open sets it to bytes of a block or a value */
    move_cells(r, from, r->row_out / r->cell);
    return GG_OK;
}

/* Reads a span that lies in `rows` rows that are stored one after another. */
static gg_status read_run(view_reader *r, uint64_t rows, view_span span, gg_error *err)
{
    /* not 0: a byte of the tensor is read */
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

static gg_status read_moved(gg_data *in, const tensor_view *v, view_span span, gg_error *err)
{
    view_reader r = { .v = v, .stored = gg_source_tensor(in->source, in->index), .in = in };
    if ((!r.v->n_rows && !r.v->n_cols) || span.n == 0)
        return gg_data_read(in, span.at, span.to, span.n, err);
    gg_status st = reader_open(&r, err);
    while (span.n > 0 && st == GG_OK) {
        /* not 0: a byte of the tensor is read */
        uint64_t row = span.at / r.row_out, skip = span.at % r.row_out;
        uint64_t most = (skip + span.n + r.row_out - 1) / r.row_out;
        /* not 0: a byte of the tensor is read */
        if (r.v->n_cols && most > BATCH / r.row_in) most = BATCH / r.row_in ? BATCH / r.row_in : 1;
        uint64_t rows = run_length(&r, row, most), bytes = rows * r.row_out - skip;
        view_span part = { span.at, span.to, bytes < span.n ? (size_t)bytes : span.n };
        st = read_run(&r, rows, part, err);
        span = (view_span){ span.at + part.n, (uint8_t *)span.to + part.n, span.n - part.n };
    }
    reader_close(&r);
    return st;
}

/* ---- the kind ------------------------------------------------------------------------------ */

/* A view must be read with gg_data_read, so its descriptor is hidden. */
static gg_status place_in_view(gg_source *s, size_t i, gg_data *d, gg_error *err)
{
    gg_data in;
    gg_status st = gg_data_open(s->of, i, &in, err);
    if (st != GG_OK) return st;
    d->at = in.at;
    d->close_fd = in.close_fd;
    d->hidden = in.fd >= 0 ? in.fd : in.hidden; /* a view of a view */
    return GG_OK;
}

/* The same data of the source below. */
static gg_data data_below(const gg_data *d)
{
    gg_source *of = d->source->of;
    gg_data in = { .source = of, .index = d->index, .fd = -1, .at = d->at, .hidden = -1 };
    *(of->kind == &view_kind ? &in.hidden : &in.fd) = d->hidden;
    in.bytes = gg_source_tensor(of, d->index)->bytes;
    in.cache = d->cache;
    return in;
}

static gg_status read_view(gg_data *d, uint64_t offset, void *buf, size_t n, gg_error *err)
{
    gg_data in = data_below(d);
    const tensor_view *v = &view_of(d->source)->tensors[d->index];
    gg_status st = read_moved(&in, v, (view_span){ offset, buf, n }, err);
    d->cache = in.cache;
    return st;
}

static void end_view(gg_data *d)
{
    gg_data in = data_below(d);
    if (in.source->kind->end) in.source->kind->end(&in);
}

static void reads_of_view(const gg_source *s, size_t i, gg_reads r)
{
    gg_source_reads(s->of, i, r);
}

static const gg_source_kind view_kind = {
    .size = sizeof(source_view),
    .knows = true,
    .close = close_view,
    .place = place_in_view,
    .read = read_view,
    .end = end_view,
    .reads = reads_of_view,
};

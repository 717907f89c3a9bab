/* source_join.c - sources that show another one with some of its tensors joined or divided. */
#include "source.h"

#include "base/error.h"
#include "quant/quant.h"

#include <stdlib.h>
#include <string.h>

/* A tensor that consists of strips of others. */
typedef struct joined {
    gg_strip strips[GG_STRIPS];
    size_t n;      /* 0: it is strips[0].index, unchanged */
    uint64_t unit; /* values per row */
} joined;

typedef struct source_join {
    gg_source s;
    gg_names names;
    joined *list; /* one per tensor */
} source_join;

static const gg_source_kind join_kind;

static source_join *join_of(const gg_source *s)
{
    return (source_join *)(uintptr_t)s;
}

gg_status gg_source_join_open(gg_source *of, size_t most, gg_source **out, gg_error *err)
{
    gg_source *s = gg_source_new(&join_kind, of->name, err);
    if (!s) return GG_ENOMEM;
    s->tensors = calloc(most + 1, sizeof *s->tensors);
    join_of(s)->list = calloc(most + 1, sizeof *join_of(s)->list);
    s->of = of;
    s->meta = of->meta;
    s->model = of->model;
    if (s->tensors && join_of(s)->list) {
        *out = s;
        return GG_OK;
    }
    gg_source_close(s);
    return gg_source_no_memory(err);
}

static void close_join(gg_source *s)
{
    free(s->tensors);
    free(join_of(s)->list);
    gg_names_free(&join_of(s)->names);
}

gg_status gg_source_join_add(gg_source *s, const gg_tensor *t, const gg_strip *strips, size_t n,
                             uint64_t unit, gg_error *err)
{
    gg_tensor *to = &s->tensors[s->n];
    joined *j = &join_of(s)->list[s->n];
    for (size_t i = 0; i < n; i++) {
        const gg_tensor *from = gg_source_tensor(s->of, strips[i].index);
        unsigned rows = gg_rows_together(from->dtype); /* not 0: at least one row */
        if (strips[i].first % rows == 0 && strips[i].rows % rows == 0 &&
            strips[i].every % rows == 0)
            continue;
        return gg_refuse_rows_together(from, err);
    }
    *to = *t;
    to->name = gg_names_add(&join_of(s)->names, t->name, t->name_len, err);
    if (!to->name) return err->status;
    *j = (joined){ .n = n, .unit = unit };
    memcpy(j->strips, strips, (n ? n : 1) * sizeof *strips);
    s->n++;
    return gg_tensor_extent(to->dtype, to->n_dims, to->dims, &to->elements, &to->bytes, err);
}

gg_status gg_source_join_end(gg_source *s, bool owned, gg_error *err)
{
    gg_status st = gg_source_admit(s, err);
    if (st == GG_OK) st = gg_name_index(s->tensors, s->n, &s->by_name, err);
    s->owned = owned && st == GG_OK;
    return st;
}

/* Reads whole rows, or a part of one, that lie in one strip of one slice, and decodes them if they
 * have another dtype than the joined tensor. At most *n bytes; sets *n to their number. */
static gg_status read_strip(gg_source *s, size_t index, uint64_t at, uint8_t *to, size_t *n,
                            gg_error *err)
{
    const joined *j = &join_of(s)->list[index];
    uint64_t row_out, row_in, rows = 0, row, first;
    size_t k = 0;
    gg_status st = gg_row_bytes(s->tensors[index].dtype, j->unit, &row_out, err);
    if (st != GG_OK) return st;
    for (size_t i = 0; i < j->n; i++) rows += j->strips[i].rows;
    /* not 0: a byte of the tensor is read */
    row = at / row_out % rows;
    for (; row >= j->strips[k].rows; k++) row -= j->strips[k].rows;
    const gg_strip *strip = &j->strips[k];
    const gg_tensor *from = gg_source_tensor(s->of, strip->index);
    first = at / row_out / rows * strip->every + strip->first + row;
    bool decoded = from->dtype != s->tensors[index].dtype;
    uint64_t left = (decoded ? 1 : strip->rows - row) * row_out - at % row_out;
    if (left < *n) *n = (size_t)left;
    st = gg_row_bytes(from->dtype, j->unit, &row_in, err);
    gg_data d;
    if (st == GG_OK) st = gg_data_open(s->of, strip->index, &d, err);
    if (st != GG_OK) return st;
    if (!decoded) {
        st = gg_data_read(&d, first * row_in + at % row_out, to, *n, err);
    } else {
        uint8_t *raw = malloc((size_t)row_in);
        float *values = malloc((size_t)row_out);
        st = raw && values ? gg_data_read(&d, first * row_in, raw, (size_t)row_in, err)
                           : gg_fail(err, GG_ENOMEM, "no memory for a row of a tensor");
        if (st == GG_OK) st = gg_decode(from->dtype, raw, values, (size_t)j->unit, err);
        if (st == GG_OK) memcpy(to, (uint8_t *)values + at % row_out, *n);
        free(values);
        free(raw);
    }
    gg_data_close(&d);
    return st;
}

static gg_status read_join(gg_data *d, uint64_t offset, void *buf, size_t n, gg_error *err)
{
    uint8_t *to = buf;
    gg_status st = GG_OK;
    if (join_of(d->source)->list[d->index].n == 0) { /* in a view of this source */
        gg_data in;
        st = gg_data_open(d->source, d->index, &in, err);
        if (st != GG_OK) return st;
        st = gg_data_read(&in, offset, buf, n, err);
        gg_data_close(&in);
        return st;
    }
    while (n > 0 && st == GG_OK) {
        size_t got = n;
        st = read_strip(d->source, d->index, offset, to, &got, err);
        to += got;
        offset += got;
        n -= got;
    }
    return st;
}

/* ---- the kind ------------------------------------------------------------------------------ */

static gg_status place_in_join(gg_source *s, size_t i, gg_data *d, gg_error *err)
{
    const joined *j = &join_of(s)->list[i];
    return j->n ? GG_OK : gg_data_open(s->of, j->strips[0].index, d, err);
}

/* All bytes of the strips of a joined tensor. */
static void joined_reads(const gg_source *s, const joined *j, gg_reads r)
{
    for (size_t k = 0; k < j->n; k++) {
        const gg_strip *strip = &j->strips[k];
        const gg_tensor *t = gg_source_tensor(s->of, strip->index);
        uint64_t rows = j->unit ? t->elements / j->unit : 0, row = rows ? t->bytes / rows : 0;
        r.n = strip->rows * row;
        for (uint64_t slice = 0; slice < rows; slice += strip->every) {
            r.from = (slice + strip->first) * row;
            gg_source_reads(s->of, strip->index, r);
        }
    }
}

static void reads_of_join(const gg_source *s, size_t i, gg_reads r)
{
    const joined *j = &join_of(s)->list[i];
    if (j->n) joined_reads(s, j, r);
    else gg_source_reads(s->of, j->strips[0].index, r);
}

static const gg_source_kind join_kind = {
    .size = sizeof(source_join),
    .knows = true,
    .close = close_join,
    .place = place_in_join,
    .read = read_join,
    .reads = reads_of_join,
};

/* vocab_view.c - a source that shows a model with another vocabulary: rows of its matrices are
 * moved as they are, taken from other models, or computed, when they are read. */
#include "vocab.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/text.h"
#include "numeric/numeric.h"
#include "organ/gg_quant.h"
#include "organ/source.h"
#include "quant/quant.h"
#include "write/verb_run.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP ((size_t)256 << 10) /* bytes that are made before they are written */

/* ---- rows -------------------------------------------------------------------------------------
 */

static void free_sum(gg_vocab_sum *s)
{
    free(s->ids);
    free(s->sources);
    free(s->weights);
}

void gg_vocab_row_free(gg_vocab_row *row)
{
    if (!row->made) return;
    free_sum(&row->made->sum);
    free_sum(&row->made->output);
    free(row->made);
    row->made = NULL;
}

void gg_vocab_rows_free(gg_vocab_rows *r)
{
    for (size_t i = 0; i < r->n; i++) gg_vocab_row_free(&r->list[i]);
    free(r->list);
    *r = (gg_vocab_rows){ 0 };
}

gg_vocab_made *gg_vocab_make(gg_vocab_row *row, gg_error *err)
{
    row->from = GG_ROW_MADE;
    if (!row->made && !(row->made = calloc(1, sizeof *row->made)))
        gg_fail(err, GG_ENOMEM, "no memory for a row");
    return row->made;
}

/* ---- the view ---------------------------------------------------------------------------------
 */

/* One tensor as the view shows it. */
typedef struct matrix {
    const gg_vocab_row *rows; /* NULL: the tensor of the first model, unchanged */
    const int64_t *numbers;   /* of d2t, instead */
    uint64_t width;           /* values per row */
    size_t row_bytes;
    size_t *at;    /* of the tensor in each model */
    float *mean;   /* of all rows of the first model; NULL until it is needed */
    double spread; /* standard deviation of all values */
} matrix;

typedef struct vocab_view {
    gg_source s;
    gg_source **models;
    size_t *tokens; /* of each model */
    size_t n_models;
    const gg_vocab_rows *rows;
    gg_vocab_rows heads;   /* of a draft head, with copied rows only */
    int64_t *numbers;      /* the tokens of these */
    gg_vocab_rows drafted; /* of t2d: those of these tokens are copied */
    matrix *list;          /* one per tensor */
    size_t *places;        /* all matrix.at */
    pthread_mutex_t lock;
} vocab_view;

/* What one gg_data keeps. */
typedef struct reader {
    gg_data *in; /* of each model */
    bool *open;
    uint8_t *raw;  /* one row as stored */
    float *values; /* one row */
    double *sum;   /* one row */
    uint8_t *made; /* the last row that was computed */
    uint64_t row;  /* its number */
} reader;

static const gg_source_kind vocab_kind;

static vocab_view *view_of(const gg_source *s)
{
    return (vocab_view *)(uintptr_t)s;
}

bool gg_vocab_is_matrix(const gg_tensor *t)
{
    static const char *const names[] = { "token_embd.weight",
                                         "output.weight",
                                         "output.bias",
                                         "per_layer_token_embd.weight",
                                         "selector_predecessor.weight",
                                         "selector_successor.weight",
                                         "markov_w1.weight",
                                         "markov_w2.weight",
                                         "t2d" };
    static const char *const ends[] = { ".nextn.embed_tokens.weight",
                                        ".nextn.shared_head_head.weight",
                                        ".ffn_gate_tid2eid.weight" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(t->name, names[i]) == 0) return true;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (gg_text_ends(t->name, t->name_len, ends[i])) return true;
    return false;
}

static bool is_output(const gg_tensor *t)
{
    return strncmp(t->name, "output.", 7) == 0 || strcmp(t->name, "markov_w2.weight") == 0 ||
           strstr(t->name, "shared_head_head") != NULL;
}

/* t2d: whether a draft head has each token. */
static bool is_flags(const gg_tensor *t)
{
    return strcmp(t->name, "t2d") == 0;
}

static uint32_t last_axis(const gg_tensor *t)
{
    uint32_t last = t->n_dims ? t->n_dims - 1 : 0;
    while (last > 1 && t->dims[last] == 1) last--;
    return last;
}

/* ---- reading rows ------------------------------------------------------------------------------
 */

static gg_status no_row(gg_error *err)
{
    return gg_fail(err, GG_ENOMEM, "no memory for a row");
}

static gg_status reader_open(gg_data *d, gg_error *err)
{
    const vocab_view *v = view_of(d->source);
    const matrix *m = &v->list[d->index];
    size_t width = (size_t)m->width, most = m->row_bytes;
    if (d->cache) return GG_OK;
    for (size_t k = 0; k < v->n_models; k++) {
        uint64_t bytes = 0;
        uint32_t dtype = gg_source_tensor(v->models[k], m->at[k])->dtype;
        if (gg_row_bytes(dtype, m->width, &bytes, err) != GG_OK) return err->status;
        if (bytes > most) most = (size_t)bytes;
    }
    reader *r = d->cache = calloc(1, sizeof *r);
    if (!r) return no_row(err);
    r->row = UINT64_MAX;
    r->in = calloc(v->n_models, sizeof *r->in);
    r->open = calloc(v->n_models, sizeof *r->open);
    r->raw = malloc(most + 1);
    r->made = malloc(m->row_bytes + 1);
    r->values = malloc((width + 1) * sizeof *r->values);
    r->sum = malloc((width + 1) * sizeof *r->sum);
    return r->in && r->open && r->raw && r->made && r->values && r->sum ? GG_OK : no_row(err);
}

static void reader_close(gg_data *d)
{
    reader *r = d->cache;
    if (!r) return;
    for (size_t k = 0; r->in && r->open && k < view_of(d->source)->n_models; k++)
        if (r->open[k]) gg_data_close(&r->in[k]);
    free(r->in);
    free(r->open);
    free(r->raw);
    free(r->made);
    free(r->values);
    free(r->sum);
    free(r);
    d->cache = NULL;
}

/* The data of model k; NULL with the error. */
static gg_data *data_of(gg_data *d, size_t k, gg_error *err)
{
    const vocab_view *v = view_of(d->source);
    reader *r = d->cache;
    if (!r->open[k])
        r->open[k] = gg_data_open(v->models[k], v->list[d->index].at[k], &r->in[k], err) == GG_OK;
    return r->open[k] ? &r->in[k] : NULL;
}

/* Reads a row of model k as stored, into r->raw, and decodes it, unless it has integers. */
static gg_status read_row(gg_data *d, size_t k, uint64_t row, gg_error *err)
{
    const vocab_view *v = view_of(d->source);
    const matrix *m = &v->list[d->index];
    reader *r = d->cache;
    uint32_t dtype = gg_source_tensor(v->models[k], m->at[k])->dtype;
    uint64_t bytes = 0;
    gg_data *in = data_of(d, k, err);
    if (!in || gg_row_bytes(dtype, m->width, &bytes, err) != GG_OK) return err->status;
    gg_status st = gg_data_read(in, row * bytes, r->raw, (size_t)bytes, err);
    if (st != GG_OK || !gg_can_decode(v->s.tensors[d->index].dtype)) return st;
    return gg_decode(dtype, r->raw, r->values, (size_t)m->width, err);
}

/* Computes the mean of all rows of the first model, and the spread, once for all readers. */
static gg_status find_mean(gg_data *d, gg_error *err)
{
    vocab_view *v = view_of(d->source);
    matrix *m = &v->list[d->index];
    const reader *r = d->cache;
    size_t width = (size_t)m->width, rows = v->tokens[0];
    double squares = 0, total = 0, n = (double)rows * (double)width;
    pthread_mutex_lock(&v->lock);
    double *sum = m->mean ? NULL : calloc(width, sizeof *sum);
    float *mean = m->mean ? NULL : calloc(width, sizeof *mean);
    if (!m->mean && (!sum || !mean)) no_row(err);
    for (size_t i = 0; i < rows && !m->mean && err->status == GG_OK; i++) {
        if (gg_cancelled(err) != GG_OK || read_row(d, 0, i, err) != GG_OK) break;
        for (size_t c = 0; c < width; c++) {
            double x = r->values[c];
            sum[c] += x;
            total += x;
            squares += x * x;
        }
    }
    if (!m->mean && err->status == GG_OK) {
        double average = total / n, var = squares / n - average * average;
        for (size_t c = 0; c < width; c++) mean[c] = (float)(sum[c] / (double)rows);
        m->spread = sqrt(var > 0 ? var : 0);
        m->mean = mean;
        mean = NULL;
    }
    pthread_mutex_unlock(&v->lock);
    free(sum);
    free(mean);
    return err->status;
}

/* Fills r->values with a row that is not a sum. */
static gg_status fill_row(gg_data *d, gg_vocab_fill fill, uint64_t row, gg_error *err)
{
    const matrix *m = &view_of(d->source)->list[d->index];
    const reader *r = d->cache;
    size_t width = (size_t)m->width;
    if (fill != GG_FILL_ZERO && find_mean(d, err) != GG_OK) return err->status;
    if (fill == GG_FILL_ZERO) memset(r->values, 0, width * sizeof *r->values);
    else if (fill == GG_FILL_MEAN) memcpy(r->values, m->mean, width * sizeof *r->values);
    else {
        gg_gauss_fill(r->values, width, row);
        for (size_t i = 0; i < width; i++) r->values[i] *= (float)m->spread;
    }
    return GG_OK;
}

/* Makes a row in r->made. Integers, such as numbers of experts, are those of the first row of a
 * sum; a draft head has no token that is made. */
static gg_status make_row(gg_data *d, uint64_t row, gg_error *err)
{
    const vocab_view *v = view_of(d->source);
    const matrix *m = &v->list[d->index];
    const gg_tensor *t = &v->s.tensors[d->index];
    const gg_vocab_row *of = &m->rows[row];
    const gg_vocab_made *made = of->from == GG_ROW_MADE ? of->made : NULL;
    const gg_vocab_sum *sum = made && is_output(t) && made->output.ids ? &made->output
                              : made                                   ? &made->sum
                                                                       : NULL;
    reader *r = d->cache;
    size_t width = (size_t)m->width;
    if (r->row == row) return GG_OK;
    r->row = UINT64_MAX;
    if (!gg_can_decode(t->dtype) || (is_flags(t) && of->from == GG_ROW_MADE)) {
        bool any = sum && sum->n && !is_flags(t);
        if (any && read_row(d, sum->sources ? sum->sources[0] : 0, sum->ids[0], err) != GG_OK)
            return err->status;
        if (any) memcpy(r->made, r->raw, m->row_bytes);
        else memset(r->made, 0, m->row_bytes);
        r->row = row;
        return GG_OK;
    }
    if (of->from != GG_ROW_MADE) {
        if (read_row(d, of->source, of->from, err) != GG_OK) return err->status;
    } else if (!sum || sum->n == 0) {
        if (fill_row(d, made ? made->fill : GG_FILL_MEAN, row, err) != GG_OK) return err->status;
    } else {
        memset(r->sum, 0, width * sizeof *r->sum);
        for (uint32_t j = 0; j < sum->n; j++) {
            double w = sum->weights ? sum->weights[j] : 1.0 / sum->n;
            if (read_row(d, sum->sources ? sum->sources[j] : 0, sum->ids[j], err) != GG_OK)
                return err->status;
            for (size_t i = 0; i < width; i++) r->sum[i] += w * r->values[i];
        }
        for (size_t i = 0; i < width; i++) r->values[i] = (float)r->sum[i];
    }
    if (gg_encode(t->dtype, r->values, r->made, width, width, NULL, err) != GG_OK)
        return gg_fix(err, "first write the embeddings in another type, such as q8_0");
    r->row = row;
    return GG_OK;
}

/* Bytes from `offset` on, at most n, that lie in one place of a model, or in one row that is made.
 */
typedef struct stretch {
    size_t source; /* SIZE_MAX: r->made */
    uint64_t at;
    size_t n;
} stretch;

static stretch stretch_at(const gg_data *d, uint64_t offset, uint64_t n)
{
    const vocab_view *v = view_of(d->source);
    const matrix *m = &v->list[d->index];
    uint32_t dtype = v->s.tensors[d->index].dtype;
    /* not 0: matrices have values */
    uint64_t row = offset / m->row_bytes, skip = offset % m->row_bytes, run = 1;
    uint64_t most = (skip + n + m->row_bytes - 1) / m->row_bytes;
    const gg_vocab_row *r = &m->rows[row];
    bool moved = r->from != GG_ROW_MADE &&
                 gg_source_tensor(v->models[r->source], m->at[r->source])->dtype == dtype;
    while (moved && run < most && r[run].source == r->source && r[run].from == r->from + run) run++;
    uint64_t bytes = run * m->row_bytes - skip;
    return (stretch){ moved ? r->source : SIZE_MAX,
                      moved ? r->from * (uint64_t)m->row_bytes + skip : skip,
                      bytes < n ? (size_t)bytes : (size_t)n };
}

static gg_status read_numbers(const matrix *m, uint64_t offset, void *buf, size_t n)
{
    memcpy(buf, (const uint8_t *)m->numbers + offset, n);
    return GG_OK;
}

/* A tensor that is not changed is read through a view of this one only. */
static gg_status read_unchanged(const gg_data *d, uint64_t offset, void *buf, size_t n,
                                gg_error *err)
{
    gg_data in;
    if (gg_data_open(d->source, d->index, &in, err) != GG_OK) return err->status;
    gg_data_read(&in, offset, buf, n, err);
    gg_data_close(&in);
    return err->status;
}

static gg_status read_rows(gg_data *d, uint64_t offset, void *buf, size_t n, gg_error *err)
{
    const matrix *m = &view_of(d->source)->list[d->index];
    uint8_t *to = buf;
    if (m->numbers) return read_numbers(m, offset, buf, n);
    if (!m->rows) return read_unchanged(d, offset, buf, n, err);
    if (n && reader_open(d, err) != GG_OK) return err->status;
    while (n > 0 && err->status == GG_OK) {
        stretch s = stretch_at(d, offset, n);
        gg_data *in = s.source == SIZE_MAX ? NULL : data_of(d, s.source, err);
        if (in) gg_data_read(in, s.at, to, s.n, err);
        /* not 0: as in stretch_at */
        else if (err->status == GG_OK && make_row(d, offset / m->row_bytes, err) == GG_OK)
            memcpy(to, ((reader *)d->cache)->made + s.at, s.n);
        to += s.n;
        offset += s.n;
        n -= s.n;
    }
    return err->status;
}

/* Long stretches are copied from file to file. */
static gg_status copy_rows(gg_data *d, uint64_t offset, uint64_t n, gg_place out, gg_error *err)
{
    const matrix *m = &view_of(d->source)->list[d->index];
    uint8_t *room = malloc(n < STEP ? (size_t)n + 1 : STEP);
    if (!room) return no_row(err);
    if (m->rows) reader_open(d, err);
    for (uint64_t at = offset, end = offset + n; at < end && err->status == GG_OK;) {
        stretch s = m->rows ? stretch_at(d, at, end - at) : (stretch){ SIZE_MAX, 0, 0 };
        gg_place to = { out.fd, gg_offset_after(out.at, at - offset) };
        size_t step = end - at < STEP ? (size_t)(end - at) : STEP;
        if (s.source != SIZE_MAX && s.n >= STEP) {
            gg_data *in = data_of(d, s.source, err);
            if (in) gg_data_copy(in, s.at, step = s.n, to, err);
        } else if (read_rows(d, at, room, step, err) == GG_OK && gg_cancelled(err) == GG_OK) {
            gg_put_all(to.fd, room, step, to.at, err);
        }
        at += step;
    }
    free(room);
    return err->status;
}

/* ---- the kind ----------------------------------------------------------------------------------
 */

static gg_status place_in_view(gg_source *s, size_t i, gg_data *d, gg_error *err)
{
    const matrix *m = &view_of(s)->list[i];
    return m->rows || m->numbers ? GG_OK : gg_data_open(s->of, i, d, err);
}

static void close_view(gg_source *s)
{
    vocab_view *v = view_of(s);
    for (size_t i = 0; v->list && i < s->n; i++) free(v->list[i].mean);
    gg_vocab_rows_free(&v->heads);
    gg_vocab_rows_free(&v->drafted);
    free(v->numbers);
    free(v->list);
    free(v->places);
    free(v->models);
    free(v->tokens);
    free(s->tensors);
    pthread_mutex_destroy(&v->lock);
}

static const gg_source_kind vocab_kind = {
    .size = sizeof(vocab_view),
    .knows = true,
    .close = close_view,
    .place = place_in_view,
    .read = read_rows,
    .copy = copy_rows,
    .end = reader_close,
};

/* ---- opening -----------------------------------------------------------------------------------
 */

/* The tensor of another model that has the rows of `t`. The output of a model without one is its
 * embeddings. */
static gg_status find_twin(const vocab_view *v, size_t k, const gg_tensor *t, size_t *at,
                           gg_error *err)
{
    static const char embeddings[] = "token_embd.weight";
    gg_source *s = v->models[k];
    *at = gg_source_find(s, t->name, t->name_len);
    if (*at == SIZE_MAX && strcmp(t->name, "output.weight") == 0)
        *at = gg_source_find(s, embeddings, sizeof embeddings - 1);
    if (*at == SIZE_MAX) return gg_fail_in(err, GG_NO, s, t, "it does not have this tensor");
    const gg_tensor *theirs = gg_source_tensor(s, *at);
    uint32_t last = last_axis(t);
    if (theirs->dtype != t->dtype && !(gg_can_decode(theirs->dtype) && gg_can_decode(t->dtype)))
        return gg_fail_in(err, GG_EUNSUPPORTED, s, theirs,
                          "its type is %s, but that of %.200s is %s, and one of them cannot be "
                          "decoded",
                          gg_dtype_name(theirs->dtype), gg_source_name(v->models[0]),
                          gg_dtype_name(t->dtype));
    if (theirs->dims[last] != v->tokens[k])
        return gg_fail_in(err, GG_EFORMAT, s, theirs,
                          "it has %llu rows, but the vocabulary has %zu tokens",
                          (unsigned long long)theirs->dims[last], v->tokens[k]);
    for (uint32_t i = 0; i < last; i++)
        if (theirs->dims[i] != t->dims[i])
            return gg_fail_in(err, GG_NO, s, theirs,
                              "its rows have %llu values, but those of %.200s have %llu",
                              (unsigned long long)theirs->dims[i], gg_source_name(v->models[0]),
                              (unsigned long long)t->dims[i]);
    return GG_OK;
}

static gg_status check_rows(const gg_source *s, const gg_tensor *t, gg_error *err)
{
    if (gg_rows_together(t->dtype) == 1) return GG_OK;
    gg_refuse_rows_together(t, err);
    gg_at_file(err, gg_source_name(s));
    return gg_fix(err, "use the model from before its rows were interleaved");
}

static gg_status open_matrix(vocab_view *v, size_t i, const gg_vocab_rows *rows, uint64_t before,
                             gg_error *err)
{
    gg_tensor *t = &v->s.tensors[i];
    matrix *m = &v->list[i];
    uint32_t last = last_axis(t);
    uint64_t bytes = 0;
    m->at = v->places + i * v->n_models;
    m->at[0] = i;
    if (t->dims[last] != before)
        return gg_fail_in(err, GG_EFORMAT, v->models[0], t,
                          "it has %llu rows, but the vocabulary has %llu tokens",
                          (unsigned long long)t->dims[last], (unsigned long long)before);
    if (t->elements == 0) return gg_fail_in(err, GG_EFORMAT, v->models[0], t, "it has no values");
    if (check_rows(v->models[0], t, err) != GG_OK) return err->status;
    for (size_t k = 1; k < v->n_models; k++)
        if (find_twin(v, k, t, &m->at[k], err) != GG_OK) return err->status;
    m->rows = rows->list;
    /* not 0: it has values */
    m->width = last == 0 ? 1 : t->elements / t->dims[last];
    t->dims[last] = rows->n;
    if (gg_row_bytes(t->dtype, m->width, &bytes, err) != GG_OK ||
        gg_tensor_extent(t->dtype, t->n_dims, t->dims, &t->elements, &t->bytes, err) != GG_OK)
        return gg_at_tensor(err, t->name, t->name_len);
    m->row_bytes = (size_t)bytes;
    return GG_OK;
}

/* The rows of a draft head, and the tokens of them, from d2t of the model: rows of tokens that are
 * copied stay, in their order. */
static gg_status open_heads(vocab_view *v, size_t index, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(v->models[0], index);
    uint64_t n = t->dims[0];
    size_t *to = malloc((v->tokens[0] + 1) * sizeof *to);
    int64_t id;
    gg_data d;
    if (v->n_models > 1 || t->dtype != GG_I64 || n != t->elements || n > UINT32_MAX / 4) {
        free(to);
        return gg_fail_in(err, GG_EUNSUPPORTED, v->models[0], t,
                          "the vocabulary of a draft head cannot be changed in this way");
    }
    v->heads.list = calloc((size_t)n + 1, sizeof *v->heads.list);
    v->numbers = calloc((size_t)n + 1, sizeof *v->numbers);
    v->drafted.list = calloc(v->rows->n + 1, sizeof *v->drafted.list);
    if (!to || !v->heads.list || !v->numbers || !v->drafted.list) {
        free(to);
        return gg_fail(err, GG_ENOMEM, "no memory for a draft head");
    }
    v->drafted.n = v->rows->n;
    for (size_t i = 0; i < v->drafted.n; i++) v->drafted.list[i].from = GG_ROW_MADE;
    for (size_t i = 0; i < v->tokens[0]; i++) to[i] = SIZE_MAX;
    for (size_t i = v->rows->n; i-- > 0;)
        if (v->rows->list[i].from != GG_ROW_MADE) to[v->rows->list[i].from] = i;
    bool open = gg_data_open(v->models[0], index, &d, err) == GG_OK;
    for (uint64_t i = 0; i < n && open && err->status == GG_OK; i++) {
        if (gg_data_read(&d, i * sizeof id, &id, sizeof id, err) != GG_OK) break;
        if (id < 0 || (uint64_t)id >= v->tokens[0]) {
            gg_fail_in(err, GG_EFORMAT, v->models[0], t,
                       "number %llu is %lld, but the vocabulary has %zu tokens",
                       (unsigned long long)i, (long long)id, v->tokens[0]);
        } else if (to[id] != SIZE_MAX) {
            v->drafted.list[to[id]].from = (uint32_t)id;
            v->numbers[v->heads.n] = (int64_t)to[id];
            v->heads.list[v->heads.n++].from = (uint32_t)i;
        }
    }
    if (open) gg_data_close(&d);
    free(to);
    if (err->status == GG_OK && v->heads.n == 0)
        gg_fail_in(err, GG_NO, v->models[0], t, "none of its tokens is left");
    return err->status;
}

static gg_status open_tensors(vocab_view *v, void (*note)(void *, const char *line), void *ctx,
                              gg_error *err)
{
    gg_source *s = &v->s;
    size_t map = gg_source_find(v->models[0], "d2t", 3), found = 0;
    uint64_t head = map == SIZE_MAX ? 0 : gg_source_tensor(v->models[0], map)->dims[0];
    if (map != SIZE_MAX && open_heads(v, map, err) != GG_OK) return err->status;
    for (; s->n < v->models[0]->n && err->status == GG_OK; s->n++) {
        gg_tensor *t = &s->tensors[s->n];
        *t = *gg_source_tensor(v->models[0], s->n);
        uint32_t last = last_axis(t);
        if (s->n == map) {
            t->dims[0] = v->heads.n;
            v->list[s->n].numbers = v->numbers;
            gg_tensor_extent(t->dtype, t->n_dims, t->dims, &t->elements, &t->bytes, err);
        } else if (map != SIZE_MAX && is_output(t) && gg_vocab_is_matrix(t)) {
            open_matrix(v, s->n, &v->heads, head, err);
            found++;
        } else if (gg_vocab_is_matrix(t)) {
            bool drafted = map != SIZE_MAX && is_flags(t);
            open_matrix(v, s->n, drafted ? &v->drafted : v->rows, v->tokens[0], err);
            found++;
        } else if (strstr(t->name, "masked_embd_ordering")) {
            gg_fail_in(err, GG_EUNSUPPORTED, v->models[0], t,
                       "it has an order of all tokens, which would no longer fit");
        } else if (note && t->n_dims > 1 && t->dims[last] != t->dims[0] &&
                   (t->dims[last] == v->tokens[0] || t->dims[last] == head)) {
            char line[400];
            snprintf(line, sizeof line,
                     "%s has as many rows as the %s has tokens, and is not changed", t->name,
                     t->dims[last] == v->tokens[0] ? "vocabulary" : "draft head");
            note(ctx, line);
        }
    }
    if (err->status == GG_OK && found == 0)
        gg_fail_in(err, GG_NO, v->models[0], NULL,
                   "it has a vocabulary, but no embeddings (token_embd.weight)");
    return err->status;
}

static size_t count_tokens(const gg_source *s)
{
    const gg_kv *kv = gg_meta_find(gg_source_meta(s), "tokenizer.ggml.tokens");
    return kv && kv->type == GG_TYPE_ARR ? (size_t)kv->count : 0;
}

gg_status gg_vocab_view_open(const gg_vocab_view *what, void (*note)(void *, const char *line),
                             void *ctx, gg_source **out, gg_error *err)
{
    gg_source *of = what->models[0], *s = gg_source_new(&vocab_kind, gg_source_name(of), err);
    if (!s) return GG_ENOMEM;
    vocab_view *v = view_of(s);
    pthread_mutex_init(&v->lock, NULL);
    s->of = of;
    s->meta = what->meta;
    v->rows = what->rows;
    v->n_models = what->n_models;
    v->models = calloc(v->n_models, sizeof(gg_source *));
    v->tokens = calloc(v->n_models, sizeof *v->tokens);
    v->list = calloc(of->n + 1, sizeof *v->list);
    v->places = calloc((of->n + 1) * v->n_models, sizeof *v->places);
    s->tensors = calloc(of->n + 1, sizeof *s->tensors);
    gg_status st = v->models && v->tokens && v->list && v->places && s->tensors
                       ? GG_OK
                       : gg_source_no_memory(err);
    for (size_t k = 0; k < v->n_models && st == GG_OK; k++) {
        v->models[k] = what->models[k];
        v->tokens[k] = count_tokens(what->models[k]);
    }
    if (st == GG_OK) st = open_tensors(v, note, ctx, err);
    return gg_source_opened(s, st, out, err);
}

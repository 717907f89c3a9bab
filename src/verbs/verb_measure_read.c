/* verb_measure_read.c - the values of a tensor that its measures need.
 *
 * A pipe, and a tensor of which every value counts, is read once from end to end in
 * runs of whole blocks; samples and rows are picked as they pass. Of a tensor in a
 * file only what holds a sample is looked at: through a small moving map where
 * samples are dense, by single reads where each would cost a page fault.
 */
#include "measure_core.h"

#include "../base/io.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAP_WINDOW ((uint64_t)2 << 20)
#define MAP_STRIDE 16384 /* bytes between samples from which single reads are cheaper */

gg_status gg_measure_space(measure_space *w, uint64_t values, gg_error *err)
{
    if (!w->raw) w->raw = malloc(MEASURE_RAW);
    for (int k = 0; k < 2; k++)
        if (!w->row[k]) w->row[k] = malloc(GG_ROW_WINDOW * sizeof(float));
    bool ok = w->raw && w->row[0] && w->row[1];
    if (ok && values > w->cap) {
        free(w->values);
        free(w->scratch);
        w->values = values <= SIZE_MAX / 16 ? malloc((size_t)values * sizeof(float)) : NULL;
        w->scratch = w->values ? malloc(gg_measure_scratch((size_t)values)) : NULL;
        ok = w->scratch != NULL;
        w->cap = ok ? values : 0;
    }
    return ok ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for %llu values", (unsigned long long)values);
}

void gg_measure_space_free(measure_space *w)
{
    free(w->raw);
    free(w->row[0]);
    free(w->row[1]);
    free(w->values);
    free(w->scratch);
}

/* ---- samples ------------------------------------------------------------------ */

/* Element of the i-th sample, floor(i E / N), kept as quotient and remainder so that
 * no 128-bit division is needed. */
typedef struct sampler {
    uint64_t i, count, at;     /* at: the element */
    uint64_t rest, step, part; /* E = step N + part; rest < N */
    uint64_t cached;           /* block that is in space->block */
} sampler;

static sampler sampler_of(uint64_t elements, uint64_t count)
{
    return (sampler){ .count = count, .step = count ? elements / count : 0, .part = count ? elements % count : 0,
                      .cached = UINT64_MAX };
}

static void sampler_next(sampler *s)
{
    s->i++;
    s->at += s->step;
    s->rest += s->part;
    if (s->rest >= s->count) {
        s->rest -= s->count;
        s->at++;
    }
}

/* A run of whole blocks in memory: elements [first, first + n). */
typedef struct run_of {
    const uint8_t *bytes;
    uint64_t first, n;
} run_of;

/* Samples that lie in the run. */
static gg_status take_samples(sampler *s, uint32_t dtype, run_of r, measure_space *w, float *values, gg_error *err)
{
    const gg_dtype_info *info = gg_dtype_get(dtype);
    uint64_t end = r.first + r.n;
    if (s->step == 1 && s->part == 0) {
        s->i = s->at = end;
        return gg_decode(dtype, r.bytes, values + r.first, (size_t)r.n, err);
    }
    while (s->i < s->count && s->at < end) {
        uint64_t block = s->at / info->block_elems;
        if (block != s->cached) {
            const uint8_t *b = r.bytes + (block - r.first / info->block_elems) * info->block_bytes;
            gg_status st = gg_decode(dtype, b, w->block, info->block_elems, err);
            if (st != GG_OK) return st;
            s->cached = block;
        }
        values[s->i] = w->block[s->at - block * info->block_elems];
        sampler_next(s);
    }
    return GG_OK;
}

/* ---- rows --------------------------------------------------------------------- */

/* The rows that pairs need, in ascending order; a row that ends one pair and begins
 * the next is decoded once. */
typedef struct row_taker {
    uint64_t row, rows, width; /* row: values from one row to the next; width: of them used */
    uint64_t pairs, pair;
    bool second;               /* the second row of the pair is awaited */
    uint64_t have;             /* values of the awaited row so far */
    gg_row_theta *acc;
} row_taker;

static row_taker rows_of(const gg_tensor *t, gg_row_theta *acc)
{
    row_taker k = { .row = t->dims[0], .acc = acc };
    if (t->n_dims == 0) k.row = 1;
    k.rows = k.row ? t->elements / k.row : 0;
    k.width = k.row < GG_ROW_WINDOW ? k.row : GG_ROW_WINDOW;
    k.pairs = k.rows == 1 ? 1 : gg_row_pairs(k.rows);
    return k;
}

/* The next elements that are wanted; false when all pairs are done. */
static bool rows_want(const row_taker *k, uint64_t *first, uint64_t *n)
{
    if (k->pair == k->pairs) return false;
    uint64_t row = k->rows == 1 ? 0 : gg_row_pair(k->pair, k->rows) + k->second;
    *first = row * k->row + k->have;
    *n = k->width - k->have;
    return true;
}

static void row_done(row_taker *k, measure_space *w)
{
    k->have = 0;
    if (k->rows == 1) {
        gg_row_theta_add(k->acc, w->row[0], w->row[0] + 1, (size_t)k->width - 1);
        k->pair++;
        return;
    }
    if (!k->second) {
        k->second = true;
        return;
    }
    gg_row_theta_add(k->acc, w->row[0], w->row[1], (size_t)k->width);
    uint64_t was = gg_row_pair(k->pair, k->rows) + 1;
    k->second = ++k->pair < k->pairs && gg_row_pair(k->pair, k->rows) == was;
    if (k->second) {
        float *swap = w->row[0];
        w->row[0] = w->row[1];
        w->row[1] = swap;
    }
}

static gg_status take_rows(row_taker *k, uint32_t dtype, run_of r, measure_space *w, gg_error *err)
{
    const gg_dtype_info *info = gg_dtype_get(dtype);
    uint64_t first, n, end = r.first + r.n;
    while (rows_want(k, &first, &n) && first < end) {
        uint64_t got = n < end - first ? n : end - first;
        const uint8_t *b = r.bytes + (first - r.first) / info->block_elems * info->block_bytes;
        gg_status st = gg_decode(dtype, b, w->row[k->second] + k->have, (size_t)got, err);
        if (st != GG_OK) return st;
        k->have += got;
        if (k->have == k->width) row_done(k, w);
    }
    return GG_OK;
}

/* ---- reading ------------------------------------------------------------------ */

static uint64_t bytes_to(const gg_dtype_info *info, uint64_t element)
{
    return element / info->block_elems * info->block_bytes;
}

/* Elements [first, first + n) of the piece, or as many as the buffer takes. */
static gg_status read_run(gg_data *d, const gg_piece *p, measure_space *w, uint64_t first, uint64_t n, run_of *r,
                          gg_error *err)
{
    const gg_dtype_info *info = gg_dtype_get(p->t.dtype);
    uint64_t most = MEASURE_RAW / info->block_bytes * info->block_elems;
    *r = (run_of){ w->raw, first, n < most ? n : most };
    return gg_data_read(d, p->at + bytes_to(info, first), w->raw, (size_t)bytes_to(info, r->n), err);
}

static gg_status collect_in_order(gg_data *d, const gg_piece *p, measure_space *w, const gg_run *run,
                                  measure_take *take, gg_error *err)
{
    sampler s = sampler_of(p->t.elements, take->count);
    row_taker k = rows_of(&p->t, &take->rows);
    gg_status st = GG_OK;
    for (uint64_t at = 0; at < p->t.elements && st == GG_OK;) {
        run_of r;
        st = gg_cancelled(err);
        if (st == GG_OK) st = read_run(d, p, w, at, p->t.elements - at, &r, err);
        if (st == GG_OK) st = take_samples(&s, p->t.dtype, r, w, take->values, err);
        if (st == GG_OK) st = take_rows(&k, p->t.dtype, r, w, err);
        if (st != GG_OK) break;
        at += r.n;
        gg_progress_add(run, bytes_to(gg_dtype_get(p->t.dtype), r.n));
    }
    return st;
}

/* A map of a part of the tensor that moves along with the samples. */
typedef struct window {
    uint8_t *map;
    size_t len;
    uint64_t at, end; /* bytes of the tensor's data that it shows */
    const uint8_t *bytes;
} window;

static void window_close(window *m)
{
    if (m->map) munmap(m->map, m->len);
    m->map = NULL;
    m->end = 0;
}

static bool window_move(window *m, const gg_data *d, uint64_t at, uint64_t limit)
{
    window_close(m);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), file = d->at + at, skew = file % page;
    uint64_t len = limit - at < MAP_WINDOW ? limit - at : MAP_WINDOW;
#ifdef MAP_POPULATE
    int flags = MAP_SHARED | MAP_POPULATE;
#else
    int flags = MAP_SHARED;
#endif
    void *map = mmap(NULL, (size_t)(len + skew), PROT_READ, flags, d->fd, (off_t)(file - skew));
    if (map == MAP_FAILED) return false;
    *m = (window){ map, (size_t)(len + skew), at, at + len, (const uint8_t *)map + skew };
    return true;
}

/* The block at byte `at` of the tensor's data: mapped, or read where that is not
 * possible or does not pay. */
static gg_status sample_block(gg_data *d, window *m, bool dense, uint64_t at, uint64_t limit, size_t n,
                              measure_space *w, const uint8_t **block, gg_error *err)
{
    if (dense && (at + n <= m->end || window_move(m, d, at, limit)) && at + n <= m->end) {
        *block = m->bytes + (at - m->at);
        return GG_OK;
    }
    *block = w->raw;
    return gg_data_read(d, at, w->raw, n, err);
}

static gg_status collect_samples(gg_data *d, const gg_piece *p, measure_space *w, measure_take *take, gg_error *err)
{
    const gg_dtype_info *info = gg_dtype_get(p->t.dtype);
    sampler s = sampler_of(p->t.elements, take->count);
    bool dense = take->count && p->t.bytes / take->count < MAP_STRIDE;
    uint64_t limit = p->at + p->t.bytes;
    window m = { 0 };
    /* A file that was cut since it was opened is an error here, not a signal there. */
    gg_status st = limit ? gg_data_read(d, limit - 1, w->raw, 1, err) : GG_OK;
    while (st == GG_OK && s.i < s.count) {
        uint64_t block = s.at / info->block_elems;
        run_of r = { NULL, block * info->block_elems, info->block_elems };
        st = sample_block(d, &m, dense, p->at + block * info->block_bytes, limit, info->block_bytes, w, &r.bytes, err);
        if (st == GG_OK) st = take_samples(&s, p->t.dtype, r, w, take->values, err);
    }
    window_close(&m);
    return st;
}

static gg_status collect_rows(gg_data *d, const gg_piece *p, measure_space *w, measure_take *take, gg_error *err)
{
    row_taker k = rows_of(&p->t, &take->rows);
    uint64_t first, n;
    gg_status st = GG_OK;
    while (st == GG_OK && rows_want(&k, &first, &n)) {
        run_of r;
        st = read_run(d, p, w, first, n, &r, err);
        if (st == GG_OK) st = take_rows(&k, p->t.dtype, r, w, err);
    }
    return st;
}

gg_status gg_measure_collect(gg_data *d, const gg_piece *p, measure_space *w, const gg_run *run,
                             measure_take *take, gg_error *err)
{
    take->rows = (gg_row_theta){ 0 };
    if (p->t.elements == 0) return GG_OK;
    if (d->fd < 0 || take->count == p->t.elements) return collect_in_order(d, p, w, run, take, err);
    gg_status st = gg_cancelled(err);
    if (st == GG_OK) st = collect_samples(d, p, w, take, err);
    if (st == GG_OK) st = collect_rows(d, p, w, take, err);
    if (st == GG_OK) gg_progress_add(run, p->t.bytes);
    return st;
}

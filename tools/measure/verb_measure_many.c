/* verb_measure_many.c - measures large arrays, and tensors of which every value is needed; and the
 * null model: theta of Gaussian noise stored in a dtype, computed once for each dtype and count. */
#include "measure_core.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/io.h"
#include "base/parallel.h"
#include "numeric/numeric.h"
#include "quant/quant.h"
#include "write/verb_run.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- many values ------------------------------------------------------------------- */

#define CODES 65536

/* ---- arrays --------------------------------------------------------------------- */

static gg_status read_array(void *ctx, uint64_t first, size_t count, float *to, gg_error *err)
{
    (void)err;
    memcpy(to, (const float *)ctx + first, count * sizeof *to);
    return GG_OK;
}

gg_status gg_measure_array(gg_measure_room *room, const float *values, uint64_t n, gg_measure *out,
                           gg_error *err)
{
    gg_values v = { .n = n, .read = read_array, .ctx = (void *)(uintptr_t)values };
    return gg_measure_big(room, &v, out, err);
}

/* ---- tensors -------------------------------------------------------------------- */

typedef struct run_reader {
    gg_data *d;
    const gg_selected *p;
    const gg_dtype_info *info;
    const gg_run *run;
    uint64_t hole;      /* the first bytes of the data, which are a hole of a sparse file */
    uint64_t passes;    /* over the values, at least */
    atomic_ullong seen; /* bytes read, in all passes */
} run_reader;

/* Passes after the first ones are not shown as progress. */
static void progress(run_reader *r, uint64_t bytes)
{
    uint64_t most = r->p->t.bytes * r->passes, from = atomic_fetch_add(&r->seen, bytes),
             to = from + bytes;
    if (from < most) /* not 0: values are read at least once */
        gg_progress_add(r->run, (to < most ? to : most) / r->passes - from / r->passes);
}

static gg_status read_bytes(void *ctx, uint64_t first, size_t count, void *to, gg_error *err)
{
    run_reader *r = ctx;
    const gg_dtype_info *info = r->info;
    uint64_t at = first / info->block_elems * info->block_bytes;
    size_t bytes = (size_t)(count / info->block_elems * info->block_bytes);
    progress(r, bytes);
    if (at + bytes > r->hole) return gg_data_read(r->d, r->p->at + at, to, bytes, err);
    memset(to, 0, bytes);
    return GG_OK;
}

static gg_status read_floats(void *ctx, uint64_t first, size_t count, float *to, gg_error *err)
{
    run_reader *r = ctx;
    uint8_t raw[16384];
    size_t most = sizeof raw / r->info->block_bytes * r->info->block_elems;
    gg_status st = GG_OK;
    if (r->info->id == GG_F32) return read_bytes(r, first, count, to, err);
    for (size_t at = 0, n; at < count && st == GG_OK; at += n) {
        n = count - at < most ? count - at : most;
        st = read_bytes(r, first + at, n, raw, err);
        if (st == GG_OK) st = gg_decode(r->info->id, raw, to + at, n, err);
    }
    return st;
}

static gg_value_form form_of(uint32_t dtype)
{
    if (dtype == GG_F16 || dtype == GG_BF16) return GG_FORM_CODES;
    return dtype == GG_Q8_0 ? GG_FORM_SCALED : GG_FORM_FLOATS;
}

bool gg_measure_needs_little(uint32_t dtype)
{
    return form_of(dtype) == GG_FORM_CODES;
}

/* The values of all codes of a type of 16 bits, to be freed; NULL without memory. */
static float *decode_codes(uint32_t dtype, gg_error *err)
{
    uint16_t *codes = malloc(CODES * sizeof *codes);
    float *values = malloc(CODES * sizeof *values);
    if (!codes || !values) gg_fail(err, GG_ENOMEM, "no memory for the values of a type");
    for (uint32_t c = 0; codes && c < CODES; c++) codes[c] = (uint16_t)c;
    if (err->status == GG_OK) gg_decode(dtype, codes, values, CODES, err);
    free(codes);
    return values;
}

/* Measures values of a type that can be read in both ways: they are counted if its form allows. */
static gg_status measure_stored(gg_measure_room *room, const gg_dtype_info *info, gg_values v,
                                gg_measure *out, gg_error *err)
{
    float *of_code = NULL;
    /* not 0: a type that is read has blocks */
    if (v.n % info->block_elems == 0) v.form = form_of(info->id);
    if (v.form != GG_FORM_FLOATS)
        of_code = decode_codes(v.form == GG_FORM_SCALED ? GG_F16 : info->id, err);
    v.of_code = of_code;
    gg_status st = err->status == GG_OK ? gg_measure_big(room, &v, out, err) : err->status;
    free(of_code);
    return st;
}

static run_reader reader_of(gg_data *d, const gg_selected *p, const gg_run *run, uint64_t passes)
{
    uint64_t at = d->at + p->at, hole = gg_hole_end(d->fd, at) - at;
    return (run_reader){ d, p, gg_dtype_get(p->t.dtype), run, hole, passes, 0 };
}

gg_status gg_measure_data(gg_measure_room *room, gg_data *d, const gg_selected *p,
                          const gg_run *run, gg_measure *out, gg_error *err)
{
    run_reader r = reader_of(d, p, run, form_of(p->t.dtype) == GG_FORM_CODES ? 1 : 2);
    gg_values v = { .n = p->t.elements, .read = read_floats, .ctx = &r, .read_raw = read_bytes };
    gg_status st = measure_stored(room, r.info, v, out, err);
    progress(&r, r.passes * p->t.bytes);
    return st;
}

gg_status gg_measure_each(gg_data *d, const gg_selected *p, measure_histogram *h, gg_error *err)
{
    float values[4096];
    run_reader r = reader_of(d, p, NULL, 1);
    gg_status st = GG_OK;
    for (uint64_t at = 0; h->counts && at < p->t.elements && st == GG_OK; at += 4096) {
        size_t n = p->t.elements - at < 4096 ? (size_t)(p->t.elements - at) : 4096;
        st = read_floats(&r, at, n, values, err);
        if (st == GG_OK) gg_histogram_add(h, p->t.a.cls, values, n, 1);
    }
    return st;
}

/* ---- null model -------------------------------------------------------------------- */

void gg_measure_null_free(measure_null *m)
{
    while (m->list) {
        null_entry *next = m->list->next;
        free(m->list);
        m->list = next;
    }
}

#define NULL_PIECE 8192  /* values encoded at once; whole blocks of every dtype */
#define NULL_DRAWN 65536 /* values drawn at once, so that threads seldom wait for each other */

/* Noise, stored in a dtype. */
typedef struct noise {
    const gg_dtype_info *info;
    uint8_t *blocks;
    size_t n;
    pthread_mutex_t lock; /* guards the rest */
    gg_gauss source;
    size_t drawn;
} noise;

static uint8_t *blocks_at(const noise *q, uint64_t first)
{
    return q->blocks + first / q->info->block_elems * q->info->block_bytes;
}

/* Encodes n values from `first` on. Types that require an importance matrix get a uniform one, in
 * which all columns have the same weight. */
static gg_status store(const noise *q, size_t first, const float *x, size_t n, gg_error *err)
{
    bool blind = gg_encode_needs_imatrix(q->info->id);
    float ones[256];
    for (size_t i = 0; i < 256; i++) ones[i] = 1;
    /* the encoder is called per row */
    size_t row = blind ? q->info->block_elems : n;
    return gg_encode(q->info->id, x, blocks_at(q, first), n, row, blind ? ones : NULL, err);
}

/* The next piece of noise. Only drawing has to be in order. */
static gg_status make_piece(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    noise *q = ctx;
    uint64_t pairs[NULL_DRAWN / 2];
    float x[NULL_PIECE];
    gg_status st = GG_OK;
    (void)i, (void)worker;
    pthread_mutex_lock(&q->lock);
    size_t first = q->drawn, n = q->n - first < NULL_DRAWN ? q->n - first : NULL_DRAWN;
    gg_gauss_draw(&q->source, (n + 1) / 2, pairs);
    q->drawn += n;
    pthread_mutex_unlock(&q->lock);
    for (size_t at = 0; at < n && st == GG_OK; at += NULL_PIECE) {
        size_t some = n - at < NULL_PIECE ? n - at : NULL_PIECE;
        gg_gauss_values(pairs + at / 2, x, some);
        st = store(q, first + at, x, some, err);
    }
    return st;
}

/* The last value may be inside of a block. */
static gg_status read_noise(void *ctx, uint64_t first, size_t count, float *to, gg_error *err)
{
    const noise *q = ctx;
    size_t block = q->info->block_elems; /* a power of two */
    count = (count + block - 1) & ~(block - 1);
    return gg_decode(q->info->id, blocks_at(q, first), to, count, err);
}

static gg_status read_stored(void *ctx, uint64_t first, size_t count, void *to, gg_error *err)
{
    const noise *q = ctx;
    (void)err;
    memcpy(to, blocks_at(q, first), count / q->info->block_elems * q->info->block_bytes);
    return GG_OK;
}

static gg_status simulate(gg_measure_room *room, uint32_t dtype, size_t count, double *theta,
                          gg_error *err)
{
    bool stored = gg_can_encode(dtype) || gg_encode_needs_imatrix(dtype);
    bool big = count >= GG_MEASURE_BIG;
    noise q = { .info = gg_dtype_get(stored ? dtype : GG_F32) };
    size_t block = q.info->block_elems;
    q.n = (count + block - 1) / block * block;
    q.blocks = gg_new_large(q.n / block * q.info->block_bytes);
    q.source = gg_gauss_start(GG_NULL_SEED);
    float *x = malloc(big ? 1 : q.n * sizeof *x);
    void *scratch = malloc(big ? 1 : gg_measure_scratch(count));
    gg_measure m = { 0 };
    gg_status st = q.blocks && x && scratch
                       ? GG_OK
                       : gg_fail(err, GG_ENOMEM, "no memory for the null model");
    pthread_mutex_init(&q.lock, NULL);
    if (st == GG_OK)
        st = gg_parallel((q.n + NULL_DRAWN - 1) / NULL_DRAWN, big ? room->threads : 1, make_piece,
                         &q, err);
    pthread_mutex_destroy(&q.lock);
    gg_values v = { .n = count, .read = read_noise, .ctx = &q, .read_raw = read_stored };
    if (st == GG_OK && big) st = measure_stored(room, q.info, v, &m, err);
    else if (st == GG_OK) st = gg_decode(q.info->id, q.blocks, x, q.n, err);
    if (st == GG_OK && !big) gg_measure_values(x, count, scratch, &m);
    free(scratch);
    free(x);
    free(q.blocks);
    *theta = m.theta;
    return st;
}

gg_status gg_measure_null_theta(measure_null *m, gg_measure_room *room, uint32_t dtype,
                                uint64_t count, double *theta, gg_error *err)
{
    null_entry *e = m->list;
    *theta = 0;
    if (count > GG_NULL_MAX) count = GG_NULL_MAX;
    if (count == 0) return GG_OK;
    while (e && (e->dtype != dtype || e->count != count)) e = e->next;
    if (!e) {
        e = calloc(1, sizeof *e);
        if (!e) return gg_fail(err, GG_ENOMEM, "no memory for the null model");
        *e = (null_entry){ .next = m->list, .count = count, .dtype = dtype };
        gg_status st = simulate(room, dtype, (size_t)count, &e->theta, err);
        if (st != GG_OK) {
            free(e);
            return st;
        }
        m->list = e;
    }
    *theta = e->theta;
    return GG_OK;
}

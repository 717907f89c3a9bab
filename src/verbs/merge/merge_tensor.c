/* merge_tensor.c - merges one tensor: reads all inputs in chunks, in several passes if the method
 * needs them, and writes the result. */
#include "merge_core.h"

#include "base/error.h"
#include "base/io.h"
#include "base/parallel.h"
#include "merge_reader.h"
#include "merge_whole.h"
#include "numeric/merge.h"
#include "verbs/compute/compute_core.h"
#include "verbs/shared/verb_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHUNKS_PER_THREAD 4          /* in flight, where several threads work on one tensor */
#define ROW_MOST ((uint64_t)1 << 24) /* values of a row that a method can hold */

typedef struct merge_ctx {
    gg_computation base; /* first: see compute_core.h */
    const gg_merging *m;
    pthread_mutex_t *whole;
    size_t at[]; /* index of the tensor in each model, and last in the base */
} merge_ctx;

/* A chunk in flight. */
typedef struct slot {
    uint64_t first;
    size_t n;
    double *sums;
    uint8_t *bytes;
} slot;

typedef struct work {
    gg_merge_job *job;
    const gg_tensor *out;
    gg_merge_reader *readers; /* one per thread */
    unsigned threads;
    slot *slots;
    size_t n_slots, chunk;
    gg_merge_pass pass; /* the current one; without scan: the result is computed */
    unsigned pass_no;
    uint64_t **counters; /* per thread, for a pass */
    bool checked;        /* all inputs are known to be finite */
} work;

/* ---- jobs ------------------------------------------------------------------------ */

static gg_status missing_parameter(const gg_merging *m, gg_merge_param p, gg_error *err)
{
    gg_fail(err, GG_EUSAGE, "%s needs a value for %s", m->method->name, gg_merge_param_name(p));
    return gg_fix(err, "give it after the name of the method: %s,%s=...", m->method->name,
                  gg_merge_param_name(p));
}

static gg_status evaluate(const gg_merging *m, gg_merge_job *j, gg_error *err)
{
    for (size_t i = 0; i < m->method->n_takes; i++) {
        const gg_merge_default *d = &m->method->takes[i];
        for (size_t k = 0; k <= j->n; k++) {
            double v = d->value;
            bool own = k < j->n &&
                       gg_merge_setting_value(&m->of_model[k], d->param, &j->t, m->blocks, &v);
            if (!own) gg_merge_setting_value(&m->global, d->param, &j->t, m->blocks, &v);
            if (isnan(v)) return missing_parameter(m, d->param, err);
            j->p[k][d->param] = v;
        }
    }
    return GG_OK;
}

gg_status gg_merge_job_start(const gg_merging *m, const gg_tensor *t, gg_merge_job *j,
                             gg_error *err)
{
    *j = (gg_merge_job){ .method = m->method, .t = *t, .n = m->n, .has_base = m->has_base };
    j->seed = m->seed;
    size_t size = m->method->state_size ? m->method->state_size(m->n) : 0;
    j->p = calloc(m->n + 1, sizeof *j->p);
    j->state = calloc(1, size + 1);
    if (!j->p || !j->state) return gg_fail(err, GG_ENOMEM, "no memory for a tensor");
    gg_status st = evaluate(m, j, err);
    if (st == GG_OK && m->method->start) st = m->method->start(j, err);
    if (st == GG_OK && j->rows && t->dims[0] > ROW_MOST)
        st = gg_fail(err, GG_EUNSUPPORTED, "its rows are too long for %s", m->method->name);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, t->name, t->name_len);
}

void gg_merge_job_free(gg_merge_job *j)
{
    free(j->p);
    free(j->state);
}

/* ---- chunks ---------------------------------------------------------------------- */

static size_t chunk_size(const gg_merge_job *j)
{
    size_t row = (size_t)j->t.dims[0];
    if (!j->rows) return GG_MERGE_CHUNK;
    return row < GG_MERGE_CHUNK ? GG_MERGE_CHUNK / (row ? row : 1) * row : row;
}

static gg_status encode(const work *w, slot *s, const float *x, gg_error *err)
{
    uint64_t lost = gg_count_beyond(w->out->dtype, x, s->n);
    if (lost) return gg_compute_fail_lost(w->out, lost, err);
    return gg_encode(w->out->dtype, x, s->bytes, s->n, s->n, NULL, err);
}

static gg_status do_chunk(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    work *w = ctx;
    slot *s = &w->slots[i];
    gg_merge_reader *r = &w->readers[worker];
    gg_merge_chunk c;
    gg_status st = gg_merge_read(r, s->first, s->n, !w->checked, &c, err);
    if (st != GG_OK) return st;
    if (w->pass.scan) {
        w->pass.scan(w->job, w->pass_no, &c, s->sums, w->counters[worker]);
        return gg_cancelled(err);
    }
    w->job->method->make(w->job, &c);
    return encode(w, s, c.out, err);
}

/* Sets the slots to the next chunks of [first, to); returns how many. */
static size_t fill_slots(work *w, uint64_t first, uint64_t to)
{
    size_t used = 0;
    for (; used < w->n_slots && first < to; used++) {
        slot *s = &w->slots[used];
        s->first = first;
        s->n = to - first < w->chunk ? (size_t)(to - first) : w->chunk;
        if (w->pass.sums) memset(s->sums, 0, w->pass.sums * sizeof *s->sums);
        first += s->n;
    }
    return used;
}

/* ---- passes ---------------------------------------------------------------------- */

static bool start_pass(work *w)
{
    bool ok = true;
    for (size_t i = 0; i < w->n_slots && ok && w->pass.sums; i++) {
        free(w->slots[i].sums);
        ok = (w->slots[i].sums = malloc(w->pass.sums * sizeof(double))) != NULL;
    }
    for (unsigned k = 0; k < w->threads && ok; k++)
        ok = (w->counters[k] = calloc(w->pass.counters + 1, sizeof(uint64_t))) != NULL;
    return ok;
}

static void end_pass(work *w)
{
    for (unsigned k = 0; k < w->threads; k++) {
        free(w->counters[k]);
        w->counters[k] = NULL;
    }
}

static gg_status run_pass(work *w, gg_error *err)
{
    uint64_t to = w->pass.to && w->pass.to < w->out->elements ? w->pass.to : w->out->elements;
    unsigned threads = w->pass.in_order ? 1 : w->threads;
    double *sums = calloc(w->pass.sums + 1, sizeof *sums);
    gg_status st = sums && start_pass(w) ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for sums");
    for (uint64_t first = w->pass.from; first < to && st == GG_OK;) {
        size_t used = fill_slots(w, first, to);
        st = gg_parallel(used, threads, do_chunk, w, err);
        for (size_t i = 0; i < used; i++) {
            for (size_t k = 0; k < w->pass.sums; k++) sums[k] += w->slots[i].sums[k];
            first += w->slots[i].n;
        }
    }
    for (unsigned k = 1; k < threads && st == GG_OK; k++)
        for (size_t i = 0; i < w->pass.counters; i++) w->counters[0][i] += w->counters[k][i];
    if (st == GG_OK && w->pass.end) st = w->pass.end(w->job, w->pass_no, sums, w->counters[0], err);
    end_pass(w);
    free(sums);
    if (w->pass.from == 0 && to == w->out->elements) w->checked = true;
    return st;
}

static gg_status all_passes(work *w, gg_error *err)
{
    gg_status st = GG_OK;
    for (w->pass_no = 0; st == GG_OK && w->job->method->pass; w->pass_no++) {
        w->pass = (gg_merge_pass){ 0 };
        if (!w->job->method->pass(w->job, w->pass_no, &w->pass)) break;
        if (w->pass.scan) st = run_pass(w, err); /* a pass may turn out to be unnecessary */
    }
    w->pass = (gg_merge_pass){ 0 };
    return st;
}

/* Where the result is written. */
typedef struct place {
    int fd;
    uint64_t at;
    const gg_run *run;
} place;

static gg_status write_values(work *w, uint64_t first, uint64_t to, place *p, gg_error *err)
{
    const gg_dtype_info *info = gg_dtype_get(w->out->dtype);
    gg_status st = GG_OK;
    while (first < to && st == GG_OK) {
        size_t used = fill_slots(w, first, to);
        st = gg_parallel(used, w->threads, do_chunk, w, err);
        for (size_t i = 0; i < used && st == GG_OK; i++) {
            size_t bytes = w->slots[i].n / info->block_elems * info->block_bytes;
            st = gg_put_all(p->fd, w->slots[i].bytes, bytes, p->at, err);
            p->at = gg_offset_after(p->at, bytes);
            first += w->slots[i].n;
            gg_progress_add(p->run, bytes);
        }
    }
    return st;
}

/* ---- whole matrices -------------------------------------------------------------- */

static void add_up(const gg_merge_job *j, unsigned pass, const gg_merge_chunk *c, double *sums,
                   uint64_t *counters)
{
    double weights[GG_MERGE_MODELS];
    (void)pass;
    (void)sums;
    (void)counters;
    for (size_t k = 0; k < j->n; k++) weights[k] = j->p[k][GG_MP_WEIGHT];
    GG_PICK(gg_mk_combine)(j->whole + (c->first - j->whole_at), NULL, c->x, weights, j->n, c->n);
}

void gg_merge_add_whole(const gg_merge_job *j, const gg_merge_chunk *c)
{
    float *d = j->whole + (c->first - j->whole_at);
    const double one = 1;
    GG_PICK(gg_mk_combine)(c->out, c->base, &d, &one, 1, c->n);
}

static gg_status make_whole(work *w, place *p, gg_error *err)
{
    const uint64_t *dims = w->out->dims;
    uint64_t size = dims[0] * dims[1], n = w->out->elements;
    gg_merge_job *j = w->job;
    gg_status st = GG_OK;
    if (n == 0) return GG_OK;
    if (size <= SIZE_MAX / sizeof(float)) j->whole = malloc((size_t)size * sizeof(float));
    if (!j->whole)
        return gg_fail(err, GG_ENOMEM, "no memory for a matrix of %llu values",
                       (unsigned long long)size);
    for (uint64_t at = 0; at < n && st == GG_OK; at += size) {
        gg_whole_matrix m = { j->whole, (size_t)dims[1], (size_t)dims[0],
                              j->n,     j->p[j->n],      w->threads };
        j->whole_at = at;
        w->checked = false;
        w->pass = (gg_merge_pass){ .from = at, .to = at + size, .scan = add_up };
        st = run_pass(w, err);
        if (st == GG_OK) st = j->method->whole(&m, err);
        w->pass = (gg_merge_pass){ 0 };
        w->checked = true;
        if (st == GG_OK) st = write_values(w, at, at + size, p, err);
    }
    free(j->whole);
    return st;
}

/* ---- the producer ---------------------------------------------------------------- */

/* `alone`: no other tensor is computed at the same time. */
static gg_status open_work(work *w, const merge_ctx *ctx, const gg_run *run, bool alone,
                           gg_error *err)
{
    w->chunk = chunk_size(w->job);
    w->threads = !alone ? 1 : run->threads ? run->threads : gg_thread_count();
    size_t chunks = (size_t)(w->out->elements / (w->chunk ? w->chunk : 1)) + 1;
    if (w->threads > chunks) w->threads = (unsigned)chunks;
    w->n_slots = w->threads == 1 ? 1 : (size_t)w->threads * CHUNKS_PER_THREAD;
    w->slots = calloc(w->n_slots, sizeof *w->slots);
    w->readers = calloc(w->threads, sizeof *w->readers);
    w->counters = calloc(w->threads, sizeof *w->counters);
    bool ok = w->slots && w->readers && w->counters;
    for (size_t i = 0; i < w->n_slots && ok; i++)
        ok = (w->slots[i].bytes = malloc(w->chunk * 8 + 1)) != NULL;
    if (!ok) return gg_fail(err, GG_ENOMEM, "no memory for the values of a tensor");
    gg_status st = GG_OK;
    for (unsigned k = 0; k < w->threads && st == GG_OK; k++)
        st = gg_merge_reader_open(&w->readers[k], ctx->m, w->job, ctx->at, w->chunk, err);
    return st;
}

static void close_work(work *w)
{
    for (size_t i = 0; w->slots && i < w->n_slots; i++) {
        free(w->slots[i].sums);
        free(w->slots[i].bytes);
    }
    for (unsigned k = 0; w->readers && k < w->threads; k++) gg_merge_reader_close(&w->readers[k]);
    free(w->slots);
    free(w->readers);
    free(w->counters);
}

static gg_status verify(const merge_ctx *ctx, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t k = 0; k < ctx->m->n && st == GG_OK; k++)
        st = gg_verify_data(ctx->m->models[k], ctx->at[k], err);
    if (st == GG_OK && ctx->m->has_base) st = gg_verify_data(ctx->m->base, ctx->at[ctx->m->n], err);
    return st;
}

static gg_status make_merge(void *context, const gg_tensor *t, int fd, uint64_t at,
                            const gg_run *run, gg_error *err)
{
    const merge_ctx *ctx = context;
    gg_merge_job job;
    work w = { .job = &job, .out = t };
    place p = { fd, at, run };
    bool whole = ctx->m->method->whole != NULL;
    if (whole) pthread_mutex_lock(ctx->whole);
    gg_status st = gg_merge_job_start(ctx->m, t, &job, err);
    if (st == GG_OK) st = verify(ctx, err);
    if (st == GG_OK) st = open_work(&w, ctx, run, whole || at == GG_AT_POS, err);
    if (st == GG_OK && !whole) st = all_passes(&w, err);
    if (st == GG_OK)
        st = whole ? make_whole(&w, &p, err) : write_values(&w, 0, t->elements, &p, err);
    close_work(&w);
    gg_merge_job_free(&job);
    if (whole) pthread_mutex_unlock(ctx->whole);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, t->name, t->name_len);
}

gg_status gg_merge_producer(gg_computations *list, gg_merging *m, const size_t *at, gg_producer *p,
                            gg_error *err)
{
    merge_ctx *ctx = gg_compute_new(list, sizeof *ctx + (m->n + 1) * sizeof *at, err);
    if (!ctx) return err->status;
    ctx->m = m;
    ctx->whole = &m->whole;
    memcpy(ctx->at, at, (m->n + 1) * sizeof *at);
    *p = (gg_producer){ make_merge, ctx };
    return GG_OK;
}

uint64_t gg_merge_thread_bytes(const gg_merging *m, uint64_t row)
{
    uint64_t chunk = row < GG_MERGE_CHUNK ? GG_MERGE_CHUNK : row < ROW_MOST ? row : ROW_MOST;
    uint64_t counted = m->method->counters * m->n * sizeof(uint64_t);
    return chunk * (m->n + 2) * sizeof(float) + chunk * 16 + chunk * m->method->scratch + counted;
}

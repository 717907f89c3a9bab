/* verb_purify_tensor.c - decodes, filters, encodes and writes one tensor.
 *
 * A tensor consists of one or more signals of equal size: the tensor itself, or the experts of a
 * stack. Only one signal's values are in memory at a time. Data is read and written from front to
 * back, so pipes work as well as files. For large signals, several threads share the slow steps,
 * which are the filter and the encoder.
 */
#include "purify_job.h"

#include "base/error.h"
#include "base/io.h"
#include "base/parallel.h"
#include "base/sha256.h"
#include "numeric/nkernel.h"
#include "numeric/numeric.h"
#include "organ/tensor_names.h"
#include "verbs/compute/compute_weights.h"
#include "verbs/shared/hashcopy.h"
#include "verbs/shared/verb_run.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define READ_BYTES ((size_t)256 << 10)

typedef struct taken { /* the samples of a row, for theta */
    float *values;
    uint64_t n;
} taken;

/* The current signal and the row that it belongs to. */
typedef struct work {
    purify_unit *u;
    gg_place sink;
    const gg_run *run; /* has the turn of the sink's file */
    gg_data data;
    uint32_t dtype; /* dtype of the source */
    unsigned threads;
    uint64_t values, bytes; /* size of a signal as read */
    purify_memory memory;
    float *x;      /* in `memory` */
    uint8_t *kept; /* the signal's bytes from a pipe, which cannot be read again */
    uint8_t *raw;  /* a batch of encoded chunks */
    gg_weights weights;
    float *room;     /* per thread: the weights of a chunk */
    uint64_t no;     /* number of the signal */
    uint64_t in_row; /* its number in the row */
    size_t batch, chunk_bytes;
    size_t run_values; /* values read at once */
    void *scratch;
    size_t scratch_size;
    gg_purify *filter;
    uint64_t from; /* first byte of the signal in the data */
    uint64_t at;   /* first value of the current batch */
    bool hashed;   /* the manifest has a sha256 to compare with */
    gg_sha256 in;
    /* The row and its totals. */
    gg_purify_row *row;
    taken before, after;
    uint64_t row_values;
    atomic_ullong nonfinite;
    double left, energy, change, size; /* sums of squares */
    bool same;                         /* all bytes are unchanged */
} work;

/* ---- reading and writing --------------------------------------------------------- */

static gg_status emit(work *w, const void *bytes, size_t n, gg_error *err)
{
    gg_place *s = &w->sink;
    if (s->fd < 0) return GG_OK;
    if (s->at == GG_AT_POS) return gg_write_all(s->fd, bytes, n, err);
    gg_status st = gg_pwrite_all(s->fd, bytes, n, s->at, err);
    s->at += n;
    return st;
}

/* A file gets each chunk at its place at once. Pipes get the chunks of a batch in order. */
static bool in_batches(const work *w)
{
    return w->sink.fd >= 0 && w->sink.at == GG_AT_POS;
}

/* The number of bytes of n values that start at a block boundary. */
static size_t bytes_of(uint32_t dtype, uint64_t n)
{
    const gg_dtype_info *info = gg_dtype_get(dtype);
    return (size_t)(n / info->block_elems * info->block_bytes);
}

/* The first of the row's samples that is not before value `at` of the row. */
static uint64_t first_sample(const work *w, const taken *t, uint64_t at)
{
    uint64_t lo = 0, hi = t->n;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (gg_sample_index(mid, w->row_values, t->n) < at) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

/* Takes the row's samples among n values of the signal. Several threads may take those of different
 * values. */
static void take(const work *w, const taken *t, uint64_t at, uint64_t n)
{
    uint64_t base = w->in_row * w->values, end = base + at + n, index;
    for (uint64_t i = first_sample(w, t, base + at); i < t->n; i++) {
        index = gg_sample_index(i, w->row_values, t->n);
        if (index >= end) return;
        t->values[i] = w->x[index - base];
    }
}

/* Reads and decodes n values of the signal. `raw` has room for their bytes. */
static gg_status load_run(work *w, uint64_t at, size_t n, uint8_t *raw, gg_error *err)
{
    size_t bytes = bytes_of(w->dtype, n);
    gg_status st = gg_cancelled(err);
    if (st == GG_OK) st = gg_data_read(&w->data, w->from + bytes_of(w->dtype, at), raw, bytes, err);
    if (st == GG_OK) st = gg_decode(w->dtype, raw, w->x + at, n, err);
    if (st != GG_OK) return st;
    if (w->hashed) gg_sha256_update(&w->in, raw, bytes);
    atomic_fetch_add(&w->nonfinite, GG_PICK(gg_nk_nonfinite)(w->x + at, n));
    take(w, &w->before, at, n);
    gg_progress_add(w->u->job->run, bytes);
    return GG_OK;
}

static gg_status load_task(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    work *w = ctx;
    uint64_t at = i * w->run_values, left = w->values - at;
    size_t n = (size_t)(left < w->run_values ? left : w->run_values);
    uint8_t *raw = w->kept ? w->kept + bytes_of(w->dtype, at) : w->raw + worker * READ_BYTES;
    return load_run(w, at, n, raw, err);
}

/* The first task: makes room in the output, because many file systems let only one thread allocate
 * at a time. Threads that write would wait for each other, but those that read need not. */
static gg_status load_or_reserve(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    work *w = ctx;
    if (i > 0) return load_task(w, i - 1, worker, err);
    gg_reserve_hint(w->sink.fd, w->sink.at, bytes_of(w->u->t.dtype, w->values));
    return GG_OK;
}

/* Decodes the signal's values into x. A pipe, and data to hash, is read in order. */
static gg_status load(work *w, gg_error *err)
{
    size_t runs = (size_t)((w->values + w->run_values - 1) / w->run_values);
    if (w->threads == 1 || w->hashed || w->kept) return gg_parallel(runs, 1, load_task, w, err);
    if (w->sink.fd < 0 || in_batches(w)) return gg_parallel(runs, w->threads, load_task, w, err);
    return gg_parallel(runs + 1, w->threads, load_or_reserve, w, err);
}

/* Copies the signal's bytes unchanged. If `again` is false, they are read for the first time. */
static gg_status pass(work *w, bool again, gg_error *err)
{
    gg_status st = GG_OK;
    if (again && w->kept) return emit(w, w->kept, (size_t)w->bytes, err);
    for (uint64_t at = 0; at < w->bytes && st == GG_OK; at += READ_BYTES) {
        size_t n = w->bytes - at < READ_BYTES ? (size_t)(w->bytes - at) : READ_BYTES;
        st = gg_data_read(&w->data, w->from + at, w->raw, n, err);
        if (st == GG_OK) st = emit(w, w->raw, n, err);
        if (again) continue;
        if (w->hashed) gg_sha256_update(&w->in, w->raw, n);
        gg_progress_add(w->u->job->run, n);
    }
    return st;
}

/* ---- the filter -------------------------------------------------------------------- */

typedef struct filter_phase {
    work *w;
    unsigned phase;
} filter_phase;

static gg_status filter_task(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    filter_phase *f = ctx;
    work *w = f->w;
    gg_status st = gg_cancelled(err);
    if (st == GG_OK)
        gg_purify_part(w->filter, f->phase, i, w->x, (char *)w->scratch + worker * w->scratch_size);
    return st;
}

static gg_status run_filter(work *w, gg_error *err)
{
    gg_status st = GG_OK;
    size_t need = (gg_purify_scratch(w->filter) + 63) & ~(size_t)63;
    if (need > w->scratch_size) {
        free(w->scratch);
        w->scratch = malloc(need * w->threads);
        w->scratch_size = need;
        if (!w->scratch) return gg_fail(err, GG_ENOMEM, "no memory for a filter");
    }
    for (unsigned phase = 0; phase < gg_purify_phases(w->filter) && st == GG_OK; phase++) {
        filter_phase f = { w, phase };
        st = gg_parallel(gg_purify_parts(w->filter, phase), w->threads, filter_task, &f, err);
        if (st == GG_OK) gg_purify_join(w->filter, phase);
    }
    return st;
}

/* Purifies x. Sets *changed to false if its bits are the same as before. */
static gg_status filter(work *w, bool *changed, gg_error *err)
{
    const gg_purify_options *o = w->u->job->o;
    const gg_tensor *t = &w->u->t;
    gg_purify_report r = { 0 };
    if (w->values == 0) return GG_OK;
    w->filter = gg_purify_new(o->method, w->values, t->n_dims ? t->dims[0] : 1, o->strength, err);
    if (!w->filter) return err->status;
    gg_status st = run_filter(w, err);
    gg_purify_result(w->filter, &r);
    gg_purify_free(w->filter);
    double n = (double)w->values, energy = n * r.std * r.std,
           size = n * (r.std * r.std + r.mean * r.mean);
    w->energy += energy;
    w->size += size;
    w->left += r.energy_kept * energy;
    w->change += r.rel_l2 * r.rel_l2 * size;
    *changed = r.rel_l2 > 0;
    return st;
}

/* ---- the encoder ------------------------------------------------------------------- */

/* Encodes a chunk and replaces its values in x with the values that a reader will decode. Chunks
 * are whole blocks but not whole rows, so each value has its own weight. */
static gg_status encode_task(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    work *w = ctx;
    const gg_tensor *t = &w->u->t;
    uint64_t at = w->at + i * PURIFY_CHUNK;
    size_t n = w->values - at < PURIFY_CHUNK ? (size_t)(w->values - at) : PURIFY_CHUNK;
    uint8_t *to = w->raw + (in_batches(w) ? i : worker) * w->chunk_bytes;
    float *room = w->room ? w->room + worker * PURIFY_CHUNK : NULL;
    const float *weights = gg_weights_of(&w->weights, w->no * w->values + at, n, room);
    gg_status st = gg_encode(t->dtype, w->x + at, to, n, n, weights, err);
    if (st == GG_OK) st = gg_decode(t->dtype, to, w->x + at, n, err);
    if (st == GG_OK && GG_PICK(gg_nk_nonfinite)(w->x + at, n)) {
        st = gg_fail(err, GG_EFORMAT, "its values are too large for %s",
                     gg_dtype_get(t->dtype)->name);
        gg_fix_hint(err, GG_HINT_DTYPE, "use BF16 or F32");
    }
    if (st != GG_OK) return st;
    take(w, &w->after, at, n);
    if (w->sink.fd < 0 || in_batches(w)) return GG_OK;
    return gg_pwrite_all(w->sink.fd, to, bytes_of(t->dtype, n), w->sink.at + bytes_of(t->dtype, at),
                         err);
}

static gg_status store(work *w, gg_error *err)
{
    gg_status st = GG_OK;
    uint64_t most = in_batches(w) ? w->batch * PURIFY_CHUNK : w->values;
    for (w->at = 0; w->at < w->values && st == GG_OK;) {
        uint64_t n = w->values - w->at < most ? w->values - w->at : most;
        st = gg_cancelled(err);
        if (st == GG_OK)
            st = gg_parallel((size_t)((n + PURIFY_CHUNK - 1) / PURIFY_CHUNK), w->threads,
                             encode_task, w, err);
        if (st == GG_OK && in_batches(w)) st = emit(w, w->raw, bytes_of(w->u->t.dtype, n), err);
        w->at += n;
    }
    if (w->sink.fd >= 0 && !in_batches(w)) w->sink.at += bytes_of(w->u->t.dtype, w->values);
    return st;
}

/* ---- a row ---------------------------------------------------------------------------- */

static gg_status one_signal(work *w, uint64_t from, uint64_t in_row, gg_error *err)
{
    bool changed = false, retyped = w->u->t.dtype != w->dtype;
    w->from = from;
    w->in_row = in_row;
    gg_status st = load(w, err);
    if (st != GG_OK || w->nonfinite) return st; /* non-finite values are only counted */
    st = filter(w, &changed, err);
    if (st != GG_OK) return st;
    if (changed || retyped) {
        w->same = false;
        w->no = w->bytes ? from / w->bytes : 0;
        return store(w, err);
    }
    take(w, &w->after, 0, w->values);
    return pass(w, true, err);
}

/* Measures the samples before (0) or after (1) the filter. */
static gg_status theta(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    work *w = ctx;
    const taken *t = i ? &w->after : &w->before;
    gg_measure m;
    (void)worker;
    void *scratch = malloc(gg_measure_scratch((size_t)t->n) + 1);
    if (!scratch) return gg_fail(err, GG_ENOMEM, "no memory to measure");
    gg_measure_values(t->values, (size_t)t->n, scratch, &m);
    *(i ? &w->row->theta_after : &w->row->theta_before) = m.theta;
    free(scratch);
    return GG_OK;
}

/* Purifies one row, which consists of n signals that start at byte `from` of the data. */
static gg_status one_row(work *w, purify_row *row, uint64_t from, uint64_t n, gg_error *err)
{
    gg_status st = GG_OK;
    w->row = &row->r;
    w->row_values = n * w->values;
    w->before.n = w->after.n = gg_sample_count(w->row_values, GG_SAMPLE_DEFAULT);
    w->nonfinite = 0;
    w->left = w->energy = w->change = w->size = 0;
    w->same = true;
    for (uint64_t i = 0; i < n && st == GG_OK; i++) st = one_signal(w, from + i * w->bytes, i, err);
    if (st == GG_OK && w->nonfinite) {
        st = gg_fail(err, GG_EFORMAT, "%llu of its values are NaN or infinite",
                     (unsigned long long)atomic_load(&w->nonfinite));
        gg_fix_hint(err, GG_HINT_DESELECT,
                    "leave it out; measure the model to see how many each tensor has");
    }
    if (st != GG_OK) return gg_at_tensor(err, row->r.t.name, row->r.t.name_len);
    row->r.energy_kept = w->energy > 0 ? w->left / w->energy : 1.0;
    row->r.rel_l2 = w->size > 0 ? sqrt(w->change / w->size) : 0.0;
    row->r.outcome = w->same ? GG_PURIFY_IDENTICAL : GG_PURIFY_DONE;
    return gg_parallel(2, w->threads, theta, w, err);
}

/* ---- a tensor ------------------------------------------------------------------------- */

/* Pages of 2 MiB, where the system has them, save a fifth of the time of a Haar filter. */
static void prefer_large_pages(void *bytes, size_t n)
{
#ifdef MADV_HUGEPAGE
    const uintptr_t page = (uintptr_t)2 << 20;
    uintptr_t from = ((uintptr_t)bytes + page - 1) / page * page;
    uintptr_t to = ((uintptr_t)bytes + n) / page * page;
    if (bytes && from < to)
        (void)madvise((char *)bytes + (from - (uintptr_t)bytes), to - from, MADV_HUGEPAGE);
#else
    (void)bytes, (void)n;
#endif
}

/* Takes the memory of an earlier tensor, which the system does not have to clear again, or
 * allocates it. Memory that is too small is freed first. */
static purify_memory take_memory(purify_job *j, size_t bytes)
{
    purify_memory m = { NULL, bytes };
    pthread_mutex_lock(&j->lock);
    for (unsigned i = 0; i < j->threads && !m.x; i++) {
        if (j->spare[i].bytes < bytes) continue;
        m = j->spare[i];
        j->spare[i] = (purify_memory){ 0 };
    }
    for (unsigned i = 0; i < j->threads && !m.x; i++) {
        free(j->spare[i].x);
        j->spare[i] = (purify_memory){ 0 };
    }
    pthread_mutex_unlock(&j->lock);
    if (m.x) return m;
    m.x = malloc(bytes);
    prefer_large_pages(m.x, bytes);
    return m;
}

static void leave_memory(purify_job *j, purify_memory m)
{
    pthread_mutex_lock(&j->lock);
    for (unsigned i = 0; i < j->threads && m.x; i++) {
        if (j->spare[i].x) continue;
        j->spare[i] = m;
        m.x = NULL;
    }
    pthread_mutex_unlock(&j->lock);
    free(m.x);
}

static gg_status open_weights(work *w, gg_error *err)
{
    gg_status st = gg_weights_open(&w->weights, w->u->job->imatrix, &w->u->t, 0, 0, err);
    if (st != GG_OK || !w->weights.of.mean2) return st;
    w->room = malloc(w->threads * PURIFY_CHUNK * sizeof *w->room);
    return w->room ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the weights of a tensor");
}

static gg_status make_room(work *w, gg_error *err)
{
    uint64_t samples = GG_SAMPLE_DEFAULT;
    w->batch = !in_batches(w) ? w->threads : w->threads > 1 ? 8 * (size_t)w->threads : 2;
    w->chunk_bytes = bytes_of(w->u->t.dtype, PURIFY_CHUNK);
    const gg_dtype_info *info = gg_dtype_get(w->dtype);
    w->run_values = READ_BYTES / info->block_bytes * info->block_elems;
    size_t raw = w->batch * w->chunk_bytes, least = w->threads * READ_BYTES;
    if (raw < least) raw = least;
    w->memory = take_memory(w->u->job, (size_t)w->values * sizeof *w->x + 1);
    w->x = w->memory.x;
    w->raw = malloc(raw);
    w->kept = gg_source_seekable(w->u->job->source) ? NULL : malloc((size_t)w->bytes + 1);
    w->before.values = malloc((size_t)samples * sizeof(float));
    w->after.values = malloc((size_t)samples * sizeof(float));
    bool kept = w->kept || gg_source_seekable(w->u->job->source);
    if (w->x && w->raw && kept && w->before.values && w->after.values) return open_weights(w, err);
    return gg_fail(err, GG_ENOMEM, "no memory for the %llu values of a tensor",
                   (unsigned long long)w->values);
}

static void free_room(work *w)
{
    leave_memory(w->u->job, w->memory);
    free(w->raw);
    free(w->kept);
    free(w->scratch);
    free(w->room);
    gg_weights_close(&w->weights);
    free(w->before.values);
    free(w->after.values);
}

static gg_status check_hash(work *w, gg_error *err)
{
    unsigned char digest[32];
    char hex[65];
    if (!w->hashed) return GG_OK;
    gg_sha256_final(&w->in, digest);
    gg_sha256_hex(digest, hex);
    return gg_check_sha256(hex, w->u->sha256, err);
}

/* Purifies the rows in order. Signals that belong to no row are copied unchanged. */
static gg_status all_rows(work *w, uint64_t signals, gg_error *err)
{
    purify_unit *u = w->u;
    purify_row *row = u->job->rows + u->first;
    if (!u->experts) return one_row(w, row, 0, signals, err);
    gg_status st = GG_OK;
    size_t k = 0;
    for (uint64_t i = 0; i < signals && st == GG_OK; i++) {
        bool mine = k < u->n && row[k].expert == i && row[k].r.outcome <= GG_PURIFY_IDENTICAL;
        w->from = i * w->bytes;
        st = mine ? one_row(w, &row[k], w->from, 1, err) : pass(w, false, err);
        k += k < u->n && row[k].expert == i;
    }
    return st;
}

gg_status gg_purify_unit_run(purify_unit *u, gg_place sink, const gg_run *run, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(u->job->source, u->source);
    uint64_t signals = 1;
    if (!gg_is_expert_stack(t, &signals) || signals == 0 || t->elements % signals) signals = 1;
    work w = { .u = u, .sink = sink, .run = run, .dtype = t->dtype, .threads = 1 };
    w.values = t->elements / signals;
    w.bytes = t->bytes / signals;
    if (w.values > SIZE_MAX / 8)
        return gg_fail(err, GG_EUNSUPPORTED, "too many values for this machine");
    bool big = w.values > PURIFY_SHARED || !gg_source_seekable(u->job->source);
    if (big) w.threads = u->job->threads;
    if (big) pthread_mutex_lock(&u->job->big);
    w.hashed = u->sha256 && u->sha256[0];
    gg_sha256_init(&w.in);
    gg_status st = make_room(&w, err);
    if (st == GG_OK) st = gg_data_open(u->job->source, u->source, &w.data, err);
    if (st == GG_OK) {
        st = all_rows(&w, signals, err);
        if (st == GG_OK) st = check_hash(&w, err);
        gg_data_close(&w.data);
    }
    free_room(&w);
    if (big) pthread_mutex_unlock(&u->job->big);
    return st == GG_OK || st == GG_EIO ? st : gg_at_tensor(err, t->name, t->name_len);
}

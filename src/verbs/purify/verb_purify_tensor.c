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
#include "verbs/shared/copy.h"
#include "verbs/shared/verb_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a thread reads and encodes at once. Both stay in its cache with their values. */
#define READ_BYTES ((size_t)128 << 10)
#define STEP ((size_t)8192)

typedef struct taken { /* the samples of a row, for theta */
    float *values;
    uint64_t n;
} taken;

/* The current signal and the row that it belongs to. */
typedef struct work {
    purify_unit *u;
    gg_place sink;
    gg_data data;
    uint32_t dtype; /* dtype of the source */
    unsigned threads;
    uint64_t values, bytes; /* size of a signal as read */
    purify_memory memory;
    float *x;      /* in `memory` */
    uint8_t *kept; /* the signal's bytes from a pipe, which cannot be read again */
    uint8_t *raw;  /* a batch of encoded chunks */
    gg_weights weights;
    float *room;     /* per thread: the weights of a step */
    float *step;     /* per thread: the values of a step */
    uint64_t no;     /* number of the signal */
    uint64_t in_row; /* its number in the row */
    size_t batch, chunk_bytes;
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
    uint64_t row_values, nonfinite;
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

/* Takes the row's samples among n values of the signal, which are at x. Several threads may take
 * those of different values. */
static void take(const work *w, const taken *t, uint64_t at, const float *x, size_t n)
{
    if (t->n == 0) return;
    uint64_t first = w->in_row * w->values + at, i = gg_sample_index(first, t->n, w->row_values);
    uint64_t step = w->row_values / t->n, rest = w->row_values % t->n, index;
    while ((index = gg_sample_index(i, w->row_values, t->n)) < first) i++;
    /* index = floor(i row_values / t->n), and `over` is the remainder. */
    for (uint64_t over = i * w->row_values - index * t->n; i < t->n && index < first + n; i++) {
        t->values[i] = x[index - first];
        index += step;
        over += rest;
        if (over >= t->n) index++, over -= t->n;
    }
}

/* Reads and decodes the values [at, at + n) of the signal. `raw` has room for READ_BYTES. */
static gg_status load_values(work *w, uint64_t at, uint64_t n, uint8_t *raw, gg_error *err)
{
    const gg_dtype_info *info = gg_dtype_get(w->dtype);
    uint64_t most = READ_BYTES / info->block_bytes * info->block_elems, end = at + n;
    gg_status st = gg_cancelled(err);
    for (; at < end && st == GG_OK; at += n) {
        n = end - at < most ? end - at : most;
        size_t bytes = bytes_of(w->dtype, n), done = bytes_of(w->dtype, at);
        uint8_t *to = w->kept ? w->kept + done : raw;
        st = gg_data_read(&w->data, w->from + done, to, bytes, err);
        if (st == GG_OK) st = gg_decode(w->dtype, to, w->x + at, (size_t)n, err);
        if (st != GG_OK) break;
        if (w->hashed) gg_sha256_update(&w->in, to, bytes);
        take(w, &w->before, at, w->x + at, (size_t)n);
        gg_progress_add(w->u->job->run, bytes);
    }
    return st;
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

static gg_status open_filter(work *w, gg_error *err)
{
    const gg_purify_options *o = w->u->job->o;
    const gg_tensor *t = &w->u->t;
    w->filter = gg_purify_new(o->method, w->values, t->n_dims ? t->dims[0] : 1, o->strength, err);
    if (!w->filter) return err->status;
    size_t need = (gg_purify_scratch(w->filter) + 63) & ~(size_t)63;
    if (need <= w->scratch_size) return GG_OK;
    free(w->scratch);
    w->scratch = malloc(need * w->threads);
    w->scratch_size = w->scratch ? need : 0;
    return w->scratch ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for a filter");
}

typedef struct filter_phase {
    work *w;
    unsigned phase;
    bool load, run; /* read the values of the part, and run the phase */
} filter_phase;

static gg_status filter_task(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    filter_phase *f = ctx;
    work *w = f->w;
    uint64_t first, n = gg_purify_extent(w->filter, i, &first);
    gg_status st = gg_cancelled(err);
    if (st == GG_OK && f->load) st = load_values(w, first, n, w->raw + worker * READ_BYTES, err);
    if (st == GG_OK && f->run)
        gg_purify_part(w->filter, f->phase, i, w->x, (char *)w->scratch + worker * w->scratch_size);
    return st;
}

/* The first task: makes room in the output, because many file systems let only one thread allocate
 * at a time. Threads that write would wait for each other, but those that read need not. */
static gg_status load_or_reserve(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    work *w = ((filter_phase *)ctx)->w;
    if (i > 0) return filter_task(ctx, i - 1, worker, err);
    gg_reserve_hint(w->sink.fd, w->sink.at, bytes_of(w->u->t.dtype, w->values));
    return GG_OK;
}

/* Decodes the signal's values into x and runs the first phase, part by part while they are in the
 * cache. A pipe, and data to hash, is read in order before other threads can run the phase. */
static gg_status load(work *w, gg_error *err)
{
    bool in_order = w->threads > 1 && (w->hashed || w->kept);
    filter_phase only = { w, 0, true, false }, f = { w, 0, !in_order, true };
    size_t parts = gg_purify_parts(w->filter, 0);
    gg_purify_report r;
    gg_status st = in_order ? gg_parallel(parts, 1, filter_task, &only, err) : GG_OK;
    if (st != GG_OK) return st;
    if (w->threads == 1 || in_order || w->sink.fd < 0 || in_batches(w))
        st = gg_parallel(parts, w->threads, filter_task, &f, err);
    else st = gg_parallel(parts + 1, w->threads, load_or_reserve, &f, err);
    gg_purify_join(w->filter, 0);
    gg_purify_result(w->filter, &r);
    w->nonfinite += r.nonfinite;
    return st;
}

/* Runs the other phases. Sets *changed to false if the values are the same as before. */
static gg_status filter(work *w, bool *changed, gg_error *err)
{
    gg_purify_report r;
    gg_status st = GG_OK;
    for (unsigned phase = 1; phase < gg_purify_phases(w->filter) && st == GG_OK; phase++) {
        filter_phase f = { w, phase, false, true };
        st = gg_parallel(gg_purify_parts(w->filter, phase), w->threads, filter_task, &f, err);
        if (st == GG_OK) gg_purify_join(w->filter, phase);
    }
    gg_purify_result(w->filter, &r);
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

/* Encodes n values from `at` on, and takes samples of what a reader will decode. Steps are whole
 * blocks but not whole rows, so each value has its own weight. */
static gg_status encode_step(work *w, uint64_t at, size_t n, uint8_t *to, unsigned worker,
                             gg_error *err)
{
    uint32_t dtype = w->u->t.dtype;
    float *x = w->step + worker * STEP, *room = w->room ? w->room + worker * STEP : NULL;
    const float *weights = gg_weights_of(&w->weights, w->no * w->values + at, n, room);
    gg_purify_finish(w->filter, w->x + at, x, n);
    gg_status st = gg_encode(dtype, x, to, n, n, weights, err);
    if (st == GG_OK) st = gg_decode(dtype, to, x, n, err);
    if (st == GG_OK && GG_PICK(gg_nk_nonfinite)(x, n)) {
        st = gg_fail(err, GG_EFORMAT, "its values are too large for %s", gg_dtype_get(dtype)->name);
        gg_fix_hint(err, GG_HINT_DTYPE, "use BF16 or F32");
    }
    if (st == GG_OK) take(w, &w->after, at, x, n);
    return st;
}

static gg_status encode_task(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    work *w = ctx;
    uint64_t at = w->at + i * PURIFY_CHUNK;
    size_t n = w->values - at < PURIFY_CHUNK ? (size_t)(w->values - at) : PURIFY_CHUNK;
    uint8_t *to = w->raw + (in_batches(w) ? i : worker) * w->chunk_bytes;
    gg_status st = gg_cancelled(err);
    for (size_t k = 0, step; k < n && st == GG_OK; k += step) {
        step = n - k < STEP ? n - k : STEP;
        st = encode_step(w, at + k, step, to + bytes_of(w->u->t.dtype, k), worker, err);
    }
    if (st != GG_OK || w->sink.fd < 0 || in_batches(w)) return st;
    return gg_pwrite_all(w->sink.fd, to, bytes_of(w->u->t.dtype, n),
                         w->sink.at + bytes_of(w->u->t.dtype, at), err);
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

/* Writes what the filter left in x, or the signal as it was. */
static gg_status put(work *w, bool changed, gg_error *err)
{
    if (changed || w->u->t.dtype != w->dtype) {
        w->same = false;
        return store(w, err);
    }
    gg_purify_finish(w->filter, w->x, w->x, (size_t)w->values);
    take(w, &w->after, 0, w->x, (size_t)w->values);
    return pass(w, true, err);
}

/* Purifies a signal of the row. Non-finite values are only counted. */
static gg_status one_signal(work *w, uint64_t from, uint64_t in_row, gg_error *err)
{
    bool changed = false;
    if (w->values == 0) return GG_OK;
    w->from = from;
    w->in_row = in_row;
    w->no = w->bytes ? from / w->bytes : 0;
    gg_status st = open_filter(w, err);
    if (st == GG_OK) st = load(w, err);
    if (st == GG_OK && w->nonfinite == 0) {
        st = filter(w, &changed, err);
        if (st == GG_OK) st = put(w, changed, err);
    }
    gg_purify_free(w->filter);
    w->filter = NULL;
    return st;
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
                     (unsigned long long)w->nonfinite);
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

static gg_status open_weights(work *w, gg_error *err)
{
    gg_status st = gg_weights_open(&w->weights, w->u->job->imatrix, &w->u->t, 0, 0, err);
    if (st != GG_OK || !w->weights.of.mean2) return st;
    w->room = malloc(w->threads * STEP * sizeof *w->room);
    return w->room ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the weights of a tensor");
}

static gg_status make_room(work *w, gg_error *err)
{
    uint64_t samples = GG_SAMPLE_DEFAULT;
    w->batch = !in_batches(w) ? w->threads : w->threads > 1 ? 8 * (size_t)w->threads : 2;
    w->chunk_bytes = bytes_of(w->u->t.dtype, PURIFY_CHUNK);
    size_t raw = w->batch * w->chunk_bytes, least = w->threads * READ_BYTES;
    if (raw < least) raw = least;
    w->memory = gg_purify_take(w->u->job, (size_t)w->values * sizeof *w->x + 1);
    w->x = w->memory.x;
    w->raw = malloc(raw);
    w->step = malloc(w->threads * STEP * sizeof *w->step);
    w->kept = gg_source_seekable(w->u->job->source) ? NULL : malloc((size_t)w->bytes + 1);
    w->before.values = malloc((size_t)samples * sizeof(float));
    w->after.values = malloc((size_t)samples * sizeof(float));
    bool kept = w->kept || gg_source_seekable(w->u->job->source);
    if (w->x && w->raw && w->step && kept && w->before.values && w->after.values)
        return open_weights(w, err);
    return gg_fail(err, GG_ENOMEM, "no memory for the %llu values of a tensor",
                   (unsigned long long)w->values);
}

static void free_room(work *w)
{
    gg_purify_leave(w->u->job, w->memory);
    free(w->raw);
    free(w->kept);
    free(w->scratch);
    free(w->room);
    free(w->step);
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

gg_status gg_purify_unit_run(purify_unit *u, gg_place sink, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(u->job->source, u->source);
    uint64_t signals = 1;
    if (!gg_is_expert_stack(t, &signals) || signals == 0 || t->elements % signals) signals = 1;
    work w = { .u = u, .sink = sink, .dtype = t->dtype, .threads = 1 };
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

/* measure_big.c - measure a large array in place, on several threads.
 *
 * Only the gaps need sorted values. The array is divided into chunks, and each is sorted in cache.
 * Every STEP-th key of all chunks is sorted to choose limits, which are keys that occur, about
 * SLICE values apart. A slice consists of the keys between two limits. They are gathered from all
 * chunks and sorted, with one key for each limit. Further keys equal to the upper limit add gaps of
 * 0:
 *
 *     chunk 0   a a [b c c] d d e     limits a and d:
 *     chunk 1   a   [b b c] d e e     sorted a b b b c c c d, and two gaps of 0
 */
#include "measure_big.h"

#include "base/io.h"
#include "base/parallel.h"
#include "nkernel.h"
#include "numeric/numeric.h"
#include "profile.h"
#include "sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK ((size_t)1 << 17)
#define CHUNKS 512 /* maximum number of chunks; larger arrays have larger chunks */
#define STEP 1024
#define SLICE ((size_t)1 << 18)

typedef struct chunk {
    float *x; /* finite values, later their sorted keys */
    size_t n;
    gg_nk_range range;
    gg_nk_central central;
} chunk;

typedef struct big {
    float *values;
    uint64_t n;
    size_t size; /* values per chunk */
    size_t n_chunks, n_slices;
    chunk *chunks;
    gg_nk_key *cuts; /* limits of the slices: n_slices + 1 different keys, ascending */
    double *gaps;    /* per slice with its upper limit: sum of (gap - mean_gap)^2 */
    uint64_t (*counts)[GG_DIM_BINS_MAX]; /* one per worker */
    gg_nk_key **tmp;                     /* size keys, one per worker */
    double mean, range, min, mean_gap;
} big;

/* ---- phase 1: keep the finite values and find their range ---------------------- */

static gg_status clean_chunk(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    (void)worker;
    big *b = ctx;
    chunk *c = &b->chunks[i];
    float *x = b->values + i * b->size;
    size_t n = b->n - i * b->size < b->size ? (size_t)(b->n - i * b->size) : b->size, kept = 0;
    if (GG_PICK(gg_nk_nonfinite)(x, n)) {
        for (size_t k = 0; k < n; k++) {
            float v = x[k];
            if (isfinite(v)) x[kept++] = v;
        }
        n = kept;
    }
    *c = (chunk){ .x = x, .n = n };
    if (n) c->range = GG_PICK(gg_nk_range)(x, n);
    return gg_cancelled(err);
}

/* Combines the chunks: returns the number of finite values and sets mean and range. */
static uint64_t join_range(big *b, gg_measure *out)
{
    double sum = 0, min = INFINITY, max = -INFINITY;
    uint64_t n = 0;
    for (size_t i = 0; i < b->n_chunks; i++) {
        const chunk *c = &b->chunks[i];
        if (!c->n) continue;
        n += c->n;
        sum += c->range.sum;
        if ((double)c->range.min < min) min = (double)c->range.min;
        if ((double)c->range.max > max) max = (double)c->range.max;
    }
    out->nonfinite = b->n - n;
    if (n == 0) return 0;
    b->min = out->min = min;
    out->max = max;
    b->range = max - min;
    b->mean = out->mean = b->range > 0 ? sum / (double)n : min;
    return n;
}

/* ---- phase 2: moments and histogram; sort each chunk ---------------------------- */

/* Replaces the floats of a chunk by their sorted keys, which have the same size. */
static gg_status sort_chunk(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    big *b = ctx;
    chunk *c = &b->chunks[i];
    if (c->n == 0) return GG_OK;
    c->central = GG_PICK(gg_nk_central)(c->x, c->n, b->mean);
    GG_PICK(gg_nk_histogram)(c->x, c->n, b->min, b->range, b->counts[worker]);
    gg_nk_key *keys = (gg_nk_key *)(void *)c->x;
    GG_PICK(gg_nk_keys)(c->x, c->n, keys);
    gg_nk_key *sorted = gg_sort_keys(keys, c->n, b->tmp[worker]);
    if (sorted != keys) memcpy(keys, sorted, c->n * sizeof *keys);
    return gg_cancelled(err);
}

static void join_moments(const big *b, uint64_t n, unsigned threads, gg_measure *out)
{
    double m2 = 0, m4 = 0;
    uint64_t count[GG_DIM_BINS_MAX] = { 0 };
    for (size_t i = 0; i < b->n_chunks; i++) {
        m2 += b->chunks[i].central.m2;
        m4 += b->chunks[i].central.m4;
    }
    for (unsigned w = 0; w < threads; w++)
        for (size_t k = 0; k < GG_DIM_BINS_MAX; k++) count[k] += b->counts[w][k];
    m2 /= (double)n;
    m4 /= (double)n;
    out->std = sqrt(m2);
    if (m2 > 0) out->kurtosis = m4 / (m2 * m2) - 3.0;
    gg_entropy_profile(count, (double)n, out);
}

/* ---- phase 3: choose the limits of the slices ----------------------------------- */

static const gg_nk_key *keys_of(const chunk *c)
{
    return (const gg_nk_key *)(const void *)c->x;
}

/* The limits are the smallest key, about every SLICE-th key, and the largest key. */
static gg_status choose_cuts(big *b, uint64_t n, gg_error *err)
{
    size_t most = (size_t)(n / STEP) + 2 * b->n_chunks + 1, used = 0;
    gg_nk_key *picks = malloc(2 * most * sizeof *picks);
    if (!picks)
        return gg_fail(err, GG_ENOMEM, "no memory to sort %llu values", (unsigned long long)n);
    for (size_t i = 0; i < b->n_chunks; i++) {
        const chunk *c = &b->chunks[i];
        for (size_t k = 0; k < c->n; k += STEP) picks[used++] = keys_of(c)[k];
        if (c->n) picks[used++] = keys_of(c)[c->n - 1];
    }
    gg_nk_key *sorted = gg_sort_keys(picks, used, picks + most);
    b->cuts = malloc((used / (SLICE / STEP) + 2) * sizeof *b->cuts);
    if (b->cuts) {
        b->n_slices = 0;
        b->cuts[0] = sorted[0];
        for (size_t k = SLICE / STEP; k < used; k += SLICE / STEP)
            if (sorted[k] != b->cuts[b->n_slices]) b->cuts[++b->n_slices] = sorted[k];
        if (sorted[used - 1] != b->cuts[b->n_slices]) b->cuts[++b->n_slices] = sorted[used - 1];
    }
    free(picks);
    return b->cuts
               ? GG_OK
               : gg_fail(err, GG_ENOMEM, "no memory to sort %llu values", (unsigned long long)n);
}

/* ---- phase 4: gaps per slice --------------------------------------------------- */

/* Number of keys of the chunk that are below `key`, or with not_above, not above it. */
static size_t rank_of(const chunk *c, gg_nk_key key, bool not_above)
{
    const gg_nk_key *k = keys_of(c);
    size_t lo = 0, hi = c->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (k[mid] < key || (not_above && k[mid] == key)) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

typedef struct span {
    size_t from, to;
} span;

/* Finds the keys of each chunk between the limits, and counts those equal to the upper limit. */
static size_t find_spans(const big *b, gg_nk_key lo, gg_nk_key hi, span *spans, uint64_t *equals)
{
    size_t between = 0;
    *equals = 0;
    for (size_t i = 0; i < b->n_chunks; i++) {
        const chunk *c = &b->chunks[i];
        spans[i] = (span){ rank_of(c, lo, true), rank_of(c, hi, false) };
        between += spans[i].to - spans[i].from;
        *equals += rank_of(c, hi, true) - spans[i].to;
    }
    return between;
}

static gg_status gaps_of_slice(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    (void)worker;
    big *b = ctx;
    gg_nk_key lo = b->cuts[i], hi = b->cuts[i + 1];
    span *spans = malloc(b->n_chunks * sizeof *spans);
    uint64_t equals = 0;
    size_t m = spans ? find_spans(b, lo, hi, spans, &equals) : 0;
    gg_nk_key *keys = spans ? malloc((2 * m + 4) * sizeof *keys) : NULL;
    if (!keys) {
        free(spans);
        return gg_fail(err, GG_ENOMEM, "no memory to sort %zu values", m);
    }
    size_t at = 0;
    keys[at++] = lo;
    for (size_t k = 0; k < b->n_chunks; k++) {
        size_t len = spans[k].to - spans[k].from;
        memcpy(keys + at, keys_of(&b->chunks[k]) + spans[k].from, len * sizeof *keys);
        at += len;
    }
    keys[at++] = hi;
    b->gaps[i] = GG_PICK(gg_nk_gaps)(gg_sort_keys(keys, at, keys + at), at, b->mean_gap);
    b->gaps[i] += (double)(equals - 1) * b->mean_gap * b->mean_gap;
    free(keys);
    free(spans);
    return gg_cancelled(err);
}

static gg_status measure_gaps(big *b, uint64_t n, unsigned threads, gg_measure *out, gg_error *err)
{
    b->mean_gap = b->range / (double)(n - 1);
    gg_status st = choose_cuts(b, n, err);
    if (st != GG_OK) return st;
    b->gaps = calloc(b->n_slices, sizeof *b->gaps);
    if (!b->gaps)
        return gg_fail(err, GG_ENOMEM, "no memory to sort %llu values", (unsigned long long)n);
    st = gg_parallel(b->n_slices, threads, gaps_of_slice, b, err);
    double least = 0; /* number of smallest keys, which are not the upper limit of any slice */
    for (size_t i = 0; i < b->n_chunks; i++)
        least += (double)rank_of(&b->chunks[i], b->cuts[0], true);
    double sum = (least - 1) * b->mean_gap * b->mean_gap;
    for (size_t i = 0; i < b->n_slices; i++) sum += b->gaps[i];
    out->cv = sqrt(sum / (double)(n - 1)) / b->mean_gap;
    return st;
}

/* ---- all phases ------------------------------------------------------------------------ */

static gg_status make_space(big *b, unsigned threads, gg_error *err)
{
    b->size = CHUNK;
    while ((b->n - 1) / b->size >= CHUNKS) b->size *= 2;
    b->n_chunks = (size_t)((b->n + b->size - 1) / b->size);
    b->chunks = calloc(b->n_chunks, sizeof *b->chunks);
    b->counts = calloc(threads, sizeof *b->counts);
    b->tmp = calloc(threads, sizeof *b->tmp);
    bool ok = b->chunks && b->counts && b->tmp;
    for (unsigned w = 0; ok && w < threads; w++)
        ok = (b->tmp[w] = malloc(b->size * sizeof(gg_nk_key))) != NULL;
    return ok ? GG_OK
              : gg_fail(err, GG_ENOMEM, "no memory to measure %llu values",
                        (unsigned long long)b->n);
}

static gg_status measure_all(big *b, unsigned threads, gg_measure *out, gg_error *err)
{
    gg_status st = make_space(b, threads, err);
    if (st == GG_OK) st = gg_parallel(b->n_chunks, threads, clean_chunk, b, err);
    if (st != GG_OK) return st;
    uint64_t n = join_range(b, out);
    if (n == 0 || !(b->range > 0)) return GG_OK;
    st = gg_parallel(b->n_chunks, threads, sort_chunk, b, err);
    if (st != GG_OK) return st;
    join_moments(b, n, threads, out);
    st = measure_gaps(b, n, threads, out, err);
    out->theta = gg_theta(out->entropy, out->kurtosis, out->cv);
    out->signal = sin(out->theta * (3.14159265358979323846 / 180.0));
    return st;
}

gg_status gg_measure_in_place(float *values, uint64_t n, unsigned threads, gg_measure *out,
                              gg_error *err)
{
    *out = (gg_measure){ .sampled = n };
    if (n == 0) return GG_OK;
    if (threads == 0) threads = gg_thread_count();
    big b = { .values = values, .n = n };
    gg_status st = measure_all(&b, threads, out, err);
    for (unsigned w = 0; b.tmp && w < threads; w++) free(b.tmp[w]);
    free(b.tmp);
    free(b.counts);
    free(b.chunks);
    free(b.cuts);
    free(b.gaps);
    return st;
}

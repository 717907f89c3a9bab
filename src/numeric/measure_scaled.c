/* measure_scaled.c - measure blocks of a scale and 32 signed bytes, such as Q8_0.
 *
 * Every scale that occurs gets a row with a counter for each of the 256 bytes. Each of several
 * threads reads all blocks and counts those of its own scales, so that no counter is shared.
 */
#include "measure_room.h"

#include "base/error.h"
#include "base/float_bits.h"
#include "base/io.h"
#include "base/parallel.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 32 /* values per block */
#define BLOCK_BYTES 34
#define SCALES 65536
#define ROWS_MOST 16384
#define THREADS_MOST 4 /* all threads read all blocks */

typedef uint32_t count_row[256];

typedef struct scaled {
    gg_measure_room *room;
    const gg_values *v;
    unsigned threads;
    pthread_mutex_t lock; /* guards n_rows */
    size_t n_rows;
    count_row *rows;
    uint16_t row_of[SCALES]; /* number of the row from 1; 0: none */
} scaled;

/* ---- counting -------------------------------------------------------------------- */

static uint32_t *new_row(scaled *s, uint32_t scale)
{
    pthread_mutex_lock(&s->lock);
    size_t row = s->n_rows < ROWS_MOST ? ++s->n_rows : 0;
    if (row == 0) s->n_rows = ROWS_MOST + 1;
    pthread_mutex_unlock(&s->lock);
    if (row == 0) return NULL;
    s->row_of[scale] = (uint16_t)row;
    return memset(s->rows[row - 1], 0, sizeof s->rows[0]);
}

/* Returns false if there are too many scales. */
static bool count_blocks(scaled *s, unsigned thread, const uint8_t *b, size_t blocks)
{
    for (; blocks > 0; blocks--, b += BLOCK_BYTES) {
        uint32_t scale = b[0] | (uint32_t)b[1] << 8;
        if (s->threads > 1 && scale % s->threads != thread) continue;
        uint32_t *row = s->row_of[scale] ? s->rows[s->row_of[scale] - 1] : new_row(s, scale);
        if (!row) return false;
        for (size_t i = 2; i < BLOCK_BYTES; i++) row[b[i]]++;
    }
    return true;
}

static gg_status count_scales(void *ctx, size_t thread, unsigned worker, gg_error *err)
{
    (void)worker;
    scaled *s = ctx;
    const gg_values *v = s->v;
    uint8_t *raw = (uint8_t *)s->room->parts[thread].x;
    gg_status st = GG_OK;
    bool fits = true;
    for (uint64_t at = 0; at < v->n && st == GG_OK && fits; at += GG_VALUES_RUN) {
        size_t n = v->n - at < GG_VALUES_RUN ? (size_t)(v->n - at) : GG_VALUES_RUN;
        st = gg_cancelled(err);
        if (st == GG_OK) st = v->read_raw(v->ctx, at, n, raw, err);
        if (st == GG_OK) fits = count_blocks(s, (unsigned)thread, raw, n / BLOCK);
    }
    return st;
}

/* ---- the different values ---------------------------------------------------------- */

/* Calls the function for each finite value and the number of times it occurs. */
typedef void (*value_fn)(void *ctx, float x, uint32_t times);

static void each_value(const scaled *s, value_fn fn, void *ctx)
{
    for (uint32_t scale = 0; scale < SCALES; scale++) {
        if (!s->row_of[scale]) continue;
        const uint32_t *row = s->rows[s->row_of[scale] - 1];
        for (int q = -128; q < 128; q++) {
            float x = s->v->of_code[scale] * (float)q;
            if (row[q & 255] && isfinite(x)) fn(ctx, x, row[q & 255]);
        }
    }
}

typedef struct sums {
    gg_measure_room *room;
    gg_measure *out;
    gg_span_sum all;
    uint64_t bins[GG_DIM_BINS_MAX];
    size_t held; /* values in room->parts[0].x */
} sums;

static void add_to_range(void *ctx, float x, uint32_t times)
{
    sums *s = ctx;
    gg_nk_range *r = &s->all.range;
    if (s->all.n == 0) r->min = r->max = x;
    s->all.n += times;
    r->sum += (double)times * (double)x;
    r->min = x < r->min ? x : r->min;
    r->max = x > r->max ? x : r->max;
    s->room->count[GG_FLOAT_BUCKET(gg_float_bits(x))]++;
}

static void add_central(void *ctx, float x, uint32_t times)
{
    sums *s = ctx;
    gg_central_add(&s->all.central, (double)x, (double)times, s->out->mean);
    s->bins[gg_measure_bin((double)x, s->out->min, s->out->max - s->out->min)] += times;
}

static void collect_value(void *ctx, float x, uint32_t times)
{
    (void)times;
    sums *s = ctx;
    s->room->parts[0].x[s->held++] = x;
    if (s->held < GG_VALUES_RUN) return;
    gg_float_set_add(s->room->set, 0, s->room->parts[0].x, s->held);
    s->held = 0;
}

static gg_status measure_rows(const scaled *k, sums *s, gg_error *err)
{
    gg_measure *out = s->out;
    memset(k->room->count, 0, sizeof k->room->count);
    each_value(k, add_to_range, s);
    out->nonfinite = k->v->n - s->all.n;
    if (s->all.n == 0) return GG_OK;
    double range = gg_measure_set_range(out, &s->all.range, s->all.n);
    if (!(range > 0)) return GG_OK;
    each_value(k, add_central, s);
    gg_float_set_begin(k->room->set, k->room->count, out->min, range);
    double mean_gap = range / (double)(s->all.n - 1);
    gg_gap_sum gaps[2] = { { .mean_gap = mean_gap }, { .mean_gap = mean_gap } };
    gg_status st = GG_OK;
    while (st == GG_OK && gg_float_set_next(k->room->set)) {
        each_value(k, collect_value, s);
        gg_float_set_add(k->room->set, 0, k->room->parts[0].x, s->held);
        s->held = 0;
        gg_float_set_flush(k->room->set, 0);
        st = gg_room_add_gaps(k->room, k->room->threads, gaps, err);
    }
    gg_measure_set_moments(out, s->all.n, s->all.central, s->bins);
    gg_room_set_gaps(out, s->all.n, gaps);
    return st;
}

gg_status gg_measure_scaled(gg_measure_room *room, const gg_values *v, gg_measure *out, bool *done,
                            gg_error *err)
{
    scaled *k = v->n <= UINT32_MAX ? calloc(1, sizeof *k) : NULL;
    sums *s = calloc(1, sizeof *s);
    count_row *rows = malloc(ROWS_MOST * sizeof *rows);
    gg_status st = GG_OK;
    *done = false;
    if (k && s && rows) {
        *k = (scaled){ .room = room, .v = v, .rows = rows, .threads = room->threads };
        if (k->threads > THREADS_MOST) k->threads = THREADS_MOST;
        *out = (gg_measure){ .sampled = v->n };
        *s = (sums){ .room = room, .out = out };
        pthread_mutex_init(&k->lock, NULL);
        st = gg_parallel(k->threads, k->threads, count_scales, k, err);
        pthread_mutex_destroy(&k->lock);
        *done = st != GG_OK || k->n_rows <= ROWS_MOST;
        if (st == GG_OK && *done) st = measure_rows(k, s, err);
    }
    free(k);
    free(s);
    free(rows);
    return st;
}

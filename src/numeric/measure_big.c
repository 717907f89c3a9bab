/* measure_big.c - measure any number of values in bounded memory.
 *
 * Two passes read the values. The first finds their range and counts their
 * buckets (float_set.h). The second sums their moments, counts their bins and collects the
 * different values from which the gaps follow: equal values only add gaps of 0.
 *
 * Work is divided into spans. A round processes some spans in parallel, and then adds their sums in
 * order, so that the results do not depend on the threads.
 */
#include "measure_big.h"

#include "base/error.h"
#include "base/float_bits.h"
#include "base/io.h"
#include "base/parallel.h"
#include "measure_parts.h"
#include "measure_room.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RUN GG_VALUES_RUN
#define RUNS 16 /* runs per span */
#define SPAN (RUNS * RUN)
#define AHEAD 8                  /* spans per thread and round */
#define MOST_THREADS 256         /* more do not pay */
#define FOLD (UINT64_C(1) << 31) /* values counted before 32-bit counters are added up */

typedef struct pass {
    gg_measure_room *room;
    const gg_values *v;
    unsigned threads;      /* that take part */
    uint64_t spans, first; /* first: of this round */
    uint64_t counted;      /* values since the counters were added up */
    double mean;
    bool again; /* only the set is missing */
} pass;

gg_status gg_measure_room_new(unsigned threads, gg_measure_room **out, gg_error *err)
{
    gg_measure_room *room = calloc(1, sizeof *room);
    *out = room;
    if (!room) return gg_fail(err, GG_ENOMEM, "no memory to measure");
    if (threads == 0) threads = gg_thread_count();
    room->threads = threads < MOST_THREADS ? threads : MOST_THREADS;
    room->parts = malloc(room->threads * sizeof *room->parts);
    room->sums = malloc((size_t)room->threads * AHEAD * sizeof *room->sums);
    if (!room->parts || !room->sums)
        gg_fail(err, GG_ENOMEM, "no memory to measure with %u threads", threads);
    else if (gg_float_set_new(room->threads, &room->set, err) == GG_OK) return GG_OK;
    gg_measure_room_free(room);
    *out = NULL;
    return err->status;
}

void gg_measure_room_free(gg_measure_room *room)
{
    if (!room) return;
    gg_float_set_free(room->set);
    free(room->sums);
    free(room->parts);
    free(room);
}

/* ---- rounds ---------------------------------------------------------------------- */

/* Number of values in run r of span i; 0 behind the end. */
static size_t run_length(const gg_values *v, uint64_t i, size_t r)
{
    uint64_t at = i * SPAN + r * RUN;
    return at >= v->n ? 0 : v->n - at < RUN ? (size_t)(v->n - at) : RUN;
}

/* Reads run r of span i and keeps the finite values. */
static gg_status read_run(const pass *p, uint64_t i, size_t r, float *x, size_t *n, gg_error *err)
{
    *n = run_length(p->v, i, r);
    gg_status st = gg_cancelled(err);
    if (st == GG_OK) st = p->v->read(p->v->ctx, i * SPAN + r * RUN, *n, x, err);
    if (st == GG_OK && GG_PICK(gg_nk_nonfinite)(x, *n)) *n = gg_copy_finite(x, *n, x);
    return st;
}

/* Adds up the 32-bit counters of all threads. */
static void fold_counts(pass *p)
{
    gg_measure_room *room = p->room;
    for (unsigned t = 0; t < p->threads; t++) {
        uint32_t *count = room->parts[t].count;
        for (size_t u = 0; u < GG_ROOM_COUNTERS; u++) room->count[u] += count[u];
        memset(count, 0, sizeof room->parts[t].count);
    }
    p->counted = 0;
}

static size_t spans_left(const pass *p, size_t most)
{
    uint64_t left = p->spans - p->first;
    return left < most ? (size_t)left : most;
}

static void clear_counts(pass *p)
{
    memset(p->room->count, 0, sizeof p->room->count);
    for (unsigned t = 0; t < p->threads; t++)
        memset(p->room->parts[t].count, 0, sizeof p->room->parts[t].count);
}

/* Runs a task for all spans, and after each round adds its sums with `join`. */
static gg_status run_rounds(pass *p, gg_task task,
                            void (*join)(pass *, const gg_span_sum *, void *), void *ctx,
                            gg_error *err)
{
    gg_status st = GG_OK;
    p->counted = 0;
    for (p->first = 0; p->first < p->spans && st == GG_OK;) {
        size_t n = spans_left(p, (size_t)AHEAD * p->threads);
        st = gg_parallel(n, p->threads, task, p, err);
        for (size_t i = 0; join && i < n && st == GG_OK; i++) join(p, &p->room->sums[i], ctx);
        p->first += n;
        p->counted += n * SPAN;
        if (p->counted >= FOLD) fold_counts(p);
    }
    return st;
}

/* ---- codes ------------------------------------------------------------------------- */

static gg_status count_codes(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    pass *p = ctx;
    gg_room_part *own = &p->room->parts[worker];
    gg_status st = GG_OK;
    uint64_t span = p->first + i;
    for (size_t r = 0, n; r < RUNS && st == GG_OK && (n = run_length(p->v, span, r)) > 0; r++) {
        st = gg_cancelled(err);
        if (st == GG_OK) st = p->v->read_raw(p->v->ctx, span * SPAN + r * RUN, n, own->codes, err);
        if (st == GG_OK) GG_PICK(gg_nk_count_codes)(own->codes, n, own->count);
    }
    return st;
}

static gg_status measure_codes(pass *p, gg_measure *out, gg_error *err)
{
    clear_counts(p);
    gg_status st = run_rounds(p, count_codes, NULL, NULL, err);
    fold_counts(p);
    if (st == GG_OK) gg_measure_codes(p->room->count, p->v->of_code, p->v->n, out);
    return st;
}

/* ---- first pass -------------------------------------------------------------------- */

static void add_range(gg_span_sum *to, uint64_t n, const gg_nk_range *r)
{
    if (to->n == 0) to->range = (gg_nk_range){ 0, r->min, r->max };
    to->n += n;
    to->range.sum += r->sum;
    if (r->min < to->range.min) to->range.min = r->min;
    if (r->max > to->range.max) to->range.max = r->max;
}

static gg_status scan_span(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    pass *p = ctx;
    gg_room_part *own = &p->room->parts[worker];
    gg_span_sum *sum = &p->room->sums[i];
    gg_status st = GG_OK;
    *sum = (gg_span_sum){ 0 };
    for (size_t r = 0, n; r < RUNS && st == GG_OK && run_length(p->v, p->first + i, r) > 0; r++) {
        st = read_run(p, p->first + i, r, own->x, &n, err);
        if (st != GG_OK || n == 0) continue;
        gg_nk_range range = GG_PICK(gg_nk_range)(own->x, n);
        add_range(sum, n, &range);
        GG_PICK(gg_nk_count_buckets)(own->x, n, own->count);
    }
    return st;
}

static void join_range(pass *p, const gg_span_sum *sum, void *all)
{
    (void)p;
    if (sum->n) add_range(all, sum->n, &sum->range);
}

/* ---- second pass ------------------------------------------------------------------- */

static gg_status collect_span(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    pass *p = ctx;
    float *x = p->room->parts[worker].x;
    gg_span_sum *sum = &p->room->sums[i];
    gg_status st = GG_OK;
    *sum = (gg_span_sum){ 0 };
    for (size_t r = 0, n; r < RUNS && run_length(p->v, p->first + i, r) > 0; r++) {
        if ((st = read_run(p, p->first + i, r, x, &n, err)) != GG_OK) break;
        if (!p->again) {
            gg_nk_central c = GG_PICK(gg_nk_central)(x, n, p->mean);
            sum->central.m2 += c.m2;
            sum->central.m4 += c.m4;
        }
        gg_float_set_add(p->room->set, worker, x, n);
    }
    return st;
}

static void join_central(pass *p, const gg_span_sum *sum, void *all)
{
    (void)p;
    gg_nk_central *c = all;
    c->m2 += sum->central.m2;
    c->m4 += sum->central.m4;
}

static gg_status flush(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    (void)worker;
    (void)err;
    gg_float_set_flush(((pass *)ctx)->room->set, (unsigned)i);
    return GG_OK;
}

static gg_status walk_group(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    gg_measure_room *room = ctx;
    const uint32_t size = GG_FLOAT_BUCKETS / GG_ROOM_GROUPS, from = (uint32_t)i * size;
    gg_gap_sum_add(&room->gaps[i], room->set, worker, from, from + size);
    return gg_cancelled(err);
}

gg_status gg_room_add_gaps(gg_measure_room *room, unsigned threads, gg_gap_sum gaps[2],
                           gg_error *err)
{
    for (size_t i = 0; i < GG_ROOM_GROUPS; i++)
        room->gaps[i] = (gg_gap_sum){ .mean_gap = gaps[0].mean_gap };
    gg_status st = gg_parallel(GG_ROOM_GROUPS, threads, walk_group, room, err);
    for (size_t i = 0; i < GG_ROOM_GROUPS && st == GG_OK; i++)
        gg_gap_sum_join(&gaps[i >= GG_ROOM_GROUPS / 2], &room->gaps[i]);
    return st;
}

void gg_room_set_gaps(gg_measure *out, uint64_t n, const gg_gap_sum gaps[2])
{
    double equal = (double)(n - gaps[0].different - gaps[1].different), mean = gaps[0].mean_gap;
    gg_measure_set_gaps(out, n, gg_gap_sum_both(&gaps[1], &gaps[0]) + equal * mean * mean);
}

/* Adds the values of all parts of the set. gaps: of the positive and of the negative values. */
static gg_status collect_sets(pass *p, gg_nk_central *central, gg_gap_sum gaps[2], gg_error *err)
{
    gg_status st = GG_OK;
    for (p->again = false; st == GG_OK && gg_float_set_next(p->room->set); p->again = true) {
        st = run_rounds(p, collect_span, join_central, central, err);
        if (st == GG_OK) st = gg_parallel(p->threads, p->threads, flush, p, err);
        if (st == GG_OK) st = gg_room_add_gaps(p->room, p->threads, gaps, err);
    }
    return st;
}

/* ---- all passes -------------------------------------------------------------------- */

static gg_status measure_floats(pass *p, gg_measure *out, gg_error *err)
{
    gg_span_sum all = { 0 };
    *out = (gg_measure){ .sampled = p->v->n };
    clear_counts(p);
    gg_status st = run_rounds(p, scan_span, join_range, &all, err);
    fold_counts(p);
    for (size_t u = GG_FLOAT_BUCKETS; u < (size_t)GG_BUCKET_TABLES * GG_FLOAT_BUCKETS; u++)
        p->room->count[u % GG_FLOAT_BUCKETS] += p->room->count[u];
    if (st != GG_OK) return st;
    out->nonfinite = p->v->n - all.n;
    if (all.n == 0) return GG_OK;
    double range = gg_measure_set_range(out, &all.range, all.n);
    if (!(range > 0)) return GG_OK;
    p->mean = out->mean;
    double mean_gap = range / (double)(all.n - 1);
    gg_float_set_begin(p->room->set, p->room->count, out->min, range);
    gg_nk_central central = { 0, 0 };
    gg_gap_sum gaps[2] = { { .mean_gap = mean_gap }, { .mean_gap = mean_gap } };
    st = collect_sets(p, &central, gaps, err);
    if (st != GG_OK) return st;
    uint64_t bins[GG_DIM_BINS_MAX] = { 0 };
    gg_float_set_bins(p->room->set, bins);
    gg_measure_set_moments(out, all.n, central, bins);
    gg_room_set_gaps(out, all.n, gaps);
    return st;
}

gg_status gg_measure_big(gg_measure_room *room, const gg_values *v, gg_measure *out, gg_error *err)
{
    pass p = { .room = room, .v = v, .spans = (v->n + SPAN - 1) / SPAN };
    p.threads = p.spans < room->threads ? (unsigned)p.spans : room->threads;
    if (p.threads == 0) p.threads = 1;
    if (v->form == GG_FORM_CODES) return measure_codes(&p, out, err);
    bool done = false;
    gg_status st = GG_OK;
    if (v->form == GG_FORM_SCALED) st = gg_measure_scaled(room, v, out, &done, err);
    return done ? st : measure_floats(&p, out, err);
}

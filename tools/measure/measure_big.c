/* measure_big.c - the measures of any number of values, in bounded memory.
 *
 * The values are read at least twice. The first pass finds their range and counts their buckets.
 * The second sums their moments, counts their bins and collects the different values
 * (float_set.h), from which the gaps follow: equal values only add gaps of 0. Codes of 16 bits are
 * only counted, and the bytes of blocks with a scale are counted instead of collected.
 *
 * Work is divided into spans. A round processes some spans in parallel, and then adds their sums in
 * order, so that the results do not depend on the threads.
 */
#include "measure_big.h"

#include "base/error.h"
#include "base/float_bits.h"
#include "base/io.h"
#include "base/parallel.h"
#include "float_set.h"
#include "numeric/numeric.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ------------------------------------------------------------------------ */

#define RUN GG_VALUES_RUN
#define RUNS 16 /* runs per span */
#define SPAN (RUNS * RUN)
#define ROUND 2048               /* spans per round, whose sums are kept */
#define MOST_THREADS 256         /* more do not pay */
#define FOLD (UINT64_C(1) << 31) /* values counted before 32-bit counters are added up */
#define CODES 65536              /* codes of 16 bits, and counters, which are at most so many */
#define GROUPS 256               /* of buckets, for the gaps */

/* Memory of one thread. */
typedef struct room_part {
    float x[RUN];
    uint32_t count[CODES];
    uint16_t raw[RUN]; /* codes or blocks */
} room_part;

/* Sums over a span. */
typedef struct span_sum {
    uint64_t n; /* finite values */
    gg_nk_range range;
    gg_nk_central central;
} span_sum;

/* All zero at first. */
typedef struct measure_room {
    uint64_t count[CODES]; /* of codes, or of values per bucket */
    gg_gap_sum gaps[GROUPS];
    span_sum sums[ROUND];
    gg_float_set *set;
    room_part parts[]; /* one per thread */
} measure_room;

/* ---- rounds ------------------------------------------------------------------------ */

typedef struct pass {
    measure_room *room;
    const gg_values *v;
    unsigned threads;      /* that take part */
    uint64_t spans, first; /* first: of this round */
    gg_measure *out;
    span_sum all;
    bool again;            /* only the set is missing */
    struct scaled *scaled; /* NULL: values are read one by one */
} pass;

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
    if (st == GG_OK && GG_PICK(gg_mix_beyond)(x, *n, INFINITY)) *n = gg_keep_finite(x, *n, x);
    return st;
}

/* Adds up the 32-bit counters of all threads. */
static void fold_counts(pass *p)
{
    for (unsigned t = 0; t < p->threads; t++) {
        uint32_t *count = p->room->parts[t].count;
        for (size_t u = 0; u < CODES; u++) p->room->count[u] += count[u];
        memset(count, 0, sizeof p->room->parts[t].count);
    }
}

static void add_span(span_sum *to, const span_sum *s)
{
    if (s->n && to->n == 0) to->range = (gg_nk_range){ 0, s->range.min, s->range.max };
    to->n += s->n;
    to->range.sum += s->range.sum;
    if (s->n && s->range.min < to->range.min) to->range.min = s->range.min;
    if (s->n && s->range.max > to->range.max) to->range.max = s->range.max;
    to->central.m2 += s->central.m2;
    to->central.m4 += s->central.m4;
}

/* Runs a task for all spans, and adds up their sums, and the counters if the task counts. */
static gg_status run_rounds(pass *p, gg_task task, bool counting, gg_error *err)
{
    gg_status st = GG_OK;
    uint64_t counted = 0;
    for (p->first = 0; p->first < p->spans && st == GG_OK;) {
        size_t n = p->spans - p->first < ROUND ? (size_t)(p->spans - p->first) : ROUND;
        st = gg_parallel(n, p->threads, task, p, err);
        for (size_t i = 0; i < n && st == GG_OK; i++) add_span(&p->all, &p->room->sums[i]);
        p->first += n;
        counted += n * SPAN;
        if (counting && counted >= FOLD) fold_counts(p), counted = 0;
    }
    if (counting) fold_counts(p);
    return st;
}

/* ---- codes --------------------------------------------------------------------------- */

static gg_status count_codes(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    pass *p = ctx;
    room_part *own = &p->room->parts[worker];
    uint16_t *codes = own->raw;
    gg_status st = GG_OK;
    uint64_t span = p->first + i;
    p->room->sums[i] = (span_sum){ 0 };
    for (size_t r = 0, n; r < RUNS && st == GG_OK && (n = run_length(p->v, span, r)) > 0; r++) {
        st = gg_cancelled(err);
        if (st == GG_OK) st = p->v->read_raw(p->v->ctx, span * SPAN + r * RUN, n, codes, err);
        if (st == GG_OK) GG_PICK(gg_nk_count_codes)(codes, n, own->count);
    }
    return st;
}

/* Lists the codes that occur and are finite, in ascending order of their values. Both types have
 * the sign in the top bit and their other bits ascend with the magnitude, so the codes of negative
 * values are taken in reverse. */
static size_t list_codes(const uint64_t *count, const float *of_code, uint16_t *list)
{
    size_t n = 0;
    for (uint32_t r = 0; r < CODES; r++) {
        uint32_t code = r & 0x8000 ? r ^ 0x8000 : r ^ 0xffff;
        if (count[code] && isfinite(of_code[code])) list[n++] = (uint16_t)code;
    }
    return n;
}

static void add_central(gg_nk_central *c, double x, double times, double mean)
{
    double d2 = (x - mean) * (x - mean);
    c->m2 += times * d2;
    c->m4 += times * (d2 * d2);
}

static size_t bin_of(const gg_measure *out, double x)
{
    size_t bin = (size_t)((x - out->min) / (out->max - out->min) * GG_DIM_BINS_MAX);
    return bin < GG_DIM_BINS_MAX ? bin : GG_DIM_BINS_MAX - 1;
}

static gg_status measure_codes(pass *p, gg_error *err)
{
    const float *of_code = p->v->of_code;
    const uint64_t *count = p->room->count;
    uint16_t list[CODES];
    gg_status st = run_rounds(p, count_codes, true, err);
    if (st != GG_OK) return st;
    size_t levels = list_codes(count, of_code, list);
    uint64_t n = 0, bins[GG_DIM_BINS_MAX] = { 0 };
    gg_nk_range r = { 0, 0, 0 };
    for (size_t i = 0; i < levels; i++) {
        n += count[list[i]];
        r.sum += (double)count[list[i]] * (double)of_code[list[i]];
    }
    p->out->nonfinite = p->v->n - n;
    if (n == 0) return GG_OK;
    r.min = of_code[list[0]], r.max = of_code[list[levels - 1]];
    double range = gg_measure_set_range(p->out, &r, n);
    if (!(range > 0)) return GG_OK;
    gg_nk_central c = { 0, 0 };
    double mean_gap = range / (double)(n - 1), squares = 0;
    for (size_t i = 0; i < levels; i++) {
        double x = (double)of_code[list[i]], times = (double)count[list[i]];
        add_central(&c, x, times, p->out->mean);
        bins[bin_of(p->out, x)] += count[list[i]];
        double gap = i ? x - (double)of_code[list[i - 1]] - mean_gap : 0;
        squares += gap * gap + (times - 1) * mean_gap * mean_gap;
    }
    gg_measure_set_moments(p->out, n, c, bins);
    gg_measure_set_gaps(p->out, n, squares);
    return GG_OK;
}

/* ---- the set ----------------------------------------------------------------------------- */

/* Sets what follows from the sum of all spans. room->count has the numbers of values per bucket.
 * Returns false if all values are equal. */
static bool begin_set(pass *p, gg_gap_sum gaps[2])
{
    p->out->nonfinite = p->v->n - p->all.n;
    double range = p->all.n ? gg_measure_set_range(p->out, &p->all.range, p->all.n) : 0;
    if (!(range > 0)) return false;
    gaps[0] = gaps[1] = (gg_gap_sum){ .mean_gap = range / (double)(p->all.n - 1) };
    gg_float_set_begin(p->room->set, p->room->count, p->out->min, range);
    return true;
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
    measure_room *room = ctx;
    const uint32_t size = GG_FLOAT_BUCKETS / GROUPS, from = (uint32_t)i * size;
    gg_gap_sum_add(&room->gaps[i], room->set, worker, from, from + size);
    return gg_cancelled(err);
}

/* Adds the gaps of this part to the sums of the positive and the negative values. */
static gg_status add_gaps(pass *p, gg_gap_sum gaps[2], gg_error *err)
{
    measure_room *room = p->room;
    for (size_t i = 0; i < GROUPS; i++)
        room->gaps[i] = (gg_gap_sum){ .mean_gap = gaps[0].mean_gap };
    gg_status st = gg_parallel(p->threads, p->threads, flush, p, err);
    if (st == GG_OK) st = gg_parallel(GROUPS, p->threads, walk_group, room, err);
    for (size_t i = 0; i < GROUPS && st == GG_OK; i++)
        gg_gap_sum_join(&gaps[i >= GROUPS / 2], &room->gaps[i]);
    return st;
}

/* Sets the rest from the bins and from the gaps of the positive and the negative values. */
static void end_set(const pass *p, uint64_t *bins, const gg_gap_sum gaps[2])
{
    uint64_t n = p->all.n;
    double equal = (double)(n - gaps[0].different - gaps[1].different), mean = gaps[0].mean_gap;
    gg_measure_set_moments(p->out, n, p->all.central, bins);
    gg_measure_set_gaps(p->out, n, gg_gap_sum_both(&gaps[1], &gaps[0]) + equal * mean * mean);
}

/* Visits all values once to find their range, and once for each part of the set: each time it
 * collects the values of the part, and the first time it also sums the moments. */
static gg_status measure_set(pass *p, gg_task scan, gg_task collect, gg_error *err)
{
    uint64_t *count = p->room->count, bins[GG_DIM_BINS_MAX] = { 0 };
    gg_gap_sum gaps[2];
    gg_status st = run_rounds(p, scan, true, err);
    if (st != GG_OK) return st;
    for (size_t u = GG_FLOAT_BUCKETS; u < (size_t)GG_BUCKET_TABLES * GG_FLOAT_BUCKETS; u++)
        count[u % GG_FLOAT_BUCKETS] += count[u];
    if (!begin_set(p, gaps)) return GG_OK;
    memset(count, 0, sizeof p->room->count); /* for the bins of scales */
    for (p->again = false; st == GG_OK && gg_float_set_next(p->room->set); p->again = true) {
        st = run_rounds(p, collect, p->scaled && !p->again, err);
        if (st == GG_OK) st = add_gaps(p, gaps, err);
    }
    if (st != GG_OK) return st;
    if (!p->scaled) gg_float_set_bins(p->room->set, bins);
    end_set(p, p->scaled ? count : bins, gaps);
    return GG_OK;
}

/* ---- scaled blocks ----------------------------------------------------------------------
 *
 * Where few scales occur many times, as in Q8_0, it is faster to count the bytes of each scale than
 * to decode and sort the values. Each scale that occurs gets a row with a counter for each of the
 * 256 bytes. Each thread has its own rows, which are added up later; then some scales at a time are
 * a task, whose values and their counts are found in the rows. */

#define ROWS_MOST 16384
#define READERS_MOST 4                   /* threads that count, because of the memory for rows */
#define SCALED_LEAST (UINT64_C(1) << 20) /* fewer values do not pay for visiting all counters */
#define TOGETHER 32                      /* scales per task */
_Static_assert(ROWS_MOST / TOGETHER <= ROUND, "all tasks of scales are one round");

typedef uint32_t count_row[256];

/* The rows of one thread. */
typedef struct scale_rows {
    size_t n; /* at most ROWS_MOST */
    count_row *rows;
    uint16_t row_of[CODES]; /* number of the row from 1; 0: none */
} scale_rows;

typedef struct scaled {
    unsigned threads;
    atomic_bool many;          /* there are more than ROWS_MOST scales */
    size_t n;                  /* scales that occur */
    uint16_t scale[ROWS_MOST]; /* in ascending order */
    scale_rows *own[READERS_MOST];
} scaled;

/* Returns the row of a scale that has none, or NULL if there are too many. */
static uint32_t *new_row(scale_rows *o, uint32_t scale)
{
    if (o->n == ROWS_MOST) return NULL;
    o->row_of[scale] = (uint16_t)++o->n;
    return memset(o->rows[o->n - 1], 0, sizeof o->rows[0]);
}

/* Returns false if there are too many scales. */
static bool count_blocks(scale_rows *o, const uint8_t *b, size_t blocks)
{
    for (; blocks > 0; blocks--, b += GG_SCALED_BYTES) {
        uint32_t scale = b[0] | (uint32_t)b[1] << 8;
        uint32_t *row = o->row_of[scale] ? o->rows[o->row_of[scale] - 1] : new_row(o, scale);
        if (!row) return false;
        for (size_t i = 2; i < GG_SCALED_BYTES; i++) row[b[i]]++;
    }
    return true;
}

static gg_status count_scales(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    pass *p = ctx;
    scaled *s = p->scaled;
    uint16_t *raw = p->room->parts[worker].raw;
    gg_status st = GG_OK;
    uint64_t span = p->first + i;
    p->room->sums[i] = (span_sum){ 0 };
    for (size_t r = 0, n; r < RUNS && (n = run_length(p->v, span, r)) > 0; r++) {
        if (atomic_load(&s->many)) break;
        st = gg_cancelled(err);
        if (st == GG_OK) st = p->v->read_raw(p->v->ctx, span * SPAN + r * RUN, n, raw, err);
        if (st != GG_OK) break;
        if (!count_blocks(s->own[worker], (const uint8_t *)raw, n / GG_SCALED_BLOCK))
            atomic_store(&s->many, true);
    }
    return st;
}

/* Lists the scales that occur in any thread. */
static void list_scales(scaled *s)
{
    for (uint32_t scale = 0; scale < CODES && !s->many; scale++) {
        bool occurs = false;
        for (unsigned t = 0; t < s->threads; t++) occurs |= s->own[t]->row_of[scale] != 0;
        if (!occurs) continue;
        if (s->n == ROWS_MOST) s->many = true;
        else s->scale[s->n++] = (uint16_t)scale;
    }
}

/* The row of a scale that occurs. The first time, the rows of the other threads are added to it. */
static const uint32_t *row_of(scaled *s, uint32_t scale)
{
    uint32_t *sum = NULL;
    for (unsigned t = 0; t < s->threads; t++) {
        scale_rows *o = s->own[t];
        if (!o->row_of[scale]) continue;
        const uint32_t *row = o->rows[o->row_of[scale] - 1];
        for (size_t q = 0; sum && q < 256; q++) sum[q] += row[q];
        if (sum) o->row_of[scale] = 0;
        else sum = o->rows[o->row_of[scale] - 1];
    }
    return sum;
}

/* Lists the finite values of a scale and how many times each occurs. */
static size_t values_of(const pass *p, uint32_t scale, float *x, uint32_t *times)
{
    const uint32_t *row = row_of(p->scaled, scale);
    size_t n = 0;
    for (int q = -128; q < 128; q++) {
        x[n] = p->v->of_code[scale] * (float)q;
        times[n] = row[q & 255];
        n += times[n] != 0 && isfinite(x[n]);
    }
    return n;
}

/* Finds the range of the values of some scales, and counts their buckets. */
static gg_status scan_scales(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    pass *p = ctx;
    uint32_t *count = p->room->parts[worker].count, times[256];
    span_sum *sum = &p->room->sums[i];
    float x[256];
    *sum = (span_sum){ 0 };
    for (size_t k = i * TOGETHER; k < p->scaled->n && k < (i + 1) * TOGETHER; k++) {
        size_t n = values_of(p, p->scaled->scale[k], x, times);
        for (size_t j = 0; j < n; j++) {
            add_span(
                sum,
                &(span_sum){ times[j], { (double)times[j] * (double)x[j], x[j], x[j] }, { 0, 0 } });
            count[GG_FLOAT_BUCKET(gg_float_bits(x[j]))] += times[j];
        }
    }
    return gg_cancelled(err);
}

/* Collects the values of some scales; the first time, also sums their moments and counts their
 * bins. */
static gg_status collect_scales(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    pass *p = ctx;
    uint32_t *bins = p->room->parts[worker].count, times[256];
    span_sum *sum = &p->room->sums[i];
    float x[256];
    *sum = (span_sum){ 0 };
    for (size_t k = i * TOGETHER; k < p->scaled->n && k < (i + 1) * TOGETHER; k++) {
        size_t n = values_of(p, p->scaled->scale[k], x, times);
        gg_float_set_add(p->room->set, worker, x, n);
        for (size_t j = 0; j < n && !p->again; j++) {
            add_central(&sum->central, (double)x[j], (double)times[j], p->out->mean);
            bins[bin_of(p->out, (double)x[j])] += times[j];
        }
    }
    return gg_cancelled(err);
}

static void free_scaled(scaled *s)
{
    for (unsigned t = 0; t < s->threads; t++) {
        if (s->own[t]) free(s->own[t]->rows);
        free(s->own[t]);
    }
    free(s);
}

static scaled *new_scaled(unsigned threads)
{
    scaled *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    bool all = true;
    for (; s->threads < threads && s->threads < READERS_MOST && all; s->threads++) {
        scale_rows *o = s->own[s->threads] = calloc(1, sizeof *o);
        if (o) o->rows = malloc(ROWS_MOST * sizeof *o->rows);
        all = o && o->rows;
    }
    if (all) return s;
    free_scaled(s);
    return NULL;
}

/* Sets *done to false if the values must be measured as floats. */
static gg_status measure_scaled(const pass *p, bool *done, gg_error *err)
{
    pass counting = *p, adding = *p;
    *done = false;
    if (p->v->n < SCALED_LEAST || p->v->n > UINT32_MAX) return GG_OK;
    scaled *s = new_scaled(p->threads);
    if (!s) return gg_fail(err, GG_ENOMEM, "no memory to measure");
    counting.scaled = adding.scaled = s;
    counting.threads = s->threads;
    gg_status st = run_rounds(&counting, count_scales, false, err);
    list_scales(s);
    *done = st != GG_OK || !s->many;
    adding.spans = (s->n + TOGETHER - 1) / TOGETHER;
    if (st == GG_OK && *done) st = measure_set(&adding, scan_scales, collect_scales, err);
    free_scaled(s);
    return st;
}

/* ---- floats ---------------------------------------------------------------------------- */

/* Collects the values of a span and, the first time, sums their moments; or finds its range, and
 * counts its buckets. */
static gg_status take_span(pass *p, size_t i, unsigned worker, bool collects, gg_error *err)
{
    room_part *own = &p->room->parts[worker];
    span_sum *sum = &p->room->sums[i];
    gg_status st = GG_OK;
    *sum = (span_sum){ 0 };
    for (size_t r = 0, n; r < RUNS && st == GG_OK && run_length(p->v, p->first + i, r) > 0; r++) {
        st = read_run(p, p->first + i, r, own->x, &n, err);
        if (st != GG_OK || n == 0) continue;
        if (!collects) {
            add_span(sum, &(span_sum){ n, GG_PICK(gg_nk_range)(own->x, n), { 0, 0 } });
            GG_PICK(gg_nk_count_buckets)(own->x, n, own->count);
            continue;
        }
        gg_float_set_add(p->room->set, worker, own->x, n);
        if (p->again) continue;
        gg_nk_central c = GG_PICK(gg_nk_central)(own->x, n, p->out->mean);
        sum->central.m2 += c.m2;
        sum->central.m4 += c.m4;
    }
    return st;
}

static gg_status scan_span(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    return take_span(ctx, i, worker, false, err);
}

static gg_status collect_span(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    return take_span(ctx, i, worker, true, err);
}

void gg_measure_room_free(gg_measure_room *room)
{
    gg_float_set_free(room->set);
    room->set = NULL;
}

gg_status gg_measure_big(gg_measure_room *kept, const gg_values *v, gg_measure *out, gg_error *err)
{
    pass p = { .v = v, .out = out, .spans = (v->n + SPAN - 1) / SPAN };
    unsigned most = kept->threads < MOST_THREADS ? kept->threads : MOST_THREADS;
    p.threads = p.spans < most ? (unsigned)p.spans : most;
    if (p.threads == 0) p.threads = 1;
    *out = (gg_measure){ .sampled = v->n };
    bool codes = v->form == GG_FORM_CODES, done = codes;
    if (!codes && !kept->set) kept->set = gg_float_set_new(most);
    p.room = calloc(1, sizeof *p.room + p.threads * sizeof p.room->parts[0]);
    if (!p.room || !(codes || kept->set)) {
        free(p.room);
        return gg_fail(err, GG_ENOMEM, "no memory to measure");
    }
    p.room->set = kept->set;
    gg_status st = codes ? measure_codes(&p, err) : GG_OK;
    if (v->form == GG_FORM_SCALED) st = measure_scaled(&p, &done, err);
    if (st == GG_OK && !done) st = measure_set(&p, scan_span, collect_span, err);
    free(p.room);
    return st;
}

/* measure.c - moments, entropy, gap variation and dimension: of an array of values, and of any
 * number of values in bounded memory.
 *
 * The second way reads the values at least twice. The first pass finds their range and counts their
 * buckets. The second sums their moments, counts their bins and collects the different values,
 * from which the gaps follow: equal values only add gaps of 0. Codes of 16 bits are only counted.
 *
 * Work is divided into spans. A round processes some spans in parallel, and then adds their sums in
 * order, so that the results do not depend on the threads.
 *
 * A bucket is all floats with the same sign, exponent and next 4 bits. One with many values has
 * a bitmap of the 2^19 floats that it may hold, and one with few values a list. The memory for both
 * has a fixed size. If the buckets do not fit, they are filled in several parts, and each part
 * needs another pass over the values. There are at most 19 parts, however many values there are.
 */
#include "numeric.h"

#include "base/error.h"
#include "base/float_bits.h"
#include "base/io.h"
#include "base/parallel.h"
#include "mix.h"
#include "nkernel.h"
#include "ownmath.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- samples, entropy and scores ------------------------------------------------------ */

__extension__ typedef unsigned __int128 u128;

uint64_t gg_sample_count(uint64_t elements, uint64_t wanted)
{
    return wanted == 0 || wanted > elements ? elements : wanted;
}

uint64_t gg_sample_index(uint64_t i, uint64_t elements, uint64_t count)
{
    if (count == 0) return 0;
    if (count == elements) return i;
    if ((i | elements) >> 32 == 0) return i * elements / count;
    return (uint64_t)((u128)i * elements / count);
}

/* Shannon entropy in bits of counts that sum to n. */
static double entropy_bits(const uint64_t *count, size_t bins, double n)
{
    double h = 0, log_n = own_log(n);
    for (size_t b = 0; b < bins; b++)
        if (count[b]) h += (double)count[b] * (log_n - own_log((double)count[b]));
    return h / (n * OWN_LN2);
}

static void halve_bins(uint64_t *count, size_t bins)
{
    for (size_t b = 0; b < bins / 2; b++) count[b] = count[2 * b] + count[2 * b + 1];
}

/* Sets entropy and dimension from GG_DIM_BINS_MAX counts that sum to n >= 1, and overwrites the
 * counts. The dimension is the least squares slope of the entropy at 16, 32, ... 1024 bins over
 * log2 of the number of bins. */
static void set_entropy(uint64_t *count, double n, gg_measure *out)
{
    double steps = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
    double x = 10; /* log2 of the number of bins */
    for (size_t bins = GG_DIM_BINS_MAX; bins >= GG_DIM_BINS_MIN; bins /= 2, x -= 1) {
        double y = entropy_bits(count, bins, n);
        if (bins == GG_BINS) out->entropy = y / 8;
        steps += 1;
        sx += x;
        sy += y;
        sxx += x * x;
        sxy += x * y;
        halve_bins(count, bins);
    }
    out->dimension = (steps * sxy - sx * sy) / (steps * sxx - sx * sx);
}

static double clamp_score(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

double gg_score_entropy(double h)
{
    if (h > 0.7) return clamp_score((0.95 - h) / 0.25);
    return h < 0.3 ? clamp_score(h / 0.3) : 1.0;
}

double gg_score_kurtosis(double k)
{
    return clamp_score(fabs(k) / 3.0);
}

double gg_score_cv(double c)
{
    return clamp_score((c - 0.5) / 0.5);
}

double gg_theta(double h, double k, double c)
{
    return 90.0 * (gg_score_entropy(h) + gg_score_kurtosis(k) + gg_score_cv(c)) / 3.0;
}

double gg_calibrated(double theta, double null_theta)
{
    if (!(theta > null_theta) || null_theta >= 90.0) return 0.0;
    return 90.0 * (theta - null_theta) / (90.0 - null_theta);
}

/* ---- steps of all ways ------------------------------------------------------------- */

/* Copies the finite ones of n values and returns their number. x and out may be the same. */
static size_t copy_finite(const float *x, size_t n, float *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        float v = x[i];
        if (isfinite(v)) out[kept++] = v;
    }
    return kept;
}

/* Sets min, max and mean from the range of n > 0 values. Returns max - min. */
static double set_range(gg_measure *out, const gg_nk_range *r, uint64_t n)
{
    double range = (double)r->max - (double)r->min;
    out->min = (double)r->min;
    out->max = (double)r->max;
    out->mean = range > 0 ? r->sum / (double)n : out->min;
    return range;
}

/* Sets std, kurtosis, entropy and dimension from the sums of n values and their histogram of
 * GG_DIM_BINS_MAX bins, which is overwritten. */
static void set_moments(gg_measure *out, uint64_t n, gg_nk_central sums, uint64_t *count)
{
    double m2 = sums.m2 / (double)n, m4 = sums.m4 / (double)n;
    out->std = sqrt(m2);
    if (m2 > 0) out->kurtosis = m4 / (m2 * m2) - 3.0;
    set_entropy(count, (double)n, out);
}

/* Sets cv, theta and signal. squares is the sum of (gap - mean)^2 over the n - 1 gaps. */
static void set_gaps(gg_measure *out, uint64_t n, double squares)
{
    double gaps = (double)(n - 1), mean = (out->max - out->min) / gaps;
    out->cv = sqrt(squares / gaps) / mean;
    out->theta = gg_theta(out->entropy, out->kurtosis, out->cv);
    out->signal = gg_own_sin(out->theta * (3.14159265358979323846 / 180.0));
}

/* ---- an array ------------------------------------------------------------------------ */

size_t gg_measure_scratch(size_t n)
{
    return n > (SIZE_MAX - 64) / 8 ? SIZE_MAX : 8 * n + 64;
}

static void measure_finite(const float *x, size_t n, const gg_nk_range *r, gg_nk_key *keys,
                           gg_nk_key *tmp, gg_measure *out)
{
    uint64_t count[GG_DIM_BINS_MAX] = { 0 };
    double range = set_range(out, r, n);
    if (!(range > 0)) return;
    gg_nk_central c = GG_PICK(gg_nk_central)(x, n, out->mean);
    GG_PICK(gg_nk_keys)(x, n, keys);
    gg_nk_key *sorted = gg_sort_keys(keys, n, tmp);
    GG_PICK(gg_nk_histogram_sorted)(sorted, n, out->min, range, count);
    set_moments(out, n, c, count);
    set_gaps(out, n, GG_PICK(gg_nk_gaps)(sorted, n, range / (double)(n - 1)));
}

void gg_measure_values(const float *values, size_t n, void *scratch, gg_measure *out)
{
    memset(out, 0, sizeof *out);
    out->sampled = n;
    uintptr_t skew = (uintptr_t)scratch & 63;
    char *base = (char *)scratch + (skew ? 64 - skew : 0);
    gg_nk_key *keys = (gg_nk_key *)(void *)base, *tmp = keys + n;
    if (n == 0) return;
    gg_nk_range r = GG_PICK(gg_nk_range)(values, n);
    if (!isfinite(r.sum)) { /* not all values are finite; finite floats do not overflow a double */
        /* The keys replace the copy in place. */
        float *kept = (float *)(void *)base;
        n = copy_finite(values, n, kept);
        out->nonfinite = out->sampled - n;
        if (n == 0) return;
        values = kept;
        r = GG_PICK(gg_nk_range)(values, n);
    }
    measure_finite(values, n, &r, keys, tmp, out);
}

/* ---- memory ------------------------------------------------------------------------ */

#define RUN GG_VALUES_RUN
#define RUNS 16 /* runs per span */
#define SPAN (RUNS * RUN)
#define AHEAD 8                  /* spans per thread and round */
#define MOST_THREADS 256         /* more do not pay */
#define FOLD (UINT64_C(1) << 31) /* values counted before 32-bit counters are added up */
#define CODES 65536              /* codes of 16 bits, and counters, which are at most so many */

#define LOW_BITS 19 /* of a float that are not in the number of its bucket */
#define LOWS (1u << LOW_BITS)
#define MAP_WORDS (LOWS / 64)         /* a bitmap: 64 KiB */
#define LIST_MOST 16384               /* a bucket with more values has a bitmap */
#define SORTED_MOST 64                /* a longer list is sorted with a bitmap */
#define POOL_WORDS ((size_t)28 << 17) /* for bitmaps and lists */
#define GROUPS 256                    /* of buckets, for the gaps */

/* The different values in a bucket of this part. */
typedef struct bucket {
    uint32_t *list; /* lower bits; NULL if not used */
    uint64_t *map;  /* NULL if not used */
    uint32_t n;     /* values in the list */
} bucket;

/* Sum of (gap - mean_gap)^2 over the gaps between neighbours among the different values of one
 * sign. The magnitudes are added in ascending order. */
typedef struct gap_sum {
    double sum, mean_gap;
    uint64_t different;    /* values so far */
    gg_nk_key first, last; /* keys of the lowest and the highest magnitude, if different > 0 */
} gap_sum;

/* Memory of one thread. */
typedef struct room_part {
    float x[RUN];
    uint64_t bins[GG_DIM_BINS_MAX];
    uint32_t count[CODES]; /* later a bitmap, to sort a list */
} room_part;

/* Sums over a span. */
typedef struct span_sum {
    uint64_t n; /* finite values */
    gg_nk_range range;
    gg_nk_central central;
} span_sum;

/* All zero at first, except the pool. */
typedef struct measure_room {
    bucket buckets[GG_FLOAT_BUCKETS];
    uint64_t count[CODES]; /* of codes, or of values per bucket */
    gap_sum gaps[GROUPS];
    span_sum sums[AHEAD * MOST_THREADS];
    uint64_t *pool;
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
    bool scan;  /* only the range and the buckets are wanted */
    bool again; /* only the set is missing */
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
    if (st == GG_OK && GG_PICK(gg_mix_beyond)(x, *n, INFINITY)) *n = copy_finite(x, *n, x);
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
        size_t n = (size_t)AHEAD * p->threads;
        if (p->spans - p->first < n) n = (size_t)(p->spans - p->first);
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
    uint16_t *codes = (uint16_t *)(void *)own->x;
    gg_status st = GG_OK;
    uint64_t span = p->first + i;
    p->room->sums[i] = (span_sum){ 0 };
    for (size_t r = 0, n; r < RUNS && st == GG_OK && (n = run_length(p->v, span, r)) > 0; r++) {
        st = gg_cancelled(err);
        if (st == GG_OK) st = p->v->read_codes(p->v->ctx, span * SPAN + r * RUN, n, codes, err);
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
    double range = set_range(p->out, &r, n);
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
    set_moments(p->out, n, c, bins);
    set_gaps(p->out, n, squares);
    return GG_OK;
}

/* ---- different values ---------------------------------------------------------------- */

/* Prepares the next part of the buckets from *next on, of which room->count has the numbers of
 * values. Returns false if there is none. */
static bool next_part(measure_room *room, uint32_t *next)
{
    size_t used = 0;
    uint32_t from = *next;
    memset(room->buckets, 0, sizeof room->buckets);
    for (; *next < GG_FLOAT_BUCKETS; ++*next) {
        uint64_t count = room->count[*next];
        size_t words = count > LIST_MOST ? MAP_WORDS : (size_t)(count + 1) / 2;
        if (used + words > POOL_WORDS) break;
        bucket *b = &room->buckets[*next];
        if (count > LIST_MOST) b->map = memset(room->pool + used, 0, MAP_WORDS * sizeof(uint64_t));
        else if (count) b->list = (uint32_t *)(void *)(room->pool + used);
        used += words;
    }
    return from < *next;
}

#define SOON 32 /* values ahead whose place in a bitmap is fetched to the cache */

/* Adds finite values to their buckets, while other threads do so too. Bits that are set already,
 * which are most of a quantized tensor, need no atomic operation. */
static void collect_values(measure_room *room, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = gg_float_bits(x[i]), low = bits % LOWS;
        bucket *b = &room->buckets[GG_FLOAT_BUCKET(bits)];
        uint64_t bit = UINT64_C(1) << low % 64;
        if (i + SOON < n) {
            uint32_t soon = gg_float_bits(x[i + SOON]);
            const uint64_t *map = room->buckets[GG_FLOAT_BUCKET(soon)].map;
            if (map) __builtin_prefetch(map + soon % LOWS / 64, 1);
        }
        if (b->list) b->list[__atomic_fetch_add(&b->n, 1, __ATOMIC_RELAXED)] = low;
        if (!b->map || __atomic_load_n(&b->map[low / 64], __ATOMIC_RELAXED) & bit) continue;
        __atomic_fetch_or(&b->map[low / 64], bit, __ATOMIC_RELAXED);
    }
}

/* Adds n keys that ascend and are all above those of g. keys[-1] may be overwritten. */
static void add_keys(gap_sum *g, gg_nk_key *keys, size_t n)
{
    if (n == 0) return;
    bool joined = g->different > 0;
    if (joined) keys[-1] = g->last;
    else g->first = keys[0];
    g->sum += GG_PICK(gg_nk_gaps)(joined ? keys - 1 : keys, joined ? n + 1 : n, g->mean_gap);
    g->last = keys[n - 1];
    g->different += n;
}

/* Adds a sum whose magnitudes are all above those of g. */
static void join_gaps(gap_sum *g, const gap_sum *next)
{
    if (next->different == 0) return;
    gg_nk_key first[2] = { 0, next->first };
    add_keys(g, first + 1, 1);
    g->sum += next->sum;
    g->last = next->last;
    g->different += next->different - 1;
}

/* The sum for both signs; includes the gap between the smallest magnitudes. */
static double gaps_of_both(const gap_sum *negative, const gap_sum *positive)
{
    if (negative->different == 0 || positive->different == 0) return negative->sum + positive->sum;
    double low = (double)gg_bits_float(negative->first ^ 0x80000000u),
           high = (double)gg_bits_float(positive->first ^ 0x80000000u),
           d = low + high - positive->mean_gap;
    return negative->sum + positive->sum + d * d;
}

#define KEYS 4096 /* keys that are collected before their gaps are added */

typedef struct key_run {
    gg_nk_key keys[KEYS + 1]; /* the first is for add_keys */
    size_t n;
    gap_sum *sum;
} key_run;

static void end_run(key_run *r)
{
    add_keys(r->sum, r->keys + 1, r->n);
    r->n = 0;
}

/* `key` is the key of the magnitude whose lower bits are 0. The top bit of such keys is set. */
static void walk_map(key_run *r, const uint64_t *map, gg_nk_key key)
{
    gg_nk_key *to = r->keys + 1 + r->n;
    for (uint32_t w = 0; w < MAP_WORDS; w++, key += 64) {
        uint64_t word = map[w];
        if (to > r->keys + 1 + KEYS - 64) {
            r->n = (size_t)(to - r->keys - 1);
            end_run(r);
            to = r->keys + 1;
        }
        for (; word; word &= word - 1) *to++ = key + (uint32_t)__builtin_ctzll(word);
    }
    r->n = (size_t)(to - r->keys - 1);
}

static void walk_list(key_run *r, uint32_t *low, size_t n, gg_nk_key key, uint64_t *map)
{
    if (n > SORTED_MOST) {
        memset(map, 0, MAP_WORDS * sizeof *map);
        for (size_t i = 0; i < n; i++) map[low[i] / 64] |= UINT64_C(1) << (low[i] % 64);
        walk_map(r, map, key);
        return;
    }
    if (r->n > KEYS - SORTED_MOST) end_run(r);
    low = gg_sort_keys(low, n, NULL); /* so few need no room */
    for (size_t i = 0; i < n; i++)
        if (i == 0 || low[i] != low[i - 1]) r->keys[1 + r->n++] = key + low[i];
}

/* Adds the values of this part in a group of buckets, which have the same sign. Overwrites the
 * counters of the thread. */
static gg_status walk_group(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    measure_room *room = ctx;
    uint64_t *map = (uint64_t *)(void *)room->parts[worker].count;
    const uint32_t size = GG_FLOAT_BUCKETS / GROUPS, from = (uint32_t)i * size;
    key_run r;
    r.n = 0;
    r.sum = &room->gaps[i];
    for (uint32_t u = from; u < from + size; u++) {
        const bucket *b = &room->buckets[u];
        gg_nk_key key = u << LOW_BITS | 0x80000000u;
        if (b->map) walk_map(&r, b->map, key);
        else if (b->list) walk_list(&r, b->list, b->n, key, map);
    }
    end_run(&r);
    return gg_cancelled(err);
}

/* Adds the gaps of this part to the sums of the positive and the negative values. */
static gg_status add_gaps(measure_room *room, unsigned threads, gap_sum gaps[2], gg_error *err)
{
    for (size_t i = 0; i < GROUPS; i++) room->gaps[i] = (gap_sum){ .mean_gap = gaps[0].mean_gap };
    gg_status st = gg_parallel(GROUPS, threads, walk_group, room, err);
    for (size_t i = 0; i < GROUPS && st == GG_OK; i++)
        join_gaps(&gaps[i >= GROUPS / 2], &room->gaps[i]);
    return st;
}

/* ---- floats ---------------------------------------------------------------------------- */

/* Scans a span, or collects its values. */
static gg_status take_span(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    pass *p = ctx;
    room_part *own = &p->room->parts[worker];
    span_sum *sum = &p->room->sums[i];
    gg_status st = GG_OK;
    *sum = (span_sum){ 0 };
    for (size_t r = 0, n; r < RUNS && st == GG_OK && run_length(p->v, p->first + i, r) > 0; r++) {
        st = read_run(p, p->first + i, r, own->x, &n, err);
        if (st != GG_OK || n == 0) continue;
        if (p->scan) {
            add_span(sum, &(span_sum){ n, GG_PICK(gg_nk_range)(own->x, n), { 0, 0 } });
            GG_PICK(gg_nk_count_buckets)(own->x, n, own->count);
            continue;
        }
        collect_values(p->room, own->x, n);
        if (p->again) continue;
        gg_nk_central c = GG_PICK(gg_nk_central)(own->x, n, p->out->mean);
        sum->central.m2 += c.m2;
        sum->central.m4 += c.m4;
        GG_PICK(gg_nk_histogram)(own->x, n, p->out->min, p->out->max - p->out->min, own->bins);
    }
    return st;
}

/* Reads all values once for each part of the buckets: each time it collects the values of the part,
 * and the first time it also sums the moments and counts the bins. room->count has the numbers of
 * values per bucket, and p->all their range. */
static gg_status measure_set(pass *p, gg_error *err)
{
    gg_measure *out = p->out;
    uint64_t n = p->all.n, bins[GG_DIM_BINS_MAX] = { 0 };
    uint32_t next = 0;
    out->nonfinite = p->v->n - n;
    if (n == 0) return GG_OK;
    double range = set_range(out, &p->all.range, n);
    if (!(range > 0)) return GG_OK;
    double mean = range / (double)(n - 1);
    gap_sum gaps[2] = { { .mean_gap = mean }, { .mean_gap = mean } };
    gg_status st = GG_OK;
    for (p->again = false; st == GG_OK && next_part(p->room, &next); p->again = true) {
        st = run_rounds(p, take_span, false, err);
        if (st == GG_OK) st = add_gaps(p->room, p->threads, gaps, err);
    }
    if (st != GG_OK) return st;
    for (unsigned t = 0; t < p->threads; t++)
        for (size_t b = 0; b < GG_DIM_BINS_MAX; b++) bins[b] += p->room->parts[t].bins[b];
    set_moments(out, n, p->all.central, bins);
    double equal = (double)(n - gaps[0].different - gaps[1].different);
    set_gaps(out, n, gaps_of_both(&gaps[1], &gaps[0]) + equal * mean * mean);
    return GG_OK;
}

static gg_status measure_floats(pass *p, gg_error *err)
{
    p->scan = true;
    gg_status st = run_rounds(p, take_span, true, err);
    p->scan = false;
    for (size_t u = GG_FLOAT_BUCKETS; u < (size_t)GG_BUCKET_TABLES * GG_FLOAT_BUCKETS; u++)
        p->room->count[u % GG_FLOAT_BUCKETS] += p->room->count[u];
    return st == GG_OK ? measure_set(p, err) : st;
}

gg_status gg_measure_big(unsigned threads, const gg_values *v, gg_measure *out, gg_error *err)
{
    pass p = { .v = v, .out = out, .spans = (v->n + SPAN - 1) / SPAN };
    p.threads = threads < MOST_THREADS ? threads : MOST_THREADS;
    if (p.spans < p.threads) p.threads = (unsigned)p.spans;
    if (p.threads == 0) p.threads = 1;
    *out = (gg_measure){ .sampled = v->n };
    p.room = calloc(1, sizeof *p.room + p.threads * sizeof p.room->parts[0]);
    if (p.room) p.room->pool = malloc(POOL_WORDS * sizeof *p.room->pool);
    if (!p.room || !p.room->pool)
        return free(p.room), gg_fail(err, GG_ENOMEM, "no memory to measure");
    gg_status st = v->of_code ? measure_codes(&p, err) : measure_floats(&p, err);
    free(p.room->pool);
    free(p.room);
    return st;
}

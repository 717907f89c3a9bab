/* float_set.c - buckets of floats as bitmaps and lists. */
#include "float_set.h"

#include "base/float_bits.h"
#include "base/grow.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LOW_BITS 19
#define LOWS (1u << LOW_BITS)           /* floats per bucket */
#define MAP_WORDS (LOWS / 64)           /* a bitmap: 64 KiB */
#define LIST_MOST 16384                 /* a bucket with more values has a bitmap */
#define SORTED_MOST 64                  /* a longer list is sorted with a bitmap */
#define KEPT_WORDS ((size_t)28 << 17)   /* of the pool, for bitmaps and lists */
#define BUFFER_WORDS ((size_t)12 << 17) /* for the buffers of all threads, or more */
#define GRAIN 16                        /* buffers are a multiple of this number of values */
#define EDGES 32 /* limits of bins in a bucket; with more, values are counted one by one */
#define LOCKS 64

/* Where the bins begin within a bucket: values whose lower bits are at least edge[i] belong to bin
 * first + (i + 1) * step or a later one. Buckets of negative values step backwards. */
typedef struct bin_edges {
    uint16_t first, edges; /* edges > EDGES: too many */
    int32_t step;
    uint32_t edge[EDGES];
} bin_edges;

/* The buffers of a thread. at[u] is the place of the next value of bucket u in `buffer`, between
 * start[u] and end[u], or 0 if the bucket is not in this part. */
typedef struct adder {
    uint32_t at[GG_FLOAT_BUCKETS], start[GG_FLOAT_BUCKETS], end[GG_FLOAT_BUCKETS];
    uint64_t bins[GG_DIM_BINS_MAX];
    float *buffer;
} adder;

/* What a bucket holds in this part. */
typedef struct bucket {
    uint32_t *list; /* lower bits; NULL if not used */
    uint64_t *map;  /* NULL if not used */
    size_t n;       /* values in the list */
} bucket;

struct gg_float_set {
    uint64_t count[GG_FLOAT_BUCKETS]; /* values per bucket */
    bucket buckets[GG_FLOAT_BUCKETS];
    bin_edges edges[GG_FLOAT_BUCKETS];
    double min, range;
    uint64_t *pool;
    size_t buffer_words; /* of the pool, for all threads */
    uint32_t next;       /* first bucket after this part */
    unsigned threads;
    adder *adders;
    pthread_mutex_t lock[LOCKS]; /* of the buckets u with u % LOCKS */
};

gg_float_set *gg_float_set_new(unsigned threads)
{
    gg_float_set *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    for (size_t i = 0; i < LOCKS; i++) pthread_mutex_init(&s->lock[i], NULL);
    size_t least = (size_t)threads * (GG_FLOAT_BUCKETS + 1) * GRAIN / 2;
    s->buffer_words = least > BUFFER_WORDS ? least : BUFFER_WORDS;
    s->threads = threads;
    s->pool = gg_new_large((KEPT_WORDS + s->buffer_words) * sizeof *s->pool);
    s->adders = malloc(threads * sizeof *s->adders);
    if (s->pool && s->adders) return s;
    gg_float_set_free(s);
    return NULL;
}

void gg_float_set_free(gg_float_set *s)
{
    if (!s) return;
    for (size_t i = 0; i < LOCKS; i++) pthread_mutex_destroy(&s->lock[i]);
    free(s->adders);
    free(s->pool);
    free(s);
}

void gg_float_set_begin(gg_float_set *s, const uint64_t *count, double min, double range)
{
    for (uint32_t u = 0; u < GG_FLOAT_BUCKETS; u++)
        s->count[u] = (u & 0xff0) == 0xff0 ? 0 : count[u];
    s->min = min;
    s->range = range;
    s->next = 0;
    for (unsigned t = 0; t < s->threads; t++)
        memset(s->adders[t].bins, 0, sizeof s->adders[t].bins);
}

/* ---- parts --------------------------------------------------------------------- */

/* The bin of a value, which may be outside of the range. */
static int bin_of(const gg_float_set *s, uint32_t u, uint32_t low)
{
    double x = (double)gg_bits_float(u << LOW_BITS | low);
    double bin = (x - s->min) / s->range * (double)GG_DIM_BINS_MAX;
    return bin < 0 ? 0 : bin >= GG_DIM_BINS_MAX ? GG_DIM_BINS_MAX - 1 : (int)bin;
}

/* The bins ascend or descend within a bucket, so that each limit is found by bisection. */
static void find_edges(const gg_float_set *s, uint32_t u, bin_edges *e)
{
    int first = bin_of(s, u, 0), last = bin_of(s, u, LOWS - 1);
    e->first = (uint16_t)first;
    e->step = last < first ? -1 : 1;
    e->edges = (uint16_t)(e->step * (last - first));
    for (int i = 0; i < e->edges && e->edges <= EDGES; i++) {
        uint32_t lo = 0, hi = LOWS - 1; /* lo is before the limit, hi is not */
        while (hi - lo > 1) {
            uint32_t mid = (lo + hi) / 2;
            if (e->step * (bin_of(s, u, mid) - first) > i) hi = mid;
            else lo = mid;
        }
        e->edge[i] = hi;
    }
}

/* Divides the pool behind the first `used` words: a buffer of a thread has a size in proportion to
 * the number of values in its bucket. `total` values are in the part. */
static void lay_buffers(gg_float_set *s, size_t used, uint64_t total)
{
    /* not 0: there is a thread */
    size_t room = (KEPT_WORDS + s->buffer_words - used) / s->threads * 2,
           share = room - (size_t)(GG_FLOAT_BUCKETS + 1) * GRAIN;
    for (unsigned t = 0; t < s->threads; t++) {
        adder *a = &s->adders[t];
        uint32_t at = GRAIN;
        a->buffer = (float *)(void *)(s->pool + used) + t * room;
        for (uint32_t u = 0; u < GG_FLOAT_BUCKETS; u++) {
            const bucket *b = &s->buckets[u];
            a->at[u] = a->start[u] = a->end[u] = 0;
            if (!b->map && !b->list) continue;
            uint64_t size = (uint64_t)((double)s->count[u] / (double)total * (double)share),
                     most = s->count[u] / GRAIN + 1;
            size = size / GRAIN + 1;
            a->at[u] = a->start[u] = at;
            at += (uint32_t)(size < most ? size : most) * GRAIN;
            a->end[u] = at;
        }
    }
}

bool gg_float_set_next(gg_float_set *s)
{
    size_t used = 0;
    uint32_t from = s->next;
    uint64_t total = 0;
    memset(s->buckets, 0, sizeof s->buckets);
    for (; s->next < GG_FLOAT_BUCKETS; s->next++) {
        uint32_t u = s->next;
        bucket *b = &s->buckets[u];
        bool map = s->count[u] > LIST_MOST;
        size_t words = map ? MAP_WORDS : (size_t)(s->count[u] + 1) / 2;
        if (words == 0) continue;
        if (used + words > KEPT_WORDS) break;
        if (map) b->map = memset(s->pool + used, 0, MAP_WORDS * sizeof *s->pool);
        else b->list = (uint32_t *)(void *)(s->pool + used);
        used += words;
        total += s->count[u];
        find_edges(s, u, &s->edges[u]);
    }
    lay_buffers(s, used, total);
    return from < s->next;
}

/* ---- adding -------------------------------------------------------------------- */

static void count_bins(const gg_float_set *s, uint64_t *bins, uint32_t u, const float *x, size_t n)
{
    const bin_edges *e = &s->edges[u];
    if (e->edges > EDGES) {
        GG_PICK(gg_nk_histogram)(x, n, s->min, s->range, bins);
        return;
    }
    size_t left = n, bin = e->first;
    for (size_t i = 0; i < e->edges && left > 0; i++, bin += (size_t)e->step) {
        size_t above = GG_PICK(gg_nk_count_from)(x, n, u << LOW_BITS | e->edge[i]);
        bins[bin] += left - above;
        left = above;
    }
    bins[bin] += left;
}

#define STEP 2048 /* values that remain in cache while their bins are counted */

/* Moves the values of a buffer to its bucket. */
static void empty(gg_float_set *s, adder *a, uint32_t u)
{
    bucket *b = &s->buckets[u];
    const float *x = a->buffer + a->start[u];
    size_t n = a->at[u] - a->start[u];
    for (size_t i = 0; i < n; i += STEP)
        count_bins(s, a->bins, u, x + i, n - i < STEP ? n - i : STEP);
    pthread_mutex_lock(&s->lock[u % LOCKS]);
    for (size_t i = 0; i < n && b->map; i++) {
        uint32_t low = gg_float_bits(x[i]) & (LOWS - 1);
        b->map[low / 64] |= UINT64_C(1) << (low % 64);
    }
    for (size_t i = 0; i < n && !b->map; i++) b->list[b->n++] = gg_float_bits(x[i]) & (LOWS - 1);
    pthread_mutex_unlock(&s->lock[u % LOCKS]);
    a->at[u] = a->start[u];
}

static void add_value(gg_float_set *s, adder *a, float x)
{
    uint32_t u = GG_FLOAT_BUCKET(gg_float_bits(x)), at = a->at[u];
    if (at == 0) return;
    __builtin_prefetch(a->buffer + at + 16, 1);
    a->buffer[at++] = x;
    a->at[u] = at;
    if (at == a->end[u]) empty(s, a, u);
}

#define WAYS 8

/* Neighbours in a quantized tensor often fall into the same bucket, and then wait for the same
 * counter. Values that are far apart seldom do. */
void gg_float_set_add(gg_float_set *s, unsigned thread, const float *x, size_t n)
{
    adder *a = &s->adders[thread];
    size_t apart = n / WAYS;
    for (size_t i = 0; i < apart; i++)
        for (size_t k = 0; k < WAYS; k++) add_value(s, a, x[k * apart + i]);
    for (size_t i = WAYS * apart; i < n; i++) add_value(s, a, x[i]);
}

void gg_float_set_flush(gg_float_set *s, unsigned thread)
{
    adder *a = &s->adders[thread];
    for (uint32_t u = 0; u < GG_FLOAT_BUCKETS; u++)
        if (a->at[u] != a->start[u]) empty(s, a, u);
}

void gg_float_set_bins(const gg_float_set *s, uint64_t *bins)
{
    for (unsigned t = 0; t < s->threads; t++)
        for (size_t b = 0; b < GG_DIM_BINS_MAX; b++) bins[b] += s->adders[t].bins[b];
}

/* ---- gaps ---------------------------------------------------------------------- */

/* Adds n keys that ascend and are all above those of g. keys[-1] may be overwritten. */
static void add_keys(gg_gap_sum *g, gg_nk_key *keys, size_t n)
{
    if (n == 0) return;
    bool joined = g->different > 0;
    if (joined) keys[-1] = g->last;
    else g->first = keys[0];
    g->sum += GG_PICK(gg_nk_gaps)(joined ? keys - 1 : keys, joined ? n + 1 : n, g->mean_gap);
    g->last = keys[n - 1];
    g->different += n;
}

void gg_gap_sum_join(gg_gap_sum *g, const gg_gap_sum *next)
{
    if (next->different == 0) return;
    gg_nk_key first[2] = { 0, next->first };
    add_keys(g, first + 1, 1);
    g->sum += next->sum;
    g->last = next->last;
    g->different += next->different - 1;
}

double gg_gap_sum_both(const gg_gap_sum *negative, const gg_gap_sum *positive)
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
    gg_gap_sum *sum;
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

void gg_gap_sum_add(gg_gap_sum *g, gg_float_set *s, unsigned thread, uint32_t from, uint32_t to)
{
    uint64_t *map = (uint64_t *)(void *)s->adders[thread].buffer; /* not used any more */
    key_run r;
    r.n = 0;
    r.sum = g;
    for (uint32_t u = from; u < to; u++) {
        const bucket *b = &s->buckets[u];
        gg_nk_key key = u << LOW_BITS | 0x80000000u;
        if (b->map) walk_map(&r, b->map, key);
        else if (b->list) walk_list(&r, b->list, b->n, key, map);
    }
    end_run(&r);
}

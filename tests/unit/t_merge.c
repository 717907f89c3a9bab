/* The arithmetic of merges: borders of magnitudes against a sort, and random choices against their
 * probabilities. */
#include "t.h"

#include "numeric/merge.h"

#include <math.h>

static uint64_t number;

static uint64_t any(void)
{
    return gg_random_bits(42, number++);
}

/* ---- quantiles ------------------------------------------------------------------------- */

typedef struct ranked {
    uint32_t m;
    size_t i;
} ranked;

/* Larger magnitudes first; of equal ones, the first. */
static int order(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->m != y->m) return x->m > y->m ? -1 : 1;
    return x->i < y->i ? -1 : x->i > y->i;
}

/* Finds the borders as a merge does: in pieces, and each pass only if it is needed. */
static unsigned find(gg_quantiles *q, const float *x, size_t n, size_t piece)
{
    unsigned passes = 0;
    for (unsigned pass = 0; pass < 3; pass++) {
        size_t counters = gg_quantiles_counters(q, pass);
        uint64_t from = 0, to = n, *c = calloc(counters + 1, sizeof *c);
        if (!c) exit(1);
        if (counters == 0) {
            free(c);
            continue;
        }
        if (pass == 2) gg_quantiles_range(q, &from, &to);
        if (to > n) to = n;
        for (uint64_t at = from; at < to; at += piece) {
            gg_key_run keys = { 0, x + at, to - at < piece ? (size_t)(to - at) : piece, at };
            gg_quantiles_count(q, pass, &keys, c);
        }
        gg_quantiles_end(q, pass, c);
        free(c);
        passes++;
    }
    return passes;
}

/* `kinds` different magnitudes among n values: few of them make ties. */
static void check_borders(size_t n, uint64_t kinds, size_t keep, size_t drop)
{
    size_t piece = 64;
    float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
    ranked *list = malloc(n * sizeof *list);
    if (!x || !y || !list) exit(1);
    for (size_t i = 0; i < n; i++) {
        uint64_t r = any();
        x[i] = (float)(r % kinds) * 0x1.23456p-9f * (r >> 63 ? -1.0f : 1.0f);
        list[i] = (ranked){ gg_magnitude(x[i]), i };
    }
    qsort(list, n, sizeof *list, order);
    gg_quantile two[2] = { { .wanted = keep + drop }, { .wanted = drop } };
    gg_quantiles q = { .list = two, .n = 2, .streams = 1 };
    q.segment_size = (n / piece / GG_QUANTILE_SEGMENTS + 1) * piece;
    find(&q, x, n, piece);
    memcpy(y, x, n * sizeof *y);
    for (size_t at = 0; at < n; at += piece)
        gg_keep_between(y + at, n - at < piece ? n - at : piece, at, &two[0].cut, &two[1].cut);
    size_t wrong = 0;
    for (size_t r = 0; r < n; r++) {
        size_t i = list[r].i;
        float want = r >= drop && r < keep + drop ? x[i] : 0;
        wrong += y[i] != want;
    }
    T_CHECKF(wrong == 0, "%zu values, %llu kinds, keep %zu after %zu: %zu wrong", n,
             (unsigned long long)kinds, keep, drop, wrong);
    free(x), free(y), free(list);
}

static void borders(void)
{
    static const size_t sizes[] = { 1, 63, 64, 65, 1000, 5000 };
    static const uint64_t kinds[] = { 1, 2, 3, 17, 1000, 1u << 30 };
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            size_t n = sizes[s];
            check_borders(n, kinds[k], n, 0);
            check_borders(n, kinds[k], 0, 0);
            check_borders(n, kinds[k], n / 2, 0);
            check_borders(n, kinds[k], n / 3, n / 5);
            check_borders(n, kinds[k], n - n / 7, n / 7);
        }
}

/* A value at a rank: the last pass is not needed, even for ties. */
static void values(void)
{
    float x[256];
    for (size_t i = 0; i < 256; i++) x[i] = (float)(i / 4);
    gg_quantile one = { .wanted = 256 - 101 }; /* the value 101 of the ascending order */
    gg_quantiles q = {
        .list = &one, .n = 1, .streams = 1, .segment_size = 256, .values_only = true
    };
    T_EQ(find(&q, x, 256, 256), 2u);
    T_EQ(gg_bits_float(one.cut.bits), 25.0f);
}

/* ---- random choices -------------------------------------------------------------------- */

#define MANY 100000

static void ones(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = 1;
}

static double kept(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i] != 0;
    return sum;
}

/* The share of values that are kept, within six standard deviations; and no trace of the order in
 * which the pieces are made. */
static void random_shares(void)
{
    static const double shares[] = { 0, 0.01, 0.3, 0.5, 0.97, 1 };
    static float x[MANY], y[MANY];
    for (size_t k = 0; k < sizeof shares / sizeof shares[0]; k++) {
        double p = shares[k];
        uint64_t key = gg_random_key(7, "blk.0.attn_q.weight", 19, k);
        ones(x, MANY);
        ones(y, MANY);
        gg_random_keep(x, MANY, key, 0, p);
        for (size_t at = MANY - 1000;; at -= 1000) {
            gg_random_keep(y + at, 1000, key, at, p);
            if (at == 0) break;
        }
        T_CHECKF(memcmp(x, y, sizeof x) == 0, "share %g depends on the pieces", p);
        double n = kept(x, MANY), sigma = sqrt(MANY * p * (1 - p));
        T_CHECKF(fabs(n - MANY * p) <= 6 * sigma, "share %g: %g of %d", p, n, MANY);
    }
}

static void random_keys(void)
{
    uint64_t a = gg_random_key(0, "x", 1, 0);
    T_CHECK(a == gg_random_key(0, "x", 1, 0));
    T_CHECK(a != gg_random_key(1, "x", 1, 0));
    T_CHECK(a != gg_random_key(0, "y", 1, 0));
    T_CHECK(a != gg_random_key(0, "x", 1, 1));
    /* the first outputs of SplitMix64 with the seed 0 */
    T_CHECK(gg_random_bits(0, 0) == 0xe220a8397b1dcdafu);
    T_CHECK(gg_random_bits(0, 1) == 0x6e789e6aa1b965f4u);
}

/* Many rows: the value of each rank is kept with its own probability. */
static void random_ranks(void)
{
    enum { ROW = 8, ROWS = 20000 };
    static const float row[ROW] = { 3, -1, 0.5f, -8, 2, 0.25f, 6, -4 };
    static const size_t rank[ROW] = { 4, 2, 1, 7, 3, 0, 6, 5 };
    const double density[2] = { 0.5, 0.3 };
    double count[ROW] = { 0 };
    uint64_t scratch[2 * ROW];
    for (size_t r = 0; r < ROWS; r++) {
        float x[ROW];
        memcpy(x, row, sizeof x);
        gg_random_keep_ranked(x, ROW, 99, r * ROW, density, scratch);
        for (size_t i = 0; i < ROW; i++) count[i] += x[i] != 0;
    }
    for (size_t i = 0; i < ROW; i++) {
        double p = 0.2 + 0.6 * (double)rank[i] / (ROW - 1), sigma = sqrt(ROWS * p * (1 - p));
        T_CHECKF(fabs(count[i] - ROWS * p) <= 6 * sigma, "rank %zu: %g of %d", rank[i], count[i],
                 ROWS);
    }
}

/* ---- sums -------------------------------------------------------------------------------- */

/* Both instruction-set levels against plain formulas. */
static void combinations(void)
{
    enum { N = 301 };
    float a[N], b[N], c[N], out[N];
    float *x[2] = { a, b };
    const double w[2] = { 0.3, -1.7 };
    for (size_t i = 0; i < N; i++) {
        a[i] = (float)(int64_t)any() * 0x1p-63f;
        b[i] = (float)(int64_t)any() * 0x1p-63f;
        c[i] = (float)(int64_t)any() * 0x1p-63f;
    }
    for (int level = 0; level < 2; level++) {
        double gram[3] = { 0 }, want[3] = { 0 };
        size_t wrong = 0;
        gg_isa_set(level);
        GG_PICK(gg_mk_gram)(x, 2, N, gram);
        GG_PICK(gg_mk_combine)(out, c, x, w, 2, N);
        for (size_t i = 0; i < N; i++) {
            wrong += out[i] != (float)((double)c[i] + 0.3 * (double)a[i] + -1.7 * (double)b[i]);
            want[0] += (double)a[i] * a[i];
            want[1] += (double)a[i] * b[i];
            want[2] += (double)b[i] * b[i];
        }
        T_EQ(wrong, (size_t)0);
        for (size_t k = 0; k < 3; k++) T_CHECK(fabs(gram[k] - want[k]) < 1e-9);
    }
}

/* One place: signs that agree, weights that took part, and sums of 0. */
static void signs(void)
{
    float d[3][4] = { { 1, -1, 0, 0 }, { 2, 3, 0, -1 }, { -4, 0, 0, 1 } };
    float base[4] = { 10, 10, 10, 10 }, out[4], *x[3] = { d[0], d[1], d[2] };
    const float w[3] = { 0.5f, 0.25f, 0.5f };
    gg_consensus how = { .w = w, .normalize = true, .scale = 2 };
    GG_PICK(gg_mk_consensus)(out, base, x, 3, 4, &how);
    T_EQ(out[0], 10 + 2 * (-2.0f / 0.5f));  /* 0.5 + 0.5 - 2 < 0: the third alone */
    T_EQ(out[1], 10 + 2 * (0.75f / 0.25f)); /* -0.5 + 0.75 > 0: the second alone */
    T_EQ(out[2], 10.0f);
    T_EQ(out[3], 10 + 2 * (0.5f / 0.5f)); /* -0.25 + 0.5 > 0 */
    how.unweighted = true;
    how.normalize = false;
    GG_PICK(gg_mk_consensus)(out, base, x, 3, 4, &how);
    T_EQ(out[0], 10 + 2 * -2.0f);
    T_EQ(out[3], 10 + 2 * 0.5f); /* -1 + 1 = 0 counts as positive */
}

static const t_case cases[] = {
    { "borders", borders },
    { "values", values },
    { "random_shares", random_shares },
    { "random_keys", random_keys },
    { "random_ranks", random_ranks },
    { "combinations", combinations },
    { "signs", signs },
};

T_MAIN(cases)

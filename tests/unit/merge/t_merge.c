/* The arithmetic of merges: borders of magnitudes against a sort, and random choices against their
 * probabilities. */
#include "t.h"

#include "merge/merge_values.h"
#include "merge/merging.h"
#include "numeric/arc.h"

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
    gg_quantiles_split(&q, n, piece);
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
    gg_quantiles q = { .list = &one, .n = 1, .streams = 1, .values_only = true };
    gg_quantiles_split(&q, 256, 256);
    T_EQ(find(&q, x, 256, 256), 2u);
    T_EQ(gg_bits_float(one.cut.bits), 25.0f);
}

/* ---- random choices -------------------------------------------------------------------- */

#define MANY 100000

static void ones(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = 1;
}

/* The number of bits of a mask of n values, a multiple of 8, that are set. */
static double kept(const uint8_t *mask, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += mask[i / 8] >> i % 8 & 1;
    return sum;
}

/* The share of values that are kept, within six standard deviations; and no trace of the order in
 * which the pieces are made. */
static void random_shares(void)
{
    static const double shares[] = { 0, 0.01, 0.3, 0.5, 0.97, 1 };
    static uint8_t x[MANY / 8], y[MANY / 8];
    for (size_t k = 0; k < sizeof shares / sizeof shares[0]; k++) {
        double p = shares[k];
        uint64_t key = gg_random_key(7, "blk.0.attn_q.weight", 19, k);
        gg_isa_set(1);
        gg_random_mask(x, MANY, key, 0, p);
        gg_isa_set(0);
        for (size_t at = MANY - 1000;; at -= 1000) {
            gg_random_mask(y + at / 8, 1000, key, at, p);
            if (at == 0) break;
        }
        T_CHECKF(memcmp(x, y, sizeof x) == 0, "share %g depends on the pieces", p);
        double n = kept(x, MANY), sigma = sqrt(MANY * p * (1 - p));
        T_CHECKF(fabs(n - MANY * p) <= 6 * sigma, "share %g: %g of %d", p, n, MANY);
    }
}

/* Each bit of a mask follows from its own number, and bits after the last value are 0. */
static void random_masks(void)
{
    uint8_t mask[4] = { 0 };
    for (int level = 0; level < 2; level++)
        for (size_t n = 1; n <= 29; n++) {
            size_t wrong = 0;
            gg_isa_set(level);
            gg_random_mask(mask, n, 11, 5, 0.5);
            for (size_t i = 0; i < (n + 7) / 8 * 8; i++) {
                bool want = i < n && gg_random_bits(11, 5 + i) >> 63 == 0;
                wrong += (mask[i / 8] >> i % 8 & 1) != want;
            }
            T_EQ(wrong, (size_t)0);
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

/* Ranks against a sort: of few and of many values, with equal ones, and with so many far below the
 * largest that they share a bucket. */
static void row_ranks(void)
{
    enum { MOST = 3000 };
    static const size_t sizes[] = { 1, 2, 31, 700, MOST };
    static float x[MOST], y[MOST];
    static ranked r[MOST];
    static uint64_t scratch[2 * MOST];
    const double density[2] = { 0.5, 0.4 };
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        size_t n = sizes[k], wrong = 0;
        for (size_t i = 0; i < n; i++) {
            x[i] = ldexpf((float)(any() % 50 + 1), -(int)(any() % 3 * 40));
            y[i] = x[i] = any() & 1 ? x[i] : -x[i];
            r[i] = (ranked){ gg_magnitude(x[i]), i };
        }
        qsort(r, n, sizeof *r, order);
        gg_random_keep_ranked(y, n, 5, 1000, density, scratch);
        for (size_t i = 0; i < n;
             i++) { /* order() puts the largest first, and of equals the first */
            size_t same = 0, above = i;
            while (above > 0 && r[above - 1].m == r[i].m) above--;
            while (above + same < n && r[above + same].m == r[i].m) same++;
            size_t rank = n - above - same + (i - above);
            double p = n > 1 ? 0.1 + (double)rank * (0.8 / (double)(n - 1)) : 0.5;
            bool keep = (double)(gg_random_bits(5, 1000 + r[i].i) >> 11) < p * 0x1p53;
            wrong += y[r[i].i] != (keep ? x[r[i].i] : 0);
        }
        T_EQ(wrong, (size_t)0);
    }
}

/* A mask gives the values back that were not 0, for any length. */
static void kept_masks(void)
{
    float x[40], y[40];
    uint8_t mask[6];
    for (int level = 0; level < 2; level++)
        for (size_t n = 0; n <= 33; n++) {
            gg_isa_set(level);
            memset(mask, 0xa5, sizeof mask);
            for (size_t i = 0; i < 40; i++) x[i] = any() & 1 ? (float)i + 1 : 0;
            ones(y, 40);
            GG_PICK(gg_mk_pack_mask)(mask, x, n);
            GG_PICK(gg_mk_apply_mask)(y, mask, n);
            size_t wrong = 0;
            for (size_t i = 0; i < 40; i++) wrong += y[i] != (i >= n || x[i] != 0 ? 1 : 0);
            T_EQ(wrong, (size_t)0);
            T_EQ(mask[(n + 7) / 8], 0xa5);
        }
}

/* ---- fusion ------------------------------------------------------------------------------ */

/* The divergence against its formula in double, and the same bits at both levels. Rows of any
 * length, with a value so far below the others that its share is 0. */
static void divergences(void)
{
    enum { MOST = 50 };
    float a[MOST], b[MOST], scratch[2 * MOST];
    for (size_t n = 1; n <= MOST; n++) {
        double p = 0, q = 0, want = 0;
        for (size_t i = 0; i < n; i++) {
            a[i] = (float)(int64_t)any() * 0x1p-62f;
            b[i] = (float)(int64_t)any() * 0x1p-62f;
        }
        if (n > 3) a[n / 2] = -300, b[1] = -90;
        for (size_t i = 0; i < n; i++) p += exp((double)b[i]), q += exp((double)a[i]);
        for (size_t i = 0; i < n; i++) {
            double u = exp((double)b[i]) / p + 1e-8, v = exp((double)a[i]) / q + 1e-8;
            want += u * log(u / v);
        }
        gg_isa_set(0);
        float plain = GG_PICK(gg_mk_divergence)(a, b, n, scratch);
        gg_isa_set(1);
        T_EQ(GG_PICK(gg_mk_divergence)(a, b, n, scratch), plain);
        T_CHECKF(fabs((double)plain - want) < 1e-5 * (1 + fabs(want)), "%zu: %g, %g wanted", n,
                 (double)plain, want);
    }
}

/* ---- sums -------------------------------------------------------------------------------- */

/* Both instruction-set levels against plain formulas, with an even and an odd number of arrays. */
static void combinations(void)
{
    enum { N = 301 };
    float a[N], b[N], c[N], base[N], out[2][N];
    float *x[3] = { a, b, c };
    const double w[3] = { 0.3, -1.7, 0.9 };
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < 4; k++) (k < 3 ? x[k] : base)[i] = (float)(int64_t)any() * 0x1p-63f;
    for (int level = 0; level < 2; level++)
        for (size_t n = 1; n <= 3; n++) {
            double gram[2][6] = { { 0 } }, want[2][6] = { { 0 } };
            size_t wrong = 0;
            gg_isa_set(level);
            GG_PICK(gg_mk_gram)(x, NULL, n, N, gram[0]);
            GG_PICK(gg_mk_gram)(x, base, n, N, gram[1]);
            GG_PICK(gg_mk_combine)(out[0], base, x, w, n, N);
            GG_PICK(gg_mk_combine_from)(out[1], base, x, w, n, N);
            for (size_t i = 0; i < N; i++) {
                double sum[2] = { base[i], base[i] };
                for (size_t k = 0; k < n; k++) {
                    double v[2] = { x[k][i], x[k][i] - base[i] };
                    for (size_t h = 0; h < 2; h++) {
                        sum[h] += w[k] * v[h];
                        for (size_t l = k; l < n; l++)
                            want[h][gg_gram_at(k, l, n)] += v[h] * (h ? (double)(x[l][i] - base[i])
                                                                      : (double)x[l][i]);
                    }
                }
                wrong += out[0][i] != (float)sum[0] || out[1][i] != (float)sum[1];
            }
            T_EQ(wrong, (size_t)0);
            for (size_t k = 0; k < 12; k++)
                T_CHECK(fabs(gram[k / 6][k % 6] - want[k / 6][k % 6]) < 1e-9);
        }
}

/* Norms with and without a mask, and variances, for lengths around those of a tile. */
static void norms(void)
{
    enum { N = 37 };
    float a[N], b[N], out[N], *x[2] = { a, b };
    uint8_t mask[N / 8 + 1];
    for (size_t i = 0; i < N; i++) {
        a[i] = (float)(int64_t)any() * 0x1p-63f;
        b[i] = i % 5 ? (float)(int64_t)any() * 0x1p-63f : a[i];
    }
    for (size_t i = 0; i < sizeof mask; i++) mask[i] = (uint8_t)any();
    for (int level = 0; level < 2; level++)
        for (size_t n = 0; n <= N; n++) {
            double want[4] = { 0 }, got[4] = { 0 };
            size_t wrong = 0, same = 0;
            gg_isa_set(level);
            GG_PICK(gg_mk_variances)(out, x, 2, n);
            for (size_t i = 0; i < n; i++) {
                bool in = mask[i / 8] >> i % 8 & 1;
                double m = fabs((double)a[i]), d = ((double)a[i] - b[i]) / 2;
                want[0] += m, want[1] += in ? m : 0, want[2] += m * m, want[3] += in ? m * m : 0;
                wrong += fabs((double)out[i] - d * d) > 1e-7 * d * d;
                same += d == 0;
            }
            GG_PICK(gg_mk_norms)(a, mask, n, false, got);
            GG_PICK(gg_mk_norms)(a, mask, n, true, got + 2);
            for (size_t k = 0; k < 4; k++) T_CHECK(fabs(got[k] - want[k]) <= 1e-6 * want[k]);
            T_EQ(wrong, (size_t)0);
            T_EQ(GG_PICK(gg_mk_count_nonzero)(out, n), n - same);
        }
}

/* Magnitudes whose sum exceeds float32, and values that 49 models agree on. */
static void extremes(void)
{
    enum { N = 600 };
    static float a[N], b[N], out[N];
    uint8_t mask[N / 8];
    float *equal[49];
    for (size_t k = 0; k < 49; k++) equal[k] = b;
    for (size_t i = 0; i < N; i++) {
        a[i] = i % 2 ? 3e37f : -3e37f;
        b[i] = (float)(int64_t)any() * 0x1p-63f;
    }
    memset(mask, 0xff, sizeof mask);
    for (int level = 0; level < 2; level++) {
        double sums[4] = { 0 };
        gg_isa_set(level);
        GG_PICK(gg_mk_norms)(a, mask, N, false, sums);
        GG_PICK(gg_mk_norms)(a, mask, N, true, sums + 2);
        T_CHECK(fabs(sums[0] / (N * 3e37) - 1) < 1e-6 && sums[1] == sums[0]);
        T_CHECK(fabs(sums[2] / (N * 9e74) - 1) < 1e-6 && sums[3] == sums[2]);
        GG_PICK(gg_mk_variances)(out, equal, 49, N);
        T_EQ(GG_PICK(gg_mk_count_nonzero)(out, N), (size_t)0);
    }
}

/* Changes of one array, of both, and of none. */
static void changes(void)
{
    float a[3] = { 0.5f, -3, 0.1f }, b[3] = { -4, 0.25f, -0.1f }, base[3] = { 1, 1, 1 };
    float out[3], *x[2] = { a, b };
    const float gain[2] = { 2, 3 };
    const gg_changes how = { 0.3f, gain };
    for (int level = 0; level < 2; level++) {
        uint64_t counts[4] = { 0 };
        gg_isa_set(level);
        GG_PICK(gg_mk_count_changes)(x, 2, 3, 0.3f, counts);
        T_EQ(counts[0], 1u), T_EQ(counts[1], 1u);
        T_EQ(counts[2], 1u), T_EQ(counts[3], 0u);
        GG_PICK(gg_mk_add_changes)(out, base, x, 2, 3, &how);
        T_EQ(out[0], 1 + (0.25f - 2));
        T_EQ(out[1], 1 - 6.0f);
        T_EQ(out[2], 1.0f);
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

/* Methods that count nothing have more threads in the same memory. */
static void threads(void)
{
    const gg_merging m = { .method = gg_merge_method_by_name("dare_ties", 9), .n = 8 };
    const gg_run run = { .threads = 12 };
    T_EQ(gg_merge_bounded(&m, 256, &run).threads, 12);
}

static const t_case cases[] = {
    { "borders", borders },
    { "values", values },
    { "random_shares", random_shares },
    { "random_masks", random_masks },
    { "random_keys", random_keys },
    { "random_ranks", random_ranks },
    { "row_ranks", row_ranks },
    { "kept_masks", kept_masks },
    { "divergences", divergences },
    { "combinations", combinations },
    { "norms", norms },
    { "extreme and equal values", extremes },
    { "changes", changes },
    { "signs", signs },
    { "threads", threads },
};

T_MAIN(cases)

/* t_measure.c - measures, scores, sampling, row angle, null model, comparison. */
#include "base/isa.h"
#include "measure/rowtheta.h"
#include "measures.h"
#include "numeric/numeric.h"
#include "organ/gg_quant.h"
#include "quant/kernel/lanes.h"
#include "quant/quant.h"
#include "t.h"

#include <math.h>

#define NEAR(a, b, tolerance) (fabs((a) - (b)) <= (tolerance))

static gg_measure measure(const float *x, size_t n)
{
    gg_measure m;
    char *scratch = malloc(gg_measure_scratch(n) + 1);
    gg_measure_values(x, n, scratch + 1, &m); /* any alignment */
    free(scratch);
    return m;
}

static float *gaussian(size_t n, uint64_t seed)
{
    float *x = malloc((n + 1) * sizeof *x);
    gg_gauss_fill(x, n, seed);
    return x;
}

static bool all_zero(const gg_measure *m)
{
    return m->std == 0 && m->entropy == 0 && m->kurtosis == 0 && m->cv == 0 && m->theta == 0 &&
           m->signal == 0 && m->dimension == 0;
}

static void uniform(void)
{
    enum { N = 102400 };
    float *x = malloc(N * sizeof *x);
    /* shuffled by an odd stride; equidistant, so no gap varies */
    for (size_t i = 0; i < N; i++) x[i] = (float)((i * 77777u) % N);
    gg_measure m = measure(x, N);
    T_CHECK(m.sampled == N && m.nonfinite == 0 && NEAR(m.min, 0, 0) && NEAR(m.max, N - 1, 0));
    T_CHECK(NEAR(m.mean, (N - 1) / 2.0, 1e-6));
    T_CHECK(NEAR(m.std, sqrt(((double)N * N - 1) / 12), 1e-6));
    T_CHECK(NEAR(m.kurtosis, -1.2, 1e-6));
    T_CHECK(NEAR(m.entropy, 1, 1e-6) && NEAR(m.cv, 0, 1e-12) && NEAR(m.dimension, 1, 1e-5));
    T_CHECKF(NEAR(m.theta, 12, 1e-4), "%g", m.theta); /* only k = 0.4 scores */
    T_CHECK(NEAR(m.signal, sin(m.theta * acos(-1.0) / 180), 1e-12));
    free(x);
}

static void gaussian_noise(void)
{
    enum { N = 100000 };
    float *x = gaussian(N, GG_NULL_SEED);
    gg_measure m = measure(x, N);
    T_CHECK(NEAR(m.mean, 0, 0.01) && NEAR(m.std, 1, 0.01) && NEAR(m.kurtosis, 0, 0.05));
    T_CHECK(m.entropy > 0.8 && m.entropy < 0.92 && m.cv > 2 && NEAR(m.dimension, 1, 0.01));
    T_CHECKF(m.theta > 33 && m.theta < 45, "%g", m.theta);
    free(x);
}

/* Everything again from the definitions, in plain loops. */
static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double plain_entropy(const float *x, size_t n, const gg_measure *m, size_t bins)
{
    double count[1024] = { 0 }, h = 0;
    for (size_t i = 0; i < n; i++) {
        size_t b = (size_t)floor(((double)x[i] - m->min) / (m->max - m->min) * (double)bins);
        count[b < bins ? b : bins - 1]++;
    }
    for (size_t b = 0; b < bins; b++)
        if (count[b] > 0) h -= count[b] / (double)n * log2(count[b] / (double)n);
    return h;
}

static double plain_cv(float *x, size_t n)
{
    double sum = 0, sum2 = 0;
    qsort(x, n, sizeof *x, by_value);
    for (size_t i = 0; i + 1 < n; i++) sum += (double)x[i + 1] - (double)x[i];
    double mean = sum / (double)(n - 1);
    for (size_t i = 0; i + 1 < n; i++) {
        double d = (double)x[i + 1] - (double)x[i] - mean;
        sum2 += d * d;
    }
    return sqrt(sum2 / (double)(n - 1)) / mean;
}

static void check_plain(float *x, size_t n)
{
    gg_measure m = measure(x, n);
    double mean = 0, m2 = 0, m4 = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (size_t i = 0; i < n; i++) mean += (double)x[i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        double d = (double)x[i] - mean;
        m2 += d * d / (double)n;
        m4 += d * d * d * d / (double)n;
    }
    for (int k = 4; k <= 10; k++) {
        double y = plain_entropy(x, n, &m, (size_t)1 << k);
        sx += k, sy += y, sxx += k * k, sxy += k * y;
    }
    T_CHECKF(NEAR(m.mean, mean, 1e-9 * sqrt(m2)), "%zu", n);
    T_CHECKF(NEAR(m.std, sqrt(m2), 1e-9 * sqrt(m2)), "%zu", n);
    T_CHECKF(NEAR(m.kurtosis, m4 / (m2 * m2) - 3, 1e-9 * (m4 / (m2 * m2))), "%zu", n);
    T_CHECKF(NEAR(m.entropy, plain_entropy(x, n, &m, 256) / 8, 1e-12), "%zu", n);
    T_CHECKF(NEAR(m.dimension, (7 * sxy - sx * sy) / (7 * sxx - sx * sx), 1e-12), "%zu", n);
    T_CHECKF(NEAR(m.cv, plain_cv(x, n), 1e-9 * (1 + m.cv)), "%zu", n);
}

static void definitions(void)
{
    static const size_t sizes[] = { 2, 3, 7, 8, 9, 255, 256, 257, 1000, 4099, 50000 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i];
        float *x = gaussian(n, n);
        check_plain(x, n);
        gg_gauss_fill(x, n, n + 1);
        for (size_t j = 0; j < n; j++) x[j] = 3.0f + 1e-4f * roundf(x[j] * 4); /* a lattice off 0 */
        x[0] = 2.0f;
        check_plain(x, n);
        free(x);
    }
}

/* So many values that they are sorted by another way; heavy tails, and a NaN. */
static void many(void)
{
    enum { N = (1 << 21) + 5 };
    float *x = gaussian(N, 8);
    for (size_t i = 0; i < N; i += 3) x[i] *= x[i] * x[i] * x[i] * x[i];
    check_plain(x, N);
    gg_gauss_fill(x, N, 9);
    gg_measure m = measure(x, N - 1), bad;
    x[N - 1] = NAN;
    bad = measure(x, N);
    T_CHECK(bad.nonfinite == 1 &&
            memcmp(&bad.mean, &m.mean, sizeof m - offsetof(gg_measure, mean)) == 0);
    free(x);
}

static void few_values(void)
{
    float x[8] = { 2.5f, 2.5f, 2.5f, 2.5f, 2.5f, 2.5f, 2.5f, 2.5f };
    gg_measure m = measure(x, 0);
    T_CHECK(m.sampled == 0 && m.nonfinite == 0 && all_zero(&m));
    T_CHECK(NEAR(m.mean, 0, 0) && NEAR(m.min, 0, 0) && NEAR(m.max, 0, 0));
    m = measure(x, 1);
    T_CHECK(m.sampled == 1 && NEAR(m.mean, 2.5, 0) && NEAR(m.min, 2.5, 0) && NEAR(m.max, 2.5, 0) &&
            all_zero(&m));
    m = measure(x, 8);
    T_CHECK(m.sampled == 8 && NEAR(m.mean, 2.5, 0) && NEAR(m.max, 2.5, 0) && all_zero(&m));
    for (int i = 0; i < 4; i++) x[i] = -1;
    m = measure(x, 8); /* two values: one bit, K = -2, 7 gaps of which 6 are 0 */
    T_CHECK(NEAR(m.entropy, 0.125, 1e-12) && NEAR(m.kurtosis, -2, 1e-12) &&
            NEAR(m.dimension, 0, 1e-12));
    T_CHECK(NEAR(m.cv, sqrt(6), 1e-12) && NEAR(m.mean, 0.75, 1e-12) && NEAR(m.std, 1.75, 1e-12));
    T_CHECK(NEAR(m.theta, 30 * (0.125 / 0.3 + 2.0 / 3 + 1), 1e-9));
    x[0] = x[1] = -3e38f, x[7] = 3e38f;
    m = measure(x, 8);
    T_CHECK(isfinite(m.std) && isfinite(m.kurtosis) && isfinite(m.cv) && isfinite(m.theta));
    x[0] = 1e-45f, x[1] = 0;
    m = measure(x, 2);
    T_CHECK(isfinite(m.std) && isfinite(m.kurtosis) && isfinite(m.cv) && isfinite(m.theta) &&
            m.max > 0);
}

static void nonfinite(void)
{
    enum { N = 1000 };
    float *x = gaussian(N, 9), *y = malloc(N * sizeof *y);
    size_t kept = 0;
    for (size_t i = 0; i < N; i++) {
        if (i % 7 == 0) x[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
        else y[kept++] = x[i];
    }
    gg_measure m = measure(x, N), clean = measure(y, kept);
    T_CHECK(m.sampled == N && m.nonfinite == N - kept);
    m.sampled = clean.sampled, m.nonfinite = clean.nonfinite;
    T_CHECK(memcmp(&m, &clean, sizeof m) == 0);
    for (size_t i = 0; i < 3; i++) { /* a single one, so that the sum is not always NaN */
        y[kept] = i == 0 ? NAN : i == 1 ? INFINITY : -INFINITY;
        m = measure(y, kept + 1);
        T_CHECK(m.nonfinite == 1 && NEAR(m.theta, clean.theta, 0));
    }
    for (size_t i = 0; i < N; i++) x[i] = NAN;
    m = measure(x, N);
    T_CHECK(m.nonfinite == N && NEAR(m.mean, 0, 0) && all_zero(&m));
    free(x), free(y);
}

static void scores(void)
{
    T_CHECK(NEAR(gg_score_entropy(0), 0, 0) && NEAR(gg_score_entropy(0.15), 0.5, 1e-15));
    T_CHECK(NEAR(gg_score_entropy(0.3), 1, 0) && NEAR(gg_score_entropy(0.7), 1, 0));
    T_CHECK(NEAR(gg_score_entropy(0.825), 0.5, 1e-12) && NEAR(gg_score_entropy(0.99), 0, 0));
    T_CHECK(NEAR(gg_score_entropy(0.75), 0.8, 1e-12) && NEAR(gg_score_entropy(0.95), 0, 1e-12));
    T_CHECK(NEAR(gg_score_kurtosis(-1.5), 0.5, 0) && NEAR(gg_score_kurtosis(9), 1, 0));
    T_CHECK(NEAR(gg_score_cv(0.5), 0, 0) && NEAR(gg_score_cv(0.75), 0.5, 0) &&
            NEAR(gg_score_cv(7), 1, 0));
    T_CHECK(NEAR(gg_theta(0.5, 3, 1), 90, 1e-12) && NEAR(gg_theta(0, 0, 0), 0, 0));
}

static void sampling(void)
{
    T_CHECK(gg_sample_count(10, 0) == 10 && gg_sample_count(10, 4) == 4 &&
            gg_sample_count(3, 4) == 3);
    T_CHECK(gg_sample_index(0, 10, 4) == 0 && gg_sample_index(1, 10, 4) == 2 &&
            gg_sample_index(3, 10, 4) == 7);
    uint64_t huge = UINT64_C(1) << 63;
    T_EQ(gg_sample_index(99999, huge, 100000), UINT64_C(9223279803134407260));
    T_CHECK(gg_sample_index(huge - 1, huge, huge) == huge - 1 && gg_sample_index(5, 0, 0) == 0);
}

static void sorting(void)
{
    enum { N = 30011 };
    float *x = gaussian(N, 4), *y = malloc(N * sizeof *y), *tmp = malloc(N * sizeof *tmp);
    for (size_t i = 0; i < N; i += 5) x[i] *= 1e-30f;
    for (size_t i = 0; i < N; i += 11) x[i] = x[i / 2];
    memcpy(y, x, N * sizeof *x);
    t_sort_floats(x, N, tmp);
    qsort(y, N, sizeof *y, by_value);
    T_CHECK(memcmp(x, y, N * sizeof *x) == 0);
    float odd[6] = { NAN, INFINITY, 0.0f, -0.0f, -INFINITY, -1 };
    t_sort_floats(odd, 6, tmp);
    T_CHECK(isinf(odd[0]) && signbit(odd[2]) && !signbit(odd[3]) && isinf(odd[4]) && isnan(odd[5]));
    t_sort_floats(odd, 0, tmp);
    free(x), free(y), free(tmp);
}

static uint32_t key_of(const void *p)
{
    uint32_t u;
    memcpy(&u, p, sizeof u);
    return u >> 31 ? ~u : u | 0x80000000u;
}

static int by_key(const void *a, const void *b)
{
    uint32_t x = key_of(a), y = key_of(b);
    return (x > y) - (x < y);
}

/* Values that were F16 or BF16 are sorted by their upper bits alone. */
static void short_floats(void)
{
    enum { N = 60011 };
    const uint32_t masks[] = { 0xffffe000u, 0xffff0000u, 0xfffff000u };
    float *tmp = malloc(N * sizeof *tmp);
    for (size_t c = 0; c < 9; c++) {
        float *x = gaussian(N, c), *y = malloc(N * sizeof *y);
        for (size_t i = 0; i < N; i++) {
            uint32_t u = key_of(&x[i]);
            u = (u >> 31 ? u & 0x7fffffffu : ~u) & masks[c % 3];
            memcpy(&x[i], &u, sizeof u);
        }
        for (size_t i = 0; c >= 3 && i < N; i += 97) x[i] = i % 2 ? 0.0f : -0.0f;
        x[N / 2] = c < 6 ? -0x1p-24f : 0x1p-126f; /* far from the others */
        memcpy(y, x, N * sizeof *x);
        t_sort_floats(x, N, tmp);
        qsort(y, N, sizeof *y, by_key);
        T_CHECKF(memcmp(x, y, N * sizeof *x) == 0, "case %zu", c);
        free(x), free(y);
    }
    free(tmp);
}

static void fill_case(float *x, size_t n, size_t c)
{
    for (size_t i = 0; i < n; i++) {
        float even = (float)((i * 7919u) % n), sign = i * 31 % 3 ? 1.0f : -1.0f;
        switch (c) {
        case 0: break; /* Gaussian */
        case 1: x[i] = (float)i; break;
        case 2: x[i] = -even; break;
        case 3: x[i] = x[i] < 0 ? -0.0f : 0.0f; break;
        case 4: x[i] = x[i] < 0 ? x[i] - 1e6f : x[i] * 1e-6f; break;
        case 5: x[i] = ldexpf(x[i], (int)(i * 37 % 270) - 145); break; /* from denormal to 1e38 */
        case 6: x[i] = i == n / 3 ? 1e30f : 1 + x[i] * 1e-4f; break;
        case 7:
            x[i] = i % 20 ? sign * (1 + even * 0x1p-23f) : ldexpf(x[i], (int)(i % 250) - 125);
            break;
        case 8: /* one cell has a third of the values */
            x[i] = i % 3 == 0 ? 1 + (float)(i * 7919 % 199) * 0x1p-23f
                              : ldexpf(1 + even / (float)n, (int)(i * 37 % 250) - 125) * sign;
            break;
        default: x[i] = i % 7 ? x[i] : i % 2 ? NAN : -INFINITY;
        }
    }
}

/* The same order as that of qsort, at and around the limits of the sorts. */
static void sorts(void)
{
    const size_t sizes[] = { 2, 95, 96, 97, 4097, 20011 };
    float *x = malloc(20011 * sizeof *x), *y = malloc(20011 * sizeof *y),
          *tmp = malloc(20011 * sizeof *tmp);
    for (size_t c = 0; c < 10; c++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            size_t n = sizes[s];
            gg_gauss_fill(x, n, c);
            fill_case(x, n, c);
            memcpy(y, x, n * sizeof *x);
            gg_isa_set((int)((c + s) % 2));
            t_sort_floats(x, n, tmp);
            qsort(y, n, sizeof *y, by_key);
            T_CHECKF(memcmp(x, y, n * sizeof *x) == 0, "case %zu of %zu values", c, n);
        }
    }
    gg_isa_set(2);
    free(x), free(y), free(tmp);
}

/* Kolmogorov's distance to the normal distribution, and no memory of the last value. */
static void null_model(void)
{
    enum { N = 200000 };
    float *x = gaussian(N, 1), *y = gaussian(N, 1), *tmp = malloc(N * sizeof *tmp);
    double lag = 0, worst = 0;
    T_CHECK(memcmp(x, y, N * sizeof *x) == 0);
    gg_gauss_fill(y, 777, 1);
    T_CHECK(memcmp(x, y, 777 * sizeof *x) == 0);
    gg_gauss_fill(y, 777, 2);
    T_CHECK(memcmp(x, y, 777 * sizeof *x) != 0);
    for (size_t i = 0; i + 1 < N; i++) lag += (double)x[i] * (double)x[i + 1] / N;
    T_CHECKF(fabs(lag) < 4 / sqrt(N), "%g", lag);
    gg_measure m = measure(x, N);
    T_CHECK(fabs(m.mean) < 4 / sqrt(N) && fabs(m.std - 1) < 4 / sqrt(2.0 * N) &&
            fabs(m.kurtosis) < 4 * sqrt(24.0 / N));
    t_sort_floats(x, N, tmp);
    for (size_t i = 0; i < N; i++) {
        double cdf = 0.5 * erfc(-(double)x[i] / sqrt(2)), at = (double)i / N;
        worst = fmax(worst, fmax(fabs(cdf - at), fabs(cdf - at - 1.0 / N)));
    }
    T_CHECKF(worst < 1.63 / sqrt(N), "%g", worst); /* the 1 % level */
    /* pinned: another machine must give these bits */
    gg_gauss_fill(x, 4, GG_NULL_SEED);
    uint32_t bits[4];
    memcpy(bits, x, sizeof bits);
    T_CHECKF(bits[0] == 0x3f65deeeu && bits[3] == 0xbed56ef9u, "%08x %08x", bits[0], bits[3]);
    free(x), free(y), free(tmp);
}

static void row_angle(void)
{
    enum { N = 1003 };
    float *a = gaussian(N, 1), *b = gaussian(N, 2);
    gg_row_theta acc = { 0, 0 };
    T_CHECK(NEAR(gg_row_theta_degrees(&acc), 90, 0));
    T_CHECK(NEAR(t_pearson(a, a, N), 1, 1e-12));
    t_row_theta_add(&acc, a, a, N);
    T_CHECK(NEAR(gg_row_theta_degrees(&acc), 0, 1e-4));
    for (size_t i = 0; i < N; i++) b[i] = 5 - 2 * a[i];
    T_CHECK(NEAR(t_pearson(a, b, N), -1, 1e-9));
    gg_gauss_fill(b, N, 2);
    T_CHECK(fabs(t_pearson(a, b, N)) < 0.13);
    for (size_t i = 0; i < N; i++) b[i] = 0.5f * a[i] + sqrtf(0.75f) * b[i]; /* r near 0.5 */
    gg_row_theta sixty = { 0, 0 };
    t_row_theta_add(&sixty, a, b, N);
    T_CHECK(NEAR(gg_row_theta_degrees(&sixty), 60, 5));
    gg_pair_sums runs = { 0 };
    for (size_t i = 0; i < N; i += 100)
        GG_PICK(gg_pearson_add)(&runs, a + i, b + i, N - i < 100 ? N - i : 100);
    T_CHECK(runs.n == N && NEAR(gg_pearson_of(&runs), t_pearson(a, b, N), 1e-13));
    double r = t_pearson(a, b, N - 1);
    b[N - 1] = NAN;
    T_CHECK(NEAR(t_pearson(a, b, N), r, 1e-12));
    for (size_t i = 0; i < N; i++) b[i] = 0.1f;
    T_CHECK(NEAR(t_pearson(a, b, N), 0, 0) && NEAR(t_pearson(a, a, 1), 0, 0) &&
            NEAR(t_pearson(a, a, 0), 0, 0));
    T_CHECK(gg_row_pairs(0) == 0 && gg_row_pairs(1) == 0 && gg_row_pairs(2) == 1 &&
            gg_row_pairs(1000) == 64);
    T_CHECK(t_row_pair(0, 1000) == 0 && t_row_pair(63, 1000) == 983 && t_row_pair(2, 4) == 2);
    free(a), free(b);
}

static void comparison(void)
{
    enum { N = 1500 };
    float *a = gaussian(N, 1), *b = gaussian(N, 1);
    gg_compare c = GG_COMPARE_INIT, first = GG_COMPARE_INIT, second = GG_COMPARE_INIT,
               none = GG_COMPARE_INIT;
    gg_compare_add(&c, a, b, N);
    gg_compare_result r = gg_compare_finish(&c);
    T_CHECK(r.identical && NEAR(r.cosine, 1, 1e-15) && NEAR(r.rel_l2, 0, 0) &&
            NEAR(r.maxabs, 0, 0) && c.n == N);
    double dot = 0, aa = 0, bb = 0, dd = 0, top = 0;
    for (size_t i = 0; i < N; i++) {
        b[i] += i % 3 ? 0.0f : 0.25f * a[N - 1 - i];
        double x = (double)a[i], y = (double)b[i];
        dot += x * y, aa += x * x, bb += y * y, dd += (x - y) * (x - y),
            top = fmax(top, fabs(x - y));
    }
    gg_compare_add(&first, a, b, 1024);
    gg_compare_add(&second, a + 1024, b + 1024, N - 1024);
    gg_compare_merge(&first, &second);
    r = gg_compare_finish(&first);
    T_CHECK(!r.identical && NEAR(r.cosine, dot / sqrt(aa * bb), 0x1p-20) &&
            NEAR(r.rel_l2, sqrt(dd / aa), 0x1p-20));
    T_CHECK(NEAR(r.maxabs, (double)(float)top, 0) && first.differing == N / 3 &&
            first.nonfinite == 0);
    b[10] = NAN, a[20] = INFINITY;
    gg_compare_add(&none, a, b, 30);
    T_CHECK(none.nonfinite == 2 && none.n == 30 && isfinite(gg_compare_finish(&none).rel_l2));
    float zero[3] = { 0, -0.0f, 0 }, one[3] = { 1, 0, 0 };
    gg_compare z = GG_COMPARE_INIT, zz = GG_COMPARE_INIT, empty = GG_COMPARE_INIT;
    gg_compare_add(&z, zero, one, 3);
    gg_compare_add(&zz, zero, zero, 3);
    r = gg_compare_finish(&z);
    T_CHECK(NEAR(r.cosine, 0, 0) && NEAR(r.rel_l2, 1, 0) && !r.identical);
    r = gg_compare_finish(&zz);
    T_CHECK(NEAR(r.cosine, 1, 0) && NEAR(r.rel_l2, 0, 0) && r.identical);
    T_CHECK(gg_compare_finish(&empty).identical);
    float far[4] = { 0x1p-149f, -3.4028234e38f, 0.1f, 0 },
          near[4] = { 0, 3.4028234e38f, 0.1f, -0x1p-148f };
    for (size_t i = 0; i < 4; i++) { /* neither lost nor overflowing, and not rounded */
        gg_compare x = GG_COMPARE_INIT;
        gg_compare_add(&x, far + i, near + i, 1);
        T_CHECK(NEAR(gg_compare_finish(&x).maxabs, fabs((double)far[i] - (double)near[i]), 0));
    }
    float third[2] = { 1, 3 }, more[2] = { 1 + 0x1p-20f, 3e-9f };
    gg_compare x = GG_COMPARE_INIT;
    gg_compare_add(&x, third, more, 2);
    T_CHECK(NEAR(gg_compare_finish(&x).maxabs, 3 - (double)3e-9f, 0));
    free(a), free(b);
}

/* The sums of runs of every size of values keep the promised error, at each level, and the levels
 * agree. `scale` and `apart` are the magnitudes of the values and of their differences. */
static void comparison_of(double scale, double apart, size_t odd)
{
    enum { N = 1027 };
    float *a = gaussian(N, 1), *b = gaussian(N, 2);
    double dot = 0, both = 0, aa = 0, bb = 0, dd = 0, top = 0;
    uint64_t nonfinite = 0, differing = 0;
    for (size_t i = 0; i < N; i++) {
        a[i] = (float)(a[i] * scale);
        b[i] = i / 256 == 1 ? a[i] : (float)(a[i] + b[i] * apart); /* one run is equal */
        if (i / 256 == 2 && odd == 1) a[i] = b[i] = 0;
        if (i == 900 && odd == 2) a[i] = NAN;
        if (i == 901 && odd == 2) b[i] = -INFINITY;
        double x = (double)a[i], y = (double)b[i];
        differing += memcmp(&a[i], &b[i], sizeof *a) != 0;
        nonfinite += !isfinite(x) || !isfinite(y);
        if (!isfinite(x) || !isfinite(y)) continue;
        dot += x * y, both += fabs(x * y), aa += x * x, bb += y * y, dd += (x - y) * (x - y);
        top = fmax(top, fabs(x - y));
    }
    gg_compare sum[3] = { GG_COMPARE_INIT, GG_COMPARE_INIT, GG_COMPARE_INIT };
    for (int level = 0; level < 3; level++) {
        gg_compare *c = &sum[level];
        gg_isa_set(level);
        gg_compare_add(c, a, b, N);
        T_CHECKF(fabs(c->dot - dot) <= 0x1p-20 * both, "%g %g: dot %g", scale, apart, c->dot - dot);
        T_CHECKF(fabs(c->aa - aa) <= 0x1p-20 * aa, "%g %g: aa %g", scale, apart, c->aa / aa - 1);
        T_CHECKF(fabs(c->bb - bb) <= 0x1p-20 * bb, "%g %g: bb %g", scale, apart, c->bb / bb - 1);
        T_CHECKF(fabs(c->diff2 - dd) <= 0x1p-20 * dd, "%g %g: %g", scale, apart, c->diff2 / dd - 1);
        T_CHECKF(fabs(c->maxabs - top) <= 0x1p-24 * top, "%g %g: %g", scale, apart, c->maxabs);
        T_EQ(c->differing, differing);
        T_EQ(c->nonfinite, nonfinite);
        T_EQ(c->n, N);
    }
    for (int level = 1; level < 3; level++)
        T_CHECKF(memcmp(&sum[0], &sum[level], sizeof *sum) == 0, "%g %g: levels differ", scale,
                 apart);
    free(a), free(b);
}

typedef struct one_block { /* always the same memory, as while decoding */
    const float *of[2];
    float x[2][GG_PAIR_BLOCK];
    size_t end;
} one_block;

static void next_block(void *ctx, size_t at, size_t n, const float *x[2])
{
    one_block *o = ctx;
    T_CHECK(at == o->end && n > 0 && n <= GG_PAIR_BLOCK);
    o->end = at + n;
    for (int k = 0; k < 2; k++) x[k] = memcpy(o->x[k], o->of[k] + at, n * sizeof(float));
}

static void comparison_in_blocks(void)
{
    static one_block o;
    enum { N = 2 * GG_PAIR_BLOCK + 300 };
    float *a = gaussian(N, 3), *b = gaussian(N, 4);
    gg_compare at_once = GG_COMPARE_INIT, blocks = GG_COMPARE_INIT;
    for (size_t i = 0; i < N; i += 2) b[i] = a[i];
    o = (one_block){ .of = { a, b } };
    gg_compare_add(&at_once, a, b, N);
    GG_PICK(gg_compare_read)(&blocks, next_block, &o, N, false);
    T_CHECK(o.end == N && memcmp(&at_once, &blocks, sizeof blocks) == 0);
    T_EQ(blocks.differing, N / 2);
    free(a), free(b);
}

/* Exact products give the same sums, at each level. */
static void comparison_of_halves(void)
{
    static one_block o;
    enum { N = GG_PAIR_BLOCK };
    float *a = gaussian(N, 5), *b = gaussian(N, 6);
    for (size_t i = 0; i < N; i++) {
        a[i] = gg_half_decode(gg_half_encode(a[i] * (float)pow(10, (double)(i % 9) - 6)));
        b[i] = i % 5 ? gg_half_decode(gg_half_encode(b[i])) : a[i];
    }
    gg_compare plain = GG_COMPARE_INIT;
    gg_isa_set(0);
    gg_compare_add(&plain, a, b, N);
    for (int level = 0; level < 3; level++) {
        gg_compare exact = GG_COMPARE_INIT;
        o = (one_block){ .of = { a, b } };
        gg_isa_set(level);
        GG_PICK(gg_compare_read)(&exact, next_block, &o, N, true);
        T_CHECKF(memcmp(&plain, &exact, sizeof plain) == 0, "level %d differs", level);
    }
    free(a), free(b);
}

static void comparison_range(void)
{
    for (int k = -44; k <= 36; k += 4)
        for (int d = -8; d <= 1; d += 3)
            for (size_t odd = 0; odd < 3; odd++)
                comparison_of(pow(10, k), pow(10, k + d) < 3e37 ? pow(10, k + d) : 0, odd);
}

static void levels(void)
{
    enum { N = 5003 };
    float *a = gaussian(N, 1), *b = gaussian(N, 2);
    gg_measure m[3];
    gg_compare c[3] = { GG_COMPARE_INIT, GG_COMPARE_INIT, GG_COMPARE_INIT };
    double r[3];
    a[77] = NAN;
    for (int level = 0; level < 3; level++) {
        gg_isa_set(level);
        m[level] = measure(a, N);
        gg_compare_add(&c[level], a, b, N);
        r[level] = t_pearson(a, b, N);
    }
    for (int level = 1; level < 3; level++) {
        T_CHECK(memcmp(&m[0], &m[level], sizeof m[0]) == 0);
        T_CHECK(memcmp(&c[0], &c[level], sizeof c[0]) == 0);
        T_CHECK(memcmp(&r[0], &r[level], sizeof r[0]) == 0);
    }
    free(a), free(b);
}

static const t_case cases[] = {
    { "uniform", uniform },
    { "Gaussian", gaussian_noise },
    { "against the definitions", definitions },
    { "millions", many },
    { "none, one, equal, two-valued, extreme", few_values },
    { "NaN and infinities are left out", nonfinite },
    { "scores and theta", scores },
    { "sample indices", sampling },
    { "radix sort against qsort", sorting },
    { "values of 16 bits against qsort", short_floats },
    { "sorts of all lengths and distributions", sorts },
    { "null model", null_model },
    { "row angle", row_angle },
    { "comparison", comparison },
    { "comparison in blocks", comparison_in_blocks },
    { "comparison of F16 values", comparison_of_halves },
    { "comparison_range", comparison_range },
    { "same bits on every level", levels },
};

T_MAIN(cases)

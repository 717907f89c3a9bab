/* t_spectral.c - the edge of a matrix against a singular value decomposition. */
#include "base/isa.h"
#include "measure/measure_core.h"
#include "measure/spectral.h"
#include "numeric/matrix.h"
#include "numeric/numeric.h"
#include "svd.h"
#include "t.h"

#include <math.h>

/* Noise of variance 1, plus a common direction of the given strength, in units of the one at
 * which it leaves the noise. */
static float *matrix(size_t m, size_t n, double strength, uint64_t seed)
{
    float *x = malloc(m * n * sizeof *x), *u = malloc((m + n) * sizeof *u), *v = u + m;
    gg_gauss_fill(x, m * n, seed);
    gg_gauss_fill(u, m + n, seed + 1);
    double factor = strength * sqrt(sqrt((double)(m * n))) / sqrt((double)m * (double)n);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            x[i * n + j] += (float)(factor * (double)u[i] * (double)v[j]);
    free(u);
    return x;
}

static double variance(const float *x, size_t n)
{
    double mean = 0, sum = 0;
    for (size_t i = 0; i < n; i++) mean += (double)x[i] / (double)n;
    for (size_t i = 0; i < n; i++) sum += ((double)x[i] - mean) * ((double)x[i] - mean);
    return sum / (double)n;
}

static double exact(const float *x, size_t m, size_t n)
{
    svd d = svd_of(x, m, n);
    double root = sqrt((double)m) + sqrt((double)n);
    double e = d.s[0] * d.s[0] / (variance(x, m * n) * root * root);
    svd_free(&d);
    return e;
}

static double edge_of(float *x, size_t rows, size_t cols, uint64_t of_rows, unsigned threads)
{
    gg_spectral_rows m = { x, rows, cols, of_rows };
    gg_error err = GG_ERROR_INIT;
    double e = -1;
    T_EQ(gg_spectral_edge(&m, threads, &e, &err), GG_OK);
    return e;
}

static void check(float *x, size_t m, size_t n, const char *what)
{
    float *turned = malloc(m * n * sizeof *turned);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) turned[j * m + i] = x[i * n + j];
    double want = exact(x, m, n), tall = edge_of(x, m, n, m, 2), wide = edge_of(turned, n, m, n, 1);
    T_CHECKF(fabs(tall / want - 1) < 0.01, "%s, %zu x %zu: %g, expected %g", what, m, n, tall,
             want);
    T_CHECKF(fabs(wide / want - 1) < 0.01, "%s, %zu x %zu: %g, expected %g", what, n, m, wide,
             want);
    free(turned);
}

static void against_svd(void)
{
    static const size_t shapes[][2] = {
        { 250, 250 }, { 700, 90 }, { 301, 64 }, { 67, 3 }, { 9, 1 }
    };
    static const double strengths[] = { 0, 0.5, 1, 1.1, 1.5, 4, 30 };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (size_t k = 0; k < sizeof strengths / sizeof *strengths; k++) {
            if (s == 0 && k % 3) continue; /* slow */
            float *x = matrix(shapes[s][0], shapes[s][1], strengths[k], 10 * s + k);
            char what[40];
            snprintf(what, sizeof what, "strength %g", strengths[k]);
            check(x, shapes[s][0], shapes[s][1], what);
            free(x);
        }
    }
}

/* Not only noise: equal rows, few values, a mean, decaying columns. */
static void other_matrices(void)
{
    enum { M = 120, N = 70 };
    float *x = matrix(M, N, 0, 3);
    for (size_t i = 0; i < (size_t)M * N; i++) x[i] += 5;
    check(x, M, N, "a mean");
    free(x);
    x = matrix(M, N, 0, 4);
    for (size_t i = 0; i < (size_t)M * N; i++) x[i] *= (float)pow(0.9, (double)(i % N));
    check(x, M, N, "decaying columns");
    for (size_t i = N; i < (size_t)M * N; i++) x[i] = x[i % N];
    check(x, M, N, "equal rows");
    for (size_t i = 0; i < (size_t)M * N; i++) x[i] = i % (N + 1) == 0;
    check(x, M, N, "a diagonal");
    for (size_t i = 0; i < (size_t)M * N; i++) x[i] = (float)(i % 7 == 0) * 1e-30f;
    check(x, M, N, "tiny values");
    for (size_t i = 0; i < (size_t)M * N; i++) x[i] = i % 7 == 0 ? 3e38f : -3e38f;
    check(x, M, N, "huge values");
    free(x);
}

static void degenerate(void)
{
    float zero[6] = { 0 }, same[6] = { 2, 2, 2, 2, 2, 2 }, bad[6] = { 1, NAN, 3, INFINITY, -1, 2 },
          mended[6] = { 1, 0, 3, 0, -1, 2 };
    T_EQ(edge_of(zero, 3, 2, 3, 1), 0.0);
    T_EQ(edge_of(same, 3, 2, 3, 1), 0.0);
    T_EQ(edge_of(bad, 3, 2, 3, 1), edge_of(mended, 3, 2, 3, 1));
    T_EQ(edge_of(zero, 0, 2, 0, 1), 0.0);
}

/* Shuffled values lose their structure; noise that is added reduces it step by step. */
static void structure(void)
{
    enum { M = 500, N = 200 };
    double before = INFINITY;
    for (int percent = 0; percent <= 50; percent += 10) {
        float *x = matrix(M, N, 2, 1), *noise = malloc(sizeof *noise * M * N);
        gg_gauss_fill(noise, (size_t)M * N, 99);
        for (size_t i = 0; i < (size_t)M * N; i++) x[i] += noise[i] * (float)percent / 100;
        double e = edge_of(x, M, N, M, 2);
        T_CHECKF(e < before && e > 1.02, "%d %%: %g, before %g", percent, e, before);
        before = e;
        free(x), free(noise);
    }
    float *x = matrix(M, N, 2, 1);
    uint64_t state = 1;
    for (size_t i = (size_t)M * N - 1; i > 0; i--) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        size_t j = (size_t)(state >> 33) % (i + 1);
        float t = x[i];
        x[i] = x[j];
        x[j] = t;
    }
    double e = edge_of(x, M, N, M, 2);
    T_CHECKF(e > 0.93 && e < 1.02, "shuffled: %g", e);
    free(x);
}

/* Noise converges slowest. 400 steps of the iteration gave the value here. */
static void large(void)
{
    enum { N = 3000 };
    float *x = malloc(sizeof *x * N * N);
    gg_gauss_fill(x, (size_t)N * N, 1);
    double e = edge_of(x, N, N, N, 2);
    T_CHECKF(fabs(e / 1.00006 - 1) < 0.003, "%g", e);
    free(x);
}

/* From a quarter of the rows: noise stays noise, and structure is found with its strength. */
static void estimates(void)
{
    enum { M = 1200, N = 150, PART = 300 };
    static const double strengths[] = { 0, 2, 4, 10 };
    for (size_t k = 0; k < sizeof strengths / sizeof *strengths; k++) {
        float *x = matrix(M, N, strengths[k], 7 + k), *part = malloc(sizeof *part * PART * N);
        for (size_t i = 0; i < PART; i++) memcpy(part + i * N, x + 4 * i * N, N * sizeof *part);
        double want = edge_of(x, M, N, M, 2), got = edge_of(part, PART, N, M, 2);
        T_CHECKF(fabs(got / want - 1) < 0.15, "strength %g: %g from a part, %g from all",
                 strengths[k], got, want);
        free(x), free(part);
    }
}

static void same_bits(void)
{
    double first = 0;
    for (int level = 0; level < 2; level++) {
        for (unsigned threads = 1; threads < 6; threads += 2) {
            float *x = matrix(333, 77, 1.2, 5);
            gg_isa_set(level);
            double e = edge_of(x, 333, 77, 333, threads);
            if (first == 0) first = e;
            T_EQ(e, first);
            free(x);
        }
    }
}

/* ---- reading ------------------------------------------------------------------------------ */

enum { ROWS = 48, COLS = 64, EXPERTS = 4 };

/* The edge of a stack whose values arrive in pieces, with room for so many values. */
static double taken(const gg_tensor *t, const float *x, uint64_t most, uint64_t piece)
{
    edge_taker k;
    gg_error err = GG_ERROR_INIT;
    T_EQ(gg_edge_start(&k, t, most, 1, &err), GG_OK);
    for (uint64_t at = 0; at < t->elements; at += piece) {
        uint64_t n = t->elements - at < piece ? t->elements - at : piece;
        T_EQ(gg_edge_add(&k, (const uint8_t *)(x + at), at, n, &err), GG_OK);
    }
    return gg_edge_end(&k);
}

static void stacks(void)
{
    static const double strengths[EXPERTS] = { 6, 0, 20, 3 };
    size_t n = (size_t)ROWS * COLS;
    float *x = malloc(n * EXPERTS * sizeof *x), *copy = malloc(n * sizeof *copy);
    double edges[EXPERTS];
    for (size_t e = 0; e < EXPERTS; e++) {
        float *m = matrix(ROWS, COLS, strengths[e], 50 + e);
        memcpy(x + e * n, m, n * sizeof *x);
        edges[e] = edge_of(m, ROWS, COLS, ROWS, 1);
        free(m);
    }
    gg_tensor t = { .n_dims = 3, .dims = { COLS, ROWS, EXPERTS, 1 }, .elements = n * EXPERTS };
    T_EQ(taken(&t, x, 1 << 20, 1000), (edges[0] + edges[3]) / 2);
    t.dims[2] = 3, t.elements = 3 * n;
    T_EQ(taken(&t, x, 1 << 20, 77), edges[0]);
    T_EQ(taken(&t, x, 1 << 20, t.elements), edges[0]);
    /* Room for 16 rows: every third row, from the first on. */
    t.n_dims = 2, t.dims[2] = 1, t.elements = n;
    for (size_t i = 0; i < 16; i++) memcpy(copy + i * COLS, x + 3 * i * COLS, COLS * sizeof *x);
    T_EQ(taken(&t, x, 17 * COLS - 1, 100), edge_of(copy, 16, COLS, ROWS, 1));
    T_EQ(gg_edge_values(&t, 17 * COLS - 1), 16u * COLS);
    T_EQ(gg_edge_values(&t, UINT64_MAX), (uint64_t)n);
    free(x), free(copy);
}

static void without_edge(void)
{
    float x[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    gg_tensor t = { .n_dims = 1, .dims = { 8, 1, 1, 1 }, .elements = 8 };
    T_CHECK(isnan(taken(&t, x, 1 << 20, 8)));
    t.n_dims = 2;
    T_CHECK(isnan(taken(&t, x, 1 << 20, 8)));
    t.dims[0] = 2, t.dims[1] = 4;
    T_CHECK(!isnan(taken(&t, x, 1 << 20, 8)));
    T_CHECK(isnan(taken(&t, x, 3, 8))); /* not even two rows fit */
    t.dims[1] = 0, t.elements = 0;
    T_CHECK(isnan(taken(&t, x, 1 << 20, 8)));
    /* A type that was removed. */
    t = (gg_tensor){ .n_dims = 2, .dtype = 4, .dims = { 2, 4, 1, 1 }, .elements = 8 };
    T_EQ(gg_edge_values(&t, 1 << 20), 0u);
    /* The data end early. */
    edge_taker k;
    gg_error err = GG_ERROR_INIT;
    t.dtype = GG_F32;
    T_EQ(gg_edge_start(&k, &t, 1 << 20, 1, &err), GG_OK);
    T_EQ(gg_edge_add(&k, (const uint8_t *)x, 0, 7, &err), GG_OK);
    T_CHECK(isnan(gg_edge_end(&k)));
}

static const t_case cases[] = {
    { "stacks, in pieces of any size", stacks },
    { "tensors without an edge", without_edge },
    { "edges against a singular value decomposition", against_svd },
    { "matrices that are not noise", other_matrices },
    { "a large matrix of noise", large },
    { "zero, constant and non-finite values", degenerate },
    { "structure falls with noise and shuffling", structure },
    { "estimates from a part of the rows", estimates },
    { "same bits for every level and number of threads", same_bits },
};

T_MAIN(cases)

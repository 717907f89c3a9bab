/* t_matmul.c - products of matrices against the definition, and the polar factor against a
 * singular value decomposition. */
#include "base/isa.h"
#include "merge/matmul_bands.h"
#include "merge/polar.h"
#include "numeric/matrix.h"
#include "numeric/numeric.h"
#include "svd.h"
#include "t.h"

#include <math.h>

static float *noise(size_t n, uint64_t seed)
{
    float *x = malloc((n + 1) * sizeof *x);
    if (!x) abort();
    gg_gauss_fill(x, n, seed);
    return x;
}

/* The largest error of c = a b, relative to what rounding allows for k terms. */
static double error_of(const gg_matrix *c, const gg_matrix *a, const gg_matrix *b)
{
    double worst = 0;
    for (size_t i = 0; i < c->rows; i++) {
        for (size_t j = 0; j < c->cols; j++) {
            double sum = 0, size = 1e-30;
            for (size_t p = 0; p < a->cols; p++) {
                double t = (double)a->x[i * a->row_step + p * a->col_step] *
                           (double)b->x[p * b->row_step + j * b->col_step];
                sum += t;
                size += fabs(t);
            }
            worst = fmax(worst, fabs(sum - (double)c->x[i * c->row_step + j]) / size);
        }
    }
    return worst;
}

/* Shapes around the sizes of tiles and blocks, with each factor as it is and transposed. */
static void against_definition(void)
{
    static const size_t shapes[][3] = { { 1, 1, 1 },      { 5, 3, 7 },     { 6, 16, 16 },
                                        { 7, 257, 17 },   { 193, 40, 15 }, { 12, 256, 513 },
                                        { 200, 600, 70 }, { 48, 0, 33 },   { 2, 1000, 3 },
                                        { 385, 31, 520 } };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        size_t m = shapes[s][0], k = shapes[s][1], n = shapes[s][2];
        float *a = noise(m * k, s + 1), *b = noise(k * n, s + 100), *c = noise(m * (n + 3), 9);
        for (int turn = 0; turn < 4; turn++) {
            gg_matrix ma = gg_matrix_of(a, m, k), mb = gg_matrix_of(b, k, n);
            if (turn & 1) ma = (gg_matrix){ a, m, k, 1, m };
            if (turn & 2) mb = (gg_matrix){ b, k, n, 1, k };
            gg_matrix mc = { c, m, n, n + 3, 1 }; /* part of a wider matrix */
            gg_error err = GG_ERROR_INIT;
            float guard = c[n];
            T_EQ(gg_matmul(&mc, &ma, &mb, 3, &err), GG_OK);
            double e = error_of(&mc, &ma, &mb);
            T_CHECKF(e < 2e-6, "%zu x %zu x %zu, turn %d: error %g", m, k, n, turn, e);
            T_EQ(c[n], guard);
        }
        free(a), free(b), free(c);
    }
}

static void same_bits(void)
{
    enum { M = 211, K = 700, N = 333 };
    float *a = noise((size_t)M * K, 1), *b = noise((size_t)K * N, 2), *c[4];
    int i = 0;
    for (int level = 0; level < 2; level++) {
        for (unsigned threads = 1; threads <= 5; threads += 4) {
            gg_error err = GG_ERROR_INIT;
            c[i] = noise((size_t)M * N, 3);
            gg_isa_set(level);
            gg_matrix ma = gg_matrix_of(a, M, K), mb = gg_matrix_of(b, K, N),
                      mc = gg_matrix_of(c[i], M, N);
            T_EQ(gg_matmul(&mc, &ma, &mb, threads, &err), GG_OK);
            T_CHECKF(memcmp(c[i], c[0], sizeof **c * M * N) == 0, "level %d, %u threads", level,
                     threads);
            i++;
        }
    }
    while (i > 0) free(c[--i]);
    free(a), free(b);
}

static void symmetric(void)
{
    enum { M = 300, N = 270 };
    float *x = noise((size_t)M * N, 1), *full = noise((size_t)N * N, 2),
          *half = noise((size_t)N * N, 3);
    gg_matrix mx = gg_matrix_of(x, M, N), tx = gg_matrix_transposed(&mx),
              mf = gg_matrix_of(full, N, N), mh = gg_matrix_of(half, N, N);
    gg_error err = GG_ERROR_INIT;
    for (unsigned threads = 1; threads < 9; threads += 3) {
        T_EQ(gg_matmul(&mf, &tx, &mx, threads, &err), GG_OK);
        T_EQ(gg_matmul_symmetric(&mh, &tx, &mx, threads, &err), GG_OK);
        T_CHECK(memcmp(full, half, sizeof *full * N * N) == 0);
    }
    free(x), free(full), free(half);
}

static void in_place(void)
{
    static const size_t shapes[][2] = {
        { 700, 60 }, { 60, 700 }, { 100, 100 }, { 1, 5 }, { 5, 1 }
    };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        size_t rows = shapes[s][0], cols = shapes[s][1];
        for (int right = 0; right < 2; right++) {
            size_t n = right ? cols : rows;
            float *x = noise(rows * cols, s), *p = noise(n * n, 7), *c = noise(rows * cols, 8);
            gg_matrix mx = gg_matrix_of(x, rows, cols), mp = gg_matrix_of(p, n, n),
                      mc = gg_matrix_of(c, rows, cols);
            gg_error err = GG_ERROR_INIT;
            T_EQ(gg_matmul(&mc, right ? &mx : &mp, right ? &mp : &mx, 1, &err), GG_OK);
            T_EQ(gg_matmul_in_place(&mx, &mp, right != 0, 1 + (unsigned)s, &err), GG_OK);
            T_CHECK(memcmp(x, c, rows * cols * sizeof *x) == 0);
            free(x), free(p), free(c);
        }
    }
}

static void polynomial(void)
{
    static const size_t shapes[][2] = { { 230, 60 }, { 60, 230 }, { 70, 70 }, { 1, 3 } };
    static const double k[3] = { 0.5, -2, 0.25 };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        size_t rows = shapes[s][0], cols = shapes[s][1];
        for (int right = 0; right < 2; right++) {
            size_t n = right ? cols : rows;
            float *x = noise(rows * cols, s), *old = noise(rows * cols, s), *g = noise(n * n, 7),
                  *one = noise(rows * cols, 8), *two = noise(rows * cols, 9);
            gg_matrix mx = gg_matrix_of(x, rows, cols), mo = gg_matrix_of(old, rows, cols),
                      mg = gg_matrix_of(g, n, n), m1 = gg_matrix_of(one, rows, cols),
                      m2 = gg_matrix_of(two, rows, cols);
            gg_error err = GG_ERROR_INIT;
            T_EQ(gg_matmul(&m1, right ? &mo : &mg, right ? &mg : &mo, 1, &err), GG_OK);
            T_EQ(gg_matmul(&m2, right ? &m1 : &mg, right ? &mg : &m1, 1, &err), GG_OK);
            T_EQ(gg_matmul_polynomial(&mx, &mg, k, right != 0, 3, &err), GG_OK);
            double worst = 0;
            for (size_t i = 0; i < rows * cols; i++) {
                double want = k[0] * (double)old[i] + k[1] * (double)one[i] + k[2] * (double)two[i];
                worst = fmax(worst, fabs((double)x[i] - want) / (1 + fabs(want)));
            }
            T_CHECKF(worst < 1e-5, "%zu x %zu, right %d: %g", rows, cols, right, worst);
            free(x), free(old), free(g), free(one), free(two);
        }
    }
}

static void square_norm(void)
{
    enum { N = 130 };
    float *g = noise((size_t)N * N, 4), *square = noise((size_t)N * N, 5);
    gg_matrix mg = gg_matrix_of(g, N, N), ms = gg_matrix_of(square, N, N);
    gg_error err = GG_ERROR_INIT;
    double want = 0, first = 0;
    T_EQ(gg_matmul(&ms, &mg, &mg, 1, &err), GG_OK);
    for (size_t i = 0; i < (size_t)N * N; i++) want += (double)square[i] * (double)square[i];
    for (unsigned threads = 1; threads < 6; threads += 2) {
        double sum = 0;
        T_EQ(gg_matmul_square_norm(&mg, threads, &sum, &err), GG_OK);
        T_CHECKF(fabs(sum / want - 1) < 1e-9, "%g, expected %g", sum, want);
        if (threads == 1) first = sum;
        T_EQ(sum, first);
    }
    free(g), free(square);
}

/* ---- polar factor -------------------------------------------------------------------- */

/* A matrix with given singular values and the polar factor that belongs to it. */
typedef struct known {
    float *x;
    double *polar, sum;
} known;

static known make(size_t m, size_t n, const double *s)
{
    float *random = noise(m * n, m + 3 * n);
    svd d = svd_of(random, m, n);
    known k = { calloc(m * n, sizeof *k.x), calloc(m * n, sizeof *k.polar), 0 };
    for (size_t j = 0; j < n; j++) k.sum += s[j];
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            double x = 0;
            for (size_t r = 0; r < n; r++) {
                double uv = d.u[i * n + r] * d.v[j * n + r];
                x += s[r] * uv;
                k.polar[i * n + j] += s[r] > 0 ? uv : 0;
            }
            k.x[i * n + j] = (float)x;
        }
    }
    svd_free(&d);
    free(random);
    return k;
}

static double distance(const float *x, const double *y, size_t n, double factor)
{
    double diff = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        double want = factor * y[i];
        diff += ((double)x[i] - want) * ((double)x[i] - want);
        size += want * want;
    }
    return sqrt(diff / size);
}

static void transpose(const known *k, size_t m, size_t n, float *x, double *polar)
{
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            x[j * m + i] = k->x[i * n + j];
            polar[j * m + i] = k->polar[i * n + j];
        }
    }
}

/* Compares gg_polar and gg_isotropic, of the matrix and of its transpose, with the truth. */
static void check_known(size_t m, size_t n, const double *s, double tolerance, const char *what)
{
    known k = make(m, n, s);
    float *x = calloc(m * n, sizeof *x);
    double *polar = calloc(m * n, sizeof *polar), mean = k.sum / (double)n, found;
    gg_error err = GG_ERROR_INIT;
    for (int turned = 0; turned < 2; turned++) {
        size_t rows = turned ? n : m, cols = turned ? m : n;
        transpose(&k, m, n, x, polar);
        if (!turned) {
            memcpy(x, k.x, m * n * sizeof *x);
            memcpy(polar, k.polar, m * n * sizeof *polar);
        }
        float *y = malloc(m * n * sizeof *y);
        memcpy(y, x, m * n * sizeof *y);
        T_EQ(gg_polar(x, rows, cols, 2, &err), GG_OK);
        T_EQ(gg_isotropic(y, rows, cols, 2, &found, &err), GG_OK);
        double p = distance(x, polar, m * n, 1), i = distance(y, polar, m * n, mean);
        T_CHECKF(p < tolerance, "%s, turned %d: the polar factor is %g away", what, turned, p);
        T_CHECKF(i < tolerance, "%s, turned %d: iso is %g away", what, turned, i);
        T_CHECKF(fabs(found / mean - 1) < tolerance, "%s: mean %g, expected %g", what, found, mean);
        free(y);
    }
    free(k.x), free(k.polar), free(x), free(polar);
}

static void polar(void)
{
    enum { N = 40 };
    double s[N];
    for (int i = 0; i < N; i++) s[i] = 1 + 0.1 * i;
    check_known(90, N, s, 2e-5, "similar singular values");
    check_known(N, N, s, 2e-5, "a square matrix");
    for (int i = 0; i < N; i++) s[i] = pow(1000, -i / (N - 1.0));
    check_known(90, N, s, 1e-3, "a condition of 1000");
    for (int i = 0; i < N; i++) s[i] *= 1e-30;
    check_known(50, N, s, 1e-3, "tiny values");
    for (int i = 0; i < N; i++) s[i] *= 1e60;
    check_known(50, N, s, 1e-3, "huge values");
    double one = 3;
    check_known(7, 1, &one, 1e-5, "a column");
}

/* Singular values of 0 remain 0, except for the rounding of the matrix itself. The others become 1.
 */
static void rank_deficient(void)
{
    enum { M = 80, N = 30 };
    double s[N] = { 5, 4, 3, 2, 1, 0.5 };
    check_known(M, N, s, 1e-2, "rank 6 of 30");
    float zero[12] = { 0 };
    double mean = 1;
    gg_error err = GG_ERROR_INIT;
    T_EQ(gg_isotropic(zero, 3, 4, 1, &mean, &err), GG_OK);
    T_EQ(mean, 0.0);
    for (int i = 0; i < 12; i++) T_EQ(zero[i], 0.0f);
    T_EQ(gg_polar(zero, 0, 4, 1, &err), GG_OK);
}

/* No singular value of the result exceeds 1, however they were spread. */
static void never_above_one(void)
{
    enum { N = 32 };
    double s[N];
    for (int i = 0; i < N; i++) s[i] = pow(10, -i / 4.0);
    known k = make(50, N, s);
    gg_error err = GG_ERROR_INIT;
    T_EQ(gg_polar(k.x, 50, N, 1, &err), GG_OK);
    svd d = svd_of(k.x, 50, N);
    T_CHECKF(d.s[0] < 1.001, "the largest is %g", d.s[0]);
    T_CHECKF(d.s[12] > 0.999, "that of 1/1000 became %g", d.s[12]);
    T_CHECKF(d.s[N - 1] < 0.1, "the smallest is %g", d.s[N - 1]);
    svd_free(&d);
    free(k.x), free(k.polar);
}

static void polar_bits(void)
{
    enum { M = 150, N = 70 };
    float *first = NULL;
    for (int level = 0; level < 2; level++) {
        for (unsigned threads = 1; threads < 5; threads += 2) {
            gg_error err = GG_ERROR_INIT;
            float *x = noise((size_t)M * N, 5);
            gg_isa_set(level);
            T_EQ(gg_isotropic(x, M, N, threads, NULL, &err), GG_OK);
            if (!first) first = x;
            T_CHECK(memcmp(x, first, sizeof *x * M * N) == 0);
            if (x != first) free(x);
        }
    }
    free(first);
}

static const t_case cases[] = {
    { "products against the definition", against_definition },
    { "same bits for every level and number of threads", same_bits },
    { "symmetric products", symmetric },
    { "products in place", in_place },
    { "polynomials in place", polynomial },
    { "the norm of a square", square_norm },
    { "polar factor against a singular value decomposition", polar },
    { "rank-deficient and zero matrices", rank_deficient },
    { "singular values stay at most 1", never_above_one },
    { "isotropic: same bits for every level and number of threads", polar_bits },
};

T_MAIN(cases)

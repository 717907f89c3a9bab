/* t_regmean.c - Cholesky factors, and the mean of regmean against a plain computation. */
#include "merge/merging.h"
#include "numeric/matrix.h"
#include "numeric/numeric.h"
#include "organ/gg_write.h"
#include "t.h"

#include <math.h>
#include <unistd.h>

/* x' x + 0.1 of `rows` random rows. */
static double *some_gram(const float *x, size_t rows, size_t n, double scale, double diagonal)
{
    double *s = calloc(n * n, sizeof *s);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++)
            for (size_t r = 0; r < rows; r++)
                s[i * n + j] += scale * (double)x[r * n + i] * (double)x[r * n + j];
        s[i * n + i] += diagonal;
    }
    return s;
}

static void factors(void)
{
    static const size_t sizes[] = { 1, 2, 5, 31, 32, 33, 64, 67, 100 };
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        size_t n = sizes[k];
        float *x = malloc(n * n * sizeof *x), *y = malloc(7 * n * sizeof *y),
              *z = malloc(7 * n * sizeof *z);
        gg_gauss_fill(x, n * n, n);
        gg_gauss_fill(y, 7 * n, 3 * n);
        memcpy(z, y, 7 * n * sizeof *y);
        double *s = some_gram(x, n, n, 1.0, 0.1), *l = malloc(n * n * sizeof *l),
               *m = malloc(n * n * sizeof *m), worst = 0, off = 0;
        memcpy(l, s, n * n * sizeof *s);
        memcpy(m, s, n * n * sizeof *s);
        gg_error err = GG_ERROR_INIT;
        T_EQ(gg_cholesky(l, n, 1, &err), GG_OK);
        T_EQ(gg_cholesky(m, n, 3, &err), GG_OK);
        T_CHECK(memcmp(l, m, n * n * sizeof *l) == 0);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j <= i; j++) {
                double v = s[i * n + j];
                for (size_t c = 0; c <= j; c++) v -= l[i * n + c] * l[j * n + c];
                worst = fmax(worst, fabs(v));
            }
        T_CHECKF(worst < 1e-11 * (double)n, "%zu: %g", n, worst);
        T_EQ(gg_cholesky_solve(l, n, y, 7, 2, &err), GG_OK);
        for (size_t r = 0; r < 7; r++)
            for (size_t j = 0; j < n; j++) {
                double v = (double)z[r * n + j];
                for (size_t c = 0; c < n; c++) v -= (double)y[r * n + c] * s[c * n + j];
                off = fmax(off, fabs(v));
            }
        T_CHECKF(off < 2e-4 * (double)n, "%zu: %g", n, off);
        s[n * n - 1] = -1;
        T_EQ(gg_cholesky(s, n, 2, &err), GG_EFORMAT);
        free(x), free(y), free(z), free(s), free(l), free(m);
    }
}

enum { ROWS = 6, COLS = 40, SAMPLES = 25, EXPERTS = 2 };

/* A file of activations with samples of a stack; the second expert of model 1 has none. */
static gg_source *samples(const char *path, float *x, uint64_t model, gg_error *err)
{
    gg_meta meta = GG_META_INIT;
    gg_gauss_fill(x, EXPERTS * SAMPLES * COLS, 5 + model);
    for (size_t i = 0; i < EXPERTS * SAMPLES * COLS; i++)
        x[i] *= model && i >= SAMPLES * COLS ? 0 : 1 + (float)(i % COLS) / 8;
    gg_override one = { .name = "blk.0.ffn_up_exps.weight.sample",
                        .add = true,
                        .dtype = gg_dtype_get(GG_F32),
                        .n_dims = 3,
                        .dims = { COLS, SAMPLES, EXPERTS },
                        .bytes = x,
                        .size = EXPERTS * SAMPLES * COLS * sizeof *x };
    gg_write_options o = { &one, 1, &meta };
    gg_source *s = NULL;
    gg_run run = { .force = true };
    T_EQ(gg_meta_set_str(&meta, "general.architecture", "activations", 11, err), GG_OK);
    T_EQ(gg_write_model(NULL, &o, path, &run, NULL, err), GG_OK);
    T_EQ(gg_source_open(path, &s, err), GG_OK);
    gg_meta_free(&meta);
    return s;
}

/* The weighted sums of the Gram matrices and of the products, by definition, and then elimination.
 */
static void plain_mean(float *const *x, float *const *w, const double *weight, size_t expert,
                       double ridge, double *out)
{
    double s[COLS][COLS] = { { 0 } };
    memset(out, 0, ROWS * COLS * sizeof *out);
    for (size_t k = 0; k < 2; k++) {
        double *g = some_gram(x[k] + expert * SAMPLES * COLS, SAMPLES, COLS, 1, 0), trace = 0;
        for (size_t i = 0; i < COLS; i++) trace += g[i * (COLS + 1)];
        for (size_t i = 0; i < COLS * COLS; i++) {
            g[i] = weight[k] *
                   ((trace > 0 ? g[i] / trace : 0) + (i % (COLS + 1) ? 0 : ridge / COLS));
            s[i / COLS][i % COLS] += g[i];
        }
        for (size_t r = 0; r < ROWS; r++)
            for (size_t j = 0; j < COLS; j++)
                for (size_t c = 0; c < COLS; c++)
                    out[r * COLS + j] += (double)w[k][r * COLS + c] * g[c * COLS + j];
        free(g);
    }
    for (size_t p = 0; p < COLS; p++)
        for (size_t i = 0; i < COLS; i++) {
            if (i == p) continue;
            double f = s[i][p] / s[p][p];
            for (size_t j = 0; j < COLS; j++) s[i][j] -= f * s[p][j];
            for (size_t r = 0; r < ROWS; r++) out[r * COLS + i] -= f * out[r * COLS + p];
        }
    for (size_t i = 0; i < ROWS * COLS; i++) out[i] /= s[i % COLS][i % COLS];
}

static void means(void)
{
    static const double weight[2] = { 1, 0.5 };
    char path[2][64];
    float *x[2], *w[2], *copy[2], *first = NULL;
    gg_source *s[2];
    gg_error err = GG_ERROR_INIT;
    const char name[] = "blk.0.ffn_up_exps.weight";
    gg_tensor stack = { .name = name, .name_len = sizeof name - 1, .n_dims = 3 };
    stack.dims[0] = COLS, stack.dims[1] = ROWS, stack.dims[2] = EXPERTS, stack.dims[3] = 1;
    for (size_t k = 0; k < 2; k++) {
        snprintf(path[k], sizeof path[k], "/tmp/t_regmean.%d.%zu.gguf", (int)getpid(), k);
        x[k] = malloc(EXPERTS * SAMPLES * COLS * sizeof *x[k]);
        w[k] = malloc(ROWS * COLS * sizeof *w[k]);
        copy[k] = malloc(ROWS * COLS * sizeof *w[k]);
        s[k] = samples(path[k], x[k], k, &err);
        gg_gauss_fill(w[k], ROWS * COLS, 77 + k);
    }
    for (unsigned turn = 0; turn < 4; turn++) {
        size_t expert = turn % 2;
        double want[ROWS * COLS], worst = 0;
        gg_regmean r;
        T_EQ(gg_regmean_open(&r, ROWS, COLS, ROWS * COLS, &err), GG_OK);
        for (size_t k = 0; k < 2; k++) {
            gg_regmean_samples from = { { s[k], 0, expert }, weight[k] };
            T_EQ(gg_samples_find(s[k], &stack, COLS, EXPERTS, &from.of.at, &err), GG_OK);
            memcpy(copy[k], w[k], ROWS * COLS * sizeof *w[k]);
            T_EQ(gg_regmean_add(&r, copy[k], &from, 0.05, 1 + turn, &err), GG_OK);
        }
        T_EQ(gg_regmean_solve(&r, 1 + turn, &err), GG_OK);
        plain_mean(x, w, weight, expert, 0.05, want);
        for (size_t i = 0; i < ROWS * COLS; i++)
            worst = fmax(worst, fabs(want[i] - (double)r.sum[i]));
        T_CHECKF(worst < 1e-4, "turn %u: %g", turn, worst);
        if (turn == 0) first = memcpy(malloc(sizeof want), r.sum, ROWS * COLS * sizeof *first);
        if (turn == 2) T_CHECK(memcmp(first, r.sum, ROWS * COLS * sizeof *first) == 0);
        gg_regmean_close(&r);
    }
    /* Samples of another shape, and of no such tensor. */
    size_t at;
    stack.dims[0] = COLS + 1;
    T_EQ(gg_samples_find(s[0], &stack, stack.dims[0], EXPERTS, &at, &err), GG_NO);
    stack.name_len--;
    T_EQ(gg_samples_find(s[0], &stack, stack.dims[0], EXPERTS, &at, &err), GG_OK);
    T_EQ(at, SIZE_MAX);
    for (size_t k = 0; k < 2; k++) {
        gg_source_close(s[k]);
        unlink(path[k]);
        free(x[k]), free(w[k]), free(copy[k]);
    }
    free(first);
}

static const t_case cases[] = {
    { "factors", factors },
    { "means", means },
};

T_MAIN(cases)

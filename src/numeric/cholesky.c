#include "matrix.h"

#include "base/parallel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = 32,
    LINES = 4
}; /* columns that are finished together; rows that are solved together */

typedef double lanes __attribute__((vector_size(32), aligned(8), may_alias));

/* The products of a with LINES rows b, b + step, ... */
static void dot_lines(const double *a, const double *b, size_t step, size_t n, double *out)
{
    lanes sum[LINES] = { { 0 } };
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (size_t k = 0; k < LINES; k++)
            sum[k] += *(const lanes *)(a + i) * *(const lanes *)(b + k * step + i);
    for (size_t k = 0; k < LINES; k++) {
        out[k] = (sum[k][0] + sum[k][2]) + (sum[k][1] + sum[k][3]);
        for (size_t j = i; j < n; j++) out[k] += a[j] * b[k * step + j];
    }
}

typedef struct factoring {
    double *s;
    size_t n, at, width; /* the columns that are being finished */
} factoring;

static size_t least_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Subtracts from one block of rows of these columns what the finished columns explain. */
static gg_status reduce_rows(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    const factoring *f = ctx;
    size_t from = f->at + i * BLOCK, to = least_of(from + BLOCK, f->n);
    double out[LINES];
    (void)worker, (void)err;
    for (size_t r = from; r < to; r++)
        for (size_t c = 0; c < f->width; c += LINES) {
            /* Rows behind the last are not used, but must be there. */
            size_t row = f->at + c + LINES <= f->n ? f->at + c : f->n - LINES;
            dot_lines(f->s + r * f->n, f->s + row * f->n, f->n, f->at, out);
            for (size_t k = row; k < row + LINES && k < f->at + f->width; k++)
                if (k >= f->at + c) f->s[r * f->n + k] -= out[k - row];
        }
    return GG_OK;
}

static gg_status finish_rows(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    const factoring *f = ctx;
    size_t from = f->at + f->width + i * BLOCK, to = least_of(from + BLOCK, f->n);
    (void)worker, (void)err;
    for (size_t r = from; r < to; r++) {
        double *row = f->s + r * f->n + f->at;
        for (size_t c = 0; c < f->width; c++) {
            const double *l = f->s + (f->at + c) * f->n + f->at;
            for (size_t k = 0; k < c; k++) row[c] -= row[k] * l[k];
            row[c] /= l[c];
        }
    }
    return GG_OK;
}

static bool finish_diagonal(const factoring *f)
{
    for (size_t r = 0; r < f->width; r++) {
        double *row = f->s + (f->at + r) * f->n + f->at;
        for (size_t c = 0; c <= r; c++) {
            const double *l = f->s + (f->at + c) * f->n + f->at;
            for (size_t k = 0; k < c; k++) row[c] -= row[k] * l[k];
            if (c < r) row[c] /= l[c];
        }
        if (!(row[r] > 0) || !isfinite(row[r])) return false;
        row[r] = sqrt(row[r]);
    }
    return true;
}

static size_t blocks_of(size_t n)
{
    return (n + BLOCK - 1) / BLOCK;
}

gg_status gg_cholesky(double *s, size_t n, unsigned threads, gg_error *err)
{
    factoring f = { .s = s, .n = n };
    gg_status st = GG_OK;
    bool good = true;
    for (; f.at < n && st == GG_OK && good; f.at += BLOCK) {
        f.width = least_of(BLOCK, n - f.at);
        if (f.at) st = gg_parallel(blocks_of(n - f.at), threads, reduce_rows, &f, err);
        good = st != GG_OK || finish_diagonal(&f);
        if (st == GG_OK && good && f.at + f.width < n)
            st = gg_parallel(blocks_of(n - f.at - f.width), threads, finish_rows, &f, err);
    }
    return good ? st : gg_fail(err, GG_EFORMAT, "the matrix of the equations is singular");
}

typedef struct solving {
    const double *l;
    size_t n, rows;
    float *x;
    double **scratch; /* LINES rows per thread */
} solving;

static gg_status solve_lines(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    const solving *s = ctx;
    size_t n = s->n, from = i * LINES, lines = least_of(LINES, s->rows - from);
    double *y = s->scratch[worker], out[LINES];
    (void)err;
    memset(y, 0, LINES * n * sizeof *y);
    for (size_t k = 0; k < lines; k++)
        for (size_t j = 0; j < n; j++) y[k * n + j] = (double)s->x[(from + k) * n + j];
    for (size_t j = 0; j < n; j++) {
        const double *l = s->l + j * n;
        dot_lines(l, y, n, j, out);
        for (size_t k = 0; k < LINES; k++) y[k * n + j] = (y[k * n + j] - out[k]) / l[j];
    }
    for (size_t j = n; j-- > 0;) {
        const double *l = s->l + j * n;
        for (size_t k = 0; k < LINES; k++) {
            double *row = y + k * n, v = row[j] /= l[j];
            for (size_t c = 0; c < j; c++) row[c] -= v * l[c];
        }
    }
    for (size_t k = 0; k < lines; k++)
        for (size_t j = 0; j < n; j++) s->x[(from + k) * n + j] = (float)y[k * n + j];
    return GG_OK;
}

gg_status gg_cholesky_solve(const double *l, size_t n, float *x, size_t rows, unsigned threads,
                            gg_error *err)
{
    if (threads == 0) threads = gg_thread_count();
    solving s = { l, n, rows, x, calloc(threads, sizeof *s.scratch) };
    bool ok = s.scratch != NULL;
    for (unsigned t = 0; ok && t < threads; t++)
        ok = (s.scratch[t] = malloc(LINES * n * sizeof **s.scratch + 1)) != NULL;
    gg_status st = ok ? gg_parallel((rows + LINES - 1) / LINES, threads, solve_lines, &s, err)
                      : gg_fail(err, GG_ENOMEM, "no memory to solve equations");
    for (unsigned t = 0; s.scratch && t < threads; t++) free(s.scratch[t]);
    free(s.scratch);
    return st;
}

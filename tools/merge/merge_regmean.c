/* merge_regmean.c - the merge of matrices whose outputs are nearest to those of the models on
 * samples of their inputs (Jin et al., "Dataless Knowledge Fusion by Merging Weights of Language
 * Models", 2023): (sum of W_i G_i) (sum of G_i)^-1, with the Gram matrices G_i of the samples
 * scaled to trace 1, and a small multiple of the identity added. With a base, W_i are differences
 * from it, which gives the same result. */
#include "merging.h"

#include "matmul_bands.h"

#include <math.h>
#include <stdlib.h>

void gg_regmean_close(gg_regmean *r)
{
    free(r->sum);
    free(r->grams);
    *r = (gg_regmean){ 0 };
}

gg_status gg_regmean_open(gg_regmean *r, size_t rows, size_t cols, size_t values, gg_error *err)
{
    *r = (gg_regmean){ .rows = rows, .cols = cols };
    bool fits = cols <= SIZE_MAX / sizeof(double) / (cols ? cols : 1);
    r->sum = calloc(values + 1, sizeof *r->sum);
    r->grams = fits ? calloc(cols * cols + 1, sizeof *r->grams) : NULL;
    if (r->sum && r->grams) return GG_OK;
    gg_regmean_close(r);
    return gg_fail(err, GG_ENOMEM, "no memory for a Gram matrix of %zu columns", cols);
}

gg_status gg_regmean_add(gg_regmean *r, float *d, const gg_regmean_samples *from, double ridge,
                         unsigned threads, gg_error *err)
{
    size_t n = r->cols, rows = 0;
    float *x = NULL, *g = malloc(n * n * sizeof *g);
    gg_status st = g ? gg_samples_read(&from->of, &x, &rows, err)
                     : gg_fail(err, GG_ENOMEM, "no memory for a Gram matrix");
    gg_matrix mg = gg_matrix_of(g, n, n), mx = gg_matrix_of(x, rows, n),
              turned = gg_matrix_transposed(&mx);
    if (st == GG_OK) st = gg_matmul_symmetric(&mg, &turned, &mx, threads, err);
    free(x);
    double trace = 0;
    for (size_t i = 0; i < n && st == GG_OK; i++) trace += (double)g[i * n + i];
    if (st == GG_OK && !isfinite(trace)) st = gg_fail(err, GG_EFORMAT, "its samples are too large");
    /* An expert without inputs has the identity alone. */
    double scale = trace > 0 ? from->weight / trace : 0;
    for (size_t i = 0; i < n * n && st == GG_OK; i++) {
        double v = scale * (double)g[i];
        if (i % (n + 1) == 0) v += from->weight * ridge / (double)n;
        g[i] = (float)v;
        r->grams[i] += (double)g[i];
    }
    gg_matrix md = gg_matrix_of(d, r->rows, n);
    if (st == GG_OK) st = gg_matmul_in_place(&md, &mg, true, threads, err);
    for (size_t i = 0; i < r->rows * n && st == GG_OK; i++) r->sum[i] += d[i];
    free(g);
    return st;
}

gg_status gg_regmean_solve(gg_regmean *r, unsigned threads, gg_error *err)
{
    gg_status st = gg_cholesky(r->grams, r->cols, threads, err);
    if (st == GG_EFORMAT) gg_fix(err, "use a larger ridge");
    return st == GG_OK ? gg_cholesky_solve(r->grams, r->cols, r->sum, r->rows, threads, err) : st;
}

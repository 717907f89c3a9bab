/* merge_regmean.c - the merge of matrices whose outputs are nearest to those of the models on
 * samples of their inputs (Jin et al., "Dataless Knowledge Fusion by Merging Weights of Language
 * Models", 2023): (sum of W_i G_i) (sum of G_i)^-1, with the Gram matrices G_i of the samples
 * scaled to trace 1, and a small multiple of the identity added. With a base, W_i are differences
 * from it, which gives the same result. */
#include "merging.h"

#include "base/error.h"
#include "numeric/cholesky.h"
#include "numeric/matmul.h"
#include "numeric/merge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

gg_status gg_regmean_find(gg_source *s, const gg_tensor *stack, const gg_tensor *t, size_t *at,
                          gg_error *err)
{
    char name[GG_RECORD_NAME + 8];
    snprintf(name, sizeof name, "%.*s.sample", (int)stack->name_len, stack->name);
    *at = gg_source_find(s, name, strlen(name));
    if (*at == SIZE_MAX) return GG_OK;
    const gg_tensor *sample = gg_source_tensor(s, *at);
    uint64_t matrices = stack->dims[2] * stack->dims[3];
    if (sample->dims[0] == t->dims[0] && sample->dims[2] * sample->dims[3] == matrices &&
        gg_can_decode(sample->dtype))
        return GG_OK;
    gg_fail(err, GG_NO,
            "its samples have %llu columns of %llu matrices, but the tensor has %llu of %llu",
            (unsigned long long)sample->dims[0],
            (unsigned long long)(sample->dims[2] * sample->dims[3]), (unsigned long long)t->dims[0],
            (unsigned long long)matrices);
    gg_fix(err, "give the activations of this model");
    return gg_at_file(err, gg_source_name(s));
}

/* Reads the samples of one matrix: x, rows x cols. */
static gg_status read_samples(gg_source *s, size_t at, uint64_t matrix, float **x, size_t *rows,
                              gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(s, at);
    size_t n = (size_t)(t->dims[0] * t->dims[1]), bytes = (size_t)gg_encoded_bytes(t->dtype, n);
    uint8_t *raw = malloc(bytes + 1);
    gg_data d;
    *rows = (size_t)t->dims[1];
    *x = malloc(n * sizeof **x + 1);
    gg_status st = raw && *x ? gg_data_open(s, at, &d, err)
                             : gg_fail(err, GG_ENOMEM, "no memory for the samples of a matrix");
    if (st == GG_OK) {
        st = gg_data_read(&d, matrix * bytes, raw, bytes, err);
        gg_data_close(&d);
    }
    if (st == GG_OK) st = gg_decode(t->dtype, raw, *x, n, err);
    if (st == GG_OK && gg_count_bad(*x, n)) {
        gg_fail(err, GG_EFORMAT, "its samples have values that are NaN or infinite");
        st = gg_fix(err, "make the activations again");
    }
    free(raw);
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(s));
}

gg_status gg_regmean_add(gg_regmean *r, float *d, const gg_regmean_samples *from, double ridge,
                         unsigned threads, gg_error *err)
{
    size_t n = r->cols, rows = 0;
    float *x = NULL, *g = malloc(n * n * sizeof *g);
    gg_status st = g ? read_samples(from->source, from->at, from->matrix, &x, &rows, err)
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

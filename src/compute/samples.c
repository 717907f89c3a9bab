#include "samples.h"
#include "compute.h"

#include "base/error.h"
#include "numeric/matrix.h"
#include "numeric/numeric.h"
#include "organ/record.h"
#include "organ/source_layout.h"
#include "quant/quant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RIDGE 0.01 /* multiple of the mean diagonal of the Gram matrix */

gg_status gg_samples_find(gg_source *s, const gg_tensor *of, uint64_t columns, uint64_t matrices,
                          size_t *at, gg_error *err)
{
    char name[GG_RECORD_NAME + 8];
    snprintf(name, sizeof name, "%.*s.sample", (int)of->name_len, of->name);
    *at = gg_source_find(s, name, strlen(name));
    if (*at == SIZE_MAX) return GG_OK;
    const gg_tensor *sample = gg_source_tensor(s, *at);
    uint64_t has = gg_dims_from(sample, 2);
    if (sample->dims[0] == columns && has == matrices && gg_can_decode(sample->dtype)) return GG_OK;
    gg_fail(err, GG_NO,
            "its samples have %llu columns of %llu matrices, but the tensor has %llu of %llu",
            (unsigned long long)sample->dims[0], (unsigned long long)has,
            (unsigned long long)columns, (unsigned long long)matrices);
    gg_fix(err, "give the activations of this model");
    return gg_at_file(err, gg_source_name(s));
}

gg_status gg_samples_read(const gg_samples *s, float **x, size_t *rows, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(s->source, s->at);
    size_t n = (size_t)(t->dims[0] * t->dims[1]);
    *rows = (size_t)t->dims[1];
    *x = malloc(n * sizeof **x + 1);
    gg_status st = *x ? gg_read_values(s->source, s->at, s->matrix * n, n, *x, err)
                      : gg_fail(err, GG_ENOMEM, "no memory for the samples of a matrix");
    if (st == GG_OK && gg_count_bad(*x, n)) {
        gg_fail(err, GG_EFORMAT, "its samples have values that are NaN or infinite");
        st = gg_fix(err, "make the activations again");
    }
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(s->source));
}

/* Solves the equations: `map` has X' X[:,left] and gets the solution. *zero: all samples are 0. */
static gg_status solve_map(float *map, size_t columns, const uint32_t *left, size_t n, bool *zero,
                           gg_error *err)
{
    double *s = malloc(n * n * sizeof *s + 1), trace = 0;
    if (!s) return gg_fail(err, GG_ENOMEM, "no memory for a Gram matrix of %zu columns", n);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) s[i * n + j] = (double)map[left[i] * n + j];
    for (size_t i = 0; i < n; i++) trace += s[i * n + i];
    for (size_t i = 0; i < n; i++) s[i * n + i] += RIDGE * trace / (double)n;
    *zero = !(trace > 0);
    gg_status st = isfinite(trace) ? GG_OK : gg_fail(err, GG_EFORMAT, "its samples are too large");
    if (st == GG_OK && !*zero) st = gg_cholesky(s, n, 1, err);
    if (st == GG_OK && !*zero) st = gg_cholesky_solve(s, n, map, columns, 1, err);
    for (size_t i = 0; i < n * n; i++) map[left[i / n] * n + i % n] = i / n == i % n;
    free(s);
    return st;
}

gg_status gg_samples_map(const gg_samples *s, const uint32_t *left, size_t n, float **map,
                         gg_error *err)
{
    size_t rows = 0, columns = (size_t)gg_source_tensor(s->source, s->at)->dims[0];
    float *x = NULL, *kept = NULL;
    bool zero = false;
    *map = NULL;
    gg_status st = gg_samples_read(s, &x, &rows, err);
    if (st == GG_OK) {
        kept = malloc(rows * n * sizeof *kept + 1);
        *map = malloc(columns * n * sizeof **map + 1);
        if (!kept || !*map) st = gg_fail(err, GG_ENOMEM, "no memory for the samples of a matrix");
    }
    for (size_t i = 0; i < rows * n && st == GG_OK; i++) kept[i] = x[i / n * columns + left[i % n]];
    gg_matrix all = gg_matrix_of(x, rows, columns), turned = gg_matrix_transposed(&all),
              some = gg_matrix_of(kept, rows, n), product = gg_matrix_of(*map, columns, n);
    if (st == GG_OK) st = gg_matmul(&product, &turned, &some, 1, err);
    if (st == GG_OK) st = solve_map(*map, columns, left, n, &zero, err);
    free(x);
    free(kept);
    if (st == GG_OK && !zero) return GG_OK;
    free(*map);
    *map = NULL;
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(s->source));
}

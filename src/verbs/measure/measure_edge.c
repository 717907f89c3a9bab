/* measure_edge.c - rows of matrices, held until their edge is computed. */
#include "measure_edge.h"

#include "base/error.h"
#include "numeric/numeric.h"
#include "numeric/spectral.h"
#include "organ/gg_quant.h"

#include <math.h>
#include <stdlib.h>

/* Number of rows of each matrix that are held. */
static uint64_t rows_held(const gg_tensor *t, uint64_t most)
{
    if (t->n_dims < 2 || t->dims[0] < 1 || t->dims[1] < 2 || t->elements == 0) return 0;
    if (!gg_can_decode(t->dtype) || t->dims[0] > most / 2) return 0;
    uint64_t fit = most / t->dims[0];
    return t->dims[1] < fit ? t->dims[1] : fit;
}

uint64_t gg_edge_values(const gg_tensor *t, uint64_t most)
{
    return rows_held(t, most) * t->dims[0];
}

gg_status gg_edge_start(edge_taker *k, const gg_tensor *t, uint64_t most, unsigned threads,
                        gg_error *err)
{
    *k = (edge_taker){ .dtype = t->dtype, .rows = rows_held(t, most), .threads = threads };
    if (k->rows == 0) return GG_OK;
    k->cols = t->dims[0];
    k->of_rows = t->dims[1];
    k->matrices = t->elements / k->cols / k->of_rows;
    size_t values = (size_t)(k->rows * k->cols);
    k->x = malloc(values * sizeof *k->x);
    k->edges = k->matrices <= SIZE_MAX / sizeof *k->edges
                   ? malloc((size_t)k->matrices * sizeof *k->edges)
                   : NULL;
    if (k->x && k->edges) return GG_OK;
    return gg_fail(err, GG_ENOMEM, "no memory for the %zu values of a matrix", values);
}

static gg_status matrix_done(edge_taker *k, gg_error *err)
{
    gg_spectral_rows m = { k->x, (size_t)k->rows, (size_t)k->cols, k->of_rows };
    gg_status st = gg_spectral_edge(&m, k->threads, &k->edges[k->matrix], err);
    k->matrix++;
    k->row = 0;
    return st;
}

gg_status gg_edge_add(edge_taker *k, const uint8_t *bytes, uint64_t first, uint64_t n,
                      gg_error *err)
{
    const gg_dtype_info *info = gg_dtype_get(k->dtype);
    uint64_t end = first + n, at = first;
    gg_status st = GG_OK;
    while (k->rows && st == GG_OK && k->matrix < k->matrices) {
        uint64_t row = k->matrix * k->of_rows + gg_sample_index(k->row, k->of_rows, k->rows);
        uint64_t from = row * k->cols, to = from + k->cols;
        if (at < from) at = from;
        if (at >= end) break;
        uint64_t got = (to < end ? to : end) - at;
        float *x = k->x + k->row * k->cols + (at - from);
        st = gg_decode(k->dtype, bytes + (at - first) / info->block_elems * info->block_bytes, x,
                       (size_t)got, err);
        at += got;
        if (st != GG_OK || at < to) break;
        if (++k->row == k->rows) st = matrix_done(k, err);
    }
    return st;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double gg_edge_end(edge_taker *k)
{
    double edge = NAN;
    if (k->rows && k->matrix == k->matrices) {
        size_t n = (size_t)k->matrices, half = n / 2;
        qsort(k->edges, n, sizeof *k->edges, ascending);
        edge = n % 2 ? k->edges[half] : (k->edges[half - 1] + k->edges[half]) / 2;
    }
    free(k->x);
    free(k->edges);
    *k = (edge_taker){ 0 };
    return edge;
}

/* measure_extra.c - measures that are computed on request while a tensor is read: edge and
 * importance, and the histograms of the classes. */
#include "measure_core.h"

#include "base/error.h"
#include "base/grow.h"
#include "numeric/matrix.h"
#include "numeric/numeric.h"
#include "organ/gg_quant.h"
#include "spectral.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- edge -------------------------------------------------------------------------- */

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
    /* not 0: it has rows */
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

double gg_edge_end(edge_taker *k)
{
    double edge = NAN;
    if (k->rows && k->matrix == k->matrices) {
        size_t n = (size_t)k->matrices, half = n / 2;
        qsort(k->edges, n, sizeof *k->edges, gg_order_f64);
        edge = n % 2 ? k->edges[half] : (k->edges[half - 1] + k->edges[half]) / 2;
    }
    free(k->x);
    free(k->edges);
    *k = (edge_taker){ 0 };
    return edge;
}

/* ---- importance -------------------------------------------------------------------- */

#define PIECE 1024 /* values decoded at once; a multiple of every block length */

gg_status gg_importance_start(importance_taker *k, const gg_imatrix *imatrix, const gg_tensor *t,
                              bool *any, gg_error *err)
{
    *k = (importance_taker){ .dtype = t->dtype };
    gg_status st = gg_imatrix_read_per_token(imatrix, t, &k->weights, err);
    *any = k->weights.mean2 != NULL;
    return st;
}

gg_status gg_importance_add(importance_taker *k, const uint8_t *bytes, uint64_t first, uint64_t n,
                            gg_error *err)
{
    const gg_dtype_info *info = gg_dtype_get(k->dtype);
    float x[PIECE];
    gg_status st = GG_OK;
    for (uint64_t at = 0; at < n && st == GG_OK; at += PIECE) {
        size_t got = n - at < PIECE ? (size_t)(n - at) : PIECE;
        st = gg_decode(k->dtype, bytes + at / info->block_elems * info->block_bytes, x, got, err);
        if (st == GG_OK) gg_importance_sum(&k->weights, first + at, x, x, got, k->sums);
    }
    return st;
}

double gg_importance_end(importance_taker *k)
{
    double importance = k->weights.mean2 ? k->sums[0] : NAN;
    gg_importance_free(&k->weights);
    *k = (importance_taker){ 0 };
    return importance;
}

/* ---- histograms -------------------------------------------------------------------- */

#define CELLS ((size_t)65536)
#define FINITE ((size_t)0x7f80) /* cells of the finite values of one sign */
#define NEGATIVE ((size_t)0x8000)
#define UNIT 65536.0
#define TAIL 0.001 /* part of the values at each end that may lie beyond the bins */

gg_status gg_histogram_start(measure_histogram *h, gg_error *err)
{
    h->counts = calloc(GG_CLASS_COUNT * CELLS, sizeof *h->counts);
    if (!h->counts) return gg_fail(err, GG_ENOMEM, "no memory for the histograms");
    pthread_mutex_init(&h->lock, NULL);
    return GG_OK;
}

void gg_histogram_add(measure_histogram *h, gg_class cls, const float *values, size_t n,
                      double weight)
{
    if (!h->counts) return;
    uint64_t *counts = h->counts + cls * CELLS, each = (uint64_t)(weight * UNIT + 0.5);
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        counts[bits == 0x80000000u ? 0 : bits >> 16] += each; /* 0 and -0 are the same value */
    }
    pthread_mutex_unlock(&h->lock);
}

/* ---- cells ---------------------------------------------------------------------- */

/* The cells from the lowest to the highest values have the numbers 0 to 2 * FINITE - 1. */
static size_t cell_at(size_t i)
{
    return i < FINITE ? NEGATIVE + FINITE - 1 - i : i - FINITE;
}

/* The edge of the cell that is nearer to 0. */
static double near_edge(size_t cell)
{
    uint32_t bits = (uint32_t)(cell & ~NEGATIVE) << 16;
    float v;
    memcpy(&v, &bits, sizeof v);
    return cell & NEGATIVE ? -(double)v : (double)v;
}

/* The other edge. The last cell ends at 2^128, which no float can hold. */
static double far_edge(size_t cell)
{
    double end = (cell & ~NEGATIVE) + 1 == FINITE ? 0x1p128 : near_edge((cell & ~NEGATIVE) + 1);
    return cell & NEGATIVE ? -end : end;
}

/* ---- bins ----------------------------------------------------------------------- */

/* The range without the tails: its first and its last cell. */
static void find_range(const uint64_t *counts, double total, size_t *from, size_t *to)
{
    double seen = 0;
    *from = *to = 2 * FINITE;
    for (size_t i = 0; i < 2 * FINITE; i++) {
        seen += (double)counts[cell_at(i)];
        if (*from == 2 * FINITE && seen > TAIL * total) *from = i;
        if (seen < (1 - TAIL) * total) continue;
        *to = i;
        return;
    }
}

/* Chooses the smallest power of two as the width with which the bins suffice. */
static void set_bins(gg_histogram *h, size_t from, size_t to)
{
    double a = near_edge(cell_at(from)), b = far_edge(cell_at(from)), low = a < b ? a : b;
    a = near_edge(cell_at(to)), b = far_edge(cell_at(to));
    double high = a > b ? a : b, n;
    int exponent;
    frexp(fabs(low) > fabs(high) ? low : high, &exponent);
    h->width = ldexp(1, exponent - 8 > -133 ? exponent - 8 : -133); /* of the widest cell */
    for (;;) {
        h->first = floor(low / h->width);
        n = ceil(high / h->width) - h->first;
        if (n <= GG_HISTOGRAM_BINS) break;
        h->width *= 2;
    }
    h->n = (size_t)n;
}

static void fill(gg_histogram *h, const uint64_t *counts)
{
    for (size_t i = 0; i < 2 * FINITE; i++) {
        size_t cell = cell_at(i);
        if (counts[cell] == 0) continue;
        double bin = floor(fabs(near_edge(cell)) / h->width), values = (double)counts[cell] / UNIT;
        bin = (cell & NEGATIVE ? -1 - bin : bin) - h->first;
        if (bin < 0) h->below += values;
        else if (bin >= (double)h->n) h->above += values;
        else h->bins[(size_t)bin] += values;
    }
}

void gg_histogram_end(measure_histogram *h, gg_histogram out[GG_CLASS_COUNT])
{
    if (!h->counts) return;
    for (size_t c = 0; c < GG_CLASS_COUNT && out; c++) {
        const uint64_t *counts = h->counts + c * CELLS;
        double total = 0;
        size_t from, to;
        out[c] = (gg_histogram){ 0 };
        for (size_t i = 0; i < 2 * FINITE; i++) total += (double)counts[cell_at(i)];
        if (!(total > 0)) continue;
        find_range(counts, total, &from, &to);
        set_bins(&out[c], from, to);
        fill(&out[c], counts);
    }
    pthread_mutex_destroy(&h->lock);
    free(h->counts);
    h->counts = NULL;
}

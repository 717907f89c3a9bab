#include "measure_histogram.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

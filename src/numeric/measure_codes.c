/* measure_codes.c - measure values of a type of 16 bits by counting its codes. */
#include "measure_parts.h"

#include "base/float_bits.h"

#include <math.h>
#include <string.h>

#define CODES 65536

/* The different finite values in ascending order, and how often each occurs. */
typedef struct level_list {
    float value[CODES];
    uint64_t times[CODES];
    size_t n;
} level_list;

/* Both types have the sign in the top bit and their other bits ascend with the magnitude, so the
 * codes of negative values are taken in reverse. */
static void list_levels(level_list *l, const uint64_t *count, const float *of_code)
{
    l->n = 0;
    for (uint32_t r = 0; r < CODES; r++) {
        uint32_t code = r & 0x8000 ? r ^ 0x8000 : r ^ 0xffff;
        if (count[code] == 0 || !isfinite(of_code[code])) continue;
        l->value[l->n] = of_code[code];
        l->times[l->n++] = count[code];
    }
}

static gg_nk_range range_of(const level_list *l, uint64_t *n)
{
    gg_nk_range r = { 0, 0, 0 };
    *n = 0;
    for (size_t i = 0; i < l->n; i++) {
        *n += l->times[i];
        r.sum += (double)l->times[i] * (double)l->value[i];
    }
    if (l->n) {
        r.min = l->value[0];
        r.max = l->value[l->n - 1];
    }
    return r;
}

void gg_central_add(gg_nk_central *c, double x, double times, double mean)
{
    double d2 = (x - mean) * (x - mean);
    c->m2 += times * d2;
    c->m4 += times * (d2 * d2);
}

size_t gg_measure_bin(double x, double min, double range)
{
    size_t bin = (size_t)((x - min) / range * GG_DIM_BINS_MAX);
    return bin < GG_DIM_BINS_MAX ? bin : GG_DIM_BINS_MAX - 1;
}

void gg_measure_codes(const uint64_t *count, const float *of_code, uint64_t n, gg_measure *out)
{
    level_list l;
    uint64_t finite, bins[GG_DIM_BINS_MAX] = { 0 };
    *out = (gg_measure){ .sampled = n };
    list_levels(&l, count, of_code);
    gg_nk_range r = range_of(&l, &finite);
    out->nonfinite = n - finite;
    if (finite == 0) return;
    double range = gg_measure_set_range(out, &r, finite);
    if (!(range > 0)) return;
    gg_nk_central c = { 0, 0 };
    double mean_gap = range / (double)(finite - 1), squares = 0;
    for (size_t i = 0; i < l.n; i++) {
        double x = (double)l.value[i], times = (double)l.times[i];
        gg_central_add(&c, x, times, out->mean);
        bins[gg_measure_bin(x, out->min, range)] += l.times[i];
        double gap = i ? x - (double)l.value[i - 1] - mean_gap : 0;
        squares += gap * gap + (times - 1) * mean_gap * mean_gap;
    }
    gg_measure_set_moments(out, finite, c, bins);
    gg_measure_set_gaps(out, finite, squares);
}

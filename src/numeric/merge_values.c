/* merge_values.c - weights on the arc, and the random numbers of merges. */
#include "merge.h"

#include "base/float_bits.h"
#include "owntrig.h"

#include <math.h>
#include <string.h>

double gg_cosine(const double gram[3])
{
    double norms = sqrt(gram[0]) * sqrt(gram[2]);
    return norms > 0 ? gram[1] / norms : NAN;
}

bool gg_arc_weights(double cosine, double t, double w[2])
{
    double angle = gg_own_acos(gg_within_one(cosine)), whole = gg_own_sin(angle);
    if (!(whole >= 1e-8)) return false;
    w[0] = gg_own_sin((1 - t) * angle) / whole;
    w[1] = gg_own_sin(t * angle) / whole;
    return true;
}

/* ---- random numbers ---------------------------------------------------------------- */

uint64_t gg_random_key(uint64_t seed, const char *text, size_t len, uint64_t number)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < len; i++) h = (h ^ (uint8_t)text[i]) * 0x100000001b3u;
    return gg_random_bits(gg_random_bits(gg_random_bits(seed, 0) ^ h, 0) ^ number, 0);
}

/* The upper 53 bits of a random number, as a fraction of 2^53, are compared with this. */
static uint64_t below(double p)
{
    return p <= 0 ? 0 : p >= 1 ? (uint64_t)1 << 53 : (uint64_t)(p * 0x1p53);
}

void gg_random_keep(float *x, size_t n, uint64_t key, uint64_t first, double density)
{
    uint64_t limit = below(density);
    for (size_t i = 0; i < n; i++) x[i] = gg_random_bits(key, first + i) >> 11 < limit ? x[i] : 0;
}

/* Sorts entries by their upper 32 bits, keeping the order of equal ones. The result is in a. */
static void sort_entries(uint64_t *a, uint64_t *b, size_t n)
{
    for (unsigned shift = 32; shift < 64; shift += 8) {
        size_t start[257] = { 0 };
        for (size_t i = 0; i < n; i++) start[(a[i] >> shift & 255) + 1]++;
        for (size_t k = 1; k < 257; k++) start[k] += start[k - 1];
        for (size_t i = 0; i < n; i++) b[start[a[i] >> shift & 255]++] = a[i];
        uint64_t *t = a;
        a = b;
        b = t;
    }
}

void gg_random_keep_ranked(float *row, size_t n, uint64_t key, uint64_t first,
                           const double density[2], uint64_t *scratch)
{
    double least = density[0] - density[1], step = n > 1 ? 2 * density[1] / (double)(n - 1) : 0;
    if (n == 1) least = density[0];
    for (size_t i = 0; i < n; i++) scratch[i] = (uint64_t)gg_magnitude(row[i]) << 32 | i;
    sort_entries(scratch, scratch + n, n);
    for (size_t rank = 0; rank < n; rank++) {
        size_t i = scratch[rank] & 0xffffffffu;
        double p = least + (double)rank * step;
        if (gg_random_bits(key, first + i) >> 11 >= below(p)) row[i] = 0;
    }
}

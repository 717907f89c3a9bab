/* merge_random.c - random masks and choices of merges. */
#include "merge_values.h"

#include "base/float_bits.h"
#include "numeric/nkernel.h"
#include "numeric/ownmath.h"

#include <math.h>
#include <string.h>

/* The upper 53 bits of a random number, as a fraction of 2^53, are compared with this. */
static uint64_t below(double p)
{
    return p <= 0 ? 0 : p >= 1 ? (uint64_t)1 << 53 : (uint64_t)(p * 0x1p53);
}

void gg_random_mask(uint8_t *mask, size_t n, uint64_t key, uint64_t first, double density)
{
    GG_PICK(gg_mk_random_mask)(mask, n, key, first, below(density));
}

/* ---- ranks ------------------------------------------------------------------------- */

#define BUCKETS_LEAST ((size_t)1 << 8)
#define BUCKETS_MOST ((size_t)1 << 12)
#define OCTAVES 16 /* magnitudes further below the largest share the first bucket */

/* How magnitudes are put into buckets: steps of equal size in their bits, which are about equal
 * ratios, down from the largest. */
typedef struct buckets {
    size_t n;
    uint32_t low;
    unsigned shift;
} buckets;

static buckets buckets_for(const float *row, size_t n)
{
    buckets k = { .n = BUCKETS_LEAST, .shift = 23 };
    uint32_t most = 0;
    while (k.n < n && k.n < BUCKETS_MOST) k.n *= 2;
    for (size_t each = OCTAVES; each < k.n; each *= 2) k.shift--;
    for (size_t i = 0; i < n; i++) most = gg_magnitude(row[i]) > most ? gg_magnitude(row[i]) : most;
    uint32_t top = most >> k.shift;
    k.low = top >= k.n ? top - (uint32_t)k.n + 1 : 0;
    return k;
}

static inline size_t bucket_of(const buckets *k, uint32_t magnitude)
{
    uint32_t at = magnitude >> k->shift;
    return at > k->low ? at - k->low : 0;
}

/* Entries of a row in ascending order, each with its index in the lower half: in scratch + n. */
static const uint64_t *sort_row(const float *row, size_t n, uint64_t *scratch)
{
    uint32_t end[BUCKETS_MOST] = { 0 }, sum = 0;
    const buckets k = buckets_for(row, n);
    uint64_t *sorted = scratch + n;
    for (size_t i = 0; i < n; i++) end[bucket_of(&k, gg_magnitude(row[i]))]++;
    for (size_t b = 0; b < k.n; b++) {
        uint32_t here = end[b];
        end[b] = sum;
        sum += here;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t m = gg_magnitude(row[i]);
        sorted[end[bucket_of(&k, m)]++] = (uint64_t)m << 32 | i;
    }
    for (size_t b = 0, first = 0; b < k.n; first = end[b++]) {
        size_t here = end[b] - first;
        if (here < 2) continue;
        const uint64_t *done = gg_sort_entries(sorted + first, here, scratch);
        if (done == scratch) memcpy(sorted + first, scratch, here * sizeof *sorted);
    }
    return sorted;
}

void gg_random_keep_ranked(float *row, size_t n, uint64_t key, uint64_t first,
                           const double density[2], uint64_t *scratch)
{
    double least = density[0] - density[1], step = n > 1 ? 2 * density[1] / (double)(n - 1) : 0;
    if (n == 1) least = density[0];
    const uint64_t *sorted = sort_row(row, n, scratch);
    for (size_t rank = 0; rank < n; rank++) {
        size_t i = sorted[rank] & 0xffffffffu;
        uint64_t limit = below(least + (double)rank * step);
        uint32_t keep = (uint32_t) - (gg_random_bits(key, first + i) >> 11 < limit);
        row[i] = gg_bits_float(gg_float_bits(row[i]) & keep);
    }
}

/* sort.c - radix sort of floats by their bits. */
#include "sort.h"

#include "numeric/numeric.h"

#include <math.h>
#include <string.h>

/* Three digits of 11, 11 and 10 bits, the least significant first. */
#define DIGITS 3
#define BITS 11
#define RADIX (1u << BITS)

/* From this number of values on, the keys are first distributed to equal bins of their range, and
 * each bin is sorted in cache. This is faster than three passes over all of memory, and within a
 * bin the top digit is mostly constant, so its pass is skipped. */
#define SPREAD_FROM ((size_t)1 << 21)
#define BINS 4096
#define RUN 512
#define SMALL 96

/* Converts counts to start positions. Returns false if all keys have the same digit, so that the
 * pass can be skipped. */
static bool places(size_t *count, size_t n)
{
    size_t at = 0;
    for (size_t d = 0; d < RADIX; d++) {
        size_t c = count[d];
        if (c == n) return false;
        count[d] = at;
        at += c;
    }
    return true;
}

gg_nk_key *gg_sort_keys(gg_nk_key *keys, size_t n, gg_nk_key *tmp)
{
    size_t count[DIGITS][RADIX] = { { 0 } };
    for (size_t i = 0; i < n; i++) {
        uint32_t k = keys[i];
        count[0][k & (RADIX - 1)]++;
        count[1][k >> BITS & (RADIX - 1)]++;
        count[2][k >> 2 * BITS]++;
    }
    for (int pass = 0; pass < DIGITS; pass++) {
        size_t *at = count[pass];
        unsigned shift = BITS * (unsigned)pass;
        if (!places(at, n)) continue;
        for (size_t i = 0; i < n; i++) tmp[at[keys[i] >> shift & (RADIX - 1)]++] = keys[i];
        gg_nk_key *swap = keys;
        keys = tmp;
        tmp = swap;
    }
    return keys;
}

static void insertion(gg_nk_key *keys, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        uint32_t key = keys[i];
        size_t j = i;
        for (; j > 0 && keys[j - 1] > key; j--) keys[j] = keys[j - 1];
        keys[j] = key;
    }
}

gg_nk_key *gg_sort_few(gg_nk_key *keys, size_t n, gg_nk_key *tmp)
{
    if (n > SMALL) return gg_sort_keys(keys, n, tmp);
    insertion(keys, n);
    return keys;
}

/* Distributes x to BINS bins whose positions are in bins[]. If keys is NULL, it only counts. */
static void spread(const float *x, size_t n, float min, float scale, size_t *bins, gg_nk_key *keys)
{
    int32_t bin[RUN];
    gg_nk_key key[RUN];
    for (size_t i = 0; i < n; i += RUN) {
        size_t run = n - i < RUN ? n - i : RUN;
        GG_PICK(gg_nk_bins)(x + i, run, min, scale, bin);
        if (keys) GG_PICK(gg_nk_keys)(x + i, run, key);
        for (size_t j = 0; j < run && !keys; j++) bins[bin[j]]++;
        for (size_t j = 0; j < run && keys; j++) keys[bins[bin[j]]++] = key[j];
    }
}

gg_nk_key *gg_sort_values(const float *x, size_t n, float min, float max, gg_nk_key *keys,
                          gg_nk_key *tmp)
{
    /* Rounding is monotonic, so the bins are in order. One extra bin takes values rounded up. */
    float scale = (float)(BINS - 2) / (max - min);
    if (n < SPREAD_FROM || !isfinite(scale) || !(scale > 0)) {
        GG_PICK(gg_nk_keys)(x, n, keys);
        return gg_sort_keys(keys, n, tmp);
    }
    size_t bins[BINS] = { 0 }, start = 0;
    spread(x, n, min, scale, bins, NULL);
    for (size_t b = 0; b < BINS; b++) {
        size_t size = bins[b];
        bins[b] = start;
        start += size;
    }
    spread(x, n, min, scale, bins, tmp);
    start = 0;
    for (size_t b = 0; b < BINS; b++) { /* bins[] are end positions now */
        size_t size = bins[b] - start;
        gg_nk_key *from = tmp + start;
        if (size && gg_sort_few(from, size, keys + start) == from)
            memcpy(keys + start, from, size * sizeof *from);
        start = bins[b];
    }
    return keys;
}

void gg_sort_floats(float *values, size_t n, float *tmp)
{
    gg_nk_key *keys = (gg_nk_key *)(void *)values, *other = (gg_nk_key *)(void *)tmp;
    GG_PICK(gg_nk_keys)(values, n, keys);
    gg_nk_key *sorted = gg_sort_keys(keys, n, other);
    GG_PICK(gg_nk_unkeys)(sorted, n, values);
}

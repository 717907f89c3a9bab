/* sort.c - radix sort of floats by their bits. */
#include "sort.h"

#include "numeric/numeric.h"

#include <string.h>

/* Three digits of 11, 11 and 10 bits, the least significant first. */
#define DIGITS 3
#define BITS 11
#define RADIX (1u << BITS)

#define SMALL 96 /* up to this number of keys insertion sort is faster */

/* Converts counts to start positions. Returns false if all keys have the same digit, so that the
 * pass can be skipped. */
static bool places(uint32_t *count, size_t n)
{
    uint32_t at = 0;
    for (size_t d = 0; d < RADIX; d++) {
        uint32_t c = count[d];
        if (c == n) return false;
        count[d] = at;
        at += c;
    }
    return true;
}

/* Values that were F16 or BF16 end with zeros, and the keys of negative ones with ones. The sign is
 * in a later digit, so the first need not be sorted. */
static int first_digit(const gg_nk_key *keys, size_t n)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < n; i++) bits |= keys[i] ^ ((keys[i] >> 31) - 1);
    return (bits & (RADIX - 1)) == 0;
}

gg_nk_key *gg_sort_keys(gg_nk_key *keys, size_t n, gg_nk_key *tmp)
{
    uint32_t count[DIGITS][RADIX] = { { 0 } };
    int first = first_digit(keys, n);
    for (size_t i = 0; i < n; i++) {
        uint32_t k = keys[i];
        if (first == 0) count[0][k & (RADIX - 1)]++;
        count[1][k >> BITS & (RADIX - 1)]++;
        count[2][k >> 2 * BITS]++;
    }
    for (int pass = first; pass < DIGITS; pass++) {
        uint32_t *at = count[pass];
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

void gg_sort_floats(float *values, size_t n, float *tmp)
{
    gg_nk_key *keys = (gg_nk_key *)(void *)values, *other = (gg_nk_key *)(void *)tmp;
    GG_PICK(gg_nk_keys)(values, n, keys);
    gg_nk_key *sorted = gg_sort_keys(keys, n, other);
    GG_PICK(gg_nk_unkeys)(sorted, n, values);
}

/* sort.c - radix sort of floats by their bits. */
#include "sort.h"

#include <string.h>

/* Three passes over 32 bits, least significant digit first. */
#define DIGITS 3
#define RADIX 2048u
static const unsigned shift_of[DIGITS] = { 0, 11, 22 };

static void count_digits(const nk_key *keys, size_t n, size_t count[DIGITS][RADIX])
{
    memset(count, 0, DIGITS * sizeof count[0]);
    for (size_t i = 0; i < n; i++) {
        uint32_t k = keys[i];
        count[0][k & (RADIX - 1)]++;
        count[1][k >> 11 & (RADIX - 1)]++;
        count[2][k >> 22]++;
    }
}

/* Counts to places. False if one digit holds all: the pass would move nothing. */
static int places(size_t *count, size_t n)
{
    size_t at = 0;
    for (size_t d = 0; d < RADIX; d++) {
        size_t c = count[d];
        if (c == n) return 0;
        count[d] = at;
        at += c;
    }
    return 1;
}

nk_key *gg_sort_keys(nk_key *keys, size_t n, nk_key *tmp)
{
    size_t count[DIGITS][RADIX];
    if (n < 2) return keys;
    count_digits(keys, n, count);
    for (int pass = 0; pass < DIGITS; pass++) {
        size_t *at = count[pass];
        unsigned shift = shift_of[pass];
        if (!places(at, n)) continue;
        for (size_t i = 0; i < n; i++) tmp[at[keys[i] >> shift & (RADIX - 1)]++] = keys[i];
        nk_key *swap = keys;
        keys = tmp;
        tmp = swap;
    }
    return keys;
}

nk_key *gg_sort_few(nk_key *keys, size_t n, nk_key *tmp)
{
    if (n > 96) return gg_sort_keys(keys, n, tmp);
    for (size_t i = 1; i < n; i++) {
        uint32_t key = keys[i];
        size_t j = i;
        for (; j > 0 && keys[j - 1] > key; j--) keys[j] = keys[j - 1];
        keys[j] = key;
    }
    return keys;
}

void gg_sort_floats(float *values, size_t n, float *tmp)
{
    nk_key *keys = (nk_key *)(void *)values, *other = (nk_key *)(void *)tmp;
    GG_PICK(nk_keys)(values, n, keys);
    nk_key *sorted = gg_sort_keys(keys, n, other);
    GG_PICK(nk_unkeys)(sorted, n, values);
}

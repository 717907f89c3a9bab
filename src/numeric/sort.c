/* sort.c - radix sort of floats and entries by their bits. */
#include "nkernel.h"

#include "numeric.h"

#include <string.h>

/* The sorts are inlined once for keys of 32 bits, and once for entries of 64 bits with the key in
 * the upper half. Three digits of 11, 11 and 10 bits, the least significant first. */
#define DIGITS 3
#define BITS 11
#define RADIX (1u << BITS)

#define INLINE static inline __attribute__((always_inline))

INLINE uint64_t get(const void *keys, size_t i, bool wide)
{
    return wide ? ((const uint64_t *)keys)[i] : ((const gg_nk_key *)keys)[i];
}

INLINE void set(void *keys, size_t i, uint64_t key, bool wide)
{
    if (wide) ((uint64_t *)keys)[i] = key;
    else ((gg_nk_key *)keys)[i] = (gg_nk_key)key;
}

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

/* Sorts by the digits from `first` on. Returns the array with the result. */
INLINE void *radix(void *keys, size_t n, void *tmp, int first, bool wide)
{
    uint32_t count[DIGITS][RADIX] = { { 0 } };
    for (size_t i = 0; i < n; i++) {
        uint32_t k = (uint32_t)(get(keys, i, wide) >> (wide ? 32 : 0));
        if (first == 0) count[0][k & (RADIX - 1)]++;
        count[1][k >> BITS & (RADIX - 1)]++;
        count[2][k >> 2 * BITS]++;
    }
    for (int pass = first; pass < DIGITS; pass++) {
        uint32_t *at = count[pass];
        unsigned shift = BITS * (unsigned)pass + (wide ? 32 : 0);
        if (!places(at, n)) continue;
        for (size_t i = 0; i < n; i++) {
            uint64_t key = get(keys, i, wide);
            set(tmp, at[key >> shift & (RADIX - 1)]++, key, wide);
        }
        void *swap = keys;
        keys = tmp;
        tmp = swap;
    }
    return keys;
}

INLINE void insertion(void *keys, size_t n, bool wide)
{
    for (size_t i = 1; i < n; i++) {
        uint64_t key = get(keys, i, wide);
        size_t j = i;
        for (; j > 0 && get(keys, j - 1, wide) > key; j--)
            set(keys, j, get(keys, j - 1, wide), wide);
        set(keys, j, key, wide);
    }
}

/* ---- all ---------------------------------------------------------------------- */

/* Not inlined, because the counts would cost even short arrays their place on the stack. */
__attribute__((noinline)) static gg_nk_key *sort_many_keys(gg_nk_key *keys, size_t n,
                                                           gg_nk_key *tmp)
{
    return radix(keys, n, tmp, first_digit(keys, n), false);
}

gg_nk_key *gg_sort_keys(gg_nk_key *keys, size_t n, gg_nk_key *tmp)
{
    if (n > GG_SORT_FEW) return sort_many_keys(keys, n, tmp);
    insertion(keys, n, false);
    return keys;
}

__attribute__((noinline)) static uint64_t *sort_many_entries(uint64_t *entries, size_t n,
                                                             uint64_t *tmp)
{
    return radix(entries, n, tmp, 0, true);
}

uint64_t *gg_sort_entries(uint64_t *entries, size_t n, uint64_t *tmp)
{
    if (n > GG_SORT_FEW) return sort_many_entries(entries, n, tmp);
    insertion(entries, n, true);
    return entries;
}

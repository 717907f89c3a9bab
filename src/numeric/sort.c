/* sort.c - radix sort of floats and entries by their bits. */
#include "sort.h"

#include "numeric/numeric.h"

#include <string.h>

/* The sorts are inlined once for keys of 32 bits, and once for entries of 64 bits with the key in
 * the upper half. Three digits of 11, 11 and 10 bits, the least significant first. */
#define DIGITS 3
#define BITS 11
#define RADIX (1u << BITS)

#define SMALL 96 /* up to this number of keys insertion sort is faster */

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

/* ---- counting ---------------------------------------------------------------- */

/* How the keys of short floats are counted. A magnitude has a slot: 0 has the first, and others
 * follow from above `low` on. */
typedef struct slots {
    unsigned shift; /* bits that are 0 in all values */
    uint32_t low, n;
} slots;

/* Returns false if the counters would need more room than the keys. */
static bool few_slots(const gg_nk_key *keys, size_t n, slots *s)
{
    gg_nk_bounds b = GG_PICK(gg_nk_magnitudes)(keys, n);
    if (b.bits == 0 || b.bits & 0x1fffu) return false;
    s->shift = b.bits & 0xffffu ? 13 : 16;
    s->low = b.low >> s->shift;
    s->n = (b.high >> s->shift) - s->low + 1;
    return s->n <= n / 2;
}

/* Writes the keys of slots in order: from the last to the first for negative values. Most values
 * occur a few times, so that eight keys are written in any case. */
static size_t put_keys(const slots *s, const uint32_t *count, bool negative, gg_nk_key *keys,
                       size_t at, size_t n)
{
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t slot = negative ? s->n - 1 - i : i, m = slot ? slot + s->low : 0;
        gg_nk_key key = (m << s->shift | 0x80000000u) ^ (negative ? UINT32_MAX : 0);
        size_t end = at + count[i];
        if (end + 8 <= n) {
            for (size_t j = 0; j < 8; j++) keys[at + j] = key;
            at += 8;
        }
        for (; at < end; at++) keys[at] = key;
        at = end;
    }
    return at;
}

/* Sorts values that were F16 or BF16 by counting them. Returns false if they are others. */
static bool count_keys(gg_nk_key *keys, size_t n, uint32_t *count)
{
    slots s;
    if (n < 16 * SMALL || !few_slots(keys, n, &s)) return false;
    memset(count, 0, 2 * (size_t)s.n * sizeof *count);
    for (size_t i = 0; i < n; i++) {
        uint32_t negative = (keys[i] >> 31) - 1; /* all bits or none: no branch can foresee it */
        uint32_t m = ((keys[i] ^ negative) & 0x7fffffffu) >> s.shift;
        uint32_t slot = m > s.low ? m - s.low : 0;
        count[s.n + (slot ^ negative)]++; /* before the middle: s.n - 1 - slot */
    }
    size_t at = put_keys(&s, count, true, keys, 0, n);
    put_keys(&s, count + s.n, false, keys, at, n);
    return true;
}

/* ---- all ---------------------------------------------------------------------- */

gg_nk_key *gg_sort_keys(gg_nk_key *keys, size_t n, gg_nk_key *tmp)
{
    if (count_keys(keys, n, tmp)) return keys;
    return radix(keys, n, tmp, first_digit(keys, n), false);
}

gg_nk_key *gg_sort_few(gg_nk_key *keys, size_t n, gg_nk_key *tmp)
{
    if (n > SMALL) return gg_sort_keys(keys, n, tmp);
    insertion(keys, n, false);
    return keys;
}

/* Not inlined, because its counts would cost even short arrays their place on the stack. */
__attribute__((noinline)) static uint64_t *sort_many(uint64_t *entries, size_t n, uint64_t *tmp)
{
    return radix(entries, n, tmp, 0, true);
}

uint64_t *gg_sort_entries(uint64_t *entries, size_t n, uint64_t *tmp)
{
    if (n > SMALL) return sort_many(entries, n, tmp);
    insertion(entries, n, true);
    return entries;
}

void gg_sort_floats(float *values, size_t n, float *tmp)
{
    gg_nk_key *keys = (gg_nk_key *)(void *)values, *other = (gg_nk_key *)(void *)tmp;
    GG_PICK(gg_nk_keys)(values, n, keys);
    gg_nk_key *sorted = gg_sort_keys(keys, n, other);
    GG_PICK(gg_nk_unkeys)(sorted, n, values);
}

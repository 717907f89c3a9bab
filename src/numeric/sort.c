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

/* ---- counting ---------------------------------------------------------------- */

/* How the keys of short floats are counted. A magnitude has a slot: 0 has the first, and others
 * follow from above `low` on. */
typedef struct slots {
    unsigned shift; /* bits that are 0 in all values */
    uint32_t low, n;
} slots;

/* Returns false if the counters would need more room than the keys. */
static bool few_slots(const gg_nk_bounds *b, size_t n, slots *s)
{
    if (b->bits == 0 || b->bits & 0x1fffu) return false;
    s->shift = b->bits & 0xffffu ? 13 : 16;
    s->low = b->low >> s->shift;
    s->n = (b->high >> s->shift) - s->low + 1;
    return s->n <= n / 2;
}

typedef gg_nk_key four_keys __attribute__((vector_size(16)));

/* Writes the keys of slots in order: from the last to the first for negative values. Most values
 * occur a few times, so that eight keys are written in any case. */
INLINE size_t put_keys(const slots *s, const uint32_t *count, bool negative, gg_nk_key *keys,
                       size_t at, size_t n)
{
    const uint32_t most = s->n, low = s->low;
    for (uint32_t i = 0; i < most; i++) {
        uint32_t slot = negative ? most - 1 - i : i, m = slot ? slot + low : 0;
        gg_nk_key key = (m << s->shift | 0x80000000u) ^ (negative ? UINT32_MAX : 0);
        size_t end = at + count[i];
        if (end + 8 <= n) {
            four_keys all = key - (four_keys){ 0 };
            memcpy(keys + at, &all, sizeof all);
            memcpy(keys + at + 4, &all, sizeof all);
            at += 8;
        }
        for (; at < end; at++) keys[at] = key;
        at = end;
    }
    return at;
}

/* Sorts values that were F16 or BF16 by counting them. Returns false if they are others. */
static bool count_keys(gg_nk_key *keys, size_t n, const gg_nk_bounds *b, uint32_t *count)
{
    slots s;
    if (!few_slots(b, n, &s)) return false;
    memset(count, 0, 2 * (size_t)s.n * sizeof *count);
    /* Negative ones are before the middle. */
    GG_PICK(gg_nk_fold_keys)(keys, n, s.low << s.shift, 0x80000000u - (s.n << s.shift));
#pragma GCC unroll 8
    for (size_t i = 0; i < n; i++) count[keys[i] >> s.shift]++;
    size_t at = put_keys(&s, count, true, keys, 0, n);
    put_keys(&s, count + s.n, false, keys, at, n);
    return true;
}

/* ---- two passes --------------------------------------------------------------- */

/* Most samples take up few of the 2^32 keys, because between the smallest magnitude and 0 there is
 * nothing. Folded keys leave out this gap. Their upper 24 bits are sorted in two passes, and hardly
 * any two keys then differ only in the bits below, so that insertion sort does the rest. */
#define HALF_BITS 12
#define HALF (1u << HALF_BITS)

/* Cells are folded keys, less `base`, without their `drop` <= 8 low bits. As there are often many
 * zeros, no other value is in their cells, and -0 and +0 have different ones. */
typedef struct cells {
    uint32_t low, base; /* low: subtracted from magnitudes */
    unsigned drop;
} cells;

static cells cells_of(const gg_nk_bounds *b)
{
    cells c = { .low = b->low < 255 ? 0 : b->low - 255 };
    uint32_t span = b->high - c.low;
    while (span >> c.drop >> (2 * HALF_BITS - 1)) c.drop++;
    c.base = (0x7fffffffu - span) >> c.drop << c.drop;
    return c;
}

/* Converts counts to start positions. Returns false if keys are so crowded that insertion sort
 * would move them more than n / 4 times: c keys in HALF cells about c^2 / (4 HALF) times. Keys near
 * 0, at cell `zero`, are ignored, because there are often many zeros, which do not move. */
static bool two_places(uint32_t count[2][HALF], size_t n, uint32_t zero)
{
    uint32_t at[2] = { 0, 0 };
    uint64_t squares = 0;
    for (size_t d = 0; d < HALF; d++) {
        bool near_zero = d == zero / HALF || d == (zero - 1) / HALF;
        squares += near_zero ? 0 : (uint64_t)count[1][d] * count[1][d];
        for (int p = 0; p < 2; p++) {
            uint32_t c = count[p][d];
            count[p][d] = at[p];
            at[p] += c;
        }
    }
    return squares / (4 * HALF) <= n / 4;
}

/* Sorts keys that are nearly in order. Gives up after n moves and returns false. */
static bool finish_order(gg_nk_key *keys, size_t n)
{
    size_t moves = n, i = 1;
    while ((i = GG_PICK(gg_nk_descent)(keys, i, n)) < n) {
        gg_nk_key key = keys[i];
        size_t j = i++;
        for (; j > 0 && keys[j - 1] > key && moves > 0; j--, moves--) keys[j] = keys[j - 1];
        keys[j] = key;
        if (moves == 0) return false;
    }
    return true;
}

/* Returns false if another sort is needed; the keys are then in any order. Not inlined, because the
 * counts would cost even short arrays their place on the stack. */
__attribute__((noinline)) static bool sort_folded(gg_nk_key *keys, size_t n, const gg_nk_bounds *b,
                                                  gg_nk_key *tmp)
{
    uint32_t count[2][HALF] = { { 0 } };
    cells c = cells_of(b);
    GG_PICK(gg_nk_fold_keys)(keys, n, c.low, c.base);
#pragma GCC unroll 8
    for (size_t i = 0; i < n; i++) {
        uint32_t cell = keys[i] >> c.drop;
        count[0][cell % HALF]++;
        count[1][cell / HALF]++;
    }
    bool sparse = two_places(count, n, (0x80000000u - c.base) >> c.drop);
    if (sparse) {
#pragma GCC unroll 8
        for (size_t i = 0; i < n; i++) tmp[count[0][(keys[i] >> c.drop) % HALF]++] = keys[i];
#pragma GCC unroll 8
        for (size_t i = 0; i < n; i++) keys[count[1][(tmp[i] >> c.drop) / HALF]++] = tmp[i];
    }
    GG_PICK(gg_nk_unfold_keys)(keys, n, c.low, c.base);
    return sparse && finish_order(keys, n);
}

/* ---- all ---------------------------------------------------------------------- */

#define COUNTED (16 * GG_SORT_FEW) /* from this number of keys on, counting them may be faster */
#define FOLDED_LEAST 4096          /* between these, two passes are faster than three */
#define FOLDED_MOST 200000

/* Not inlined because of its counts, as sort_folded. */
__attribute__((noinline)) static gg_nk_key *sort_many_keys(gg_nk_key *keys, size_t n,
                                                           gg_nk_key *tmp)
{
    if (n >= COUNTED) {
        gg_nk_bounds b = GG_PICK(gg_nk_magnitudes)(keys, n);
        if (count_keys(keys, n, &b, tmp)) return keys;
        bool fits = n >= FOLDED_LEAST && n <= FOLDED_MOST;
        if (fits && sort_folded(keys, n, &b, tmp)) return keys;
    }
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

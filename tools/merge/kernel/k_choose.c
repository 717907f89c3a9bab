/* k_choose.c - the hot loops of merging that choose values: borders of magnitudes, masks, and
 * counts of magnitudes. */
#include "merge/merge_values.h"
#include "numeric/nlanes.h"

#include <float.h>
#include <string.h>

#ifdef __OPTIMIZE_SIZE__ /* plain C on x86-64 */
#define INLINE static inline
#else
#define INLINE static inline __attribute__((always_inline))
#endif

void GG_K(gg_mk_band)(float *x, size_t n, uint32_t from, uint32_t to)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = gg_float_bits(x[i]), m = bits & 0x7fffffffu;
        /* magnitudes are below 2^31, so signed comparisons, which vectorise, are right */
        bool keep = (int32_t)m >= (int32_t)from && (int32_t)m < (int32_t)to;
        x[i] = gg_bits_float(keep ? bits : 0);
    }
}

/* ---- masks ---------------------------------------------------------------------------- */

static const gg_i32x8 bits = { 1, 2, 4, 8, 16, 32, 64, 128 };

void GG_K(gg_mk_pack_mask)(uint8_t *mask, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        gg_f32x8 v = { 0 };
        if (n - i >= 8) memcpy(&v, x + i, sizeof v);
        else memcpy(&v, x + i, (n - i) * sizeof *x);
        gg_i32x8 kept = v != 0;
        mask[i / 8] = (uint8_t)gg_nk_mask8(&kept);
    }
}

void GG_K(gg_mk_apply_mask)(float *x, const uint8_t *mask, size_t n)
{
    size_t whole = n / 8;
    for (size_t i = 0; i < whole; i++) {
        gg_i32x8 v;
        memcpy(&v, x + 8 * i, sizeof v);
        v &= (bits & mask[i]) != 0;
        memcpy(x + 8 * i, &v, sizeof v);
    }
    for (size_t i = 8 * whole; i < n; i++)
        if (!(mask[whole] >> i % 8 & 1)) x[i] = 0;
}

typedef uint64_t u64x4 __attribute__((vector_size(32)));

/* Four random numbers, see gg_random_bits, of the states *z. A bit per number below the limit. */
INLINE uint8_t draw_four(const u64x4 *state, uint64_t limit)
{
    u64x4 z = (*state ^ (*state >> 30)) * GG_RANDOM_MIX;
    z = (z ^ (z >> 27)) * GG_RANDOM_MIX2;
    z = (z ^ (z >> 31)) >> 11;
    gg_nk_i64x4 kept = (gg_nk_i64x4)z < (int64_t)limit;
#if GG_LEVEL == 1
    return (uint8_t)_mm256_movemask_pd((__m256d)kept);
#else
    kept &= (gg_nk_i64x4){ 1, 2, 4, 8 };
    return (uint8_t)((kept[0] | kept[1]) | (kept[2] | kept[3]));
#endif
}

void GG_K(gg_mk_random_mask)(uint8_t *mask, size_t n, uint64_t key, uint64_t first, uint64_t limit)
{
    u64x4 low = { 1, 2, 3, 4 };
    low = (low + first) * GG_RANDOM_STEP + key;
    u64x4 high = low + 4 * GG_RANDOM_STEP;
    for (size_t i = 0; i < n; i += 8) {
        mask[i / 8] = (uint8_t)(draw_four(&low, limit) | draw_four(&high, limit) << 4);
        low += 8 * GG_RANDOM_STEP;
        high += 8 * GG_RANDOM_STEP;
    }
    if (n % 8) mask[n / 8] &= (uint8_t)((1u << n % 8) - 1);
}

/* ---- sums ------------------------------------------------------------------------------- */

#define RUN ((size_t)128) /* values whose sums are in float32 */

/* The magnitudes of up to eight values: of all, and of those in the mask. */
INLINE void magnitudes(gg_f32x8 to[2], const float *x, uint8_t mask, size_t n)
{
    gg_i32x8 v = { 0 };
    memcpy(&v, x, n * sizeof *x);
    v &= 0x7fffffff;
    to[0] = (gg_f32x8)v;
    to[1] = (gg_f32x8)(v & ((bits & mask) != 0));
}

/* Adds two vectors. */
INLINE void add_wide(gg_nk_acc s[2], const gg_f32x8 *from, bool squares)
{
    GG_UNROLL(4)
    for (size_t k = 0; k < 4; k++) {
        gg_nk_f64x4 w = NK_WIDE_AT((const float *)from + 4 * k);
        s[k / 2].half[k % 2] += squares ? w * w : w;
    }
}

/* Short runs are added in float32, or with `wide` in double, which squares always need. */
INLINE void norms(const float *x, const uint8_t *mask, size_t n, bool squares, bool wide,
                  double sums[2])
{
    gg_nk_acc s[2] = { 0 };
    for (size_t at = 0; at < n; at += RUN) {
        gg_f32x8 sum[2] = { { 0 }, { 0 } }, part[2];
        size_t end = n - at < RUN ? n : at + RUN;
        for (size_t i = at; i < end; i += 8) {
            uint8_t kept = mask ? mask[i / 8] : 0;
            if (end - i >= 8) magnitudes(part, x + i, kept, 8);
            else magnitudes(part, x + i, kept, end - i);
            if (wide) add_wide(s, part, squares);
            sum[0] += part[0];
            sum[1] += part[1];
        }
        if (!wide) add_wide(s, sum, false);
    }
    sums[0] = gg_nk_fold(&s[0]);
    sums[1] = gg_nk_fold(&s[1]);
}

void GG_K(gg_mk_norms)(const float *x, const uint8_t *mask, size_t n, bool squares, double sums[2])
{
    double of[2];
    if (squares) norms(x, mask, n, true, true, of);
    else norms(x, mask, n, false, false, of);
    /* Sixteen magnitudes above 2e37 overflow float32. */
    if (!squares && of[0] > DBL_MAX) norms(x, mask, n, false, true, of);
    sums[0] += of[0];
    sums[1] += of[1];
}

/* ---- counts ------------------------------------------------------------------------------- */

void GG_K(gg_mk_count_high)(const float *x, size_t n, uint64_t *counts)
{
    for (size_t i = 0; i < n; i++) counts[gg_magnitude(x[i]) >> GG_QUANTILE_LOW_BITS]++;
}

INLINE bool any(const gg_i32x8 *v)
{
#if GG_LEVEL == 1
    return !_mm256_testz_si256((__m256i)*v, (__m256i)*v);
#else
    uint64_t w[4];
    memcpy(w, v, sizeof w);
    return (w[0] | w[1] | w[2] | w[3]) != 0;
#endif
}

INLINE void count_low(const float *x, size_t n, uint32_t high, uint64_t *counts)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t m = gg_magnitude(x[i]);
        if (m >> GG_QUANTILE_LOW_BITS == high) counts[m & (GG_QUANTILE_LOW - 1)]++;
    }
}

/* Few values have the same upper bits, so most groups of eight are skipped. */
void GG_K(gg_mk_count_low)(const float *x, size_t n, uint32_t high, uint64_t *counts)
{
    const int32_t same = (int32_t)(high << GG_QUANTILE_LOW_BITS), upper = 0x7fff8000;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        gg_i32x8 v;
        memcpy(&v, x + i, sizeof v);
        v = (v & upper) == same;
        if (any(&v)) count_low(x + i, 8, high, counts);
    }
    count_low(x + i, n - i, high, counts);
}

size_t GG_K(gg_mk_count_nonzero)(const float *x, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += x[i] != 0;
    return count;
}

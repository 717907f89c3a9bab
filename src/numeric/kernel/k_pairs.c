/* k_pairs.c - sums over two arrays, for the comparison of models.
 *
 * A pair with a non-finite value is replaced by two zeros, without a branch. */
#define GG_X86_AVX512
#include "numeric/nlanes.h"

#include "numeric/numeric.h"

#include <math.h>

/* All bits set if both are finite, else 0. */
static uint32_t both_finite(uint32_t a, uint32_t b)
{
    return (a & NK_EXPONENT) != NK_EXPONENT && (b & NK_EXPONENT) != NK_EXPONENT ? UINT32_MAX : 0;
}

/* Pairs are processed in runs: first the mask, with integers, then the sums of the masked values,
 * so that both loops vectorise. A short last run is filled up with masked pairs. */
#define RUN 256

typedef struct run {
    float a[RUN], b[RUN];
    uint32_t finite;    /* number of pairs with two finite values */
    uint32_t differing; /* number of pairs whose bits differ */
} run;

static void load_run(run *r, const float *a, const float *b, size_t n)
{
    uint32_t finite = 0, differing = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t ua = gg_float_bits(a[i]), ub = gg_float_bits(b[i]), keep = both_finite(ua, ub);
        finite += keep & 1;
        differing += ua != ub;
        r->a[i] = gg_bits_float(ua & keep);
        r->b[i] = gg_bits_float(ub & keep);
    }
    for (size_t i = n; i < RUN; i++) r->a[i] = r->b[i] = 0.0f;
    r->finite = finite;
    r->differing = differing;
}

/* ---- comparison ------------------------------------------------------------------- */

typedef struct pair_sums {
    gg_nk_acc dot, aa, bb, diff2;
    double top;     /* the largest |a - b| of the pairs added in double */
    gg_f32x8 tops;  /* the largest (a - b)^2 of those added in float, per lane */
    gg_i32x8 equal; /* minus the number of equal pairs among these */
    uint64_t finite, differing;
} pair_sums;

/* Adds a run in double. */
static void add_exact(pair_sums *s, const float *a, const float *b, size_t n)
{
    run r;
    gg_nk_f64x4 top = { 0 }; /* squares, which cannot overflow and whose roots are |a - b| */
    load_run(&r, a, b, n);
    GG_UNROLL(2)
    for (size_t h = 0; h < 2; h++) {
        gg_nk_f64x4 dot = s->dot.half[h], aa = s->aa.half[h], bb = s->bb.half[h],
                    diff2 = s->diff2.half[h];
        for (size_t j = 4 * h; j < RUN; j += NK_LANES) {
            gg_nk_f64x4 x = NK_WIDE_AT(r.a + j), y = NK_WIDE_AT(r.b + j), d = x - y, d2 = d * d;
            dot += x * y;
            aa += x * x;
            bb += y * y;
            diff2 += d2;
            top = NK_SELECT64(d2 > top, d2, top);
        }
        s->dot.half[h] = dot, s->aa.half[h] = aa, s->bb.half[h] = bb, s->diff2.half[h] = diff2;
    }
    s->finite += r.finite;
    s->differing += r.differing;
    for (int l = 0; l < 4; l++) s->top = sqrt(top[l]) > s->top ? sqrt(top[l]) : s->top;
}

/* The sums of a run: TERMS products of each lane are added in float, and these sums in double. A
 * float sum of so few terms has a relative error of at most (TERMS + 2) 2^-24. */
#define TERMS 8

typedef struct float_sums {
    gg_nk_acc dot, aa, bb, diff2;
    gg_f32x8 top;
    gg_i32x8 equal; /* minus the number of equal pairs */
} float_sums;

#if GG_LEVEL == 1 /* gcc compares and blends, which takes three times as long */
#define GREATER8(x, y) ((gg_f32x8)_mm256_max_ps((__m256)(x), (__m256)(y)))
#else
static inline gg_f32x8 greater8(gg_f32x8 x, gg_f32x8 y)
{
    const gg_i32x8 mask = NK_COMPARE8(f, x, >, y);
    return (gg_f32x8)(((gg_i32x8)x & mask) | ((gg_i32x8)y & ~mask));
}
#define GREATER8 greater8
#endif

static inline void widen8(gg_nk_acc *to, const gg_f32x8 *v)
{
    to->half[0] += NK_WIDE_AT((const float *)v);
    to->half[1] += NK_WIDE_AT((const float *)v + 4);
}

/* The largest |a - b| is computed as the root of the largest square. This is exact: the rounded
 * root of the rounded square of a float is the float without its sign, unless the square overflows
 * or underflows, which is_safe excludes. */
static void add_floats(float_sums *s, const float *a, const float *b)
{
    gg_f32x8 top = { 0 };
    gg_i32x8 equal = { 0 };
    for (size_t j = 0; j < RUN; j += 8 * TERMS) {
        gg_f32x8 dot = { 0 }, aa = dot, bb = dot, diff2 = dot;
        for (size_t i = j; i < j + 8 * TERMS; i += 8) {
            gg_f32x8 x, y;
            memcpy(&x, a + i, sizeof x);
            memcpy(&y, b + i, sizeof y);
            gg_f32x8 d = x - y, d2 = d * d;
            dot += x * y;
            aa += x * x;
            bb += y * y;
            diff2 += d2;
            top = GREATER8(d2, top);
            equal += NK_COMPARE8(i, x, ==, y);
        }
        widen8(&s->dot, &dot);
        widen8(&s->aa, &aa);
        widen8(&s->bb, &bb);
        widen8(&s->diff2, &diff2);
    }
    s->top = top;
    s->equal = equal;
}

/* Whether the sum of a run's squares is finite and so large that those which became zero or lost
 * bits as denormal numbers do not matter. */
static bool is_safe(double squares)
{
    return squares >= 0x1p-90 && squares < INFINITY;
}

typedef bool (*run_adder)(pair_sums *s, const float *a, const float *b);

static uint32_t count_equal(const gg_i32x8 *equal)
{
    uint32_t n = 0;
    for (int l = 0; l < 8; l++) n -= (uint32_t)(*equal)[l];
    return n;
}

/* Adds a whole run in float. Returns false, without adding it, if it must be added in double. */
static bool add_fast(pair_sums *s, const float *a, const float *b)
{
    const gg_nk_acc none = { { { 0 }, { 0 } } };
    float_sums f = { .dot = none, .aa = none, .bb = none, .diff2 = none };
    add_floats(&f, a, b);
    if (!is_safe(gg_nk_fold(&f.aa)) || !is_safe(gg_nk_fold(&f.bb)) ||
        (!is_safe(gg_nk_fold(&f.diff2)) && count_equal(&f.equal) != RUN))
        return false;
    GG_UNROLL(2)
    for (int h = 0; h < 2; h++) {
        s->dot.half[h] += f.dot.half[h];
        s->aa.half[h] += f.aa.half[h];
        s->bb.half[h] += f.bb.half[h];
        s->diff2.half[h] += f.diff2.half[h];
    }
    s->tops = GREATER8(f.top, s->tops);
    s->equal += f.equal;
    s->finite += RUN;
    s->differing += RUN;
    return true;
}

#if GG_LEVEL == 1
/* The same with AVX-512. Lanes 0 to 7 sum one group of 8 * TERMS pairs, lanes 8 to 15 the next. */
#define WIDE __attribute__((target(GG_AVX512)))
#define INLINE WIDE __attribute__((always_inline)) static inline
#define ZERO _mm512_setzero_ps()

INLINE __m512 load_groups(const float *v)
{
    __m512d low = _mm512_castpd256_pd512((__m256d)_mm256_loadu_ps(v));
    return (__m512)_mm512_insertf64x4(low, (__m256d)_mm256_loadu_ps(v + 8 * TERMS), 1);
}

INLINE __m512d widen_groups(__m512d to, __m512 v)
{
    to += _mm512_cvtps_pd(_mm512_castps512_ps256(v));
    return to + _mm512_cvtps_pd((__m256)_mm512_extractf64x4_pd((__m512d)v, 1));
}

/* If the product is exact, the sum is the same with one rounding as with two. */
INLINE __m512 add_product(__m512 sum, __m512 x, __m512 y, bool exact)
{
    return exact ? _mm512_fmadd_ps(x, y, sum) : (__m512)(sum + x * y);
}

INLINE double fold_wide(__m512d v)
{
    gg_nk_acc acc;
    memcpy(&acc, &v, sizeof acc);
    return gg_nk_fold(&acc);
}

INLINE void add_acc(gg_nk_acc *to, __m512d v)
{
    _mm512_storeu_pd(to, _mm512_loadu_pd(to) + v);
}

INLINE bool add_groups(pair_sums *s, const float *a, const float *b, bool exact)
{
    __m512 top = ZERO;
    __m512i equal = (__m512i)ZERO;
    __m512d sum_dot = (__m512d)ZERO, sum_aa = sum_dot, sum_bb = sum_dot, sum_diff2 = sum_dot;
    for (size_t j = 0; j < RUN; j += 16 * TERMS) {
        __m512 dot = ZERO, aa = dot, bb = dot, diff2 = dot;
        GG_UNROLL(8)
        for (size_t i = j; i < j + 8 * TERMS; i += 8) {
            __m512 x = load_groups(a + i), y = load_groups(b + i), d = x - y, d2 = d * d;
            dot = add_product(dot, x, y, exact);
            aa = add_product(aa, x, x, exact);
            bb = add_product(bb, y, y, exact);
            diff2 += d2;
            top = _mm512_max_ps(d2, top);
            __mmask16 same = _mm512_cmpeq_epi32_mask((__m512i)x, (__m512i)y);
            equal = _mm512_mask_sub_epi32(equal, same, equal, _mm512_set1_epi32(1));
        }
        sum_dot = widen_groups(sum_dot, dot);
        sum_aa = widen_groups(sum_aa, aa);
        sum_bb = widen_groups(sum_bb, bb);
        sum_diff2 = widen_groups(sum_diff2, diff2);
    }
    /* Without this gcc moves these sums behind the checks and stores what they need meanwhile. */
    __asm__("" : "+v"(sum_dot), "+v"(top), "+v"(equal));
    if (!is_safe(fold_wide(sum_aa)) || !is_safe(fold_wide(sum_bb)) ||
        (!is_safe(fold_wide(sum_diff2)) && _mm512_reduce_add_epi32(equal) != -RUN))
        return false;
    add_acc(&s->dot, sum_dot);
    add_acc(&s->aa, sum_aa);
    add_acc(&s->bb, sum_bb);
    add_acc(&s->diff2, sum_diff2);
    __m512d halves = (__m512d)top;
    top = _mm512_max_ps(top, (__m512)_mm512_shuffle_f64x2(halves, halves, 0x4e));
    s->tops = GREATER8(_mm512_castps512_ps256(top), s->tops);
    s->equal += (gg_i32x8)_mm512_castsi512_si256(equal);
    s->equal += (gg_i32x8)_mm512_extracti64x4_epi64(equal, 1);
    s->finite += RUN;
    s->differing += RUN;
    return true;
}

WIDE static bool add_wide(pair_sums *s, const float *a, const float *b)
{
    return add_groups(s, a, b, false);
}

WIDE static bool add_wide_exact(pair_sums *s, const float *a, const float *b)
{
    return add_groups(s, a, b, true);
}
#endif

void GG_K(gg_compare_read)(gg_compare *acc, gg_pair_reader next, void *ctx, size_t n, bool exact)
{
    pair_sums s;
    const float *x[2] = { NULL, NULL };
    run_adder add = add_fast;
#if GG_LEVEL == 1
    if (gg_isa() >= 2) add = exact ? add_wide_exact : add_wide;
#else
    (void)exact;
#endif
    memset(&s, 0, sizeof s);
    for (size_t at = 0, m; at < n; at += m) {
        m = n - at < GG_PAIR_BLOCK ? n - at : GG_PAIR_BLOCK;
        next(ctx, at, m, x);
        for (size_t i = 0; i < m; i += RUN)
            if (m - i < RUN || !add(&s, x[0] + i, x[1] + i))
                add_exact(&s, x[0] + i, x[1] + i, m - i < RUN ? m - i : RUN);
        s.differing -= count_equal(&s.equal);
        memset(&s.equal, 0, sizeof s.equal);
    }
    for (int l = 0; l < 8; l++) s.top = sqrtf(s.tops[l]) > s.top ? sqrtf(s.tops[l]) : s.top;
    acc->n += n;
    acc->nonfinite += n - s.finite;
    acc->differing += s.differing;
    acc->dot += gg_nk_fold(&s.dot);
    acc->aa += gg_nk_fold(&s.aa);
    acc->bb += gg_nk_fold(&s.bb);
    acc->diff2 += gg_nk_fold(&s.diff2);
    acc->maxabs = s.top > acc->maxabs ? s.top : acc->maxabs;
}

/* ---- weighted sums ---------------------------------------------------------------- */

void GG_K(gg_weighted_add)(const float *w, const float *a, const float *b, size_t n, double sums[2])
{
    gg_nk_acc energy = { { { 0 }, { 0 } } }, error = energy;
    float weight[RUN];
    run r;
    for (size_t i = 0; i < n; i += RUN) {
        size_t m = n - i < RUN ? n - i : RUN, end = (m + NK_LANES - 1) / NK_LANES * NK_LANES;
        load_run(&r, a + i, b + i, m);
        memcpy(weight, w + i, m * sizeof *weight);
        for (size_t j = m; j < end; j++) weight[j] = 0.0f;
        for (size_t j = 0; j < end; j += 4) {
            gg_nk_f64x4 x = NK_WIDE_AT(r.a + j), d = NK_WIDE_AT(r.b + j) - x,
                        by = NK_WIDE_AT(weight + j);
            energy.half[j / 4 % 2] += by * (x * x);
            error.half[j / 4 % 2] += by * (d * d);
        }
    }
    sums[0] += gg_nk_fold(&energy);
    sums[1] += gg_nk_fold(&error);
}

/* k_pairs.c - sums over two arrays, for Pearson's r and the comparison of models.
 *
 * A pair with a non-finite value is replaced by two zeros, without a branch. */
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

gg_nk_pair_means GG_K(gg_nk_pair_means)(const float *a, const float *b, size_t n)
{
    gg_nk_acc sa = { { { 0 }, { 0 } } }, sb = sa;
    uint64_t finite = 0;
    run r;
    for (size_t i = 0; i < n; i += RUN) {
        load_run(&r, a + i, b + i, n - i < RUN ? n - i : RUN);
        finite += r.finite;
        for (size_t j = 0; j < RUN; j += NK_LANES) {
            for (size_t h = 0; h < 2; h++) {
                gg_nk_f32x4 va, vb;
                NK_LOAD4(va, r.a + j + 4 * h);
                NK_LOAD4(vb, r.b + j + 4 * h);
                sa.half[h] += NK_WIDE(va);
                sb.half[h] += NK_WIDE(vb);
            }
        }
    }
    gg_nk_pair_means m = { 0, 0, finite };
    if (finite) {
        m.a = gg_nk_fold(&sa) / (double)finite;
        m.b = gg_nk_fold(&sb) / (double)finite;
    }
    return m;
}

/* Here an ignored pair must count as the two means, so the differences are masked instead of the
 * values. */
static inline void central4(const float *a, const float *b, double mean_a, double mean_b,
                            gg_nk_acc *sums, size_t h)
{
    gg_nk_f32x4 va, vb;
    NK_LOAD4(va, a);
    NK_LOAD4(vb, b);
    gg_nk_i64x4 keep = __builtin_convertvector(NK_FINITE4(va) & NK_FINITE4(vb), gg_nk_i64x4);
    gg_nk_f64x4 da = (gg_nk_f64x4)((gg_nk_i64x4)(NK_WIDE(va) - mean_a) & keep);
    gg_nk_f64x4 db = (gg_nk_f64x4)((gg_nk_i64x4)(NK_WIDE(vb) - mean_b) & keep);
    sums[0].half[h] += da * da;
    sums[1].half[h] += db * db;
    sums[2].half[h] += da * db;
}

gg_nk_pair_central GG_K(gg_nk_pair_central)(const float *a, const float *b, size_t n, double mean_a,
                                            double mean_b)
{
    gg_nk_acc sums[3];
    memset(sums, 0, sizeof sums);
    float rest_a[NK_LANES], rest_b[NK_LANES];
    size_t i = 0;
    for (; i + NK_LANES <= n; i += NK_LANES) {
        central4(a + i, b + i, mean_a, mean_b, sums, 0);
        central4(a + i + 4, b + i + 4, mean_a, mean_b, sums, 1);
    }
    for (size_t l = 0; l < NK_LANES; l++) {
        rest_a[l] = i + l < n ? a[i + l] : __builtin_nanf("");
        rest_b[l] = i + l < n ? b[i + l] : 0.0f;
    }
    central4(rest_a, rest_b, mean_a, mean_b, sums, 0);
    central4(rest_a + 4, rest_b + 4, mean_a, mean_b, sums, 1);
    return (gg_nk_pair_central){ gg_nk_fold(&sums[0]), gg_nk_fold(&sums[1]), gg_nk_fold(&sums[2]) };
}

typedef struct pair_sums {
    gg_nk_acc dot, aa, bb, diff2;
    gg_nk_f64x4
        top; /* largest (a - b)^2; in double it cannot overflow, and its root is exactly |a - b| */
} pair_sums;

static void add_run(pair_sums *s, const run *r)
{
    gg_nk_f64x4 top = s->top;
    for (size_t h = 0; h < 2; h++) {
        gg_nk_f64x4 dot = s->dot.half[h], aa = s->aa.half[h], bb = s->bb.half[h],
                    diff2 = s->diff2.half[h];
        for (size_t j = 4 * h; j < RUN; j += NK_LANES) {
            gg_nk_f32x4 va, vb;
            NK_LOAD4(va, r->a + j);
            NK_LOAD4(vb, r->b + j);
            gg_nk_f64x4 a = NK_WIDE(va), b = NK_WIDE(vb), d = a - b, d2 = d * d;
            dot += a * b;
            aa += a * a;
            bb += b * b;
            diff2 += d2;
            top = NK_SELECT64(d2 > top, d2, top);
        }
        s->dot.half[h] = dot, s->aa.half[h] = aa, s->bb.half[h] = bb, s->diff2.half[h] = diff2;
    }
    s->top = top;
}

void GG_K(gg_nk_compare)(gg_compare *acc, const float *a, const float *b, size_t n)
{
    pair_sums s;
    memset(&s, 0, sizeof s);
    uint64_t finite = 0, differing = 0;
    run r;
    for (size_t i = 0; i < n; i += RUN) {
        load_run(&r, a + i, b + i, n - i < RUN ? n - i : RUN);
        finite += r.finite;
        differing += r.differing;
        add_run(&s, &r);
    }
    acc->n += n;
    acc->nonfinite += n - finite;
    acc->differing += differing;
    acc->dot += gg_nk_fold(&s.dot);
    acc->aa += gg_nk_fold(&s.aa);
    acc->bb += gg_nk_fold(&s.bb);
    acc->diff2 += gg_nk_fold(&s.diff2);
    double top[4];
    memcpy(top, &s.top, sizeof top);
    for (int l = 0; l < 4; l++) {
        double size = sqrt(top[l]);
        acc->maxabs = size > acc->maxabs ? size : acc->maxabs;
    }
}

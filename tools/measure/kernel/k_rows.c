/* k_rows.c - sums over two rows, for Pearson's r. */
#include "measure/rowtheta.h"
#include "numeric/nlanes.h"

#include <string.h>

/* All bits set if both are finite, else 0. */
static uint32_t both_finite(uint32_t a, uint32_t b)
{
    return (a & NK_EXPONENT) != NK_EXPONENT && (b & NK_EXPONENT) != NK_EXPONENT ? UINT32_MAX : 0;
}

/* Pairs are processed in runs: first the mask, with integers, then the sums of the masked values,
 * so that both loops vectorise. */
#define RUN 256

/* Sets the number of pairs and the means. */
static void add_means(gg_pair_sums *sums, const float *a, const float *b, size_t n)
{
    gg_nk_acc sa = { { { 0 }, { 0 } } }, sb = sa;
    uint64_t finite = 0;
    for (size_t i = 0; i < n; i += RUN) {
        float ra[RUN] = { 0 }, rb[RUN] = { 0 };
        uint32_t kept = 0;
        size_t m = n - i < RUN ? n - i : RUN;
        for (size_t j = 0; j < m; j++) {
            uint32_t ua = gg_float_bits(a[i + j]), ub = gg_float_bits(b[i + j]),
                     keep = both_finite(ua, ub);
            kept += keep & 1;
            ra[j] = gg_bits_float(ua & keep);
            rb[j] = gg_bits_float(ub & keep);
        }
        finite += kept;
        for (size_t j = 0; j < RUN; j += NK_LANES) {
            GG_UNROLL(2)
            for (size_t h = 0; h < 2; h++) {
                sa.half[h] += NK_WIDE_AT(ra + j + 4 * h);
                sb.half[h] += NK_WIDE_AT(rb + j + 4 * h);
            }
        }
    }
    sums->n = finite;
    if (finite == 0) return;
    sums->mean_a = gg_nk_fold(&sa) / (double)finite;
    sums->mean_b = gg_nk_fold(&sb) / (double)finite;
}

/* Here an ignored pair must count as the two means, so the differences are masked instead of the
 * values. */
static inline void central4(const float *a, const float *b, double mean_a, double mean_b,
                            gg_nk_acc *sums, size_t h)
{
    gg_nk_f32x4 va = NK_AT4(a), vb = NK_AT4(b);
    gg_nk_i64x4 keep = __builtin_convertvector(NK_FINITE4(va) & NK_FINITE4(vb), gg_nk_i64x4);
    gg_nk_f64x4 da = (gg_nk_f64x4)((gg_nk_i64x4)(NK_WIDE(va) - mean_a) & keep);
    gg_nk_f64x4 db = (gg_nk_f64x4)((gg_nk_i64x4)(NK_WIDE(vb) - mean_b) & keep);
    sums[0].half[h] += da * da;
    sums[1].half[h] += db * db;
    sums[2].half[h] += da * db;
}

/* Sets the sums of products of the differences from the means. */
static void add_central(gg_pair_sums *to, const float *a, const float *b, size_t n)
{
    const double mean_a = to->mean_a, mean_b = to->mean_b;
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
    to->aa = gg_nk_fold(&sums[0]);
    to->bb = gg_nk_fold(&sums[1]);
    to->ab = gg_nk_fold(&sums[2]);
}

/* Combines the sums of two runs around their own means into sums around the common mean (Chan,
 * Golub and LeVeque 1979). With d the difference of the means, the sum of squares grows by
 * d^2 n m / (n + m). */
void GG_K(gg_pearson_add)(gg_pair_sums *sums, const float *a, const float *b, size_t n)
{
    gg_pair_sums more = { 0 };
    add_means(&more, a, b, n);
    if (more.n == 0) return;
    add_central(&more, a, b, n);
    if (sums->n == 0) {
        *sums = more;
        return;
    }
    double total = (double)(sums->n + more.n), share = (double)more.n / total,
           weight = (double)sums->n * share;
    double da = more.mean_a - sums->mean_a, db = more.mean_b - sums->mean_b;
    sums->aa += more.aa + da * da * weight;
    sums->bb += more.bb + db * db * weight;
    sums->ab += more.ab + da * db * weight;
    sums->mean_a += da * share;
    sums->mean_b += db * share;
    sums->n += more.n;
}

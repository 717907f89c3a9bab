/* rowtheta.c - the angle between adjacent rows. */
#include "numeric/numeric.h"

#include "nkernel.h"
#include "owntrig.h"

#include <math.h>

uint64_t gg_row_pairs(uint64_t rows)
{
    if (rows < 2) return 0;
    return rows - 1 < GG_ROW_PAIRS ? rows - 1 : GG_ROW_PAIRS;
}

/* Combines the sums of two runs around their own means into sums around the common mean (Chan,
 * Golub and LeVeque 1979). With d the difference of the means, the sum of squares grows by
 * d^2 n m / (n + m). */
void gg_pearson_add(gg_pair_sums *sums, const float *a, const float *b, size_t n)
{
    gg_nk_pair_means m = GG_PICK(gg_nk_pair_means)(a, b, n);
    if (m.n == 0) return;
    gg_nk_pair_central c = GG_PICK(gg_nk_pair_central)(a, b, n, m.a, m.b);
    gg_pair_sums run = { m.n, m.a, m.b, c.aa, c.bb, c.ab };
    if (sums->n == 0) {
        *sums = run;
        return;
    }
    double total = (double)(sums->n + m.n), share = (double)m.n / total,
           weight = (double)sums->n * share;
    double da = m.a - sums->mean_a, db = m.b - sums->mean_b;
    sums->aa += c.aa + da * da * weight;
    sums->bb += c.bb + db * db * weight;
    sums->ab += c.ab + da * db * weight;
    sums->mean_a += da * share;
    sums->mean_b += db * share;
    sums->n += m.n;
}

double gg_pearson_of(const gg_pair_sums *s)
{
    if (s->n < 2) return 0.0;
    /* A constant row may have a tiny variance from rounding the mean; treat it as none. */
    double floor_a = (double)s->n * s->mean_a * s->mean_a * 1e-30,
           floor_b = (double)s->n * s->mean_b * s->mean_b * 1e-30;
    if (!(s->aa > floor_a) || !(s->bb > floor_b)) return 0.0;
    double r = s->ab / (sqrt(s->aa) * sqrt(s->bb));
    return r > 1 ? 1 : r < -1 ? -1 : r;
}

void gg_row_theta_add_sums(gg_row_theta *acc, const gg_pair_sums *sums)
{
    acc->sum_abs += fabs(gg_pearson_of(sums));
    acc->pairs++;
}

double gg_row_theta_degrees(const gg_row_theta *acc)
{
    if (acc->pairs == 0) return 90.0;
    double mean = acc->sum_abs / (double)acc->pairs;
    return mean >= 1.0 ? 0.0 : gg_own_acos(mean) * (180.0 / 3.14159265358979323846);
}

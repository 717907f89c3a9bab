/* rowtheta.c - the angle between adjacent rows. */
#include "rowtheta.h"

#include "numeric/ownmath.h"

#include <math.h>

uint64_t gg_row_pairs(uint64_t rows)
{
    if (rows < 2) return 0;
    return rows - 1 < GG_ROW_PAIRS ? rows - 1 : GG_ROW_PAIRS;
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

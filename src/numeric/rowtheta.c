/* rowtheta.c - the angle between adjacent rows. */
#include "gg_numeric.h"

#include "nkernel.h"

#include <math.h>

uint64_t gg_row_pairs(uint64_t rows)
{
    if (rows < 2) return 0;
    return rows - 1 < GG_ROW_PAIRS ? rows - 1 : GG_ROW_PAIRS;
}

uint64_t gg_row_pair(uint64_t i, uint64_t rows)
{
    return gg_sample_index(i, rows < 2 ? 0 : rows - 1, gg_row_pairs(rows));
}

double gg_pearson(const float *a, const float *b, size_t n)
{
    nk_pair_means m = GG_PICK(nk_pair_means)(a, b, n);
    if (m.n < 2) return 0.0;
    nk_pair_central c = GG_PICK(nk_pair_central)(a, b, n, m.a, m.b);
    /* what rounding of the mean leaves of a constant row is no variance */
    double floor_a = (double)m.n * m.a * m.a * 1e-30, floor_b = (double)m.n * m.b * m.b * 1e-30;
    if (!(c.aa > floor_a) || !(c.bb > floor_b)) return 0.0;
    double r = c.ab / (sqrt(c.aa) * sqrt(c.bb));
    return r > 1 ? 1 : r < -1 ? -1 : r;
}

void gg_row_theta_add(gg_row_theta *acc, const float *a, const float *b, size_t n)
{
    acc->sum_abs += fabs(gg_pearson(a, b, n));
    acc->pairs++;
}

double gg_row_theta_degrees(const gg_row_theta *acc)
{
    if (acc->pairs == 0) return 90.0;
    double mean = acc->sum_abs / (double)acc->pairs;
    return mean >= 1.0 ? 0.0 : acos(mean) * (180.0 / 3.14159265358979323846);
}

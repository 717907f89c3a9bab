/* compare_damage.c - predicts with an importance matrix what the difference of two tensors does to
 * the output. */
#include "compare_core.h"

#include <math.h>

void gg_damage_add(const compare_pair *p, uint64_t k, const float *a, const float *b,
                   double sums[2])
{
    uint64_t first, n, done = 0;
    for (uint64_t i = 0; gg_compare_run(&p->cut, k, i, &first, &n); i++, done += n)
        gg_column_weights_add(&p->weights, first, a + done, b + done, (size_t)n, sums);
}

double gg_damage_ratio(double error2, double energy2)
{
    return energy2 > 0 ? error2 / energy2 : error2 > 0 ? 1.0 : 0.0;
}

void gg_damage_of(const compare_pair *p, const double sums[2], gg_compare_row *row)
{
    row->damage = NAN;
    if (!row->measured || !gg_column_weights_any(&p->weights)) return;
    row->energy2 = sums[0];
    row->error2 = sums[1];
    row->damage = gg_damage_ratio(row->error2, row->energy2);
}

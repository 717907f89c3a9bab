/* compare.c - the distance between two tensors. */
#include "numeric.h"

#include <math.h>

static void next_of_arrays(void *ctx, size_t at, size_t n, const float *x[2])
{
    const float *const *arrays = ctx;
    (void)n;
    for (int k = 0; k < 2; k++) x[k] = arrays[k] + at;
}

void gg_compare_add(gg_compare *acc, const float *a, const float *b, size_t n)
{
    const float *arrays[2] = { a, b };
    GG_PICK(gg_compare_read)(acc, next_of_arrays, arrays, n, false);
}

void gg_compare_merge(gg_compare *acc, const gg_compare *next)
{
    acc->n += next->n;
    acc->nonfinite += next->nonfinite;
    acc->differing += next->differing;
    acc->dot += next->dot;
    acc->aa += next->aa;
    acc->bb += next->bb;
    acc->diff2 += next->diff2;
    if (next->maxabs > acc->maxabs) acc->maxabs = next->maxabs;
}

gg_compare_result gg_compare_finish(const gg_compare *acc)
{
    gg_compare_result r = { 1.0, 0.0, acc->maxabs, acc->differing == 0 };
    if (acc->aa > 0 && acc->bb > 0) {
        double c = acc->dot / (sqrt(acc->aa) * sqrt(acc->bb));
        r.cosine = c > 1 ? 1 : c < -1 ? -1 : c;
        r.rel_l2 = sqrt(acc->diff2 / acc->aa);
    } else if (acc->aa > 0 || acc->bb > 0) {
        r.cosine = 0.0;
        r.rel_l2 = 1.0;
    }
    return r;
}

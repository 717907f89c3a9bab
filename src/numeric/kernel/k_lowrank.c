/* k_lowrank.c - dot products and differences of vectors. */
#include "numeric/lowrank_kernel.h"

#include "numeric/nlanes.h"

double GG_K(gg_nk_dot)(const float *a, const float *b, size_t n)
{
    gg_nk_acc sum = { { { 0 }, { 0 } } };
    size_t i = 0;
    for (; i + NK_LANES <= n; i += NK_LANES) {
#pragma GCC unroll 2
        for (size_t h = 0; h < 2; h++) {
            gg_nk_f32x4 va, vb;
            NK_LOAD4(va, a + i + 4 * h);
            NK_LOAD4(vb, b + i + 4 * h);
            sum.half[h] += NK_WIDE(va) * NK_WIDE(vb);
        }
    }
    double rest = 0;
    for (; i < n; i++) rest += (double)a[i] * (double)b[i];
    return gg_nk_fold(&sum) + rest;
}

void GG_K(gg_nk_subtract)(float *to, const float *from, double factor, size_t n)
{
    for (size_t i = 0; i < n; i++) to[i] = (float)((double)to[i] - factor * (double)from[i]);
}

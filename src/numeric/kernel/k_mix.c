/* k_mix.c - counts values by their magnitude. */
#include "numeric/numeric.h"

#include "numeric/nlanes.h"

#define GROUPS 4

/* The bits of magnitudes sort like the magnitudes. */
size_t GG_K(gg_mix_beyond)(const float *x, size_t n, float limit)
{
    const int32_t most = (int32_t)gg_float_bits(limit) - 1;
    const gg_i32x8 most8 = { most, most, most, most, most, most, most, most };
    size_t total = 0, i = 0;
    while (n - i >= 8 * GROUPS) {
        gg_i32x8 beyond[GROUPS] = { { 0 } };
        size_t end = n - i < 1u << 20 ? n : i + (1u << 20);
        for (; i + 8 * GROUPS <= end; i += 8 * GROUPS) {
            GG_UNROLL(4)
            for (size_t g = 0; g < GROUPS; g++) {
                gg_i32x8 v;
                memcpy(&v, x + i + 8 * g, sizeof v);
                beyond[g] -= NK_COMPARE8(i, v & 0x7fffffff, >, most8);
            }
        }
        for (size_t g = 0; g < GROUPS; g++)
            for (size_t l = 0; l < 8; l++) total += (size_t)beyond[g][l];
    }
    for (; i < n; i++) total += (int32_t)(gg_float_bits(x[i]) & 0x7fffffff) > most;
    return total;
}

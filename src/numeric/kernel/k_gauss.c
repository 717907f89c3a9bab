/* k_gauss.c - the arithmetic of the polar method, for many pairs at once. */
#include "numeric/nkernel.h"
#include "numeric/ownmath.h"

#include <math.h>

/* Numbers below 2^51 become doubles by addition, because AVX2 converts no integers of 64 bits. */
#define MAGIC 0x1.8p52
#define MAGIC_BITS UINT64_C(0x4338000000000000)

/* own_log, with the same operations in the same order, so that the bits are the same. */
static inline double log_of(double x)
{
    uint64_t u, e;
    double octaves, m;
    memcpy(&u, &x, sizeof u);
    uint64_t shifted = u - UINT64_C(0x3fe6a09e667f3bcd);
    e = ((shifted >> 52 ^ 2048) - 2048) + MAGIC_BITS; /* the upper 12 bits are signed */
    memcpy(&octaves, &e, sizeof octaves);
    u -= shifted & UINT64_C(0xfff0000000000000);
    memcpy(&m, &u, sizeof m);
    return own_log_of(octaves - MAGIC, m);
}

void GG_K(gg_nk_polar)(const double *u, const double *v, const double *s, size_t n, float *out)
{
    double f[GG_POLAR_MOST];
    for (size_t i = 0; i < n; i++) f[i] = sqrt(-2.0 * log_of(s[i]) / s[i]);
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = (float)(u[i] * f[i]);
        out[2 * i + 1] = (float)(v[i] * f[i]);
    }
}

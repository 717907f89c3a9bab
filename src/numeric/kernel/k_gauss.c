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

/* Maps 32 bits to the midpoint of one of 2^32 cells of (-1, 1). The result is symmetric and never
 * 0. */
static inline double uniform(uint64_t bits)
{
    double x;
    bits |= UINT64_C(0x4330000000000000); /* 2^52 + bits */
    memcpy(&x, &bits, sizeof x);
    return (x - 0x1p52 + 0.5) * 0x1p-31 - 1.0;
}

/* The coordinates of pairs, and u^2 + v^2. */
typedef struct points {
    double u[GG_POLAR_MOST], v[GG_POLAR_MOST], s[GG_POLAR_MOST];
} points;

__attribute__((noinline)) static void find_points(const uint64_t *pairs, size_t n, points *p)
{
    for (size_t i = 0; i < n; i++) {
        double u = uniform(pairs[i] >> 32), v = uniform(pairs[i] & UINT32_MAX);
        p->u[i] = u;
        p->v[i] = v;
        p->s[i] = u * u + v * v;
    }
}

size_t GG_K(gg_nk_in_disc)(const uint64_t *tries, size_t n, uint64_t *pairs)
{
    points p;
    size_t k = 0;
    find_points(tries, n, &p);
    for (size_t i = 0; i < n; i++) {
        pairs[k] = tries[i];
        k += p.s[i] < 1.0; /* no branch can foresee this */
    }
    return k;
}

void GG_K(gg_nk_polar)(const uint64_t *pairs, size_t n, float *out)
{
    points p;
    double f[GG_POLAR_MOST];
    find_points(pairs, n, &p);
    for (size_t i = 0; i < n; i++) f[i] = sqrt(-2.0 * log_of(p.s[i]) / p.s[i]);
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = (float)(p.u[i] * f[i]);
        out[2 * i + 1] = (float)(p.v[i] * f[i]);
    }
}

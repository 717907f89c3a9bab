/* gauss.c - deterministic Gaussian noise, the null model.
 *
 * Marsaglia's polar method takes (u, v) uniform in the unit disc. With s = u^2 + v^2 and
 * f = sqrt(-2 ln s / s), u f and v f are two independent Gaussians. Uniform numbers come from
 * xoshiro256++ (Blackman and Vigna), seeded by splitmix64. Only + - * / and sqrt are used, which
 * IEEE 754 rounds correctly, so the bits are the same on every machine.
 */
#include "nkernel.h"

#include <string.h>

typedef struct xoshiro {
    uint64_t s[4];
} xoshiro;

static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

static uint64_t next(xoshiro *g)
{
    uint64_t *s = g->s, result = rotate_left(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

/* Maps 32 bits to the midpoint of one of 2^32 cells of (-1, 1). The result is symmetric and never
 * 0. */
static double uniform(uint32_t bits)
{
    return ((double)bits + 0.5) * 0x1p-31 - 1.0;
}

void gg_gauss_fill(float *out, size_t n, uint64_t seed)
{
    xoshiro g;
    double u[GG_POLAR_MOST + 1], v[GG_POLAR_MOST + 1], s[GG_POLAR_MOST + 1];
    float last[2 * GG_POLAR_MOST] = { 0 };
    for (int i = 0; i < 4; i++) g.s[i] = splitmix(&seed);
    for (size_t i = 0, pairs; i < n; i += 2 * pairs) {
        pairs = n - i < 2 * GG_POLAR_MOST ? (n - i + 1) / 2 : GG_POLAR_MOST;
        for (size_t k = 0; k < pairs; k += s[k] < 1.0) { /* no branch can foresee this */
            uint64_t r = next(&g);
            u[k] = uniform((uint32_t)(r >> 32)), v[k] = uniform((uint32_t)r);
            s[k] = u[k] * u[k] + v[k] * v[k];
        }
        bool all = n - i >= 2 * pairs;
        GG_PICK(gg_nk_polar)(u, v, s, pairs, all ? out + i : last);
        if (!all) memcpy(out + i, last, (n - i) * sizeof *out);
    }
}

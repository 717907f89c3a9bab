/* gauss.c - deterministic Gaussian noise, the null model.
 *
 * Marsaglia's polar method takes (u, v) uniform in the unit disc. With s = u^2 + v^2 and
 * f = sqrt(-2 ln s / s), u f and v f are two independent Gaussians. Uniform numbers come from
 * xoshiro256++ (Blackman and Vigna), seeded by splitmix64. Only + - * / and sqrt are used, which
 * IEEE 754 rounds correctly, so the bits are the same on every machine.
 */
#include "nkernel.h"

#include <string.h>

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

static uint64_t next(gg_gauss *g)
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

gg_gauss gg_gauss_start(uint64_t seed)
{
    gg_gauss g;
    for (int i = 0; i < 4; i++) g.s[i] = splitmix(&seed);
    return g;
}

/* A try gives one pair or none, so that as many tries as pairs are missing are not too many. */
void gg_gauss_draw(gg_gauss *g, size_t n, uint64_t *pairs)
{
    gg_gauss own = *g;
    uint64_t tries[GG_POLAR_MOST];
    for (size_t k = 0; k < n;) {
        size_t most = n - k < GG_POLAR_MOST ? n - k : GG_POLAR_MOST;
        for (size_t i = 0; i < most; i++) tries[i] = next(&own);
        k += GG_PICK(gg_nk_in_disc)(tries, most, pairs + k);
    }
    *g = own;
}

void gg_gauss_values(const uint64_t *pairs, float *out, size_t n)
{
    float last[2 * GG_POLAR_MOST] = { 0 };
    for (size_t i = 0; i < n; i += 2 * GG_POLAR_MOST) {
        size_t left = n - i < 2 * GG_POLAR_MOST ? n - i : 2 * GG_POLAR_MOST;
        GG_PICK(gg_nk_polar)(pairs + i / 2, (left + 1) / 2, left % 2 ? last : out + i);
        if (left % 2) memcpy(out + i, last, left * sizeof *out);
    }
}

void gg_gauss_fill(float *out, size_t n, uint64_t seed)
{
    uint64_t pairs[GG_POLAR_MOST];
    gg_gauss g = gg_gauss_start(seed);
    for (size_t i = 0; i < n; i += 2 * GG_POLAR_MOST) {
        size_t left = n - i < 2 * GG_POLAR_MOST ? n - i : 2 * GG_POLAR_MOST;
        gg_gauss_draw(&g, (left + 1) / 2, pairs);
        gg_gauss_values(pairs, out + i, left);
    }
}

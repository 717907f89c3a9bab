/* k_moments.c - sums, range, histogram and gaps: one pass each over the values. */
#include "../nkernel.h"

#include <string.h>

#define EXPONENT 0x7f800000u

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static double fold(const double *lane)
{
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

size_t GG_K(nk_nonfinite)(const float *x, size_t n)
{
    size_t total = 0;
    while (n) {
        size_t run = n < 1u << 20 ? n : 1u << 20;
        uint32_t count = 0;
        for (size_t i = 0; i < run; i++) count += (bits_of(x[i]) & EXPONENT) == EXPONENT;
        total += count;
        x += run;
        n -= run;
    }
    return total;
}

nk_range GG_K(nk_range)(const float *x, size_t n)
{
    double sum[NK_LANES] = { 0 };
    float lo[NK_LANES], hi[NK_LANES];
    for (int l = 0; l < NK_LANES; l++) lo[l] = hi[l] = x[0];
    size_t i = 0;
    for (; i + NK_LANES <= n; i += NK_LANES) {
        for (int l = 0; l < NK_LANES; l++) {
            float v = x[i + (size_t)l];
            sum[l] += (double)v;
            lo[l] = v < lo[l] ? v : lo[l];
            hi[l] = v > hi[l] ? v : hi[l];
        }
    }
    for (int l = 0; i < n; i++, l++) {
        sum[l] += (double)x[i];
        lo[l] = x[i] < lo[l] ? x[i] : lo[l];
        hi[l] = x[i] > hi[l] ? x[i] : hi[l];
    }
    nk_range r = { fold(sum), lo[0], hi[0] };
    for (int l = 1; l < NK_LANES; l++) {
        r.min = lo[l] < r.min ? lo[l] : r.min;
        r.max = hi[l] > r.max ? hi[l] : r.max;
    }
    return r;
}

nk_central GG_K(nk_central)(const float *x, size_t n, double mean)
{
    double s2[NK_LANES] = { 0 }, s4[NK_LANES] = { 0 };
    size_t i = 0;
    for (; i + NK_LANES <= n; i += NK_LANES) {
        for (int l = 0; l < NK_LANES; l++) {
            double d = (double)x[i + (size_t)l] - mean, d2 = d * d;
            s2[l] += d2;
            s4[l] += d2 * d2;
        }
    }
    for (int l = 0; i < n; i++, l++) {
        double d = (double)x[i] - mean, d2 = d * d;
        s2[l] += d2;
        s4[l] += d2 * d2;
    }
    return (nk_central){ fold(s2), fold(s4) };
}

/* Four tables, so that a run of equal values does not wait for its own counter;
 * one slot more than bins for x = max, which belongs to the last bin. */
#define TABLES 4
#define SLOTS (GG_DIM_BINS_MAX + 1)
#define HIST_RUN (1u << 22) /* 32-bit counters cannot overflow in a run */

static void count_run(const float *x, size_t n, double min, double range, uint32_t *table)
{
    int32_t at[256];
    size_t i = 0;
    for (; i + 256 <= n; i += 256) {
        for (size_t j = 0; j < 256; j++)
            at[j] = (int32_t)(((double)x[i + j] - min) / range * (double)GG_DIM_BINS_MAX);
        for (size_t j = 0; j < 256; j += TABLES)
            for (int t = 0; t < TABLES; t++) table[t * SLOTS + at[j + (size_t)t]]++;
    }
    for (; i < n; i++) table[(int32_t)(((double)x[i] - min) / range * (double)GG_DIM_BINS_MAX)]++;
}

void GG_K(nk_histogram)(const float *x, size_t n, double min, double range, uint64_t *counts)
{
    uint32_t table[TABLES * SLOTS];
    while (n) {
        size_t run = n < HIST_RUN ? n : HIST_RUN;
        memset(table, 0, sizeof table);
        count_run(x, run, min, range, table);
        for (size_t b = 0; b < SLOTS; b++)
            for (size_t t = 0; t < TABLES; t++)
                counts[b < GG_DIM_BINS_MAX ? b : GG_DIM_BINS_MAX - 1] += table[t * SLOTS + b];
        x += run;
        n -= run;
    }
}

/* Negative floats order backwards: flip all their bits; for others the sign. */
void GG_K(nk_keys)(const float *x, size_t n, nk_key *keys)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t u = bits_of(x[i]);
        keys[i] = u ^ ((uint32_t)((int32_t)u >> 31) | 0x80000000u);
    }
}

static float unkey(uint32_t k)
{
    uint32_t u = k ^ (~(uint32_t)((int32_t)k >> 31) | 0x80000000u);
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

void GG_K(nk_unkeys)(const nk_key *keys, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++) x[i] = unkey(keys[i]);
}

double GG_K(nk_gaps)(const nk_key *keys, size_t n, double mean_gap)
{
    double sum[NK_LANES] = { 0 };
    size_t i = 0;
    for (; i + NK_LANES < n; i += NK_LANES) {
        for (int l = 0; l < NK_LANES; l++) {
            double gap = (double)unkey(keys[i + (size_t)l + 1]) - (double)unkey(keys[i + (size_t)l]);
            sum[l] += (gap - mean_gap) * (gap - mean_gap);
        }
    }
    for (int l = 0; i + 1 < n; i++, l++) {
        double gap = (double)unkey(keys[i + 1]) - (double)unkey(keys[i]);
        sum[l] += (gap - mean_gap) * (gap - mean_gap);
    }
    return fold(sum);
}

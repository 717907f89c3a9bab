/* k_count.c - histograms and counters of values that are not sorted. */
#include "base/float_bits.h"
#include "measure/float_set.h"

#include <string.h>

/* Four tables, so that equal values in a row do not wait for the same counter. Each has one extra
 * slot for x = max, which belongs to the last bin. */
#define TABLES 4
#define SLOTS (GG_DIM_BINS_MAX + 1)
#define HIST_RUN (1u << 22) /* values per run, so that 32-bit counters cannot overflow */

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

void GG_K(gg_nk_histogram)(const float *x, size_t n, double min, double range, uint64_t *counts)
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

void GG_K(gg_nk_count_buckets)(const float *x, size_t n, uint32_t *counts)
{
    size_t i = 0;
    for (; i + GG_BUCKET_TABLES <= n; i += GG_BUCKET_TABLES) {
        GG_UNROLL(4)
        for (size_t t = 0; t < GG_BUCKET_TABLES; t++)
            counts[t * GG_FLOAT_BUCKETS + GG_FLOAT_BUCKET(gg_float_bits(x[i + t]))]++;
    }
    for (; i < n; i++) counts[GG_FLOAT_BUCKET(gg_float_bits(x[i]))]++;
}

void GG_K(gg_nk_count_codes)(const uint16_t *codes, size_t n, uint32_t *counts)
{
    GG_UNROLL(8)
    for (size_t i = 0; i < n; i++) counts[codes[i]]++;
}

/* The signs are equal, so that the bits compare like signed integers too. */
size_t GG_K(gg_nk_count_from)(const float *x, size_t n, uint32_t from)
{
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++) count += (int32_t)gg_float_bits(x[i]) >= (int32_t)from;
    return count;
}

/* k_moments.c - sums, range, histogram of sorted values and gaps, each in one pass over the values;
 * products of vectors. */
#include "numeric/nlanes.h"

#if defined(__aarch64__) && !defined(GG_NO_NEON)
#define NK_NEON 1
#include <arm_neon.h>
#endif

#include "numeric/numeric.h"

/* Doubles that fit into a register: gcc keeps wider vectors in memory on aarch64, even in loops. */
#ifdef NK_NEON
#define REG 2
#else
#define REG 4
#endif
typedef float reg_f32 __attribute__((vector_size(4 * REG), aligned(4), __may_alias__));
typedef double reg_f64 __attribute__((vector_size(8 * REG)));
#if GG_LEVEL == 1
#define REG_WIDE(v) NK_WIDE(v)
#elif defined(NK_NEON) /* gcc 12 widens value by value otherwise */
#define REG_WIDE(v) ((reg_f64)vcvt_f64_f32((float32x2_t)(v)))
#else
#define REG_WIDE(v) __builtin_convertvector(v, reg_f64)
#endif
#define REGS (NK_LANES / REG) /* for eight lanes */

static double fold_regs(const reg_f64 sum[REGS])
{
    gg_nk_acc acc;
    memcpy(&acc, sum, sizeof acc);
    return gg_nk_fold(&acc);
}

static inline reg_f64 load_wide(const float *x)
{
    return REG_WIDE(*(const reg_f32 *)x);
}

/* Adds eight values. */
static inline void add_values(reg_f64 sum[REGS], const float *x)
{
    GG_UNROLL(4)
    for (size_t r = 0; r < REGS; r++) sum[r] += load_wide(x + REG * r);
}

/* Loads the last values of a run, fewer than eight, and fills up with `fill`. */
static void load_rest(float rest[NK_LANES], const float *x, size_t n, float fill)
{
    for (size_t l = 0; l < NK_LANES; l++) rest[l] = l < n ? x[l] : fill;
}

gg_nk_range GG_K(gg_nk_range)(const float *x, size_t n)
{
    reg_f64 sum[REGS] = { { 0 } };
    float rest[NK_LANES], lane[2][NK_LANES];
    gg_nk_f32x4 lo[2], hi[2];
    GG_UNROLL(2)
    for (int h = 0; h < 2; h++) lo[h] = hi[h] = (gg_nk_f32x4){ x[0], x[0], x[0], x[0] };
    for (size_t i = 0; i + NK_LANES <= n; i += NK_LANES) {
        add_values(sum, x + i);
        GG_UNROLL(2)
        for (size_t h = 0; h < 2; h++) {
            gg_nk_f32x4 v = NK_AT4(x + i + 4 * h);
            lo[h] = NK_SELECT4(v < lo[h], v, lo[h]);
            hi[h] = NK_SELECT4(v > hi[h], v, hi[h]);
        }
    }
    load_rest(rest, x + n / NK_LANES * NK_LANES, n % NK_LANES, 0.0f);
    add_values(sum, rest);
    memcpy(lane[0], lo, sizeof lo);
    memcpy(lane[1], hi, sizeof hi);
    gg_nk_range r = { fold_regs(sum), x[0], x[0] };
    for (size_t l = 0; l < NK_LANES; l++) {
        r.min = lane[0][l] < r.min ? lane[0][l] : r.min;
        r.max = lane[1][l] > r.max ? lane[1][l] : r.max;
    }
    for (size_t i = n / NK_LANES * NK_LANES; i < n; i++) {
        r.min = x[i] < r.min ? x[i] : r.min;
        r.max = x[i] > r.max ? x[i] : r.max;
    }
    return r;
}

/* Adds the second and fourth powers of eight values. Lanes from `used` on are ignored. */
static inline void add_central(reg_f64 s2[REGS], reg_f64 s4[REGS], const float *x, double mean,
                               size_t used)
{
    GG_UNROLL(4)
    for (size_t r = 0; r < REGS; r++) {
        reg_f64 d = load_wide(x + REG * r) - mean;
        if (used < NK_LANES)
            for (size_t l = 0; l < REG; l++) d[l] = REG * r + l < used ? d[l] : 0.0;
        reg_f64 d2 = d * d;
        s2[r] += d2;
        s4[r] += d2 * d2;
    }
}

gg_nk_central GG_K(gg_nk_central)(const float *x, size_t n, double mean)
{
    reg_f64 s2[REGS] = { { 0 } }, s4[REGS] = { { 0 } };
    float rest[NK_LANES];
    size_t i = 0;
    GG_UNROLL(4)
    for (; i + NK_LANES <= n; i += NK_LANES) add_central(s2, s4, x + i, mean, NK_LANES);
    load_rest(rest, x + i, n - i, 0.0f);
    add_central(s2, s4, rest, mean, n - i);
    return (gg_nk_central){ fold_regs(s2), fold_regs(s4) };
}

/* The bits of negative floats sort backwards, so all bits are flipped. For others only the sign bit
 * is flipped. */
void GG_K(gg_nk_keys)(const float *x, size_t n, gg_nk_key *keys)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t u = gg_float_bits(x[i]);
        keys[i] = u ^ ((uint32_t)((int32_t)u >> 31) | 0x80000000u);
    }
}

gg_nk_bounds GG_K(gg_nk_magnitudes)(const gg_nk_key *keys, size_t n)
{
    gg_nk_bounds b = { 0, UINT32_MAX, 0 };
    for (size_t i = 0; i < n; i++) {
        uint32_t negative = (uint32_t)((int32_t)~keys[i] >> 31);
        uint32_t m = (keys[i] ^ negative) & 0x7fffffffu;
        b.bits |= m;
        b.low = m - 1 < b.low ? m - 1 : b.low;
        b.high = m > b.high ? m : b.high;
    }
    return b;
}

void GG_K(gg_nk_fold_keys)(gg_nk_key *keys, size_t n, uint32_t low, uint32_t base)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t negative = (uint32_t)((int32_t)~keys[i] >> 31);
        uint32_t m = (keys[i] ^ negative) & 0x7fffffffu;
        keys[i] = ((0x80000000u | (m ? m - low : 0)) ^ negative) - base;
    }
}

void GG_K(gg_nk_unfold_keys)(gg_nk_key *keys, size_t n, uint32_t low, uint32_t base)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t key = keys[i] + base, negative = (uint32_t)((int32_t)~key >> 31);
        uint32_t m = (key ^ negative) & 0x7fffffffu;
        keys[i] = (0x80000000u | (m ? m + low : 0)) ^ negative;
    }
}

size_t GG_K(gg_nk_descent)(const gg_nk_key *keys, size_t from, size_t n)
{
    size_t i = from;
    for (uint32_t any = 0; i + 16 <= n; i += 16) {
        for (size_t j = i; j < i + 16; j++) any |= keys[j] < keys[j - 1];
        if (any) break;
    }
    while (i < n && keys[i] >= keys[i - 1]) i++;
    return i;
}

static float unkey(uint32_t k)
{
    uint32_t u = k ^ (~(uint32_t)((int32_t)k >> 31) | 0x80000000u);
    return gg_bits_float(u);
}

static inline int32_t bin_of(gg_nk_key key, double min, double range)
{
    const int32_t last = GG_DIM_BINS_MAX - 1;
    int32_t bin = (int32_t)(((double)unkey(key) - min) / range * (double)GG_DIM_BINS_MAX);
    return bin < last ? bin : last;
}

#define GROUP 8 /* sorted keys, which mostly lie in one bin: that of the first is enough */
#define GROUPS 64

void GG_K(gg_nk_histogram_sorted)(const gg_nk_key *keys, size_t n, double min, double range,
                                  uint64_t *counts)
{
    gg_nk_key first[GROUPS + 1];
    int32_t at[GROUPS + 1];
    for (size_t groups; n >= GROUP; n -= GROUP * groups, keys += GROUP * groups) {
        groups = n / GROUP < GROUPS ? n / GROUP : GROUPS;
        for (size_t g = 0; g < groups; g++) first[g] = keys[GROUP * g];
        first[groups] = keys[GROUP * groups < n ? GROUP * groups : n - 1];
        for (size_t g = 0; g <= groups; g++) at[g] = bin_of(first[g], min, range);
        for (size_t g = 0; g < groups; g++) {
            const gg_nk_key *group = keys + GROUP * g;
            if (at[g] == at[g + 1]) {
                counts[at[g]] += GROUP;
                continue;
            }
            int32_t bins[GROUP];
            for (size_t j = 0; j < GROUP; j++) bins[j] = bin_of(group[j], min, range);
            for (size_t j = 0; j < GROUP; j++) counts[bins[j]]++;
        }
    }
    for (size_t j = 0; j < n; j++) counts[bin_of(keys[j], min, range)]++;
}

/* Keys per run when computing gaps: first the floats are restored, then neighbours subtracted. */
#define GAP_RUN 256

double GG_K(gg_nk_gaps)(const gg_nk_key *keys, size_t n, double mean_gap)
{
    reg_f64 sum[REGS] = { { 0 } };
    float run[GAP_RUN + 1];
    double rest = 0;
    for (size_t i = 0; i + 1 < n; i += GAP_RUN) {
        size_t gaps = n - 1 - i < GAP_RUN ? n - 1 - i : GAP_RUN;
        for (size_t j = 0; j <= gaps; j++) run[j] = unkey(keys[i + j]);
        size_t j = 0;
        for (; j + NK_LANES <= gaps; j += NK_LANES) {
            GG_UNROLL(4)
            for (size_t r = 0; r < REGS; r++) {
                reg_f64 d = load_wide(run + j + REG * r + 1) - load_wide(run + j + REG * r) -
                            mean_gap;
                sum[r] += d * d;
            }
        }
        for (; j < gaps; j++) {
            double d = (double)run[j + 1] - (double)run[j] - mean_gap;
            rest += d * d;
        }
    }
    return fold_regs(sum) + rest;
}

/* ---- vectors ------------------------------------------------------------------------ */

double GG_K(gg_nk_dot)(const float *a, const float *b, size_t n)
{
    reg_f64 sum[REGS] = { { 0 } };
    size_t i = 0;
    for (; i + NK_LANES <= n; i += NK_LANES) {
        GG_UNROLL(4)
        for (size_t r = 0; r < REGS; r++)
            sum[r] += load_wide(a + i + REG * r) * load_wide(b + i + REG * r);
    }
    double rest = 0;
    for (; i < n; i++) rest += (double)a[i] * (double)b[i];
    return fold_regs(sum) + rest;
}

void GG_K(gg_nk_subtract)(float *to, const float *from, double factor, size_t n)
{
    for (size_t i = 0; i < n; i++) to[i] = (float)((double)to[i] - factor * (double)from[i]);
}

/* k_haar.c - one scale of the Haar transform, damping, subtraction and the affine map. */
#include "numeric/haar_core.h"

#include "numeric/nlanes.h"

#define ROOT_HALF 0.707106781186547524f

void GG_K(gg_nk_haar_split)(const float *restrict x, size_t pairs, float *restrict sum,
                            float *restrict detail)
{
    for (size_t i = 0; i < pairs; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        sum[i] = (a + b) * ROOT_HALF;
        detail[i] = (a - b) * ROOT_HALF;
    }
}

void GG_K(gg_nk_haar_merge)(const float *restrict sum, const float *restrict detail, size_t pairs,
                            float *restrict x)
{
    for (size_t i = 0; i < pairs; i++) {
        float a = (sum[i] + detail[i]) * ROOT_HALF, b = (sum[i] - detail[i]) * ROOT_HALF;
        x[2 * i] = a;
        x[2 * i + 1] = b;
    }
}

void GG_K(gg_nk_haar_subtract)(const float *restrict sum, const float *restrict detail,
                               size_t pairs, float *restrict x)
{
    for (size_t i = 0; i < pairs; i++) {
        x[2 * i] -= (sum[i] + detail[i]) * ROOT_HALF;
        x[2 * i + 1] -= (sum[i] - detail[i]) * ROOT_HALF;
    }
}

/* Eight lanes in registers: one of eight or two of four. Compilers that split vectors of eight
 * themselves spill most of them. */
#if GG_LEVEL == 0
typedef gg_nk_f32x4 vec;
typedef gg_nk_i32x4 ivec;
#define WIDTH 4
#else
typedef gg_f32x8 vec;
typedef gg_i32x8 ivec;
#define WIDTH 8
#endif

typedef struct lanes {
    vec v[8 / WIDTH];
} lanes;

/* Sums of squares are computed in float lanes within a short run and in double across runs. The
 * relative error is below 1e-6, at half the cost. */
#define RUN 256

/* ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)) */
static inline __attribute__((always_inline)) double fold_float(const void *v)
{
    gg_nk_f32x4 low, high;
    NK_LOAD4(low, v);
    memcpy(&high, (const float *)v + 4, sizeof high);
    gg_nk_f64x4 s = NK_WIDE(low) + NK_WIDE(high);
    return (s[0] + s[2]) + (s[1] + s[3]);
}

double GG_K(gg_nk_energy)(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i += RUN) {
        size_t run = n - i < RUN ? n - i : RUN, j = 0;
        gg_f32x8 s = { 0 }, v;
        for (; j + 8 <= run; j += 8) {
            memcpy(&v, x + i + j, sizeof v);
            s += v * v;
        }
        if (j < run) {
            v = (gg_f32x8){ 0 };
            memcpy(&v, x + i + j, (run - j) * sizeof *x);
            s += v * v;
        }
        sum += fold_float(&s);
    }
    return sum;
}

#if NK_SHUFFLE && WIDTH == 4
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#elif NK_SHUFFLE
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#endif

/* Splits eight pairs: writes their sums and adds the squares of their details to the lanes. */
static inline void split8(const float *x, float *sum, lanes *squares)
{
    for (size_t k = 0; k < 8; k += WIDTH) {
        vec even, odd;
#if NK_SHUFFLE
        vec a, b;
        memcpy(&a, x + 2 * k, sizeof a);
        memcpy(&b, x + 2 * k + WIDTH, sizeof b);
        even = EVEN(a, b);
        odd = ODD(a, b);
#else
        even = odd = (vec){ 0 };
        for (size_t i = 0; i < WIDTH; i++) even[i] = x[2 * (k + i)], odd[i] = x[2 * (k + i) + 1];
#endif
        vec s = (even + odd) * ROOT_HALF, d = (even - odd) * ROOT_HALF;
        squares->v[k / WIDTH] += d * d;
        memcpy(sum + k, &s, sizeof s);
    }
}

/* Fewer than eight pairs, as at the coarsest scales of each tile. */
static inline void split_rest(const float *x, size_t pairs, float *sum, lanes *squares)
{
    float lane[8];
    memcpy(lane, squares, sizeof lane);
    for (size_t i = 0; i < pairs; i++) {
        float d = (x[2 * i] - x[2 * i + 1]) * ROOT_HALF;
        sum[i] = (x[2 * i] + x[2 * i + 1]) * ROOT_HALF;
        lane[i] += d * d;
    }
    memcpy(squares, lane, sizeof lane);
}

double GG_K(gg_nk_haar_energy)(const float *x, size_t pairs, float *sum, const float *soon)
{
    double energy = 0;
    for (size_t i = 0; i < pairs; i += RUN) {
        size_t run = pairs - i < RUN ? pairs - i : RUN, j = 0;
        lanes squares = { { { 0 } } };
        for (; j + 8 <= run; j += 8) {
            if (soon) __builtin_prefetch(soon + 2 * (i + j));
            split8(x + 2 * (i + j), sum + i + j, &squares);
        }
        if (j < run) split_rest(x + 2 * (i + j), run - j, sum + i + j, &squares);
        energy += fold_float(&squares);
    }
    return energy;
}

/* Computes 1 - q = (max - min) / max of e and f without a branch: max is half of e + f + |e - f|.
 * The tiny term turns 0 / 0 into 0, which means agreement. The division overlaps with the other
 * operations; a reciprocal by Newton steps was measured to be slower. */
static inline void damp(float *d, const vec *p, const haar_damping *how, vec *rr, vec *dr)
{
    vec vd;
    memcpy(&vd, d, sizeof vd);
    vec a = vd * how->inv, b = *p * how->inv_parent, e = a * a, f = b * b;
    vec apart = (vec)((ivec)(e - f) & INT32_MAX);
    vec twice_max = ((e + f) + apart) + 1e-37f;
    vec r = vd * ((apart * (2.0f * how->gain)) / twice_max);
    *rr += r * r;
    *dr += vd * r;
    memcpy(d, &r, sizeof r);
}

/* Copies each parent to the lanes of its two children. */
static inline void spread(const float *parent, vec *low, vec *high)
{
#if NK_SHUFFLE
    vec p;
    memcpy(&p, parent, sizeof p);
#if WIDTH == 4
    *low = __builtin_shufflevector(p, p, 0, 0, 1, 1);
    *high = __builtin_shufflevector(p, p, 2, 2, 3, 3);
#else
    *low = __builtin_shufflevector(p, p, 0, 0, 1, 1, 2, 2, 3, 3);
    *high = __builtin_shufflevector(p, p, 4, 4, 5, 5, 6, 6, 7, 7);
#endif
#else
    *low = *high = (vec){ 0 };
    for (int i = 0; i < WIDTH / 2; i++) {
        (*low)[2 * i] = (*low)[2 * i + 1] = parent[i];
        (*high)[2 * i] = (*high)[2 * i + 1] = parent[WIDTH / 2 + i];
    }
#endif
}

/* Damps sixteen details of eight parents. Detail i adds to lane i mod 8. */
static inline void damp16(float *detail, const float *parent, const haar_damping *how, lanes *rr,
                          lanes *dr)
{
    vec low, high;
    for (size_t k = 0; k < 16; k += 2 * WIDTH) {
        size_t first = k % 8 / WIDTH, second = (k + WIDTH) % 8 / WIDTH;
        spread(parent + k / 2, &low, &high);
        damp(detail + k, &low, how, &rr->v[first], &dr->v[first]);
        damp(detail + k + WIDTH, &high, how, &rr->v[second], &dr->v[second]);
    }
}

/* Fewer than sixteen details. */
static inline void damp_rest(float *detail, const float *parent, size_t n, const haar_damping *how,
                             lanes *rr, lanes *dr)
{
    float lane_rr[8], lane_dr[8];
    memcpy(lane_rr, rr, sizeof lane_rr);
    memcpy(lane_dr, dr, sizeof lane_dr);
    for (size_t i = 0; i < n; i++) {
        float d = detail[i], a = d * how->inv, b = parent[i / 2] * how->inv_parent, e = a * a,
              f = b * b;
        float apart = gg_bits_float(gg_float_bits(e - f) & INT32_MAX);
        float r = d * ((apart * (2.0f * how->gain)) / (((e + f) + apart) + 1e-37f));
        lane_rr[i % 8] += r * r;
        lane_dr[i % 8] += d * r;
        detail[i] = r;
    }
    memcpy(rr, lane_rr, sizeof lane_rr);
    memcpy(dr, lane_dr, sizeof lane_dr);
}

void GG_K(gg_nk_haar_damp)(float *detail, const float *parent, size_t n, haar_damping how,
                           removal *sums, const float *soon)
{
    for (size_t i = 0; i < n; i += RUN) {
        size_t run = n - i < RUN ? n - i : RUN, j = 0;
        lanes rr = { { { 0 } } }, dr = { { { 0 } } };
        for (; j + 16 <= run; j += 16) {
            if (soon) {
                __builtin_prefetch(soon + 2 * (i + j));
                __builtin_prefetch(soon + 2 * (i + j) + 16);
            }
            damp16(detail + i + j, parent + (i + j) / 2, &how, &rr, &dr);
        }
        if (j < run) damp_rest(detail + i + j, parent + (i + j) / 2, run - j, &how, &rr, &dr);
        sums->rr += fold_float(&rr);
        sums->xr += fold_float(&dr);
    }
}

/* The sums of four values of x that are kept if all are finite. */
typedef struct removed {
    gg_nk_acc r, rr, xr;
} removed;

static inline void add_removed(removed *sums, int half, gg_nk_f32x4 v, gg_nk_f32x4 t, double mean)
{
    gg_nk_f64x4 d = NK_WIDE(t), u = NK_WIDE(v) - mean;
    sums->r.half[half] += d;
    sums->rr.half[half] += d * d;
    sums->xr.half[half] += u * d;
}

static inline void remove4(float *x, const float *r, double mean, removed *sums, int half)
{
    gg_nk_f32x4 v, t;
    NK_LOAD4(v, x);
    NK_LOAD4(t, r);
    gg_nk_i32x4 keep = NK_FINITE4(v);
    add_removed(sums, half, NK_AND4(v, keep), NK_AND4(t, keep), mean);
    v = NK_SELECT4(keep, v - t, v);
    memcpy(x, &v, sizeof v);
}

static inline void remove_finite4(float *x, const float *r, double mean, removed *sums, int half)
{
    gg_nk_f32x4 v, t;
    NK_LOAD4(v, x);
    NK_LOAD4(t, r);
    add_removed(sums, half, v, t, mean);
    v -= t;
    memcpy(x, &v, sizeof v);
}

void GG_K(gg_nk_remove)(float *x, const float *r, size_t n, const removal_of *of, removal *sums)
{
    removed s = { { { { 0 }, { 0 } } }, { { { 0 }, { 0 } } }, { { { 0 }, { 0 } } } };
    size_t i = 0;
    for (; of->finite && i + NK_LANES <= n; i += NK_LANES) {
        remove_finite4(x + i, r + i, of->mean, &s, 0);
        remove_finite4(x + i + 4, r + i + 4, of->mean, &s, 1);
    }
    for (; i + NK_LANES <= n; i += NK_LANES) {
        remove4(x + i, r + i, of->mean, &s, 0);
        remove4(x + i + 4, r + i + 4, of->mean, &s, 1);
    }
    for (; i < n; i += 4) {
        size_t left = n - i < 4 ? n - i : 4;
        float v[4] = { 0 }, t[4] = { 0 };
        memcpy(v, x + i, left * sizeof *v);
        memcpy(t, r + i, left * sizeof *t);
        remove4(v, t, of->mean, &s, 0);
        memcpy(x + i, v, left * sizeof *v);
    }
    sums->r += gg_nk_fold(&s.r);
    sums->rr += gg_nk_fold(&s.rr);
    sums->xr += gg_nk_fold(&s.xr);
}

/* The lanes of gg_nk_range and gg_nk_central. */
double GG_K(gg_nk_sum)(const float *x, size_t n, bool *finite)
{
    gg_nk_acc sum = { { { 0 }, { 0 } } };
    gg_nk_i32x4 good[2] = { ~(gg_nk_i32x4){ 0 }, ~(gg_nk_i32x4){ 0 } };
    for (size_t i = 0; i < n; i += NK_LANES) {
        float rest[NK_LANES] = { 0 };
        const float *from = x + i;
        if (n - i < NK_LANES) from = memcpy(rest, from, (n - i) * sizeof *x);
#pragma GCC unroll 2
        for (size_t h = 0; h < 2; h++) {
            gg_nk_f32x4 v;
            NK_LOAD4(v, from + 4 * h);
            good[h] &= NK_FINITE4(v);
            sum.half[h] += NK_WIDE(v);
        }
    }
    good[0] &= good[1];
    *finite = good[0][0] & good[0][1] & good[0][2] & good[0][3];
    return gg_nk_fold(&sum);
}

double GG_K(gg_nk_variance)(const float *x, size_t n, double mean)
{
    gg_nk_acc sum = { { { 0 }, { 0 } } };
    size_t i = 0;
    for (; i + NK_LANES <= n; i += NK_LANES) {
#pragma GCC unroll 2
        for (size_t h = 0; h < 2; h++) {
            gg_nk_f32x4 v;
            NK_LOAD4(v, x + i + 4 * h);
            gg_nk_f64x4 d = NK_WIDE(v) - mean;
            sum.half[h] += d * d;
        }
    }
    for (size_t l = 0; i < n; i++, l++)
        sum.half[l / 4][l % 4] += ((double)x[i] - mean) * ((double)x[i] - mean);
    return gg_nk_fold(&sum);
}

/* x + (x (scale - 1) + shift). The scale is near 1, so the correction is small and float is as
 * accurate as double here. */
static inline vec affine(vec v, float gain, float shift)
{
    vec y = v + (v * gain + shift);
    ivec finite = ((ivec)v & NK_EXPONENT) != NK_EXPONENT;
    return (vec)(((ivec)y & finite) | ((ivec)v & ~finite));
}

void GG_K(gg_nk_affine)(const float *x, float *out, size_t n, double scale, double shift)
{
    float gain = (float)(scale - 1.0), offset = (float)shift;
    size_t i = 0;
    vec v = { 0 };
    for (; i + WIDTH <= n; i += WIDTH) {
        memcpy(&v, x + i, sizeof v);
        v = affine(v, gain, offset);
        memcpy(out + i, &v, sizeof v);
    }
    memcpy(&v, x + i, (n - i) * sizeof *x);
    v = affine(v, gain, offset);
    memcpy(out + i, &v, (n - i) * sizeof *x);
}

/* k_purify.c - one scale of the Haar transform, damping, subtraction and the affine map. */
#include "numeric/purify.h"

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

/* Eight lanes in registers: one of eight or two of four. Compilers that split vectors of eight
 * themselves spill most of them. */
#if GG_LEVEL == 0
typedef gg_nk_f32x4 vec;
typedef gg_nk_i32x4 ivec;
#else
typedef gg_f32x8 vec;
typedef gg_i32x8 ivec;
#endif
#define WIDTH (sizeof(vec) / sizeof(float))

typedef struct lanes {
    vec v[8 / WIDTH];
} lanes;

/* Sums of squares are computed in float lanes within a short run and in double across runs. The
 * relative error is below 1e-6, at half the cost. */
#define SQUARES_RUN 256

/* ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)) */
static inline double fold_squares(const lanes *sums)
{
    gg_nk_f32x4 low, high;
    NK_LOAD4(low, sums);
    NK_LOAD4(high, (const char *)sums + sizeof low);
    gg_nk_f64x4 s = NK_WIDE(low) + NK_WIDE(high);
    return (s[0] + s[2]) + (s[1] + s[3]);
}

double GG_K(gg_nk_energy)(const float *x, size_t n)
{
    double sum = 0;
    lanes s = { { { 0 } } };
    for (size_t i = 0; i < n; i += 8) {
        lanes v = { { { 0 } } };
        if (n - i >= 8) memcpy(&v, x + i, sizeof v);
        else memcpy(&v, x + i, (n - i) * sizeof *x);
        for (size_t h = 0; h < 8 / WIDTH; h++) s.v[h] += v.v[h] * v.v[h];
        if (i + 8 < n && (i + 8) % SQUARES_RUN) continue;
        sum += fold_squares(&s);
        s = (lanes){ { { 0 } } };
    }
    return sum;
}

/* Damps eight details of four parents. Computes 1 - q = (max - min) / max of e and f without a
 * branch: max is half of e + f + |e - f|. The tiny term turns 0 / 0 into 0, which means
 * agreement. */
static inline void damp8(float *detail, const float *parent, const gg_damping *how, lanes *rr,
                         lanes *dr)
{
    float twice[8] = { parent[0], parent[0], parent[1], parent[1],
                       parent[2], parent[2], parent[3], parent[3] };
    for (size_t h = 0; h < 8 / WIDTH; h++) {
        vec d, p;
        memcpy(&d, detail + h * WIDTH, sizeof d);
        memcpy(&p, twice + h * WIDTH, sizeof p);
        vec a = d * how->inv, b = p * how->inv_parent, e = a * a, f = b * b;
        vec apart = (vec)((ivec)(e - f) & INT32_MAX);
        vec twice_max = ((e + f) + apart) + 1e-37f;
        vec r = d * ((apart * (2.0f * how->gain)) / twice_max);
        rr->v[h] += r * r;
        dr->v[h] += d * r;
        memcpy(detail + h * WIDTH, &r, sizeof r);
    }
}

void GG_K(gg_nk_haar_damp)(float *detail, const float *parent, size_t n, gg_damping how,
                           gg_removal *sums)
{
    lanes rr = { { { 0 } } }, dr = rr;
    for (size_t i = 0; i < n; i += 8) {
        if (n - i >= 8) {
            damp8(detail + i, parent + i / 2, &how, &rr, &dr);
        } else { /* zeros do not change the sums */
            float d[8] = { 0 }, p[4] = { 0 };
            memcpy(d, detail + i, (n - i) * sizeof *d);
            memcpy(p, parent + i / 2, (n - i + 1) / 2 * sizeof *p);
            damp8(d, p, &how, &rr, &dr);
            memcpy(detail + i, d, (n - i) * sizeof *d);
        }
        if (i + 8 < n && (i + 8) % SQUARES_RUN) continue;
        sums->rr += fold_squares(&rr);
        sums->xr += fold_squares(&dr);
        rr = dr = (lanes){ { { 0 } } };
    }
}

typedef struct removal_acc {
    gg_nk_acc r, rr, xr;
} removal_acc;

static inline void remove4(float *x, const float *r, double mean, removal_acc *sums, size_t h)
{
    gg_nk_f32x4 v, t;
    NK_LOAD4(v, x);
    NK_LOAD4(t, r);
    gg_nk_f64x4 d = NK_WIDE(t), u = NK_WIDE(v) - mean;
    sums->r.half[h] += d;
    sums->rr.half[h] += d * d;
    sums->xr.half[h] += u * d;
    v -= t;
    memcpy(x, &v, sizeof v);
}

void GG_K(gg_nk_remove)(float *x, const float *r, size_t n, double mean, gg_removal *sums)
{
    removal_acc s = { { { { 0 }, { 0 } } }, { { { 0 }, { 0 } } }, { { { 0 }, { 0 } } } };
    size_t i = 0;
    for (; i + NK_LANES <= n; i += NK_LANES) {
        remove4(x + i, r + i, mean, &s, 0);
        remove4(x + i + 4, r + i + 4, mean, &s, 1);
    }
    for (; i < n; i += 4) {
        size_t left = n - i < 4 ? n - i : 4;
        float v[4] = { 0 }, t[4] = { 0 };
        memcpy(v, x + i, left * sizeof *v);
        memcpy(t, r + i, left * sizeof *t);
        remove4(v, t, mean, &s, 0);
        memcpy(x + i, v, left * sizeof *v);
    }
    sums->r += gg_nk_fold(&s.r);
    sums->rr += gg_nk_fold(&s.rr);
    sums->xr += gg_nk_fold(&s.xr);
}

/* x + (x (scale - 1) + shift). The scale is near 1, so the correction is small and float is as
 * accurate as double here. */
void GG_K(gg_nk_affine)(float *x, size_t n, double scale, double shift)
{
    float gain = (float)(scale - 1.0), offset = (float)shift;
    for (size_t i = 0; i < n; i++) x[i] += x[i] * gain + offset;
}

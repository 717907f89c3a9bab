/* k_merge.c - the hot loops of merging.
 *
 * Loops over runs of fixed length keep their sums in registers and are vectorised. */
#include "numeric/merge.h"
#include "numeric/nlanes.h"

#include <string.h>

#define RUN 128

void GG_K(gg_mk_combine)(float *out, const float *base, float *const *x, const double *c,
                         size_t n_in, size_t n)
{
    for (size_t at = 0; at < n; at += RUN) {
        size_t m = n - at < RUN ? n - at : RUN;
        double sum[RUN] = { 0 };
        for (size_t i = 0; base && i < m; i++) sum[i] = (double)base[at + i];
        for (size_t k = 0; k < n_in; k++) {
            const float *v = x[k] + at;
            double w = c[k];
            for (size_t i = 0; i < m; i++) sum[i] += w * (double)v[i];
        }
        for (size_t i = 0; i < m; i++) out[at + i] = (float)sum[i];
    }
}

static double dot(const float *a, const float *b, size_t n)
{
    gg_nk_acc s;
    float rest_a[NK_LANES] = { 0 }, rest_b[NK_LANES] = { 0 };
    memset(&s, 0, sizeof s);
    size_t i = 0;
    for (; i + NK_LANES <= n; i += NK_LANES) {
#pragma GCC unroll 2
        for (size_t h = 0; h < 2; h++) {
            gg_nk_f32x4 va, vb;
            NK_LOAD4(va, a + i + 4 * h);
            NK_LOAD4(vb, b + i + 4 * h);
            s.half[h] += NK_WIDE(va) * NK_WIDE(vb);
        }
    }
    for (size_t l = 0; i + l < n; l++) {
        rest_a[l] = a[i + l];
        rest_b[l] = b[i + l];
    }
#pragma GCC unroll 2
    for (size_t h = 0; h < 2; h++) {
        gg_nk_f32x4 va, vb;
        NK_LOAD4(va, rest_a + 4 * h);
        NK_LOAD4(vb, rest_b + 4 * h);
        s.half[h] += NK_WIDE(va) * NK_WIDE(vb);
    }
    return gg_nk_fold(&s);
}

void GG_K(gg_mk_gram)(float *const *x, size_t n_in, size_t n, double *sums)
{
    for (size_t i = 0; i < n_in; i++)
        for (size_t j = i; j < n_in; j++) *sums++ += dot(x[i], x[j], n);
}

void GG_K(gg_mk_subtract)(float *x, const float *base, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] -= base[i];
}

void GG_K(gg_mk_nearswap)(float *out, const float *a, const float *b, float t, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float apart = gg_bits_float(gg_magnitude(a[i] - b[i]));
        float w = t / (apart > t ? apart : t);
        out[i] = w * b[i] + (1 - w) * a[i];
    }
}

void GG_K(gg_mk_band)(float *x, size_t n, uint32_t from, uint32_t to)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = gg_float_bits(x[i]), m = bits & 0x7fffffffu;
        /* magnitudes are below 2^31, so signed comparisons, which vectorise, are right */
        bool keep = (int32_t)m >= (int32_t)from && (int32_t)m < (int32_t)to;
        x[i] = gg_bits_float(keep ? bits : 0);
    }
}

gg_mk_norms GG_K(gg_mk_norms)(const float *x, size_t n)
{
    gg_nk_acc l1, l2;
    memset(&l1, 0, sizeof l1);
    memset(&l2, 0, sizeof l2);
    for (size_t i = 0; i < n; i += NK_LANES) {
        float part[NK_LANES] = { 0 };
        size_t m = n - i < NK_LANES ? n - i : NK_LANES;
        for (size_t l = 0; l < m; l++) part[l] = gg_bits_float(gg_magnitude(x[i + l]));
#pragma GCC unroll 2
        for (size_t h = 0; h < 2; h++) {
            gg_nk_f32x4 v;
            NK_LOAD4(v, part + 4 * h);
            gg_nk_f64x4 w = NK_WIDE(v);
            l1.half[h] += w;
            l2.half[h] += w * w;
        }
    }
    return (gg_mk_norms){ gg_nk_fold(&l1), gg_nk_fold(&l2) };
}

/* Sums over a run: all weighted values, the weighted values that agree, and their weights. */
typedef struct votes {
    float all[RUN], sum[RUN], share[RUN];
} votes;

static void count_votes(votes *v, float *const *d, size_t n_in, size_t at, size_t n,
                        const gg_consensus *how)
{
    memset(v, 0, sizeof *v);
    for (size_t k = 0; k < n_in; k++) {
        const float *x = d[k] + at;
        float by = how->unweighted ? 1 : how->w[k];
        for (size_t i = 0; i < n; i++) v->all[i] += by * x[i];
    }
    for (size_t k = 0; k < n_in; k++) {
        const float *x = d[k] + at;
        float w = how->w[k], by = how->unweighted ? 1 : w;
        for (size_t i = 0; i < n; i++) { /* masks of bits, because branches do not vectorise */
            float s = by * x[i];
            int32_t up = -(v->all[i] >= 0), more = -(s > 0), less = -(s < 0);
            uint32_t agrees = (uint32_t)((up & more) | (~up & less));
            v->sum[i] += gg_bits_float(gg_float_bits(w * x[i]) & agrees);
            v->share[i] += gg_bits_float(gg_float_bits(w) & agrees);
        }
    }
}

void GG_K(gg_mk_consensus)(float *out, const float *base, float *const *d, size_t n_in, size_t n,
                           const gg_consensus *how)
{
    votes v;
    for (size_t at = 0; at < n; at += RUN) {
        size_t m = n - at < RUN ? n - at : RUN;
        count_votes(&v, d, n_in, at, m, how);
        for (size_t i = 0; i < m && how->normalize; i++)
            v.sum[i] /= v.share[i] != 0 ? v.share[i] : 1;
        for (size_t i = 0; i < m; i++) out[at + i] = base[at + i] + v.sum[i] * how->scale;
    }
}

void GG_K(gg_mk_variances)(float *out, float *const *x, size_t n_in, size_t n)
{
    const double models = (double)n_in;
    for (size_t at = 0; at < n; at += RUN) {
        size_t m = n - at < RUN ? n - at : RUN;
        double mean[RUN] = { 0 }, sum[RUN] = { 0 };
        for (size_t k = 0; k < n_in; k++)
            for (size_t i = 0; i < m; i++) mean[i] += (double)x[k][at + i];
        for (size_t i = 0; i < m; i++) mean[i] /= models;
        for (size_t k = 0; k < n_in; k++)
            for (size_t i = 0; i < m; i++) {
                double d = (double)x[k][at + i] - mean[i];
                sum[i] += d * d;
            }
        for (size_t i = 0; i < m; i++) out[at + i] = (float)(sum[i] / models);
    }
}

void GG_K(gg_mk_keep_where)(float *x, const float *where, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t keep = (uint32_t) - (where[i] != 0);
        x[i] = gg_bits_float(gg_float_bits(x[i]) & keep);
    }
}

/* ---- random masks ------------------------------------------------------------------ */

void GG_K(gg_mk_random_keep)(float *x, size_t n, uint64_t key, uint64_t first, uint64_t limit)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t keep = (uint32_t) - (gg_random_bits(key, first + i) >> 11 < limit);
        x[i] = gg_bits_float(gg_float_bits(x[i]) & keep);
    }
}

/* ---- kept masks -------------------------------------------------------------------- */

static const gg_i32x8 bits = { 1, 2, 4, 8, 16, 32, 64, 128 };

static inline uint8_t pack_eight(const float *x)
{
    gg_f32x8 v;
    memcpy(&v, x, sizeof v);
    gg_i32x8 b = (v != 0) & bits;
    return (uint8_t)((b[0] | b[1]) | (b[2] | b[3]) | (b[4] | b[5]) | (b[6] | b[7]));
}

static inline void mask_eight(float *x, uint8_t mask)
{
    gg_i32x8 v;
    memcpy(&v, x, sizeof v);
    v &= (bits & mask) != 0;
    memcpy(x, &v, sizeof v);
}

void GG_K(gg_mk_pack_mask)(uint8_t *mask, const float *x, size_t n)
{
    float rest[8] = { 0 };
    size_t whole = n / 8;
    for (size_t i = 0; i < whole; i++) mask[i] = pack_eight(x + 8 * i);
    if (n % 8 == 0) return;
    memcpy(rest, x + 8 * whole, n % 8 * sizeof *x);
    mask[whole] = pack_eight(rest);
}

void GG_K(gg_mk_apply_mask)(float *x, const uint8_t *mask, size_t n)
{
    size_t whole = n / 8;
    for (size_t i = 0; i < whole; i++) mask_eight(x + 8 * i, mask[i]);
    for (size_t i = 8 * whole; i < n; i++)
        if (!(mask[whole] >> i % 8 & 1)) x[i] = 0;
}

void GG_K(gg_mk_scale)(float *x, float by, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] *= by;
}

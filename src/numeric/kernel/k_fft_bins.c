/* k_fft_bins.c - the spectra of sixteen rows in vector lanes: separated from their complex
 * sequences, measured, filtered by energy, and joined again. */
#include "numeric/fft_core.h"
#include "numeric/fft_vec.h"

#include "numeric/nlanes.h"

#define LANES_OF(values, half, h) (*(const vec *)((values)[half] + (h) * (8 / HALVES)))
#define BITS_OF(values, half, h) \
    (*(const ivec *)(const void *)((values)[half] + (h) * (8 / HALVES)))

static inline ivec larger(ivec a, ivec b)
{
    ivec more = a > b;
    return (a & more) | (b & ~more);
}

static inline ivec magnitude(vec v)
{
    return (ivec)v & INT32_MAX;
}

static void keep_bits(fft_bits to, size_t half, size_t h, ivec v)
{
    memcpy(to[half] + h * (8 / HALVES), &v, sizeof v);
}

void GG_K(gg_nk_fft_split)(const fft_lanes *lanes, const fft_point *z, size_t n,
                           const fft_spectra *s, fft_bits largest)
{
    for (size_t h = 0; h < HALVES; h++) {
        vec ua = LANES_OF(lanes->unscale, 0, h), ub = LANES_OF(lanes->unscale, 1, h);
        ivec top_a = { 0 }, top_b = { 0 };
        for (size_t k = 0; k < n / 2 + 1; k++) {
            const point *p = (const point *)(const void *)(z + k),
                        *q = (const point *)(const void *)(z + (k ? n - k : 0));
            point *a = (point *)(void *)(s->a + k), *b = (point *)(void *)(s->b + k);
            vec ar = (p->re[h] + q->re[h]) * 0.5f * ua, ai = (p->im[h] - q->im[h]) * 0.5f * ua;
            vec br = (p->im[h] + q->im[h]) * 0.5f * ub, bi = (q->re[h] - p->re[h]) * 0.5f * ub;
            a->re[h] = ar, a->im[h] = ai;
            b->re[h] = br, b->im[h] = bi;
            if (k == 0) continue;
            top_a = larger(top_a, larger(magnitude(ar), magnitude(ai)));
            top_b = larger(top_b, larger(magnitude(br), magnitude(bi)));
        }
        keep_bits(largest, 0, h, top_a);
        keep_bits(largest, 1, h, top_b);
    }
}

/* Adds the lanes of v in double; a point has room for four sums. */
static inline void add_wide(gg_nk_f64x4 *sum, const vec *v)
{
#if GG_LEVEL == 1
    sum[0] += (gg_nk_f64x4)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)*v));
    sum[1] += (gg_nk_f64x4)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)*v, 1));
#else
    gg_nk_f32x4 low;
    NK_LOAD4(low, v);
    *sum += NK_WIDE(low);
#endif
}

typedef struct measured { /* of one vector of rows */
    gg_nk_f64x4 total[2];
    ivec top, least;
} measured;

static inline vec energy_of(vec re, vec im, vec scale)
{
    re *= scale, im *= scale;
    return 2.0f * (re * re + im * im);
}

/* 0 does not count for `least`: as bits - 1 it becomes the largest number. */
static inline void measure(measured *m, const vec *energy)
{
    ivec bits = (ivec)*energy, below = (bits - 1) & INT32_MAX;
    m->top = larger(m->top, bits);
    m->least = ~larger(~m->least, ~below);
    add_wide(m->total, energy);
}

void GG_K(gg_nk_fft_energies)(const fft_spectra *s, size_t n, fft_values scale, fft_totals *out)
{
    size_t bins = n / 2 + 1;
    for (size_t h = 0; h < HALVES; h++) {
        measured a = { { { 0 } }, { 0 }, { 0 } }, b;
        a.least |= INT32_MAX;
        b = a;
        vec sa = LANES_OF(scale, 0, h), sb = LANES_OF(scale, 1, h);
        for (size_t k = 1; k < bins; k++) {
            const point *pa = (const point *)(const void *)(s->a + k),
                        *pb = (const point *)(const void *)(s->b + k);
            point *e = (point *)(void *)(s->energy + k);
            /* The last bin of even lengths has no mirror image, the others have one. */
            float weight = 2 * k == n ? 0.5f : 1.0f;
            vec ea = energy_of(pa->re[h], pa->im[h], sa) * weight;
            vec eb = energy_of(pb->re[h], pb->im[h], sb) * weight;
            e->re[h] = ea, e->im[h] = eb;
            measure(&a, &ea);
            measure(&b, &eb);
        }
        keep_bits(out->top, 0, h, a.top);
        keep_bits(out->top, 1, h, b.top);
        keep_bits(out->least, 0, h, a.least);
        keep_bits(out->least, 1, h, b.least);
        memcpy(out->sum[0] + h * (8 / HALVES), a.total, sizeof a.total / HALVES);
        memcpy(out->sum[1] + h * (8 / HALVES), b.total, sizeof b.total / HALVES);
    }
}

void GG_K(gg_nk_fft_sum_below)(const fft_spectra *s, size_t bins, fft_values limit, fft_sums sum)
{
    for (size_t h = 0; h < HALVES; h++) {
        gg_nk_f64x4 a[2] = { { 0 } }, b[2] = { { 0 } };
        vec la = LANES_OF(limit, 0, h), lb = LANES_OF(limit, 1, h);
        for (size_t k = 1; k < bins; k++) {
            const point *e = (const point *)(const void *)(s->energy + k);
            vec ea = (vec)((ivec)e->re[h] & (e->re[h] < la)),
                eb = (vec)((ivec)e->im[h] & (e->im[h] < lb));
            add_wide(a, &ea);
            add_wide(b, &eb);
        }
        memcpy(sum[0] + h * (8 / HALVES), a, sizeof a / HALVES);
        memcpy(sum[1] + h * (8 / HALVES), b, sizeof b / HALVES);
    }
}

void GG_K(gg_nk_fft_collect)(const fft_spectra *s, size_t bins, fft_values from, fft_values end,
                             const fft_lists *lists)
{
    memset(lists->n, 0, sizeof *lists->n * 2 * FFT_LANES);
    for (size_t k = 1; k < bins; k++) {
        const float *e = (const float *)(s->energy + k);
#if GG_LEVEL == 1
        const point *v = (const point *)(const void *)e;
        ivec in_a = (v->re[0] >= LANES_OF(from, 0, 0)) & (v->re[0] < LANES_OF(end, 0, 0));
        ivec in_b = (v->im[0] >= LANES_OF(from, 1, 0)) & (v->im[0] < LANES_OF(end, 1, 0));
        unsigned in = (unsigned)_mm256_movemask_ps((__m256)in_a) |
                      (unsigned)_mm256_movemask_ps((__m256)in_b) << 8;
        for (; in; in &= in - 1) {
            size_t l = (size_t)__builtin_ctz(in);
#else
        for (size_t l = 0; l < 2 * FFT_LANES; l++) {
            if (!(e[l] >= (&from[0][0])[l] && e[l] < (&end[0][0])[l])) continue;
#endif
            if (lists->n[l] < lists->room)
                memcpy(&lists->keys[l * lists->room + lists->n[l]], e + l, 4);
            lists->n[l]++;
        }
    }
}

/* What remains of a bin: 1 or 0 times its value, and +0 in rows that are to be zeros. */
static inline vec kept(vec v, vec energy, vec cut, ivec alive)
{
    vec keep = (vec)((ivec)((vec){ 0 } + 1.0f) & (energy < cut));
    return (vec)((ivec)v & alive) * keep;
}

void GG_K(gg_nk_fft_keep_below)(const fft_spectra *s, size_t bins, fft_values cut, fft_bits largest)
{
    for (size_t h = 0; h < HALVES; h++) {
        vec ca = LANES_OF(cut, 0, h), cb = LANES_OF(cut, 1, h);
        ivec alive_a = ca > 0.0f, alive_b = cb > 0.0f, top_a = { 0 }, top_b = { 0 };
        point *a0 = (point *)(void *)s->a, *b0 = (point *)(void *)s->b;
        a0->re[h] = (vec)((ivec)a0->re[h] & alive_a & INT32_MIN);
        b0->re[h] = (vec)((ivec)b0->re[h] & alive_b & INT32_MIN);
        a0->im[h] = b0->im[h] = (vec){ 0 };
        for (size_t k = 1; k < bins; k++) {
            const point *e = (const point *)(const void *)(s->energy + k);
            point *a = (point *)(void *)(s->a + k), *b = (point *)(void *)(s->b + k);
            a->re[h] = kept(a->re[h], e->re[h], ca, alive_a);
            a->im[h] = kept(a->im[h], e->re[h], ca, alive_a);
            b->re[h] = kept(b->re[h], e->im[h], cb, alive_b);
            b->im[h] = kept(b->im[h], e->im[h], cb, alive_b);
            top_a = larger(top_a, larger(magnitude(a->re[h]), magnitude(a->im[h])));
            top_b = larger(top_b, larger(magnitude(b->re[h]), magnitude(b->im[h])));
        }
        keep_bits(largest, 0, h, top_a);
        keep_bits(largest, 1, h, top_b);
    }
}

/* Applies mask and scale of each lane. */
static inline vec condition(vec v, ivec mask, vec scale)
{
    return (vec)((ivec)v & mask) * scale;
}

void GG_K(gg_nk_fft_join)(const fft_lanes *lanes, const fft_spectra *s, size_t n, fft_point *z)
{
    for (size_t h = 0; h < HALVES; h++) {
        vec sa = LANES_OF(lanes->scale, 0, h), sb = LANES_OF(lanes->scale, 1, h);
        ivec ma = BITS_OF(lanes->mask, 0, h), mb = BITS_OF(lanes->mask, 1, h);
        for (size_t k = 0; k < n / 2 + 1; k++) {
            const point *a = (const point *)(const void *)(s->a + k),
                        *b = (const point *)(const void *)(s->b + k);
            point *p = (point *)(void *)(z + k), *q = (point *)(void *)(z + n - k);
            vec ar = condition(a->re[h], ma, sa), ai = condition(a->im[h], ma, sa);
            vec br = condition(b->re[h], mb, sb), bi = condition(b->im[h], mb, sb);
            if (k == 0 || 2 * k == n) ai = bi = (vec){ 0 };
            if (k) q->re[h] = br - ai, q->im[h] = ar + bi;
            p->re[h] = ai + br, p->im[h] = ar - bi;
        }
    }
}

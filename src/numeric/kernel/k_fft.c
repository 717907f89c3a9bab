/* k_fft.c - the butterflies of the FFT, and the filters of the spectra of sixteen rows.
 *
 * Stockham's algorithm with decimation in frequency: a step of radix r takes its n points as
 * in[k][j][i] (l1 x r x ido, where l1 is the product of the previous radices) and writes
 *     out[j][k][i] = w(i, j) sum over q of in[k][q][i] e^(-2 pi i j q / r),
 * w(i, j) = e^(-2 pi i i j l1 / n). After the last step the points are in order.
 */
#include "numeric/fft.h"

#include "base/float_bits.h"

#include <string.h>

#define ALWAYS static inline __attribute__((always_inline))

/* The lanes of one machine register, at the start of a gg_fft_point. Without AVX they are half of
 * its lanes, because gcc makes poor code for vectors larger than a register. Then everything runs
 * once more for the other half. Lanes are independent, so the bits are the same. */
#if GG_LEVEL == 0
typedef float vec __attribute__((vector_size(16), __may_alias__));
typedef int32_t ivec __attribute__((vector_size(16), __may_alias__));
typedef struct point {
    vec re, other_re, im, other_im;
} point;
#else
typedef float vec __attribute__((vector_size(32), __may_alias__));
typedef int32_t ivec __attribute__((vector_size(32), __may_alias__));
typedef struct point {
    vec re, im;
} point;
#endif

#define EACH_HALF for (size_t h = 0; h < sizeof(gg_f32x8) / sizeof(vec); h++)
#define HALF(points) ((point *)(void *)((vec *)(points) + h))
/* Values of rows 0-7 and of rows 8-15. */
#define OF_A(values) (((const vec *)(const void *)(values))[h])
#define OF_B(values) (((const vec *)(const void *)((values) + 8))[h])

/* o = (re + i im) w */
ALWAYS void put_product(point *o, const vec *re, const vec *im, const float *w)
{
    vec r = *re * w[0] - *im * w[1];
    o->im = *re * w[1] + *im * w[0];
    o->re = r;
}

/* ---- butterflies ------------------------------------------------------------------- */

/* Stores output j of the butterfly of column i. Column 0 needs no twiddle factors. */
#define STORE(j, r_, i_) \
    do { \
        vec re_ = (r_), im_ = (i_); \
        point *o_ = out + (j)*s->l1 * s->ido; \
        if ((j) == 0 || w == NULL) o_->re = re_, o_->im = im_; \
        else put_product(o_, &re_, &im_, w + 2 * ((j)-1)); \
    } while (0)

ALWAYS void fly2(const point *in, point *out, const gg_fft_step *s, const float *w)
{
    vec ar = in[0].re, ai = in[0].im, br = in[s->ido].re, bi = in[s->ido].im;
    STORE(0, ar + br, ai + bi);
    STORE(1, ar - br, ai - bi);
}

ALWAYS void fly4(const point *in, point *out, const gg_fft_step *s, const float *w)
{
    const point *a = in, *b = a + s->ido, *c = b + s->ido, *d = c + s->ido;
    vec pr = a->re + c->re, pi = a->im + c->im, mr = a->re - c->re, mi = a->im - c->im;
    vec qr = b->re + d->re, qi = b->im + d->im, nr = b->re - d->re, ni = b->im - d->im;
    STORE(0, pr + qr, pi + qi);
    STORE(1, mr + ni, mi - nr);
    STORE(2, pr - qr, pi - qi);
    STORE(3, mr - ni, mi + nr);
}

/* Any odd radix r: inputs j and r - j have the same cosine and opposite sines. */
ALWAYS void fly_odd(const point *in, point *out, const gg_fft_step *s, const float *w,
                    const size_t r)
{
    point sum[GG_FFT_RADIX / 2 + 1], dif[GG_FFT_RADIX / 2 + 1], all = in[0];
    for (size_t j = 1; j <= r / 2; j++) {
        const point *a = in + j * s->ido, *b = in + (r - j) * s->ido;
        sum[j].re = a->re + b->re, sum[j].im = a->im + b->im;
        dif[j].re = a->re - b->re, dif[j].im = a->im - b->im;
        all.re += sum[j].re, all.im += sum[j].im;
    }
    STORE(0, all.re, all.im);
    for (size_t m = 1; m <= r / 2; m++) {
        vec cr = in[0].re, ci = in[0].im, dr = { 0 }, di = { 0 };
        for (size_t j = 1, at = m; j <= r / 2; j++, at = at + m < r ? at + m : at + m - r) {
            float cosine = s->root[2 * at], sine = s->root[2 * at + 1];
            cr += sum[j].re * cosine, ci += sum[j].im * cosine;
            dr += dif[j].re * sine, di += dif[j].im * sine;
        }
        STORE(m, cr - di, ci + dr);
        STORE(r - m, cr + di, ci - dr);
    }
}

/* Runs all l1 x ido butterflies of a step; inlined once per radix. */
#define EACH(fly, ...) \
    for (size_t k = 0; k < s->l1; k++) { \
        const point *in = a + k * s->radix * s->ido; \
        point *out = b + k * s->ido; \
        fly(in, out, s, NULL __VA_ARGS__); \
        for (size_t i = 1; i < s->ido; i++) \
            fly(in + i, out + i, s, s->twiddle + 2 * (s->radix - 1) * i __VA_ARGS__); \
    } \
    break
#define COMMA ,

static void run_step(const gg_fft_step *s, const point *a, point *b)
{
    switch (s->radix) {
    case 2: EACH(fly2, );
    case 3: EACH(fly_odd, COMMA 3);
    case 4: EACH(fly4, );
    case 5: EACH(fly_odd, COMMA 5);
    default: EACH(fly_odd, COMMA s->radix);
    }
}

bool GG_K(gg_nk_fft_run)(const gg_fft_core *core, gg_fft_point *a, gg_fft_point *b)
{
    bool in_b = false;
    for (unsigned i = 0; i < core->steps; i++, in_b = !in_b)
        EACH_HALF run_step(&core->step[i], HALF(in_b ? b : a), HALF(in_b ? a : b));
    return in_b;
}

void GG_K(gg_nk_fft_multiply)(gg_fft_point *z, const float *w, size_t n)
{
    for (size_t k = 0; k < n; k++)
        EACH_HALF put_product(HALF(z + k), &HALF(z + k)->re, &HALF(z + k)->im, w + 2 * k);
}

/* ---- rows and spectra ---------------------------------------------------------------- */

/* The lanes of a point are those of the rows in order. */
void GG_K(gg_nk_fft_load)(const float *rows, size_t n, size_t count, const float *scale,
                          gg_fft_point *z)
{
    memset(z, 0, n * sizeof *z);
    for (size_t at = 0; at < n; at += 16) { /* a line of the cache */
        size_t end = at + 16 < n ? at + 16 : n;
        for (size_t l = 0; l < count; l++)
            for (size_t k = at; k < end; k++) ((float *)&z[k])[l] = rows[l * n + k] * scale[l];
    }
}

void GG_K(gg_nk_fft_store)(const gg_fft_point *z, size_t n, size_t count, const float *scale,
                           float *rows)
{
    float inverse = (float)(1.0 / (double)n);
    for (size_t at = 0; at < n; at += 16) {
        size_t end = at + 16 < n ? at + 16 : n;
        for (size_t l = 0; l < count; l++)
            for (size_t k = at; k < end; k++)
                rows[l * n + k] = ((const float *)&z[k])[l ^ 8] * inverse * scale[l];
    }
}

void GG_K(gg_nk_fft_split)(const gg_fft_spectra *s, size_t n, const float *scale)
{
    for (size_t k = 0; k < n / 2 + 1; k++) EACH_HALF
        {
            const point *p = HALF(s->z + k), *q = HALF(s->z + (k ? n - k : 0));
            point *a = HALF(s->a + k), *b = HALF(s->b + k);
            a->re = (p->re + q->re) * 0.5f * OF_A(scale);
            a->im = (p->im - q->im) * 0.5f * OF_A(scale);
            b->re = (p->im + q->im) * 0.5f * OF_B(scale);
            b->im = (q->re - p->re) * 0.5f * OF_B(scale);
        }
}

void GG_K(gg_nk_fft_join)(const gg_fft_spectra *s, size_t n, const float *scale)
{
    for (size_t k = 0; k < n / 2 + 1; k++) EACH_HALF
        {
            const point *a = HALF(s->a + k), *b = HALF(s->b + k);
            point *p = HALF(s->z + k), *q = HALF(s->z + (k ? n - k : 0));
            vec ar = a->re * OF_A(scale), ai = a->im * OF_A(scale);
            vec br = b->re * OF_B(scale), bi = b->im * OF_B(scale);
            if (k == 0 || 2 * k == n) ai = bi = (vec){ 0 };
            q->re = br - ai, q->im = ar + bi;
            p->re = ai + br, p->im = ar - bi;
        }
}

/* Raises *top to the bits of the magnitudes, which compare as integers. */
ALWAYS void raise_top(ivec *top, const point *p)
{
    ivec re = (ivec)p->re & INT32_MAX, im = (ivec)p->im & INT32_MAX, more = re > im;
    ivec larger = (re & more) | (im & ~more);
    more = larger > *top;
    *top = (larger & more) | (*top & ~more);
}

void GG_K(gg_nk_fft_largest)(const gg_fft_spectra *s, size_t n, size_t from, float *largest)
{
    EACH_HALF
    {
        ivec a = { 0 }, b = { 0 };
        for (size_t k = from; k < n / 2 + 1; k++) {
            raise_top(&a, HALF(s->a + k));
            raise_top(&b, HALF(s->b + k));
        }
        memcpy((vec *)(void *)largest + h, &a, sizeof a);
        memcpy((vec *)(void *)(largest + 8) + h, &b, sizeof b);
    }
}

ALWAYS void put_energy(vec *energy, const point *p, const vec *scale, float weight)
{
    vec re = p->re * *scale, im = p->im * *scale;
    *energy = 2.0f * (re * re + im * im) * weight;
}

void GG_K(gg_nk_fft_energies)(const gg_fft_spectra *s, size_t n, const float *scale,
                              gg_fft_point *energy)
{
    for (size_t k = 1; k < n / 2 + 1; k++) EACH_HALF
        {
            /* The last bin of even lengths has no mirror image, the others have one. */
            float weight = 2 * k == n ? 0.5f : 1.0f;
            put_energy(&HALF(energy + k)->re, HALF(s->a + k), &OF_A(scale), weight);
            put_energy(&HALF(energy + k)->im, HALF(s->b + k), &OF_B(scale), weight);
        }
}

ALWAYS void keep_where(point *p, const ivec *keep)
{
    p->re = (vec)((ivec)p->re & *keep);
    p->im = (vec)((ivec)p->im & *keep);
}

void GG_K(gg_nk_fft_keep_below)(const gg_fft_spectra *s, size_t n, gg_fft_point *energy,
                                const float *cut)
{
    s->a[0] = s->b[0] = (gg_fft_point){ { 0 }, { 0 } };
    for (size_t k = 1; k < n / 2 + 1; k++) EACH_HALF
        {
            const point *e = HALF(energy + k);
            ivec keep_a = e->re < OF_A(cut), keep_b = e->im < OF_B(cut);
            keep_where(HALF(s->a + k), &keep_a);
            keep_where(HALF(s->b + k), &keep_b);
        }
}

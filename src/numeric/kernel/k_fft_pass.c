/* k_fft_pass.c - the butterflies.
 *
 * Stockham's decimation in frequency: a step of radix r sees its n points as
 * in[k][j][i] (l1 x r x ido, l1 the product of the radices done) and writes
 *     out[j][k][i] = w(i, j) sum over q of in[k][q][i] e^(-2 pi i j q / r),
 * w(i, j) = e^(-2 pi i i j l1 / n). After the last step the points are in order.
 */
#include "../fft_core.h"

#define ALWAYS static inline __attribute__((always_inline))

/* o = (re + i im) w */
ALWAYS void put(fft_point *o, const gg_f32x8 *re, const gg_f32x8 *im, const float *w)
{
    o->re = *re * w[0] - *im * w[1];
    o->im = *re * w[1] + *im * w[0];
}

/* Store output j of the butterfly of column i; column 0 has no twiddles. */
#define STORE(j, r_, i_)                                                   \
    do {                                                                   \
        gg_f32x8 re_ = (r_), im_ = (i_);                                   \
        fft_point *o_ = out + (j) * l1 * ido;                              \
        if ((j) == 0 || w == NULL) o_->re = re_, o_->im = im_;             \
        else put(o_, &re_, &im_, w + 2 * ((j) - 1));                       \
    } while (0)

ALWAYS void fly2(const fft_point *in, fft_point *out, size_t ido, size_t l1, const float *w)
{
    gg_f32x8 ar = in[0].re, ai = in[0].im, br = in[ido].re, bi = in[ido].im;
    STORE(0, ar + br, ai + bi);
    STORE(1, ar - br, ai - bi);
}

ALWAYS void fly3(const fft_point *in, fft_point *out, size_t ido, size_t l1, const float *w)
{
    const float s = 0.866025403784438647f; /* sin 60 degrees */
    const fft_point *a = in, *b = in + ido, *c = in + 2 * ido;
    gg_f32x8 sr = b->re + c->re, si = b->im + c->im;
    gg_f32x8 dr = (b->re - c->re) * s, di = (b->im - c->im) * s;
    gg_f32x8 mr = a->re - sr * 0.5f, mi = a->im - si * 0.5f;
    STORE(0, a->re + sr, a->im + si);
    STORE(1, mr + di, mi - dr);
    STORE(2, mr - di, mi + dr);
}

ALWAYS void fly4(const fft_point *in, fft_point *out, size_t ido, size_t l1, const float *w)
{
    const fft_point *a = in, *b = in + ido, *c = in + 2 * ido, *d = in + 3 * ido;
    gg_f32x8 pr = a->re + c->re, pi = a->im + c->im, mr = a->re - c->re, mi = a->im - c->im;
    gg_f32x8 qr = b->re + d->re, qi = b->im + d->im, nr = b->re - d->re, ni = b->im - d->im;
    STORE(0, pr + qr, pi + qi);
    STORE(1, mr + ni, mi - nr);
    STORE(2, pr - qr, pi - qi);
    STORE(3, mr - ni, mi + nr);
}

ALWAYS void fly5(const fft_point *in, fft_point *out, size_t ido, size_t l1, const float *w)
{
    const float c1 = 0.309016994374947424f, s1 = 0.951056516295153572f; /* of 72 degrees */
    const float c2 = -0.809016994374947424f, s2 = 0.587785252292473129f; /* of 144 */
    const fft_point *a = in, *b = in + ido, *c = in + 2 * ido, *d = in + 3 * ido, *e = in + 4 * ido;
    gg_f32x8 pr = b->re + e->re, pi = b->im + e->im, mr = b->re - e->re, mi = b->im - e->im;
    gg_f32x8 qr = c->re + d->re, qi = c->im + d->im, nr = c->re - d->re, ni = c->im - d->im;
    gg_f32x8 ur = a->re + pr * c1 + qr * c2, ui = a->im + pi * c1 + qi * c2;
    gg_f32x8 vr = mr * s1 + nr * s2, vi = mi * s1 + ni * s2;
    gg_f32x8 xr = a->re + pr * c2 + qr * c1, xi = a->im + pi * c2 + qi * c1;
    gg_f32x8 yr = mr * s2 - nr * s1, yi = mi * s2 - ni * s1;
    STORE(0, a->re + pr + qr, a->im + pi + qi);
    STORE(1, ur + vi, ui - vr);
    STORE(2, xr + yi, xi - yr);
    STORE(3, xr - yi, xi + yr);
    STORE(4, ur - vi, ui + vr);
}

/* Any odd radix: inputs j and r - j meet the same cosine and opposite sines. */
static void fly_odd(const fft_point *in, fft_point *out, const fft_step *s, const float *w)
{
    size_t r = s->radix, half = r / 2, ido = s->ido, l1 = s->l1;
    fft_point sum[FFT_MAX_RADIX / 2 + 1], dif[FFT_MAX_RADIX / 2 + 1], all = in[0];
    for (size_t j = 1; j <= half; j++) {
        const fft_point *a = in + j * ido, *b = in + (r - j) * ido;
        sum[j] = (fft_point){ a->re + b->re, a->im + b->im };
        dif[j] = (fft_point){ a->re - b->re, a->im - b->im };
        all.re += sum[j].re;
        all.im += sum[j].im;
    }
    STORE(0, all.re, all.im);
    for (size_t m = 1; m <= half; m++) {
        fft_point c = in[0], d = { { 0 }, { 0 } };
        for (size_t j = 1, at = m; j <= half; j++) {
            const float *root = s->root + 2 * at;
            c.re += sum[j].re * root[0];
            c.im += sum[j].im * root[0];
            d.re += dif[j].re * root[1];
            d.im += dif[j].im * root[1];
            at += m;
            if (at >= r) at -= r;
        }
        STORE(m, c.re - d.im, c.im + d.re);
        STORE(r - m, c.re + d.im, c.im - d.re);
    }
}

/* All l1 x ido butterflies of a step; inlined once a radix. */
#define EACH(fly)                                                                  \
    for (size_t k = 0; k < s->l1; k++) {                                           \
        const fft_point *in = a + k * s->radix * s->ido;                           \
        fft_point *out = b + k * s->ido;                                           \
        fly(in, out, s->ido, s->l1, NULL);                                         \
        const float *w = s->twiddle;                                               \
        for (size_t i = 1; i < s->ido; i++) {                                      \
            w += 2 * (s->radix - 1);                                               \
            fly(in + i, out + i, s->ido, s->l1, w);                                \
        }                                                                          \
    }                                                                              \
    break

static void run_step(const fft_step *s, const fft_point *a, fft_point *b)
{
    switch (s->radix) {
    case 2: EACH(fly2);
    case 3: EACH(fly3);
    case 4: EACH(fly4);
    case 5: EACH(fly5);
    default:
        for (size_t k = 0; k < s->l1; k++)
            for (size_t i = 0; i < s->ido; i++)
                fly_odd(a + k * s->radix * s->ido + i, b + k * s->ido + i, s,
                        i ? s->twiddle + 2 * (s->radix - 1) * i : NULL);
    }
}

bool GG_K(nk_fft_run)(const fft_core *core, fft_point *a, fft_point *b)
{
    bool in_b = false;
    for (unsigned i = 0; i < core->steps; i++, in_b = !in_b)
        run_step(&core->step[i], in_b ? b : a, in_b ? a : b);
    return in_b;
}

void GG_K(nk_fft_multiply)(fft_point *out, const fft_point *in, const float *w, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        gg_f32x8 re = in[k].re, im = in[k].im;
        put(out + k, &re, &im, w + 2 * k);
    }
}

void GG_K(nk_fft_multiply_conj)(fft_point *out, const fft_point *in, const float *w, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        gg_f32x8 re = in[k].re, im = in[k].im;
        put(out + k, &re, &im, w + 2 * k);
        out[k].im = -out[k].im;
    }
}

/* k_fft_pass.c - the butterflies of the FFT.
 *
 * Stockham's algorithm with decimation in frequency: a step of radix r takes its n points as
 * in[k][j][i] (l1 x r x ido, where l1 is the product of the previous radices) and writes
 *     out[j][k][i] = w(i, j) sum over q of in[k][q][i] e^(-2 pi i j q / r),
 * w(i, j) = e^(-2 pi i i j l1 / n). After the last step the points are in order.
 */
#include "numeric/fft_core.h"
#include "numeric/fft_vec.h"

#define ALWAYS static inline __attribute__((always_inline))

/* o = (re + i im) w */
ALWAYS void put(point *o, size_t h, const vec *re, const vec *im, const float *w)
{
    o->re[h] = *re * w[0] - *im * w[1];
    o->im[h] = *re * w[1] + *im * w[0];
}

/* Stores output j of the butterfly of column i. Column 0 needs no twiddle factors. */
#define STORE(j, r_, i_) \
    do { \
        vec re_ = (r_), im_ = (i_); \
        point *o_ = out + (j)*l1 * ido; \
        if ((j) == 0 || w == NULL) o_->re[h] = re_, o_->im[h] = im_; \
        else put(o_, h, &re_, &im_, w + 2 * ((j)-1)); \
    } while (0)

ALWAYS void fly2(const point *in, point *out, size_t ido, size_t l1, const float *w, size_t h)
{
    vec ar = in[0].re[h], ai = in[0].im[h], br = in[ido].re[h], bi = in[ido].im[h];
    STORE(0, ar + br, ai + bi);
    STORE(1, ar - br, ai - bi);
}

ALWAYS void fly3(const point *in, point *out, size_t ido, size_t l1, const float *w, size_t h)
{
    const float s = 0.866025403784438647f; /* sin 60 degrees */
    const point *a = in, *b = in + ido, *c = in + 2 * ido;
    vec sr = b->re[h] + c->re[h], si = b->im[h] + c->im[h];
    vec dr = (b->re[h] - c->re[h]) * s, di = (b->im[h] - c->im[h]) * s;
    vec mr = a->re[h] - sr * 0.5f, mi = a->im[h] - si * 0.5f;
    STORE(0, a->re[h] + sr, a->im[h] + si);
    STORE(1, mr + di, mi - dr);
    STORE(2, mr - di, mi + dr);
}

ALWAYS void fly4(const point *in, point *out, size_t ido, size_t l1, const float *w, size_t h)
{
    const point *a = in, *b = in + ido, *c = in + 2 * ido, *d = in + 3 * ido;
    vec pr = a->re[h] + c->re[h], pi = a->im[h] + c->im[h], mr = a->re[h] - c->re[h],
        mi = a->im[h] - c->im[h];
    vec qr = b->re[h] + d->re[h], qi = b->im[h] + d->im[h], nr = b->re[h] - d->re[h],
        ni = b->im[h] - d->im[h];
    STORE(0, pr + qr, pi + qi);
    STORE(1, mr + ni, mi - nr);
    STORE(2, pr - qr, pi - qi);
    STORE(3, mr - ni, mi + nr);
}

ALWAYS void fly5(const point *in, point *out, size_t ido, size_t l1, const float *w, size_t h)
{
    const float c1 = 0.309016994374947424f, s1 = 0.951056516295153572f;  /* of 72 degrees */
    const float c2 = -0.809016994374947424f, s2 = 0.587785252292473129f; /* of 144 */
    const point *a = in, *b = in + ido, *c = in + 2 * ido, *d = in + 3 * ido, *e = in + 4 * ido;
    vec pr = b->re[h] + e->re[h], pi = b->im[h] + e->im[h], mr = b->re[h] - e->re[h],
        mi = b->im[h] - e->im[h];
    vec qr = c->re[h] + d->re[h], qi = c->im[h] + d->im[h], nr = c->re[h] - d->re[h],
        ni = c->im[h] - d->im[h];
    vec ur = a->re[h] + pr * c1 + qr * c2, ui = a->im[h] + pi * c1 + qi * c2;
    vec vr = mr * s1 + nr * s2, vi = mi * s1 + ni * s2;
    vec xr = a->re[h] + pr * c2 + qr * c1, xi = a->im[h] + pi * c2 + qi * c1;
    vec yr = mr * s2 - nr * s1, yi = mi * s2 - ni * s1;
    STORE(0, a->re[h] + pr + qr, a->im[h] + pi + qi);
    STORE(1, ur + vi, ui - vr);
    STORE(2, xr + yi, xi - yr);
    STORE(3, xr - yi, xi + yr);
    STORE(4, ur - vi, ui + vr);
}

/* Input 0, and sums and differences of inputs j and r - j; and where the outputs go. */
typedef struct odd {
    vec first[2];
    vec sum[FFT_MAX_RADIX / 2 + 1][2], dif[FFT_MAX_RADIX / 2 + 1][2];
    point *out;
    const float *w;
    size_t h;
} odd;

/* Computes the outputs m to m + together - 1 and their mirror images. Two together load each pair
 * only once. */
ALWAYS void put_odd(const odd *p, const fft_step *s, size_t m, const size_t together)
{
    size_t r = s->radix, ido = s->ido, l1 = s->l1, h = p->h, at[2] = { m, m + 1 };
    point *out = p->out;
    const float *w = p->w;
    vec cr[2], ci[2], dr[2] = { { 0 } }, di[2] = { { 0 } };
    for (size_t t = 0; t < together; t++) cr[t] = p->first[0], ci[t] = p->first[1];
    for (size_t j = 1; j <= r / 2; j++) {
#pragma GCC unroll 2
        for (size_t t = 0; t < together; t++) {
            const float *root = s->root + 2 * at[t];
            cr[t] += p->sum[j][0] * root[0];
            ci[t] += p->sum[j][1] * root[0];
            dr[t] += p->dif[j][0] * root[1];
            di[t] += p->dif[j][1] * root[1];
            at[t] += m + t;
            if (at[t] >= r) at[t] -= r;
        }
    }
#pragma GCC unroll 2
    for (size_t t = 0; t < together; t++) {
        STORE(m + t, cr[t] - di[t], ci[t] + dr[t]);
        STORE(r - m - t, cr[t] + di[t], ci[t] - dr[t]);
    }
}

/* Any odd radix: inputs j and r - j have the same cosine and opposite sines. */
static void fly_odd(const point *in, point *out, const fft_step *s, const float *w, size_t h)
{
    size_t r = s->radix, half = r / 2, ido = s->ido, l1 = s->l1, m = 1;
    odd p;
    p.out = out, p.w = w, p.h = h;
    p.first[0] = in[0].re[h], p.first[1] = in[0].im[h];
    vec all_re = p.first[0], all_im = p.first[1];
    for (size_t j = 1; j <= half; j++) {
        const point *a = in + j * ido, *b = in + (r - j) * ido;
        p.sum[j][0] = a->re[h] + b->re[h];
        p.sum[j][1] = a->im[h] + b->im[h];
        p.dif[j][0] = a->re[h] - b->re[h];
        p.dif[j][1] = a->im[h] - b->im[h];
        all_re += p.sum[j][0];
        all_im += p.sum[j][1];
    }
    STORE(0, all_re, all_im);
    for (; m + 1 <= half; m += 2) put_odd(&p, s, m, 2);
    if (m <= half) put_odd(&p, s, m, 1);
}

/* Runs all l1 x ido butterflies of a step; inlined once per radix. */
#define EACH(fly) \
    for (size_t k = 0; k < s->l1; k++) { \
        const point *in = a + k * s->radix * s->ido; \
        point *out = b + k * s->ido; \
        const float *w = s->twiddle; \
        for (size_t h = 0; h < HALVES; h++) fly(in, out, s->ido, s->l1, NULL, h); \
        for (size_t i = 1; i < s->ido; i++) { \
            w += 2 * (s->radix - 1); \
            for (size_t h = 0; h < HALVES; h++) fly(in + i, out + i, s->ido, s->l1, w, h); \
        } \
    } \
    break

static void run_odd(const fft_step *s, const point *a, point *b)
{
    for (size_t k = 0; k < s->l1; k++) {
        for (size_t i = 0; i < s->ido; i++) {
            const float *w = i ? s->twiddle + 2 * (s->radix - 1) * i : NULL;
#pragma GCC unroll 2
            for (size_t h = 0; h < HALVES; h++)
                fly_odd(a + k * s->radix * s->ido + i, b + k * s->ido + i, s, w, h);
        }
    }
}

static void run_step(const fft_step *s, const point *a, point *b)
{
    switch (s->radix) {
    case 2: EACH(fly2);
    case 3: EACH(fly3);
    case 4: EACH(fly4);
    case 5: EACH(fly5);
    default: run_odd(s, a, b);
    }
}

bool GG_K(gg_nk_fft_run)(const fft_core *core, fft_point *a, fft_point *b)
{
    bool in_b = false;
    point *pa = (point *)(void *)a, *pb = (point *)(void *)b;
    for (unsigned i = 0; i < core->steps; i++, in_b = !in_b)
        run_step(&core->step[i], in_b ? pb : pa, in_b ? pa : pb);
    return in_b;
}

void GG_K(gg_nk_fft_multiply)(fft_point *out, const fft_point *in, const float *w, size_t n)
{
    const point *from = (const point *)(const void *)in;
    point *to = (point *)(void *)out;
    for (size_t k = 0; k < n; k++) {
#pragma GCC unroll 2
        for (size_t h = 0; h < HALVES; h++) {
            vec re = from[k].re[h], im = from[k].im[h];
            put(to + k, h, &re, &im, w + 2 * k);
        }
    }
}

void GG_K(gg_nk_fft_multiply_conj)(fft_point *out, const fft_point *in, const float *w, size_t n)
{
    GG_K(gg_nk_fft_multiply)(out, in, w, n);
    for (size_t k = 0; k < n; k++) out[k].im = -out[k].im;
}

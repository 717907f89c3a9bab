/* k_fft.c - the real FFT: plans, butterflies, and the spectra of sixteen rows.
 *
 * Stockham's algorithm with decimation in frequency: a step of radix r takes its n points as
 * in[k][j][i] (l1 x r x ido, where l1 is the product of the previous radices) and writes
 *     out[j][k][i] = w(i, j) sum over q of in[k][q][i] e^(-2 pi i j q / r),
 * w(i, j) = e^(-2 pi i i j l1 / n). After the last step the points are in order.
 *
 * Bluestein's algorithm replaces a length n with a large prime factor by a convolution of a length
 * m >= 2n - 1 that has only small factors. With c[k] = e^(-pi i k^2 / n),
 *     X[k] = c[k] sum over j of (x[j] c[j]) conj(c[k - j]).
 */
#include "purify/fft.h"

#include "base/error.h"
#include "base/float_bits.h"
#include "numeric/nlanes.h"
#include "numeric/ownmath.h"

#include <stdlib.h>
#include <string.h>

#define MAX_LENGTH ((size_t)1 << 28)
#define MAX_RADIX 127
#define MAX_STEPS 32
#define PI 3.14159265358979323846
#define ALWAYS static inline __attribute__((always_inline))

typedef gg_fft_point point;

typedef struct fft_step {
    size_t radix, ido, l1;
    const float *twiddle; /* {re, im} of exp(-2 pi I i j l1 / n), [i][j - 1]; I^2 = -1 */
    const float *root;    /* {re, im} of exp(-2 pi I j / radix) */
} fft_step;

struct gg_fft_plan {
    size_t n, m; /* m: n, or the length of the convolution */
    unsigned steps;
    fft_step step[MAX_STEPS]; /* for length m */
    float *table;             /* the factors of all steps */
    float *chirp;             /* n x {re, im}; NULL without Bluestein's algorithm */
    float *kernel;            /* transform of the wrapped conj(chirp), divided by m: m x {re, im} */
};

/* ---- butterflies ------------------------------------------------------------------- */

/* *to = *z w */
ALWAYS void put_product(point *to, const point *z, const float *w)
{
    gg_f32x8 re = z->re * w[0] - z->im * w[1];
    to->im = z->re * w[1] + z->im * w[0];
    to->re = re;
}

/* Stores output j of the butterfly of a column. Column 0 has no twiddle factors: w is NULL. */
ALWAYS void put_output(point *out, const fft_step *s, size_t j, const float *w, const point *v)
{
    out += j * s->l1 * s->ido;
    if (j == 0 || !w) *out = *v;
    else put_product(out, v, w + 2 * (j - 1));
}
#define PUT(j, re, im) put_output(out, s, j, w, &(const point){ re, im })

ALWAYS void fly2(const point *in, point *out, const fft_step *s, const float *w)
{
    const point *a = in, *b = a + s->ido;
    PUT(0, a->re + b->re, a->im + b->im);
    PUT(1, a->re - b->re, a->im - b->im);
}

ALWAYS void fly4(const point *in, point *out, const fft_step *s, const float *w)
{
    const point *a = in, *b = a + s->ido, *c = b + s->ido, *d = c + s->ido;
    gg_f32x8 pr = a->re + c->re, pi = a->im + c->im, mr = a->re - c->re, mi = a->im - c->im;
    gg_f32x8 qr = b->re + d->re, qi = b->im + d->im, nr = b->re - d->re, ni = b->im - d->im;
    PUT(0, pr + qr, pi + qi);
    PUT(1, mr + ni, mi - nr);
    PUT(2, pr - qr, pi - qi);
    PUT(3, mr - ni, mi + nr);
}

/* Any odd radix r: inputs j and r - j have the same cosine and opposite sines. */
static void fly_odd(const point *in, point *out, const fft_step *s, const float *w)
{
    const size_t r = s->radix;
    point sum[MAX_RADIX / 2 + 1], dif[MAX_RADIX / 2 + 1], all = in[0];
    for (size_t j = 1; j <= r / 2; j++) {
        const point *a = in + j * s->ido, *b = in + (r - j) * s->ido;
        sum[j].re = a->re + b->re, sum[j].im = a->im + b->im;
        dif[j].re = a->re - b->re, dif[j].im = a->im - b->im;
        all.re += sum[j].re, all.im += sum[j].im;
    }
    PUT(0, all.re, all.im);
    for (size_t m = 1; m <= r / 2; m++) {
        point c = in[0], d = { { 0 }, { 0 } };
        for (size_t j = 1, at = m; j <= r / 2; j++, at = at + m < r ? at + m : at + m - r) {
            float cosine = s->root[2 * at], sine = s->root[2 * at + 1];
            c.re += sum[j].re * cosine, c.im += sum[j].im * cosine;
            d.re += dif[j].re * sine, d.im += dif[j].im * sine;
        }
        PUT(m, c.re - d.im, c.im + d.re);
        PUT(r - m, c.re + d.im, c.im - d.re);
    }
}

/* Runs all l1 x ido butterflies of a step; inlined once per radix. */
#define EACH(fly) \
    for (size_t k = 0; k < s->l1; k++) \
        for (size_t i = 0; i < s->ido; i++) \
    fly(a + k * s->radix * s->ido + i, b + k * s->ido + i, s, \
        i ? s->twiddle + 2 * (s->radix - 1) * i : NULL)

static void run_step(const fft_step *s, const point *a, point *b)
{
    if (s->radix == 4) EACH(fly4);
    else if (s->radix == 2) EACH(fly2);
    else EACH(fly_odd);
}

static void exchange(point **z, point **other)
{
    point *swap = *z;
    *z = *other;
    *other = swap;
}

/* Forward transform of m points in *z, which may exchange the buffers. */
static void run_steps(const gg_fft_plan *p, point **z, point **other)
{
    for (unsigned i = 0; i < p->steps; i++) {
        run_step(&p->step[i], *z, *other);
        exchange(z, other);
    }
}

/* z[k] *= w[k] */
static void multiply(point *z, const float *w, size_t n)
{
    for (size_t k = 0; k < n; k++) put_product(z + k, z + k, w + 2 * k);
}

/* Forward transform of n points in *z, which may exchange the buffers. */
static void transform(const gg_fft_plan *p, point **z, point **other)
{
    size_t n = p->n, m = p->m;
    if (p->chirp) {
        multiply(*z, p->chirp, n);
        memset(*z + n, 0, (m - n) * sizeof **z);
    }
    run_steps(p, z, other);
    if (!p->chirp) return;
    /* The inverse transform is the conjugate of the forward transform of the conjugate. */
    multiply(*z, p->kernel, m);
    for (size_t k = 0; k < m; k++) (*z)[k].im = -(*z)[k].im;
    run_steps(p, z, other);
    for (size_t k = 0; k < n; k++) (*z)[k].im = -(*z)[k].im;
    multiply(*z, p->chirp, n);
}

/* ---- plans ------------------------------------------------------------------------- */

/* {re, im} of e^(-2 pi i k / n), k < n. */
static void root_of_unity(float *out, uint64_t k, uint64_t n)
{
    double angle = 2.0 * PI * (double)k / (double)n;
    out[0] = (float)gg_own_cos(angle);
    out[1] = (float)-gg_own_sin(angle);
}

static size_t largest_factor(size_t n)
{
    size_t top = 1;
    for (size_t f = 2; f * f <= n; f++)
        while (n % f == 0) top = f, n /= f;
    return n > top ? n : top;
}

/* The smallest 2^a 3^b 5^c that is at least `least`. */
static size_t smooth_length(size_t least)
{
    size_t best = 1;
    while (best < least) best *= 2;
    for (size_t five = 1; five < best; five *= 5) {
        for (size_t three = five; three < best; three *= 3) {
            size_t m = three;
            while (m < least) m *= 2;
            if (m < best) best = m;
        }
    }
    return best;
}

/* The radix of the next step: 4 where possible, then the smallest prime. */
static size_t next_radix(size_t n)
{
    if (n % 4 == 0) return 4;
    for (size_t f = 2; f * f <= n; f++)
        if (n % f == 0) return f;
    return n;
}

static gg_status make_steps(gg_fft_plan *p, gg_error *err)
{
    size_t floats = 0;
    for (size_t n = p->m, done = 1; n > 1; p->steps++) {
        size_t radix = next_radix(n);
        /* not 0: a factor of n */
        n /= radix;
        p->step[p->steps] = (fft_step){ radix, n, done, NULL, NULL };
        done *= radix;
        floats += 2 * (radix - 1) * n + 2 * radix;
    }
    float *at = p->table = malloc((floats + 1) * sizeof *p->table);
    if (!at) return gg_fail(err, GG_ENOMEM, "no memory for an FFT of length %zu", p->m);
    for (fft_step *s = p->step; s < p->step + p->steps; s++) {
        s->twiddle = at;
        for (size_t c = 0; c < s->ido; c++)
            for (size_t j = 1; j < s->radix; j++, at += 2) root_of_unity(at, c * j * s->l1, p->m);
        s->root = at;
        for (size_t j = 0; j < s->radix; j++, at += 2) root_of_unity(at, j, s->radix);
    }
    return GG_OK;
}

/* Computes the transform of the wrapped conjugate chirp in lane 0. */
static gg_status make_chirp(gg_fft_plan *p, gg_error *err)
{
    size_t n = p->n, m = p->m;
    point *room = aligned_alloc(64, 2 * m * sizeof *room), *a = room, *b;
    p->chirp = malloc(2 * n * sizeof *p->chirp);
    p->kernel = malloc(2 * m * sizeof *p->kernel);
    if (!room || !p->chirp || !p->kernel) {
        free(room);
        return gg_fail(err, GG_ENOMEM, "no memory for an FFT of length %zu", n);
    }
    b = a + m;
    memset(a, 0, m * sizeof *a);
    for (size_t k = 0; k < n; k++) {
        float *c = p->chirp + 2 * k;
        /* not 0: k < n */
        root_of_unity(c, (uint64_t)k * k % (2 * n), 2 * n);
        a[k].re[0] = c[0], a[k].im[0] = -c[1];
        if (k) a[m - k] = a[k];
    }
    run_steps(p, &a, &b);
    for (size_t k = 0; k < m; k++) {
        p->kernel[2 * k] = (float)((double)a[k].re[0] / (double)m);
        p->kernel[2 * k + 1] = (float)((double)a[k].im[0] / (double)m);
    }
    free(room);
    return GG_OK;
}

gg_fft_plan *GG_K(gg_fft_plan_new)(size_t n, gg_error *err)
{
    gg_fft_plan *p = n > 0 && n <= MAX_LENGTH ? calloc(1, sizeof *p) : NULL;
    if (n == 0) gg_fail(err, GG_EUSAGE, "the length of an FFT is 0");
    else if (n > MAX_LENGTH)
        gg_fail(err, GG_EUNSUPPORTED, "the length of an FFT is %zu; the maximum is %zu", n,
                MAX_LENGTH);
    else if (!p) gg_fail(err, GG_ENOMEM, "no memory for an FFT plan");
    if (!p) return NULL;
    bool bluestein = largest_factor(n) > MAX_RADIX;
    p->n = n;
    p->m = bluestein ? smooth_length(2 * n - 1) : n;
    gg_status status = make_steps(p, err);
    if (status == GG_OK && bluestein) status = make_chirp(p, err);
    if (status == GG_OK) return p;
    GG_K(gg_fft_plan_free)(p);
    return NULL;
}

void GG_K(gg_fft_plan_free)(gg_fft_plan *plan)
{
    if (!plan) return;
    free(plan->table);
    free(plan->chirp);
    free(plan->kernel);
    free(plan);
}

/* ---- rows and spectra -------------------------------------------------------------- */

/* Both buffers of a batch have room for the points, for the spectra, or for the rows. */
static size_t points_of_buffer(const gg_fft_plan *plan)
{
    return plan->m + 2;
}

size_t GG_K(gg_fft_scratch)(const gg_fft_plan *plan)
{
    return 2 * points_of_buffer(plan) * sizeof(point);
}

/* Raises *top to the bits of the magnitudes, which compare as integers. */
ALWAYS void raise_top(gg_i32x8 *top, const gg_f32x8 *v)
{
    gg_i32x8 bits = (gg_i32x8)*v & INT32_MAX, more = bits > *top;
    *top = (bits & more) | (*top & ~more);
}

void GG_K(gg_fft_largest)(const gg_fft_spectra *s, size_t n, size_t from, float *largest)
{
    gg_i32x8 top[2] = { { 0 }, { 0 } };
    for (size_t k = from; k < n / 2 + 1; k++)
        for (size_t h = 0; h < 2; h++) {
            raise_top(&top[h], &s->bin[k][h].re);
            raise_top(&top[h], &s->bin[k][h].im);
        }
    memcpy(largest, top, sizeof top);
}

static float largest_of(const float *x, size_t n)
{
    uint32_t top = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = gg_float_bits(x[i]) & INT32_MAX;
        top = bits > top ? bits : top;
    }
    return gg_bits_float(top);
}

static float power_of_two(uint32_t exponent)
{
    return gg_bits_float(exponent << 23);
}

/* Rows that share a complex sequence are scaled by powers of two to about 1, so that they do not
 * affect each other. The second factor undoes that. */
static void find_scales(const float *largest, float *scale, float *unscale)
{
    for (size_t l = 0; l < GG_FFT_BATCH; l++) {
        uint32_t top = gg_float_bits(largest[l]), exponent = top >> 23;
        uint32_t e = exponent == 0 ? 253 : exponent >= 254 ? 1 : 254 - exponent;
        scale[l] = power_of_two(e);
        /* A row of zeros must not pick up rounding errors of the row that it is paired with. */
        unscale[l] = top ? power_of_two(254 - e) : 0.0f;
    }
}

/* The factors of rows 0-7 and of rows 8-15. */
#define OF_ROWS(values, h) (((const gg_f32x8 *)(const void *)(values))[h])

/* z[k] has row l in lane l, multiplied by scale[l]. Four rows at a time take 16 values of each, a
 * line of the cache. */
static void load_rows(point *z, const float *rows, size_t count, size_t n, const float *scale)
{
    if (count < GG_FFT_BATCH) memset(z, 0, n * sizeof *z);
    for (size_t at = 0; at < n; at += 16)
        for (size_t l = 0; l < count; l += 4) {
            size_t end = n < at + 16 ? n : at + 16, k = at;
            for (; k + 4 <= end && l + 4 <= count; k += 4) {
                gg_nk_square s;
                GG_UNROLL(4)
                for (size_t r = 0; r < 4; r++) s.v[r] = NK_AT4(rows + (l + r) * n + k);
                gg_nk_exchange_sides(&s);
                GG_UNROLL(4)
                for (size_t j = 0; j < 4; j++) {
                    s.v[j] *= NK_AT4(scale + l);
                    memcpy((float *)&z[k + j] + l, &s.v[j], sizeof s.v[j]);
                }
            }
            for (; k < end; k++)
                for (size_t r = l; r < count && r < l + 4; r++)
                    ((float *)&z[k])[r] = rows[r * n + k] * scale[r];
        }
}

/* The inverse for points with re and im exchanged. */
static void store_rows(const point *z, float *rows, size_t count, size_t n, float inverse,
                       const float *unscale)
{
    for (size_t at = 0; at < n; at += 16)
        for (size_t l = 0; l < count; l += 4) {
            size_t end = n < at + 16 ? n : at + 16, k = at;
            for (; k + 4 <= end && l + 4 <= count; k += 4) {
                gg_nk_square s;
                GG_UNROLL(4)
                for (size_t j = 0; j < 4; j++)
                    s.v[j] = NK_AT4((const float *)&z[k + j] + (l ^ 8)) * inverse *
                             NK_AT4(unscale + l);
                gg_nk_exchange_sides(&s);
                GG_UNROLL(4)
                for (size_t r = 0; r < 4; r++)
                    memcpy(rows + (l + r) * n + k, &s.v[r], sizeof s.v[r]);
            }
            for (; k < end; k++)
                for (size_t r = l; r < count && r < l + 4; r++)
                    rows[r * n + k] = ((const float *)&z[k])[r ^ 8] * inverse * unscale[r];
        }
}

gg_fft_spectra GG_K(gg_fft_forward)(const gg_fft_plan *plan, const float *rows, size_t count,
                                    void *scratch)
{
    size_t n = plan->n;
    point *z = scratch, *other = z + points_of_buffer(plan);
    gg_fft_rows largest = { 0 }, scale, unscale;
    for (size_t l = 0; l < count; l++) largest[l] = largest_of(rows + l * n, n);
    find_scales(largest, scale, unscale);
    load_rows(z, rows, count, n, scale);
    transform(plan, &z, &other);
    gg_fft_spectra s = { (point(*)[2])other, z };
    const gg_f32x8 a = OF_ROWS(unscale, 0), b = OF_ROWS(unscale, 1);
    for (size_t k = 0; k < n / 2 + 1; k++) {
        const point *p = z + k, *q = z + (k ? n - k : 0);
        s.bin[k][0].re = (p->re + q->re) * 0.5f * a;
        s.bin[k][0].im = (p->im - q->im) * 0.5f * a;
        s.bin[k][1].re = (p->im + q->im) * 0.5f * b;
        s.bin[k][1].im = (q->re - p->re) * 0.5f * b;
    }
    return s;
}

/* The forward transform of points whose re and im are exchanged is the inverse with re and im
 * exchanged, without the factor 1 / n. */
const float *GG_K(gg_fft_inverse)(const gg_fft_plan *plan, const gg_fft_spectra *s, size_t count)
{
    size_t n = plan->n;
    point *z = s->z, *other = s->bin[0];
    gg_fft_rows largest, scale, unscale;
    GG_K(gg_fft_largest)(s, n, 0, largest);
    find_scales(largest, scale, unscale);
    for (size_t k = 0; k < n / 2 + 1; k++) {
        const point *a = &s->bin[k][0], *b = &s->bin[k][1];
        point *p = z + k, *q = z + (k ? n - k : 0);
        gg_f32x8 ar = a->re * OF_ROWS(scale, 0), ai = a->im * OF_ROWS(scale, 0),
                 br = b->re * OF_ROWS(scale, 1), bi = b->im * OF_ROWS(scale, 1);
        if (k == 0 || 2 * k == n) ai = bi = (gg_f32x8){ 0 };
        q->re = br - ai, q->im = ar + bi;
        p->re = ai + br, p->im = ar - bi;
    }
    transform(plan, &z, &other);
    float inverse = (float)(1.0 / (double)n), *rows = (float *)other;
    store_rows(z, rows, count, n, inverse, unscale);
    return rows;
}

/* fft.c - the real FFT: plans and transforms.
 *
 * Bluestein's algorithm replaces a length n with a large prime factor by a convolution of a length
 * m >= 2n - 1 that has only small factors. With c[k] = e^(-pi i k^2 / n),
 *     X[k] = c[k] sum over j of (x[j] c[j]) conj(c[k - j]).
 */
#include "fft.h"

#include "base/error.h"
#include "base/float_bits.h"
#include "owntrig.h"

#include <stdlib.h>
#include <string.h>

#define MAX_LENGTH ((size_t)1 << 28)
#define PI 3.14159265358979323846

struct gg_fft_plan {
    size_t n;
    gg_fft_core core; /* for length n, or for the length of the convolution */
    bool bluestein;
    float *chirp;  /* n x {re, im} */
    float *kernel; /* transform of the wrapped conj(chirp), divided by m: m x {re, im} */
};

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

static unsigned find_radices(gg_fft_core *core, size_t n)
{
    unsigned steps = 0;
    for (size_t done = 1; n > 1; steps++) {
        size_t radix = next_radix(n);
        n /= radix;
        core->step[steps] = (gg_fft_step){ radix, n, done, NULL, NULL };
        done *= radix;
    }
    return steps;
}

static gg_status make_core(gg_fft_core *core, size_t n, gg_error *err)
{
    core->n = n;
    core->steps = find_radices(core, n);
    size_t floats = 0;
    for (unsigned i = 0; i < core->steps; i++)
        floats += 2 * (core->step[i].radix - 1) * core->step[i].ido + 2 * core->step[i].radix;
    core->table = malloc((floats + 1) * sizeof *core->table);
    if (!core->table) return gg_fail(err, GG_ENOMEM, "no memory for an FFT of length %zu", n);
    float *at = core->table;
    for (unsigned i = 0; i < core->steps; i++) {
        gg_fft_step *s = &core->step[i];
        s->twiddle = at;
        for (size_t c = 0; c < s->ido; c++)
            for (size_t j = 1; j < s->radix; j++, at += 2) root_of_unity(at, c * j * s->l1, n);
        s->root = at;
        for (size_t j = 0; j < s->radix; j++, at += 2) root_of_unity(at, j, s->radix);
    }
    return GG_OK;
}

/* Computes the transform of the wrapped conjugate chirp in lane 0. */
static gg_status make_chirp(gg_fft_plan *p, gg_error *err)
{
    size_t n = p->n, m = p->core.n;
    gg_fft_point *a = aligned_alloc(64, 2 * m * sizeof *a);
    p->chirp = malloc(2 * n * sizeof *p->chirp);
    p->kernel = malloc(2 * m * sizeof *p->kernel);
    if (!a || !p->chirp || !p->kernel) {
        free(a);
        return gg_fail(err, GG_ENOMEM, "no memory for an FFT of length %zu", n);
    }
    gg_fft_point *b = a + m;
    memset(a, 0, m * sizeof *a);
    for (size_t k = 0; k < n; k++) {
        float *c = p->chirp + 2 * k;
        root_of_unity(c, (uint64_t)k * k % (2 * n), 2 * n);
        a[k].re[0] = c[0], a[k].im[0] = -c[1];
        if (k) a[m - k] = a[k];
    }
    const gg_fft_point *f = GG_PICK(gg_nk_fft_run)(&p->core, a, b) ? b : a;
    for (size_t k = 0; k < m; k++) {
        p->kernel[2 * k] = (float)((double)f[k].re[0] / (double)m);
        p->kernel[2 * k + 1] = (float)((double)f[k].im[0] / (double)m);
    }
    free(a);
    return GG_OK;
}

gg_fft_plan *gg_fft_plan_new(size_t n, gg_error *err)
{
    if (n == 0) {
        gg_fail(err, GG_EUSAGE, "the length of an FFT is 0");
        return NULL;
    }
    if (n > MAX_LENGTH) {
        gg_fail(err, GG_EUNSUPPORTED, "the length of an FFT is %zu; the maximum is %zu", n,
                MAX_LENGTH);
        return NULL;
    }
    gg_fft_plan *p = calloc(1, sizeof *p);
    if (!p) {
        gg_fail(err, GG_ENOMEM, "no memory for an FFT plan");
        return NULL;
    }
    p->n = n;
    p->bluestein = largest_factor(n) > GG_FFT_RADIX;
    gg_status status = make_core(&p->core, p->bluestein ? smooth_length(2 * n - 1) : n, err);
    if (status == GG_OK && p->bluestein) status = make_chirp(p, err);
    if (status == GG_OK) return p;
    gg_fft_plan_free(p);
    return NULL;
}

void gg_fft_plan_free(gg_fft_plan *plan)
{
    if (!plan) return;
    free(plan->core.table);
    free(plan->chirp);
    free(plan->kernel);
    free(plan);
}

/* Both buffers of a batch have room for the points, for the spectra, or for the rows. */
static size_t points_of_buffer(const gg_fft_plan *plan)
{
    return plan->core.n + 2;
}

size_t gg_fft_scratch(const gg_fft_plan *plan)
{
    return 2 * points_of_buffer(plan) * sizeof(gg_fft_point);
}

static void exchange(gg_fft_point **z, gg_fft_point **other)
{
    gg_fft_point *swap = *z;
    *z = *other;
    *other = swap;
}

/* Forward transform of the points in *z, which may exchange the buffers. */
static void transform(const gg_fft_plan *p, gg_fft_point **z, gg_fft_point **other)
{
    size_t n = p->n, m = p->core.n;
    if (!p->bluestein) {
        if (GG_PICK(gg_nk_fft_run)(&p->core, *z, *other)) exchange(z, other);
        return;
    }
    GG_PICK(gg_nk_fft_multiply)(*z, p->chirp, n);
    memset(*z + n, 0, (m - n) * sizeof **z);
    if (GG_PICK(gg_nk_fft_run)(&p->core, *z, *other)) exchange(z, other);
    /* The inverse transform is the conjugate of the forward transform of the conjugate. */
    GG_PICK(gg_nk_fft_multiply)(*z, p->kernel, m);
    for (size_t k = 0; k < m; k++) (*z)[k].im = -(*z)[k].im;
    if (GG_PICK(gg_nk_fft_run)(&p->core, *z, *other)) exchange(z, other);
    for (size_t k = 0; k < n; k++) (*z)[k].im = -(*z)[k].im;
    GG_PICK(gg_nk_fft_multiply)(*z, p->chirp, n);
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

static float largest_of(const float *x, size_t n)
{
    uint32_t top = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = gg_float_bits(x[i]) & INT32_MAX;
        top = bits > top ? bits : top;
    }
    return gg_bits_float(top);
}

gg_fft_spectra gg_fft_forward(const gg_fft_plan *plan, const float *rows, size_t count,
                              void *scratch)
{
    size_t n = plan->n;
    gg_fft_point *z = scratch, *other = z + points_of_buffer(plan);
    gg_fft_rows largest = { 0 }, scale, unscale;
    for (size_t l = 0; l < count; l++) largest[l] = largest_of(rows + l * n, n);
    find_scales(largest, scale, unscale);
    GG_PICK(gg_nk_fft_load)(rows, n, count, scale, z);
    transform(plan, &z, &other);
    gg_fft_spectra s = { other, other + n / 2 + 1, z };
    GG_PICK(gg_nk_fft_split)(&s, n, unscale);
    return s;
}

const float *gg_fft_inverse(const gg_fft_plan *plan, const gg_fft_spectra *s, size_t count)
{
    size_t n = plan->n;
    gg_fft_point *z = s->z, *other = s->a;
    gg_fft_rows largest, scale, unscale;
    GG_PICK(gg_nk_fft_largest)(s, n, 0, largest);
    find_scales(largest, scale, unscale);
    GG_PICK(gg_nk_fft_join)(s, n, scale);
    transform(plan, &z, &other);
    GG_PICK(gg_nk_fft_store)(z, n, count, unscale, (float *)other);
    return (const float *)other;
}

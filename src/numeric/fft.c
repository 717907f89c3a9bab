/* fft.c - the real FFT: plans and transforms.
 *
 * Bluestein's algorithm replaces a length n with a large prime factor by a convolution of a length
 * m >= 2n - 1 that has only small factors. With c[k] = e^(-pi i k^2 / n),
 *     X[k] = c[k] sum over j of (x[j] c[j]) conj(c[k - j]).
 */
#include "fft_core.h"

#include "base/float_bits.h"
#include "numeric/numeric.h"
#include "owntrig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LENGTH ((size_t)1 << 28)
#define PI 3.14159265358979323846

struct gg_fft_plan {
    size_t n;
    fft_core core; /* for length n, or for the length of the convolution */
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

static unsigned find_steps(fft_core *core, size_t n)
{
    unsigned steps = 0;
    for (size_t done = 1; n > 1; steps++) {
        size_t radix = next_radix(n);
        n /= radix;
        core->step[steps] = (fft_step){ radix, n, done, NULL, NULL };
        done *= radix;
    }
    return steps;
}

static gg_status core_init(fft_core *core, size_t n, gg_error *err)
{
    core->n = n;
    core->steps = find_steps(core, n);
    size_t floats = 0;
    for (unsigned i = 0; i < core->steps; i++)
        floats += 2 * (core->step[i].radix - 1) * core->step[i].ido + 2 * core->step[i].radix;
    core->table = malloc((floats + 1) * sizeof *core->table);
    if (!core->table) return gg_fail(err, GG_ENOMEM, "no memory for an FFT of length %zu", n);
    float *at = core->table;
    for (unsigned i = 0; i < core->steps; i++) {
        fft_step *s = &core->step[i];
        s->twiddle = at;
        for (size_t c = 0; c < s->ido; c++)
            for (size_t j = 1; j < s->radix; j++, at += 2) root_of_unity(at, c * j * s->l1, n);
        s->root = at;
        for (size_t j = 0; j < s->radix; j++, at += 2) root_of_unity(at, j, s->radix);
    }
    return GG_OK;
}

/* Computes the transform of the wrapped conjugate chirp in lane 0. */
static gg_status bluestein_init(gg_fft_plan *p, gg_error *err)
{
    size_t n = p->n, m = p->core.n;
    fft_point *a = aligned_alloc(64, 2 * m * sizeof *a);
    p->chirp = malloc(2 * n * sizeof *p->chirp);
    p->kernel = malloc(2 * m * sizeof *p->kernel);
    if (!a || !p->chirp || !p->kernel) {
        free(a);
        return gg_fail(err, GG_ENOMEM, "no memory for an FFT of length %zu", n);
    }
    fft_point *b = a + m;
    memset(a, 0, m * sizeof *a);
    for (size_t k = 0; k < n; k++) {
        float *c = p->chirp + 2 * k;
        root_of_unity(c, (uint64_t)k * k % (2 * n), 2 * n);
        a[k].re[0] = c[0], a[k].im[0] = -c[1];
        if (k) a[m - k] = a[k];
    }
    const fft_point *f = GG_PICK(gg_nk_fft_run)(&p->core, a, b) ? b : a;
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
    p->bluestein = largest_factor(n) > FFT_MAX_RADIX;
    gg_status status = core_init(&p->core, p->bluestein ? smooth_length(2 * n - 1) : n, err);
    if (status == GG_OK && p->bluestein) status = bluestein_init(p, err);
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

size_t gg_fft_size(const gg_fft_plan *plan)
{
    return plan->n;
}

size_t gg_fft_bins(const gg_fft_plan *plan)
{
    return plan->n / 2 + 1;
}

size_t gg_fft_scratch(const gg_fft_plan *plan)
{
    return 2 * gg_fft_room(plan) * sizeof(fft_point) + 64;
}

size_t gg_fft_room(const gg_fft_plan *plan)
{
    return plan->core.n + 2;
}

fft_buffers gg_fft_buffers(const gg_fft_plan *plan, void *scratch)
{
    uintptr_t skew = (uintptr_t)scratch & 63;
    fft_point *a = (fft_point *)(void *)((char *)scratch + (skew ? 64 - skew : 0));
    return (fft_buffers){ a, a + gg_fft_room(plan) };
}

static void swap(fft_buffers *z)
{
    *z = (fft_buffers){ z->other, z->now };
}

static void transform(const gg_fft_plan *p, fft_buffers *z)
{
    if (GG_PICK(gg_nk_fft_run)(&p->core, z->now, z->other)) swap(z);
}

void gg_fft_transform(const gg_fft_plan *p, fft_buffers *z)
{
    size_t n = p->n, m = p->core.n;
    if (!p->bluestein) {
        transform(p, z);
        return;
    }
    GG_PICK(gg_nk_fft_multiply)(z->now, z->now, p->chirp, n);
    memset(z->now + n, 0, (m - n) * sizeof *z->now);
    transform(p, z);
    /* The inverse transform is the conjugate of the forward transform of the conjugate. */
    GG_PICK(gg_nk_fft_multiply_conj)(z->now, z->now, p->kernel, m);
    transform(p, z);
    for (size_t k = 0; k < n; k++) z->now[k].im = -z->now[k].im;
    GG_PICK(gg_nk_fft_multiply)(z->now, z->now, p->chirp, n);
}

static float power_of_two(uint32_t exponent)
{
    return gg_bits_float(exponent << 23);
}

bool gg_fft_condition(fft_lanes *lanes, fft_bits largest, size_t count)
{
    bool all = true;
    for (size_t l = 0; l < GG_FFT_BATCH; l++) {
        uint32_t top = (uint32_t)largest[l / 8][l % 8], exponent = top >> 23;
        bool sound = l < count && exponent < 255;
        uint32_t scale = exponent == 0 ? 253 : exponent >= 254 ? 1 : 254 - exponent;
        lanes->mask[l / 8][l % 8] = sound ? -1 : 0;
        lanes->scale[l / 8][l % 8] = power_of_two(scale);
        /* A row of zeros must not pick up rounding errors of the row that it is paired with. */
        lanes->unscale[l / 8][l % 8] = top ? power_of_two(254 - scale) : 0.0f;
        all = all && (sound || l >= count);
    }
    return all;
}

/* Fills the rows that are not sound with NaN. */
static void spoil(const fft_lanes *lanes, float *rows, size_t n, size_t count)
{
    for (size_t l = 0; l < count; l++)
        for (size_t k = 0; k < n && !lanes->mask[l / 8][l % 8]; k++) rows[l * n + k] = NAN;
}

void gg_rfft(const gg_fft_plan *plan, const float *rows, size_t n_rows, float *spectra,
             void *scratch)
{
    size_t n = plan->n, bins = n / 2 + 1;
    for (size_t r = 0; r < n_rows; r += GG_FFT_BATCH) {
        size_t count = n_rows - r < GG_FFT_BATCH ? n_rows - r : GG_FFT_BATCH;
        fft_buffers z = gg_fft_buffers(plan, scratch);
        fft_lanes lanes;
        fft_bits largest;
        GG_PICK(gg_nk_fft_largest)(rows + r * n, n, count, largest);
        gg_fft_condition(&lanes, largest, count);
        GG_PICK(gg_nk_fft_load)(&lanes, rows + r * n, n, count, z.now);
        gg_fft_transform(plan, &z);
        fft_spectra s = { z.other, z.other + bins, NULL };
        GG_PICK(gg_nk_fft_split)(&lanes, z.now, n, &s, largest);
        GG_PICK(gg_nk_fft_put_spectra)(&s, bins, count, spectra + r * 2 * bins);
        spoil(&lanes, spectra + r * 2 * bins, 2 * bins, count);
    }
}

void gg_fft_inverse(const gg_fft_plan *plan, const fft_lanes *lanes, size_t count, fft_buffers *z,
                    float *rows)
{
    size_t n = plan->n;
    fft_spectra s = { z->other, z->other + n / 2 + 1, NULL };
    GG_PICK(gg_nk_fft_join)(lanes, &s, n, z->now);
    gg_fft_transform(plan, z);
    GG_PICK(gg_nk_fft_store)(lanes, z->now, n, count, rows ? rows : (float *)z->other);
    spoil(lanes, rows, n, rows ? count : 0);
}

void gg_irfft(const gg_fft_plan *plan, const float *spectra, size_t n_rows, float *rows,
              void *scratch)
{
    size_t n = plan->n, bins = n / 2 + 1;
    for (size_t r = 0; r < n_rows; r += GG_FFT_BATCH) {
        size_t count = n_rows - r < GG_FFT_BATCH ? n_rows - r : GG_FFT_BATCH;
        fft_buffers z = gg_fft_buffers(plan, scratch);
        fft_spectra s = { z.other, z.other + bins, NULL };
        fft_lanes lanes;
        fft_bits largest;
        GG_PICK(gg_nk_fft_largest)(spectra + r * 2 * bins, 2 * bins, count, largest);
        gg_fft_condition(&lanes, largest, count);
        GG_PICK(gg_nk_fft_get_spectra)(&s, bins, count, spectra + r * 2 * bins);
        gg_fft_inverse(plan, &lanes, count, &z, rows + r * n);
    }
}

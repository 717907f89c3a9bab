/* t_fft.c - the real FFT against a naive DFT, its inverse, and Parseval. */
#include "t.h"
#include "base/isa.h"
#include "numeric/numeric.h"
#include "numeric/ownmath.h"
#include "organ/gg_quant.h"
#include "t_spectra.h"

#include <math.h>

#define PI 3.14159265358979323846
#define ROWS 9 /* row 0 shares its complex sequence with row 8 */

static float *noise(size_t n, uint64_t seed)
{
    float *x = malloc(n * sizeof *x);
    gg_gauss_fill(x, n, seed);
    return x;
}

static double l2(const float *x, size_t n)
{
    double s = 0;
    for (size_t i = 0; i < n; i++) s += (double)x[i] * (double)x[i];
    return sqrt(s);
}

/* Largest error of a spectrum against the definition, over the row's norm times sqrt n. */
static double dft_error(const float *x, const float *spectrum, size_t n, const double *cosine)
{
    double worst = 0;
    for (size_t k = 0; k <= n / 2; k++) {
        double re = 0, im = 0;
        for (size_t j = 0, at = 0; j < n; j++) {
            re += (double)x[j] * cosine[2 * at];
            im -= (double)x[j] * cosine[2 * at + 1];
            at += k;
            if (at >= n) at -= n;
        }
        double e = hypot(re - (double)spectrum[2 * k], im - (double)spectrum[2 * k + 1]);
        if (e > worst) worst = e;
    }
    return worst / (l2(x, n) * sqrt((double)n));
}

static double round_trip_error(size_t n, size_t rows)
{
    gg_error err = GG_ERROR_INIT;
    gg_fft_plan *p = GG_PICK(gg_fft_plan_new)(n, &err);
    T_CHECK(p != NULL);
    if (!p) return 1;
    size_t floats = rows * 2 * (n / 2 + 1);
    float *x = noise(n * rows, n), *y = malloc((n * rows + 1) * sizeof *y);
    float *s = malloc((floats + 1) * sizeof *s);
    y[n * rows] = s[floats] = 42;
    t_forward(p, n, x, rows, s);
    t_inverse(p, n, s, rows, y);
    T_CHECKF(y[n * rows] == 42 && s[floats] == 42, "length %zu: more than %zu rows", n, rows);
    double worst = 0;
    for (size_t r = 0; r < rows; r++) {
        double norm = l2(x + r * n, n);
        for (size_t j = 0; j < n; j++) y[r * n + j] -= x[r * n + j];
        double e = l2(y + r * n, n) / norm;
        if (e > worst) worst = e;
    }
    free(x), free(y), free(s);
    GG_PICK(gg_fft_plan_free)(p);
    return worst;
}

static void against_dft(void)
{
    gg_error err = GG_ERROR_INIT;
    for (size_t n = 1; n <= 600; n++) {
        gg_fft_plan *p = GG_PICK(gg_fft_plan_new)(n, &err);
        T_CHECK(p != NULL);
        float *x = noise(n * ROWS, 7 * n), *s = malloc(ROWS * 2 * (n / 2 + 1) * sizeof *s);
        double *c = malloc(2 * n * sizeof *c);
        for (size_t j = 0; j < n; j++) {
            c[2 * j] = cos(2 * PI * (double)j / (double)n);
            c[2 * j + 1] = sin(2 * PI * (double)j / (double)n);
        }
        t_forward(p, n, x, ROWS, s);
        for (size_t r = 0; r < ROWS; r += ROWS - 1) {
            double e = dft_error(x + r * n, s + r * 2 * (n / 2 + 1), n, c);
            T_CHECKF(e < 1e-6, "length %zu row %zu: error %g", n, r, e);
        }
        free(x), free(s), free(c);
        GG_PICK(gg_fft_plan_free)(p);
    }
}

static void inverse(void)
{
    for (size_t n = 1; n <= 4096; n += n < 300 ? 1 : 1 + n % 7 + n / 400) {
        static const size_t rows[] = { 7, 3, ROWS };
        double e = round_trip_error(n, rows[n % 3]);
        T_CHECKF(e < 1e-6, "length %zu: error %g", n, e);
    }
    static const size_t more[] = { 1009, 2039, 3583,  3584,  4093,  4095,  4096,
                                   4099, 8192, 11008, 14336, 18944, 28672, 65537 };
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        double e = round_trip_error(more[i], i % 2 ? 17 : 15);
        T_CHECKF(e < 1e-6, "length %zu: error %g", more[i], e);
    }
}

static void parseval(void)
{
    static const size_t lengths[] = { 1, 2, 5, 64, 127, 1000, 3584, 4096, 4099 };
    gg_error err = GG_ERROR_INIT;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t n = lengths[i];
        gg_fft_plan *p = GG_PICK(gg_fft_plan_new)(n, &err);
        float *x = noise(n, i), *s = malloc(2 * (n / 2 + 1) * sizeof *s);
        t_forward(p, n, x, 1, s);
        double time = l2(x, n), sum = 0;
        for (size_t k = 0; k <= n / 2; k++) {
            double e = (double)s[2 * k] * (double)s[2 * k] +
                       (double)s[2 * k + 1] * (double)s[2 * k + 1];
            sum += k == 0 || 2 * k == n ? e : 2 * e;
        }
        T_CHECKF(fabs(sum / (double)n / (time * time) - 1) < 1e-6, "length %zu", n);
        free(x), free(s);
        GG_PICK(gg_fft_plan_free)(p);
    }
}

/* Rows far apart in scale, and rows of zeros, share a batch without harm. */
static void neighbours(void)
{
    enum { n = 96 };
    gg_error err = GG_ERROR_INIT;
    gg_fft_plan *p = GG_PICK(gg_fft_plan_new)(n, &err);
    float *x = noise(n * 16, 3), *y = malloc(n * 16 * sizeof *y),
          *s = malloc(16 * 2 * (n / 2 + 1) * sizeof *s);
    for (size_t j = 0; j < n; j++) {
        x[j] *= 1e-30f; /* beside row 8, 1e30 */
        x[8 * n + j] *= 1e30f;
        x[2 * n + j] = 0;
    }
    t_forward(p, n, x, 16, s);
    t_inverse(p, n, s, 16, y);
    for (size_t i = 0; i < 2 * (n / 2 + 1); i++) T_CHECK(s[2 * 2 * (n / 2 + 1) + i] == 0);
    for (size_t r = 0; r < 16; r++) {
        double norm = l2(x + r * n, n);
        for (size_t j = 0; j < n; j++) y[r * n + j] -= x[r * n + j];
        T_CHECKF(l2(y + r * n, n) <= 1e-6 * norm, "row %zu", r);
    }
    free(x), free(y), free(s);
    GG_PICK(gg_fft_plan_free)(p);
}

static void levels(void)
{
    static const size_t lengths[] = { 3, 7, 258, 360, 1001, 1016, 1024, 1031 };
    gg_error err = GG_ERROR_INIT;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t n = lengths[i], floats;
        gg_fft_plan *p = GG_PICK(gg_fft_plan_new)(n, &err);
        floats = ROWS * 2 * (n / 2 + 1);
        float *x = noise(n * ROWS, n), *s[2], *y[2];
        for (int level = 0; level < 2; level++) {
            s[level] = calloc(floats, sizeof(float)), y[level] = calloc(n * ROWS, sizeof(float));
            gg_isa_set(level);
            t_forward(p, n, x, ROWS, s[level]);
            t_inverse(p, n, s[level], ROWS, y[level]);
        }
        T_CHECK(memcmp(s[0], s[1], floats * sizeof(float)) == 0);
        T_CHECK(memcmp(y[0], y[1], n * ROWS * sizeof(float)) == 0);
        free(x), free(s[0]), free(s[1]), free(y[0]), free(y[1]);
        GG_PICK(gg_fft_plan_free)(p);
    }
}

static void refusals(void)
{
    gg_error err = GG_ERROR_INIT, err2 = GG_ERROR_INIT;
    T_CHECK(GG_PICK(gg_fft_plan_new)(0, &err) == NULL && err.status == GG_EUSAGE);
    T_CHECK(GG_PICK(gg_fft_plan_new)(SIZE_MAX / 2, &err2) == NULL &&
            err2.status == GG_EUNSUPPORTED);
    GG_PICK(gg_fft_plan_free)(NULL);
}

/* libm may round differently in the last bit, so this compares within a few of them. */
static void own_trigonometry(void)
{
    double worst = 0, far = 0;
    for (int i = -20000; i <= 20000; i++) {
        double x = i * 5e-4, far_x = i * 4.999, c = i / 20000.0;
        worst = fmax(worst, fabs(gg_own_sin(x) - sin(x)));
        worst = fmax(worst, fabs(gg_own_cos(x) - cos(x)));
        worst = fmax(worst, fabs(gg_own_acos(c) - acos(c)) / 2);
        far = fmax(far, fabs(gg_own_sin(far_x) - sin(far_x)));
        far = fmax(far, fabs(gg_own_cos(far_x) - cos(far_x)));
    }
    T_CHECKF(worst < 3e-16, "%g", worst);
    T_CHECKF(far < 1.2e-15, "%g", far);
    T_CHECK(fabs(gg_own_sin(PI) - sin(PI)) < 1e-31); /* weights on an arc divide by it */
    T_CHECK(gg_own_sin(0) == 0 && gg_own_cos(0) == 1 && gg_own_acos(1) == 0);
    T_CHECK(gg_own_acos(-1) == acos(-1) && gg_own_acos(0) == acos(0));
    T_CHECK(isnan(gg_own_acos(1.0000001)) && isnan(gg_own_acos(NAN)));
    T_CHECK(isnan(gg_own_sin(INFINITY)) && isnan(gg_own_cos(1.1e5)) && isnan(gg_own_sin(NAN)));
}

static const t_case cases[] = {
    { "sine, cosine and arc cosine", own_trigonometry },
    { "lengths 1..600 against the definition", against_dft },
    { "inverse of forward, up to 65537", inverse },
    { "Parseval", parseval },
    { "rows that share a batch", neighbours },
    { "same bits on every level", levels },
    { "refusals", refusals },
};

T_MAIN(cases)

/* t_haar.c - the Haar transform and both purifications. */
#include "base/isa.h"
#include "measures.h"
#include "numeric/numeric.h"
#include "organ/gg_quant.h"
#include "purify/purify.h"
#include "t.h"
#include "t_spectra.h"

#include <math.h>

#define PI 3.14159265358979323846

static float *gaussian(size_t n, uint64_t seed)
{
    float *x = malloc((n + 1) * sizeof *x);
    gg_gauss_fill(x, n, seed);
    return x;
}

typedef struct pair {
    double mean, std;
} pair;

static pair mean_std(const float *x, size_t n)
{
    double m = 0, v = 0, kept = 0;
    for (size_t i = 0; i < n; i++) m += (double)x[i], kept++;
    m /= kept;
    for (size_t i = 0; i < n; i++) v += ((double)x[i] - m) * ((double)x[i] - m);
    return (pair){ m, sqrt(v / kept) };
}

static gg_filtered purify(gg_purify_method method, float *x, size_t n, size_t row, double strength)
{
    gg_error err = GG_ERROR_INIT;
    gg_filtered r = { 0 };
    gg_filter f = { method, strength, row, 2 };
    T_EQ(GG_PICK(gg_filter_values)(&f, x, n, &r, &err), GG_OK);
    return r;
}

/* Removes what the definition in purify.h removes, in double, level by level: x has n values. */
static void naive_haar(double *x, size_t n, double strength, double finest)
{
    size_t pairs = (n + 1) / 2;
    double *sum = malloc((pairs + 1) * sizeof *sum), *detail = malloc((pairs + 1) * sizeof *detail);
    double *above = malloc((pairs + 1) * sizeof *above), energy = 0, parents = 0;
    for (size_t i = 0; i < pairs; i++) {
        double a = x[2 * i], b = 2 * i + 1 < n ? x[2 * i + 1] : a;
        sum[i] = (a + b) / sqrt(2);
        detail[i] = (a - b) / sqrt(2);
        energy += detail[i] * detail[i] / (double)(n / 2);
    }
    for (size_t i = 0; i < pairs; i += 2) {
        above[i / 2] = i + 1 < pairs ? (sum[i] - sum[i + 1]) / sqrt(2) : 0;
        if (pairs > 1) parents += above[i / 2] * above[i / 2] / (double)(pairs / 2);
    }
    if (finest < 0) finest = energy;
    if (pairs > 1) naive_haar(sum, pairs, strength, finest);
    for (size_t i = 0; i < pairs; i++) {
        double e = detail[i] * detail[i] / energy, p = above[i / 2], f = p * p / parents;
        double q = e > 0 || f > 0 ? fmin(e, f) / fmax(e, f) : 1;
        bool keep = pairs == 1 || (pairs % 2 && i == pairs - 1);
        if (!keep) detail[i] *= 1 - strength * fmin(1, finest / energy) * (1 - q);
        x[2 * i] = (sum[i] + detail[i]) / sqrt(2);
        if (2 * i + 1 < n) x[2 * i + 1] = (sum[i] - detail[i]) / sqrt(2);
    }
    free(sum), free(detail), free(above);
}

static void against_definition(void)
{
    static const size_t sizes[] = { 2,    3,    7,     64,    100,        1000,  4095,
                                    4096, 4097, 12288, 20001, 4096 * 130, 300001 };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t n = sizes[s];
        float *x = gaussian(n, n);
        double *y = malloc(n * sizeof *y), far = 0;
        for (size_t i = 0; i < n; i++) y[i] = x[i] += (float)sin((double)i / 300);
        pair before = mean_std(x, n), after = { 0, 0 };
        naive_haar(y, n, 0.5, -1);
        for (size_t i = 0; i < n; i++) after.mean += y[i] / (double)n;
        for (size_t i = 0; i < n; i++)
            after.std += (y[i] - after.mean) * (y[i] - after.mean) / (double)n;
        purify(GG_PURIFY_HAAR, x, n, 1, 0.5);
        for (size_t i = 0; i < n; i++) {
            double want = (y[i] - after.mean) * before.std / sqrt(after.std) + before.mean;
            far = fmax(far, fabs(want - (double)x[i]));
        }
        T_CHECKF(far < 2e-5 * before.std, "%zu values: %g", n, far / before.std);
        free(x), free(y);
    }
}

static void strength_zero(void)
{
    enum { N = 12288 };
    float *x = gaussian(N, 5), *y = malloc(N * sizeof *y);
    memcpy(y, x, N * sizeof *y);
    for (int method = 0; method < 2; method++) {
        gg_filtered r = purify((gg_purify_method)method, y, N, 4096, 0);
        T_CHECK(memcmp(x, y, N * sizeof *y) == 0);
        T_CHECK(r.nonfinite == 0 && r.energy_kept == 1 && r.rel_l2 == 0);
    }
    for (int method = 0; method < 2; method++) { /* so are values that are not all finite */
        uint32_t signalling = 0x7fa00001;
        memcpy(y, x, N * sizeof *y);
        memcpy(x + 17, &signalling, sizeof signalling);
        x[N - 1] = -INFINITY;
        memcpy(y, x, N * sizeof *y);
        gg_filtered r = purify((gg_purify_method)method, y, N - 2, 2, 1);
        T_CHECK(memcmp(x, y, N * sizeof *y) == 0 && r.nonfinite == 1);
        r = purify((gg_purify_method)method, y, N, 4096, 1);
        T_CHECK(memcmp(x, y, N * sizeof *y) == 0 && r.nonfinite == 2);
    }
    for (size_t i = 0; i < N; i++) x[i] = y[i] = 0.1f;
    for (int method = 0; method < 2; method++) {
        purify((gg_purify_method)method, y, N, 4096, 1);
        T_CHECK(memcmp(x, y, N * sizeof *y) == 0);
    }
    free(x), free(y);
}

/* Mean, std and the report, for shapes with and without ragged ends. */
static void check_kept(gg_purify_method method, size_t n, size_t row, double strength)
{
    float *x = gaussian(n, n), *y = malloc(n * sizeof *y);
    for (size_t i = 0; i < n; i++) x[i] = 0.3f + 0.02f * x[i];
    memcpy(y, x, n * sizeof *y);
    gg_filtered r = purify(method, y, n, row, strength);
    pair a = mean_std(x, n), b = mean_std(y, n);
    double change = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        change += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
        size += (double)x[i] * (double)x[i];
    }
    const char *what = method == GG_PURIFY_FFT ? "fft" : "haar";
    T_CHECKF(fabs(b.mean - a.mean) <= 1e-5 * a.std, "%s %zu: %g", what, n,
             (b.mean - a.mean) / a.std);
    T_CHECKF(fabs(b.std / a.std - 1) <= 1e-5, "%s %zu: %g", what, n, b.std / a.std - 1);
    double rel = sqrt(change / size);
    T_CHECKF(fabs(r.rel_l2 - rel) <= 1e-3 * rel + 1e-7, "%s %zu: %g %g", what, n, r.rel_l2, rel);
    T_CHECK(r.nonfinite == 0 && r.energy_kept <= 1 && r.energy_kept > 0 && r.rel_l2 > 0);
    T_CHECK(fabs(r.mean - a.mean) <= 1e-5 * a.std && fabs(r.std / a.std - 1) <= 1e-5);
    free(x), free(y);
}

static void kept(void)
{
    static const size_t sizes[][2] = { { 65536, 4096 },   { 50000, 1000 }, { 4096, 4096 },
                                       { 4099, 4099 },    { 1000, 50 },    { 12289 * 3, 12289 },
                                       { 8192 * 33, 64 }, { 700000, 7 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int method = 0; method < 2; method++) {
            check_kept((gg_purify_method)method, sizes[i][0], sizes[i][1], 0.3);
        }
    }
    /* sizes at which next to nothing can be filtered, and nothing may break */
    for (size_t n = 0; n < 12; n++) {
        float x[12] = { 1, 3, 2, 7, 5, 4, 9, 8, 6, 0, 2, 1 };
        for (int method = 0; method < 2; method++)
            purify((gg_purify_method)method, x, n, n ? n : 1, 1);
        for (size_t i = 0; i < n; i++) T_CHECK(isfinite(x[i]));
    }
}

/* The default strengths change Gaussian weights by 3 to 5 %. */
static void mild(void)
{
    enum { N = 1 << 18 };
    float *x = gaussian(N, 1);
    gg_filtered r = purify(GG_PURIFY_HAAR, x, N, 4096, GG_PURIFY_HAAR_STRENGTH);
    T_CHECKF(r.rel_l2 > 0.03 && r.rel_l2 < 0.05, "haar %g", r.rel_l2);
    gg_gauss_fill(x, N, 2);
    r = purify(GG_PURIFY_FFT, x, N, 4096, GG_PURIFY_FFT_STRENGTH);
    T_CHECKF(r.rel_l2 > 0.03 && r.rel_l2 < 0.05, "fft %g", r.rel_l2);
    T_CHECK(r.energy_kept > 1 - 1.001 * GG_PURIFY_FFT_STRENGTH * GG_PURIFY_FFT_STRENGTH);
    free(x);
}

/* Signal to noise in dB, whatever affine map lies between: r^2 / (1 - r^2). */
static double snr(const float *clean, const float *x, size_t n)
{
    double r = t_pearson(clean, x, n);
    return 10 * log10(r * r / (1 - r * r));
}

static double weierstrass(double t)
{
    double v = 0;
    for (int k = 0; k < 20; k++) v += pow(0.5, 0.5 * k) * cos(pow(2, k) * PI * t);
    return v / 1.4;
}

static double cantor(double t)
{
    double v = 0, w = 0.5;
    for (int k = 0; k < 40; k++, w /= 2) {
        t *= 3;
        int digit = (int)t;
        t -= digit;
        if (digit) v += w;
        if (digit == 1) break;
    }
    return 3 * v;
}

static double sinusoids(double t)
{
    return sin(2 * PI * t * 17 * 64) + 0.7 * sin(2 * PI * t * 101 * 64 + 1) +
           0.5 * cos(2 * PI * t * 333 * 64);
}

static double gain(double (*signal)(double), gg_purify_method method, double strength)
{
    enum { N = 1 << 18 };
    float *clean = malloc(N * sizeof *clean), *x = gaussian(N, 11);
    for (size_t i = 0; i < N; i++) {
        clean[i] = (float)signal((double)i / N);
        x[i] += clean[i];
    }
    double before = snr(clean, x, N);
    purify(method, x, N, 4096, strength);
    double after = snr(clean, x, N);
    free(clean), free(x);
    return after - before;
}

/* Measured: 8.1, 8.2, 0.8 and 10.6 dB, in noise of about the signal's power. */
static void denoise(void)
{
    double g = gain(weierstrass, GG_PURIFY_HAAR, 1);
    T_CHECKF(g > 7.5, "%g dB", g);
    g = gain(cantor, GG_PURIFY_HAAR, 1);
    T_CHECKF(g > 7.5, "%g dB", g);
    g = gain(weierstrass, GG_PURIFY_HAAR, GG_PURIFY_HAAR_STRENGTH);
    T_CHECKF(g > 0.7, "%g dB", g);
    g = gain(sinusoids, GG_PURIFY_FFT, 0.7);
    T_CHECKF(g > 8, "%g dB", g);
}

typedef struct bin {
    float energy;
    size_t k;
} bin;

/* By energy; of equal ones, high frequencies come first. */
static int weaker(const void *a, const void *b)
{
    const bin *x = a, *y = b;
    if (x->energy < y->energy || x->energy > y->energy) return x->energy < y->energy ? -1 : 1;
    return x->k > y->k ? -1 : x->k < y->k;
}

/* Leaves in a row's spectrum what the definition in numeric.h removes. */
static void naive_tail(float *spectrum, size_t n, double strength)
{
    size_t bins = n / 2 + 1, dropped = 1;
    bin *by = calloc(bins, sizeof *by);
    float most = 0;
    double total = 0, sum = 0;
    for (size_t k = 2; k < 2 * bins; k++) most = fmaxf(most, fabsf(spectrum[k]));
    for (size_t k = 1; k < bins; k++) {
        float re = spectrum[2 * k] * (1.0f / most), im = spectrum[2 * k + 1] * (1.0f / most);
        by[k] = (bin){ 2.0f * (re * re + im * im) * (2 * k == n ? 0.5f : 1.0f), k };
        total += (double)by[k].energy;
    }
    qsort(by + 1, bins - 1, sizeof *by, weaker);
    for (; dropped < bins - 1; dropped++) {
        sum += (double)by[dropped].energy;
        if (sum > strength * strength * total) break;
    }
    for (size_t i = most > 0 ? dropped : 1; i < bins; i++)
        spectrum[2 * by[i].k] = spectrum[2 * by[i].k + 1] = 0;
    spectrum[0] = spectrum[1] = 0;
    free(by);
}

/* Every row differs from the others in scale and kind. */
static float *mixed_rows(size_t n, size_t rows)
{
    float *x = gaussian(n * rows, n + rows);
    for (size_t r = 0; r < rows; r++) {
        float scale = ldexpf(1, (int)(7 * r % 5) - 2);
        for (size_t j = 0; j < n; j++) {
            float *v = x + r * n + j;
            if (r % 5 == 1) *v = *v * 0.02f + sinf((float)(j * (r + 1)));
            if (r % 5 == 3) *v *= *v * *v;
            if (r % 7 == 4) *v = j == r ? 1 : 0; /* a flat spectrum */
            *v = r % 11 == 6 ? 0 : *v * scale;
        }
    }
    return x;
}

/* Subtracts the tails from x, and restores mean and std. */
static void naive_filter(float *x, size_t n, size_t rows, double strength)
{
    gg_error err = GG_ERROR_INIT;
    gg_fft_plan *plan = GG_PICK(gg_fft_plan_new)(n, &err);
    size_t width = 2 * (n / 2 + 1);
    float *s = calloc(rows * width, sizeof *s), *y = malloc(n * rows * sizeof *y);
    pair before = mean_std(x, n * rows);
    t_forward(plan, n, x, rows, s);
    for (size_t r = 0; r < rows; r++) naive_tail(s + r * width, n, strength);
    t_inverse(plan, n, s, rows, y);
    for (size_t i = 0; i < n * rows; i++) x[i] -= y[i];
    pair after = mean_std(x, n * rows);
    for (size_t i = 0; i < n * rows; i++)
        x[i] = (float)(((double)x[i] - after.mean) * (before.std / after.std) + before.mean);
    free(s), free(y);
    GG_PICK(gg_fft_plan_free)(plan);
}

/* Filters x and the same rows in `want`, by the definition. The result is compared within its
 * rounding, which is far below the size of a bin. Frees both. */
static void check_definition(float *x, float *want, size_t n, size_t rows, double strength)
{
    purify(GG_PURIFY_FFT, x, n * rows, n, strength);
    naive_filter(want, n, rows, strength);
    double std = mean_std(want, n * rows).std;
    for (size_t r = 0; r < rows; r++) {
        double error = 0;
        for (size_t j = r * n; j < (r + 1) * n; j++)
            error += ((double)x[j] - (double)want[j]) * ((double)x[j] - (double)want[j]);
        error = sqrt(error / (double)n) / std;
        T_CHECKF(error < 1e-6, "length %zu, row %zu of %zu: %g", n, r, rows, error);
    }
    free(x), free(want);
}

/* Every row by itself, for full and partial batches of rows. */
static void fft_definition(void)
{
    static const struct {
        size_t n, rows;
        double strength;
    } of[] = { { 2, 5, 0.5 },     { 3, 16, 0.9 },    { 46, 17, 0.3 },   { 48, 23, 0.3 },
               { 77, 7, 0.2 },    { 128, 33, 0.04 }, { 128, 9, 1 },     { 360, 12, 0.04 },
               { 1024, 16, 0.7 }, { 1031, 3, 0.1 },  { 2048, 17, 0.04 } };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        size_t n = of[i].n, rows = of[i].rows;
        check_definition(mixed_rows(n, rows), mixed_rows(n, rows), n, rows, of[i].strength);
    }
}

enum { CROWDED = 1024, CROWD = 16 };

/* Noise, but in each third row two fifths of the bins have nearly the energy of the cut. */
static float *crowded_rows(void)
{
    const size_t bins = CROWDED / 2 + 1;
    gg_error err = GG_ERROR_INIT;
    gg_fft_plan *plan = GG_PICK(gg_fft_plan_new)(CROWDED, &err);
    float *s = gaussian(CROWD * 2 * bins, 3), *x = malloc(CROWD * CROWDED * sizeof *x);
    for (size_t i = 0; i < CROWD * bins; i++) {
        float *part = s + 2 * i, level = i % bins % 5 < 2 ? 1 : 1.063f;
        if (i / bins % 3) continue;
        float scale = (level + 0.01f * sinf((float)i)) / hypotf(part[0], part[1]);
        part[0] *= scale, part[1] *= scale;
    }
    t_inverse(plan, CROWDED, s, CROWD, x);
    free(s);
    GG_PICK(gg_fft_plan_free)(plan);
    return x;
}

/* Many energies near a cut must not spoil other rows. */
static void fft_crowd(void)
{
    check_definition(crowded_rows(), crowded_rows(), CROWDED, CROWD, 0.556);
}

/* The spectra of two rows overflow, which are not changed, and neither are others for that. */
static void fft_overflow(void)
{
    enum { ROWS = 16, ROW = 1024 };
    float *x = gaussian(ROWS * ROW, 5), *y = malloc(ROWS * ROW * sizeof *y);
    for (size_t i = 0; i < ROWS * ROW; i++) {
        x[i] *= 1e30f;
        if (i / ROW == 2 || i / ROW == 7) x[i] = i % 2 ? 3e38f : -3e38f;
        y[i] = x[i];
    }
    purify(GG_PURIFY_FFT, y, ROWS * ROW, ROW, GG_PURIFY_FFT_STRENGTH);
    for (size_t r = 0; r < ROWS; r++) {
        double change = 0, size = 0;
        for (size_t i = r * ROW; i < (r + 1) * ROW; i++) {
            change += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
            size += (double)x[i] * (double)x[i];
        }
        double rel = sqrt(change / size);
        T_CHECKF(r == 2 || r == 7 ? rel < 1e-6 : rel > 0.03 && rel < 0.05, "row %zu: %g", r, rel);
    }
    free(x), free(y);
}

/* Any number of threads gives the same bits; so does each ISA level. */
static void order(void)
{
    enum { N = 1 << 20, ROW = 1024 };
    gg_error err = GG_ERROR_INIT;
    for (int method = 0; method < 2; method++) {
        float *x = gaussian(N, 3), *y = gaussian(N, 3);
        gg_filter f = { (gg_purify_method)method, 0.2, ROW, 1 };
        gg_filtered a, b;
        gg_isa_set(0);
        T_EQ(GG_PICK(gg_filter_values)(&f, x, N - ROW, &a, &err), GG_OK);
        gg_isa_set(1);
        f.threads = 3;
        T_EQ(GG_PICK(gg_filter_values)(&f, y, N - ROW, &b, &err), GG_OK);
        T_CHECK(memcmp(x, y, N * sizeof *x) == 0 && memcmp(&a, &b, sizeof a) == 0);
        free(x), free(y);
    }
}

static void refusals(void)
{
    gg_filtered r;
    float x[4] = { 0 };
    static const struct {
        uint64_t elements, row;
        double strength;
    } bad[] = { { 4, 4, -0.1 }, { 4, 4, 1.1 }, { 4, 4, NAN }, { 4, 3, 0.5 }, { 4, 0, 0.5 } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gg_error err = GG_ERROR_INIT;
        gg_filter f = { GG_PURIFY_HAAR, bad[i].strength, bad[i].row, 1 };
        T_EQ(GG_PICK(gg_filter_values)(&f, x, bad[i].elements, &r, &err), GG_EUSAGE);
        T_CHECK(err.status == GG_EUSAGE && err.what[0]);
    }
}

static const t_case cases[] = {
    { "the Haar filter against its definition", against_definition },
    { "strength 0 and constants are left alone", strength_zero },
    { "mean, std and report", kept },
    { "default strengths are mild", mild },
    { "rows of the FFT filter against its definition", fft_definition },
    { "many energies near the cut", fft_crowd },
    { "rows whose spectra overflow", fft_overflow },
    { "signal to noise", denoise },
    { "same bits with any threads, on every level", order },
    { "refusals", refusals },
};

T_MAIN(cases)

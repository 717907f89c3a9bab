/* k_fft_io.c - move rows and spectra to vector lanes and back. */
#include "numeric/fft_core.h"

#include "numeric/nlanes.h"

/* t[i][j] = t[j][i] */
static inline void transpose(gg_f32x8 *t)
{
#if NK_SHUFFLE
    gg_f32x8 u[8];
    for (int h = 0; h < 8; h += 4) {
        gg_f32x8 a = __builtin_shufflevector(t[h], t[h + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        gg_f32x8 b = __builtin_shufflevector(t[h], t[h + 1], 2, 10, 3, 11, 6, 14, 7, 15);
        gg_f32x8 c = __builtin_shufflevector(t[h + 2], t[h + 3], 0, 8, 1, 9, 4, 12, 5, 13);
        gg_f32x8 d = __builtin_shufflevector(t[h + 2], t[h + 3], 2, 10, 3, 11, 6, 14, 7, 15);
        u[h] = __builtin_shufflevector(a, c, 0, 1, 8, 9, 4, 5, 12, 13);
        u[h + 1] = __builtin_shufflevector(a, c, 2, 3, 10, 11, 6, 7, 14, 15);
        u[h + 2] = __builtin_shufflevector(b, d, 0, 1, 8, 9, 4, 5, 12, 13);
        u[h + 3] = __builtin_shufflevector(b, d, 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = __builtin_shufflevector(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        t[i + 4] = __builtin_shufflevector(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
#else
    float m[8][8], s;
    memcpy(m, t, sizeof m);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < i; j++) s = m[i][j], m[i][j] = m[j][i], m[j][i] = s;
    memcpy(t, m, sizeof m);
#endif
}

/* Loads the values [at, at + 8) of eight rows from `first` on, one row per lane. Rows beyond
 * `count` and values beyond n are 0. */
static inline void gather(gg_f32x8 *t, const float *rows, size_t n, size_t first, size_t count,
                          size_t at)
{
    size_t left = n - at < 8 ? n - at : 8;
    for (size_t l = 0; l < 8; l++) {
        t[l] = (gg_f32x8){ 0 };
        if (first + l >= count) continue;
        const float *from = rows + (first + l) * n + at;
        if (left == 8) memcpy(&t[l], from, 32);
        else memcpy(&t[l], from, left * sizeof *from);
    }
    transpose(t);
}

static inline void scatter(gg_f32x8 *t, float *rows, size_t n, size_t first, size_t count,
                           size_t at)
{
    size_t left = n - at < 8 ? n - at : 8;
    transpose(t);
    for (size_t l = 0; l < 8 && first + l < count; l++) {
        float *to = rows + (first + l) * n + at;
        if (left == 8) memcpy(to, &t[l], 32);
        else memcpy(to, &t[l], left * sizeof *to);
    }
}

/* Applies mask and scale to each lane. */
static inline void condition(gg_f32x8 *v, const fft_lanes *lanes, int half)
{
    gg_i32x8 mask, bits;
    gg_f32x8 scale;
    memcpy(&mask, lanes->mask[half], 32);
    memcpy(&scale, lanes->scale[half], 32);
    memcpy(&bits, v, 32);
    bits &= mask;
    memcpy(v, &bits, 32);
    *v *= scale;
}

static float power_of_two(uint32_t exponent)
{
    return gg_bits_float(exponent << 23);
}

static uint32_t largest(const float *x, size_t n)
{
    int32_t top = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t u;
        memcpy(&u, x + i, sizeof u);
        u &= INT32_MAX;
        top = u > top ? u : top;
    }
    return (uint32_t)top;
}

void GG_K(gg_nk_fft_lanes)(fft_lanes *lanes, const float *rows, size_t n, size_t count)
{
    for (size_t l = 0; l < 2 * FFT_LANES; l++) {
        uint32_t top = l < count ? largest(rows + l * n, n) : 0, exponent = top >> 23;
        bool sound = l < count && exponent < 255;
        uint32_t scale = exponent == 0 ? 253 : exponent >= 254 ? 1 : 254 - exponent;
        lanes->mask[l / 8][l % 8] = sound ? -1 : 0;
        lanes->scale[l / 8][l % 8] = power_of_two(scale);
        /* A row of zeros must not pick up rounding errors of the row that it is paired with. */
        lanes->unscale[l / 8][l % 8] = top ? power_of_two(254 - scale) : 0.0f;
    }
}

void GG_K(gg_nk_fft_load)(const fft_lanes *lanes, const float *rows, size_t n, size_t count,
                          fft_point *z)
{
    for (size_t at = 0; at < n; at += 8) {
        gg_f32x8 re[8], im[8];
        gather(re, rows, n, 0, count, at);
        gather(im, rows, n, 8, count, at);
        for (size_t j = 0; j < 8 && at + j < n; j++) {
            condition(&re[j], lanes, 0);
            condition(&im[j], lanes, 1);
            z[at + j] = (fft_point){ re[j], im[j] };
        }
    }
}

void GG_K(gg_nk_fft_spectra)(const fft_lanes *lanes, const fft_point *z, size_t n, size_t count,
                             float *spectra)
{
    size_t bins = n / 2 + 1;
    gg_f32x8 ua, ub;
    memcpy(&ua, lanes->unscale[0], 32);
    memcpy(&ub, lanes->unscale[1], 32);
    for (size_t at = 0; at < bins; at += 4) {
        gg_f32x8 a[8] = { { 0 } }, b[8] = { { 0 } };
        for (size_t j = 0; j < 4 && at + j < bins; j++) {
            const fft_point *p = z + at + j, *q = z + (at + j ? n - at - j : 0);
            a[2 * j] = (p->re + q->re) * 0.5f * ua;
            a[2 * j + 1] = (p->im - q->im) * 0.5f * ua;
            b[2 * j] = (p->im + q->im) * 0.5f * ub;
            b[2 * j + 1] = (q->re - p->re) * 0.5f * ub;
        }
        scatter(a, spectra, 2 * bins, 0, count, 2 * at);
        scatter(b, spectra, 2 * bins, 8, count, 2 * at);
    }
    for (size_t l = 0; l < count; l++) {
        float *row = spectra + 2 * bins * l;
        if (!lanes->mask[l / 8][l % 8])
            for (size_t k = 0; k < 2 * bins; k++) row[k] = __builtin_nanf("");
    }
}

void GG_K(gg_nk_fft_load_spectra)(const fft_lanes *lanes, const float *spectra, size_t n,
                                  size_t count, fft_point *z)
{
    size_t bins = n / 2 + 1;
    for (size_t at = 0; at < bins; at += 4) {
        gg_f32x8 a[8], b[8];
        gather(a, spectra, 2 * bins, 0, count, 2 * at);
        gather(b, spectra, 2 * bins, 8, count, 2 * at);
        for (size_t j = 0; j < 8; j++) {
            condition(&a[j], lanes, 0);
            condition(&b[j], lanes, 1);
        }
        for (size_t j = 0; j < 4 && at + j < bins; j++) {
            size_t k = at + j;
            gg_f32x8 ar = a[2 * j], ai = a[2 * j + 1], br = b[2 * j], bi = b[2 * j + 1];
            if (k == 0 || 2 * k == n) ai = bi = (gg_f32x8){ 0 };
            if (k) z[n - k] = (fft_point){ br - ai, ar + bi };
            z[k] = (fft_point){ ai + br, ar - bi };
        }
    }
}

void GG_K(gg_nk_fft_store)(const fft_lanes *lanes, const fft_point *z, size_t n, size_t count,
                           float *rows)
{
    float inverse = (float)(1.0 / (double)n);
    gg_f32x8 ua, ub;
    memcpy(&ua, lanes->unscale[0], 32);
    memcpy(&ub, lanes->unscale[1], 32);
    for (size_t at = 0; at < n; at += 8) {
        gg_f32x8 a[8] = { { 0 } }, b[8] = { { 0 } };
        for (size_t j = 0; j < 8 && at + j < n; j++) {
            a[j] = z[at + j].im * inverse * ua;
            b[j] = z[at + j].re * inverse * ub;
        }
        scatter(a, rows, n, 0, count, at);
        scatter(b, rows, n, 8, count, at);
    }
    for (size_t l = 0; l < count; l++)
        if (!lanes->mask[l / 8][l % 8])
            for (size_t k = 0; k < n; k++) rows[l * n + k] = __builtin_nanf("");
}

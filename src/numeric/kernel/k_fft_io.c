/* k_fft_io.c - move rows and spectra to vector lanes and back. */
#include "numeric/fft_core.h"

#include "numeric/nlanes.h"

#define ALWAYS static inline __attribute__((always_inline))

/* Eight floats at any address. gcc would copy 32 bytes as two halves, and the load of the whole
 * that follows would wait for both stores. */
typedef float floats_at __attribute__((vector_size(32), aligned(4), __may_alias__));

/* t[i][j] = t[j][i] */
ALWAYS void transpose(gg_f32x8 *t)
{
#if NK_SHUFFLE
    gg_f32x8 u[8];
#pragma GCC unroll 2
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
#pragma GCC unroll 4
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

/* Eight values of eight rows of a batch: the values [at, at + 8) of the rows from `first` on. */
typedef struct block {
    size_t n, count; /* values of a row, rows of the batch */
    size_t first, at;
} block;

/* Loads a block, one row per lane. Rows beyond `count` and values beyond n are 0. */
ALWAYS void gather(gg_f32x8 *t, const float *rows, block b)
{
    const float *from = rows + b.first * b.n + b.at;
    if (b.n - b.at >= 8 && b.count >= b.first + 8) {
#pragma GCC unroll 8
        for (size_t l = 0; l < 8; l++) t[l] = *(const floats_at *)(from + l * b.n);
    } else {
        size_t left = b.n - b.at < 8 ? b.n - b.at : 8;
        for (size_t l = 0; l < 8; l++) {
            t[l] = (gg_f32x8){ 0 };
            if (b.first + l < b.count) memcpy(&t[l], from + l * b.n, left * sizeof *from);
        }
    }
    transpose(t);
}

ALWAYS void scatter(gg_f32x8 *t, float *rows, block b)
{
    float *to = rows + b.first * b.n + b.at;
    transpose(t);
    if (b.n - b.at >= 8 && b.count >= b.first + 8) {
#pragma GCC unroll 8
        for (size_t l = 0; l < 8; l++) *(floats_at *)(to + l * b.n) = t[l];
    } else {
        size_t left = b.n - b.at < 8 ? b.n - b.at : 8;
        for (size_t l = 0; l < 8 && b.first + l < b.count; l++)
            memcpy(to + l * b.n, &t[l], left * sizeof *to);
    }
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

void GG_K(gg_nk_fft_largest)(const float *rows, size_t n, size_t count, fft_bits top)
{
    for (size_t l = 0; l < 2 * FFT_LANES; l++)
        top[l / 8][l % 8] = l < count ? (int32_t)largest(rows + l * n, n) : 0;
}

/* Loads 16 values of the rows of one half, which become the real or the imaginary parts. */
ALWAYS void load_half(const fft_lanes *lanes, int half, const float *rows, block b, fft_point *z)
{
    gg_i32x8 mask = *(const gg_i32x8 *)(const void *)lanes->mask[half];
    gg_f32x8 scale = *(const gg_f32x8 *)(const void *)lanes->scale[half];
    b.first = 8 * (size_t)half;
    for (size_t end = b.at + 16; b.at < end && b.at < b.n; b.at += 8) {
        gg_f32x8 t[8];
        gather(t, rows, b);
#pragma GCC unroll 8
        for (size_t j = 0; j < 8; j++) {
            if (b.at + j >= b.n) break;
            t[j] = (gg_f32x8)((gg_i32x8)t[j] & mask) * scale;
            if (half) z[b.at + j].im = t[j];
            else z[b.at + j].re = t[j];
        }
    }
}

void GG_K(gg_nk_fft_load)(const fft_lanes *lanes, const float *rows, size_t n, size_t count,
                          fft_point *z)
{
    for (size_t at = 0; at < n; at += 16) { /* a line of the cache */
        load_half(lanes, 0, rows, (block){ n, count, 0, at }, z);
        load_half(lanes, 1, rows, (block){ n, count, 0, at }, z);
    }
}

/* The spectra are arrays of vectors, as the points are, so that moving them is a matter of
 * transposing. */
void GG_K(gg_nk_fft_put_spectra)(const fft_spectra *s, size_t bins, size_t count, float *spectra)
{
    for (size_t at = 0; at < 2 * bins; at += 8) {
        size_t left = 2 * bins - at < 8 ? 2 * bins - at : 8;
        gg_f32x8 t[8] = { { 0 } };
        memcpy(t, (const gg_f32x8 *)s->a + at, left * sizeof *t);
        scatter(t, spectra, (block){ 2 * bins, count, 0, at });
        memcpy(t, (const gg_f32x8 *)s->b + at, left * sizeof *t);
        scatter(t, spectra, (block){ 2 * bins, count, 8, at });
    }
}

void GG_K(gg_nk_fft_get_spectra)(const fft_spectra *s, size_t bins, size_t count,
                                 const float *spectra)
{
    for (size_t at = 0; at < 2 * bins; at += 8) {
        size_t left = 2 * bins - at < 8 ? 2 * bins - at : 8;
        gg_f32x8 t[8];
        gather(t, spectra, (block){ 2 * bins, count, 0, at });
        memcpy((gg_f32x8 *)s->a + at, t, left * sizeof *t);
        gather(t, spectra, (block){ 2 * bins, count, 8, at });
        memcpy((gg_f32x8 *)s->b + at, t, left * sizeof *t);
    }
}

/* Stores 16 values of the rows of one half, which are the imaginary or the real parts. */
ALWAYS void store_half(const fft_lanes *lanes, int half, const fft_point *z, block b, float *rows)
{
    float inverse = (float)(1.0 / (double)b.n);
    gg_f32x8 unscale = *(const gg_f32x8 *)(const void *)lanes->unscale[half];
    b.first = 8 * (size_t)half;
    for (size_t end = b.at + 16; b.at < end && b.at < b.n; b.at += 8) {
        gg_f32x8 t[8] = { { 0 } };
#pragma GCC unroll 8
        for (size_t j = 0; j < 8; j++)
            if (b.at + j < b.n) t[j] = (half ? z[b.at + j].re : z[b.at + j].im) * inverse * unscale;
        scatter(t, rows, b);
    }
}

void GG_K(gg_nk_fft_store)(const fft_lanes *lanes, const fft_point *z, size_t n, size_t count,
                           float *rows)
{
    for (size_t at = 0; at < n; at += 16) { /* a line of the cache */
        store_half(lanes, 0, z, (block){ n, count, 0, at }, rows);
        store_half(lanes, 1, z, (block){ n, count, 0, at }, rows);
    }
}

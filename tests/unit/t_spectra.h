/* t_spectra.h - spectra of many rows as plain arrays, for tests. */
#ifndef T_SPECTRA_H
#define T_SPECTRA_H

#include "purify/fft.h"

#include <stdlib.h>
#include <string.h>

static void *t_fft_scratch(const gg_fft_plan *plan)
{
    return aligned_alloc(64, (GG_PICK(gg_fft_scratch)(plan) + 63) / 64 * 64);
}

/* The part (0 re, 1 im) of bin k of row l of a batch. */
static float *t_part(const gg_fft_spectra *s, size_t l, size_t k, size_t part)
{
    gg_fft_point *p = &s->bin[k][l / 8];
    return (float *)p + 8 * part + l % 8;
}

/* spectra: for each row n / 2 + 1 bins of {re, im}. */
static void t_forward(const gg_fft_plan *plan, size_t n, const float *rows, size_t n_rows,
                      float *spectra)
{
    void *scratch = t_fft_scratch(plan);
    for (size_t r = 0; r < n_rows; r++) {
        size_t l = r % GG_FFT_BATCH, first = r - l, width = 2 * (n / 2 + 1);
        size_t count = n_rows - first < GG_FFT_BATCH ? n_rows - first : GG_FFT_BATCH;
        gg_fft_spectra s = GG_PICK(gg_fft_forward)(plan, rows + first * n, count, scratch);
        for (size_t i = 0; i < width; i++) spectra[r * width + i] = *t_part(&s, l, i / 2, i % 2);
    }
    free(scratch);
}

static void t_inverse(const gg_fft_plan *plan, size_t n, const float *spectra, size_t n_rows,
                      float *rows)
{
    void *scratch = t_fft_scratch(plan);
    size_t width = 2 * (n / 2 + 1);
    for (size_t r = 0; r < n_rows; r += GG_FFT_BATCH) {
        size_t count = n_rows - r < GG_FFT_BATCH ? n_rows - r : GG_FFT_BATCH;
        gg_fft_spectra s = GG_PICK(gg_fft_forward)(plan, rows, 0, scratch);
        for (size_t l = 0; l < count; l++)
            for (size_t i = 0; i < width; i++)
                *t_part(&s, l, i / 2, i % 2) = spectra[(r + l) * width + i];
        memcpy(rows + r * n, GG_PICK(gg_fft_inverse)(plan, &s, count), count * n * sizeof *rows);
    }
    free(scratch);
}

#endif

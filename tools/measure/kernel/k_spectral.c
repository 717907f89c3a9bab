/* k_spectral.c - the product of a Gram matrix and a vector, in one pass over the rows. */
#include "measure/spectral.h"
#include "numeric/nkernel.h"

#include <string.h>

enum { LANES = 8, ROWS = 4 }; /* rows are taken four at a time */

/* Eight floats at any address. */
typedef float floats_at __attribute__((vector_size(LANES * 4), aligned(4), __may_alias__));

static inline float fold(const gg_f32x8 *sum)
{
    float s[LANES];
    memcpy(s, sum, sizeof s);
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* The dot products of `rows` rows with v. */
static inline void dots(const float *x, size_t rows, size_t cols, const float *v, float *dot)
{
    for (size_t r = 0; r < rows; r++) {
        const float *w = x + r * cols;
        gg_f32x8 even = { 0 }, odd = { 0 };
        size_t j = 0;
        for (; j + 2 * LANES <= cols; j += 2 * LANES) {
            even += *(const floats_at *)(w + j) * *(const floats_at *)(v + j);
            odd += *(const floats_at *)(w + j + LANES) * *(const floats_at *)(v + j + LANES);
        }
        even += odd;
        float rest = 0;
        for (; j < cols; j++) rest += w[j] * v[j];
        dot[r] = fold(&even) + rest;
    }
}

static inline void add_rows(float *z, const float *x, size_t rows, size_t cols, const float *dot)
{
    size_t j = 0;
    for (; j + LANES <= cols; j += LANES) {
        gg_f32x8 sum = *(const floats_at *)(z + j);
        for (size_t r = 0; r < rows; r++) sum += *(const floats_at *)(x + r * cols + j) * dot[r];
        *(floats_at *)(z + j) = sum;
    }
    for (; j < cols; j++)
        for (size_t r = 0; r < rows; r++) z[j] += x[r * cols + j] * dot[r];
}

void GG_K(gg_nk_gram_times)(const float *x, size_t rows, size_t cols, const float *v, float *z)
{
    float dot[ROWS];
    size_t i = 0;
    memset(z, 0, cols * sizeof *z);
    for (; i + ROWS <= rows; i += ROWS) {
        dots(x + i * cols, ROWS, cols, v, dot);
        add_rows(z, x + i * cols, ROWS, cols, dot);
    }
    for (; i < rows; i++) {
        dots(x + i * cols, 1, cols, v, dot);
        add_rows(z, x + i * cols, 1, cols, dot);
    }
}

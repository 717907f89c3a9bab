/* The arithmetic of blends and adapters: each instruction-set level against the plain formula, bit
 * for bit, for lengths around every vector and tile. */
#include "t.h"

#include "base/isa.h"
#include "graft/mix_values.h"
#include "numeric/numeric.h"

#include <math.h>

static uint32_t state = 1;

static float any(void)
{
    state = state * 1664525 + 1013904223;
    return (float)(int32_t)state * 0x1p-30f;
}

/* n values of no particular alignment, filled with any(). Freed by the caller with free(x - 1). */
static float *some(size_t n)
{
    float *x = malloc((n + 1) * sizeof *x);
    if (!x) exit(1);
    for (size_t i = 0; i <= n; i++) x[i] = any();
    return x + 1;
}

static bool same(const void *a, const void *b, size_t n)
{
    return n == 0 || memcmp(a, b, n * sizeof(float)) == 0;
}

static void blends(void)
{
    static const size_t lengths[] = { 0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 63, 64, 65, 1000, 4097 };
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        size_t n = lengths[k];
        float *a = some(n), *b = some(n), *c = some(n), *x = some(n), *want = some(n);
        for (int level = 0; level < 2; level++) {
            gg_isa_set(level);
            for (size_t i = 0; i < n; i++) want[i] = (float)(0.3 * a[i] + 0.9 * b[i]);
            memcpy(x, a, n * sizeof *x);
            GG_PICK(gg_mix_two)(x, b, 0.3, 0.9, n);
            T_CHECKF(same(x, want, n), "two, level %d, %zu values", level, n);
            for (size_t i = 0; i < n; i++) want[i] = (float)(a[i] + 0.7 * ((double)b[i] - c[i]));
            memcpy(x, a, n * sizeof *x);
            GG_PICK(gg_mix_difference)(x, b, c, 0.7, n);
            T_CHECKF(same(x, want, n), "difference, level %d, %zu values", level, n);
            for (size_t i = 0; i < n; i++) want[i] = (float)(a[i] + 0.7 * ((double)b[i] - a[i]));
            memcpy(x, a, n * sizeof *x);
            GG_PICK(gg_mix_difference)(x, b, x, 0.7, n);
            T_CHECKF(same(x, want, n), "in place, level %d, %zu values", level, n);
        }
        free(a - 1), free(b - 1), free(c - 1), free(x - 1), free(want - 1);
    }
}

/* Two calls continue the same four lanes. */
static void products(void)
{
    enum { FIRST = 64 };
    for (size_t n = FIRST; n < FIRST + 20; n++) {
        float *a = some(n), *b = some(n);
        gg_products want = { { 0 }, { 0 }, { 0 } };
        for (size_t i = 0; i < n; i++) {
            want.aa[i & 3] += (double)a[i] * a[i];
            want.bb[i & 3] += (double)b[i] * b[i];
            want.ab[i & 3] += (double)a[i] * b[i];
        }
        for (int level = 0; level < 2; level++) {
            gg_products s = { { 0 }, { 0 }, { 0 } };
            gg_isa_set(level);
            GG_PICK(gg_mix_products)(&s, a, b, FIRST);
            GG_PICK(gg_mix_products)(&s, a + FIRST, b + FIRST, n - FIRST);
            T_CHECKF(memcmp(&s, &want, sizeof s) == 0, "level %d, %zu values", level, n);
        }
        free(a - 1), free(b - 1);
    }
}

/* The first n columns of rows with `stride` values; the other columns must not change. */
static void low_rank_one(size_t rows, size_t stride, size_t n, size_t r)
{
    float *x = some(rows * stride), *y = some(rows * stride), *want = some(rows * stride);
    float *tall = some(rows * r), *wide = some(r * stride);
    gg_low_rank l = { wide, stride, r, 0.37f };
    memcpy(want, x, rows * stride * sizeof *x);
    for (size_t o = 0; o < rows; o++) {
        for (size_t i = 0; i < n; i++) {
            float sum = 0;
            for (size_t k = 0; k < r; k++) sum += tall[o * r + k] * wide[k * stride + i];
            want[o * stride + i] += l.scale * sum;
        }
    }
    for (int level = 0; level < 2; level++) {
        gg_isa_set(level);
        memcpy(y, x, rows * stride * sizeof *x);
        GG_PICK(gg_mix_low_rank)(&l, y, tall, rows, n);
        T_CHECKF(same(y, want, rows * stride), "level %d, %zu rows, %zu of %zu columns, rank %zu",
                 level, rows, n, stride, r);
    }
    free(x - 1), free(y - 1), free(want - 1), free(tall - 1), free(wide - 1);
}

static void low_rank(void)
{
    static const size_t columns[] = { 1, 7, 8, 15, 16, 17, 31, 255, 256, 257, 272, 600 };
    for (size_t rows = 1; rows <= 9; rows++)
        for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++)
            for (size_t r = 1; r <= 17; r += 4) {
                low_rank_one(rows, columns[c], columns[c], r);
                low_rank_one(rows, 600, columns[c], r);
            }
}

static void counts(void)
{
    enum { N = 300 };
    float *x = some(N);
    static const float limits[] = { 65520.0f, 0x1.ffp127f, INFINITY, 1.0f };
    static const float odd[] = { 65519.99f, -65520.0f, INFINITY, -INFINITY,   NAN,
                                 -NAN,      3.4e38f,   0.0f,     0x1.ffp127f, -0x1.fep127f };
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) x[i * 29] = odd[i];
    for (size_t k = 0; k < sizeof limits / sizeof limits[0]; k++)
        for (size_t n = 0; n <= N; n++) {
            size_t want = 0;
            for (size_t i = 0; i < n; i++) want += fabsf(x[i]) < limits[k] ? 0 : 1;
            for (int level = 0; level < 2; level++) {
                gg_isa_set(level);
                T_EQ(GG_PICK(gg_mix_beyond)(x, n, limits[k]), want);
            }
        }
    free(x - 1);
}

static const t_case cases[] = {
    { "blends", blends },
    { "products", products },
    { "low_rank", low_rank },
    { "counts", counts },
};

T_MAIN(cases)

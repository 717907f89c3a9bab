/* polar.c - Newton-Schulz iteration with polynomials of degree 5.
 *
 * One step is X <- X (a + b G + c G^2) with the Gram matrix G = X' X, which maps every singular
 * value s to s (a + b s^2 + c s^4). The coefficients are those of Amsel et al., "The Polar
 * Express" (2025), computed for the interval 0.001 .. 1: each step maximises the smallest value
 * without losing the bound. A wide matrix uses X X' from the left, so that G has the shorter side.
 */
#include "polar.h"

#include "base/float_bits.h"
#include "matmul_bands.h"
#include "numeric/numeric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double step_of[][3] = {
    { 8.28721201814563, -23.595886519098837, 17.300387312530933 },
    { 4.107059111542203, -2.9478499167379106, 0.5448431082926601 },
    { 3.9486908534822946, -2.908902115962949, 0.5518191394370137 },
    { 3.3184196573706015, -2.488488024314874, 0.51004894012372 },
    { 2.300652019954817, -1.6689039845747493, 0.4188073119525673 },
    { 1.891301407787398, -1.2679958271945868, 0.37680408948524835 },
    { 1.8750014808534479, -1.2500016453999487, 0.3750001645474248 },
    { 1.875, -1.25, 0.375 },
};
enum { POLAR_STEPS = sizeof step_of / sizeof step_of[0] };

/* Scales x by a power of two so that its largest value is between 1 and 2. False if x is 0. */
static bool scale_to_one(float *x, size_t n)
{
    float top = 0;
    for (size_t i = 0; i < n; i++) top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
    if (!(top > 0)) return false;
    int power = gg_float_exponent(top);
    float factor = (float)gg_power_of_two(power < -121 ? 121 : -power);
    for (size_t i = 0; i < n; i++) x[i] *= factor;
    return true;
}

/* The coefficients of a step. The first one also divides x by a bound of its largest singular
 * value, the fourth root of the Frobenius norm of G^2, rounded up a little. */
static gg_status coefficients(const gg_matrix *g, int no, unsigned threads, double *k,
                              gg_error *err)
{
    double sum = 1, s = 1;
    gg_status st = no == 0 ? gg_matmul_square_norm(g, threads, &sum, err) : GG_OK;
    if (no == 0) s = 1.0001 * sqrt(sqrt(sqrt(sum)));
    k[0] = step_of[no][0] / s;
    k[1] = step_of[no][1] / (s * s * s);
    k[2] = step_of[no][2] / (s * s * s * s * s);
    return st;
}

/* h <- a + b g + c h, where h is g^2. */
static void polynomial(float *h, const float *g, size_t n, const double *k)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            size_t at = i * n + j;
            double p = k[1] * (double)g[at] + k[2] * (double)h[at];
            h[at] = (float)(i == j ? k[0] + p : p);
        }
    }
}

/* One step. h is NULL if the matrix is nearly square: then G^2 is not kept, which saves memory and
 * costs a quarter more time. */
static gg_status step(const gg_matrix *x, float *g, float *h, int no, unsigned threads,
                      gg_error *err)
{
    bool tall = x->rows >= x->cols;
    size_t n = tall ? x->cols : x->rows;
    double k[3];
    gg_matrix turned = gg_matrix_transposed(x), mg = gg_matrix_of(g, n, n),
              mh = gg_matrix_of(h, n, n);
    gg_status st = gg_matmul_symmetric(&mg, tall ? &turned : x, tall ? x : &turned, threads, err);
    if (st == GG_OK) st = coefficients(&mg, no, threads, k, err);
    if (st != GG_OK) return st;
    if (!h) return gg_matmul_polynomial(x, &mg, k, tall, threads, err);
    st = gg_matmul_symmetric(&mh, &mg, &mg, threads, err);
    if (st != GG_OK) return st;
    polynomial(h, g, n, k);
    return gg_matmul_in_place(x, &mh, tall, threads, err);
}

gg_status gg_polar(float *x, size_t rows, size_t cols, unsigned threads, gg_error *err)
{
    size_t n = rows < cols ? rows : cols, longer = rows < cols ? cols : rows;
    if (n == 0 || !scale_to_one(x, rows * cols)) return GG_OK;
    if (n > SIZE_MAX / sizeof(float) / n) return gg_fail(err, GG_ENOMEM, "no memory for a matrix");
    bool keep = longer / 2 >= n;
    float *g = malloc(n * n * sizeof *g), *h = keep ? malloc(n * n * sizeof *h) : NULL;
    gg_matrix m = gg_matrix_of(x, rows, cols);
    gg_status st = g && (h || !keep) ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for a matrix");
    for (int i = 0; i < POLAR_STEPS && st == GG_OK; i++) st = step(&m, g, h, i, threads, err);
    free(g);
    free(h);
    return st;
}

gg_status gg_isotropic(float *d, size_t rows, size_t cols, unsigned threads, double *mean,
                       gg_error *err)
{
    size_t n = rows * cols, shorter = rows < cols ? rows : cols;
    float *copy = malloc(n ? n * sizeof *copy : 1);
    if (!copy) return gg_fail(err, GG_ENOMEM, "no memory for a matrix");
    memcpy(copy, d, n * sizeof *copy);
    gg_status st = gg_polar(d, rows, cols, threads, err);
    gg_compare sums = GG_COMPARE_INIT;
    gg_compare_add(&sums, d, copy, n);
    free(copy);
    if (st != GG_OK) return st;
    double m = shorter ? sums.dot / (double)shorter : 0;
    for (size_t i = 0; i < n; i++) d[i] = (float)(m * (double)d[i]);
    if (mean) *mean = m;
    return GG_OK;
}

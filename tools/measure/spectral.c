/* spectral.c - the Lanczos method with full reorthogonalisation.
 *
 * After k steps the largest eigenvalue of a k x k tridiagonal matrix approaches that of G = x' x
 * from below. Without a direction outside the noise, the error falls as 1 / k^2. Steps end when the
 * last CHECK of them have changed the eigenvalue so little that the error is far below 1 %.
 */
#include "spectral.h"

#include "base/error.h"
#include "base/float_bits.h"
#include "base/parallel.h"
#include "numeric/nkernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 160, CHECK = 8, PARTS = 64, PART_ROWS = 64 };

#define CHANGE 2e-4 /* relative change within CHECK steps that ends the iteration */

typedef struct lanczos {
    const gg_spectral_rows *m;
    size_t parts, part_rows;  /* of x, for the threads */
    float *sums;              /* parts x cols */
    float *basis;             /* STEPS + 1 orthonormal vectors */
    const float *v;           /* the last of them */
    double *z;                /* G v, then the next vector */
    double diagonal[STEPS];   /* of the tridiagonal matrix */
    double beside[STEPS + 1]; /* beside[k] is between k and k + 1 */
} lanczos;

/* ---- vectors ------------------------------------------------------------------------ */

static double dot(const float *v, const double *z, size_t n)
{
    double sum[4] = { 0 };
    for (size_t i = 0; i < n; i++) sum[i % 4] += (double)v[i] * z[i];
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

static double norm(const double *z, size_t n)
{
    double sum[4] = { 0 };
    for (size_t i = 0; i < n; i++) sum[i % 4] += z[i] * z[i];
    return sqrt((sum[0] + sum[2]) + (sum[1] + sum[3]));
}

static gg_status times_part(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    (void)worker, (void)err;
    lanczos *l = ctx;
    const gg_spectral_rows *m = l->m;
    size_t first = i * l->part_rows;
    size_t rows = m->rows - first < l->part_rows ? m->rows - first : l->part_rows;
    const float *x = m->x + first * m->cols;
    GG_PICK(gg_nk_gram_times)(x, rows, m->cols, l->v, l->sums + i * m->cols);
    return GG_OK;
}

/* z = G v. The sums of the parts are added in their order. */
static gg_status apply_gram(lanczos *l, unsigned threads, gg_error *err)
{
    size_t n = l->m->cols;
    gg_status st = gg_parallel(l->parts, threads, times_part, l, err);
    memset(l->z, 0, n * sizeof *l->z);
    for (size_t p = 0; p < l->parts && st == GG_OK; p++)
        for (size_t j = 0; j < n; j++) l->z[j] += (double)l->sums[p * n + j];
    return st;
}

/* Removes from z its parts along the first k vectors, twice because of rounding. */
static void reorthogonalise(lanczos *l, size_t k)
{
    size_t n = l->m->cols;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < k; i++) {
            const float *q = l->basis + i * n;
            double d = dot(q, l->z, n);
            for (size_t j = 0; j < n; j++) l->z[j] -= d * (double)q[j];
        }
    }
}

static void next_vector(lanczos *l, size_t k, double length)
{
    float *q = l->basis + k * l->m->cols;
    for (size_t j = 0; j < l->m->cols; j++) q[j] = (float)(l->z[j] / length);
    l->v = q;
}

/* ---- the tridiagonal matrix ------------------------------------------------------------- */

/* Whether all eigenvalues of the leading k x k part are below x (Sturm's count). */
static bool all_below(const lanczos *l, size_t k, double x)
{
    double d = 1;
    for (size_t i = 0; i < k; i++) {
        double b = i ? l->beside[i - 1] : 0;
        d = l->diagonal[i] - x - b * b / d;
        if (d >= 0) return false;
    }
    return true;
}

static double largest(const lanczos *l, size_t k)
{
    double low = 0, high = 0;
    for (size_t i = 0; i < k; i++) {
        double reach = l->diagonal[i] + (i ? l->beside[i - 1] : 0) + l->beside[i];
        high = reach > high ? reach : high;
    }
    for (int i = 0; i < 60; i++) {
        double middle = low + (high - low) / 2;
        if (all_below(l, k, middle)) high = middle;
        else low = middle;
    }
    return high;
}

/* The largest eigenvalue of G. */
static gg_status iterate(lanczos *l, unsigned threads, double *top, gg_error *err)
{
    size_t n = l->m->cols, most = n < STEPS ? n : STEPS;
    double values[STEPS] = { 0 };
    gg_gauss_fill(l->basis, n, GG_NULL_SEED);
    for (size_t j = 0; j < n; j++) l->z[j] = (double)l->basis[j];
    next_vector(l, 0, norm(l->z, n));
    *top = 0;
    for (size_t k = 0; k < most; k++) {
        gg_status st = apply_gram(l, threads, err);
        if (st != GG_OK) return st;
        l->diagonal[k] = dot(l->v, l->z, n);
        reorthogonalise(l, k + 1);
        l->beside[k] = norm(l->z, n);
        *top = values[k] = largest(l, k + 1);
        /* Nothing is left: the vectors span all that G reaches. */
        if (l->beside[k] <= 1e-6 * *top) break;
        if (k >= (size_t)2 * CHECK && *top - values[k - CHECK] < CHANGE * *top) break;
        next_vector(l, k + 1, l->beside[k]);
    }
    return GG_OK;
}

/* ---- the edge --------------------------------------------------------------------------- */

/* Scales the values to at most 1 by a power of two, and returns their variance. */
static double prepare(float *x, size_t n)
{
    float top = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) x[i] = 0;
        top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
    }
    if (!(top > 0)) return 0;
    float factor = (float)gg_power_of_two(-1 - gg_float_exponent(top));
    for (size_t i = 0; i < n; i++) x[i] *= factor;
    double sum = GG_PICK(gg_nk_range)(x, n).sum, mean = sum / (double)n;
    return GG_PICK(gg_nk_central)(x, n, mean).m2 / (double)n;
}

/* Largest eigenvalue for all rows, from that of the rows given. A direction of strength s in noise
 * of variance v makes (s + v m) (s + v n) / s, and s grows with the number of rows. */
static double extrapolate(const gg_spectral_rows *r, double top, double v)
{
    double m = (double)r->rows, all = (double)r->of_rows, n = (double)r->cols;
    double edge = v * (sqrt(m) + sqrt(n)) * (sqrt(m) + sqrt(n));
    double full = v * (sqrt(all) + sqrt(n)) * (sqrt(all) + sqrt(n));
    if (r->of_rows <= r->rows) return top / full;
    if (top <= edge) return top / edge;
    double b = top - v * (m + n), s = (b + sqrt(b * b - 4 * v * v * m * n)) / 2 * (all / m);
    return (s + v * all) * (s + v * n) / s / full;
}

gg_status gg_spectral_edge(const gg_spectral_rows *m, unsigned threads, double *edge, gg_error *err)
{
    size_t n = m->rows * m->cols;
    double v = n ? prepare(m->x, n) : 0, top = 0;
    *edge = 0;
    if (!(v > 0)) return GG_OK;
    lanczos l = { .m = m };
    l.part_rows = m->rows / PARTS < PART_ROWS ? PART_ROWS : m->rows / PARTS + 1;
    /* not 0: at least 1, see above */
    l.parts = m->rows / l.part_rows + (m->rows % l.part_rows != 0);
    size_t vectors = l.parts + STEPS + 1;
    l.sums = m->cols <= SIZE_MAX / 8 / vectors ? malloc(m->cols * vectors * sizeof(float)) : NULL;
    l.z = m->cols <= SIZE_MAX / 8 ? malloc(m->cols * sizeof(double)) : NULL;
    if (l.sums) l.basis = l.sums + l.parts * m->cols;
    gg_status st = l.sums && l.z ? iterate(&l, threads, &top, err)
                                 : gg_fail(err, GG_ENOMEM, "no memory for the rows of a matrix");
    if (st == GG_OK) *edge = extrapolate(m, top, v);
    free(l.sums);
    free(l.z);
    return st;
}

/* svd.h - a slow and simple singular value decomposition, against which tests compare. */
#ifndef SVD_H
#define SVD_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* x = u diag(s) v', row-major in double: u is m x n, v is n x n, m >= n, s descending. */
typedef struct svd {
    size_t m, n;
    double *u, *s, *v;
} svd;

static inline void svd_rotate(double *a, double *b, size_t n, size_t step, double c, double s)
{
    for (size_t i = 0; i < n; i++) {
        double x = a[i * step], y = b[i * step];
        a[i * step] = c * x - s * y;
        b[i * step] = s * x + c * y;
    }
}

/* Makes columns p and q orthogonal. Returns how far they were from it. */
static inline double svd_pair(svd *d, size_t p, size_t q)
{
    double aa = 0, bb = 0, ab = 0;
    for (size_t i = 0; i < d->m; i++) {
        double a = d->u[i * d->n + p], b = d->u[i * d->n + q];
        aa += a * a;
        bb += b * b;
        ab += a * b;
    }
    if (aa == 0 || bb == 0 || fabs(ab) <= 1e-15 * sqrt(aa * bb)) return 0;
    double z = (bb - aa) / (2 * ab), t = (z < 0 ? -1 : 1) / (fabs(z) + sqrt(1 + z * z));
    double c = 1 / sqrt(1 + t * t);
    svd_rotate(d->u + p, d->u + q, d->m, d->n, c, c * t);
    svd_rotate(d->v + p, d->v + q, d->n, d->n, c, c * t);
    return fabs(ab) / sqrt(aa * bb);
}

static inline void svd_order(svd *d)
{
    for (size_t i = 0; i < d->n; i++) {
        size_t top = i;
        for (size_t j = i; j < d->n; j++)
            if (d->s[j] > d->s[top]) top = j;
        if (top == i) continue;
        double s = d->s[i];
        d->s[i] = d->s[top];
        d->s[top] = s;
        svd_rotate(d->u + i, d->u + top, d->m, d->n, 0, 1);
        svd_rotate(d->v + i, d->v + top, d->n, d->n, 0, 1);
    }
}

/* One-sided Jacobi iteration on a row-major float matrix of m >= n. */
static inline svd svd_of(const float *x, size_t m, size_t n)
{
    svd d = { m, n, calloc(m * n, 8), calloc(n, 8), calloc(n * n, 8) };
    if (!d.u || !d.s || !d.v) abort();
    for (size_t i = 0; i < m * n; i++) d.u[i] = (double)x[i];
    for (size_t i = 0; i < n; i++) d.v[i * n + i] = 1;
    double worst = 1;
    for (int sweep = 0; sweep < 40 && worst > 1e-12; sweep++) {
        worst = 0;
        for (size_t p = 0; p < n; p++)
            for (size_t q = p + 1; q < n; q++) worst = fmax(worst, svd_pair(&d, p, q));
    }
    for (size_t j = 0; j < n; j++) {
        for (size_t i = 0; i < m; i++) d.s[j] += d.u[i * n + j] * d.u[i * n + j];
        d.s[j] = sqrt(d.s[j]);
        for (size_t i = 0; i < m && d.s[j] > 0; i++) d.u[i * n + j] /= d.s[j];
    }
    svd_order(&d);
    return d;
}

static inline void svd_free(svd *d)
{
    free(d->u);
    free(d->s);
    free(d->v);
}

#endif

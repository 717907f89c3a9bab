/* lowrank.c - randomized subspace iteration.
 *
 * Y = D O for a random O spans, after a few multiplications by D D', nearly the leading left
 * singular vectors. With an orthonormal basis Q of Y, stored as rows of Q', B = Q' D is small. Its
 * rows are orthonormalised too, B = L P, and the singular value decomposition of the small matrix L
 * gives that of B and, with Q, that of D.
 *
 * Vectors are rows throughout, so that they are contiguous. Orthonormalisation is Gram-Schmidt,
 * twice, with sums in double.
 */
#include "lowrank.h"

#include "numeric/matrix.h"
#include "numeric/nkernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MORE = 8, ROUNDS = 5, FIRST = 32, SWEEPS = 60 };

typedef struct truncation {
    gg_matrix d;
    const gg_lowrank *o;
    size_t l;      /* number of vectors */
    float *q;      /* l x rows, Q' */
    float *p;      /* l x cols, first B */
    double *small; /* l x l, L' at first; then row i is s_i times a left singular vector of L' */
    double *turn;  /* l x l, the rotations */
    double *sigma; /* l */
    size_t *order; /* l, by descending sigma */
} truncation;

static void free_truncation(truncation *t)
{
    free(t->q);
    free(t->p);
    free(t->small);
    free(t->turn);
    free(t->sigma);
    free(t->order);
}

static void *array(size_t n, size_t m, size_t size)
{
    /* not 0: the size of a type */
    return m > 0 && n > SIZE_MAX / size / m ? NULL : calloc(n > 0 && m > 0 ? n * m : 1, size);
}

static gg_status make_room(truncation *t, gg_error *err)
{
    size_t rows = t->d.rows, cols = t->d.cols, l = t->l;
    t->q = array(l, rows, sizeof(float));
    t->p = array(l, cols, sizeof(float));
    t->small = array(l, l, sizeof(double));
    t->turn = array(l, l, sizeof(double));
    t->sigma = array(l, 1, sizeof(double));
    t->order = array(l, 1, sizeof(size_t));
    bool ok = t->q && t->p && t->small && t->turn && t->sigma && t->order;
    return ok ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for factors of rank %zu", l);
}

/* ---- orthonormal rows --------------------------------------------------------------- */

/* Makes the l rows of x orthonormal. A row that depends on earlier ones becomes 0. If `lower` is
 * not NULL, row i of it gets the coefficients: old row i is their sum over the new rows. */
static void orthonormalise(float *x, size_t l, size_t n, double *lower)
{
    for (size_t i = 0; i < l; i++) {
        float *v = x + i * n;
        double before = sqrt(GG_PICK(gg_nk_dot)(v, v, n)), after = before;
        for (int round = 0; round < 2 && before > 0; round++) {
            for (size_t k = 0; k < i; k++) {
                double c = GG_PICK(gg_nk_dot)(x + k * n, v, n);
                if (c != 0) GG_PICK(gg_nk_subtract)(v, x + k * n, c, n);
                if (lower) lower[i * l + k] += c;
            }
        }
        if (i > 0) after = sqrt(GG_PICK(gg_nk_dot)(v, v, n));
        bool none = !(after > 1e-6 * before);
        for (size_t j = 0; j < n; j++) v[j] = none ? 0 : (float)((double)v[j] / after);
        if (lower) lower[i * l + i] = none ? 0 : after;
    }
}

/* to (l x cols) = from (l x rows) D, or with `back` to (l x rows) = from (l x cols) D'. */
static gg_status apply_delta(truncation *t, float *to, float *from, bool back, gg_error *err)
{
    size_t in = back ? t->d.cols : t->d.rows, out = back ? t->d.rows : t->d.cols;
    gg_matrix d = back ? gg_matrix_transposed(&t->d) : t->d, a = gg_matrix_of(from, t->l, in),
              c = gg_matrix_of(to, t->l, out);
    return gg_matmul(&c, &a, &d, t->o->threads, err);
}

/* Q' and B of the leading singular vectors. */
static gg_status find_subspace(truncation *t, gg_error *err)
{
    gg_status st = GG_OK;
    gg_gauss_fill(t->p, t->l * t->d.cols, t->o->seed);
    for (int round = 0; round < ROUNDS && st == GG_OK; round++) {
        if (round > 0) orthonormalise(t->p, t->l, t->d.cols, NULL);
        st = apply_delta(t, t->q, t->p, true, err);
        if (st != GG_OK) break;
        orthonormalise(t->q, t->l, t->d.rows, NULL);
        st = apply_delta(t, t->p, t->q, false, err);
    }
    return st;
}

/* ---- the small decomposition ------------------------------------------------------------ */

static void rotate_rows(double *a, double *b, size_t n, double c, double s)
{
    for (size_t i = 0; i < n; i++) {
        double x = a[i], y = b[i];
        a[i] = c * x - s * y;
        b[i] = s * x + c * y;
    }
}

/* Makes rows i and k of `small` orthogonal (one-sided Jacobi). Returns whether they were not. */
static bool rotate_pair(truncation *t, size_t i, size_t k)
{
    size_t l = t->l;
    double *a = t->small + i * l, *b = t->small + k * l, aa = 0, bb = 0, ab = 0;
    for (size_t j = 0; j < l; j++) {
        aa += a[j] * a[j];
        bb += b[j] * b[j];
        ab += a[j] * b[j];
    }
    if (aa == 0 || bb == 0 || fabs(ab) <= 1e-11 * sqrt(aa) * sqrt(bb)) return false;
    double z = (bb - aa) / (2 * ab), x = (z < 0 ? -1 : 1) / (fabs(z) + sqrt(1 + z * z));
    double c = 1 / sqrt(1 + x * x);
    rotate_rows(a, b, l, c, c * x);
    rotate_rows(t->turn + i * l, t->turn + k * l, l, c, c * x);
    return true;
}

static void decompose(truncation *t)
{
    size_t l = t->l;
    bool more = true;
    for (size_t i = 0; i < l; i++) t->turn[i * l + i] = 1;
    for (int sweep = 0; sweep < SWEEPS && more; sweep++) {
        more = false;
        for (size_t i = 0; i < l; i++)
            for (size_t k = i + 1; k < l; k++) more |= rotate_pair(t, i, k);
    }
    for (size_t i = 0; i < l; i++) {
        double sum = 0;
        for (size_t j = 0; j < l; j++) sum += t->small[i * l + j] * t->small[i * l + j];
        t->sigma[i] = sqrt(sum);
        size_t at = i;
        for (; at > 0 && t->sigma[t->order[at - 1]] < t->sigma[i]; at--)
            t->order[at] = t->order[at - 1];
        t->order[at] = i;
    }
}

/* ---- the factors ----------------------------------------------------------------------- */

/* L = small, B = L P. Rotating the rows of L by `turn` makes them s_i z_i', so that
 * D = Q turn' diag(s) Z' P. tall' = sqrt(s) turn Q' and wide = sqrt(s) Z' P. */
static gg_status combine(truncation *t, size_t rank, gg_factors *out, gg_error *err)
{
    size_t rows = t->d.rows, cols = t->d.cols, l = t->l;
    float *left = array(rank, l, sizeof *left), *right = array(rank, l, sizeof *right);
    out->tall = array(rows, rank, sizeof *out->tall);
    out->wide = array(rank, cols, sizeof *out->wide);
    gg_status st = left && right && out->tall && out->wide
                       ? GG_OK
                       : gg_fail(err, GG_ENOMEM, "no memory for factors of rank %zu", rank);
    for (size_t r = 0; r < rank && st == GG_OK; r++) {
        size_t i = t->order[r];
        double s = t->sigma[i], root = sqrt(s);
        for (size_t j = 0; j < l; j++) {
            left[r * l + j] = (float)(root * t->turn[i * l + j]);
            right[r * l + j] = s > 0 ? (float)(t->small[i * l + j] / root) : 0;
        }
    }
    gg_matrix ml = gg_matrix_of(left, rank, l), mr = gg_matrix_of(right, rank, l),
              tl = gg_matrix_transposed(&ml), q = gg_matrix_of(t->q, l, rows),
              tq = gg_matrix_transposed(&q), p = gg_matrix_of(t->p, l, cols),
              tall = gg_matrix_of(out->tall, rows, rank),
              wide = gg_matrix_of(out->wide, rank, cols);
    if (st == GG_OK) st = gg_matmul(&tall, &tq, &tl, t->o->threads, err);
    if (st == GG_OK) st = gg_matmul(&wide, &mr, &p, t->o->threads, err);
    free(left);
    free(right);
    out->rank = rank;
    return st;
}

/* Number of singular values wanted, or 0 if t has too few of them. */
static size_t enough(const truncation *t, double total, double *kept)
{
    size_t shorter = t->d.rows < t->d.cols ? t->d.rows : t->d.cols, n = 0;
    *kept = 0;
    while (n < t->l && (t->o->rank ? n < t->o->rank : *kept < t->o->energy * total)) {
        double s = t->sigma[t->order[n]];
        if (!t->o->rank && s == 0) break; /* rounding: nothing is left */
        *kept += s * s;
        n++;
    }
    bool all = t->l == shorter || t->o->rank || n + MORE <= t->l;
    return all ? n : 0;
}

static gg_status attempt(truncation *t, double total, gg_factors *out, gg_error *err)
{
    gg_status st = make_room(t, err);
    if (st == GG_OK) st = find_subspace(t, err);
    if (st != GG_OK) return st;
    orthonormalise(t->p, t->l, t->d.cols, t->small);
    decompose(t);
    size_t rank = enough(t, total, &out->kept);
    return rank ? combine(t, rank, out, err) : GG_OK;
}

gg_status gg_truncate_matrix(float *d, size_t rows, size_t cols, const gg_lowrank *o,
                             gg_factors *out, gg_error *err)
{
    size_t shorter = rows < cols ? rows : cols;
    size_t l = (o->rank ? (o->rank < shorter ? o->rank : shorter) : (size_t)FIRST) + MORE;
    *out = (gg_factors){ .total = GG_PICK(gg_nk_dot)(d, d, rows * cols) };
    gg_status st = GG_OK;
    if (!(out->total > 0)) return GG_OK;
    while (st == GG_OK && out->rank == 0) {
        truncation t = { .d = gg_matrix_of(d, rows, cols), .o = o, .l = l < shorter ? l : shorter };
        st = attempt(&t, out->total, out, err);
        free_truncation(&t);
        if (l >= shorter) break;
        l *= 2;
    }
    if (st != GG_OK) gg_factors_free(out);
    return st;
}

void gg_factors_free(gg_factors *f)
{
    free(f->tall);
    free(f->wide);
    *f = (gg_factors){ 0 };
}

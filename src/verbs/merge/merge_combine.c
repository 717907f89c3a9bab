/* merge_combine.c - methods whose result is a sum of the models' values times a few numbers. The
 * numbers follow from the parameters, and from the dot products of the models' values (the Gram
 * matrix) where the method is about angles. So these methods read a tensor at most twice, and
 * never hold it.
 */
#include "merge_kinds.h"

#include "numeric/merge.h"
#include "numeric/owntrig.h"

#include <math.h>
#include <string.h>

#define MODELS GG_MERGE_MODELS

typedef struct combination {
    double c[MODELS]; /* weight of each array */
    bool known;       /* they do not depend on the values */
} combination;

const size_t gg_combination_size = sizeof(combination);

static double param(const gg_merge_job *j, size_t k, gg_merge_param p)
{
    return j->p[k][p];
}

static double sum_of_weights(const gg_merge_job *j)
{
    double sum = 0;
    for (size_t k = 0; k < j->n; k++) sum += param(j, k, GG_MP_WEIGHT);
    return sum;
}

/* ---- from the parameters alone --------------------------------------------------------- */

static gg_status no_weight(gg_error *err)
{
    gg_fail(err, GG_EUSAGE, "the weights add up to 0, so they cannot be normalized");
    return gg_fix(err, "change a weight, or use normalize=0");
}

gg_status gg_linear_start(gg_merge_job *j, gg_error *err)
{
    combination *s = j->state;
    double sum = gg_merge_flag(j, GG_MP_NORMALIZE) ? sum_of_weights(j) : 1;
    if (sum == 0) return no_weight(err);
    for (size_t k = 0; k < j->n; k++) s->c[k] = param(j, k, GG_MP_WEIGHT) / sum;
    s->known = true;
    return GG_OK;
}

gg_status gg_task_start(gg_merge_job *j, gg_error *err)
{
    combination *s = j->state;
    double sum = gg_merge_flag(j, GG_MP_NORMALIZE) ? sum_of_weights(j) : 1;
    double scale = gg_merge_global(j, GG_MP_LAMBDA) / (fabs(sum) < 1e-8 ? 1 : sum);
    (void)err;
    for (size_t k = 0; k < j->n; k++) s->c[k] = param(j, k, GG_MP_WEIGHT) * scale;
    s->known = true;
    return GG_OK;
}

gg_status gg_passthrough_start(gg_merge_job *j, gg_error *err)
{
    combination *s = j->state;
    (void)err;
    s->c[0] = param(j, 0, GG_MP_SCALE);
    s->known = true;
    return GG_OK;
}

/* ---- from angles ------------------------------------------------------------------------- */

static void line(double t, double *c)
{
    c[0] = 1 - t;
    c[1] = t;
}

static gg_status solve_slerp(const gg_merge_job *j, const double *gram, double *c, gg_error *err)
{
    double t = gg_merge_global(j, GG_MP_T);
    (void)err;
    if (!gg_slerp_weights(gram, t, c)) line(t, c);
    return GG_OK;
}

static gg_status solve_nuslerp(const gg_merge_job *j, const double *gram, double *c, gg_error *err)
{
    double sum = sum_of_weights(j), cosine = gg_cosine(gram);
    double t = fabs(sum) < 1e-6 ? 0.5 : param(j, 1, GG_MP_WEIGHT) / sum;
    (void)err;
    if (isnan(cosine)) cosine = 0; /* an array of zeros is at right angles to everything */
    if (!gg_arc_weights(cosine, t, c)) line(t, c);
    return GG_OK;
}

/* The length of the sum of c[i] times the unit array i. */
static double length(const double *units, const double *c, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            sum += c[i] * c[k] * units[i <= k ? gg_gram_at(i, k, n) : gg_gram_at(k, i, n)];
    return sqrt(sum > 0 ? sum : 0);
}

/* Products of the arrays divided by `norms`. An array of norm 0 becomes one of zeros. */
static void make_units(const double *gram, const double *norms, size_t n, double *units)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = i; k < n; k++) {
            size_t at = gg_gram_at(i, k, n);
            units[at] = norms[i] > 0 && norms[k] > 0 ? gram[at] / norms[i] / norms[k] : 0;
        }
}

static gg_status opposite(gg_error *err)
{
    gg_fail(err, GG_NO, "the weighted directions of the models cancel out, so they have no mean");
    return gg_fix(err, "use other weights, or another method for this tensor");
}

/* The weighted mean of the directions, with the weighted mean of the lengths. The reference then
 * adds the mean of the tangents at that point, which is 0 by construction. */
static gg_status solve_multislerp(const gg_merge_job *j, const double *gram, double *c,
                                  gg_error *err)
{
    double eps = gg_merge_global(j, GG_MP_EPS), total = 0, norms[MODELS] = { 0 };
    double units[MODELS * (MODELS + 1) / 2], w[MODELS] = { 0 };
    double sum = gg_merge_flag(j, GG_MP_NORMALIZE) ? sum_of_weights(j) : 1;
    if (sum == 0) return no_weight(err);
    for (size_t k = 0; k < j->n; k++) {
        double norm = sqrt(gram[gg_gram_at(k, k, j->n)]);
        norms[k] = norm + eps;
        w[k] = param(j, k, GG_MP_WEIGHT) / sum;
        total += w[k] * norm;
    }
    make_units(gram, norms, j->n, units);
    double mean = length(units, w, j->n);
    if (mean < eps || mean == 0) {
        bool zeros = total == 0; /* of differences: all models equal the base */
        if (j->n > 2 && !zeros) return opposite(err);
        memcpy(c, w, j->n * sizeof *c);
        return GG_OK;
    }
    for (size_t k = 0; k < j->n; k++) c[k] = norms[k] > 0 ? total * w[k] / norms[k] / mean : 0;
    return GG_OK;
}

/* ---- Karcher mean ------------------------------------------------------------------------ */

/* A point on the sphere as a sum of the unit arrays. */
typedef struct karcher {
    size_t n;
    double units[MODELS * (MODELS + 1) / 2];
    double share[MODELS]; /* of each array; 0 = left out */
    double point[MODELS];
    double tol;
} karcher;

static double unit_product(const karcher *s, size_t i, size_t k)
{
    return s->units[i <= k ? gg_gram_at(i, k, s->n) : gg_gram_at(k, i, s->n)];
}

/* The mean of the directions from the point to the arrays, as a sum of arrays. */
static void tangent(const karcher *s, double *out)
{
    memset(out, 0, s->n * sizeof *out);
    for (size_t i = 0; i < s->n; i++) {
        double cosine = 0;
        for (size_t k = 0; k < s->n; k++) cosine += s->point[k] * unit_product(s, i, k);
        double angle = gg_own_acos(gg_within_one(cosine));
        if (s->share[i] == 0 || angle < s->tol) continue;
        double by = s->share[i] * angle / gg_own_sin(angle);
        out[i] += by;
        for (size_t k = 0; k < s->n; k++) out[k] -= by * cosine * s->point[k];
    }
}

/* Moves the point along the tangent; false when it stays. */
static bool karcher_step(karcher *s)
{
    double way[MODELS];
    tangent(s, way);
    double far = length(s->units, way, s->n);
    if (!(far >= s->tol) || far == 0) return false;
    for (size_t k = 0; k < s->n; k++)
        s->point[k] = gg_own_cos(far) * s->point[k] + gg_own_sin(far) / far * way[k];
    double norm = length(s->units, s->point, s->n);
    for (size_t k = 0; k < s->n && norm > s->tol; k++) s->point[k] /= norm;
    return true;
}

static gg_status solve_karcher(const gg_merge_job *j, const double *gram, double *c, gg_error *err)
{
    karcher s = { .n = j->n, .tol = gg_merge_global(j, GG_MP_TOL) };
    double norms[MODELS], scale = 0;
    size_t valid = 0, first = j->n;
    (void)err;
    memset(c, 0, j->n * sizeof *c);
    for (size_t k = 0; k < j->n; k++) {
        norms[k] = sqrt(gram[gg_gram_at(k, k, j->n)]);
        scale += norms[k] / (double)j->n;
        if (!(norms[k] > s.tol)) continue;
        if (valid++ == 0) first = k;
        s.share[k] = 1;
    }
    if (valid == 0) return GG_OK; /* all are zero */
    make_units(gram, norms, j->n, s.units);
    for (size_t k = 0; k < j->n; k++) s.point[k] = s.share[k] /= (double)valid;
    double norm = length(s.units, s.point, j->n);
    for (size_t k = 0; k < j->n; k++)
        s.point[k] = norm < s.tol || norm == 0 ? k == first : s.point[k] / norm;
    for (double i = 0; i < gg_merge_global(j, GG_MP_MAX_ITER); i++)
        if (!karcher_step(&s)) break;
    for (size_t k = 0; k < j->n; k++) c[k] = norms[k] > 0 ? scale * s.point[k] / norms[k] : 0;
    return GG_OK;
}

/* ---- model stock ------------------------------------------------------------------------- */

/* The weight follows from the mean cosine of all pairs of differences. */
static gg_status solve_model_stock(const gg_merge_job *j, const double *gram, double *c,
                                   gg_error *err)
{
    double sum = 0, n = (double)j->n;
    (void)err;
    for (size_t i = 0; i < j->n; i++)
        for (size_t k = i + 1; k < j->n; k++) {
            double norms = sqrt(gram[gg_gram_at(i, i, j->n)] * gram[gg_gram_at(k, k, j->n)]);
            double cosine = gram[gg_gram_at(i, k, j->n)] / (norms > 1e-6 ? norms : 1e-6);
            sum += gg_within_one(cosine);
        }
    double mean = sum / (n * (n - 1) / 2), below = 1 + (n - 1) * mean;
    for (size_t k = 0; k < j->n; k++) c[k] = below == 0 ? 0 : mean / below;
    return GG_OK;
}

/* ---- passes ------------------------------------------------------------------------------ */

typedef gg_status (*solver)(const gg_merge_job *j, const double *gram, double *c, gg_error *err);

static solver solver_of(const gg_merge_job *j)
{
    switch (j->method->kind) {
    case GG_MERGE_SLERP: return solve_slerp;
    case GG_MERGE_NUSLERP: return solve_nuslerp;
    case GG_MERGE_MULTISLERP: return solve_multislerp;
    case GG_MERGE_KARCHER: return solve_karcher;
    case GG_MERGE_MODEL_STOCK: return solve_model_stock;
    default: return NULL;
    }
}

gg_status gg_angles_start(gg_merge_job *j, gg_error *err)
{
    (void)err;
    if (j->method->kind == GG_MERGE_NUSLERP) j->rows = !gg_merge_flag(j, GG_MP_FLATTEN);
    if (j->method->kind == GG_MERGE_MODEL_STOCK) j->rows = gg_merge_flag(j, GG_MP_FILTER_WISE);
    return GG_OK;
}

static void scan_gram(const gg_merge_job *j, unsigned pass, const gg_merge_chunk *c, double *sums,
                      uint64_t *counters)
{
    (void)pass;
    (void)counters;
    GG_PICK(gg_mk_gram)(c->x, c->base, j->n, c->n, sums);
}

static gg_status end_gram(gg_merge_job *j, unsigned pass, const double *sums,
                          const uint64_t *counters, gg_error *err)
{
    (void)pass;
    (void)counters;
    return solver_of(j)(j, sums, ((combination *)j->state)->c, err);
}

bool gg_angles_pass(gg_merge_job *j, unsigned k, gg_merge_pass *pass)
{
    if (k > 0 || j->rows) return false;
    pass->sums = j->n * (j->n + 1) / 2;
    pass->scan = scan_gram;
    pass->end = end_gram;
    return true;
}

static void combine(const gg_merge_job *j, const gg_merge_chunk *c, const double *weights)
{
    if (c->base) GG_PICK(gg_mk_combine_from)(c->out, c->base, c->x, weights, j->n, c->n);
    else GG_PICK(gg_mk_combine)(c->out, NULL, c->x, weights, j->n, c->n);
}

static void combine_rows(const gg_merge_job *j, const gg_merge_chunk *c)
{
    size_t row = (size_t)j->t.dims[0];
    double gram[MODELS * (MODELS + 1) / 2], weights[MODELS];
    gg_error ignored = GG_ERROR_INIT; /* the methods with rows cannot fail */
    for (size_t at = 0; at < c->n; at += row) {
        float *x[MODELS];
        gg_merge_chunk one = { .n = row, .base = c->base ? c->base + at : NULL };
        for (size_t k = 0; k < j->n; k++) x[k] = c->x[k] + at;
        one.x = x;
        one.out = c->out + at;
        memset(gram, 0, sizeof gram);
        GG_PICK(gg_mk_gram)(x, one.base, j->n, row, gram);
        solver_of(j)(j, gram, weights, &ignored);
        combine(j, &one, weights);
    }
}

void gg_combine(const gg_merge_job *j, const gg_merge_chunk *c)
{
    const combination *s = j->state;
    if (j->rows) combine_rows(j, c);
    else combine(j, c, s->c);
}

/* ---- results that are one of the inputs ---------------------------------------------------- */

size_t gg_combination_unchanged(const gg_merge_job *j)
{
    const combination *s = j->state;
    size_t only = SIZE_MAX, used = 0;
    if (j->method->kind == GG_MERGE_SLERP) {
        double t = gg_merge_global(j, GG_MP_T);
        return t == 0 ? 0 : t == 1 ? 1 : SIZE_MAX;
    }
    if (!s->known) return SIZE_MAX;
    for (size_t k = 0; k < j->n; k++) {
        if (s->c[k] == 0) continue;
        only = k;
        used++;
    }
    if (j->has_base && used == 0) return j->n;
    return used == 1 && s->c[only] == 1 ? only : SIZE_MAX;
}

/* merge_methods.c - how the methods compute the values of the result; methods.txt lists them. */
#include "merging.h"

#include "merge_values.h"
#include "numeric/arc.h"
#include "numeric/ownmath.h"
#include "polar.h"

#include <math.h>
#include <string.h>

/* ---- sums of models -------------------------------------------------------------------------
 *
 * The result is the sum of the models' values times a few numbers. The numbers follow from the
 * parameters, and from the dot products of the models' values (the Gram matrix) where the method is
 * about angles. So these methods read a tensor at most twice, and never hold it. */

typedef struct combination {
    double c[GG_MERGE_MODELS]; /* weight of each array */
    bool known;                /* they do not depend on the values */
} combination;

static double sum_of_weights(const gg_merge_job *j)
{
    double sum = 0;
    for (size_t k = 0; k < j->n; k++) sum += j->p[k][GG_MP_WEIGHT];
    return sum;
}

/* ---- from the parameters alone --------------------------------------------------------- */

static gg_status no_weights(gg_error *err)
{
    gg_fail(err, GG_EUSAGE, "the weights add up to 0, so they cannot be normalized");
    return gg_fix(err, "change a weight, or use normalize=0");
}

static gg_status linear_start(gg_merge_job *j)
{
    combination *s = j->state;
    double sum = gg_merge_flag(j, GG_MP_NORMALIZE) ? sum_of_weights(j) : 1;
    if (sum == 0) return no_weights(j->err);
    for (size_t k = 0; k < j->n; k++) s->c[k] = j->p[k][GG_MP_WEIGHT] / sum;
    s->known = true;
    return GG_OK;
}

static gg_status task_start(gg_merge_job *j)
{
    combination *s = j->state;
    double sum = gg_merge_flag(j, GG_MP_NORMALIZE) ? sum_of_weights(j) : 1;
    double scale = gg_merge_global(j, GG_MP_LAMBDA) / (fabs(sum) < 1e-8 ? 1 : sum);
    for (size_t k = 0; k < j->n; k++) s->c[k] = j->p[k][GG_MP_WEIGHT] * scale;
    s->known = true;
    return GG_OK;
}

static gg_status passthrough_start(gg_merge_job *j)
{
    combination *s = j->state;
    s->c[0] = j->p[0][GG_MP_SCALE];
    s->known = true;
    return GG_OK;
}

/* ---- from angles ------------------------------------------------------------------------- */

static void straight_line(double t, double *c)
{
    c[0] = 1 - t;
    c[1] = t;
}

static gg_status solve_slerp(const gg_merge_job *j, const double *gram, double *c)
{
    double t = gg_merge_global(j, GG_MP_T);
    if (!gg_slerp_weights(gram, t, c)) straight_line(t, c);
    return GG_OK;
}

static gg_status solve_nuslerp(const gg_merge_job *j, const double *gram, double *c)
{
    double sum = sum_of_weights(j), cosine = gg_cosine(gram);
    double t = fabs(sum) < 1e-6 ? 0.5 : j->p[1][GG_MP_WEIGHT] / sum;
    if (isnan(cosine)) cosine = 0; /* an array of zeros is at right angles to everything */
    if (!gg_arc_weights(cosine, t, c)) straight_line(t, c);
    return GG_OK;
}

static double product_of(const double *gram, size_t i, size_t k, size_t n)
{
    return gram[i <= k ? gg_gram_at(i, k, n) : gg_gram_at(k, i, n)];
}

/* The length of the sum of c[i] times the unit array i. */
static double length_of(const double *units, const double *c, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) sum += c[i] * c[k] * product_of(units, i, k, n);
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

static gg_status no_mean(gg_error *err)
{
    gg_fail(err, GG_NO, "the weighted directions of the models cancel out, so they have no mean");
    return gg_fix(err, "use other weights, or another method for this tensor");
}

/* The weighted mean of the directions, with the weighted mean of the lengths. The reference then
 * adds the mean of the tangents at that point, which is 0 by construction. */
static gg_status solve_multislerp(const gg_merge_job *j, const double *gram, double *c)
{
    double eps = gg_merge_global(j, GG_MP_EPS), total = 0, norms[GG_MERGE_MODELS] = { 0 };
    double units[GG_MERGE_MODELS * (GG_MERGE_MODELS + 1) / 2], w[GG_MERGE_MODELS] = { 0 };
    double sum = gg_merge_flag(j, GG_MP_NORMALIZE) ? sum_of_weights(j) : 1;
    if (sum == 0) return no_weights(j->err);
    for (size_t k = 0; k < j->n; k++) {
        double norm = sqrt(gram[gg_gram_at(k, k, j->n)]);
        norms[k] = norm + eps;
        w[k] = j->p[k][GG_MP_WEIGHT] / sum;
        total += w[k] * norm;
    }
    make_units(gram, norms, j->n, units);
    double mean = length_of(units, w, j->n);
    if (mean < eps || mean == 0) {
        bool zeros = total == 0; /* of differences: all models equal the base */
        if (j->n > 2 && !zeros) return no_mean(j->err);
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
    double units[GG_MERGE_MODELS * (GG_MERGE_MODELS + 1) / 2];
    double share[GG_MERGE_MODELS]; /* of each array; 0 = left out */
    double point[GG_MERGE_MODELS];
    double tol;
} karcher;

/* The mean of the directions from the point to the arrays, as a sum of arrays. */
static void tangent(const karcher *s, double *out)
{
    memset(out, 0, s->n * sizeof *out);
    for (size_t i = 0; i < s->n; i++) {
        double cosine = 0;
        for (size_t k = 0; k < s->n; k++) cosine += s->point[k] * product_of(s->units, i, k, s->n);
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
    double way[GG_MERGE_MODELS];
    tangent(s, way);
    double far = length_of(s->units, way, s->n);
    if (!(far >= s->tol) || far == 0) return false;
    for (size_t k = 0; k < s->n; k++)
        s->point[k] = gg_own_cos(far) * s->point[k] + gg_own_sin(far) / far * way[k];
    double norm = length_of(s->units, s->point, s->n);
    for (size_t k = 0; k < s->n && norm > s->tol; k++) s->point[k] /= norm;
    return true;
}

static gg_status solve_karcher(const gg_merge_job *j, const double *gram, double *c)
{
    karcher s = { .n = j->n, .tol = gg_merge_global(j, GG_MP_TOL) };
    double norms[GG_MERGE_MODELS], scale = 0;
    size_t valid = 0, first = j->n;
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
    double norm = length_of(s.units, s.point, j->n);
    for (size_t k = 0; k < j->n; k++)
        s.point[k] = norm < s.tol || norm == 0 ? k == first : s.point[k] / norm;
    for (double i = 0; i < gg_merge_global(j, GG_MP_MAX_ITER); i++)
        if (!karcher_step(&s)) break;
    for (size_t k = 0; k < j->n; k++) c[k] = norms[k] > 0 ? scale * s.point[k] / norms[k] : 0;
    return GG_OK;
}

/* ---- model stock ------------------------------------------------------------------------- */

/* The weight follows from the mean cosine of all pairs of differences. */
static gg_status solve_model_stock(const gg_merge_job *j, const double *gram, double *c)
{
    double sum = 0, n = (double)j->n;
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

static gg_status angles_start(gg_merge_job *j)
{
    if (j->method->work->solve == solve_nuslerp) j->rows = !gg_merge_flag(j, GG_MP_FLATTEN);
    if (j->method->work->solve == solve_model_stock) j->rows = gg_merge_flag(j, GG_MP_FILTER_WISE);
    return GG_OK;
}

static void scan_gram(const gg_merge_job *j, const gg_merge_chunk *c, gg_merge_tally *t)
{
    GG_PICK(gg_mk_gram)(c->x, c->base, j->n, c->n, t->sums);
}

static gg_status end_gram(gg_merge_job *j, const gg_merge_tally *t)
{
    return j->method->work->solve(j, t->sums, ((combination *)j->state)->c);
}

static bool angles_pass(gg_merge_job *j, unsigned k, gg_merge_pass *pass)
{
    if (k > 0 || j->rows) return false;
    pass->sums = j->n * (j->n + 1) / 2;
    pass->scan = scan_gram;
    pass->end = end_gram;
    return true;
}

static void combine_chunk(const gg_merge_job *j, const gg_merge_chunk *c, const double *weights)
{
    if (c->base) GG_PICK(gg_mk_combine_from)(c->out, c->base, c->x, weights, j->n, c->n);
    else GG_PICK(gg_mk_combine)(c->out, NULL, c->x, weights, j->n, c->n);
}

static void combine_rows(const gg_merge_job *j, const gg_merge_chunk *c)
{
    size_t row = (size_t)j->t.dims[0];
    double gram[GG_MERGE_MODELS * (GG_MERGE_MODELS + 1) / 2], weights[GG_MERGE_MODELS];
    for (size_t at = 0; at < c->n; at += row) {
        float *x[GG_MERGE_MODELS];
        gg_merge_chunk one = { .n = row, .base = c->base ? c->base + at : NULL };
        for (size_t k = 0; k < j->n; k++) x[k] = c->x[k] + at;
        one.x = x;
        one.out = c->out + at;
        memset(gram, 0, sizeof gram);
        GG_PICK(gg_mk_gram)(x, one.base, j->n, row, gram);
        j->method->work->solve(j, gram, weights); /* cannot fail with rows */
        combine_chunk(j, &one, weights);
    }
}

static void combine_values(const gg_merge_job *j, const gg_merge_chunk *c)
{
    const combination *s = j->state;
    if (j->rows) combine_rows(j, c);
    else combine_chunk(j, c, s->c);
}

/* ---- results that are one of the inputs ---------------------------------------------------- */

static size_t combination_unchanged(const gg_merge_job *j)
{
    const combination *s = j->state;
    size_t only = SIZE_MAX, used = 0;
    if (!s->known) return SIZE_MAX;
    for (size_t k = 0; k < j->n; k++) {
        if (s->c[k] == 0) continue;
        only = k;
        used++;
    }
    if (j->has_base && used == 0) return j->n;
    return used == 1 && s->c[only] == 1 ? only : SIZE_MAX;
}

static size_t slerp_unchanged(const gg_merge_job *j)
{
    double t = gg_merge_global(j, GG_MP_T);
    return t == 0 ? 0 : t == 1 ? 1 : SIZE_MAX;
}

/* ---- differences that are thinned out --------------------------------------------------------
 *
 * TIES, DARE, DELLA and breadcrumbs. Which values a model keeps is decided by their magnitudes in
 * the whole tensor (TIES, breadcrumbs), at random (DARE), or at random by the rank in their row
 * (DELLA). Nothing is sorted or stored for that: borders of magnitudes are found by counting
 * (numeric/merge.h), and random masks are kept for a second pass only if they are small enough. */

#define PASS_NORMS 3 /* after those of the quantiles */

typedef struct sparse_model {
    double density, epsilon; /* of random methods; density 1: all values are kept */
    gg_cut low, high;        /* of the others */
    float scale;             /* of the values that are kept */
    uint64_t key;
} sparse_model;

typedef struct sparse {
    gg_quantiles q;
    gg_quantile list[2 * GG_MERGE_MODELS]; /* low of all models, then high */
    sparse_model of[GG_MERGE_MODELS];
    bool masked; /* the random masks are in job->kept, a bit per value */
} sparse;

/* The numbers of values to keep, and of largest values to drop. */
static void wanted_values(const gg_merge_job *j, size_t k, uint64_t *keep, uint64_t *drop)
{
    double n = (double)j->t.elements;
    *keep = (uint64_t)(j->p[k][GG_MP_DENSITY] * n);
    *drop = (uint64_t)(j->p[k][GG_MP_GAMMA] * n);
    if (*keep + *drop > j->t.elements) *drop = j->t.elements - *keep;
    *keep += *drop;
}

static gg_status check_epsilon(const double *p, gg_error *err)
{
    double density = p[GG_MP_DENSITY], epsilon = p[GG_MP_EPSILON];
    if (density == 1 || (density - epsilon > 0 && density + epsilon < 1)) return GG_OK;
    gg_fail(err, GG_EUSAGE,
            "density %g and epsilon %g give probabilities from %g to %g, which must lie between 0 "
            "and 1",
            density, epsilon, density - epsilon, density + epsilon);
    return gg_fix(err, "choose a smaller epsilon");
}

static uint64_t mask_size(const gg_merge_job *j)
{
    return (j->t.elements + 7) / 8;
}

static gg_status sparse_start(gg_merge_job *j)
{
    sparse *s = j->state;
    s->q = (gg_quantiles){ .list = s->list, .streams = j->n };
    gg_quantiles_split(&s->q, j->t.elements, GG_MERGE_CHUNK);
    for (size_t k = 0; k < j->n; k++) {
        sparse_model *m = &s->of[k];
        *m = (sparse_model){ .density = j->p[k][GG_MP_DENSITY], .scale = 1 };
        m->epsilon = j->method->rank ? j->p[k][GG_MP_EPSILON] : 0;
        m->low = GG_CUT_ALL;
        m->high = GG_CUT_NONE;
        m->key = gg_random_key(j->seed, j->t.name, j->t.name_len, k);
        if (j->method->rank && check_epsilon(j->p[k], j->err) != GG_OK) return j->err->status;
        if (!j->method->largest || m->density >= 1) continue;
        uint64_t keep, drop;
        wanted_values(j, k, &keep, &drop);
        s->list[s->q.n++] = (gg_quantile){ .stream = k, .wanted = keep };
        if (drop) s->list[s->q.n++] = (gg_quantile){ .stream = k, .wanted = drop };
    }
    j->rows = j->method->rank;
    bool bytes = !j->rows || j->t.dims[0] % 8 == 0; /* chunks begin at whole bytes of a mask */
    if (!j->method->largest && bytes) j->keep = j->n * mask_size(j);
    return GG_OK;
}

static void thin_rows(const gg_merge_job *j, const sparse_model *m, const gg_merge_chunk *c,
                      float *x)
{
    const double density[2] = { m->density, m->epsilon };
    size_t row = (size_t)j->t.dims[0];
    for (size_t at = 0; at < c->n; at += row)
        gg_random_keep_ranked(x + at, row, m->key, c->first + at, density, c->scratch);
}

/* The place of the mask of model k in job->kept, or NULL if masks are not kept. */
static uint8_t *kept_mask(const gg_merge_job *j, size_t k, const gg_merge_chunk *c)
{
    const sparse *s = j->state;
    return s->masked ? (uint8_t *)j->kept + k * mask_size(j) + c->first / 8 : NULL;
}

/* Sets the values of model k that are dropped to 0. */
static void thin_values(const gg_merge_job *j, size_t k, const gg_merge_chunk *c)
{
    const sparse_model *m = &((const sparse *)j->state)->of[k];
    uint8_t made[GG_MERGE_PIECE / 8];
    const uint8_t *mask = kept_mask(j, k, c);
    if (m->density >= 1) return;
    if (j->method->largest) {
        gg_keep_between(c->x[k], c->n, c->first, &m->low, &m->high);
    } else if (j->method->rank && !mask) {
        thin_rows(j, m, c, c->x[k]);
    } else {
        if (!mask) gg_random_mask(made, c->n, m->key, c->first, m->density);
        GG_PICK(gg_mk_apply_mask)(c->x[k], mask ? mask : made, c->n);
    }
}

static void count_magnitudes(const gg_merge_job *j, const gg_merge_chunk *c, gg_merge_tally *t)
{
    const sparse *s = j->state;
    for (size_t k = 0; k < j->n; k++) {
        gg_key_run keys = { k, c->x[k], c->n, c->first };
        if (s->of[k].density < 1) gg_quantiles_count(&s->q, t->pass, &keys, t->counters);
    }
}

static gg_status end_magnitudes(gg_merge_job *j, const gg_merge_tally *t)
{
    sparse *s = j->state;
    gg_quantiles_end(&s->q, t->pass, t->counters);
    for (size_t i = 0; i < s->q.n; i++) { /* the second of a model is its upper border */
        size_t k = s->list[i].stream;
        if (i > 0 && s->list[i - 1].stream == k) s->of[k].high = s->list[i].cut;
        else s->of[k].low = s->list[i].cut;
    }
    return GG_OK;
}

/* Of model k: the sums over all values, and over those that are kept. */
static void add_norms_of(const gg_merge_job *j, size_t k, const gg_merge_chunk *c, double sums[2])
{
    const sparse_model *m = &((const sparse *)j->state)->of[k];
    uint8_t made[GG_MERGE_PIECE / 8], *mask = kept_mask(j, k, c);
    bool squares = gg_merge_global(j, GG_MP_RESCALE_NORM) == 2;
    if (j->method->rank || j->method->largest) {
        double kept[2] = { 0 };
        GG_PICK(gg_mk_norms)(c->x[k], NULL, c->n, squares, sums);
        if (j->method->rank) thin_rows(j, m, c, c->x[k]);
        else thin_values(j, k, c);
        GG_PICK(gg_mk_norms)(c->x[k], NULL, c->n, squares, kept);
        sums[1] += kept[0];
        if (mask) GG_PICK(gg_mk_pack_mask)(mask, c->x[k], c->n);
        return;
    }
    if (!mask) mask = made;
    gg_random_mask(mask, c->n, m->key, c->first, m->density);
    GG_PICK(gg_mk_norms)(c->x[k], mask, c->n, squares, sums);
}

static void add_norms(const gg_merge_job *j, const gg_merge_chunk *c, gg_merge_tally *t)
{
    const sparse *s = j->state;
    for (size_t k = 0; k < j->n; k++)
        if (s->of[k].density < 1) add_norms_of(j, k, c, t->sums + 2 * k);
}

/* Scales the values that are kept, so that the norm stays. */
static gg_status end_norms(gg_merge_job *j, const gg_merge_tally *t)
{
    sparse *s = j->state;
    bool l2 = gg_merge_global(j, GG_MP_RESCALE_NORM) == 2;
    for (size_t k = 0; k < j->n; k++) {
        double all = l2 ? sqrt(t->sums[2 * k]) : t->sums[2 * k];
        double kept = l2 ? sqrt(t->sums[2 * k + 1]) : t->sums[2 * k + 1];
        if (all >= 1e-7 && kept >= 1e-7) s->of[k].scale = (float)(all / kept);
    }
    return GG_OK;
}

static bool sparse_pass(gg_merge_job *j, unsigned k, gg_merge_pass *pass)
{
    sparse *s = j->state;
    bool thinned = false;
    for (size_t i = 0; i < j->n; i++) thinned = thinned || s->of[i].density < 1;
    if (k > PASS_NORMS) return false;
    if (k < PASS_NORMS) {
        pass->counters = gg_quantiles_counters(&s->q, k);
        if (pass->counters == 0) return true; /* nothing to count */
        pass->scan = count_magnitudes;
        pass->end = end_magnitudes;
        pass->in_order = k == 2;
        if (k == 2) gg_quantiles_range(&s->q, &pass->from, &pass->to);
    } else if (thinned && gg_merge_flag(j, GG_MP_RESCALE)) {
        pass->sums = 2 * j->n;
        pass->scan = add_norms;
        pass->end = end_norms;
        s->masked = j->kept != NULL;
    }
    return true;
}

static void sparse_make(const gg_merge_job *j, const gg_merge_chunk *c)
{
    const sparse *s = j->state;
    double sum = 0, weights[GG_MERGE_MODELS], lambda = gg_merge_global(j, GG_MP_LAMBDA);
    float w[GG_MERGE_MODELS];
    bool normalize = gg_merge_flag(j, GG_MP_NORMALIZE);
    for (size_t k = 0; k < j->n; k++) {
        thin_values(j, k, c);
        w[k] = (float)j->p[k][GG_MP_WEIGHT];
        sum += j->p[k][GG_MP_WEIGHT];
    }
    if (j->method->signs) {
        for (size_t k = 0; k < j->n; k++)
            if (s->of[k].scale != 1) GG_PICK(gg_mk_scale)(c->x[k], s->of[k].scale, c->n);
        gg_consensus how = { .w = w, .normalize = normalize, .scale = (float)lambda };
        GG_PICK(gg_mk_consensus)(c->out, c->base, c->x, j->n, c->n, &how);
        return;
    }
    double by = normalize && fabs(sum) >= 1e-8 ? lambda / sum : lambda;
    for (size_t k = 0; k < j->n; k++)
        weights[k] = j->p[k][GG_MP_WEIGHT] * by * (double)s->of[k].scale;
    GG_PICK(gg_mk_combine)(c->out, c->base, c->x, weights, j->n, c->n);
}

static size_t sparse_unchanged(const gg_merge_job *j)
{
    bool nothing = gg_merge_global(j, GG_MP_LAMBDA) == 0, weightless = true;
    for (size_t k = 0; k < j->n; k++) weightless = weightless && j->p[k][GG_MP_WEIGHT] == 0;
    return nothing || weightless ? j->n : SIZE_MAX;
}

/* ---- SCE --------------------------------------------------------------------------------------
 *
 * Keeps the places where the differences vary most, weighs each model by the energy of these
 * values, and drops values whose sign is that of the minority. */

#define PASS_ENERGY 3 /* after those of the quantile */

typedef struct sce {
    gg_quantiles q; /* of the variances */
    gg_quantile border;
    bool all; /* every place is kept */
    float w[GG_MERGE_MODELS];
} sce;

static gg_status sce_start(gg_merge_job *j)
{
    sce *s = j->state;
    s->q = (gg_quantiles){ .list = &s->border, .n = 1, .streams = 1 };
    gg_quantiles_split(&s->q, j->t.elements, GG_MERGE_CHUNK);
    s->border.wanted = 1; /* set after the first pass */
    s->all = gg_merge_global(j, GG_MP_SELECT_TOPK) >= 1;
    if (!s->all) j->keep = (j->t.elements + 7) / 8; /* the mask of the places */
    return GG_OK;
}

/* The mask of the places that are kept, in `mask`. Changes c->out. */
static void select_places(const gg_merge_job *j, const gg_merge_chunk *c, uint8_t *mask)
{
    const sce *s = j->state;
    const gg_cut none = GG_CUT_NONE;
    GG_PICK(gg_mk_variances)(c->out, c->x, j->n, c->n);
    gg_keep_between(c->out, c->n, c->first, &s->border.cut, &none);
    GG_PICK(gg_mk_pack_mask)(mask, c->out, c->n);
}

static uint8_t *sce_mask(const gg_merge_job *j, const gg_merge_chunk *c)
{
    return j->kept ? (uint8_t *)j->kept + c->first / 8 : NULL;
}

static void count_variances(const gg_merge_job *j, const gg_merge_chunk *c, gg_merge_tally *t)
{
    const sce *s = j->state;
    GG_PICK(gg_mk_variances)(c->out, c->x, j->n, c->n);
    gg_key_run keys = { 0, c->out, c->n, c->first };
    gg_quantiles_count(&s->q, t->pass, &keys, t->counters);
    if (t->pass == 0) t->sums[0] += (double)GG_PICK(gg_mk_count_nonzero)(c->out, c->n);
}

static gg_status end_variances(gg_merge_job *j, const gg_merge_tally *t)
{
    sce *s = j->state;
    if (t->pass == 0)
        s->border.wanted = (uint64_t)(gg_merge_global(j, GG_MP_SELECT_TOPK) * t->sums[0]);
    gg_quantiles_end(&s->q, t->pass, t->counters);
    return GG_OK;
}

static void add_energy(const gg_merge_job *j, const gg_merge_chunk *c, gg_merge_tally *t)
{
    const sce *s = j->state;
    uint8_t made[GG_MERGE_PIECE / 8], *mask = sce_mask(j, c);
    if (!mask) mask = made;
    if (!s->all) select_places(j, c, mask);
    for (size_t k = 0; k < j->n; k++) {
        double part[2] = { 0 }; /* all values, and those of the places */
        GG_PICK(gg_mk_norms)(c->x[k], s->all ? NULL : mask, c->n, true, part);
        t->sums[k] += part[!s->all];
    }
}

static gg_status end_energy(gg_merge_job *j, const gg_merge_tally *t)
{
    sce *s = j->state;
    double all = 0;
    for (size_t k = 0; k < j->n; k++) all += t->sums[k];
    for (size_t k = 0; k < j->n; k++)
        s->w[k] = (float)(all > 0 ? t->sums[k] / all : 1 / (double)j->n);
    return GG_OK;
}

static bool sce_pass(gg_merge_job *j, unsigned k, gg_merge_pass *pass)
{
    sce *s = j->state;
    if (k > PASS_ENERGY) return false;
    if (k == PASS_ENERGY) {
        *pass = (gg_merge_pass){ .sums = j->n, .scan = add_energy, .end = end_energy };
        return true;
    }
    size_t counters = s->all ? 0 : gg_quantiles_counters(&s->q, k);
    if (counters == 0) return true;
    *pass = (gg_merge_pass){
        .sums = 1, .counters = counters, .scan = count_variances, .end = end_variances
    };
    pass->in_order = k == 2;
    if (k == 2) gg_quantiles_range(&s->q, &pass->from, &pass->to);
    return true;
}

static void sce_make(const gg_merge_job *j, const gg_merge_chunk *c)
{
    const sce *s = j->state;
    gg_consensus how = { .w = s->w, .unweighted = true, .normalize = true, .scale = 1 };
    uint8_t made[GG_MERGE_PIECE / 8], *mask = sce_mask(j, c);
    if (!s->all && !mask) select_places(j, c, mask = made);
    for (size_t k = 0; k < j->n && !s->all; k++) GG_PICK(gg_mk_apply_mask)(c->x[k], mask, c->n);
    GG_PICK(gg_mk_consensus)(c->out, c->base, c->x, j->n, c->n, &how);
}

/* ---- nearswap ------------------------------------------------------------------------------ */

static gg_status nearswap_start(gg_merge_job *j)
{
    double t = gg_merge_global(j, GG_MP_T);
    if (t > 0) return GG_OK;
    return gg_fail(j->err, GG_EUSAGE,
                   "t is %g, but nearswap needs a positive one, for example 0.0001", t);
}

/* The closer two values are, the more is taken of the second. */
static void nearswap_make(const gg_merge_job *j, const gg_merge_chunk *c)
{
    GG_PICK(gg_mk_nearswap)(c->out, c->x[0], c->x[1], (float)gg_merge_global(j, GG_MP_T), c->n);
}

/* ---- RAM ----------------------------------------------------------------------------------- */

/* A change is a difference above epsilon. Changes that several models make are averaged, and those
 * of one model are kept, in RAM+ amplified. */
typedef struct ram {
    float gain[GG_MERGE_MODELS]; /* of changes that only this model makes */
} ram;

static gg_status ram_start(gg_merge_job *j)
{
    ram *s = j->state;
    for (size_t k = 0; k < j->n; k++) s->gain[k] = 1;
    return GG_OK;
}

static void count_ram(const gg_merge_job *j, const gg_merge_chunk *c, gg_merge_tally *t)
{
    float epsilon = (float)gg_merge_global(j, GG_MP_EPSILON);
    GG_PICK(gg_mk_count_changes)(c->x, j->n, c->n, epsilon, t->counters);
}

static gg_status end_ram(gg_merge_job *j, const gg_merge_tally *t)
{
    ram *s = j->state;
    double epsilon = gg_merge_global(j, GG_MP_EPSILON), alpha = gg_merge_global(j, GG_MP_ALPHA);
    for (size_t k = 0; k < j->n; k++) {
        double shared = (double)t->counters[2 * k], own = (double)t->counters[2 * k + 1];
        double ratio = shared == 0 ? 0 : shared / (own > epsilon ? own : epsilon);
        s->gain[k] = (float)(1 + gg_merge_global(j, GG_MP_R) * (ratio < alpha ? ratio : alpha));
    }
    return GG_OK;
}

static bool ram_pass(gg_merge_job *j, unsigned k, gg_merge_pass *pass)
{
    if (k > 0) return false;
    *pass = (gg_merge_pass){ .counters = 2 * j->n, .scan = count_ram, .end = end_ram };
    return true;
}

static void ram_make(const gg_merge_job *j, const gg_merge_chunk *c)
{
    const ram *s = j->state;
    const gg_changes how = { (float)gg_merge_global(j, GG_MP_EPSILON), s->gain };
    GG_PICK(gg_mk_add_changes)(c->out, c->base, c->x, j->n, c->n, &how);
}

/* ---- Arcee fusion --------------------------------------------------------------------------- */

#define FUSION_PASS 2 /* the one that makes the result */

/* The importance of a change is its size times the divergence (Kullback-Leibler) of the softmax of
 * its row from that of the base's row. Changes at or above median + 1.5 (q3 - q1) of all
 * importances are taken. Quartiles are exact, where the reference samples large tensors. */
typedef struct fusion {
    gg_quantiles q;
    gg_quantile list[3];
    float border;
} fusion;

static gg_status fusion_start(gg_merge_job *j)
{
    fusion *s = j->state;
    static const float share[3] = { 0.25f, 0.5f, 0.75f };
    j->rows = true;
    s->q = (gg_quantiles){ .list = s->list, .n = 3, .streams = 1, .values_only = true };
    gg_quantiles_split(&s->q, j->t.elements, 1);
    j->keep = j->t.dims[0] ? j->t.elements / j->t.dims[0] * sizeof(float) : 0;
    for (size_t i = 0; i < 3 && j->t.elements; i++) {
        uint64_t at = (uint64_t)(share[i] * (double)(j->t.elements - 1));
        s->list[i].wanted = j->t.elements - at; /* value `at` of the ascending order */
    }
    return GG_OK;
}

/* The importances of all values, in `out`. Divergences are kept for the other passes. */
static void importances(const gg_merge_job *j, unsigned pass, const gg_merge_chunk *c)
{
    size_t n = (size_t)j->t.dims[0];
    for (size_t at = 0; at < c->n; at += n) {
        const float *base = c->x[0] + at, *x = c->x[1] + at;
        /* not 0: the chunk has values */
        float *kept = j->kept ? (float *)j->kept + (c->first + at) / n : NULL;
        float by = kept && pass > 0 ? *kept : GG_PICK(gg_mk_divergence)(base, x, n, c->scratch);
        if (kept && pass == 0) *kept = by;
        GG_PICK(gg_mk_importances)(c->out + at, base, x, by, n);
    }
}

static void count_fusion(const gg_merge_job *j, const gg_merge_chunk *c, gg_merge_tally *t)
{
    const fusion *s = j->state;
    importances(j, t->pass, c);
    gg_key_run keys = { 0, c->out, c->n, c->first };
    gg_quantiles_count(&s->q, t->pass, &keys, t->counters);
}

static gg_status end_fusion(gg_merge_job *j, const gg_merge_tally *t)
{
    fusion *s = j->state;
    float v[3];
    gg_quantiles_end(&s->q, t->pass, t->counters);
    for (size_t i = 0; i < 3; i++) v[i] = gg_bits_float(s->list[i].cut.bits);
    s->border = v[1] + 1.5f * (v[2] - v[0]);
    return GG_OK;
}

static bool fusion_pass(gg_merge_job *j, unsigned k, gg_merge_pass *pass)
{
    const fusion *s = j->state;
    if (k >= FUSION_PASS) return false;
    *pass = (gg_merge_pass){ .scan = count_fusion, .end = end_fusion };
    pass->counters = gg_quantiles_counters(&s->q, k);
    return true;
}

static void fusion_make(const gg_merge_job *j, const gg_merge_chunk *c)
{
    const fusion *s = j->state;
    importances(j, FUSION_PASS, c);
    GG_PICK(gg_mk_take_from)(c->out, c->x[0], c->x[1], s->border, c->n);
}

/* ---- isotropic merging: see numeric/matrix.h ----------------------------------------------------
 */

/* The sum of all differences with equal singular values, times t. A vector has no singular values
 * to make equal: its mean difference is used, times t. */
static gg_status iso_matrix(const gg_whole_matrix *w, gg_error *err)
{
    float scale = (float)w->p[GG_MP_T];
    if (w->rows > 1 && w->cols > 1) {
        gg_status st = gg_isotropic(w->d, w->rows, w->cols, w->threads, NULL, err);
        if (st != GG_OK) return st;
    } else {
        scale /= (float)w->models;
    }
    for (size_t i = 0; i < w->rows * w->cols; i++) w->d[i] *= scale;
    return GG_OK;
}

/* ---- what methods do ------------------------------------------------------------------------- */

#define COMBINES .state = sizeof(combination), .subtracts = true, .make = combine_values
#define ANGLES COMBINES, .start = angles_start, .pass = angles_pass
#define COUNTED(borders) \
    .counters = GG_QUANTILE_HIGH + (borders)*GG_QUANTILE_SEGMENTS * GG_QUANTILE_LOW

const gg_merge_work gg_merge_work_linear = { COMBINES, .start = linear_start,
                                             .unchanged = combination_unchanged };
const gg_merge_work gg_merge_work_task = { COMBINES, .start = task_start,
                                           .unchanged = combination_unchanged };
const gg_merge_work gg_merge_work_passthrough = { COMBINES, .start = passthrough_start,
                                                  .unchanged = combination_unchanged };
const gg_merge_work gg_merge_work_slerp = { ANGLES, .solve = solve_slerp,
                                            .unchanged = slerp_unchanged };
const gg_merge_work gg_merge_work_nuslerp = { ANGLES, .solve = solve_nuslerp };
const gg_merge_work gg_merge_work_multislerp = { ANGLES, .solve = solve_multislerp };
const gg_merge_work gg_merge_work_karcher = { ANGLES, .solve = solve_karcher };
const gg_merge_work gg_merge_work_model_stock = { ANGLES, .solve = solve_model_stock };
const gg_merge_work gg_merge_work_sparse = { .start = sparse_start,
                                             .pass = sparse_pass,
                                             .make = sparse_make,
                                             .unchanged = sparse_unchanged,
                                             .state = sizeof(sparse),
                                             .scratch = 2 * sizeof(uint64_t),
                                             COUNTED(2) };
const gg_merge_work gg_merge_work_sce = {
    .start = sce_start, .pass = sce_pass, .make = sce_make, .state = sizeof(sce), COUNTED(1)
};
const gg_merge_work gg_merge_work_nearswap = { .start = nearswap_start, .make = nearswap_make };
const gg_merge_work gg_merge_work_fusion = { .start = fusion_start,
                                             .pass = fusion_pass,
                                             .make = fusion_make,
                                             .state = sizeof(fusion),
                                             .scratch = 2 * sizeof(float),
                                             COUNTED(3) };
const gg_merge_work gg_merge_work_ram = { .start = ram_start,
                                          .make = ram_make,
                                          .state = sizeof(ram) };
const gg_merge_work gg_merge_work_ramplus = {
    .start = ram_start, .pass = ram_pass, .make = ram_make, .state = sizeof(ram)
};
const gg_merge_work gg_merge_work_iso = { .whole = iso_matrix };

static bool is_method(const char *name, const char *text, size_t len)
{
    if (!name || strlen(name) != len) return false;
    for (size_t i = 0; i < len; i++)
        if (name[i] != (text[i] == '-' ? '_' : text[i])) return false;
    return true;
}

const gg_merge_method *gg_merge_method_by_name(const char *name, size_t len)
{
    for (size_t i = 0; i < gg_merge_methods_n; i++) {
        const gg_merge_method *m = &gg_merge_methods[i];
        if (is_method(m->name, name, len) || is_method(m->alias, name, len)) return m;
    }
    return NULL;
}

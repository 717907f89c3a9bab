/* merge_sparse.c - methods that thin out the differences before they add them: TIES, DARE, DELLA
 * and breadcrumbs.
 *
 * Which values a model keeps is decided by their magnitudes in the whole tensor (TIES,
 * breadcrumbs), at random (DARE), or at random by the rank in their row (DELLA). Nothing is
 * sorted or stored for that: borders of magnitudes are found by counting (numeric/merge.h), and
 * random masks are kept for a second pass only if they are small enough.
 */
#include "merge_kinds.h"

#include "numeric/merge.h"

#include <math.h>
#include <string.h>

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

const size_t gg_sparse_size = sizeof(sparse);

/* ---- what each method does ---------------------------------------------------------------- */

static bool by_magnitude(const gg_merge_job *j)
{
    gg_merge_kind kind = j->method->kind;
    return kind == GG_MERGE_TIES || kind == GG_MERGE_BREADCRUMBS ||
           kind == GG_MERGE_BREADCRUMBS_TIES;
}

static bool by_rank(const gg_merge_job *j)
{
    return j->method->kind == GG_MERGE_DELLA || j->method->kind == GG_MERGE_DELLA_LINEAR;
}

static bool agrees_on_signs(const gg_merge_job *j)
{
    gg_merge_kind kind = j->method->kind;
    return kind == GG_MERGE_TIES || kind == GG_MERGE_DARE_TIES || kind == GG_MERGE_DELLA ||
           kind == GG_MERGE_BREADCRUMBS_TIES;
}

/* The numbers of values to keep, and of largest values to drop. */
static void wanted(const gg_merge_job *j, size_t k, uint64_t *keep, uint64_t *drop)
{
    double n = (double)j->t.elements;
    *keep = (uint64_t)(j->p[k][GG_MP_DENSITY] * n);
    *drop = 0;
    if (j->method->kind == GG_MERGE_TIES) return;
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

gg_status gg_sparse_start(gg_merge_job *j, gg_error *err)
{
    sparse *s = j->state;
    s->q = (gg_quantiles){ .list = s->list, .streams = j->n };
    gg_quantiles_split(&s->q, j->t.elements, GG_MERGE_CHUNK);
    for (size_t k = 0; k < j->n; k++) {
        sparse_model *m = &s->of[k];
        *m = (sparse_model){ .density = j->p[k][GG_MP_DENSITY], .scale = 1 };
        m->epsilon = by_rank(j) ? j->p[k][GG_MP_EPSILON] : 0;
        m->low = GG_CUT_ALL;
        m->high = GG_CUT_NONE;
        m->key = gg_random_key(j->seed, j->t.name, j->t.name_len, k);
        if (by_rank(j) && check_epsilon(j->p[k], err) != GG_OK) return err->status;
        if (!by_magnitude(j) || m->density >= 1) continue;
        uint64_t keep, drop;
        wanted(j, k, &keep, &drop);
        s->list[s->q.n++] = (gg_quantile){ .stream = k, .wanted = keep };
        if (drop) s->list[s->q.n++] = (gg_quantile){ .stream = k, .wanted = drop };
    }
    j->rows = by_rank(j);
    bool bytes = !j->rows || j->t.dims[0] % 8 == 0; /* chunks begin at whole bytes of a mask */
    if (!by_magnitude(j) && bytes) j->keep = j->n * mask_size(j);
    return GG_OK;
}

/* ---- masks ---------------------------------------------------------------------------------- */

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
static void thin(const gg_merge_job *j, size_t k, const gg_merge_chunk *c)
{
    const sparse_model *m = &((const sparse *)j->state)->of[k];
    uint8_t made[GG_MERGE_PIECE / 8];
    const uint8_t *mask = kept_mask(j, k, c);
    if (m->density >= 1) return;
    if (by_magnitude(j)) {
        gg_keep_between(c->x[k], c->n, c->first, &m->low, &m->high);
    } else if (by_rank(j) && !mask) {
        thin_rows(j, m, c, c->x[k]);
    } else {
        if (!mask) gg_random_mask(made, c->n, m->key, c->first, m->density);
        GG_PICK(gg_mk_apply_mask)(c->x[k], mask ? mask : made, c->n);
    }
}

/* ---- passes -----------------------------------------------------------------------------------
 */

static void count(const gg_merge_job *j, unsigned pass, const gg_merge_chunk *c, double *sums,
                  uint64_t *counters)
{
    const sparse *s = j->state;
    (void)sums;
    for (size_t k = 0; k < j->n; k++) {
        gg_key_run keys = { k, c->x[k], c->n, c->first };
        if (s->of[k].density < 1) gg_quantiles_count(&s->q, pass, &keys, counters);
    }
}

static gg_status end_count(gg_merge_job *j, unsigned pass, const double *sums,
                           const uint64_t *counters, gg_error *err)
{
    sparse *s = j->state;
    (void)sums;
    (void)err;
    gg_quantiles_end(&s->q, pass, counters);
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
    if (by_rank(j) || by_magnitude(j)) {
        double kept[2] = { 0 };
        GG_PICK(gg_mk_norms)(c->x[k], NULL, c->n, squares, sums);
        if (by_rank(j)) thin_rows(j, m, c, c->x[k]);
        else thin(j, k, c);
        GG_PICK(gg_mk_norms)(c->x[k], NULL, c->n, squares, kept);
        sums[1] += kept[0];
        if (mask) GG_PICK(gg_mk_pack_mask)(mask, c->x[k], c->n);
        return;
    }
    if (!mask) mask = made;
    gg_random_mask(mask, c->n, m->key, c->first, m->density);
    GG_PICK(gg_mk_norms)(c->x[k], mask, c->n, squares, sums);
}

static void add_norms(const gg_merge_job *j, unsigned pass, const gg_merge_chunk *c, double *sums,
                      uint64_t *counters)
{
    const sparse *s = j->state;
    (void)pass;
    (void)counters;
    for (size_t k = 0; k < j->n; k++)
        if (s->of[k].density < 1) add_norms_of(j, k, c, sums + 2 * k);
}

/* Scales the values that are kept, so that the norm stays. */
static gg_status end_norms(gg_merge_job *j, unsigned pass, const double *sums,
                           const uint64_t *counters, gg_error *err)
{
    sparse *s = j->state;
    bool l2 = gg_merge_global(j, GG_MP_RESCALE_NORM) == 2;
    (void)pass;
    (void)counters;
    (void)err;
    for (size_t k = 0; k < j->n; k++) {
        double all = l2 ? sqrt(sums[2 * k]) : sums[2 * k];
        double kept = l2 ? sqrt(sums[2 * k + 1]) : sums[2 * k + 1];
        if (all >= 1e-7 && kept >= 1e-7) s->of[k].scale = (float)(all / kept);
    }
    return GG_OK;
}

bool gg_sparse_pass(gg_merge_job *j, unsigned k, gg_merge_pass *pass)
{
    sparse *s = j->state;
    bool thinned = false;
    for (size_t i = 0; i < j->n; i++) thinned = thinned || s->of[i].density < 1;
    if (k > PASS_NORMS) return false;
    if (k < PASS_NORMS) {
        pass->counters = gg_quantiles_counters(&s->q, k);
        if (pass->counters == 0) return true; /* nothing to count */
        pass->scan = count;
        pass->end = end_count;
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

/* ---- the result
 * ---------------------------------------------------------------------------------- */

void gg_sparse_make(const gg_merge_job *j, const gg_merge_chunk *c)
{
    const sparse *s = j->state;
    double sum = 0, weights[GG_MERGE_MODELS], lambda = gg_merge_global(j, GG_MP_LAMBDA);
    float w[GG_MERGE_MODELS];
    bool normalize = gg_merge_flag(j, GG_MP_NORMALIZE);
    for (size_t k = 0; k < j->n; k++) {
        thin(j, k, c);
        w[k] = (float)j->p[k][GG_MP_WEIGHT];
        sum += j->p[k][GG_MP_WEIGHT];
    }
    if (agrees_on_signs(j)) {
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

size_t gg_sparse_unchanged(const gg_merge_job *j)
{
    bool nothing = gg_merge_global(j, GG_MP_LAMBDA) == 0, weightless = true;
    for (size_t k = 0; k < j->n; k++) weightless = weightless && j->p[k][GG_MP_WEIGHT] == 0;
    return nothing || weightless ? j->n : SIZE_MAX;
}

/* merge_swap.c - methods that decide value by value what to take from which model: nearswap,
 * RAM and Arcee fusion. */
#include "merge_kinds.h"

#include "numeric/merge.h"

#include <math.h>
#include <string.h>

/* ---- nearswap ------------------------------------------------------------------------------ */

gg_status gg_nearswap_start(gg_merge_job *j, gg_error *err)
{
    double t = gg_merge_global(j, GG_MP_T);
    if (t > 0) return GG_OK;
    return gg_fail(err, GG_EUSAGE, "t is %g, but nearswap needs a positive one, for example 0.0001",
                   t);
}

/* The closer two values are, the more is taken of the second. */
void gg_nearswap_make(const gg_merge_job *j, const gg_merge_chunk *c)
{
    GG_PICK(gg_mk_nearswap)(c->out, c->x[0], c->x[1], (float)gg_merge_global(j, GG_MP_T), c->n);
}

/* ---- RAM ----------------------------------------------------------------------------------- */

/* A change is a difference above epsilon. Changes that several models make are averaged, and those
 * of one model are kept, in RAM+ amplified. */
typedef struct ram {
    float gain[GG_MERGE_MODELS]; /* of changes that only this model makes */
} ram;

const size_t gg_ram_size = sizeof(ram);

static void count_ram(const gg_merge_job *j, unsigned pass, const gg_merge_chunk *c, double *sums,
                      uint64_t *counters)
{
    float epsilon = (float)gg_merge_global(j, GG_MP_EPSILON);
    (void)pass;
    (void)sums;
    GG_PICK(gg_mk_count_changes)(c->x, j->n, c->n, epsilon, counters);
}

static gg_status end_ram(gg_merge_job *j, unsigned pass, const double *sums,
                         const uint64_t *counters, gg_error *err)
{
    ram *s = j->state;
    double epsilon = gg_merge_global(j, GG_MP_EPSILON), alpha = gg_merge_global(j, GG_MP_ALPHA);
    (void)pass;
    (void)sums;
    (void)err;
    for (size_t k = 0; k < j->n; k++) {
        double shared = (double)counters[2 * k], own = (double)counters[2 * k + 1];
        double ratio = shared == 0 ? 0 : shared / (own > epsilon ? own : epsilon);
        s->gain[k] = (float)(1 + gg_merge_global(j, GG_MP_R) * (ratio < alpha ? ratio : alpha));
    }
    return GG_OK;
}

bool gg_ram_pass(gg_merge_job *j, unsigned k, gg_merge_pass *pass)
{
    ram *s = j->state;
    for (size_t i = 0; i < j->n && k == 0; i++) s->gain[i] = 1;
    if (k > 0 || j->method->kind == GG_MERGE_RAM) return false;
    *pass = (gg_merge_pass){ .counters = 2 * j->n, .scan = count_ram, .end = end_ram };
    return true;
}

void gg_ram_make(const gg_merge_job *j, const gg_merge_chunk *c)
{
    const ram *s = j->state;
    const gg_changes how = { (float)gg_merge_global(j, GG_MP_EPSILON), s->gain };
    GG_PICK(gg_mk_add_changes)(c->out, c->base, c->x, j->n, c->n, &how);
}

/* ---- Arcee fusion --------------------------------------------------------------------------- */

#define LAST_PASS 2 /* the one that makes the result */

/* The importance of a change is its size times the divergence (Kullback-Leibler) of the softmax of
 * its row from that of the base's row. Changes at or above median + 1.5 (q3 - q1) of all
 * importances are taken. Quartiles are exact, where the reference samples large tensors. */
typedef struct fusion {
    gg_quantiles q;
    gg_quantile list[3];
    float border;
} fusion;

const size_t gg_fusion_size = sizeof(fusion);

gg_status gg_fusion_start(gg_merge_job *j, gg_error *err)
{
    fusion *s = j->state;
    static const float share[3] = { 0.25f, 0.5f, 0.75f };
    (void)err;
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
        float *kept = j->kept ? (float *)j->kept + (c->first + at) / n : NULL;
        float by = kept && pass > 0 ? *kept : GG_PICK(gg_mk_divergence)(base, x, n, c->scratch);
        if (kept && pass == 0) *kept = by;
        GG_PICK(gg_mk_importances)(c->out + at, base, x, by, n);
    }
}

static void count_fusion(const gg_merge_job *j, unsigned pass, const gg_merge_chunk *c,
                         double *sums, uint64_t *counters)
{
    const fusion *s = j->state;
    (void)sums;
    importances(j, pass, c);
    gg_key_run keys = { 0, c->out, c->n, c->first };
    gg_quantiles_count(&s->q, pass, &keys, counters);
}

static gg_status end_fusion(gg_merge_job *j, unsigned pass, const double *sums,
                            const uint64_t *counters, gg_error *err)
{
    fusion *s = j->state;
    float v[3];
    (void)sums;
    (void)err;
    gg_quantiles_end(&s->q, pass, counters);
    for (size_t i = 0; i < 3; i++) v[i] = gg_bits_float(s->list[i].cut.bits);
    s->border = v[1] + 1.5f * (v[2] - v[0]);
    return GG_OK;
}

bool gg_fusion_pass(gg_merge_job *j, unsigned k, gg_merge_pass *pass)
{
    const fusion *s = j->state;
    if (k >= LAST_PASS) return false;
    *pass = (gg_merge_pass){ .scan = count_fusion, .end = end_fusion };
    pass->counters = gg_quantiles_counters(&s->q, k);
    return true;
}

void gg_fusion_make(const gg_merge_job *j, const gg_merge_chunk *c)
{
    const fusion *s = j->state;
    importances(j, LAST_PASS, c);
    GG_PICK(gg_mk_take_from)(c->out, c->x[0], c->x[1], s->border, c->n);
}

/* merge_sce.c - SCE: keeps the places where the differences vary most, weighs each model by the
 * energy of these values, and drops values whose sign is that of the minority. */
#include "merge_kinds.h"

#include "numeric/merge.h"

#include <math.h>
#include <string.h>

#define PASS_ENERGY 3 /* after those of the quantile */

typedef struct sce {
    gg_quantiles q; /* of the variances */
    gg_quantile border;
    bool all; /* every place is kept */
    float w[GG_MERGE_MODELS];
} sce;

const size_t gg_sce_size = sizeof(sce);

gg_status gg_sce_start(gg_merge_job *j, gg_error *err)
{
    sce *s = j->state;
    (void)err;
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

/* ---- passes ---------------------------------------------------------------------------------- */

static void count_elements(const gg_merge_job *j, unsigned pass, const gg_merge_chunk *c,
                           double *sums, uint64_t *counters)
{
    const sce *s = j->state;
    GG_PICK(gg_mk_variances)(c->out, c->x, j->n, c->n);
    gg_key_run keys = { 0, c->out, c->n, c->first };
    gg_quantiles_count(&s->q, pass, &keys, counters);
    if (pass == 0) sums[0] += (double)GG_PICK(gg_mk_count_nonzero)(c->out, c->n);
}

static gg_status end_elements(gg_merge_job *j, unsigned pass, const double *sums,
                              const uint64_t *counters, gg_error *err)
{
    sce *s = j->state;
    (void)err;
    if (pass == 0) s->border.wanted = (uint64_t)(gg_merge_global(j, GG_MP_SELECT_TOPK) * sums[0]);
    gg_quantiles_end(&s->q, pass, counters);
    return GG_OK;
}

static void add_energy(const gg_merge_job *j, unsigned pass, const gg_merge_chunk *c, double *sums,
                       uint64_t *counters)
{
    const sce *s = j->state;
    uint8_t made[GG_MERGE_PIECE / 8], *mask = sce_mask(j, c);
    (void)pass;
    (void)counters;
    if (!mask) mask = made;
    if (!s->all) select_places(j, c, mask);
    for (size_t k = 0; k < j->n; k++) {
        double part[2] = { 0 }; /* all values, and those of the places */
        GG_PICK(gg_mk_norms)(c->x[k], s->all ? NULL : mask, c->n, true, part);
        sums[k] += part[!s->all];
    }
}

static gg_status end_energy(gg_merge_job *j, unsigned pass, const double *sums,
                            const uint64_t *counters, gg_error *err)
{
    sce *s = j->state;
    double all = 0;
    (void)pass;
    (void)counters;
    (void)err;
    for (size_t k = 0; k < j->n; k++) all += sums[k];
    for (size_t k = 0; k < j->n; k++) s->w[k] = (float)(all > 0 ? sums[k] / all : 1 / (double)j->n);
    return GG_OK;
}

bool gg_sce_pass(gg_merge_job *j, unsigned k, gg_merge_pass *pass)
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
        .sums = 1, .counters = counters, .scan = count_elements, .end = end_elements
    };
    pass->in_order = k == 2;
    if (k == 2) gg_quantiles_range(&s->q, &pass->from, &pass->to);
    return true;
}

void gg_sce_make(const gg_merge_job *j, const gg_merge_chunk *c)
{
    const sce *s = j->state;
    gg_consensus how = { .w = s->w, .unweighted = true, .normalize = true, .scale = 1 };
    uint8_t made[GG_MERGE_PIECE / 8], *mask = sce_mask(j, c);
    if (!s->all && !mask) select_places(j, c, mask = made);
    for (size_t k = 0; k < j->n && !s->all; k++) GG_PICK(gg_mk_apply_mask)(c->x[k], mask, c->n);
    GG_PICK(gg_mk_consensus)(c->out, c->base, c->x, j->n, c->n, &how);
}

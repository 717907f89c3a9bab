/* compute_join.c - joins a tensor from parts, each with its own producer. */
#include "compute_core.h"

#include "base/io.h"
#include "verbs/shared/copy.h"

#include <string.h>

typedef struct join_ctx {
    gg_computation base;
    gg_whole of[3];
    size_t n;
    gg_joint list[];
} join_ctx;

static gg_status make_join(void *ctx, const gg_target *to, gg_error *err)
{
    const join_ctx *j = ctx;
    gg_target part = *to;
    gg_status st = GG_OK;
    for (size_t i = 0; i < 3 && st == GG_OK; i++)
        if (j->of[i].source) st = gg_verify_data(j->of[i].source, j->of[i].index, err);
    for (size_t i = 0; i < j->n && st == GG_OK; i++) {
        part.t = &j->list[i].t;
        st = j->list[i].p.make(j->list[i].p.ctx, &part, err);
        part.at = gg_offset_after(part.at, part.t->bytes);
    }
    for (size_t i = 0; i < j->n && j->base.error; i++) {
        gg_encode_error error = gg_compute_error(&j->list[i].p);
        gg_encode_error_merge(j->base.error, &error);
    }
    return st;
}

/* Tells the parts of a stack which of its matrices they are, for their weights. */
static void mark_stack(join_ctx *j)
{
    uint64_t first = 0, all = 0;
    for (size_t i = 0; i < j->n; i++) {
        if (j->list[i].t.n_dims != 3) return;
        all += j->list[i].t.dims[2];
    }
    for (size_t i = 0; i < j->n; i++) {
        gg_computation *part = j->list[i].p.ctx;
        part->stack_first = first;
        part->stack_size = all;
        first += j->list[i].t.dims[2];
    }
}

static gg_status retype_joints(gg_computation *t, gg_producer *p, const gg_tensor *out,
                               gg_error *err)
{
    join_ctx *j = (join_ctx *)t;
    gg_status st = GG_OK;
    (void)p;
    for (size_t i = 0; i < j->n && st == GG_OK; i++) {
        gg_tensor *part = &j->list[i].t;
        part->dtype = out->dtype;
        st = gg_tensor_extent(part->dtype, part->n_dims, part->dims, &part->elements, &part->bytes,
                              err);
        if (st == GG_OK) st = gg_producer_retype(&j->list[i].p, part, err);
    }
    return st;
}

gg_status gg_compute_join(gg_computations *list, const gg_joint *joints, size_t n,
                          const gg_whole of[3], gg_producer *p, gg_error *err)
{
    *p = (gg_producer){ 0 };
    join_ctx *j = gg_compute_new(list, sizeof *j + n * sizeof j->list[0], err);
    if (!j) return err->status;
    j->base.retype = retype_joints;
    j->n = n;
    for (size_t i = 0; i < 3; i++) j->of[i] = of[i];
    if (n) memcpy(j->list, joints, n * sizeof *joints);
    mark_stack(j);
    *p = (gg_producer){ make_join, j };
    return GG_OK;
}

/* compute_convert.c - converts values to another dtype, or copies bytes; joins a tensor from such
 * parts; and tries dtypes on samples of a tensor. */
#include "compute.h"

#include "base/error.h"
#include "base/io.h"
#include "quant/quant.h"
#include "write/copy.h"
#include "write/verb_run.h"

#include <stdlib.h>
#include <string.h>

static gg_status make_convert(void *ctx, const gg_target *to, gg_error *err)
{
    return gg_compute_all(ctx, NULL, NULL, to, err);
}

static gg_status make_copy(void *ctx, const gg_target *to, gg_error *err)
{
    const gg_computation *c = ctx;
    gg_place at = { to->fd, to->at };
    gg_status st = GG_OK;
    for (size_t i = 0; i < c->in[0].n_parts && st == GG_OK; i++) {
        st = gg_copy_verified(&c->in[0].parts[i], to->t, at, to->run, err);
        at.at = gg_offset_after(at.at, c->in[0].parts[i].bytes);
    }
    return st == GG_OK ? GG_OK : gg_at_tensor(err, to->t->name, to->t->name_len);
}

static gg_status retype_copy(gg_computation *t, gg_producer *p, const gg_tensor *out, gg_error *err)
{
    gg_input in = { t->in[0].dtype, t->in[0].parts, t->in[0].n_parts };
    if (out->dtype == in.dtype) return GG_OK;
    p->make = make_convert;
    return gg_compute_check_decode(out, &in, err);
}

static gg_status retype_producer(gg_producer *p, const gg_tensor *out, gg_error *err)
{
    gg_computation *t = p->ctx;
    gg_status st = gg_compute_check_output(out, t->imatrix, err);
    return st == GG_OK && t->retype ? t->retype(t, p, out, err) : st;
}

static gg_status retype_parts(gg_plan_tensor *pt, const gg_tensor *out, bool verify,
                              gg_computations *list, gg_error *err)
{
    gg_producer made;
    for (size_t i = 0; i < pt->n_parts && !verify; i++) pt->parts[i].sha256 = NULL;
    gg_input in = { pt->t.dtype, pt->parts, pt->n_parts };
    gg_status st = gg_compute_convert(list, out, &in, &made, err);
    if (st != GG_OK) return st;
    gg_plan_compute(pt, made.make, made.ctx);
    return GG_OK;
}

gg_encode_error gg_compute_error(const gg_producer *p)
{
    const gg_computation *t = p->make ? p->ctx : NULL;
    return t && t->error ? *t->error : (gg_encode_error){ 0 };
}

gg_status gg_compute_retype(gg_plan_tensor *pt, uint32_t dtype, bool verify, gg_computations *list,
                            gg_error *err)
{
    gg_tensor out = pt->t;
    gg_producer p = { pt->make, pt->ctx };
    out.dtype = dtype;
    gg_status st = gg_tensor_extent(dtype, out.n_dims, out.dims, &out.elements, &out.bytes, err);
    if (st == GG_OK)
        st = p.make ? retype_producer(&p, &out, err) : retype_parts(pt, &out, verify, list, err);
    if (st != GG_OK) return gg_at_tensor(err, pt->t.name, pt->t.name_len);
    if (p.make) pt->make = p.make;
    pt->t = out;
    return GG_OK;
}

gg_status gg_compute_convert(gg_computations *list, const gg_tensor *out, const gg_input *in,
                             gg_producer *p, gg_error *err)
{
    *p = (gg_producer){ 0 };
    bool same = in->dtype == out->dtype;
    gg_status st = gg_compute_check_input(out, in, err);
    if (st == GG_OK && !same) st = gg_compute_check_output(out, list->imatrix, err);
    if (st == GG_OK && !same) st = gg_compute_check_decode(out, in, err);
    if (st != GG_OK) return st;
    gg_computation *t = gg_compute_new(list, sizeof *t, err);
    if (!t) return err->status;
    st = gg_compute_input(t, in, err);
    if (same) t->retype = retype_copy;
    if (st == GG_OK) *p = (gg_producer){ same ? make_copy : make_convert, t };
    return st;
}

/* ---- parts with their own producers ----------------------------------------------------- */

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
        if (j->list[i].stays) gg_progress_add(to->run, part.t->bytes);
        else st = j->list[i].p.make(j->list[i].p.ctx, &part, err);
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
        if (st == GG_OK) st = retype_producer(&j->list[i].p, part, err);
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

/* ---- trials -------------------------------------------------------------------------------- */

typedef struct trial {
    const gg_trial *of;
    gg_computation source; /* only its input */
    feed in;
    gg_weights weights;
    float *room, *back;
    uint8_t *out;
    gg_encode_error *errors;
} trial;

/* Steps to take of `all`: so many that they have about `most` values. */
static uint64_t steps_taken(uint64_t all, uint64_t most)
{
    uint64_t n = most / COMPUTE_STEP ? most / COMPUTE_STEP : 1;
    return most == 0 || n > all ? all : n;
}

static gg_status try_step(trial *t, uint64_t first, size_t n, gg_error *err)
{
    const float *weights = gg_weights_of(&t->weights, first, n, t->room);
    gg_status st = gg_feed_next(&t->in, n, err);
    if (st == GG_OK && t->in.bad) return gg_feed_fail_bad(&t->in, err);
    for (size_t k = 0; k < t->of->n && st == GG_OK; k++) {
        uint32_t dtype = t->of->dtypes[k];
        st = gg_encode(dtype, t->in.x, t->out, n, n, weights, err);
        const gg_encoded made = { dtype, t->in.x, t->out, n, weights, t->back };
        if (st == GG_OK) st = gg_encode_error_add(&t->errors[k], &made, err);
        if (st == GG_OK) st = gg_cancelled(err);
    }
    return st;
}

static gg_status open_trial(trial *t, gg_error *err)
{
    gg_tensor weighed = *t->of->t;
    weighed.dtype = GG_Q8_0; /* any that takes weights */
    gg_status st = gg_compute_input(&t->source, t->of->in, err);
    gg_feed_open(&t->in, &t->source.in[0], false);
    if (st == GG_OK) st = gg_weights_open(&t->weights, t->of->imatrix, &weighed, 0, 0, err);
    if (st != GG_OK) return st;
    t->room = malloc(COMPUTE_STEP * sizeof *t->room);
    t->back = malloc(COMPUTE_STEP * sizeof *t->back);
    t->out = malloc(COMPUTE_STEP * 8);
    if (t->room && t->back && t->out) return GG_OK;
    return gg_fail(err, GG_ENOMEM, "no memory for the values of a tensor");
}

gg_status gg_compute_trial(const gg_trial *of, gg_encode_error *out, gg_error *err)
{
    trial t = { .of = of, .errors = out };
    uint64_t elements = of->t->elements, at = 0;
    uint64_t all = (elements + COMPUTE_STEP - 1) / COMPUTE_STEP;
    uint64_t taken = steps_taken(all, of->most);
    for (size_t k = 0; k < of->n; k++) out[k] = (gg_encode_error){ 0 };
    gg_status st = open_trial(&t, err);
    for (uint64_t i = 0; i < taken && st == GG_OK; i++) {
        /* all * i / taken, without overflow */
        uint64_t step = all / taken * i + all % taken * i / taken;
        uint64_t first = step * COMPUTE_STEP, left = elements - first;
        size_t n = left < COMPUTE_STEP ? (size_t)left : COMPUTE_STEP;
        st = gg_feed_skip(&t.in, gg_encoded_bytes(of->in->dtype, first - at), err);
        if (st == GG_OK) st = try_step(&t, first, n, err);
        at = first + n;
    }
    gg_feed_close(&t.in);
    gg_weights_close(&t.weights);
    free(t.source.in[0].parts);
    free(t.room);
    free(t.back);
    free(t.out);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, of->t->name, of->t->name_len);
}

/* compute_convert.c - converts values to another dtype, or copies bytes. */
#include "compute_core.h"

#include "base/error.h"
#include "base/io.h"
#include "verbs/shared/copy.h"

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

gg_status gg_producer_retype(gg_producer *p, const gg_tensor *out, gg_error *err)
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
    free(pt->parts);
    pt->parts = NULL;
    pt->n_parts = 0;
    pt->make = made.make;
    pt->ctx = made.ctx;
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
        st = p.make ? gg_producer_retype(&p, &out, err) : retype_parts(pt, &out, verify, list, err);
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

/* compute_convert.c - the same values in another dtype, or the same bytes. */
#include "compute_core.h"

#include "base/io.h"
#include "verbs/shared/hashcopy.h"

#include <string.h>

static gg_status make_convert(void *ctx, const gg_tensor *t, int fd, uint64_t at, const gg_run *run,
                              gg_error *err)
{
    compute_target to = { t, fd, at, run };
    return gg_compute_all(ctx, NULL, NULL, &to, err);
}

static gg_status make_copy(void *ctx, const gg_tensor *t, int fd, uint64_t at, const gg_run *run,
                           gg_error *err)
{
    const gg_computation *c = ctx;
    gg_status st = GG_OK;
    for (size_t i = 0; i < c->in[0].n_parts && st == GG_OK; i++) {
        st = gg_copy_verified(&c->in[0].parts[i], t, (gg_place){ fd, at }, run, err);
        at = gg_offset_after(at, c->in[0].parts[i].bytes);
    }
    return st == GG_OK ? GG_OK : gg_at_tensor(err, t->name, t->name_len);
}

gg_status gg_compute_convert(gg_computations *list, const gg_tensor *out, const gg_input *in,
                             gg_producer *p, gg_error *err)
{
    *p = (gg_producer){ 0 };
    bool same = in->dtype == out->dtype;
    gg_status st = gg_compute_check_input(out, in, err);
    if (st == GG_OK && !same) st = gg_compute_check_output(out, err);
    if (st == GG_OK && !same) st = gg_compute_check_decode(out, in, err);
    if (st != GG_OK) return st;
    gg_computation *t = gg_compute_new(list, sizeof *t, err);
    if (!t) return err->status;
    st = gg_compute_input(t, in, err);
    if (st == GG_OK) *p = (gg_producer){ same ? make_copy : make_convert, t };
    return st;
}

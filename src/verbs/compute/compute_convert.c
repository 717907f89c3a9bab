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

static gg_status copy_part(const gg_plan_part *p, int fd, uint64_t at, const gg_run *run,
                           gg_error *err)
{
    gg_data d;
    char sha[65];
    bool verify = p->sha256 && p->sha256[0]; /* a hash costs more than the kernel's copy */
    gg_status st = gg_data_open(p->source, p->index, &d, err);
    if (st != GG_OK) return st;
    st = gg_hash_copy(&d, p->at, p->bytes, fd, at, verify ? sha : NULL, run, err);
    gg_data_close(&d);
    if (st != GG_OK || !verify || gg_check_sha256(sha, p->sha256, err) == GG_OK) return st;
    return gg_at_file(err, gg_source_name(p->source));
}

static gg_status make_copy(void *ctx, const gg_tensor *t, int fd, uint64_t at, const gg_run *run,
                           gg_error *err)
{
    const gg_computation *c = ctx;
    gg_status st = GG_OK;
    for (size_t i = 0; i < c->in[0].n_parts && st == GG_OK; i++) {
        st = copy_part(&c->in[0].parts[i], fd, at, run, err);
        at = gg_place_after(at, c->in[0].parts[i].bytes);
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

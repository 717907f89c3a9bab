/* move_bytes.c - decides per move whether to copy, convert or blend. */
#include "move_bytes.h"

#include "base/error.h"
#include "organ/manifest.h"
#include "organ/select.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"

#include <stdlib.h>
#include <string.h>

static uint64_t block_count(const gg_source *s)
{
    uint64_t blocks = 0;
    for (size_t i = 0; i < gg_source_count(s); i++) {
        const gg_tensor *t = gg_source_tensor(s, i);
        gg_anatomy a = gg_anatomy_of(t->name, t->name_len);
        if (a.block >= 0 && (uint64_t)a.block + 1 > blocks) blocks = (uint64_t)a.block + 1;
    }
    return blocks;
}

/* Pointers to parts must stay valid, so parts are allocated in blocks. */
struct gg_mover_parts {
    struct gg_mover_parts *next;
    gg_plan_part list[];
};

static gg_plan_part *new_parts(gg_mover *m, size_t n, gg_error *err)
{
    struct gg_mover_parts *b = calloc(1, sizeof *b + n * sizeof b->list[0]);
    if (!b) {
        gg_fail(err, GG_ENOMEM, "no memory for the moves");
        return NULL;
    }
    b->next = m->parts;
    m->parts = b;
    return b->list;
}

void gg_mover_open(gg_mover *m, gg_source *base, gg_source *donor, const gg_match_options *o)
{
    *m = (gg_mover){ .base = base, .donor = donor, .blend = &o->blend, .select = o->select };
    if (o->blend.mode != GG_BLEND_NONE) m->blocks = block_count(base);
}

void gg_mover_close(gg_mover *m)
{
    gg_computations_free(&m->list);
    for (struct gg_mover_parts *b = m->parts; b;) {
        struct gg_mover_parts *next = b->next;
        free(b);
        b = next;
    }
    *m = (gg_mover){ 0 };
}

static gg_plan_part whole(gg_source *s, size_t index)
{
    const gg_manifest *m = gg_source_manifest(s);
    return (gg_plan_part){ s, index, 0, gg_source_tensor(s, index)->bytes,
                           m ? m->entries[index].sha256 : NULL };
}

static gg_input input(const gg_plan_part *part)
{
    return (gg_input){ gg_source_tensor(part->source, part->index)->dtype, part, 1 };
}

/* Finds the ancestor's tensor for the donor's. GG_NO if it is missing, GG_EFORMAT if its dims
 * differ; a transposed one would have the same number of bytes. */
static gg_status find_ancestor(const gg_mover *m, const gg_tensor *donor, size_t *index,
                               gg_error *err)
{
    *index = gg_source_find(m->blend->ancestor, donor->name, donor->name_len);
    if (*index == SIZE_MAX) gg_fail(err, GG_NO, "the ancestor does not have this tensor");
    else if (memcmp(gg_source_tensor(m->blend->ancestor, *index)->dims, donor->dims,
                    sizeof donor->dims) != 0)
        gg_fail(err, GG_EFORMAT, "its dims differ from those in base and donor");
    else return GG_OK;
    gg_at_tensor(err, donor->name, donor->name_len);
    return gg_at_file(err, gg_source_name(m->blend->ancestor));
}

/* A range of experts of a tensor: n experts from `at` on, along its last dimension. n = 0 means
 * all experts. */
typedef struct share {
    uint64_t at, n;
} share;

static gg_plan_part part_of(gg_source *s, size_t index, share some)
{
    const gg_tensor *t = gg_source_tensor(s, index);
    uint64_t of = some.n ? t->dims[t->n_dims - 1] : 0;
    if (some.n == of) return whole(s, index);
    uint64_t size = t->bytes / of;
    return (gg_plan_part){ s, index, some.at * size, some.n * size, NULL };
}

/* The donor's experts that replace these of the base. */
static share in_donor(const gg_mover *m, share some)
{
    return (share){ gg_select_donor_expert(m->select, some.at), some.n };
}

static gg_status make_blend(gg_mover *m, const gg_move *move, share some, const gg_tensor *out,
                            gg_producer *p, gg_error *err)
{
    gg_plan_part *parts = new_parts(m, 3, err);
    if (!parts) return err->status;
    parts[0] = part_of(m->base, move->base, some);
    parts[1] = part_of(m->donor, move->donor, in_donor(m, some));
    gg_mixture mix = { .mode = m->blend->mode, .in = { input(&parts[0]), input(&parts[1]) } };
    if (mix.mode == GG_BLEND_TASK) {
        size_t i;
        if (find_ancestor(m, gg_source_tensor(m->donor, move->donor), &i, err) != GG_OK)
            return err->status;
        parts[2] = part_of(m->blend->ancestor, i, in_donor(m, some));
        mix.in[2] = input(&parts[2]);
    }
    mix.t = gg_blend_t(m->blend, move->name, move->name_len, m->blocks);
    return gg_compute_blend(&m->list, out, &mix, p, err);
}

/* Consecutive experts of a stack, all from the base or consecutive in the donor too. */
static gg_status make_share(gg_mover *m, const gg_move *move, share some, bool donor,
                            gg_joint *joint, gg_error *err)
{
    gg_tensor *t = &joint->t;
    t->dims[t->n_dims - 1] = some.n;
    gg_status st = gg_tensor_extent(t->dtype, t->n_dims, t->dims, &t->elements, &t->bytes, err);
    if (st != GG_OK) return st;
    if (donor && m->blend->mode) return make_blend(m, move, some, t, &joint->p, err);
    gg_plan_part *part = new_parts(m, 1, err);
    if (!part) return err->status;
    *part = donor ? part_of(m->donor, move->donor, in_donor(m, some))
                  : part_of(m->base, move->base, some);
    gg_input in = input(part);
    return gg_compute_convert(&m->list, t, &in, &joint->p, err);
}

/* The end of the run of experts that begins at e. Its experts are all selected and consecutive
 * in the donor too, or none is selected. */
static uint64_t run_end(const gg_mover *m, uint64_t e, uint64_t n)
{
    bool donor = gg_select_expert(m->select, e);
    uint64_t from = gg_select_donor_expert(m->select, e);
    do e++, from++;
    while (e < n && gg_select_expert(m->select, e) == donor &&
           (!donor || gg_select_donor_expert(m->select, e) == from));
    return e;
}

/* Makes a stack (or router) with some experts converted or blended. Each expert is blended as
 * a separate tensor, because the arc of a slerp depends on that expert alone. */
static gg_status join_experts(gg_mover *m, const gg_move *move, const gg_tensor *out,
                              gg_producer *p, gg_error *err)
{
    uint64_t n = out->dims[out->n_dims - 1];
    gg_joint *joints = calloc((size_t)n + 1, sizeof *joints);
    size_t k = 0;
    gg_status st = joints ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the moves");
    for (uint64_t e = 0, end; e < n && st == GG_OK; e = end) {
        bool donor = gg_select_expert(m->select, e);
        end = donor && m->blend->mode ? e + 1 : run_end(m, e, n);
        joints[k].t = *out;
        st = make_share(m, move, (share){ e, end - e }, donor, &joints[k], err);
        k++;
    }
    gg_whole of[3] = { { m->base, move->base }, { m->donor, move->donor }, { NULL, 0 } };
    if (st == GG_OK && m->blend->mode == GG_BLEND_TASK) {
        of[2].source = m->blend->ancestor;
        st = find_ancestor(m, gg_source_tensor(m->donor, move->donor), &of[2].index, err);
    }
    if (st == GG_OK) st = gg_compute_join(&m->list, joints, k, of, p, err);
    free(joints);
    return st;
}

/* Copies a stack, or the rows of a router, in runs of experts, from the donor if selected. */
static gg_status make_experts(gg_mover *m, const gg_move *move, const gg_tensor *out,
                              gg_moved_bytes *made, gg_error *err)
{
    uint64_t n = out->dims[out->n_dims - 1], size = out->bytes / n;
    bool hashed = gg_source_manifest(m->base) || gg_source_manifest(m->donor);
    if (move->kind == GG_MOVE_CONVERT || hashed) return join_experts(m, move, out, &made->p, err);
    size_t runs = 0;
    for (uint64_t e = 0; e < n; e = run_end(m, e, n)) runs++;
    gg_plan_part *parts = new_parts(m, runs, err);
    if (!parts) return err->status;
    for (uint64_t e = 0, end; e < n; e = end) {
        bool donor = gg_select_expert(m->select, e);
        end = run_end(m, e, n);
        uint64_t from = donor ? gg_select_donor_expert(m->select, e) : e;
        parts[made->n_parts++] = (gg_plan_part){ donor ? m->donor : m->base,
                                                 donor ? move->donor : move->base, from * size,
                                                 (end - e) * size, NULL };
    }
    made->parts = parts;
    return GG_OK;
}

gg_status gg_mover_bytes(gg_mover *m, const gg_move *move, gg_tensor *out, gg_moved_bytes *made,
                         gg_error *err)
{
    const gg_tensor *d = gg_source_tensor(m->donor, move->donor);
    *made = (gg_moved_bytes){ 0 };
    *out = move->base == SIZE_MAX ? *d : *gg_source_tensor(m->base, move->base);
    out->name = move->name;
    out->name_len = move->name_len;
    if (move->experts) return make_experts(m, move, out, made, err);
    if (m->blend->mode && move->kind != GG_MOVE_ADD)
        return make_blend(m, move, (share){ 0 }, out, &made->p, err);
    gg_plan_part *part = new_parts(m, 1, err);
    if (!part) return err->status;
    *part = whole(m->donor, move->donor);
    if (move->kind == GG_MOVE_CONVERT) {
        gg_input in = input(part);
        return gg_compute_convert(&m->list, out, &in, &made->p, err);
    }
    out->dtype = d->dtype;
    out->bytes = d->bytes;
    made->parts = part;
    made->n_parts = 1;
    return GG_OK;
}

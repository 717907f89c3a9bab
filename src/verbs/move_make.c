/* move_make.c - copy, convert or blend: decided per move. */
#include "move_make.h"

#include <stdlib.h>

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

gg_status gg_move_maker_start(gg_move_maker *m, gg_source *base, gg_source *donor, gg_source *ancestor,
                              const char *blend, size_t n_moves, gg_error *err)
{
    *m = (gg_move_maker){ .base = base, .donor = donor, .ancestor = ancestor, .blends = blend != NULL };
    m->cap_inputs = 3 * n_moves; /* base, donor and ancestor of each: never moved while in use */
    m->inputs = calloc(m->cap_inputs ? m->cap_inputs : 1, sizeof *m->inputs);
    if (!m->inputs) return gg_fail(err, GG_ENOMEM, "no memory for %zu moves", n_moves);
    if (!blend) return GG_OK;
    m->blocks = block_count(base);
    gg_status st = gg_blend_parse(blend, &m->blend, err);
    if (st == GG_OK && m->blend.mode == GG_BLEND_TASK && !ancestor)
        st = gg_fail(err, GG_EUSAGE, "--blend task needs --ancestor, the model that base and donor come from");
    return st;
}

void gg_move_maker_end(gg_move_maker *m)
{
    gg_transforms_free(&m->list);
    free(m->inputs);
    *m = (gg_move_maker){ 0 };
}

static gg_input input(gg_move_maker *m, gg_source *s, size_t index)
{
    const gg_tensor *t = gg_source_tensor(s, index);
    gg_plan_part *part = &m->inputs[m->n_inputs++];
    *part = (gg_plan_part){ s, index, 0, t->bytes, NULL };
    return (gg_input){ t->dtype, part, 1 };
}

static gg_status make_blend(gg_move_maker *m, const gg_move *move, const gg_tensor *out, gg_producer *p, gg_error *err)
{
    gg_input a = input(m, m->base, move->base), b = input(m, m->donor, move->donor), c = { 0 };
    if (m->blend.mode == GG_BLEND_TASK) {
        const gg_tensor *d = gg_source_tensor(m->donor, move->donor);
        size_t i = gg_source_find(m->ancestor, d->name, d->name_len);
        if (i == SIZE_MAX) {
            gg_fail(err, GG_NO, "the ancestor has no such tensor");
            gg_at_tensor(err, d->name, d->name_len);
            return gg_at_file(err, gg_source_name(m->ancestor));
        }
        c = input(m, m->ancestor, i);
    }
    double t = gg_blend_t(&m->blend, move->name, move->name_len, m->blocks);
    return gg_transform_blend(&m->list, out, m->blend.mode, t, &a, &b, c.parts ? &c : NULL, p, err);
}

gg_status gg_move_make(gg_move_maker *m, const gg_move *move, gg_tensor *out, gg_plan_part *part,
                       gg_producer *p, gg_error *err)
{
    const gg_tensor *d = gg_source_tensor(m->donor, move->donor);
    *p = (gg_producer){ 0 };
    *out = move->base == SIZE_MAX ? *d : *gg_source_tensor(m->base, move->base);
    out->name = move->name;
    out->name_len = move->name_len;
    if (m->blends && move->kind != GG_MOVE_ADD) return make_blend(m, move, out, p, err);
    if (move->kind == GG_MOVE_CONVERT) {
        gg_input in = input(m, m->donor, move->donor);
        return gg_transform_convert(&m->list, out, &in, p, err);
    }
    out->dtype = d->dtype;
    out->bytes = d->bytes;
    *part = (gg_plan_part){ m->donor, move->donor, 0, d->bytes, NULL };
    return GG_OK;
}

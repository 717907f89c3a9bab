/* pieces.c - tensors, or experts of stacked tensors, that a selection means. */
#include "pieces.h"

#include <string.h>

static gg_status whole(const gg_tensor *t, size_t i, const gg_select *select, gg_piece_fn fn, void *ctx, gg_error *err)
{
    gg_piece p = { .t = *t, .source = i };
    p.a = gg_anatomy_of(t->name, t->name_len);
    if (!gg_select_match(select, t->name, t->name_len, &p.a)) return GG_OK;
    memcpy(p.name, t->name, t->name_len + 1);
    p.t.name = p.name;
    return fn(ctx, &p, err);
}

/* An expert is selected by its own name or by that of its stack. */
static bool expert_selected(const gg_select *select, const gg_tensor *stack, const gg_piece *p, uint64_t expert)
{
    gg_anatomy a = gg_anatomy_of(stack->name, stack->name_len);
    return gg_select_expert(select, expert) &&
           (gg_select_match(select, p->t.name, p->t.name_len, &p->a) ||
            gg_select_match(select, stack->name, stack->name_len, &a));
}

gg_status gg_pieces_of(const gg_tensor *t, size_t i, const gg_select *select, bool split_experts,
                       gg_piece_fn fn, void *ctx, gg_error *err)
{
    uint64_t experts;
    bool split = (split_experts || gg_select_has_experts(select)) && gg_is_expert_stack(t, &experts);
    if (!split) return whole(t, i, select, fn, ctx, err);
    gg_status st = GG_OK;
    for (uint64_t e = 0; e < experts && st == GG_OK; e++) {
        gg_piece p = { .source = i, .expert = true };
        if (!gg_expert_tensor(t, e, &p.t, p.name)) return whole(t, i, select, fn, ctx, err);
        p.t.name = p.name;
        p.a = gg_anatomy_of(p.name, p.t.name_len);
        p.at = e * p.t.bytes;
        if (expert_selected(select, t, &p, e)) st = fn(ctx, &p, err);
    }
    return st;
}

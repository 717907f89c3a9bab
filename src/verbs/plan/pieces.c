/* pieces.c - tensors, or experts of stacked tensors, that a selection means. */
#include "pieces.h"

#include <stdlib.h>
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

typedef struct collector {
    gg_piece *list;
    size_t n, cap;
} collector;

static gg_status collect(void *ctx, const gg_piece *p, gg_error *err)
{
    collector *c = ctx;
    if (c->n == c->cap) {
        size_t cap = c->cap ? c->cap * 2 : 256;
        gg_piece *grown = realloc(c->list, cap * sizeof *grown);
        if (!grown) return gg_fail(err, GG_ENOMEM, "no memory for a list of %zu tensors", cap);
        c->list = grown;
        c->cap = cap;
    }
    c->list[c->n++] = *p;
    return GG_OK;
}

gg_status gg_pieces_all(const gg_source *s, const gg_select *select, bool split_experts,
                        gg_piece **out, size_t *n, gg_error *err)
{
    collector c = { 0 };
    gg_status st = GG_OK;
    for (size_t i = 0; i < gg_source_count(s) && st == GG_OK; i++)
        st = gg_pieces_of(gg_source_tensor(s, i), i, select, split_experts, collect, &c, err);
    if (st != GG_OK) {
        free(c.list);
        return st;
    }
    for (size_t i = 0; i < c.n; i++) c.list[i].t.name = c.list[i].name; /* the list has moved while growing */
    *out = c.list;
    *n = c.n;
    return GG_OK;
}

/* selected_tensors.c - finds the tensors, or experts of stacked tensors, of a selection. */
#include "selected_tensors.h"
#include "base/text.h"

#include "organ/select.h"
#include "organ/tensor_names.h"

#include <string.h>

static gg_status visit_whole(const gg_source *s, size_t i, const gg_visit *v, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(s, i);
    gg_selected p = { .t = *t, .source = i };
    if (!gg_select_match(v->select, t->name, t->name_len, &t->a)) return GG_OK;
    gg_text_copy(p.name, sizeof p.name, t->name, t->name_len); /* sources have no longer names */
    p.t.name = p.name;
    return v->fn(v->ctx, &p, err);
}

gg_status gg_selected_of(const gg_source *s, size_t i, const gg_visit *v, gg_error *err)
{
    uint64_t experts;
    const gg_tensor *t = gg_source_tensor(s, i);
    bool split = (v->split_experts || gg_select_has_experts(v->select)) &&
                 gg_is_expert_stack(t, &experts);
    gg_selected last;
    /* The last expert has the longest name; if it fits a record, all names fit. */
    if (!split || !gg_expert_tensor(t, experts, experts - 1, &last.t, last.name))
        return visit_whole(s, i, v, err);
    gg_status st = GG_OK;
    for (uint64_t e = 0; e < experts && st == GG_OK; e++) {
        gg_selected p = { .source = i, .expert = true };
        /* The number is compared first, because it costs less than the name. */
        if (!gg_select_expert(v->select, e)) continue;
        if (!gg_expert_tensor(t, experts, e, &p.t, p.name)) continue;
        p.t.name = p.name;
        p.at = e * p.t.bytes;
        /* An expert is selected by its own name or by that of its stack. */
        if (gg_select_match(v->select, p.name, p.t.name_len, &p.t.a) ||
            gg_select_match(v->select, t->name, t->name_len, &t->a))
            st = v->fn(v->ctx, &p, err);
    }
    return st;
}

gg_status gg_selected_each(gg_source *s, const gg_visit *v, gg_error *err)
{
    bool more = true;
    gg_status st = GG_OK;
    for (size_t i = 0; st == GG_OK; i++) {
        st = gg_source_next(s, i, &more, err);
        if (st != GG_OK || !more) break;
        st = gg_selected_of(s, i, v, err);
    }
    return st;
}

uint64_t gg_selected_bytes(const gg_source *s, const gg_select *select)
{
    uint64_t total = 0;
    for (size_t i = 0; i < gg_source_count(s); i++) {
        const gg_tensor *t = gg_source_tensor(s, i);
        if (gg_select_match(select, t->name, t->name_len, &t->a)) total += t->bytes;
    }
    return total;
}

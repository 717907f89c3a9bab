/* stacks.c - puts single experts back into stacks. The name of an expert determines its
 * stack:
 * blk.N.ffn_gate.E.weight to blk.N.ffn_gate_exps.weight of the manifest's layout. */
#include "stacks.h"

#include "base/error.h"
#include "base/grow.h"
#include "organ/manifest.h"
#include "organ/record.h"
#include "organ/tensor_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct stack {
    size_t first, *entries; /* entries, sorted by expert number */
    uint64_t *experts;
    size_t n;
} stack;

struct gg_stacks {
    const gg_manifest *m;
    stack *list;
    size_t *of; /* per entry */
};

void gg_stacks_free(gg_stacks *s)
{
    if (!s) return;
    for (size_t k = 0; s->list && k < s->m->n_stacks; k++) {
        free(s->list[k].entries);
        free(s->list[k].experts);
    }
    free(s->list);
    free(s->of);
    free(s);
}

/* Whether `name` is the name of expert E of the stack. */
static bool is_expert(const gg_tensor *of, const gg_entry *e)
{
    char name[GG_RECORD_NAME + 1];
    size_t len;
    return e->a.expert >= 0 &&
           gg_expert_name(of->name, of->name_len, (uint64_t)e->a.expert, name, sizeof name, &len) &&
           len == e->t.name_len && memcmp(name, e->t.name, len) == 0;
}

/* Compares stacks by name, then by position. */
static int order(const void *a, const void *b)
{
    const gg_stack *x = *(const gg_stack *const *)a, *y = *(const gg_stack *const *)b;
    int c = strcmp(x->t.name, y->t.name);
    return c ? c : x < y ? -1 : x > y;
}

/* The stack to which an expert belongs, or SIZE_MAX. Uses a binary search, because a manifest
 * may have any number of stacks. */
static size_t stack_of(const gg_manifest *m, const gg_stack *const *sorted, const gg_entry *e)
{
    char name[GG_RECORD_NAME + 8];
    size_t lo = 0, hi = m->n_stacks, len;
    if (!gg_stack_name(e->t.name, e->t.name_len, name, sizeof name, &len)) return SIZE_MAX;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (strcmp(sorted[mid]->t.name, name) < 0) lo = mid + 1;
        else hi = mid;
    }
    return lo < m->n_stacks && is_expert(&sorted[lo]->t, e) ? (size_t)(sorted[lo] - m->stacks)
                                                            : SIZE_MAX;
}

/* The dtype is that of the present experts, which may have been re-encoded. */
static gg_status fits(const gg_stacks *s, size_t k, const gg_entry *e, gg_error *err)
{
    const gg_tensor *of = &s->m->stacks[k].t;
    uint32_t dtype = s->list[k].n ? s->m->entries[s->list[k].first].t.dtype : e->t.dtype;
    bool ok = of->n_dims >= 2 && e->t.n_dims == of->n_dims - 1 && e->t.dtype == dtype;
    for (uint32_t d = 0; ok && d < e->t.n_dims; d++) ok = e->t.dims[d] == of->dims[d];
    if (ok) return GG_OK;
    gg_fail(err, GG_EFORMAT, "its dims or dtype differ from those of the other experts");
    return gg_at_tensor(err, e->t.name, e->t.name_len);
}

static gg_status put(gg_stacks *s, size_t k, size_t entry, gg_error *err)
{
    stack *st = &s->list[k];
    size_t *entries = gg_grow_pow2(st->entries, st->n, sizeof *entries, err);
    if (!entries) return GG_ENOMEM;
    st->entries = entries;
    if (st->n == 0) st->first = entry;
    st->entries[st->n++] = entry;
    return GG_OK;
}

typedef struct numbered {
    uint64_t expert;
    size_t entry;
} numbered;

static int by_number(const void *a, const void *b)
{
    const numbered *x = a, *y = b;
    return x->expert < y->expert ? -1 : x->expert > y->expert;
}

/* The entries of a stack, sorted by expert number. */
static gg_status sort_experts(const gg_manifest *m, stack *st, gg_error *err)
{
    numbered *list = calloc(st->n ? st->n : 1, sizeof *list);
    st->experts = calloc(st->n ? st->n : 1, sizeof *st->experts);
    if (!list || !st->experts) {
        free(list);
        return gg_fail(err, GG_ENOMEM, "no memory for experts");
    }
    for (size_t i = 0; i < st->n; i++)
        list[i] = (numbered){ (uint64_t)m->entries[st->entries[i]].a.expert, st->entries[i] };
    qsort(list, st->n, sizeof *list, by_number);
    for (size_t i = 0; i < st->n; i++) {
        st->entries[i] = list[i].entry;
        st->experts[i] = list[i].expert;
    }
    free(list);
    return GG_OK;
}

gg_status gg_stacks_new(const gg_manifest *m, gg_stacks **out, gg_error *err)
{
    gg_stacks *s = calloc(1, sizeof *s);
    if (!s) return gg_fail(err, GG_ENOMEM, "no memory for experts");
    s->m = m;
    s->list = calloc(m->n_stacks ? m->n_stacks : 1, sizeof *s->list);
    s->of = malloc((m->n_entries ? m->n_entries : 1) * sizeof *s->of);
    const gg_stack **sorted = calloc(m->n_stacks ? m->n_stacks : 1, sizeof *sorted);
    gg_status st = s->list && s->of && sorted ? GG_OK
                                              : gg_fail(err, GG_ENOMEM, "no memory for experts");
    for (size_t k = 0; sorted && k < m->n_stacks; k++) sorted[k] = &m->stacks[k];
    if (sorted) qsort(sorted, m->n_stacks, sizeof *sorted, order);
    for (size_t i = 0; i < m->n_entries && st == GG_OK; i++) {
        s->of[i] = stack_of(m, sorted, &m->entries[i]);
        if (s->of[i] == SIZE_MAX) continue;
        st = fits(s, s->of[i], &m->entries[i], err);
        if (st == GG_OK) st = put(s, s->of[i], i, err);
    }
    free(sorted);
    for (size_t k = 0; k < m->n_stacks && st == GG_OK; k++)
        st = s->list[k].n ? sort_experts(m, &s->list[k], err) : GG_OK;
    if (st != GG_OK) {
        gg_stacks_free(s);
        return st;
    }
    *out = s;
    return GG_OK;
}

size_t gg_stacks_of(const gg_stacks *s, size_t entry)
{
    return s->of[entry];
}

size_t gg_stacks_first(const gg_stacks *s, size_t k)
{
    return s->list[k].first;
}

const uint64_t *gg_stacks_experts(const gg_stacks *s, size_t k, size_t *n)
{
    *n = s->list[k].n;
    return s->list[k].experts;
}

gg_status gg_stacks_add(const gg_stacks *s, size_t k, gg_source *dir, gg_plan *p, gg_error *err)
{
    const stack *st = &s->list[k];
    gg_tensor t = s->m->stacks[k].t;
    t.dims[t.n_dims - 1] = st->n;
    t.dtype = s->m->entries[st->first].t.dtype;
    gg_plan_tensor *pt;
    gg_status status = gg_tensor_extent(t.dtype, t.n_dims, t.dims, &t.elements, &t.bytes, err);
    if (status == GG_OK) status = gg_plan_add(p, &t, &pt, err);
    for (size_t i = 0; i < st->n && status == GG_OK; i++) {
        const gg_entry *e = &s->m->entries[st->entries[i]];
        gg_plan_part part = { dir, st->entries[i], 0, e->t.bytes, e->sha256 };
        status = gg_plan_add_part(pt, &part, err);
    }
    return status;
}

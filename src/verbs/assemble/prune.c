/* prune.c - finds the experts that are left, and removes the others from all tensors. */
#include "prune.h"

#include "base/error.h"
#include "gguf/gguf.h"
#include "organ/manifest.h"
#include "organ/tensor_names.h"
#include "verbs/shared/hashcopy.h"
#include "verbs/shared/verb_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A stack, or another tensor, and the length of the beginning of its name that identifies its
 * block: "blk.N." with its prefix; 0 = it is in no block. */
typedef struct in_block {
    const gg_tensor *t;
    size_t prefix, stack; /* index of the stack */
} in_block;

struct gg_prune {
    const gg_manifest *m;
    const gg_stacks *stacks;
    uint64_t was, left; /* experts per block */
    size_t *stack_of;   /* per entry: a stack of its block; SIZE_MAX = not cut */
    in_block *by_block; /* stacks, sorted by block, otherwise in their order */
    size_t *first;      /* per stack: the first stack of its block */
    bool *alive;        /* per first stack: some experts of the block are left */
};

/* ---- which experts are left ----------------------------------------------------------- */

static in_block block_of(const gg_tensor *t, size_t stack)
{
    gg_anatomy a = gg_anatomy_of(t->name, t->name_len);
    return (in_block){ t, a.block < 0 ? 0 : a.role_at, stack };
}

static int order_block(const in_block *a, const in_block *b)
{
    size_t x = a->prefix, y = b->prefix, n = x < y ? x : y;
    int c = n ? memcmp(a->t->name, b->t->name, n) : 0;
    return c ? c : x < y ? -1 : x > y;
}

static int order_stacks(const void *a, const void *b)
{
    const in_block *x = a, *y = b;
    int c = order_block(x, y);
    return c ? c : x->stack < y->stack ? -1 : x->stack > y->stack;
}

static uint64_t experts_of(const gg_stack *k)
{
    return k->t.dims[k->t.n_dims ? k->t.n_dims - 1 : 0];
}

static bool whole(const gg_manifest *m, const gg_stacks *s, size_t k)
{
    size_t n;
    const uint64_t *e = gg_stacks_experts(s, k, &n);
    return n == experts_of(&m->stacks[k]) && (n == 0 || e[n - 1] == n - 1);
}

static gg_status fail_at(const gg_tensor *t, gg_error *err)
{
    return gg_at_tensor(err, t->name, t->name_len);
}

/* The first expert that only one of two ascending lists has. */
static uint64_t odd_one(const uint64_t *a, size_t an, const uint64_t *b, size_t bn)
{
    size_t i = 0;
    while (i < an && i < bn && a[i] == b[i]) i++;
    if (i == an || i == bn) return i < an ? a[i] : b[i];
    return a[i] < b[i] ? a[i] : b[i];
}

/* No expert of any stack of the block is left, so the block was removed completely. */
static bool block_is_gone(const gg_prune *p, size_t k)
{
    return !p->alive[p->first[k]];
}

/* Groups the stacks by block. They are sorted once, because a manifest may have any number. */
static gg_status group(gg_prune *p, gg_error *err)
{
    size_t n = p->m->n_stacks;
    p->by_block = calloc(n, sizeof *p->by_block);
    p->first = calloc(n, sizeof *p->first);
    p->alive = calloc(n, sizeof *p->alive);
    if (!p->by_block || !p->first || !p->alive)
        return gg_fail(err, GG_ENOMEM, "no memory for experts");
    for (size_t k = 0; k < n; k++) p->by_block[k] = block_of(&p->m->stacks[k].t, k);
    qsort(p->by_block, n, sizeof *p->by_block, order_stacks);
    for (size_t i = 0; i < n; i++) {
        const in_block *b = &p->by_block[i];
        size_t k = b->stack, left;
        bool same = i > 0 && b->prefix > 0 && order_block(b - 1, b) == 0;
        p->first[k] = same ? p->first[b[-1].stack] : k;
        gg_stacks_experts(p->stacks, k, &left);
        if (left > 0) p->alive[p->first[k]] = true;
    }
    return GG_OK;
}

/* Compares stack k with the count and with the first stack of its block. */
static gg_status check_stack(gg_prune *p, size_t k, gg_error *err)
{
    const gg_tensor *t = &p->m->stacks[k].t;
    size_t n, fn;
    const uint64_t *e = gg_stacks_experts(p->stacks, k, &n), *fe;
    if (n == 0 && block_is_gone(p, k)) return GG_OK;
    if (experts_of(&p->m->stacks[k]) != p->was) {
        gg_fail(err, GG_EFORMAT, "its stack had %llu experts, but those of other blocks had %llu",
                (unsigned long long)experts_of(&p->m->stacks[k]), (unsigned long long)p->was);
        return fail_at(t, err);
    }
    if (n > 0 && e[n - 1] >= p->was) {
        gg_fail(err, GG_EFORMAT, "its stack never had an expert %llu",
                (unsigned long long)e[n - 1]);
        return fail_at(t, err);
    }
    size_t f = p->first[k];
    fe = gg_stacks_experts(p->stacks, f, &fn);
    if (fn != n || (n > 0 && memcmp(fe, e, n * sizeof *e) != 0)) {
        gg_fail(err, GG_EFORMAT,
                "it and %.*s do not keep the same experts: only one has expert %llu",
                (int)p->m->stacks[f].t.name_len, p->m->stacks[f].t.name,
                (unsigned long long)odd_one(e, n, fe, fn));
        gg_fix(err, "remove each expert from gate, up and down");
        return fail_at(t, err);
    }
    if (n == p->left) return GG_OK;
    gg_fail(err, GG_EFORMAT, "it has %zu experts left, but other blocks have %llu", n,
            (unsigned long long)p->left);
    gg_fix(err, "leave the same number of experts in every block: a model has one expert_count");
    return fail_at(t, err);
}

/* ---- tensors per expert ----------------------------------------------------------------- */

/* Whether the role contains this stem, at its end or before a dot. */
static bool role_has(const gg_tensor *t, const gg_anatomy *a, const char *stem)
{
    const char *role = t->name + a->role_at;
    size_t n = strlen(stem);
    for (size_t i = 0; i + n <= a->role_len; i++)
        if (memcmp(role + i, stem, n) == 0 && (i + n == a->role_len || role[i + n] == '.'))
            return true;
    return false;
}

static bool role_begins(const gg_tensor *t, const gg_anatomy *a, const char *text)
{
    size_t n = strlen(text);
    return a->role_len >= n && memcmp(t->name + a->role_at, text, n) == 0;
}

bool gg_counts_experts(const gg_tensor *t, const gg_anatomy *a)
{
    if (a->block < 0) return false;
    if (gg_is_router(t->name, a)) return true;
    return role_begins(t, a, "ffn_") && !role_begins(t, a, "ffn_norm") && role_has(t, a, "_exps");
}

gg_status gg_refuse_fixed_experts(const gg_tensor *t, const gg_anatomy *a, gg_error *err)
{
    static const char tid2eid[] = "ffn_gate_tid2eid";
    if (a->block < 0) return GG_OK;
    if (a->role_len == sizeof tid2eid - 1 && role_begins(t, a, tid2eid))
        gg_fail(err, GG_EUNSUPPORTED,
                "its values are expert numbers, so no experts can be removed from this model");
    else if (role_has(t, a, "_chexps"))
        gg_fail(err, GG_EUNSUPPORTED,
                "its experts belong to groups, so no experts can be removed from this model");
    else return GG_OK;
    return fail_at(t, err);
}

static size_t stack_of_block(const gg_prune *p, const gg_tensor *t)
{
    in_block wanted = block_of(t, 0);
    size_t lo = 0, hi = p->m->n_stacks;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (order_block(&p->by_block[mid], &wanted) < 0) lo = mid + 1;
        else hi = mid;
    }
    bool found = lo < p->m->n_stacks && wanted.prefix > 0 &&
                 order_block(&p->by_block[lo], &wanted) == 0;
    return found ? p->by_block[lo].stack : SIZE_MAX;
}

/* The dimension with one entry per expert, which is the last. */
static uint32_t experts_dim(const gg_tensor *t)
{
    return t->n_dims ? t->n_dims - 1 : 0;
}

static gg_status check_entry(gg_prune *p, size_t i, gg_error *err)
{
    const gg_entry *e = &p->m->entries[i];
    p->stack_of[i] = SIZE_MAX;
    if (gg_stacks_of(p->stacks, i) != SIZE_MAX) return GG_OK;
    gg_status st = gg_refuse_fixed_experts(&e->t, &e->a, err);
    if (st != GG_OK) return st;
    if (!gg_counts_experts(&e->t, &e->a)) return GG_OK;
    size_t k = stack_of_block(p, &e->t);
    uint64_t n = e->t.dims[experts_dim(&e->t)];
    if (k == SIZE_MAX) {
        gg_fail(
            err, GG_EFORMAT,
            "the experts of its block were not split, but experts of other blocks were removed");
        gg_fix_hint(err, GG_HINT_SPLIT_EXPERTS, "extract the whole model with single experts");
        return fail_at(&e->t, err);
    }
    if (block_is_gone(p, k)) {
        gg_fail(err, GG_EFORMAT, "all experts of its block were removed");
        gg_fix(err,
               "leave the same number of experts in every block: a model has one expert_count");
        return fail_at(&e->t, err);
    }
    if (n != p->was || e->t.bytes % n != 0) {
        gg_fail(err, GG_EFORMAT, "it is for %llu experts, but the stacks of its block are for %llu",
                (unsigned long long)n, (unsigned long long)p->was);
        return fail_at(&e->t, err);
    }
    p->stack_of[i] = k;
    return GG_OK;
}

/* ---- keys --------------------------------------------------------------------------------- */

/* The largest number in an array with one number per block. */
static bool largest(const gg_kv *kv, uint64_t *value)
{
    size_t size = kv->type == GG_TYPE_ARR ? gg_type_size(kv->elem_type) : 0;
    for (uint64_t i = 0; size && i < kv->count; i++) {
        gg_kv one = {
            .type = kv->elem_type, .count = 1, .data = kv->data + i * size, .size = size
        };
        uint64_t v;
        if (!gg_kv_u64(&one, &v)) return false;
        if (v > *value) *value = v;
    }
    return size > 0;
}

gg_status gg_expert_number(const gg_meta *meta, const char *tail, uint64_t *value, gg_error *err)
{
    char key[160];
    *value = 0;
    const gg_kv *kv = gg_arch_key(meta, tail, key, sizeof key) ? gg_meta_find(meta, key) : NULL;
    if (!kv || gg_kv_u64(kv, value) || largest(kv, value)) return GG_OK;
    return gg_fail(err, GG_EFORMAT, "its %s is not a number, so no experts can be removed", tail);
}

gg_status gg_check_expert_keys(const gg_meta *meta, uint64_t was, uint64_t left, const gg_run *run,
                               gg_error *err)
{
    uint64_t count, used, groups;
    gg_status st = gg_expert_number(meta, "expert_count", &count, err);
    if (st == GG_OK) st = gg_expert_number(meta, "expert_used_count", &used, err);
    if (st == GG_OK) st = gg_expert_number(meta, "expert_group_count", &groups, err);
    if (st != GG_OK) return st;
    if (count && count != was && count != left)
        return gg_fail(err, GG_EFORMAT,
                       "its expert_count is %llu, but the stacks had %llu experts and keep %llu",
                       (unsigned long long)count, (unsigned long long)was,
                       (unsigned long long)left);
    if (left < used) {
        gg_fail(err, GG_EFORMAT,
                "a block keeps %llu experts, but %llu are used at a time (expert_used_count)",
                (unsigned long long)left, (unsigned long long)used);
        return gg_fix(err, "leave more experts, or lower expert_used_count in " GG_MANIFEST);
    }
    if (groups > 1 && left % groups != 0) {
        gg_fail(err, GG_EFORMAT,
                "%llu experts per block cannot be divided into %llu groups (expert_group_count)",
                (unsigned long long)left, (unsigned long long)groups);
        return gg_fix(err, "leave the same number of experts in every group");
    }
    if (groups > 1)
        gg_note(run,
                "experts are grouped by their new numbers: leave the same number in each of the "
                "%llu groups",
                (unsigned long long)groups);
    gg_note(run, "%llu of %llu experts per block are left", (unsigned long long)left,
            (unsigned long long)was);
    return GG_OK;
}

gg_status gg_prune_keys(const gg_prune *p, gg_meta *meta, gg_error *err)
{
    char key[160];
    if (!p || !gg_arch_key(meta, "expert_count", key, sizeof key)) return GG_OK;
    return gg_meta_set_u32(meta, key, (uint32_t)p->left, err);
}

/* ---- pruning -------------------------------------------------------------------------------- */

static gg_status check(gg_prune *p, size_t first, const gg_run *run, gg_error *err)
{
    size_t n;
    gg_stacks_experts(p->stacks, first, &n);
    p->left = n;
    p->was = experts_of(&p->m->stacks[first]);
    gg_status st = group(p, err);
    for (size_t k = 0; k < p->m->n_stacks && st == GG_OK; k++) st = check_stack(p, k, err);
    for (size_t i = 0; i < p->m->n_entries && st == GG_OK; i++) st = check_entry(p, i, err);
    return st == GG_OK ? gg_check_expert_keys(&p->m->meta, p->was, p->left, run, err) : st;
}

/* If every block has lost all its experts or none, nothing is cut. But then a router, or a
 * stack without the others of its block, must not be left. */
static gg_status check_gone(gg_prune *p, gg_error *err)
{
    size_t n;
    gg_status st = group(p, err);
    for (size_t k = 0; k < p->m->n_stacks && st == GG_OK; k++) {
        const gg_tensor *t = &p->m->stacks[k].t;
        gg_stacks_experts(p->stacks, k, &n);
        if (n > 0 || block_is_gone(p, k)) continue;
        gg_fail(err, GG_EFORMAT,
                "all its experts were removed, but other stacks of its block have theirs");
        gg_fix(err, "remove each expert from gate, up and down");
        st = fail_at(t, err);
    }
    for (size_t i = 0; i < p->m->n_entries && st == GG_OK; i++) {
        const gg_entry *e = &p->m->entries[i];
        size_t k = gg_stacks_of(p->stacks, i) == SIZE_MAX && gg_counts_experts(&e->t, &e->a)
                       ? stack_of_block(p, &e->t)
                       : SIZE_MAX;
        if (k == SIZE_MAX || !block_is_gone(p, k)) continue;
        gg_fail(err, GG_EFORMAT, "all experts of its block were removed");
        gg_fix(err, "remove its entry too, or keep experts");
        st = fail_at(&e->t, err);
    }
    return st;
}

/* Finds the first stack that lost some but not all experts; n_stacks if none did. *gone is
 * true if a stack lost all of them. */
static size_t first_cut(const gg_manifest *m, const gg_stacks *stacks, bool *gone)
{
    size_t first = 0, n = 0;
    *gone = false;
    for (; first < m->n_stacks; first++) {
        gg_stacks_experts(stacks, first, &n);
        if (n > 0 && !whole(m, stacks, first)) break;
        *gone = *gone || n == 0;
    }
    return first;
}

gg_status gg_prune_new(const gg_manifest *m, const gg_stacks *stacks, gg_prune **out,
                       const gg_run *run, gg_error *err)
{
    *out = NULL;
    bool gone;
    size_t first = first_cut(m, stacks, &gone);
    if (first == m->n_stacks && !gone) return GG_OK;
    gg_prune *p = calloc(1, sizeof *p);
    if (p) p->stack_of = calloc(m->n_entries ? m->n_entries : 1, sizeof *p->stack_of);
    gg_status st = p && p->stack_of ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for experts");
    if (st == GG_OK) {
        p->m = m;
        p->stacks = stacks;
        st = first < m->n_stacks ? check(p, first, run, err) : check_gone(p, err);
    }
    if (st != GG_OK || first == m->n_stacks) {
        gg_prune_free(p);
        return st;
    }
    *out = p;
    return GG_OK;
}

void gg_prune_free(gg_prune *p)
{
    if (!p) return;
    free(p->stack_of);
    free(p->by_block);
    free(p->first);
    free(p->alive);
    free(p);
}

bool gg_prune_cuts(const gg_prune *p, size_t entry)
{
    return p && p->stack_of[entry] != SIZE_MAX;
}

gg_status gg_prune_add(const gg_prune *p, size_t entry, gg_source *dir, gg_plan *plan,
                       gg_error *err)
{
    const gg_entry *e = &p->m->entries[entry];
    size_t n;
    const uint64_t *experts = gg_stacks_experts(p->stacks, p->stack_of[entry], &n);
    gg_tensor t = e->t;
    uint64_t step = t.bytes / p->was; /* an expert's share: a row, an element, a matrix */
    t.dims[experts_dim(&t)] = p->left;
    gg_plan_tensor *pt;
    gg_status st = plan->verify ? gg_verify_data(dir, entry, err) : GG_OK;
    if (st == GG_OK) st = gg_tensor_extent(t.dtype, t.n_dims, t.dims, &t.elements, &t.bytes, err);
    if (st == GG_OK && t.bytes != step * p->left)
        st = gg_fail(err, GG_EFORMAT, "single elements of its dtype cannot be removed");
    if (st != GG_OK) return fail_at(&e->t, err);
    st = gg_plan_add(plan, &t, &pt, err);
    for (size_t i = 0; i < n && st == GG_OK;) {
        size_t end = i + 1; /* consecutive experts form one part */
        while (end < n && experts[end] == experts[end - 1] + 1) end++;
        gg_plan_part part = { dir, entry, experts[i] * step, (end - i) * step, NULL };
        st = gg_plan_add_part(pt, &part, err);
        i = end;
    }
    return st;
}

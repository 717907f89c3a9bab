/* assemble_experts.c - puts single experts back into stacks, and removes experts from a model. */
#include "assemble_experts.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/lines.h"
#include "base/parallel.h"
#include "gguf/gguf.h"
#include "organ/manifest.h"
#include "organ/record.h"
#include "organ/select.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "quant/quant.h"
#include "verbs/shared/column_weights.h"
#include "verbs/shared/copy.h"
#include "verbs/shared/verb_run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static gg_status fail_at(const gg_tensor *t, gg_error *err)
{
    return gg_at_tensor(err, t->name, t->name_len);
}

static int by_u64(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* ---- tensors with one entry per expert ---------------------------------------------- */

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

/* Whether the tensor has one row, value or matrix per expert along its last dimension: stacks,
 * their biases, and the router with its biases. */
static bool counts_experts(const gg_tensor *t, const gg_anatomy *a)
{
    if (a->block < 0) return false;
    if (gg_is_router(t->name, a)) return true;
    return role_begins(t, a, "ffn_") && !role_begins(t, a, "ffn_norm") && role_has(t, a, "_exps");
}

/* GG_EUNSUPPORTED for a tensor with which a model cannot lose experts. */
static gg_status refuse_fixed_experts(const gg_tensor *t, const gg_anatomy *a, gg_error *err)
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

/* The dimension with one entry per expert, which is the last. */
static uint32_t experts_dim(const gg_tensor *t)
{
    return t->n_dims ? t->n_dims - 1 : 0;
}

/* Adds bytes [at, at + n) of the concatenated old parts. */
static gg_status add_slice(gg_plan_tensor *pt, const gg_plan_tensor *old, uint64_t at, uint64_t n,
                           gg_error *err)
{
    gg_status st = GG_OK;
    uint64_t start = 0;
    for (size_t i = 0; i < old->n_parts && n > 0 && st == GG_OK; i++) {
        gg_plan_part part = old->parts[i];
        uint64_t end = start + part.bytes;
        if (at < end) {
            uint64_t skip = at - start, take = end - at < n ? end - at : n;
            if (take < part.bytes) part.sha256 = NULL;
            part.at += skip;
            part.bytes = take;
            st = gg_plan_add_part(pt, &part, err);
            at += take;
            n -= take;
        }
        start = end;
    }
    return st;
}

/* Keeps n of the `was` experts of a planned tensor: those in the ascending list. With `verify`,
 * data with a known sha256 are read and compared first. */
static gg_status cut_experts(gg_plan_tensor *pt, uint64_t was, const uint64_t *kept, size_t n,
                             bool verify, gg_error *err)
{
    gg_plan_tensor old = *pt;
    gg_tensor *t = &pt->t;
    uint64_t step = t->bytes / was; /* an expert's share: a row, an element, a matrix */
    gg_status st = GG_OK;
    for (size_t i = 0; i < pt->n_parts && verify && st == GG_OK; i++)
        if (pt->parts[i].sha256 && pt->parts[i].sha256[0])
            st = gg_verify_data(pt->parts[i].source, pt->parts[i].index, err);
    t->dims[experts_dim(t)] = n;
    if (st == GG_OK)
        st = gg_tensor_extent(t->dtype, t->n_dims, t->dims, &t->elements, &t->bytes, err);
    if (st == GG_OK && t->bytes != step * n)
        st = gg_fail(err, GG_EFORMAT, "single elements of its dtype cannot be removed");
    if (st != GG_OK) return fail_at(t, err);
    pt->parts = NULL;
    pt->n_parts = 0;
    for (size_t i = 0; i < n && st == GG_OK;) {
        size_t end = i + 1; /* consecutive experts form one part */
        while (end < n && kept[end] == kept[end - 1] + 1) end++;
        st = add_slice(pt, &old, kept[i] * step, (end - i) * step, err);
        i = end;
    }
    free(old.parts);
    return st;
}

/* ---- keys ------------------------------------------------------------------------------ */

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

/* The number in <arch>.TAIL, or the largest if each block has its own; 0 if there is none.
 * GG_EFORMAT if the value is not a number. */
static gg_status expert_number(const gg_meta *meta, const char *tail, uint64_t *value,
                               gg_error *err)
{
    char key[160];
    *value = 0;
    const gg_kv *kv = gg_arch_key(meta, tail, key, sizeof key) ? gg_meta_find(meta, key) : NULL;
    if (!kv || gg_kv_u64(kv, value) || largest(kv, value)) return GG_OK;
    return gg_fail(err, GG_EFORMAT, "its %s is not a number, so no experts can be removed", tail);
}

/* Checks that expert_count, expert_used_count and expert_group_count allow `left` of `was` experts
 * per block. GG_EFORMAT if not. */
static gg_status check_expert_keys(const gg_meta *meta, uint64_t was, uint64_t left,
                                   const gg_run *run, gg_error *err)
{
    uint64_t count, used, groups;
    gg_status st = expert_number(meta, "expert_count", &count, err);
    if (st == GG_OK) st = expert_number(meta, "expert_used_count", &used, err);
    if (st == GG_OK) st = expert_number(meta, "expert_group_count", &groups, err);
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

gg_status gg_set_expert_count(gg_meta *meta, uint64_t count, gg_error *err)
{
    char key[160];
    if (!count || !gg_arch_key(meta, "expert_count", key, sizeof key)) return GG_OK;
    return gg_meta_set_u32(meta, key, (uint32_t)count, err);
}

/* ---- single experts of a directory ---------------------------------------------------- */

typedef struct present_expert {
    uint64_t expert;
    size_t entry; /* of the manifest */
} present_expert;

/* The present experts of a stack, ascending. */
typedef struct expert_list {
    size_t first; /* the first entry, which gives the stack its place */
    present_expert *list;
    uint64_t *experts; /* their numbers */
    size_t n;
} expert_list;

/* A stack, or another tensor, and the length of the beginning of its name that identifies its
 * block: "blk.N." with its prefix; 0 = it is in no block. */
typedef struct in_block {
    const gg_tensor *t;
    size_t prefix, stack; /* index of the stack */
} in_block;

typedef struct directory {
    gg_source *source;
    const gg_manifest *m;
    expert_list *stacks; /* as the manifest lists them */
    size_t *stack_of;    /* per entry: its stack; SIZE_MAX = it is not a single expert */
    uint64_t was, left;  /* experts per block, if some are missing */
    size_t *cut_like;    /* per entry: a stack of its block; SIZE_MAX = not cut */
    in_block *by_block;  /* stacks, sorted by block, otherwise in their order */
    size_t *first;       /* per stack: the first stack of its block */
    bool *alive;         /* per first stack: some experts of the block are left */
} directory;

static void close_directory(directory *d)
{
    for (size_t k = 0; d->stacks && k < d->m->n_stacks; k++) {
        free(d->stacks[k].list);
        free(d->stacks[k].experts);
    }
    free(d->stacks);
    free(d->stack_of);
    free(d->cut_like);
    free(d->by_block);
    free(d->first);
    free(d->alive);
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
static int by_stack_name(const void *a, const void *b)
{
    const gg_stack *x = *(const gg_stack *const *)a, *y = *(const gg_stack *const *)b;
    int c = strcmp(x->t.name, y->t.name);
    return c ? c : x < y ? -1 : x > y;
}

/* The stack to which an expert belongs, or SIZE_MAX. Uses a binary search, because a manifest
 * may have any number of stacks. */
static size_t find_stack(const gg_manifest *m, const gg_stack *const *sorted, const gg_entry *e)
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
static gg_status check_expert_shape(const directory *d, size_t k, const gg_entry *e, gg_error *err)
{
    const gg_tensor *of = &d->m->stacks[k].t;
    const expert_list *l = &d->stacks[k];
    uint32_t dtype = l->n ? d->m->entries[l->first].t.dtype : e->t.dtype;
    bool ok = of->n_dims >= 2 && e->t.n_dims == of->n_dims - 1 && e->t.dtype == dtype;
    for (uint32_t i = 0; ok && i < e->t.n_dims; i++) ok = e->t.dims[i] == of->dims[i];
    if (ok) return GG_OK;
    gg_fail(err, GG_EFORMAT, "its dims or dtype differ from those of the other experts");
    return fail_at(&e->t, err);
}

static gg_status list_expert(expert_list *l, const gg_manifest *m, size_t entry, gg_error *err)
{
    if (GG_ROOM(l->list, l->n, NULL, err) != GG_OK) return GG_ENOMEM;
    if (l->n == 0) l->first = entry;
    l->list[l->n++] = (present_expert){ (uint64_t)m->entries[entry].a.expert, entry };
    return GG_OK;
}

static int by_expert_number(const void *a, const void *b)
{
    const present_expert *x = a, *y = b;
    return x->expert < y->expert ? -1 : x->expert > y->expert;
}

static gg_status sort_experts(expert_list *l, gg_error *err)
{
    l->experts = calloc(l->n, sizeof *l->experts);
    if (!l->experts) return gg_fail(err, GG_ENOMEM, "no memory for experts");
    qsort(l->list, l->n, sizeof *l->list, by_expert_number);
    for (size_t i = 0; i < l->n; i++) l->experts[i] = l->list[i].expert;
    return GG_OK;
}

/* Finds the experts of each stack. */
static gg_status open_directory(directory *d, gg_error *err)
{
    const gg_manifest *m = d->m;
    d->stacks = calloc(m->n_stacks + 1, sizeof *d->stacks);
    d->stack_of = calloc(m->n_entries + 1, sizeof *d->stack_of);
    d->cut_like = calloc(m->n_entries + 1, sizeof *d->cut_like);
    const gg_stack **sorted = calloc(m->n_stacks + 1, sizeof *sorted);
    gg_status st = d->stacks && d->stack_of && d->cut_like && sorted
                       ? GG_OK
                       : gg_fail(err, GG_ENOMEM, "no memory for experts");
    for (size_t k = 0; sorted && k < m->n_stacks; k++) sorted[k] = &m->stacks[k];
    if (sorted) qsort(sorted, m->n_stacks, sizeof *sorted, by_stack_name);
    for (size_t i = 0; i < m->n_entries && st == GG_OK; i++) {
        size_t k = d->stack_of[i] = find_stack(m, sorted, &m->entries[i]);
        d->cut_like[i] = SIZE_MAX;
        if (k == SIZE_MAX) continue;
        st = check_expert_shape(d, k, &m->entries[i], err);
        if (st == GG_OK) st = list_expert(&d->stacks[k], m, i, err);
    }
    free(sorted);
    for (size_t k = 0; k < m->n_stacks && st == GG_OK; k++)
        if (d->stacks[k].n) st = sort_experts(&d->stacks[k], err);
    return st;
}

/* ---- which experts are left ----------------------------------------------------------- */

static in_block block_of(const gg_tensor *t, size_t index)
{
    gg_anatomy a = gg_anatomy_of(t->name, t->name_len);
    return (in_block){ t, a.block < 0 ? 0 : a.role_at, index };
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

static bool is_whole(const directory *d, size_t k)
{
    const expert_list *l = &d->stacks[k];
    return l->n == experts_of(&d->m->stacks[k]) && (l->n == 0 || l->experts[l->n - 1] == l->n - 1);
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
static bool block_is_gone(const directory *d, size_t k)
{
    return !d->alive[d->first[k]];
}

/* Groups the stacks by block. They are sorted once, because a manifest may have any number. */
static gg_status group_stacks(directory *d, gg_error *err)
{
    size_t n = d->m->n_stacks;
    d->by_block = calloc(n, sizeof *d->by_block);
    d->first = calloc(n, sizeof *d->first);
    d->alive = calloc(n, sizeof *d->alive);
    if (!d->by_block || !d->first || !d->alive)
        return gg_fail(err, GG_ENOMEM, "no memory for experts");
    for (size_t k = 0; k < n; k++) d->by_block[k] = block_of(&d->m->stacks[k].t, k);
    qsort(d->by_block, n, sizeof *d->by_block, order_stacks);
    for (size_t i = 0; i < n; i++) {
        const in_block *b = &d->by_block[i];
        size_t k = b->stack;
        bool same = i > 0 && b->prefix > 0 && order_block(b - 1, b) == 0;
        d->first[k] = same ? d->first[b[-1].stack] : k;
        if (d->stacks[k].n > 0) d->alive[d->first[k]] = true;
    }
    return GG_OK;
}

/* Compares stack k with the count and with the first stack of its block. */
static gg_status check_stack(directory *d, size_t k, gg_error *err)
{
    const gg_tensor *t = &d->m->stacks[k].t;
    const uint64_t *e = d->stacks[k].experts;
    size_t n = d->stacks[k].n;
    if (n == 0 && block_is_gone(d, k)) return GG_OK;
    if (experts_of(&d->m->stacks[k]) != d->was) {
        gg_fail(err, GG_EFORMAT, "its stack had %llu experts, but those of other blocks had %llu",
                (unsigned long long)experts_of(&d->m->stacks[k]), (unsigned long long)d->was);
        return fail_at(t, err);
    }
    if (n > 0 && e[n - 1] >= d->was) {
        gg_fail(err, GG_EFORMAT, "its stack never had an expert %llu",
                (unsigned long long)e[n - 1]);
        return fail_at(t, err);
    }
    size_t f = d->first[k];
    const uint64_t *fe = d->stacks[f].experts;
    size_t fn = d->stacks[f].n;
    if (fn != n || (n > 0 && memcmp(fe, e, n * sizeof *e) != 0)) {
        gg_fail(err, GG_EFORMAT,
                "it and %.*s do not keep the same experts: only one has expert %llu",
                (int)d->m->stacks[f].t.name_len, d->m->stacks[f].t.name,
                (unsigned long long)odd_one(e, n, fe, fn));
        gg_fix(err, "remove each expert from gate, up and down");
        return fail_at(t, err);
    }
    if (n == d->left) return GG_OK;
    gg_fail(err, GG_EFORMAT, "it has %zu experts left, but other blocks have %llu", n,
            (unsigned long long)d->left);
    gg_fix(err, "leave the same number of experts in every block: a model has one expert_count");
    return fail_at(t, err);
}

static size_t stack_of_block(const directory *d, const gg_tensor *t)
{
    in_block wanted = block_of(t, 0);
    size_t lo = 0, hi = d->m->n_stacks;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (order_block(&d->by_block[mid], &wanted) < 0) lo = mid + 1;
        else hi = mid;
    }
    bool found = lo < d->m->n_stacks && wanted.prefix > 0 &&
                 order_block(&d->by_block[lo], &wanted) == 0;
    return found ? d->by_block[lo].stack : SIZE_MAX;
}

static gg_status check_entry(directory *d, size_t i, gg_error *err)
{
    const gg_entry *e = &d->m->entries[i];
    if (d->stack_of[i] != SIZE_MAX) return GG_OK;
    gg_status st = refuse_fixed_experts(&e->t, &e->a, err);
    if (st != GG_OK) return st;
    if (!counts_experts(&e->t, &e->a)) return GG_OK;
    size_t k = stack_of_block(d, &e->t);
    uint64_t n = e->t.dims[experts_dim(&e->t)];
    if (k == SIZE_MAX) {
        gg_fail(
            err, GG_EFORMAT,
            "the experts of its block were not split, but experts of other blocks were removed");
        gg_fix_hint(err, GG_HINT_SPLIT_EXPERTS, "extract the whole model with single experts");
        return fail_at(&e->t, err);
    }
    if (block_is_gone(d, k)) {
        gg_fail(err, GG_EFORMAT, "all experts of its block were removed");
        gg_fix(err,
               "leave the same number of experts in every block: a model has one expert_count");
        return fail_at(&e->t, err);
    }
    if (n != d->was || e->t.bytes % n != 0) {
        gg_fail(err, GG_EFORMAT, "it is for %llu experts, but the stacks of its block are for %llu",
                (unsigned long long)n, (unsigned long long)d->was);
        return fail_at(&e->t, err);
    }
    d->cut_like[i] = k;
    return GG_OK;
}

static gg_status check_missing(directory *d, size_t first, const gg_run *run, gg_error *err)
{
    d->left = d->stacks[first].n;
    d->was = experts_of(&d->m->stacks[first]);
    gg_status st = group_stacks(d, err);
    for (size_t k = 0; k < d->m->n_stacks && st == GG_OK; k++) st = check_stack(d, k, err);
    for (size_t i = 0; i < d->m->n_entries && st == GG_OK; i++) st = check_entry(d, i, err);
    return st == GG_OK ? check_expert_keys(&d->m->meta, d->was, d->left, run, err) : st;
}

/* If every block has lost all its experts or none, nothing is cut. But then a router, or a
 * stack without the others of its block, must not be left. */
static gg_status check_gone(directory *d, gg_error *err)
{
    gg_status st = group_stacks(d, err);
    for (size_t k = 0; k < d->m->n_stacks && st == GG_OK; k++) {
        const gg_tensor *t = &d->m->stacks[k].t;
        if (d->stacks[k].n > 0 || block_is_gone(d, k)) continue;
        gg_fail(err, GG_EFORMAT,
                "all its experts were removed, but other stacks of its block have theirs");
        gg_fix(err, "remove each expert from gate, up and down");
        st = fail_at(t, err);
    }
    for (size_t i = 0; i < d->m->n_entries && st == GG_OK; i++) {
        const gg_entry *e = &d->m->entries[i];
        size_t k = d->stack_of[i] == SIZE_MAX && counts_experts(&e->t, &e->a)
                       ? stack_of_block(d, &e->t)
                       : SIZE_MAX;
        if (k == SIZE_MAX || !block_is_gone(d, k)) continue;
        gg_fail(err, GG_EFORMAT, "all experts of its block were removed");
        gg_fix(err, "remove its entry too, or keep experts");
        st = fail_at(&e->t, err);
    }
    return st;
}

/* Finds the experts that are missing, and refuses a directory of which no model can be made. */
static gg_status find_missing(directory *d, const gg_run *run, gg_error *err)
{
    size_t first = 0;
    bool gone = false; /* a stack lost all its experts */
    for (; first < d->m->n_stacks; first++) {
        if (d->stacks[first].n > 0 && !is_whole(d, first)) break;
        gone = gone || d->stacks[first].n == 0;
    }
    if (first < d->m->n_stacks) return check_missing(d, first, run, err);
    return gone ? check_gone(d, err) : GG_OK;
}

/* Plans stack k, with one part per expert. */
static gg_status plan_stack(const directory *d, size_t k, gg_plan *p, gg_error *err)
{
    const expert_list *l = &d->stacks[k];
    gg_tensor t = d->m->stacks[k].t;
    gg_plan_tensor *pt;
    t.dims[t.n_dims - 1] = l->n;
    t.dtype = d->m->entries[l->first].t.dtype;
    gg_status st = gg_tensor_extent(t.dtype, t.n_dims, t.dims, &t.elements, &t.bytes, err);
    if (st == GG_OK) st = gg_plan_add(p, &t, &pt, err);
    for (size_t i = 0; i < l->n && st == GG_OK; i++) {
        const gg_entry *e = &d->m->entries[l->list[i].entry];
        gg_plan_part part = { d->source, l->list[i].entry, 0, e->t.bytes, e->sha256 };
        st = gg_plan_add_part(pt, &part, err);
    }
    return st;
}

gg_status gg_plan_directory(gg_source *dir, gg_plan *p, uint64_t *left, const gg_run *run,
                            gg_error *err)
{
    directory d = { .source = dir, .m = gg_source_manifest(dir) };
    gg_status st = open_directory(&d, err);
    if (st == GG_OK) st = find_missing(&d, run, err);
    for (size_t i = 0; i < d.m->n_entries && st == GG_OK; i++) {
        size_t k = d.stack_of[i], like = d.cut_like[i];
        if (k == SIZE_MAX) st = gg_plan_add_copy(p, dir, i, err);
        else if (d.stacks[k].first == i) st = plan_stack(&d, k, p, err);
        if (st == GG_OK && like != SIZE_MAX)
            st = cut_experts(&p->tensors[p->n - 1], d.was, d.stacks[like].experts, d.stacks[like].n,
                             p->verify, err);
    }
    *left = d.left;
    close_directory(&d);
    return st;
}

/* ---- lists of experts to keep ------------------------------------------------------------ */

#define LIST_MAX ((size_t)16 << 20) /* bytes of a list of experts */

/* The experts of one block; block UINT64_MAX means every block. */
typedef struct kept_line {
    uint64_t block;
    gg_ranges listed; /* as the user wrote them */
    uint64_t *kept;   /* ascending, `n` of them */
    size_t n;
    bool used;
} kept_line;

struct gg_keep_experts {
    kept_line *lines; /* sorted by block */
    size_t n;
    const char *text;   /* as the user wrote it; owned by the caller */
    uint64_t was, left; /* experts per block, known after the cut */
};

static gg_status add_line(gg_keep_experts *k, uint64_t block, kept_line **out, gg_error *err)
{
    if (GG_ROOM(k->lines, k->n, NULL, err) != GG_OK) return GG_ENOMEM;
    *out = &k->lines[k->n++];
    **out = (kept_line){ .block = block };
    return GG_OK;
}

static gg_status add_listed(gg_keep_experts *k, uint64_t block, const char *list, gg_error *err)
{
    kept_line *l;
    gg_status st = add_line(k, block, &l, err);
    return st == GG_OK ? gg_ranges_parse(&l->listed, GG_HINT_NONE, list, err) : st;
}

/* "3<TAB>0-3,7" */
static gg_status read_kept(void *ctx, char *text, size_t number, gg_error *err)
{
    text[strcspn(text, "\r")] = '\0';
    char *tab = strchr(text, '\t'), *end;
    if (text[0] == '\0' || (number == 1 && strncmp(text, "block\t", 6) == 0)) return GG_OK;
    unsigned long long block = strtoull(text, &end, 10);
    if (!tab || end != tab || text[0] < '0' || text[0] > '9' || tab - text > 9)
        return gg_fail(err, GG_EUSAGE,
                       "line %zu: expected a block number, a tab and experts such as "
                       "0-3,7",
                       number);
    return add_listed(ctx, block, tab + 1, err);
}

static gg_status read_kept_file(gg_keep_experts *k, const char *path, gg_error *err)
{
    gg_lines from = { path, "the list of experts", LIST_MAX };
    gg_status st = gg_each_line(&from, read_kept, k, err);
    if (st != GG_OK || k->n > 0) return st;
    gg_fail(err, GG_EUSAGE, "the file lists no experts");
    return gg_at_file(err, path);
}

static int order_lines(const void *a, const void *b)
{
    const kept_line *x = a, *y = b;
    return x->block < y->block ? -1 : x->block > y->block;
}

static gg_status new_list(const char *text, gg_keep_experts **out, gg_error *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out) return gg_fail(err, GG_ENOMEM, "no memory for experts");
    (*out)->text = text;
    return GG_OK;
}

gg_status gg_keep_experts_parse(const char *text, gg_keep_experts **out, gg_error *err)
{
    gg_keep_experts *k;
    gg_status st = new_list(text, &k, err);
    if (st != GG_OK) return st;
    bool list = text[strspn(text, "0123456789,-")] == '\0';
    st = list ? add_listed(k, UINT64_MAX, text, err) : read_kept_file(k, text, err);
    if (st == GG_OK && k->n) qsort(k->lines, k->n, sizeof *k->lines, order_lines);
    for (size_t i = 1; i < k->n && st == GG_OK; i++)
        if (k->lines[i].block == k->lines[i - 1].block) {
            gg_fail(err, GG_EUSAGE, "block %llu is listed twice",
                    (unsigned long long)k->lines[i].block);
            st = gg_at_file(err, text);
        }
    if (st == GG_OK) *out = k;
    else gg_keep_experts_free(k);
    return st;
}

void gg_keep_experts_free(gg_keep_experts *k)
{
    if (!k) return;
    for (size_t i = 0; i < k->n; i++) {
        gg_ranges_free(&k->lines[i].listed);
        free(k->lines[i].kept);
    }
    free(k->lines);
    free(k);
}

/* The list for a block; NULL if there is none. */
static kept_line *line_of(const gg_keep_experts *k, uint64_t block)
{
    kept_line key = { .block = block };
    if (k->n == 1 && k->lines[0].block == UINT64_MAX) return &k->lines[0];
    return bsearch(&key, k->lines, k->n, sizeof key, order_lines);
}

/* Lists which of `was` experts are kept. All listed experts must exist. */
static gg_status list_kept(kept_line *l, uint64_t was, gg_error *err)
{
    if (l->kept) return GG_OK;
    for (size_t i = 0; i < l->listed.n; i++)
        if (l->listed.items[i].last >= was)
            return gg_fail(err, GG_NO, "its block has no expert %llu, only 0 to %llu",
                           (unsigned long long)l->listed.items[i].last,
                           (unsigned long long)(was - 1));
    l->kept = calloc(was + 1, sizeof *l->kept);
    if (!l->kept) return gg_fail(err, GG_ENOMEM, "no memory for experts");
    for (uint64_t e = 0; e < was; e++)
        if (gg_ranges_have(&l->listed, e)) l->kept[l->n++] = e;
    return GG_OK;
}

/* Checks one tensor that counts experts against the earlier ones and against its list. */
static gg_status check_kept(gg_keep_experts *k, const gg_tensor *t, uint64_t block, gg_error *err)
{
    uint64_t n = t->dims[experts_dim(t)];
    kept_line *l = line_of(k, block);
    if (k->was == 0) k->was = n;
    if (n != k->was || n == 0 || n > GG_EXPERTS_MAX || t->bytes % n != 0)
        return gg_fail(err, GG_EFORMAT, "it is for %llu experts, but other tensors are for %llu",
                       (unsigned long long)n, (unsigned long long)k->was);
    if (!l)
        return gg_fail(err, GG_NO, "%s has no line for block %llu", k->text,
                       (unsigned long long)block);
    gg_status st = list_kept(l, n, err);
    if (st != GG_OK) return st;
    l->used = true;
    if (k->left == 0) k->left = l->n;
    if (l->n == k->left) return GG_OK;
    gg_fail(err, GG_NO, "its block would keep %llu experts, others %llu", (unsigned long long)l->n,
            (unsigned long long)k->left);
    return gg_fix(err, "keep the same number in every block: a model has one expert_count");
}

static gg_status check_kept_all(gg_keep_experts *k, const gg_plan *p, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < p->n && st == GG_OK; i++) {
        const gg_tensor *t = &p->tensors[i].t;
        gg_anatomy a = gg_anatomy_of(t->name, t->name_len);
        st = refuse_fixed_experts(t, &a, err);
        if (st == GG_OK && counts_experts(t, &a)) st = check_kept(k, t, (uint64_t)a.block, err);
        if (st != GG_OK) return gg_at_tensor(err, t->name, t->name_len);
    }
    if (k->was == 0) return gg_fail(err, GG_NO, "the model has no stacks of experts");
    for (size_t i = 0; i < k->n; i++)
        if (!k->lines[i].used)
            return gg_fail(err, GG_NO, "%s lists block %llu, which has no experts", k->text,
                           (unsigned long long)k->lines[i].block);
    return GG_OK;
}

gg_status gg_keep_experts_cut(gg_keep_experts *k, gg_plan *p, gg_error *err)
{
    gg_status st = check_kept_all(k, p, err);
    for (size_t i = 0; i < p->n && st == GG_OK && k->left != k->was; i++) {
        gg_plan_tensor *pt = &p->tensors[i];
        gg_anatomy a = gg_anatomy_of(pt->t.name, pt->t.name_len);
        if (!counts_experts(&pt->t, &a)) continue;
        const kept_line *l = line_of(k, (uint64_t)a.block);
        st = cut_experts(pt, k->was, l->kept, l->n, p->verify, err);
        if (st != GG_OK) fail_at(&pt->t, err);
    }
    return st;
}

gg_status gg_keep_experts_keys(const gg_keep_experts *k, gg_meta *meta, const gg_run *run,
                               gg_error *err)
{
    if (k->left == k->was) return GG_OK;
    gg_status st = check_expert_keys(meta, k->was, k->left, run, err);
    return st == GG_OK ? gg_set_expert_count(meta, k->left, err) : st;
}

/* ---- ranking ----------------------------------------------------------------------------- */

#define PIECE 65536 /* values read and decoded at once; a multiple of every block length */

/* A stack of matrices, one per expert. */
typedef struct expert_stack {
    const gg_plan_tensor *pt;
    uint64_t block, experts;
    bool weighed;   /* the importance matrix has it */
    double *scores; /* one per expert */
} expert_stack;

typedef struct ranking {
    const gg_imatrix *imatrix;
    expert_stack *stacks; /* sorted by block when they have been found */
    size_t n;
    uint64_t keep, groups;
} ranking;

/* Adds n values from value `first` of the stack on. They belong to one expert. */
static void add_values(expert_stack *s, const gg_column_weights *w, uint64_t first, const float *x,
                       size_t n)
{
    double sums[2] = { 0, 0 };
    if (s->weighed) gg_column_weights_add(w, first, x, x, n, sums);
    else
        for (size_t i = 0; i < n; i++) sums[0] += (double)x[i] * (double)x[i];
    s->scores[first / (s->pt->t.elements / s->experts)] += sums[0];
}

/* Reads a part of the stack, which begins with value `first`, expert by expert. */
static gg_status read_experts(expert_stack *s, const gg_column_weights *w, const gg_plan_part *part,
                              uint64_t first, gg_error *err)
{
    const gg_dtype_info *info = gg_dtype_get(s->pt->t.dtype);
    uint64_t expert = s->pt->t.elements / s->experts,
             n = part->bytes / info->block_bytes * info->block_elems;
    float *x = malloc(PIECE * sizeof *x);
    uint8_t *raw = malloc(PIECE / info->block_elems * info->block_bytes);
    gg_data d;
    gg_status st = x && raw ? gg_data_open(part->source, part->index, &d, err)
                            : gg_fail(err, GG_ENOMEM, "no memory to read experts");
    bool opened = st == GG_OK;
    for (uint64_t at = 0; at < n && st == GG_OK;) {
        uint64_t left = expert - (first + at) % expert, got = left < PIECE ? left : PIECE;
        uint64_t offset = at / info->block_elems * info->block_bytes;
        st = gg_cancelled(err);
        if (st == GG_OK)
            st = gg_data_read(&d, part->at + offset, raw,
                              (size_t)(got / info->block_elems * info->block_bytes), err);
        if (st == GG_OK) st = gg_decode(s->pt->t.dtype, raw, x, (size_t)got, err);
        if (st == GG_OK) add_values(s, w, first + at, x, (size_t)got);
        at += got;
    }
    if (opened) gg_data_close(&d);
    free(x);
    free(raw);
    return st;
}

static gg_status score_stack(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    (void)worker;
    ranking *r = ctx;
    expert_stack *s = &r->stacks[i];
    const gg_tensor *t = &s->pt->t;
    const gg_dtype_info *info = gg_dtype_get(t->dtype);
    gg_column_weights w = { 0 };
    gg_status st = GG_OK;
    if (!gg_can_decode(t->dtype) || t->elements / s->experts % info->block_elems != 0)
        st = gg_fail(err, GG_EUNSUPPORTED,
                     "its values cannot be decoded, so its experts cannot be "
                     "ranked");
    if (st == GG_OK && s->weighed) st = gg_column_weights_open(&w, r->imatrix, t, err);
    uint64_t first = 0;
    for (size_t k = 0; k < s->pt->n_parts && st == GG_OK; k++) {
        st = read_experts(s, &w, &s->pt->parts[k], first, err);
        first += s->pt->parts[k].bytes / info->block_bytes * info->block_elems;
    }
    gg_column_weights_close(&w);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, t->name, t->name_len);
}

static int by_block(const void *a, const void *b)
{
    const expert_stack *x = a, *y = b;
    return x->block < y->block ? -1 : x->block > y->block;
}

/* A stack of weight matrices, not of biases or scales. */
static bool is_weight_stack(const gg_tensor *t, uint64_t *experts)
{
    return t->n_dims == 3 && t->elements > 0 && gg_is_expert_stack(t, experts);
}

static gg_status find_stacks(ranking *r, const gg_plan *p, gg_error *err)
{
    gg_status st = GG_OK;
    r->stacks = calloc(p->n ? p->n : 1, sizeof *r->stacks);
    if (!r->stacks) return gg_fail(err, GG_ENOMEM, "no memory for %zu tensors", p->n);
    for (size_t i = 0; i < p->n && st == GG_OK; i++) {
        const gg_tensor *t = &p->tensors[i].t;
        expert_stack s = { .pt = &p->tensors[i] };
        if (!is_weight_stack(t, &s.experts)) continue;
        s.block = (uint64_t)gg_anatomy_of(t->name, t->name_len).block;
        s.scores = calloc(s.experts, sizeof *s.scores);
        if (!s.scores) return gg_fail(err, GG_ENOMEM, "no memory for %zu tensors", p->n);
        r->stacks[r->n++] = s;
        st = gg_imatrix_check(r->imatrix, t, false, &r->stacks[r->n - 1].weighed, err);
    }
    if (st != GG_OK) return st;
    if (r->n == 0) return gg_fail(err, GG_NO, "the model has no stacks of experts");
    qsort(r->stacks, r->n, sizeof *r->stacks, by_block);
    return GG_OK;
}

/* The end of the stacks of the block that begins with stack `first`. */
static size_t block_end(const ranking *r, size_t first)
{
    size_t end = first + 1;
    while (end < r->n && r->stacks[end].block == r->stacks[first].block) end++;
    return end;
}

/* Notes blocks that the importance matrix lacks, and refuses a matrix without any block. */
static gg_status check_coverage(ranking *r, const gg_run *run, gg_error *err)
{
    size_t used = 0, lacking = 0;
    for (size_t first = 0, end; first < r->n; first = end) {
        bool any = false;
        end = block_end(r, first);
        for (size_t i = first; i < end; i++) any = any || r->stacks[i].weighed;
        used += any;
        lacking += !any;
    }
    if (used == 0) {
        gg_fail(err, GG_NO, "the importance matrix has none of the model's experts");
        return gg_fix(err, "use a matrix that was computed for this model");
    }
    if (lacking)
        gg_note(run,
                "the importance matrix lacks the experts of %zu of %zu blocks; there, those with "
                "the largest weights are kept",
                lacking, used + lacking);
    return GG_OK;
}

/* Sums up the scores of a block's stacks into those of its first one. */
static gg_status sum_up(const ranking *r, size_t first, size_t end, gg_error *err)
{
    expert_stack *s = &r->stacks[first];
    bool any = false;
    for (size_t i = first; i < end; i++) any = any || r->stacks[i].weighed;
    if (any && !s->weighed) memset(s->scores, 0, s->experts * sizeof *s->scores);
    for (size_t i = first + 1; i < end; i++) {
        const expert_stack *o = &r->stacks[i];
        if (o->experts != s->experts) {
            gg_fail(err, GG_EFORMAT, "it is for %llu experts, but other tensors are for %llu",
                    (unsigned long long)o->experts, (unsigned long long)s->experts);
            return gg_at_tensor(err, o->pt->t.name, o->pt->t.name_len);
        }
        if (any && !o->weighed) continue;
        for (uint64_t e = 0; e < s->experts; e++) s->scores[e] += o->scores[e];
    }
    if (r->keep <= s->experts) return GG_OK;
    return gg_fail(err, GG_NO, "%llu experts cannot be kept: block %llu has %llu",
                   (unsigned long long)r->keep, (unsigned long long)s->block,
                   (unsigned long long)s->experts);
}

typedef struct candidate {
    double score;
    uint64_t expert;
} candidate;

static int by_score(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->expert < y->expert ? -1 : x->expert > y->expert;
}

/* Appends the `keep` best of the experts [from, to) to the line. */
static gg_status keep_best(const expert_stack *s, uint64_t from, uint64_t to, uint64_t keep,
                           kept_line *l, gg_error *err)
{
    candidate *c = calloc(to - from, sizeof *c);
    if (!c) return gg_fail(err, GG_ENOMEM, "no memory for experts");
    for (uint64_t e = from; e < to; e++) c[e - from] = (candidate){ s->scores[e], e };
    qsort(c, to - from, sizeof *c, by_score);
    for (uint64_t k = 0; k < keep; k++) l->kept[l->n++] = c[k].expert;
    free(c);
    return GG_OK;
}

static gg_status keep_best_of_all(const ranking *r, gg_keep_experts *keep, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t first = 0, end; first < r->n && st == GG_OK; first = end) {
        const expert_stack *s = &r->stacks[first];
        kept_line *l = NULL;
        end = block_end(r, first);
        st = sum_up(r, first, end, err);
        if (st == GG_OK) st = add_line(keep, s->block, &l, err);
        if (st != GG_OK) return st;
        l->kept = calloc(s->experts + 1, sizeof *l->kept);
        if (!l->kept) return gg_fail(err, GG_ENOMEM, "no memory for experts");
        bool even = r->groups > 1 && r->keep % r->groups == 0 && s->experts % r->groups == 0;
        uint64_t groups = even ? r->groups : 1, size = s->experts / groups;
        for (uint64_t g = 0; g < groups && st == GG_OK; g++)
            st = keep_best(s, g * size, (g + 1) * size, r->keep / groups, l, err);
        qsort(l->kept, l->n, sizeof *l->kept, by_u64);
    }
    return st;
}

gg_status gg_rank_experts(const gg_plan *p, const gg_meta *meta, const char *number,
                          const gg_imatrix *imatrix, gg_keep_experts **keep, const gg_run *run,
                          gg_error *err)
{
    ranking r = { .imatrix = imatrix };
    char *end;
    errno = 0;
    r.keep = strtoull(number, &end, 10);
    if (number[strspn(number, "0123456789")] != '\0' || r.keep == 0 || errno)
        return gg_fail(err, GG_EUSAGE,
                       "'%s' is not a number of experts to keep by importance, such as 32", number);
    if (p->pipe) {
        gg_fail(err, GG_EUSAGE, "a pipe can be read only once, but experts are ranked first");
        return gg_fix(err, "store the model in a file");
    }
    gg_status st = expert_number(meta, "expert_group_count", &r.groups, err);
    if (st == GG_OK) st = new_list(number, keep, err);
    if (st == GG_OK) st = find_stacks(&r, p, err);
    if (st == GG_OK) st = check_coverage(&r, run, err);
    if (st == GG_OK) st = gg_parallel(r.n, run->threads, score_stack, &r, err);
    if (st == GG_OK) st = keep_best_of_all(&r, *keep, err);
    for (size_t i = 0; i < r.n; i++) free(r.stacks[i].scores);
    free(r.stacks);
    return st;
}

/* assemble_experts.c - puts single experts back into stacks, and removes experts from a model. */
#include "assemble_experts.h"
#include "refit.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/lines.h"
#include "base/parallel.h"
#include "gguf/gguf.h"
#include "numeric/matmul.h"
#include "organ/manifest.h"
#include "organ/record.h"
#include "organ/select.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "quant/quant.h"
#include "verbs/compute/imatrix_write.h"
#include "verbs/compute/samples.h"
#include "verbs/shared/copy.h"
#include "verbs/shared/verb_run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
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

/* GG_EUNSUPPORTED for a tensor with which a model cannot lose experts. */
static gg_status refuse_fixed_experts(const gg_tensor *t, const gg_anatomy *a, gg_error *err)
{
    const char *why = gg_experts_fixed(t, a);
    if (!why) return GG_OK;
    gg_fail(err, GG_EUNSUPPORTED, "%s, so no experts can be removed from this model", why);
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

/* Reads the data of a tensor with a known sha256, and compares it. */
static gg_status verify_parts(const gg_plan_tensor *pt, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < pt->n_parts && st == GG_OK; i++)
        if (pt->parts[i].sha256 && pt->parts[i].sha256[0])
            st = gg_verify_data(pt->parts[i].source, pt->parts[i].index, err);
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
    gg_status st = verify ? verify_parts(pt, err) : GG_OK;
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
        return gg_fix(err, "leave more experts, or lower expert_used_count first");
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
    if (!gg_counts_experts(&e->t, &e->a)) return GG_OK;
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
        size_t k = d->stack_of[i] == SIZE_MAX && gg_counts_experts(&e->t, &e->a)
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

/* ---- units ------------------------------------------------------------------------------- */

/* A tensor of which some columns or rows are left, the same number in each matrix. */
typedef struct thin_ctx {
    gg_computation base; /* first: see compute.h; its input has the tensor as it was */
    gg_tensor was;
    bool columns;
    const float *gains;   /* of each matrix; NULL = 1. Those of the line */
    gg_samples samples;   /* of the inputs, if its source is not NULL: instead of gains, columns */
    gg_refit refit;       /* what replaces removed experts, if its model is not NULL */
    const uint64_t *kept; /* replace the removed ones. The number of each matrix in them */
    uint64_t matrices, n; /* n of them are left per matrix: */
    uint32_t left[];
} thin_ctx;

/* Reads bytes of the input, which lie in one part. */
static gg_status read_thin(const thin_ctx *c, uint64_t at, void *to, size_t n, gg_error *err)
{
    const operand *op = &c->base.in[0];
    size_t k = 0;
    for (; k + 1 < op->n_parts && at >= op->parts[k].bytes; k++) at -= op->parts[k].bytes;
    const gg_plan_part *p = &op->parts[k];
    gg_data d;
    gg_status st = gg_data_open(p->source, p->index, &d, err);
    if (st != GG_OK) return st;
    st = gg_data_read(&d, p->at + at, to, n, err);
    gg_data_close(&d);
    return st;
}

/* The room of a thread: several rows as stored and decoded, and the columns that are left. */
typedef struct thin_room {
    const thin_ctx *of;
    uint8_t *raw, *out;
    float *x, *y;
    float *map; /* of the matrix: gg_samples_map; NULL = none */
    size_t rows;
    gg_refit_fit fit;
    float *change; /* of the matrix by the fit; NULL = none */
} thin_room;

/* Computes rows [first, first + n) of matrix m without some columns, in r->y. */
static gg_status thin_columns(const thin_ctx *c, const thin_room *r, uint64_t m, uint64_t first,
                              size_t n, gg_error *err)
{
    size_t row = (size_t)c->was.dims[0];
    uint64_t bytes = gg_encoded_bytes(c->was.dtype, row), all = c->was.elements / row / c->matrices;
    const uint32_t *left = c->left + m * c->n;
    float gain = c->gains ? c->gains[m] : 1;
    gg_status st = read_thin(c, (m * all + first) * bytes, r->raw, n * (size_t)bytes, err);
    if (st == GG_OK) st = gg_decode(c->was.dtype, r->raw, r->x, n * row, err);
    gg_matrix x = gg_matrix_of(r->x, n, row), map = gg_matrix_of(r->map, row, c->n),
              y = gg_matrix_of(r->y, n, c->n);
    if (st == GG_OK && r->map) st = gg_matmul(&y, &x, &map, 1, err);
    for (size_t i = 0; i < n && st == GG_OK && !r->map; i++)
        for (size_t j = 0; j < c->n; j++) r->y[i * c->n + j] = r->x[i * row + left[j]] * gain;
    for (size_t i = 0; i < n * c->n && r->change; i++) r->y[i] += r->change[first * c->n + i];
    return st;
}

/* Copies rows of matrix m: those that are left from number `first` on. Consecutive ones are read at
 * once. */
static gg_status thin_rows_of(const thin_ctx *c, const thin_room *r, uint64_t m, uint64_t first,
                              size_t n, gg_error *err)
{
    uint64_t bytes = gg_encoded_bytes(c->was.dtype, c->was.dims[0]);
    const uint32_t *left = c->left + m * c->n + first;
    gg_status st = GG_OK;
    for (size_t i = 0, end; i < n && st == GG_OK; i = end) {
        for (end = i + 1; end < n && left[end] == left[end - 1] + 1; end++)
            ;
        st = read_thin(c, (m * c->was.dims[1] + left[i]) * bytes, r->out + i * bytes,
                       (end - i) * (size_t)bytes, err);
    }
    return st;
}

/* Finds how the remaining columns of matrix m replace the removed ones. */
static gg_status open_map(const thin_ctx *c, thin_room *r, uint64_t m, gg_error *err)
{
    gg_samples samples = c->samples;
    free(r->map);
    r->map = NULL;
    if (!samples.source) return GG_OK;
    samples.matrix = c->kept ? c->kept[m] : m;
    return gg_samples_map(&samples, c->left + m * c->n, (size_t)c->n, &r->map, err);
}

/* A matrix before the fit. */
static gg_status thin_start(void *ctx, uint64_t m, float *out, gg_error *err)
{
    const thin_ctx *c = ((thin_room *)ctx)->of;
    thin_room r = *(thin_room *)ctx;
    uint64_t rows = c->was.dims[1];
    gg_status st = open_map(c, ctx, m, err);
    r.map = ((thin_room *)ctx)->map;
    for (uint64_t i = 0; i < rows && st == GG_OK; i += r.rows) {
        r.y = out + i * c->n;
        st = thin_columns(c, &r, m, i, rows - i < r.rows ? (size_t)(rows - i) : r.rows, err);
    }
    return st;
}

static gg_status open_room(const thin_ctx *c, thin_room *r, gg_error *err)
{
    size_t row = (size_t)c->was.dims[0];
    *r = (thin_room){ .of = c, .rows = 65536 / row + 1 };
    r->raw = malloc(r->rows * (size_t)gg_encoded_bytes(c->was.dtype, row) + 1);
    r->out = malloc(r->rows * (size_t)gg_encoded_bytes(c->was.dtype, row) + 1);
    r->x = malloc(r->rows * row * sizeof *r->x);
    r->y = malloc(r->rows * row * sizeof *r->y);
    if (!r->raw || !r->out || !r->x || !r->y) return gg_fail(err, GG_ENOMEM, "no memory for rows");
    if (!c->refit.model) return GG_OK;
    const gg_refit_start start = { thin_start, r };
    gg_status st = gg_refit_open(&c->refit, &start, &r->fit, err);
    r->change = st == GG_OK ? malloc((size_t)(c->was.dims[1] * c->n) * sizeof *r->change) : NULL;
    return st != GG_OK || r->change ? st : gg_fail(err, GG_ENOMEM, "no memory for a matrix");
}

static void close_room(thin_room *r)
{
    free(r->raw);
    free(r->out);
    free(r->x);
    free(r->y);
    free(r->map);
    free(r->change);
    gg_refit_close(&r->fit);
}

static gg_status make_thin(void *ctx, const gg_target *to, gg_error *err)
{
    const thin_ctx *c = ctx;
    uint64_t rows = to->t->elements / c->matrices / to->t->dims[0]; /* that are written */
    size_t bytes = (size_t)gg_encoded_bytes(to->t->dtype, to->t->dims[0]);
    uint64_t at = to->at;
    thin_room r;
    gg_status st = open_room(c, &r, err);
    for (uint64_t m = 0; m < c->matrices && st == GG_OK; m++) {
        st = open_map(c, &r, m, err);
        if (st == GG_OK && r.change) st = gg_refit_change(&r.fit, m, r.change, err);
        for (uint64_t i = 0; i < rows && st == GG_OK; i += r.rows) {
            size_t n = rows - i < r.rows ? (size_t)(rows - i) : r.rows;
            st = c->columns ? thin_columns(c, &r, m, i, n, err) : thin_rows_of(c, &r, m, i, n, err);
            if (st == GG_OK && c->columns)
                st = gg_encode(c->was.dtype, r.y, r.out, n * c->n, c->n, NULL, err);
            if (st == GG_OK) st = gg_put_all(to->fd, r.out, n * bytes, at, err);
            if (st == GG_OK && to->hash) gg_sha256_update(to->hash, r.out, n * bytes);
            if (st == GG_OK) gg_progress_add(to->run, n * bytes);
            at = gg_offset_after(at, n * bytes);
        }
    }
    close_room(&r);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, to->t->name, to->t->name_len);
}

static bool role_is(const gg_tensor *t, const gg_anatomy *a, const char *stem, const char *tail)
{
    size_t n = strlen(stem), rest = strlen(tail);
    return a->role_len == n + rest && memcmp(t->name + a->role_at, stem, n) == 0 &&
           memcmp(t->name + a->role_at + n, tail, rest) == 0;
}

/* Whether its columns are hidden units. */
static bool is_down(const gg_tensor *t, const gg_anatomy *a)
{
    return role_is(t, a, "ffn_down", a->stack ? "_exps" : "");
}

/* Whether its rows, or the values of a bias, are hidden units. */
static bool has_unit_rows(const gg_tensor *t, const gg_anatomy *a, bool *bias)
{
    static const char *const stems[] = { "ffn_gate", "ffn_up", "ffn_gate_up" };
    for (size_t i = 0; i < 6; i++) {
        *bias = i >= 3;
        const char *tail = *bias ? (a->stack ? "_exps.bias" : ".bias") : a->stack ? "_exps" : "";
        if (role_is(t, a, stems[i % 3], tail)) return true;
    }
    return false;
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
    uint32_t *units; /* the hidden units to keep, ascending: `units` of the list for each of the n
                        experts; NULL = all */
    float *gains;    /* with units: what the down projection of each expert is multiplied by */
} kept_line;

struct gg_keep_experts {
    kept_line *lines; /* sorted by block */
    size_t n;
    const char *text;          /* as the user wrote it; owned by the caller */
    uint64_t was, left;        /* experts per block, known after the cut */
    uint64_t units_was, units; /* hidden units per expert; units is 0 if all are kept */
    bool dense;                /* FFNs without experts: only units are removed */
    gg_source *refit;          /* activations; NULL = none */
    const gg_meta *meta;       /* with `refit`: the keys of the model */
    size_t refitted;           /* tensors of which it has samples */
    const char *unfit;         /* why the outputs of removed experts are not replaced; static */
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
        free(k->lines[i].units);
        free(k->lines[i].gains);
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

/* How tensors are made that lose units. */
typedef struct thin_way {
    gg_computations *made;
    bool verify;
} thin_way;

/* Finds the samples of a down projection. */
static gg_status find_samples(gg_keep_experts *k, const gg_tensor *t, gg_samples *out,
                              gg_error *err)
{
    size_t at;
    gg_status st = gg_samples_find(k->refit, t, k->units_was, k->dense ? 1 : k->was, &at, err);
    if (st != GG_OK || at == SIZE_MAX) return st;
    *out = (gg_samples){ k->refit, at, 0 };
    k->refitted++;
    return GG_OK;
}

/* Finds what replaces the experts that a stack of down projections loses. */
static gg_status find_fit(gg_keep_experts *k, const kept_line *l, const gg_plan_part *stack,
                          thin_ctx *c, gg_error *err)
{
    const char *why = "its experts are stored one by one";
    gg_refit r = { .model = stack->source, .meta = k->meta, .left = l->n, .kept = l->kept };
    r.units = c->left;
    r.n_units = c->n;
    if (k->left == k->was) return GG_OK;
    if (stack->at == 0 && stack->bytes == gg_source_tensor(r.model, stack->index)->bytes) {
        gg_status st = gg_refit_find(&r, k->refit, stack->index, &why, err);
        if (st != GG_OK) return st;
    }
    if (why) k->unfit = why;
    else c->refit = r, k->refitted++;
    return GG_OK;
}

/* Leaves the kept units of a tensor, of which only the kept experts are left. `stack` is what it
 * was before. */
static gg_status cut_units(gg_keep_experts *k, const kept_line *l, gg_plan_tensor *pt,
                           const gg_plan_part *stack, const thin_way *way, gg_error *err)
{
    gg_tensor *t = &pt->t;
    gg_anatomy a = gg_anatomy_of(t->name, t->name_len);
    bool bias = false, down = is_down(t, &a);
    if (a.stack == k->dense || (!down && (!l->units || !has_unit_rows(t, &a, &bias)))) return GG_OK;
    unsigned dim = down || bias ? 0 : 1;
    if (!k->units_was) k->units_was = t->dims[0];
    uint64_t left = l->units ? k->units : k->units_was;
    uint64_t parts = t->dims[dim] / k->units_was, n = left * parts; /* gate and up in one */
    if (parts == 0 || t->dims[dim] != parts * k->units_was)
        return gg_fail(err, GG_EFORMAT, "it does not have %llu hidden units",
                       (unsigned long long)k->units_was);
    gg_status st = way->verify ? verify_parts(pt, err) : GG_OK;
    thin_ctx *c = gg_compute_new(way->made, sizeof *c + l->n * n * sizeof *c->left, err);
    if (!c || st != GG_OK) return err->status;
    c->was = *t;
    c->columns = dim == 0;
    c->gains = down ? l->gains : NULL;
    c->kept = l->kept;
    c->matrices = l->n;
    c->n = n;
    for (uint64_t i = 0; i < l->n * n; i++) {
        uint64_t expert = i / n, part = i % n / left, unit = i % left;
        c->left[i] = (l->units ? l->units[expert * left + unit] : (uint32_t)unit) +
                     (uint32_t)(part * k->units_was);
    }
    if (down && k->refit && l->units) st = find_samples(k, t, &c->samples, err);
    if (down && k->refit && st == GG_OK) st = find_fit(k, l, stack, c, err);
    if (st != GG_OK || (!l->units && !c->refit.model)) return st;
    gg_input in = { t->dtype, pt->parts, pt->n_parts };
    t->dims[dim] = n;
    if (st == GG_OK) st = gg_compute_input(&c->base, &in, err);
    if (st == GG_OK)
        st = gg_tensor_extent(t->dtype, t->n_dims, t->dims, &t->elements, &t->bytes, err);
    if (st == GG_OK && c->columns) st = gg_compute_check_decode(t, &in, err);
    if (st == GG_OK && c->columns) st = gg_compute_check_output(t, NULL, err);
    free(pt->parts);
    pt->parts = NULL;
    pt->n_parts = 0;
    pt->make = make_thin;
    pt->ctx = c;
    return st;
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
        if (st == GG_OK && gg_counts_experts(t, &a)) st = check_kept(k, t, (uint64_t)a.block, err);
        if (st != GG_OK) return gg_at_tensor(err, t->name, t->name_len);
    }
    if (k->was == 0) return gg_fail(err, GG_NO, "the model has no stacks of experts");
    for (size_t i = 0; i < k->n; i++)
        if (!k->lines[i].used)
            return gg_fail(err, GG_NO, "%s lists block %llu, which has no experts", k->text,
                           (unsigned long long)k->lines[i].block);
    return GG_OK;
}

gg_status gg_keep_experts_cut(gg_keep_experts *k, gg_plan *p, gg_computations *made, gg_error *err)
{
    const thin_way way = { made, p->verify };
    gg_status st = k->dense ? GG_OK : check_kept_all(k, p, err);
    for (size_t i = 0; i < p->n && st == GG_OK; i++) {
        gg_plan_tensor *pt = &p->tensors[i];
        gg_anatomy a = gg_anatomy_of(pt->t.name, pt->t.name_len);
        const kept_line *l = a.block < 0 ? NULL : line_of(k, (uint64_t)a.block);
        gg_plan_part first = pt->n_parts ? pt->parts[0] : (gg_plan_part){ 0 };
        if (l && !k->dense && k->left != k->was && gg_counts_experts(&pt->t, &a))
            st = cut_experts(pt, k->was, l->kept, l->n, p->verify, err);
        if (st == GG_OK && l && (l->units || k->refit)) st = cut_units(k, l, pt, &first, &way, err);
        if (st != GG_OK) fail_at(&pt->t, err);
    }
    if (st != GG_OK || !k->refit || k->refitted) return st;
    if (k->unfit)
        return gg_fail(err, GG_NO, "the outputs of removed experts cannot be replaced: %s",
                       k->unfit);
    gg_fail(err, GG_NO, "it has no samples of the model's hidden units");
    gg_fix(err, "write the activations of this model with organ-probe");
    return gg_at_file(err, gg_source_name(k->refit));
}

/* The length of the FFNs that lose units. */
static gg_status set_unit_count(const gg_keep_experts *k, gg_meta *meta, const gg_run *run,
                                gg_error *err)
{
    char key[160];
    uint64_t now = 0;
    bool own = !k->dense && gg_arch_key(meta, "expert_feed_forward_length", key, sizeof key) &&
               gg_meta_find(meta, key);
    if (!own && !gg_arch_key(meta, "feed_forward_length", key, sizeof key)) return GG_OK;
    const gg_kv *kv = gg_meta_find(meta, key);
    if (!kv || !gg_kv_u64(kv, &now) || now != k->units_was) {
        gg_fail(err, GG_EUNSUPPORTED, "%s is not %llu, the number of units of the FFNs", key,
                (unsigned long long)k->units_was);
        return gg_fix(err, "units can be removed only where all blocks have as many");
    }
    gg_note(run, "%llu of %llu hidden units per %s are left", (unsigned long long)k->units,
            (unsigned long long)k->units_was, k->dense ? "block" : "expert");
    return gg_meta_set_u32(meta, key, (uint32_t)k->units, err);
}

gg_status gg_keep_experts_keys(const gg_keep_experts *k, gg_meta *meta, const gg_run *run,
                               gg_error *err)
{
    gg_status st = k->units ? set_unit_count(k, meta, run, err) : GG_OK;
    if (k->unfit) gg_note(run, "the outputs of removed experts are not replaced: %s", k->unfit);
    if (st != GG_OK || k->left == k->was) return st;
    st = check_expert_keys(meta, k->was, k->left, run, err);
    return st == GG_OK ? gg_set_expert_count(meta, k->left, err) : st;
}

/* ---- the importance matrix of the new model ------------------------------------------------ */

/* The experts of a stack that was put together from single ones. */
static void joined_experts(const gg_plan_tensor *pt, uint64_t *experts)
{
    for (size_t i = 0; i < pt->n_parts; i++) {
        const gg_plan_part *p = &pt->parts[i];
        experts[i] = (uint64_t)gg_source_anatomy(p->source, p->index).expert;
    }
}

/* Plans the entry of a tensor, of which some experts and units are left. */
static gg_status follow_entry(const gg_keep_experts *k, const gg_imatrix *im,
                              const gg_plan_tensor *pt, gg_imatrix_file *file, gg_error *err)
{
    const gg_tensor *t = &pt->t;
    gg_tensor was = *t;
    gg_imatrix_cut cut = { .was = &was };
    gg_anatomy a = gg_anatomy_of(t->name, t->name_len);
    const kept_line *l = k && a.block >= 0 ? line_of(k, (uint64_t)a.block) : NULL;
    uint64_t n, *single = NULL;
    bool stack = gg_is_expert_stack(t, &n);
    if (!k && stack && pt->n_parts == n && n > 0 &&
        gg_source_anatomy(pt->parts->source, pt->parts->index).expert >= 0) {
        const gg_meta *meta = gg_source_meta(pt->parts->source);
        cut.matrices = single = calloc(n, sizeof *single);
        if (!single) return gg_fail(err, GG_ENOMEM, "no memory for an importance matrix");
        joined_experts(pt, single);
        was.dims[experts_dim(t)] = gg_arch_number(meta, "expert_count");
    }
    if (l && !k->dense && stack) {
        was.dims[experts_dim(t)] = k->was;
        cut.matrices = l->kept;
    }
    if (l && l->units && is_down(t, &a)) {
        was.dims[0] = k->units_was;
        cut.columns = l->units;
    }
    gg_status st = gg_imatrix_file_cut(file, im, t, &cut, err);
    free(single);
    return st;
}

gg_status gg_keep_experts_imatrix(const gg_keep_experts *k, const gg_plan *p, gg_imatrix *im,
                                  const char *output, const gg_run *run, gg_error *err)
{
    gg_imatrix_file file = { .from = &im, .n_from = 1 };
    gg_status st = GG_OK;
    for (size_t i = 0; i < p->n && st == GG_OK; i++)
        st = follow_entry(k, im, &p->tensors[i], &file, err);
    if (st == GG_OK) st = gg_imatrix_file_write(&file, output, false, run, err);
    gg_imatrix_file_free(&file);
    return st;
}

/* ---- ranking ----------------------------------------------------------------------------- */

#define PIECE 65536 /* values read and decoded at once; a multiple of every block length */
#define SPLITS 16   /* most candidates for a share */

/* A stack of matrices, one per expert, or the one matrix of a dense FFN. */
typedef struct expert_stack {
    const gg_plan_tensor *pt;
    uint64_t block, experts, columns;
    bool weighed, down; /* the importance matrix has it; its columns are hidden units */
    /* The squared norm of each column of each expert. After scoring it is kept for down
     * projections alone. */
    float *norms;
    double *scores; /* one per expert */
} expert_stack;

typedef struct ranking {
    const gg_expert_choice *o;
    expert_stack *stacks; /* sorted by block when they have been found */
    size_t n;
    uint64_t keep, units, groups, used;
    bool dense;
    gg_keep_experts *out;
} ranking;

/* Adds up the squares of one expert's columns. */
static gg_status read_norms(const expert_stack *s, uint64_t expert, double *sums, gg_error *err)
{
    const gg_tensor *t = &s->pt->t;
    uint64_t n = t->elements / s->experts, first = expert * gg_encoded_bytes(t->dtype, n);
    float *x = malloc(PIECE * sizeof *x);
    uint8_t *raw = malloc((size_t)gg_encoded_bytes(t->dtype, PIECE));
    gg_status st = x && raw ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory to read experts");
    memset(sums, 0, s->columns * sizeof *sums);
    size_t k = 0;
    for (; k + 1 < s->pt->n_parts && first >= s->pt->parts[k].bytes; k++)
        first -= s->pt->parts[k].bytes;
    const gg_plan_part *part = &s->pt->parts[k];
    gg_data d;
    if (st == GG_OK) st = gg_data_open(part->source, part->index, &d, err);
    bool opened = st == GG_OK;
    for (uint64_t at = 0; at < n && st == GG_OK; at += PIECE) {
        size_t got = n - at < PIECE ? (size_t)(n - at) : PIECE;
        st = gg_cancelled(err);
        if (st == GG_OK)
            st = gg_data_read(&d, part->at + first + gg_encoded_bytes(t->dtype, at), raw,
                              (size_t)gg_encoded_bytes(t->dtype, got), err);
        if (st == GG_OK) st = gg_decode(t->dtype, raw, x, got, err);
        for (size_t i = 0; i < got && st == GG_OK; i++)
            sums[(at + i) % s->columns] += (double)x[i] * (double)x[i];
    }
    if (opened) gg_data_close(&d);
    free(x);
    free(raw);
    return st;
}

/* The mean square of each column's inputs over all tokens; NULL = 1 for each. */
static gg_status open_weights(const expert_stack *s, const gg_imatrix *imatrix, gg_importance *w,
                              gg_error *err)
{
    gg_tensor t = s->pt->t;
    *w = (gg_importance){ 0 };
    return imatrix ? gg_imatrix_read_per_token(imatrix, &t, w, err) : GG_OK;
}

static double unit_score(const expert_stack *s, const gg_importance *w, uint64_t i)
{
    return w->mean2 ? (double)w->mean2[i] * (double)s->norms[i] : (double)s->norms[i];
}

static gg_status score_stack(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    (void)worker;
    const ranking *r = ctx;
    expert_stack *s = &r->stacks[i];
    const gg_tensor *t = &s->pt->t;
    const gg_dtype_info *info = gg_dtype_get(t->dtype);
    double *sums = malloc(s->columns * sizeof *sums);
    gg_importance w = { 0 };
    gg_status st = GG_OK;
    s->norms = malloc(s->experts * s->columns * sizeof *s->norms);
    if (!sums || !s->norms) st = gg_fail(err, GG_ENOMEM, "no memory to read experts");
    if (st == GG_OK && (!gg_can_decode(t->dtype) || t->elements / s->experts % info->block_elems))
        st = gg_fail(err, GG_EUNSUPPORTED,
                     "its values cannot be decoded, so its experts cannot be "
                     "ranked");
    if (st == GG_OK && s->weighed) st = open_weights(s, r->o->imatrix, &w, err);
    for (uint64_t e = 0; e < s->experts && st == GG_OK; e++) {
        st = read_norms(s, e, sums, err);
        for (uint64_t j = 0; j < s->columns && st == GG_OK; j++) {
            s->norms[e * s->columns + j] = (float)sums[j];
            s->scores[e] += unit_score(s, &w, e * s->columns + j);
        }
    }
    if (!s->down) {
        free(s->norms);
        s->norms = NULL;
    }
    free(sums);
    gg_importance_free(&w);
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
    uint64_t experts;
    r->stacks = calloc(p->n ? p->n : 1, sizeof *r->stacks);
    r->dense = r->o->units > 0;
    if (!r->stacks) return gg_fail(err, GG_ENOMEM, "no memory for %zu tensors", p->n);
    for (size_t i = 0; i < p->n && r->dense; i++)
        r->dense = !is_weight_stack(&p->tensors[i].t, &experts);
    for (size_t i = 0; i < p->n && st == GG_OK; i++) {
        const gg_tensor *t = &p->tensors[i].t;
        gg_anatomy a = gg_anatomy_of(t->name, t->name_len);
        expert_stack s = { .pt = &p->tensors[i], .experts = 1, .columns = t->dims[0] };
        s.down = is_down(t, &a);
        if (r->dense ? a.block < 0 || !s.down || t->n_dims != 2 : !is_weight_stack(t, &s.experts))
            continue;
        s.block = (uint64_t)a.block;
        s.scores = calloc(s.experts, sizeof *s.scores);
        if (!s.scores) return gg_fail(err, GG_ENOMEM, "no memory for %zu tensors", p->n);
        r->stacks[r->n++] = s;
        if (r->o->imatrix)
            st = gg_imatrix_check(r->o->imatrix, t, false, &r->stacks[r->n - 1].weighed, err);
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
static gg_status check_coverage(const ranking *r, const gg_run *run, gg_error *err)
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

/* The stack of down projections of a block; NULL if there is none. */
static const expert_stack *down_of(const ranking *r, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++)
        if (r->stacks[i].down) return &r->stacks[i];
    return NULL;
}

/* Checks the stacks of a block. */
static gg_status check_block(const ranking *r, size_t first, size_t end, gg_error *err)
{
    const expert_stack *f = &r->stacks[first], *s = f;
    while (s + 1 < &r->stacks[end] && s->experts == f->experts) s++;
    if (s->experts != f->experts)
        gg_fail(err, GG_EFORMAT, "it is for %llu experts, but other tensors are for %llu",
                (unsigned long long)s->experts, (unsigned long long)f->experts);
    else if (r->units && !down_of(r, first, end))
        gg_fail(err, GG_EUNSUPPORTED, "its block has no down projection");
    else if (r->keep > f->experts)
        return gg_fail(err, GG_NO, "%llu experts cannot be kept: block %llu has %llu",
                       (unsigned long long)r->keep, (unsigned long long)f->block,
                       (unsigned long long)f->experts);
    else return GG_OK;
    return gg_at_tensor(err, s->pt->t.name, s->pt->t.name_len);
}

/* Leaves the stacks that are scored: the down projection of a block if the importance matrix has
 * it, or if it has none of the block; otherwise those that it has. Units need the down projection.
 */
static gg_status choose_stacks(ranking *r, gg_error *err)
{
    gg_status st = GG_OK;
    size_t n = 0;
    for (size_t first = 0; first < r->n && st == GG_OK; first = block_end(r, first))
        st = check_block(r, first, block_end(r, first), err);
    if (st != GG_OK) return st;
    for (size_t first = 0, end; first < r->n; first = end) {
        const expert_stack *down = down_of(r, first, end = block_end(r, first));
        bool any = false;
        for (size_t i = first; i < end; i++) any = any || r->stacks[i].weighed;
        bool alone = down && (r->units || down->weighed || !any);
        for (size_t i = first; i < end; i++) {
            expert_stack s = r->stacks[i];
            if (alone ? !s.down : any && !s.weighed) free(s.scores);
            else r->stacks[n++] = s;
        }
    }
    r->n = n;
    return GG_OK;
}

/* Adds up the scores of a block's stacks in the first of them. Refuses a block without any. */
static gg_status sum_up(const ranking *r, size_t first, size_t end, gg_error *err)
{
    expert_stack *s = &r->stacks[first];
    double all = 0;
    for (size_t i = first + 1; i < end; i++)
        for (uint64_t e = 0; e < s->experts; e++) s->scores[e] += r->stacks[i].scores[e];
    for (uint64_t e = 0; e < s->experts; e++) all += s->scores[e];
    if (all > 0) return GG_OK;
    gg_fail(err, GG_NO, "the importance matrix counts no inputs for any expert of block %llu",
            (unsigned long long)s->block);
    return gg_fix(err, "compute it on a text that uses the model");
}

/* ---- scores from a table ------------------------------------------------------------------ */

/* "3<TAB>17<TAB>0.25": block, expert, score */
static gg_status read_score(void *ctx, char *text, size_t number, gg_error *err)
{
    const ranking *r = ctx;
    unsigned long long block, expert;
    double score;
    char rest;
    text[strcspn(text, "\r")] = '\0';
    if (text[0] == '\0' || (number == 1 && strncmp(text, "block\t", 6) == 0)) return GG_OK;
    if (sscanf(text, "%10llu\t%10llu\t%lf%c", &block, &expert, &score, &rest) != 3 ||
        !(score >= 0) || isinf(score))
        return gg_fail(err, GG_EUSAGE, "line %zu: expected block, tab, expert, tab, score", number);
    size_t i = 0;
    while (i < r->n && r->stacks[i].block != block) i++;
    if (i == r->n || expert >= r->stacks[i].experts)
        return gg_fail(err, GG_NO, "line %zu: the model has no expert %llu in block %llu", number,
                       expert, block);
    r->stacks[i].scores[expert] = score;
    return GG_OK;
}

/* One value per expert from a file of activations. */
static gg_status read_expert_values(gg_source *s, const expert_stack *k, const char *suffix,
                                    float *out, gg_error *err)
{
    char name[96];
    int len = snprintf(name, sizeof name, "blk.%llu.ffn_down_exps.weight.%s",
                       (unsigned long long)k->block, suffix);
    size_t at = gg_source_find(s, name, (size_t)len);
    const gg_tensor *t = at == SIZE_MAX ? NULL : gg_source_tensor(s, at);
    gg_data d;
    if (!t || t->dtype != GG_F32 || t->elements != k->experts) {
        gg_fail(err, GG_NO, "it has no %s with one value per expert", name);
        gg_fix(err, "write it with organ-probe for this model");
        return gg_at_file(err, gg_source_name(s));
    }
    gg_status st = gg_data_open(s, at, &d, err);
    if (st != GG_OK) return st;
    st = gg_data_read(&d, 0, out, (size_t)k->experts * sizeof *out, err);
    gg_data_close(&d);
    return st;
}

/* Scores from a file of activations: the mean length of the weighted outputs of an expert on the
 * tokens that chose it (REAP). */
static gg_status read_activations(const ranking *r, gg_source *s, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < r->n && st == GG_OK; i++) {
        const expert_stack *k = &r->stacks[i];
        float *norms = calloc(2 * (size_t)k->experts, sizeof *norms);
        if (!norms) return gg_fail(err, GG_ENOMEM, "no memory for experts");
        float *counts = norms + k->experts;
        st = read_expert_values(s, k, "weighted_norm", norms, err);
        if (st == GG_OK) st = read_expert_values(s, k, "counts", counts, err);
        for (uint64_t e = 0; e < k->experts && st == GG_OK; e++)
            k->scores[e] = counts[e] > 0 ? (double)norms[e] / (double)counts[e] : 0;
        free(norms);
    }
    return st;
}

static bool is_gguf(const char *path)
{
    char magic[4] = "";
    FILE *f = fopen(path, "rb");
    bool is = f && fread(magic, 1, 4, f) == 4 && memcmp(magic, "GGUF", 4) == 0;
    if (f) fclose(f);
    return is;
}

static gg_status read_scores(ranking *r, gg_error *err)
{
    if (is_gguf(r->o->scores)) {
        gg_source *s = NULL;
        gg_status st = gg_source_open(r->o->scores, &s, err);
        if (st == GG_OK) st = read_activations(r, s, err);
        gg_source_close(s);
        return st;
    }
    const gg_lines from = { r->o->scores, "the scores of the experts", LIST_MAX };
    for (size_t i = 0; i < r->n; i++)
        for (uint64_t e = 0; e < r->stacks[i].experts; e++) r->stacks[i].scores[e] = NAN;
    gg_status st = gg_each_line(&from, read_score, r, err);
    for (size_t i = 0; i < r->n && st == GG_OK; i++)
        for (uint64_t e = 0; e < r->stacks[i].experts && st == GG_OK; e++)
            if (isnan(r->stacks[i].scores[e])) {
                st = gg_fail(err, GG_NO, "it has no score for expert %llu of block %llu",
                             (unsigned long long)e, (unsigned long long)r->stacks[i].block);
                gg_at_file(err, r->o->scores);
            }
    return st;
}

/* ---- choosing ----------------------------------------------------------------------------- */

typedef struct candidate {
    double score;
    uint64_t expert; /* or unit */
} candidate;

static int by_score(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->expert < y->expert ? -1 : x->expert > y->expert;
}

/* The units of an expert, the best first. */
static void sort_units(const expert_stack *s, const gg_importance *w, uint64_t expert, candidate *c)
{
    for (uint64_t j = 0; j < s->columns; j++)
        c[j] = (candidate){ unit_score(s, w, expert * s->columns + j), j };
    qsort(c, s->columns, sizeof *c, by_score);
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

/* Lists the experts of a block that are kept: as the user listed them, or the best. */
static gg_status keep_experts_of(const ranking *r, const expert_stack *s, kept_line *l,
                                 gg_error *err)
{
    gg_status st = GG_OK;
    uint64_t keep = r->keep ? r->keep : s->experts;
    l->kept = calloc(s->experts + 1, sizeof *l->kept);
    if (!l->kept) return gg_fail(err, GG_ENOMEM, "no memory for experts");
    kept_line *listed = r->o->listed ? line_of(r->o->listed, s->block) : NULL;
    if (r->o->listed && !listed)
        return gg_fail(err, GG_NO, "%s has no line for block %llu", r->o->listed->text,
                       (unsigned long long)s->block);
    if (listed) {
        st = list_kept(listed, s->experts, err);
        if (st == GG_OK) memcpy(l->kept, listed->kept, listed->n * sizeof *l->kept);
        l->n = listed->n;
        return st;
    }
    bool even = r->groups > 1 && keep % r->groups == 0 && s->experts % r->groups == 0;
    uint64_t groups = even ? r->groups : 1, size = s->experts / groups;
    for (uint64_t g = 0; g < groups && st == GG_OK; g++)
        st = keep_best(s, g * size, (g + 1) * size, keep / groups, l, err);
    qsort(l->kept, l->n, sizeof *l->kept, by_u64);
    return st;
}

static int by_u32(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Chooses the units of each expert that is kept. Its down projection gets a gain that keeps the
 * mean square of its output, because the outputs of units are correlated: the remaining ones do
 * a part of what the removed ones did. */
static gg_status keep_units_of(const ranking *r, const expert_stack *s, kept_line *l, gg_error *err)
{
    gg_importance w;
    candidate *c = calloc(s->columns, sizeof *c);
    l->units = calloc(l->n * r->units + 1, sizeof *l->units);
    l->gains = calloc(l->n + 1, sizeof *l->gains);
    gg_status st = c && l->units && l->gains ? GG_OK
                                             : gg_fail(err, GG_ENOMEM, "no memory for units");
    if (st == GG_OK) st = open_weights(s, s->weighed ? r->o->imatrix : NULL, &w, err);
    for (size_t i = 0; i < l->n && st == GG_OK; i++) {
        uint32_t *units = l->units + i * r->units;
        double kept = 0, all = 0;
        sort_units(s, &w, l->kept[i], c);
        for (uint64_t j = 0; j < r->units; j++) units[j] = (uint32_t)c[j].expert;
        for (uint64_t j = 0; j < s->columns; j++) {
            all += c[j].score;
            kept += j < r->units ? c[j].score : 0;
        }
        l->gains[i] = kept > 0 ? (float)sqrt(all / kept) : 1;
        qsort(units, r->units, sizeof *units, by_u32);
    }
    if (st == GG_OK) gg_importance_free(&w);
    free(c);
    return st;
}

/* The score that the best units of each expert keep, for each of n numbers of units: top[e * n +
 * k].
 */
static gg_status top_units(const ranking *r, const expert_stack *s, const uint64_t *units, size_t n,
                           double *top, gg_error *err)
{
    gg_importance w;
    candidate *c = calloc(s->columns, sizeof *c);
    gg_status st = c ? open_weights(s, s->weighed ? r->o->imatrix : NULL, &w, err)
                     : gg_fail(err, GG_ENOMEM, "no memory for units");
    if (st != GG_OK) return free(c), st;
    for (uint64_t e = 0; e < s->experts; e++) {
        double sum = 0;
        sort_units(s, &w, e, c);
        for (uint64_t j = 0; j < s->columns; j++) {
            for (size_t k = 0; k < n; k++)
                if (j == units[k]) top[e * n + k] = sum;
            sum += c[j].score;
        }
        for (size_t k = 0; k < n; k++) {
            if (units[k] >= s->columns) top[e * n + k] = sum;
            if (r->o->scores) top[e * n + k] *= sum > 0 ? s->scores[e] / sum : 0;
        }
    }
    gg_importance_free(&w);
    free(c);
    return GG_OK;
}

/* The share of a block's score that the `keep` best experts hold. */
static double best_share(const expert_stack *s, const double *top, size_t n, uint64_t keep,
                         candidate *room)
{
    double all = 0, kept = 0;
    for (uint64_t e = 0; e < s->experts; e++) {
        all += s->scores[e];
        room[e] = (candidate){ top[e * n], e };
    }
    qsort(room, s->experts, sizeof *room, by_score);
    for (uint64_t e = 0; e < keep && e < s->experts; e++) kept += room[e].score;
    return kept / all;
}

/* How many experts are kept, and how many units of each. */
typedef struct split {
    uint64_t experts[SPLITS], units[SPLITS];
    double share[SPLITS];
    size_t n;
} split;

/* Chooses the split with the largest mean share, and scores the experts by the units that they
 * keep. */
static gg_status choose_split(ranking *r, split *c, const gg_run *run, gg_error *err)
{
    uint64_t experts = r->stacks[0].experts;
    double *top = calloc(experts * c->n + 1, sizeof *top);
    candidate *room = calloc(experts, sizeof *room);
    gg_status st = top && room ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for units");
    size_t best = 0;
    for (size_t i = 0; i < r->n && st == GG_OK; i++) {
        st = top_units(r, &r->stacks[i], c->units, c->n, top, err);
        for (size_t k = 0; k < c->n && st == GG_OK; k++)
            c->share[k] += best_share(&r->stacks[i], top + k, c->n, c->experts[k], room) /
                           (double)r->n;
    }
    for (size_t k = 1; k < c->n; k++)
        if (c->share[k] > c->share[best]) best = k;
    for (size_t k = 0; k < c->n && st == GG_OK && r->o->share > 0; k++)
        gg_note(run, "%llu experts of %llu units keep %.1f %% of the score%s",
                (unsigned long long)c->experts[k], (unsigned long long)c->units[k],
                100 * c->share[k], k == best ? " (chosen)" : "");
    r->keep = c->experts[best];
    r->units = c->units[best];
    for (size_t i = 0; i < r->n && st == GG_OK; i++) {
        st = top_units(r, &r->stacks[i], c->units, c->n, top, err);
        for (uint64_t e = 0; e < experts && st == GG_OK; e++)
            r->stacks[i].scores[e] = top[e * c->n + best];
    }
    free(top);
    free(room);
    return st;
}

/* Lists the candidates: one number of units, or all splits of a share of the experts' weights. */
static gg_status list_splits(const ranking *r, split *c, const gg_run *run, gg_error *err)
{
    const expert_stack *s = &r->stacks[0];
    uint64_t least = r->keep   ? r->keep
                     : r->used ? r->used
                               : 1,
             most = r->keep ? r->keep : s->experts;
    uint64_t step = (most - least) / SPLITS + 1;
    for (size_t i = 0; i < r->n; i++)
        if (r->stacks[i].columns != s->columns || r->stacks[i].experts != s->experts) {
            gg_fail(err, GG_EUNSUPPORTED, "it has other numbers of experts or units than %s",
                    s->pt->t.name);
            return gg_at_tensor(err, r->stacks[i].pt->t.name, r->stacks[i].pt->t.name_len);
        }
    uint64_t block = 1;
    for (size_t i = 0; i < r->n; i++) {
        uint64_t b = gg_dtype_get(r->stacks[i].pt->t.dtype)->block_elems;
        block = b > block ? b : block;
    }
    for (uint64_t k = r->o->share > 0 ? least : most; k <= most; k += step) {
        double exact = r->o->share * (double)s->experts * (double)s->columns / (double)k;
        uint64_t wanted = r->o->share > 0 ? (uint64_t)(exact + 1e-6) : r->o->units;
        uint64_t units = wanted / block * block;
        if (r->o->share > 0 && (wanted > s->columns || units == 0)) continue;
        if (wanted > s->columns || units == 0)
            return gg_fail(err, GG_NO,
                           "%llu units cannot be kept: there are %llu, and %s has blocks of %llu",
                           (unsigned long long)wanted, (unsigned long long)s->columns,
                           gg_dtype_get(s->pt->t.dtype)->name, (unsigned long long)block);
        if (units != wanted && r->o->share <= 0)
            gg_note(run, "%llu units are kept instead of %llu: %s has blocks of %llu",
                    (unsigned long long)units, (unsigned long long)wanted,
                    gg_dtype_get(s->pt->t.dtype)->name, (unsigned long long)block);
        c->experts[c->n] = k;
        c->units[c->n++] = units;
    }
    return c->n ? GG_OK : gg_fail(err, GG_NO, "no number of experts and units fits this share");
}

static gg_status keep_blocks(ranking *r, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < r->n && st == GG_OK; i++) {
        const expert_stack *s = &r->stacks[i];
        kept_line *l = NULL;
        st = add_line(r->out, s->block, &l, err);
        if (st == GG_OK) st = keep_experts_of(r, s, l, err);
        if (st == GG_OK && r->units && r->units < s->columns) st = keep_units_of(r, s, l, err);
    }
    if (st != GG_OK) return st;
    r->out->dense = r->dense;
    r->out->refit = r->o->refit;
    r->out->units_was = r->stacks[0].down ? r->stacks[0].columns : 0; /* 0: not known yet */
    r->out->units = r->units < r->out->units_was ? r->units : 0;
    return GG_OK;
}

/* ---- what texts lose ---------------------------------------------------------------------- */

/* ", without experts 1, 5": those that go; "" if none do. */
static void name_removed(const kept_line *l, uint64_t experts, char *out, size_t size)
{
    size_t n = 0, k = 0;
    out[0] = '\0';
    for (uint64_t e = 0; e < experts && n + 40 < size; e++) {
        if (k < l->n && l->kept[k] == e) k++;
        else
            n += (size_t)snprintf(out + n, size - n, "%s %llu", n ? "," : ", without experts",
                                  (unsigned long long)e);
    }
    if (n + 40 >= size) snprintf(out + n, size - n, " ...");
}

/* Notes the share of a text's score that the kept experts and units of a block hold, and experts
 * that are dropped although the text uses them much. */
static gg_status report_text(const ranking *r, size_t i, const gg_imatrix *text, const gg_run *run,
                             gg_error *err)
{
    const expert_stack *s = &r->stacks[i];
    const kept_line *l = &r->out->lines[i];
    const char *name = gg_imatrix_info_of(text).file;
    gg_importance w;
    double all = 0, kept = 0, worst = 0;
    uint64_t lost = 0, units = r->out->units;
    char without[1024];
    gg_status st = open_weights(s, text, &w, err);
    if (st != GG_OK || !w.mean2) return st;
    size_t k = 0;
    for (uint64_t e = 0; e < s->experts; e++) {
        double whole = 0;
        bool keeps = k < l->n && l->kept[k] == e;
        for (uint64_t j = 0; j < s->columns; j++) whole += unit_score(s, &w, e * s->columns + j);
        for (uint64_t j = 0; keeps && l->units && j < units; j++)
            kept += unit_score(s, &w, e * s->columns + l->units[k * units + j]);
        if (keeps && !l->units) kept += whole;
        if (!keeps && whole > worst) worst = whole, lost = e;
        all += whole;
        k += keeps;
    }
    gg_importance_free(&w);
    if (!(all > 0)) return GG_OK;
    name_removed(l, s->experts, without, sizeof without);
    gg_note(run, "%s: block %llu keeps %.1f %% of its score%s", name, (unsigned long long)s->block,
            100 * kept / all, without);
    if (worst / all >= 0.15)
        gg_note(run, "%s: expert %llu of block %llu is removed, but carries %.1f %% of the score",
                name, (unsigned long long)lost, (unsigned long long)s->block, 100 * worst / all);
    return GG_OK;
}

/* Notes the experts that go, if that is wanted, and what that means for the texts. */
static gg_status report_texts(const ranking *r, const gg_run *run, gg_error *err)
{
    const gg_expert_choice *o = r->o;
    bool scored = o->imatrix && !o->scores; /* by the first text */
    char without[1024];
    gg_status st = GG_OK;
    for (size_t i = 0; i < r->n && o->tell && !scored; i++) {
        const kept_line *l = &r->out->lines[i];
        name_removed(l, r->stacks[i].experts, without, sizeof without);
        gg_note(run, "block %llu keeps %zu of %llu experts%s", (unsigned long long)l->block, l->n,
                (unsigned long long)r->stacks[i].experts, without);
    }
    for (size_t i = 0; i < r->n * (o->n_texts + 1) && st == GG_OK; i++) {
        const gg_imatrix *text = i < r->n ? o->imatrix : o->texts[i / r->n - 1];
        if (r->stacks[i % r->n].down && (i < r->n ? o->tell && scored : true))
            st = report_text(r, i % r->n, text, run, err);
    }
    return st;
}

/* Scores all experts, and leaves one stack per block, which has their scores. *all is the number of
 * stacks to free. */
static gg_status score_blocks(ranking *r, size_t *all, const gg_run *run, gg_error *err)
{
    bool by_weights = !r->o->scores || r->units;
    gg_status st = by_weights && r->o->imatrix ? check_coverage(r, run, err) : GG_OK;
    if (st == GG_OK) st = choose_stacks(r, err);
    *all = r->n;
    if (st == GG_OK && (by_weights || r->o->n_texts))
        st = gg_parallel(r->n, run->threads, score_stack, r, err);
    size_t blocks = 0;
    for (size_t first = 0, end; first < *all && st == GG_OK; first = end) {
        end = block_end(r, first);
        if (by_weights) st = sum_up(r, first, end, err);
        expert_stack s = r->stacks[first];
        r->stacks[first] = r->stacks[blocks];
        r->stacks[blocks++] = s;
    }
    if (st != GG_OK) return st;
    r->n = blocks;
    return r->o->scores ? read_scores(r, err) : GG_OK;
}

static gg_status read_keep(ranking *r, gg_error *err)
{
    const char *number = r->o->number;
    char *end;
    errno = 0;
    r->keep = strtoull(number, &end, 10);
    if (number[strspn(number, "0123456789")] == '\0' && r->keep > 0 && !errno) return GG_OK;
    return gg_fail(err, GG_EUSAGE,
                   "'%s' is not a number of experts to keep by importance, such as 32", number);
}

gg_status gg_rank_experts(const gg_plan *p, const gg_meta *meta, const gg_expert_choice *o,
                          gg_keep_experts **keep, const gg_run *run, gg_error *err)
{
    ranking r = { .o = o, .units = o->units || o->share > 0 };
    split c = { .n = 0 };
    if (o->number && read_keep(&r, err) != GG_OK) return err->status;
    if (p->pipe) {
        gg_fail(err, GG_EUSAGE, "a pipe can be read only once, but experts are ranked first");
        return gg_fix(err, "store the model in a file");
    }
    gg_status st = expert_number(meta, "expert_group_count", &r.groups, err);
    if (st == GG_OK) st = expert_number(meta, "expert_used_count", &r.used, err);
    if (st == GG_OK) st = new_list(o->number ? o->number : "", keep, err);
    r.out = *keep;
    if (st == GG_OK) r.out->meta = meta;
    if (st == GG_OK) st = find_stacks(&r, p, err);
    size_t all = r.n; /* the stacks that have memory */
    if (st == GG_OK) st = score_blocks(&r, &all, run, err);
    if (st == GG_OK && r.units) st = list_splits(&r, &c, run, err);
    if (st == GG_OK && r.units) st = choose_split(&r, &c, run, err);
    if (st == GG_OK) st = keep_blocks(&r, err);
    if (st == GG_OK) st = report_texts(&r, run, err);
    for (size_t i = 0; i < all; i++) {
        free(r.stacks[i].scores);
        free(r.stacks[i].norms);
    }
    free(r.stacks);
    return st;
}

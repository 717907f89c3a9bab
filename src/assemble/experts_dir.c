/* experts_dir.c - puts the single experts of an organ directory back into stacks. */
#include "experts.h"

#include "base/error.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "quant/quant.h"

#include <stdlib.h>
#include <string.h>

/* An entry of the manifest that is one expert of a stack. */
typedef struct single {
    size_t stack;
    uint64_t expert;
    size_t entry;
} single;

/* A stack, and where its experts are among all single ones. */
typedef struct joined {
    uint64_t block; /* UINT64_MAX = none */
    const gg_stack *of;
    size_t first, n, place; /* place: its first entry, where it is planned */
} joined;

typedef struct directory {
    gg_source *source;
    const gg_manifest *m;
    single *singles; /* sorted by stack and expert */
    size_t n;
    size_t *stack_of; /* per entry: its stack; SIZE_MAX = it is not a single expert */
    joined *stacks;   /* as the manifest lists them */
} directory;

static gg_status fail_stack(const joined *j, gg_error *err)
{
    return gg_at_tensor(err, j->of->t.name, j->of->t.name_len);
}

static int by_stack(const void *a, const void *b)
{
    const single *x = a, *y = b;
    if (x->stack != y->stack) return x->stack < y->stack ? -1 : 1;
    return x->expert < y->expert ? -1 : x->expert > y->expert;
}

static int by_stack_name(const void *a, const void *b)
{
    return strcmp((*(const joined *const *)a)->of->t.name, (*(const joined *const *)b)->of->t.name);
}

static int by_block(const void *a, const void *b)
{
    const joined *x = *(const joined *const *)a, *y = *(const joined *const *)b;
    if (x->block != y->block) return x->block < y->block ? -1 : 1;
    return x < y ? -1 : x > y;
}

static uint64_t experts_of(const joined *j)
{
    const gg_tensor *t = &j->of->t;
    return t->dims[t->n_dims ? t->n_dims - 1 : 0];
}

/* Finds the stack to which an entry belongs, or SIZE_MAX. Uses a binary search, because a manifest
 * may have any number of stacks. */
static size_t find_stack(const directory *d, joined *const *by_name, const gg_entry *e)
{
    char name[GG_RECORD_NAME + 8];
    size_t len;
    const gg_stack wanted = { .t = { .name = name } };
    const joined key = { .of = &wanted }, *k = &key;
    if (!gg_stack_name(e->t.name, e->t.name_len, name, sizeof name, &len)) return SIZE_MAX;
    joined *const *hit = bsearch(&k, by_name, d->m->n_stacks, sizeof *by_name, by_stack_name);
    return hit ? (size_t)(*hit - d->stacks) : SIZE_MAX;
}

/* Adds entry i if it is a single expert. The dtype is that of the first expert, because they may
 * have been re-encoded. */
static gg_status add_single(directory *d, joined *const *by_name, size_t i, gg_error *err)
{
    const gg_entry *e = &d->m->entries[i];
    size_t k = d->stack_of[i] = find_stack(d, by_name, e);
    if (k == SIZE_MAX) return GG_OK;
    joined *j = &d->stacks[k];
    const gg_tensor *of = &j->of->t;
    if (j->n++ == 0) j->place = i;
    bool fits = of->n_dims >= 2 && e->t.n_dims == of->n_dims - 1 &&
                e->t.dtype == d->m->entries[j->place].t.dtype;
    for (uint32_t x = 0; fits && x < e->t.n_dims; x++) fits = e->t.dims[x] == of->dims[x];
    if (!fits) gg_fail(err, GG_EFORMAT, "its dims or dtype differ from those of the other experts");
    else if ((uint64_t)e->t.a.expert >= experts_of(j))
        gg_fail(err, GG_EFORMAT, "its stack never had this expert");
    if (err->status != GG_OK) return gg_at_tensor(err, e->t.name, e->t.name_len);
    d->singles[d->n++] = (single){ k, (uint64_t)e->t.a.expert, i };
    return GG_OK;
}

static gg_status open_directory(directory *d, gg_error *err)
{
    const gg_manifest *m = d->m;
    d->singles = calloc(m->n_entries + 1, sizeof *d->singles);
    d->stack_of = calloc(m->n_entries + 1, sizeof *d->stack_of);
    d->stacks = calloc(m->n_stacks + 1, sizeof *d->stacks);
    joined **by_name = calloc(m->n_stacks + 1, sizeof *by_name);
    if (!d->singles || !d->stack_of || !d->stacks || !by_name) {
        free(by_name);
        return gg_fail(err, GG_ENOMEM, "no memory for experts");
    }
    for (size_t k = 0; k < m->n_stacks; k++) {
        const gg_tensor *t = &m->stacks[k].t;
        d->stacks[k] = (joined){ (uint64_t)t->a.block, &m->stacks[k], 0, 0, 0 };
        by_name[k] = &d->stacks[k];
    }
    qsort(by_name, m->n_stacks, sizeof *by_name, by_stack_name);
    gg_status st = GG_OK;
    for (size_t i = 0; i < m->n_entries && st == GG_OK; i++) st = add_single(d, by_name, i, err);
    free(by_name);
    return st;
}

/* Plans a stack with all the experts that it had: one part for each, and one without a source for
 * those that are missing between them. */
static gg_status join_stack(const directory *d, const joined *j, gg_plan *p, gg_error *err)
{
    const gg_entry *entries = d->m->entries;
    const single *s = d->singles + j->first;
    gg_tensor t = j->of->t;
    gg_plan_tensor *pt;
    uint64_t next = 0, was = experts_of(j), step = entries[s->entry].t.bytes;
    t.dtype = entries[s->entry].t.dtype;
    gg_status st = gg_tensor_extent(t.dtype, t.n_dims, t.dims, &t.elements, &t.bytes, err);
    if (st == GG_OK) st = gg_plan_add(p, &t, &pt, err);
    for (size_t i = 0; i <= j->n && st == GG_OK; i++) {
        uint64_t at = i < j->n ? s[i].expert : was;
        const gg_plan_part hole = { .bytes = (at - next) * step };
        if (at < next) st = gg_fail(err, GG_EFORMAT, "one of its experts appears twice");
        else if (at > next) st = gg_plan_add_part(pt, &hole, err);
        if (st != GG_OK || i == j->n) break;
        const gg_plan_part part = gg_plan_whole(d->source, s[i].entry);
        st = gg_plan_add_part(pt, &part, err);
        next = at + 1;
    }
    return st == GG_OK ? GG_OK : fail_stack(j, err);
}

static gg_status keep_present(const directory *d, const joined *j, gg_keep_experts *k,
                              gg_error *err)
{
    kept_line *l = NULL;
    gg_status st = gg_keep_experts_add(k, j->block, &l, err);
    if (st != GG_OK) return st;
    l->kept = calloc(j->n + 1, sizeof *l->kept);
    if (!l->kept) return gg_fail(err, GG_ENOMEM, "no memory for experts");
    for (; l->n < j->n; l->n++) l->kept[l->n] = d->singles[j->first + l->n].expert;
    return GG_OK;
}

/* Lists the experts of each block, whose stacks must have the same. */
static gg_status list_present(const directory *d, gg_keep_experts *k, gg_error *err)
{
    size_t n = d->m->n_stacks;
    const joined **order = calloc(n + 1, sizeof *order), *first = NULL;
    gg_status st = order ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for experts");
    for (size_t i = 0; order && i < n; i++) order[i] = &d->stacks[i];
    if (order) qsort(order, n, sizeof *order, by_block);
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        const joined *j = order[i];
        if (!first || j->block != first->block) {
            first = j;
            st = keep_present(d, j, k, err);
            continue;
        }
        bool same = j->n == first->n;
        for (size_t e = 0; e < j->n && same; e++)
            same = d->singles[j->first + e].expert == d->singles[first->first + e].expert;
        if (same) continue;
        gg_fail(err, GG_EFORMAT, "it and %.*s do not keep the same experts",
                (int)first->of->t.name_len, first->of->t.name);
        gg_fix(err, "remove each expert from gate, up and down");
        st = fail_stack(j, err);
    }
    free(order);
    return st;
}

/* Cuts the plan to the experts that are there, if some are missing. */
static gg_status cut_missing(const directory *d, gg_plan *p, gg_keep_experts **missing,
                             gg_error *err)
{
    bool whole = true;
    for (size_t k = 0; k < d->m->n_stacks; k++)
        whole = whole && d->stacks[k].n == experts_of(&d->stacks[k]);
    if (whole) return GG_OK;
    gg_status st = gg_keep_experts_new(NULL, missing, err);
    if (st == GG_OK) st = list_present(d, *missing, err);
    if (st == GG_OK) st = gg_keep_experts_cut(*missing, p, err);
    for (size_t i = 0; i < p->n && st == GG_OK; i++)
        for (size_t k = 0; k < p->tensors[i].n_parts; k++)
            if (!p->tensors[i].parts[k].source)
                st = gg_fail(err, GG_EFORMAT, "experts of %.*s are missing, which cannot lose any",
                             (int)p->tensors[i].t.name_len, p->tensors[i].t.name);
    return st;
}

gg_status gg_plan_directory(gg_source *dir, gg_plan *p, gg_keep_experts **missing, gg_error *err)
{
    directory d = { .source = dir, .m = gg_source_manifest(dir) };
    gg_status st = open_directory(&d, err);
    if (st == GG_OK) qsort(d.singles, d.n, sizeof *d.singles, by_stack);
    for (size_t i = d.n; i-- > 0 && st == GG_OK;) d.stacks[d.singles[i].stack].first = i;
    for (size_t i = 0; i < d.m->n_entries && st == GG_OK; i++) {
        const joined *j = d.stack_of[i] != SIZE_MAX ? &d.stacks[d.stack_of[i]] : NULL;
        if (!j) st = gg_plan_add_copy(p, dir, i, err);
        else if (j->place == i) st = join_stack(&d, j, p, err);
    }
    if (st == GG_OK) st = cut_missing(&d, p, missing, err);
    free(d.singles);
    free(d.stack_of);
    free(d.stacks);
    return st;
}

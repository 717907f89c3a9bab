/* compare_pair.c - pairs the tensors of two models. */
#include "compare_core.h"

#include "base/grow.h"
#include "numeric/numeric.h"
#include "organ/record.h"
#include "organ/select.h"
#include "organ/tensor_names.h"

#include <stdlib.h>
#include <string.h>

void gg_selected_copy(gg_selected *to, const gg_selected *from)
{
    *to = *from;
    if (from->t.name == from->name) to->t.name = to->name;
}

/* ---- looking up ----------------------------------------------------------------- */

static bool splits(const gg_compare_options *o)
{
    return o->split_experts || gg_select_has_experts(o->select);
}

/* Finds the piece of `other` with this name: a tensor, or an expert in a stack. */
static bool find_piece(const compare_pairer *pr, const gg_selected *like, const char *name,
                       size_t len, gg_selected *out)
{
    char stack[GG_RECORD_NAME + 8];
    size_t stack_len, i = gg_source_find(pr->other, name, len);
    *out = (gg_selected){ .source = i };
    if (i != SIZE_MAX) {
        const gg_tensor *t = gg_source_tensor(pr->other, i);
        out->t = *t;
        memcpy(out->name, t->name, t->name_len + 1);
    } else {
        if (!splits(pr->o) || !gg_stack_name(name, len, stack, sizeof stack, &stack_len))
            return false;
        out->source = gg_source_find(pr->other, stack, stack_len);
        if (out->source == SIZE_MAX) return false;
        const gg_tensor *t = gg_source_tensor(pr->other, out->source);
        uint64_t experts;
        if (!gg_is_expert_stack(t, &experts) ||
            !gg_expert_tensor(t, experts, (uint64_t)like->a.expert, &out->t, out->name))
            return false;
        out->expert = true;
        out->at = (uint64_t)like->a.expert * out->t.bytes;
    }
    out->t.name = out->name;
    out->a = gg_anatomy_of(out->name, out->t.name_len);
    out->a.cls = gg_source_anatomy(pr->other, out->source).cls;
    return true;
}

/* ---- pairs of the lead ------------------------------------------------------------ */

static gg_status note_used(compare_pairer *pr, const gg_selected *p, gg_error *err)
{
    compare_key *grown = gg_grow(pr->used, pr->n_used, &pr->cap_used, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    pr->used = grown;
    pr->used[pr->n_used++] = (compare_key){ p->source, p->at };
    return GG_OK;
}

/* Adds a block to the list unless it is already the last one. The tensors of a block are usually
 * adjacent, so this keeps the list short, although it may contain a block more than once. */
static gg_status note_donor(compare_pairer *pr, int64_t block, gg_error *err)
{
    if (pr->n_donors && pr->donors[pr->n_donors - 1] == block) return GG_OK;
    int64_t *grown = gg_grow(pr->donors, pr->n_donors, &pr->cap_donors, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    pr->donors = grown;
    pr->donors[pr->n_donors++] = block;
    return GG_OK;
}

static gg_status pair_selected(void *ctx, const gg_selected *p, gg_error *err)
{
    compare_pairer *pr = ctx;
    char mapped[GG_RECORD_NAME + 32];
    const char *name = p->name;
    size_t len = p->t.name_len;
    if (pr->o->map) {
        int64_t donor = gg_map_donor(pr->o->map, p->a.block);
        if (donor < 0 || !gg_name_with_block(name, len, donor, mapped, sizeof mapped, &len))
            return GG_OK;
        name = mapped;
        gg_status st = note_donor(pr, donor, err);
        if (st != GG_OK) return st;
    }
    compare_pair c = { .has_a = true, .has_b = true };
    gg_selected *mine = pr->b_leads ? &c.b : &c.a, *theirs = pr->b_leads ? &c.a : &c.b;
    gg_selected_copy(mine, p);
    bool found = find_piece(pr, p, name, len, theirs);
    if (found) {
        gg_status st = note_used(pr, theirs, err);
        if (st != GG_OK) return st;
    } else if (pr->b_leads) {
        c.has_a = false;
    } else {
        c.has_b = false;
    }
    return pr->fn(pr->ctx, &c, err);
}

gg_status gg_pair_lead(compare_pairer *pr, size_t i, gg_error *err)
{
    gg_visit visit = { pr->o->select, pr->o->split_experts, pair_selected, pr };
    return gg_selected_of(pr->lead, i, &visit, err);
}

/* ---- tensors only in the other source ----------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    const compare_key *x = a, *y = b;
    if (x->source != y->source) return x->source < y->source ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static int by_block(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static bool is_donor(const compare_pairer *pr, int64_t block)
{
    return pr->n_donors && bsearch(&block, pr->donors, pr->n_donors, sizeof block, by_block);
}

static gg_status rest_selected(void *ctx, const gg_selected *p, gg_error *err)
{
    compare_pairer *pr = ctx;
    compare_key key = { p->source, p->at };
    if (pr->n_used && bsearch(&key, pr->used, pr->n_used, sizeof key, by_key)) return GG_OK;
    if (pr->o->map && !is_donor(pr, p->a.block)) return GG_OK;
    compare_pair c = { .has_a = pr->b_leads, .has_b = !pr->b_leads };
    gg_selected_copy(pr->b_leads ? &c.a : &c.b, p);
    return pr->fn(pr->ctx, &c, err);
}

gg_status gg_pair_rest(compare_pairer *pr, gg_error *err)
{
    gg_status st = GG_OK;
    if (pr->n_used) qsort(pr->used, pr->n_used, sizeof *pr->used, by_key);
    if (pr->n_donors) qsort(pr->donors, pr->n_donors, sizeof *pr->donors, by_block);
    gg_visit visit = { pr->o->select, pr->o->split_experts, rest_selected, pr };
    for (size_t i = 0; i < gg_source_count(pr->other) && st == GG_OK; i++)
        st = gg_selected_of(pr->other, i, &visit, err);
    return st;
}

void gg_pair_free(compare_pairer *pr)
{
    free(pr->used);
    free(pr->donors);
    pr->used = NULL;
    pr->donors = NULL;
}

/* ---- division into chunks ----------------------------------------------------------- */

static bool same_dims(const gg_tensor *a, const gg_tensor *b)
{
    return memcmp(a->dims, b->dims, sizeof a->dims) == 0;
}

gg_sameness gg_compare_sameness(const compare_pair *p)
{
    if (!p->has_b) return GG_SAME_ONLY_A;
    if (!p->has_a) return GG_SAME_ONLY_B;
    if (!same_dims(&p->a.t, &p->b.t)) return GG_SAME_SHAPE;
    if (p->a.t.dtype != p->b.t.dtype) return GG_SAME_DTYPE;
    return atomic_load(&p->differs) ? GG_SAME_DIFFERS : GG_SAME_IDENTICAL;
}

static uint64_t parts(uint64_t n, uint64_t size)
{
    return n / size + (n % size != 0);
}

compare_cut gg_compare_cut(const gg_tensor *a, const gg_tensor *b, uint64_t sample)
{
    compare_cut c = { .same_type = a->dtype == b->dtype };
    c.decodes = gg_can_decode(a->dtype) && gg_can_decode(b->dtype);
    if (!same_dims(a, b) || (!c.decodes && !c.same_type)) return (compare_cut){ 0 };
    c.elements = c.decodes ? a->elements : a->bytes;
    c.row = c.decodes && a->n_dims ? a->dims[0] : c.elements;
    c.rows = c.row ? c.elements / c.row : 0;
    c.taken = gg_sample_count(c.rows, c.decodes ? sample : 0);
    c.reads = c.elements > 0;
    if (c.taken == c.rows || c.row == 0) {
        c.chunks = parts(c.elements, COMPARE_CHUNK);
    } else if (c.row > COMPARE_CHUNK) {
        c.segments = parts(c.row, COMPARE_CHUNK);
        c.chunks = c.taken * c.segments;
    } else {
        c.per = COMPARE_CHUNK / c.row;
        c.chunks = parts(c.taken, c.per);
    }
    c.group = c.chunks ? parts(c.chunks, COMPARE_TASKS) : 1;
    c.tasks = parts(c.chunks, c.group);
    return c;
}

bool gg_compare_run(const compare_cut *c, uint64_t k, uint64_t i, uint64_t *first, uint64_t *n)
{
    if (c->per) {
        uint64_t r = k * c->per + i;
        if (i >= c->per || r >= c->taken) return false;
        *first = gg_sample_index(r, c->rows, c->taken) * c->row;
        *n = c->row;
        return true;
    }
    if (i > 0) return false;
    uint64_t base = 0, within = k, end = c->elements;
    if (c->segments) {
        base = gg_sample_index(k / c->segments, c->rows, c->taken) * c->row;
        within = k % c->segments;
        end = c->row;
    }
    uint64_t at = within * COMPARE_CHUNK;
    *first = base + at;
    *n = end - at < COMPARE_CHUNK ? end - at : COMPARE_CHUNK;
    return true;
}

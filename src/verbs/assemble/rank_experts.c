#include "rank_experts.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/parallel.h"
#include "organ/tensor_names.h"
#include "prune.h"
#include "verbs/shared/column_weights.h"
#include "verbs/shared/verb_run.h"

#include <stdlib.h>
#include <string.h>

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

/* ---- the scores of a stack ---------------------------------------------------------------- */

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
static gg_status read_part(expert_stack *s, const gg_column_weights *w, const gg_plan_part *part,
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

static gg_status score(void *ctx, size_t i, unsigned worker, gg_error *err)
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
        st = read_part(s, &w, &s->pt->parts[k], first, err);
        first += s->pt->parts[k].bytes / info->block_bytes * info->block_elems;
    }
    gg_column_weights_close(&w);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, t->name, t->name_len);
}

/* ---- finding the stacks --------------------------------------------------------------------- */

static int by_block(const void *a, const void *b)
{
    const expert_stack *x = a, *y = b;
    return x->block < y->block ? -1 : x->block > y->block;
}

/* A stack of weight matrices, not of biases or scales. */
static bool is_stack(const gg_tensor *t, uint64_t *experts)
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
        if (!is_stack(t, &s.experts)) continue;
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

/* ---- choosing ------------------------------------------------------------------------------- */

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

/* Appends the `keep` best of the experts [from, to) to the list. */
static gg_status choose(const expert_stack *s, uint64_t from, uint64_t to, uint64_t keep,
                        gg_buf *list, gg_error *err)
{
    candidate *c = calloc(to - from, sizeof *c);
    if (!c) return gg_fail(err, GG_ENOMEM, "no memory for experts");
    for (uint64_t e = from; e < to; e++) c[e - from] = (candidate){ s->scores[e], e };
    qsort(c, to - from, sizeof *c, by_score);
    gg_status st = GG_OK;
    for (uint64_t k = 0; k < keep && st == GG_OK; k++)
        st = gg_buf_printf(list, err, "%s%llu", list->len ? "," : "",
                           (unsigned long long)c[k].expert);
    free(c);
    return st;
}

static gg_status choose_all(const ranking *r, gg_keep_experts *keep, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t first = 0, end; first < r->n && st == GG_OK; first = end) {
        const expert_stack *s = &r->stacks[first];
        gg_buf list = GG_BUF_INIT;
        end = block_end(r, first);
        st = sum_up(r, first, end, err);
        bool even = r->groups > 1 && r->keep % r->groups == 0 && s->experts % r->groups == 0;
        uint64_t groups = even ? r->groups : 1, size = s->experts / groups;
        for (uint64_t g = 0; g < groups && st == GG_OK; g++)
            st = choose(s, g * size, (g + 1) * size, r->keep / groups, &list, err);
        if (st == GG_OK) st = gg_keep_experts_add(keep, s->block, list.data, err);
        gg_buf_free(&list);
    }
    return st;
}

gg_status gg_rank_experts(const gg_plan *p, const gg_expert_choice *o, gg_keep_experts *keep,
                          const gg_run *run, gg_error *err)
{
    ranking r = { .imatrix = o->imatrix, .keep = o->keep, .groups = o->groups };
    gg_status st = find_stacks(&r, p, err);
    if (st == GG_OK) st = check_coverage(&r, run, err);
    if (st == GG_OK) st = gg_parallel(r.n, run->threads, score, &r, err);
    if (st == GG_OK) st = choose_all(&r, keep, err);
    for (size_t i = 0; i < r.n; i++) free(r.stacks[i].scores);
    free(r.stacks);
    return st;
}

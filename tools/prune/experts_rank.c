/* experts_rank.c - chooses the experts and hidden units that a model keeps. */
#include "prune.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/lines.h"
#include "base/parallel.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "write/verb_run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- ranking ----------------------------------------------------------------------------- */

#define PIECE 65536 /* values read and decoded at once; a multiple of every block length */
#define SPLITS 16   /* most candidates for a share */

/* A stack of matrices, one per expert, or the one matrix of a dense FFN. */
typedef struct expert_stack {
    const gg_plan_tensor *pt;
    uint64_t block, experts, columns;
    bool weighed, down; /* the importance matrix has it; its columns are hidden units */
    bool chosen;        /* it is scored */
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
    /* not 0: is_weight_stack wants experts */
    uint64_t n = t->elements / s->experts, first = expert * gg_encoded_bytes(t->dtype, n);
    float *x = malloc(PIECE * sizeof *x);
    uint8_t *raw = malloc((size_t)gg_encoded_bytes(t->dtype, PIECE));
    gg_status st = x && raw ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory to read experts");
    memset(sums, 0, s->columns * sizeof *sums);
    for (uint64_t at = 0; at < n && st == GG_OK; at += PIECE) {
        size_t got = n - at < PIECE ? (size_t)(n - at) : PIECE;
        st = gg_cancelled(err);
        if (st == GG_OK)
            st = gg_read_parts(s->pt->parts, s->pt->n_parts, first + gg_encoded_bytes(t->dtype, at),
                               raw, (size_t)gg_encoded_bytes(t->dtype, got), err);
        if (st == GG_OK) st = gg_decode(t->dtype, raw, x, got, err);
        for (size_t i = 0; i < got && st == GG_OK; i++) /* not 0: a value was read */
            sums[(at + i) % s->columns] += (double)x[i] * (double)x[i];
    }
    free(x);
    free(raw);
    return st;
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
    if (!s->chosen) return GG_OK;
    const gg_dtype_info *info = gg_dtype_get(t->dtype);
    double *sums = malloc(s->columns * sizeof *sums);
    gg_importance w = { 0 };
    gg_status st = GG_OK;
    s->norms = malloc(s->experts * s->columns * sizeof *s->norms);
    if (!sums || !s->norms) st = gg_fail(err, GG_ENOMEM, "no memory to read experts");
    /* not 0: as in read_norms */
    if (st == GG_OK && (!gg_can_decode(t->dtype) || t->elements / s->experts % info->block_elems))
        st = gg_fail(err, GG_EUNSUPPORTED,
                     "its values cannot be decoded, so its experts cannot be "
                     "ranked");
    if (st == GG_OK && s->weighed)
        st = gg_imatrix_read_per_token(r->o->imatrix, &s->pt->t, &w, err);
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
        expert_stack s = { .pt = &p->tensors[i], .experts = 1, .columns = t->dims[0] };
        gg_unit_dim(t, &s.down);
        if (r->dense ? t->a.block < 0 || !s.down || t->n_dims != 2
                     : !is_weight_stack(t, &s.experts))
            continue;
        s.block = (uint64_t)t->a.block;
        s.scores = calloc(s.experts, sizeof *s.scores);
        if (!s.scores) return gg_fail(err, GG_ENOMEM, "no memory for %zu tensors", p->n);
        r->stacks[r->n++] = s;
        if (r->o->imatrix)
            st = gg_imatrix_check(r->o->imatrix, t, false, &r->stacks[r->n - 1].weighed, err);
    }
    if (st != GG_OK) return st;
    if (r->n == 0) {
        gg_fail(err, GG_NO, "the model has no stacks of experts");
        return gg_fix(err, "keep a number of the hidden units of its FFNs instead");
    }
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

/* Chooses the stacks that are scored: the down projection of a block if the importance matrix has
 * it, or if it has none of the block; otherwise those that it has. Units need the down projection.
 * With `weigh`, notes blocks that the matrix lacks, and refuses one without any block. */
static gg_status choose_stacks(const ranking *r, bool weigh, const gg_run *run, gg_error *err)
{
    size_t used = 0, blocks = 0;
    for (size_t first = 0, end; first < r->n; first = end, blocks++) {
        end = block_end(r, first);
        if (check_block(r, first, end, err) != GG_OK) return err->status;
        const expert_stack *down = down_of(r, first, end);
        bool any = false;
        for (size_t i = first; i < end; i++) any = any || r->stacks[i].weighed;
        bool alone = down && (r->units || down->weighed || !any);
        for (size_t i = first; i < end; i++) {
            expert_stack *s = &r->stacks[i];
            s->chosen = alone ? s->down : s->weighed || !any;
        }
        used += any;
    }
    if (weigh && used == 0) {
        gg_fail(err, GG_NO, "the importance matrix has none of the model's experts");
        return gg_fix(err, "use a matrix that was computed for this model");
    }
    if (weigh && used < blocks)
        gg_note(run,
                "the importance matrix lacks the experts of %zu of %zu blocks; there, those with "
                "the largest weights are kept",
                blocks - used, blocks);
    return GG_OK;
}

/* Adds up the scores of a block's chosen stacks in the first of them, which it returns. */
static size_t sum_up(const ranking *r, size_t first, size_t end)
{
    while (!r->stacks[first].chosen) first++;
    const expert_stack *s = &r->stacks[first];
    for (size_t i = first + 1; i < end; i++)
        for (uint64_t e = 0; e < s->experts && r->stacks[i].chosen; e++)
            s->scores[e] += r->stacks[i].scores[e];
    return first;
}

/* Refuses a block without any score. */
static gg_status check_scores(const expert_stack *s, gg_error *err)
{
    double all = 0;
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
    if (t && t->dtype == GG_F32 && t->elements == k->experts)
        return gg_read_values(s, at, 0, (size_t)k->experts, out, err);
    gg_fail(err, GG_NO, "it has no %s with one value per expert", name);
    gg_fix(err, "write it with organ-probe for this model");
    return gg_at_file(err, gg_source_name(s));
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
    const gg_lines from = { r->o->scores, "the scores of the experts", EXPERT_LIST_MAX };
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
    kept_line *listed = r->o->listed ? gg_kept_line_of(r->o->listed, s->block) : NULL;
    if (r->o->listed && !listed) return gg_kept_line_lacks(r->o->listed, s->block, err);
    if (listed) {
        st = gg_kept_line_list(listed, s->experts, err);
        if (st == GG_OK) memcpy(l->kept, listed->kept, listed->n * sizeof *l->kept);
        l->n = listed->n;
        return st;
    }
    bool even = r->groups > 1 && keep % r->groups == 0 && s->experts % r->groups == 0;
    /* not 0: at least 1 */
    uint64_t groups = even ? r->groups : 1, size = s->experts / groups;
    for (uint64_t g = 0; g < groups && st == GG_OK; g++)
        st = keep_best(s, g * size, (g + 1) * size, keep / groups, l, err);
    qsort(l->kept, l->n, sizeof *l->kept, gg_order_i64);
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
    if (st == GG_OK)
        st = gg_imatrix_read_per_token(s->weighed ? r->o->imatrix : NULL, &s->pt->t, &w, err);
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
    gg_status st = c ? gg_imatrix_read_per_token(s->weighed ? r->o->imatrix : NULL, &s->pt->t, &w,
                                                 err)
                     : gg_fail(err, GG_ENOMEM, "no memory for units");
    if (st != GG_OK) {
        free(c);
        return st;
    }
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
    uint64_t step = (most - least) / SPLITS + 1, block = 1;
    for (size_t i = 0; i < r->n; i++) {
        const expert_stack *other = &r->stacks[i];
        uint64_t b = gg_dtype_get(other->pt->t.dtype)->block_elems;
        block = b > block ? b : block;
        if (other->columns == s->columns && other->experts == s->experts) continue;
        gg_fail(err, GG_EUNSUPPORTED, "it has other numbers of experts or units than %s",
                s->pt->t.name);
        return gg_at_tensor(err, other->pt->t.name, other->pt->t.name_len);
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
        st = gg_keep_experts_add(r->out, s->block, &l, err);
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
    gg_status st = gg_imatrix_read_per_token(text, &s->pt->t, &w, err);
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

/* Scores all experts, and moves a stack of each block, which has its scores, to the front. */
static gg_status score_blocks(ranking *r, const gg_run *run, gg_error *err)
{
    bool by_weights = !r->o->scores || r->units;
    gg_status st = choose_stacks(r, by_weights && r->o->imatrix, run, err);
    if (st == GG_OK && (by_weights || r->o->n_texts))
        st = gg_parallel(r->n, run->threads, score_stack, r, err);
    size_t blocks = 0;
    for (size_t first = 0, end; first < r->n && st == GG_OK; first = end) {
        end = block_end(r, first);
        size_t at = sum_up(r, first, end);
        expert_stack s = r->stacks[at];
        if (by_weights) st = check_scores(&s, err);
        r->stacks[at] = r->stacks[blocks];
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
    gg_status st = gg_expert_number(meta, "expert_group_count", &r.groups, err);
    if (st == GG_OK) st = gg_expert_number(meta, "expert_used_count", &r.used, err);
    if (st == GG_OK) st = gg_keep_experts_new(o->number ? o->number : "", keep, err);
    r.out = *keep;
    if (st == GG_OK) r.out->meta = meta;
    if (st == GG_OK) st = find_stacks(&r, p, err);
    size_t all = r.n; /* the stacks that have memory */
    if (st == GG_OK) st = score_blocks(&r, run, err);
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

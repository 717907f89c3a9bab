/* keep_experts.c - parses the list of experts to keep, and removes all others from a plan. */
#include "keep_experts.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/lines.h"
#include "gguf/gguf.h"
#include "organ/ranges.h"
#include "organ/tensor_names.h"
#include "prune.h"
#include "verbs/shared/hashcopy.h"

#include <stdlib.h>
#include <string.h>

#define LIST_MAX ((size_t)16 << 20) /* bytes of a list of experts */

/* The experts of one block; block UINT64_MAX means every block. */
typedef struct line {
    uint64_t block;
    gg_ranges experts;
    bool used;
} line;

struct gg_keep_experts {
    line *lines; /* sorted by block */
    size_t n;
    const char *text;   /* as the user wrote it; owned by the caller */
    uint64_t was, left; /* experts per block, known after the cut */
};

/* ---- parsing ------------------------------------------------------------------------ */

gg_status gg_keep_experts_new(const char *text, gg_keep_experts **out, gg_error *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out) return gg_fail(err, GG_ENOMEM, "no memory for experts");
    (*out)->text = text;
    return GG_OK;
}

gg_status gg_keep_experts_add(gg_keep_experts *k, uint64_t block, const char *list, gg_error *err)
{
    line *grown = gg_grow_pow2(k->lines, k->n, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    k->lines = grown;
    line *l = &k->lines[k->n++];
    *l = (line){ .block = block };
    return gg_ranges_parse(&l->experts, GG_HINT_NONE, list, err);
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
    return gg_keep_experts_add(ctx, block, tab + 1, err);
}

static gg_status read_file(gg_keep_experts *k, const char *path, gg_error *err)
{
    gg_lines from = { path, "the list of experts", LIST_MAX };
    gg_status st = gg_each_line(&from, read_kept, k, err);
    if (st != GG_OK || k->n > 0) return st;
    gg_fail(err, GG_EUSAGE, "the file lists no experts");
    return gg_at_file(err, path);
}

static int order_lines(const void *a, const void *b)
{
    const line *x = a, *y = b;
    return x->block < y->block ? -1 : x->block > y->block;
}

gg_status gg_keep_experts_parse(const char *text, gg_keep_experts **out, gg_error *err)
{
    gg_keep_experts *k;
    gg_status st = gg_keep_experts_new(text, &k, err);
    if (st != GG_OK) return st;
    bool list = text[strspn(text, "0123456789,-")] == '\0';
    st = list ? gg_keep_experts_add(k, UINT64_MAX, text, err) : read_file(k, text, err);
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
    for (size_t i = 0; i < k->n; i++) gg_ranges_free(&k->lines[i].experts);
    free(k->lines);
    free(k);
}

/* ---- the plan ------------------------------------------------------------------------- */

static uint32_t last_dim(const gg_tensor *t)
{
    return t->n_dims ? t->n_dims - 1 : 0;
}

/* The list for a block; NULL if there is none. */
static line *line_of(const gg_keep_experts *k, uint64_t block)
{
    line key = { .block = block };
    if (k->n == 1 && k->lines[0].block == UINT64_MAX) return &k->lines[0];
    return bsearch(&key, k->lines, k->n, sizeof key, order_lines);
}

/* Counts how many of `was` experts the list keeps. All listed experts must exist. */
static gg_status count_kept(const line *l, uint64_t was, uint64_t *left, gg_error *err)
{
    *left = 0;
    for (size_t i = 0; i < l->experts.n; i++)
        if (l->experts.items[i].last >= was)
            return gg_fail(err, GG_NO, "its block has no expert %llu, only 0 to %llu",
                           (unsigned long long)l->experts.items[i].last,
                           (unsigned long long)(was - 1));
    for (uint64_t e = 0; e < was; e++) *left += gg_ranges_have(&l->experts, e);
    return GG_OK;
}

/* Checks one tensor that counts experts against the earlier ones and against its list. */
static gg_status check_tensor(gg_keep_experts *k, const gg_tensor *t, uint64_t block, gg_error *err)
{
    uint64_t n = t->dims[last_dim(t)], left;
    line *l = line_of(k, block);
    if (k->was == 0) k->was = n;
    if (n != k->was || n == 0 || n > GG_EXPERTS_MAX || t->bytes % n != 0)
        return gg_fail(err, GG_EFORMAT, "it is for %llu experts, but other tensors are for %llu",
                       (unsigned long long)n, (unsigned long long)k->was);
    if (!l)
        return gg_fail(err, GG_NO, "%s has no line for block %llu", k->text,
                       (unsigned long long)block);
    gg_status st = count_kept(l, n, &left, err);
    if (st != GG_OK) return st;
    l->used = true;
    if (k->left == 0) k->left = left;
    if (left == k->left) return GG_OK;
    gg_fail(err, GG_NO, "its block would keep %llu experts, others %llu", (unsigned long long)left,
            (unsigned long long)k->left);
    return gg_fix(err, "keep the same number in every block: a model has one expert_count");
}

static gg_status check_plan(gg_keep_experts *k, const gg_plan *p, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < p->n && st == GG_OK; i++) {
        const gg_tensor *t = &p->tensors[i].t;
        gg_anatomy a = gg_anatomy_of(t->name, t->name_len);
        st = gg_refuse_fixed_experts(t, &a, err);
        if (st == GG_OK && gg_counts_experts(t, &a))
            st = check_tensor(k, t, (uint64_t)a.block, err);
        if (st != GG_OK) return gg_at_tensor(err, t->name, t->name_len);
    }
    if (k->was == 0) return gg_fail(err, GG_NO, "the model has no stacks of experts");
    for (size_t i = 0; i < k->n; i++)
        if (!k->lines[i].used)
            return gg_fail(err, GG_NO, "%s lists block %llu, which has no experts", k->text,
                           (unsigned long long)k->lines[i].block);
    return GG_OK;
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

static gg_status verify(const gg_plan_tensor *pt, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < pt->n_parts && st == GG_OK; i++)
        if (pt->parts[i].sha256 && pt->parts[i].sha256[0])
            st = gg_verify_data(pt->parts[i].source, pt->parts[i].index, err);
    return st;
}

static gg_status cut_tensor(const gg_keep_experts *k, gg_plan_tensor *pt, const line *l, bool check,
                            gg_error *err)
{
    gg_plan_tensor old = *pt;
    uint64_t step = old.t.bytes / k->was;
    gg_tensor *t = &pt->t;
    gg_status st = check ? verify(pt, err) : GG_OK;
    t->dims[last_dim(t)] = k->left;
    if (st == GG_OK)
        st = gg_tensor_extent(t->dtype, t->n_dims, t->dims, &t->elements, &t->bytes, err);
    if (st == GG_OK && t->bytes != step * k->left)
        st = gg_fail(err, GG_EFORMAT, "single elements of its dtype cannot be removed");
    if (st != GG_OK) return st;
    pt->parts = NULL;
    pt->n_parts = 0;
    for (uint64_t e = 0; e < k->was && st == GG_OK;) {
        uint64_t end = e; /* consecutive experts form one part */
        while (end < k->was && gg_ranges_have(&l->experts, end)) end++;
        if (end > e) st = add_slice(pt, &old, e * step, (end - e) * step, err);
        e = end + 1;
    }
    free(old.parts);
    return st;
}

gg_status gg_keep_experts_cut(gg_keep_experts *k, gg_plan *p, gg_error *err)
{
    gg_status st = check_plan(k, p, err);
    for (size_t i = 0; i < p->n && st == GG_OK; i++) {
        gg_plan_tensor *pt = &p->tensors[i];
        gg_anatomy a = gg_anatomy_of(pt->t.name, pt->t.name_len);
        if (!gg_counts_experts(&pt->t, &a) || k->left == k->was) continue;
        st = cut_tensor(k, pt, line_of(k, (uint64_t)a.block), p->verify, err);
        if (st != GG_OK) gg_at_tensor(err, pt->t.name, pt->t.name_len);
    }
    return st;
}

gg_status gg_keep_experts_keys(const gg_keep_experts *k, gg_meta *meta, const gg_run *run,
                               gg_error *err)
{
    char key[160];
    if (k->left == k->was) return GG_OK;
    gg_status st = gg_check_expert_keys(meta, k->was, k->left, run, err);
    if (st != GG_OK || !gg_arch_key(meta, "expert_count", key, sizeof key)) return st;
    return gg_meta_set_u32(meta, key, (uint32_t)k->left, err);
}

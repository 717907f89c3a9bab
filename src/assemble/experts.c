/* experts.c - lists of experts to keep, and the removal of the others from the tensors of a plan.
 */
#include "experts.h"

#include "base/error.h"
#include "base/grow.h"
#include "gguf/gguf.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "quant/quant.h"
#include "write/copy.h"
#include "write/history.h"
#include "write/verb_run.h"

#include <stdlib.h>
#include <string.h>

static gg_status fail_at(const gg_tensor *t, gg_error *err)
{
    return gg_at_tensor(err, t->name, t->name_len);
}

/* ---- tensors with one entry per expert ---------------------------------------------- */

/* GG_EUNSUPPORTED for a tensor with which a model cannot lose experts. */
static gg_status refuse_fixed_experts(const gg_tensor *t, gg_error *err)
{
    const char *why = gg_experts_fixed(t);
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

/* Reads the data of parts of more than `step` bytes with a known sha256, and compares them. */
gg_status gg_verify_parts(const gg_plan_tensor *pt, uint64_t step, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < pt->n_parts && st == GG_OK; i++) {
        const gg_plan_part *p = &pt->parts[i];
        if (p->bytes > step && p->sha256 && p->sha256[0])
            st = gg_verify_data(p->source, p->index, err);
    }
    return st;
}

/* Keeps n of the `was` experts of a planned tensor: those in the ascending list. With `verify`,
 * data of several experts with a known sha256 are read and compared first. */
static gg_status cut_experts(gg_plan_tensor *pt, uint64_t was, const uint64_t *kept, size_t n,
                             bool verify, gg_error *err)
{
    gg_plan_tensor old = *pt;
    gg_tensor *t = &pt->t;
    /* not 0: check_kept refuses 0 */
    uint64_t step = t->bytes / was; /* an expert's share: a row, an element, a matrix */
    gg_status st = verify ? gg_verify_parts(pt, step, err) : GG_OK;
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

gg_status gg_expert_number(const gg_meta *meta, const char *tail, uint64_t *value, gg_error *err)
{
    const gg_kv *kv = gg_arch_kv(meta, tail);
    uint64_t v, n = kv ? (kv->type == GG_TYPE_ARR ? kv->count : 1) : 0;
    *value = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (!gg_kv_u64_at(kv, i, &v))
            return gg_fail(err, GG_EFORMAT, "its %s is not a number, so no experts can be removed",
                           tail);
        if (v > *value) *value = v;
    }
    return GG_OK;
}

/* Checks that expert_count, expert_used_count and expert_group_count allow `left` of `was` experts
 * per block. GG_EFORMAT if not. */
static gg_status check_expert_keys(const gg_meta *meta, uint64_t was, uint64_t left,
                                   const gg_run *run, gg_error *err)
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
                "a block keeps %llu expert%s, but %llu are used at a time (expert_used_count)",
                (unsigned long long)left, left == 1 ? "" : "s", (unsigned long long)used);
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

/* ---- lists of experts to keep ------------------------------------------------------------ */

gg_status gg_keep_experts_add(gg_keep_experts *k, uint64_t block, kept_line **out, gg_error *err)
{
    if (GG_ROOM(k->lines, k->n, NULL, err) != GG_OK) return GG_ENOMEM;
    *out = &k->lines[k->n++];
    **out = (kept_line){ .block = block };
    return GG_OK;
}

int gg_kept_line_order(const void *a, const void *b)
{
    const kept_line *x = a, *y = b;
    return x->block < y->block ? -1 : x->block > y->block;
}

gg_status gg_keep_experts_new(const char *text, gg_keep_experts **out, gg_error *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out) return gg_fail(err, GG_ENOMEM, "no memory for experts");
    (*out)->text = text;
    return GG_OK;
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

kept_line *gg_kept_line_of(const gg_keep_experts *k, uint64_t block)
{
    kept_line key = { .block = block };
    if (k->n == 1 && k->lines[0].block == UINT64_MAX) return &k->lines[0];
    return bsearch(&key, k->lines, k->n, sizeof key, gg_kept_line_order);
}

gg_status gg_kept_line_lacks(const gg_keep_experts *k, uint64_t block, gg_error *err)
{
    if (k->text)
        return gg_fail(err, GG_NO, "%s has no line for block %llu", k->text,
                       (unsigned long long)block);
    gg_fail(err, GG_EFORMAT,
            "the experts of its block were not split, but experts of other blocks were removed");
    return gg_fix_by(err, "split_experts", "extract the whole model with single experts");
}

gg_status gg_kept_line_list(kept_line *l, uint64_t was, gg_error *err)
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
    const gg_status no = k->text ? GG_NO : GG_EFORMAT;
    uint64_t n = t->dims[experts_dim(t)];
    kept_line *l = gg_kept_line_of(k, block);
    if (k->was == 0) k->was = n;
    if (!l) return gg_kept_line_lacks(k, block, err);
    if (!k->text && l->n == 0) return gg_fail(err, no, "all experts of its block were removed");
    if (n != k->was || n == 0 || n > GG_EXPERTS_MAX || t->bytes % n != 0)
        return gg_fail(err, GG_EFORMAT, "it is for %llu experts, but other tensors are for %llu",
                       (unsigned long long)n, (unsigned long long)k->was);
    gg_status st = gg_kept_line_list(l, n, err);
    if (st != GG_OK) return st;
    l->used = true;
    if (k->left == 0) k->left = l->n;
    if (l->n == k->left) return GG_OK;
    gg_fail(err, no, "its block would keep %llu experts, others %llu", (unsigned long long)l->n,
            (unsigned long long)k->left);
    return gg_fix(err, "keep the same number in every block: a model has one expert_count");
}

static gg_status check_kept_all(gg_keep_experts *k, const gg_plan *p, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < p->n && st == GG_OK; i++) {
        const gg_tensor *t = &p->tensors[i].t;
        st = refuse_fixed_experts(t, err);
        if (st == GG_OK && gg_counts_experts(t)) st = check_kept(k, t, (uint64_t)t->a.block, err);
        if (st != GG_OK) return fail_at(t, err);
    }
    if (!k->text) return GG_OK;
    if (k->was == 0) {
        gg_fail(err, GG_NO, "the model has no stacks of experts");
        return gg_fix(err, "keep a number of the hidden units of its FFNs instead");
    }
    for (size_t i = 0; i < k->n; i++)
        if (!k->lines[i].used)
            return gg_fail(err, GG_NO, "%s lists block %llu, which has no experts", k->text,
                           (unsigned long long)k->lines[i].block);
    return GG_OK;
}

gg_status gg_keep_experts_cut(gg_keep_experts *k, gg_plan *p, gg_error *err)
{
    gg_status st = k->dense ? GG_OK : check_kept_all(k, p, err);
    for (size_t i = 0; i < p->n && st == GG_OK && !k->dense && k->left != k->was; i++) {
        gg_plan_tensor *pt = &p->tensors[i];
        int64_t block = pt->t.a.block;
        const kept_line *l = block < 0 ? NULL : gg_kept_line_of(k, (uint64_t)block);
        if (l && gg_counts_experts(&pt->t))
            st = cut_experts(pt, k->was, l->kept, l->n, p->verify, err);
    }
    return st;
}

gg_status gg_keep_experts_keys(const gg_keep_experts *k, gg_meta *meta, const gg_run *run,
                               gg_error *err)
{
    char key[160];
    if (k->left == k->was) return GG_OK;
    gg_status st = check_expert_keys(meta, k->was, k->left, run, err);
    if (st != GG_OK || !gg_arch_key(meta, "expert_count", key, sizeof key)) return st;
    return gg_meta_set_u32(meta, key, (uint32_t)k->left, err);
}

gg_status gg_keep_experts_record(const gg_keep_experts *k, gg_meta *meta, const gg_run *run,
                                 gg_error *err)
{
    gg_buf step = GG_BUF_INIT;
    bool experts = k->left != k->was;
    gg_status st = GG_OK;
    if (!experts && !k->units) return GG_OK;
    if (experts)
        st = gg_buf_printf(&step, err, "prune: %llu of %llu experts%s", (unsigned long long)k->left,
                           (unsigned long long)k->was, k->units ? "" : " per block");
    if (st == GG_OK && k->units)
        st = gg_buf_printf(&step, err, "%s%llu of %llu hidden units per %s",
                           experts ? ", " : "prune: ", (unsigned long long)k->units,
                           (unsigned long long)k->units_was, k->dense ? "block" : "expert");
    if (st == GG_OK) st = gg_record_step(meta, NULL, 0, &step, run, err);
    gg_buf_free(&step);
    return st;
}

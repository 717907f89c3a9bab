/* verb_fuse.c - fuses separate tensors of a model, or divides fused ones. */
#include "fuse.h"

#include "base/buf.h"
#include "base/error.h"
#include "check_fused.h"
#include "gguf/gguf.h"
#include "organ/fused.h"
#include "write/plan.h"
#include "write/verb_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORDER_KEY "organ.tensor_order"

typedef struct fuser {
    gg_source *model, *view;
    const gg_fuse_options *o;
    gg_fused_rule *rules; /* of the groups that could change */
    gg_fused_group *groups;
    size_t n_rules, n;
    gg_plan plan;
    gg_error *err;
} fuser;

static bool is_wanted(const gg_fuse_options *o, gg_fused_kind kind, bool *named)
{
    *named = kind == GG_FUSED_QKV ? o->qkv : o->gate_up;
    return *named || !(o->qkv || o->gate_up);
}

static gg_status refuse_both_forms(const fuser *f, int64_t block, const gg_fused_members *m)
{
    size_t k = 0;
    while (m->parts[k] == SIZE_MAX) k++;
    const gg_tensor *fused = gg_source_tensor(f->model, m->fused);
    const gg_tensor *part = gg_source_tensor(f->model, m->parts[k]);
    gg_fail(f->err, GG_NO, "block %lld also has %.80s, so it is not clear which one counts",
            (long long)block, fused->name);
    gg_fix(f->err, "remove one of them: organ-extract, delete it, organ-assemble");
    return gg_at_tensor(f->err, part->name, part->name_len);
}

/* Lists the groups that have the form to change. */
static gg_status list_candidates(fuser *f)
{
    size_t count = gg_source_count(f->model);
    bool named;
    f->rules = calloc(GG_FUSED_KINDS * count + 1, sizeof *f->rules);
    f->groups = calloc(GG_FUSED_KINDS * count + 1, sizeof *f->groups);
    if (!f->rules || !f->groups)
        return gg_fail(f->err, GG_ENOMEM, "no memory for %zu tensors", count);
    for (int kind = 0; kind < GG_FUSED_KINDS; kind++)
        for (size_t i = 0; i < count; i++) {
            gg_fused_rule r = { .kind = (gg_fused_kind)kind };
            if (!is_wanted(f->o, r.kind, &named)) break;
            if (!gg_fused_leads(f->model, i, r.kind, &r.block)) continue;
            gg_fused_members m = gg_fused_find(f->model, r.block, r.kind, ".weight");
            if (m.fused != SIZE_MAX && m.have) return refuse_both_forms(f, r.block, &m);
            if (f->o->unfuse) r.rows = gg_source_tensor(f->model, i)->dims[1];
            for (size_t k = 0; !f->o->unfuse && m.have == m.n && k < m.n; k++)
                r.rows += gg_source_tensor(f->model, m.parts[k])->dims[1];
            if (f->o->unfuse ? m.fused != SIZE_MAX : m.have == m.n) f->rules[f->n_rules++] = r;
        }
    return gg_fused_rules(gg_source_meta(f->model), f->rules, f->n_rules, f->err);
}

/* "attn_q, attn_k, attn_v" */
static void list_parts(gg_fused_kind kind, char out[80])
{
    const char *const *parts = gg_fused_names_of[kind].parts;
    snprintf(out, 80, "%s, %s%s%s", parts[0], parts[1], parts[2] ? ", " : "",
             parts[2] ? parts[2] : "");
}

static gg_status add_group(fuser *f, const gg_fused_rule *r)
{
    char parts[80];
    gg_fused_group *g = &f->groups[f->n++];
    *g = (gg_fused_group){ .block = r->block, .kind = r->kind, .fuse = !f->o->unfuse };
    memcpy(g->rows, r->parts, sizeof g->rows);
    gg_fused_members m = gg_fused_find(f->model, r->block, r->kind, ".weight");
    bool fits = r->divided;
    for (size_t i = 0; g->fuse && fits && i < m.n; i++)
        fits = gg_source_tensor(f->model, m.parts[i])->dims[1] == r->parts[i];
    if (fits) return GG_OK;
    list_parts(r->kind, parts);
    return gg_fail(f->err, GG_NO,
                   "the %" PRIu64 " rows of %s in block %lld are not those that the keys require",
                   r->rows, g->fuse ? parts : gg_fused_names_of[r->kind].fused,
                   (long long)r->block);
}

/* Takes the groups whose new form an engine loads. Separate tensors that only other programs load
 * are made if they were asked for by name. */
static gg_status choose_groups(fuser *f, gg_fused_kind kind, bool *only_separate)
{
    bool named;
    gg_status st = GG_OK;
    is_wanted(f->o, kind, &named);
    for (size_t i = 0; i < f->n_rules && st == GG_OK; i++) {
        const gg_fused_rule *r = &f->rules[i];
        if (r->kind != kind) continue;
        if (!r->fused) *only_separate = true;
        else if (!f->o->unfuse || r->separate || named) st = add_group(f, r);
    }
    return st;
}

static gg_status refuse_none(const fuser *f, gg_fused_kind kind, bool only_separate)
{
    const char *arch = "";
    char parts[80];
    size_t len = 0;
    gg_kv_str(gg_meta_find(gg_source_meta(f->model), "general.architecture"), &arch, &len);
    list_parts(kind, parts);
    if (f->o->unfuse)
        return gg_fail(f->err, GG_NO, "it has no fused tensor to divide into %s", parts);
    if (only_separate)
        return gg_fail(f->err, GG_NO,
                       "an engine loads %s of architecture %.*s only as separate tensors", parts,
                       (int)len, arch);
    return gg_fail(f->err, GG_NO, "no block has separate tensors %s", parts);
}

static gg_status choose_all_groups(fuser *f)
{
    bool only[GG_FUSED_KINDS] = { false }, named;
    gg_status st = GG_OK;
    for (int kind = 0; kind < GG_FUSED_KINDS && st == GG_OK; kind++) {
        size_t before = f->n;
        if (!is_wanted(f->o, (gg_fused_kind)kind, &named)) continue;
        st = choose_groups(f, (gg_fused_kind)kind, &only[kind]);
        if (st == GG_OK && kind == GG_FUSED_QKV && named && f->n == before)
            st = refuse_none(f, GG_FUSED_QKV, only[kind]);
        if (kind == GG_FUSED_QKV) continue;
        /* experts, or else the one feed-forward layer */
        bool any = f->n > 0 && f->groups[f->n - 1].kind != GG_FUSED_QKV;
        if (st == GG_OK && kind == GG_FUSED_FFN && named && !any)
            st = refuse_none(f, only[1] ? GG_FUSED_EXPERTS : GG_FUSED_FFN, only[1] || only[2]);
    }
    if (st == GG_OK && f->n == 0) st = refuse_none(f, GG_FUSED_QKV, only[0]);
    return st;
}

/* ---- the order of tensors ------------------------------------------------------------------ */

/* Whether the parts of all groups are next to each other, so that dividing restores their order. */
static bool keeps_order(const fuser *f)
{
    static const char *const suffixes[] = { ".weight", ".bias", ".scale", ".input_scale" };
    for (size_t k = 0; k < f->n; k++)
        for (size_t x = 0; x < 4; x++) {
            gg_fused_members m = gg_fused_find(f->model, f->groups[k].block, f->groups[k].kind,
                                               suffixes[x]);
            for (size_t i = 1; m.have == m.n && i < m.n; i++)
                if (m.parts[i] != m.parts[0] + i) return false;
        }
    return true;
}

/* Stores the names of the tensors, one per line. */
static gg_status note_order(const fuser *f, gg_meta *meta)
{
    gg_buf b = GG_BUF_INIT;
    gg_status st = GG_OK;
    if (keeps_order(f) || gg_meta_find(meta, ORDER_KEY)) return GG_OK;
    for (size_t i = 0; i < gg_source_count(f->model) && st == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(f->model, i);
        gg_buf_append(&b, t->name, t->name_len, f->err);
        st = gg_buf_text(&b, "\n", f->err);
    }
    if (st == GG_OK) st = gg_meta_set_str(meta, ORDER_KEY, (const char *)b.data, b.len, f->err);
    gg_buf_free(&b);
    return st;
}

/* Gets the stored order: order[i] is the index of the i-th tensor. False if there is none, or if it
 * is that of other tensors. */
static bool stored_order(const fuser *f, const gg_meta *meta, size_t *order)
{
    size_t n = gg_source_count(f->view), got = 0, len = 0;
    const char *text = NULL;
    if (!gg_kv_str(gg_meta_find(meta, ORDER_KEY), &text, &len)) return false;
    bool *seen = calloc(n + 1, sizeof *seen);
    while (len > 0 && seen) {
        const char *end = memchr(text, '\n', len);
        size_t name = end ? (size_t)(end - text) : len;
        size_t at = gg_source_find(f->view, text, name);
        if (at == SIZE_MAX || seen[at]) break;
        seen[at] = true;
        order[got++] = at;
        text += name + !!end;
        len -= name + !!end;
    }
    free(seen);
    return got == n && len == 0;
}

static gg_status plan_view(fuser *f, const char *output)
{
    size_t n = gg_source_count(f->view);
    size_t *order = calloc(n + 1, sizeof *order);
    gg_meta meta = GG_META_INIT;
    gg_status st = order ? gg_meta_copy(&meta, gg_source_meta(f->model), f->err)
                         : gg_fail(f->err, GG_ENOMEM, "no memory for %zu tensors", n);
    bool stored = st == GG_OK && f->o->unfuse && stored_order(f, &meta, order);
    for (size_t i = 0; i < n && st == GG_OK; i++)
        st = gg_plan_add_copy(&f->plan, f->view, stored ? order[i] : i, f->err);
    if (stored) gg_meta_delete(&meta, ORDER_KEY);
    if (st == GG_OK && !f->o->unfuse) st = note_order(f, &meta);
    if (st == GG_OK)
        st = gg_plan_changed_file(&f->plan, output, gg_plan_version(f->model), &meta, f->model,
                                  f->err);
    gg_meta_free(&meta);
    free(order);
    return st;
}

gg_status gg_stack_fuse(gg_source *model, const gg_fuse_options *o, const char *output,
                        const gg_run *run, gg_stack_report *report, gg_error *err)
{
    run = GG_OPTIONS(gg_run, run);
    report = GG_REPORT(gg_stack_report, report);
    fuser f = { .model = model, .o = GG_OPTIONS(gg_fuse_options, o), .err = err };
    gg_status st = gg_require_model(model, err);
    if (st == GG_OK && output) st = gg_require_whole(model, run, err);
    if (st == GG_OK) st = list_candidates(&f);
    if (st == GG_OK) st = choose_all_groups(&f);
    if (st == GG_OK) st = gg_fused_open(model, f.groups, f.n, false, &f.view, err);
    if (st == GG_OK) st = plan_view(&f, output);
    report->tensors = f.plan.n;
    report->blocks = f.n;
    if (st == GG_OK) st = gg_plan_write(&f.plan, run, &report->bytes, err);
    gg_plan_free(&f.plan);
    gg_source_close(f.view);
    free(f.rules);
    free(f.groups);
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(model));
}

/* align_groups.c - finds the tensors in which units are rows or columns: those of a block, and the
 * dimensions of the embeddings. */
#include "align_core.h"

#include "base/grow.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "organ/record.h"
#include "organ/tensor_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gg_align_group_free(align_group *g)
{
    free(g->parts);
    *g = (align_group){ 0 };
}

/* ---- tensors of both models ------------------------------------------------------------ */

/* One tensor in both models. */
typedef struct twins {
    size_t a, b;
    const gg_tensor *t; /* that of A; B's has the same dims */
    uint64_t rows;      /* of all dimensions after the first */
} twins;

static size_t find_role(const gg_source *s, int64_t block, const char *role)
{
    char name[GG_RECORD_NAME + 1];
    int n = snprintf(name, sizeof name, "blk.%lld.%s", (long long)block, role);
    return n > 0 && (size_t)n < sizeof name ? gg_source_find(s, name, (size_t)n) : SIZE_MAX;
}

typedef enum presence { ABSENT, UNUSABLE, PRESENT } presence;

/* Compares the two tensors of which the indices are set. A tensor that only one model has, or that
 * differs in shape, must not be left where it is while others move. */
static presence look_at_twins(const align_models *m, twins *w)
{
    if (w->a == SIZE_MAX && w->b == SIZE_MAX) return ABSENT;
    if (w->a == SIZE_MAX || w->b == SIZE_MAX) return UNUSABLE;
    w->t = gg_source_tensor(m->a, w->a);
    const gg_tensor *d = gg_source_tensor(m->b, w->b);
    if (!gg_same_dims(w->t, d) || w->t->elements == 0) return UNUSABLE;
    /* not 0: it has elements */
    w->rows = w->t->elements / w->t->dims[0];
    return gg_can_decode(w->t->dtype) && gg_can_decode(d->dtype) ? PRESENT : UNUSABLE;
}

static presence look_up(const align_models *m, const align_place *p, const char *role, twins *out)
{
    out->a = find_role(m->a, p->block, role);
    out->b = find_role(m->b, p->donor_block, role);
    return look_at_twins(m, out);
}

static gg_status add_part(align_group *g, const twins *w, gg_slice s, bool counts, gg_error *err)
{
    if (GG_ROOM(g->parts, g->n_parts, &g->cap_parts, err) != GG_OK) return GG_ENOMEM;
    g->parts[g->n_parts++] = (align_part){ .slice = s, .a = w->a, .b = w->b, .counts = counts };
    return GG_OK;
}

gg_status gg_align_blocks(const gg_source *s, int64_t **list, size_t *n, gg_error *err)
{
    size_t all = gg_source_count(s), k = 0;
    *n = 0;
    *list = calloc(all ? all : 1, sizeof **list);
    if (!*list) return gg_fail(err, GG_ENOMEM, "no memory for %zu tensors", all);
    for (size_t i = 0; i < all; i++) {
        const gg_tensor *t = gg_source_tensor(s, i);
        if (t->name_len > 4 && memcmp(t->name, "blk.", 4) == 0)
            (*list)[k] = t->a.block, k += (*list)[k] >= 0;
    }
    if (k) qsort(*list, k, sizeof **list, gg_order_i64);
    for (size_t i = 0; i < k; i++)
        if (i == 0 || (*list)[i] != (*list)[i - 1]) (*list)[(*n)++] = (*list)[i];
    return GG_OK;
}

/* ---- FFN units -------------------------------------------------------------------------- */

/* Whether the block has an FFN tensor with this suffix that is not known here and may have one
 * value per unit. */
static bool strange_ffn(const gg_source *s, int64_t block, const char *suffix)
{
    static const char *const roles[] = { "ffn_act%s.scales", "ffn_act%s.weight",
                                         "ffn_gate%s.lora_a", "ffn_down%s.lora_a" };
    char role[64];
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        const char *at = strchr(roles[i], '%');
        snprintf(role, sizeof role, "%.*s%s%s", (int)(at - roles[i]), roles[i], suffix, at + 2);
        if (find_role(s, block, role) != SIZE_MAX) return true;
    }
    return false;
}

typedef struct ffn {
    const align_models *m;
    const align_place *p;
    align_group *g;
    uint64_t experts; /* 0 = no stack */
    bool usable;
    gg_error *err;
} ffn;

static presence look_up_ffn(ffn *f, const char *role, const char *end, twins *w)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s%s", role, f->p->suffix, end);
    presence p = look_up(f->m, f->p, name, w);
    uint64_t last = p == PRESENT ? w->t->dims[w->t->n_dims ? w->t->n_dims - 1 : 0] : 0;
    if (p == PRESENT && f->experts && last != f->experts) p = UNUSABLE;
    return p;
}

/* Rows of one expert. A matrix with twice as many holds gate and up one after the other. */
static gg_status add_unit_rows(ffn *f, const char *role)
{
    twins w;
    presence p = look_up_ffn(f, role, ".weight", &w);
    if (p == ABSENT) return GG_OK;
    uint64_t rows = p == PRESENT ? w.rows / (f->experts ? f->experts : 1) : 0;
    f->usable = f->usable && rows && (rows == f->g->n || rows == 2 * f->g->n);
    gg_status st = GG_OK;
    for (uint64_t at = 0; f->usable && at < rows && st == GG_OK; at += f->g->n) {
        gg_slice s = { .first = f->p->expert * rows + at, .per = 1 };
        st = add_part(f->g, &w, s, true, f->err);
    }
    return st;
}

/* One value per unit: a bias, or a norm. */
static gg_status add_unit_values(ffn *f, const char *role, const char *end)
{
    twins w;
    presence p = look_up_ffn(f, role, end, &w);
    if (p == ABSENT) return GG_OK;
    /* not 0: a group has units */
    f->usable = f->usable && p == PRESENT && w.t->dims[0] % f->g->n == 0 &&
                w.t->dims[0] <= 2 * f->g->n && w.rows == (f->experts ? f->experts : 1);
    gg_status st = GG_OK;
    for (uint64_t at = 0; f->usable && at < w.t->dims[0] && st == GG_OK; at += f->g->n) {
        gg_slice s = { .columns = true, .first = at, .per = 1, .row = f->p->expert, .rows = 1 };
        st = add_part(f->g, &w, s, false, f->err);
    }
    return st;
}

/* Whether both models have the matrices in which hidden units can move. */
static bool find_ffn(ffn *f, twins *down)
{
    twins up;
    return look_up_ffn(f, "ffn_down", ".weight", down) == PRESENT && down->t->n_dims >= 2 &&
           (look_up_ffn(f, "ffn_up", ".weight", &up) == PRESENT ||
            look_up_ffn(f, "ffn_gate_up", ".weight", &up) == PRESENT);
}

gg_status gg_align_ffn(const align_models *m, const align_place *p, align_group *g,
                       uint64_t *experts, gg_error *err)
{
    ffn f = { .m = m, .p = p, .g = g, .usable = true, .err = err };
    twins down;
    bool stack = strcmp(p->suffix, "_exps") == 0;
    *g = (align_group){
        GG_ALIGN_FFN, p->block, p->donor_block, stack ? (int64_t)p->expert : -1, 0, NULL, 0, 0
    };
    *experts = 0;
    if (!find_ffn(&f, &down)) return GG_OK;
    if (strange_ffn(m->a, p->block, p->suffix) || strange_ffn(m->b, p->donor_block, p->suffix))
        return GG_OK;
    uint64_t n = down.t->dims[0];
    if (stack && (!gg_is_expert_stack(down.t, experts) || p->expert >= *experts)) return GG_OK;
    f.experts = *experts;
    if (n < 2 || n > GG_ALIGN_UNITS) return GG_OK;
    g->n = (size_t)n;
    uint64_t rows = down.rows / (f.experts ? f.experts : 1);
    gg_slice s = { .columns = true, .per = 1, .row = p->expert * rows, .rows = rows };
    static const char *const matrices[] = { "ffn_gate", "ffn_up", "ffn_gate_up" };
    gg_status st = GG_OK;
    for (size_t i = 0; i < 3 && st == GG_OK; i++) st = add_unit_rows(&f, matrices[i]);
    if (st == GG_OK) st = add_part(g, &down, s, true, err);
    for (size_t i = 0; i < 3 && st == GG_OK; i++) st = add_unit_values(&f, matrices[i], ".bias");
    if (st == GG_OK) st = add_unit_values(&f, "ffn_sub_norm", ".weight");
    if (!f.usable) g->n = 0;
    return st;
}

/* ---- experts ----------------------------------------------------------------------------- */

/* Adds a tensor with one entry per expert. Returns false if the experts cannot move in it. */
static bool add_expert_tensor(const twins *w, bool sample, align_group *g, gg_error *err)
{
    const gg_tensor *t = w->t;
    uint64_t n = t->dims[t->n_dims ? t->n_dims - 1 : 0];
    bool router = gg_is_router(t->name, &t->a), matrix = t->n_dims == (router ? 2 : 3);
    if (g->n == 0) g->n = (size_t)n;
    if (n != g->n || n < 2 || n > GG_ALIGN_UNITS) return false;
    gg_slice s = { .per = w->rows / n };
    if (t->n_dims < 2) s = (gg_slice){ .columns = true, .per = 1, .rows = 1 };
    if (add_part(g, w, s, matrix && (router || !sample), err) != GG_OK) return false;
    if (router) return true;
    bool down = gg_text_begins(t->name + t->a.role_at, t->a.role_len, "ffn_down");
    g->parts[g->n_parts - 1].sum = down ? ALIGN_SUM_COLUMNS : ALIGN_SUM_ROWS;
    return true;
}

gg_status gg_align_experts(const align_models *m, const align_place *p, bool sample, align_group *g,
                           gg_error *err)
{
    bool usable = true;
    *g = (align_group){ GG_ALIGN_EXPERT, p->block, p->donor_block, -1, 0, NULL, 0, 0 };
    for (size_t i = 0; i < gg_source_count(m->a) && usable; i++) {
        const gg_tensor *t = gg_source_tensor(m->a, i);
        if (t->a.block != p->block || !gg_text_begins(t->name, t->name_len, "blk.")) continue;
        usable = gg_experts_fixed(t) == NULL;
        if (!usable || !gg_counts_experts(t)) continue;
        char role[GG_RECORD_NAME + 1];
        snprintf(role, sizeof role, "%.*s", (int)(t->name_len - t->a.role_at),
                 t->name + t->a.role_at);
        twins w;
        usable = look_up(m, p, role, &w) == PRESENT && add_expert_tensor(&w, sample, g, err);
    }
    bool counts = false;
    for (size_t i = 0; i < g->n_parts; i++) counts = counts || g->parts[i].counts;
    if (!usable || !counts) g->n = 0;
    return err->status;
}

/* ---- attention tensors that are not known here ------------------------------------------------
 */

static bool is_strange(const gg_tensor *t)
{
    const gg_anatomy *a = &t->a;
    const char *role = t->name + a->role_at;
    if (a->block < 0 || a->role_len < 4 ||
        (memcmp(role, "attn", 4) != 0 && memcmp(role, "ssm_", 4) != 0))
        return false;
    for (size_t i = 0; i < gg_align_attention_n; i++)
        if (gg_text_is(role, a->role_len, gg_align_attention[i])) return false;
    return true;
}

static bool strange_attention(const align_models *m, int k, int64_t block)
{
    return m->n_strange[k] &&
           bsearch(&block, m->strange[k], m->n_strange[k], sizeof block, gg_order_i64);
}

gg_status gg_align_models_open(align_models *m, gg_error *err)
{
    for (int k = 0; k < 2; k++) {
        const gg_source *s = k ? m->b : m->a;
        size_t n = gg_source_count(s);
        m->strange[k] = calloc(n ? n : 1, sizeof *m->strange[k]);
        if (!m->strange[k]) return gg_fail(err, GG_ENOMEM, "no memory for %zu tensors", n);
        for (size_t i = 0; i < n; i++) {
            const gg_tensor *t = gg_source_tensor(s, i);
            if (is_strange(t)) m->strange[k][m->n_strange[k]++] = t->a.block;
        }
        if (m->n_strange[k])
            qsort(m->strange[k], m->n_strange[k], sizeof *m->strange[k], gg_order_i64);
    }
    return GG_OK;
}

void gg_align_models_close(align_models *m)
{
    free(m->strange[0]);
    free(m->strange[1]);
}

/* ---- attention heads ---------------------------------------------------------------------- */

/* The value of a key that may have one value per block. */
static uint64_t head_number(const gg_meta *meta, const char *name, int64_t block)
{
    uint64_t v;
    return gg_kv_u64_at(gg_arch_kv(meta, name), (uint64_t)block, &v) ? v : 0;
}

typedef struct heads {
    const align_models *m;
    const align_place *p;
    align_group *kv, *q;
    bool usable;
    gg_error *err;
} heads;

/* Adds n units of a matrix: those of its rows (or columns) from `first` on, `lines` of them. */
typedef struct share {
    align_group *g;
    bool columns, counts;
    uint64_t first, lines;
} share;

static gg_status add_heads(heads *h, const twins *w, share s)
{
    uint64_t of = s.columns ? w->t->dims[0] : w->rows;
    /* not 0: a group has units */
    h->usable = h->usable && s.lines && s.lines % s.g->n == 0 && s.first + s.lines <= of;
    if (!h->usable) return GG_OK;
    gg_slice slice = { .columns = s.columns, .first = s.first, .per = s.lines / s.g->n };
    if (s.columns) slice.rows = w->rows;
    return add_part(s.g, w, slice, s.counts, h->err);
}

/* A whole matrix or vector; `rows`: one unit after the other along its rows. */
static gg_status add_whole(heads *h, const char *role, align_group *g, bool columns, bool counts)
{
    twins w;
    presence p = look_up(h->m, h->p, role, &w);
    if (p == ABSENT && !counts) return GG_OK;
    h->usable = h->usable && p == PRESENT;
    if (!h->usable) return GG_OK;
    return add_heads(h, &w, (share){ g, columns, counts, 0, columns ? w.t->dims[0] : w.rows });
}

/* Query, key and value rows, one after the other in one tensor. */
static gg_status add_fused(heads *h, const char *role, bool columns)
{
    twins w;
    presence p = look_up(h->m, h->p, role, &w);
    if (p == ABSENT) return GG_OK;
    uint64_t lines = p != PRESENT ? 0
                     : columns    ? w.t->dims[0]
                                  : w.rows,
             /* not 0: there are query heads */
        all = h->q->n + 2 * h->kv->n, size = lines / all;
    h->usable = h->usable && size && lines % all == 0;
    uint64_t q = h->q->n * size, kv = h->kv->n * size;
    gg_status st = add_heads(h, &w, (share){ h->q, columns, !columns, 0, q });
    if (st == GG_OK) st = add_heads(h, &w, (share){ h->kv, columns, !columns, q, kv });
    if (st == GG_OK) st = add_heads(h, &w, (share){ h->kv, columns, !columns, q + kv, kv });
    return st;
}

/* A norm of queries or keys has one weight per head dimension, which all heads share, or one per
 * head and dimension. */
static gg_status add_norm(heads *h, const char *role, align_group *g, uint64_t size)
{
    twins w;
    presence p = look_up(h->m, h->p, role, &w);
    if (p == ABSENT || (p == PRESENT && w.t->elements == size)) return GG_OK;
    h->usable = h->usable && p == PRESENT && w.t->elements == size * g->n;
    if (!h->usable) return GG_OK;
    bool columns = w.rows == 1;
    return add_heads(h, &w, (share){ g, columns, false, 0, columns ? w.t->dims[0] : w.rows });
}

static gg_status add_attention(heads *h)
{
    twins w;
    gg_status st;
    if (look_up(h->m, h->p, "attn_qkv.weight", &w) != ABSENT) {
        st = add_fused(h, "attn_qkv.weight", false);
        if (st == GG_OK) st = add_fused(h, "attn_qkv.bias", true);
    } else {
        st = add_whole(h, "attn_q.weight", h->q, false, true);
        if (st == GG_OK) st = add_whole(h, "attn_k.weight", h->kv, false, true);
        if (st == GG_OK) st = add_whole(h, "attn_v.weight", h->kv, false, true);
        if (st == GG_OK) st = add_whole(h, "attn_q.bias", h->q, true, false);
        if (st == GG_OK) st = add_whole(h, "attn_k.bias", h->kv, true, false);
        if (st == GG_OK) st = add_whole(h, "attn_v.bias", h->kv, true, false);
    }
    if (st == GG_OK) st = add_whole(h, "attn_output.weight", h->q, true, true);
    if (st == GG_OK) st = add_whole(h, "attn_sinks.weight", h->q, true, false);
    if (st != GG_OK || !h->usable) return st;
    uint64_t size = h->kv->parts[0].slice.per; /* of keys and queries */
    st = add_norm(h, "attn_q_norm.weight", h->q, size);
    return st == GG_OK ? add_norm(h, "attn_k_norm.weight", h->kv, size) : st;
}

gg_status gg_align_heads(const align_models *m, const align_place *p, align_group *kv,
                         align_group *q, gg_error *err)
{
    const gg_meta *a = gg_source_meta(m->a), *b = gg_source_meta(m->b);
    *kv = (align_group){ GG_ALIGN_KV, p->block, p->donor_block, -1, 0, NULL, 0, 0 };
    *q = *kv;
    q->kind = GG_ALIGN_HEAD;
    if (!a || !b) return GG_OK;
    uint64_t n = head_number(a, "attention.head_count", p->block),
             groups = head_number(a, "attention.head_count_kv", p->block);
    uint64_t theirs = head_number(b, "attention.head_count", p->donor_block),
             their_groups = head_number(b, "attention.head_count_kv", p->donor_block);
    if (!groups) groups = n;
    if (!their_groups) their_groups = theirs;
    if (n < 2 || n > GG_ALIGN_HEADS || groups == 0 || n % groups || n != theirs ||
        groups != their_groups || strange_attention(m, 0, p->block) ||
        strange_attention(m, 1, p->donor_block))
        return GG_OK;
    kv->n = (size_t)groups;
    q->n = (size_t)n;
    heads h = { .m = m, .p = p, .kv = kv, .q = q, .usable = true, .err = err };
    gg_status st = add_attention(&h);
    if (!h.usable) kv->n = q->n = 0;
    return st;
}

/* ---- the dimensions of the embeddings ------------------------------------------------------ */

#define TOKENS 8192 /* rows of the embedding matrix by which its columns are recognized */

static align_axis axis_of(const gg_tensor *t)
{
    bool block = t->a.block >= 0 && gg_text_begins(t->name, t->name_len, "blk.");
    const char *name = block ? t->name + t->a.role_at : t->name;
    for (size_t i = 0; i < gg_align_axes_n; i++)
        if (gg_text_is(name, (size_t)(t->name + t->name_len - name), gg_align_axes[i].name))
            return gg_align_axes[i].axis;
    return ALIGN_UNKNOWN;
}

/* Adds the parts of one tensor. Sets *usable to false if it does not have the dimensions. */
static gg_status add_dimensions(align_group *g, const twins *w, align_axis way, bool *usable,
                                gg_error *err)
{
    uint64_t n = g->n;
    gg_status st = GG_OK;
    if (way == ALIGN_COLUMNS) {
        *usable = w->t->dims[0] == n;
        gg_slice s = { .columns = true, .per = 1, .rows = w->rows };
        return add_part(g, w, s, false, err);
    }
    *usable = w->t->n_dims >= 2 && w->t->dims[1] == n;
    for (uint64_t at = 0; *usable && at < w->rows && st == GG_OK; at += n)
        st = add_part(g, w, (gg_slice){ .first = at, .per = 1 }, false, err);
    return st;
}

gg_status gg_align_embedding(const align_models *m, align_group *g, gg_error *err)
{
    static const char name[] = "token_embd.weight";
    twins w = { gg_source_find(m->a, name, sizeof name - 1),
                gg_source_find(m->b, name, sizeof name - 1), NULL, 0 };
    *g = (align_group){ GG_ALIGN_EMBEDDING, -1, -1, -1, 0, NULL, 0, 0 };
    if (look_at_twins(m, &w) != PRESENT || gg_source_count(m->a) != gg_source_count(m->b) ||
        w.t->n_dims < 2 || w.t->dims[0] < 2 || w.t->dims[0] > GG_ALIGN_UNITS)
        return GG_OK;
    g->n = (size_t)w.t->dims[0];
    gg_slice s = { .columns = true, .per = 1 };
    s.rows = w.t->dims[1] < TOKENS ? w.t->dims[1] : TOKENS;
    bool usable = true;
    gg_status st = add_part(g, &w, s, true, err);
    if (st == GG_OK) g->parts[0].stays = true;
    for (w.a = 0; w.a < gg_source_count(m->a) && usable && st == GG_OK; w.a++) {
        const gg_tensor *t = gg_source_tensor(m->a, w.a);
        align_axis way = axis_of(t);
        if (way == ALIGN_NOTHING) continue;
        w.b = gg_source_find(m->b, t->name, t->name_len);
        usable = way != ALIGN_UNKNOWN && look_at_twins(m, &w) == PRESENT;
        if (usable) st = add_dimensions(g, &w, way, &usable, err);
    }
    if (!usable) g->n = 0;
    return st;
}

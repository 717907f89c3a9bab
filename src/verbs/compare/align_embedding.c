/* align_embedding.c - finds the tensors in which the dimensions of the embeddings are rows or
 * columns. */
#include "align_core.h"

#include "base/grow.h"
#include "organ/tensor_names.h"
#include "quant/quant.h"

#include <string.h>

#define TOKENS 8192 /* rows of the embedding matrix by which its columns are recognized */

/* What a tensor has along the dimensions of the embeddings. */
typedef enum axis { NOTHING, COLUMNS, ROWS, UNKNOWN } axis;

/* Names without "blk.N.", with a space on both sides. */
static const char as_columns[] =
    " token_embd.weight position_embd.weight token_types.weight token_embd_norm.weight "
    "token_embd_norm.bias output.weight output_norm.weight output_norm.bias attn_norm.weight "
    "attn_norm.bias attn_norm_2.weight attn_norm_2.bias attn_q.weight attn_k.weight attn_v.weight "
    "attn_qkv.weight attn_output.bias attn_post_norm.weight post_attention_norm.weight "
    "ffn_norm.weight ffn_norm.bias ffn_post_norm.weight post_ffw_norm.weight ffn_gate.weight "
    "ffn_up.weight ffn_down.bias ffn_gate_inp.weight ffn_gate_inp_shexp.weight "
    "ffn_gate_exps.weight ffn_up_exps.weight ffn_down_exps.bias ffn_gate_shexp.weight "
    "ffn_up_shexp.weight ";
static const char as_rows[] =
    " attn_output.weight ffn_down.weight ffn_down_exps.weight ffn_down_shexp.weight ";
static const char as_neither[] =
    " attn_q.bias attn_k.bias attn_v.bias attn_qkv.bias attn_q_norm.weight attn_k_norm.weight "
    "attn_sinks.weight ffn_gate.bias ffn_up.bias ffn_gate_exps.bias ffn_up_exps.bias "
    "ffn_sub_norm.weight ffn_gate_inp.bias exp_probs_b.bias rope_freqs.weight output.bias ";

static axis axis_of(const gg_tensor *t)
{
    gg_anatomy a = gg_anatomy_of(t->name, t->name_len);
    const char *name = a.block >= 0 && t->name_len > 4 && memcmp(t->name, "blk.", 4) == 0
                           ? t->name + a.role_at
                           : t->name;
    size_t n = (size_t)(t->name + t->name_len - name);
    char text[48];
    if (n + 3 > sizeof text) return UNKNOWN;
    text[0] = ' ';
    memcpy(text + 1, name, n);
    memcpy(text + 1 + n, " ", 2);
    return strstr(as_columns, text)   ? COLUMNS
           : strstr(as_rows, text)    ? ROWS
           : strstr(as_neither, text) ? NOTHING
                                      : UNKNOWN;
}

typedef struct embedding {
    align_group *g;
    size_t a, b;
    const gg_tensor *t;
    gg_error *err;
} embedding;

static gg_status add_slice(const embedding *e, gg_slice s, bool counts, bool stays)
{
    align_group *g = e->g;
    align_part *grown = gg_grow(g->parts, g->n_parts, &g->cap_parts, sizeof *grown, e->err);
    if (!grown) return GG_ENOMEM;
    g->parts = grown;
    align_part *p = &g->parts[g->n_parts++];
    *p = (align_part){ .a = s, .b = s, .counts = counts, .stays = stays };
    p->a.index = e->a;
    p->b.index = e->b;
    return GG_OK;
}

/* Adds the parts of one tensor. Sets *usable to false if it does not have the dimensions. */
static gg_status add_tensor(const embedding *e, axis way, bool *usable)
{
    uint64_t n = e->g->n, rows = e->t->elements / e->t->dims[0];
    gg_status st = GG_OK;
    if (way == COLUMNS) {
        *usable = e->t->dims[0] == n;
        return add_slice(e, (gg_slice){ .columns = true, .per = 1, .rows = rows }, false, false);
    }
    *usable = e->t->n_dims >= 2 && e->t->dims[1] == n;
    for (uint64_t at = 0; *usable && at < rows && st == GG_OK; at += n)
        st = add_slice(e, (gg_slice){ .first = at, .per = 1 }, false, false);
    return st;
}

static gg_status add_all(const align_models *m, embedding *e, bool *usable)
{
    gg_status st = GG_OK;
    for (e->a = 0; e->a < gg_source_count(m->a) && *usable && st == GG_OK; e->a++) {
        e->t = gg_source_tensor(m->a, e->a);
        e->b = gg_source_find(m->b, e->t->name, e->t->name_len);
        axis way = axis_of(e->t);
        if (way == NOTHING) continue;
        const gg_tensor *d = e->b == SIZE_MAX ? NULL : gg_source_tensor(m->b, e->b);
        *usable = way != UNKNOWN && d && e->t->elements > 0 && gg_can_decode(d->dtype) &&
                  memcmp(e->t->dims, d->dims, sizeof d->dims) == 0;
        if (*usable) st = add_tensor(e, way, usable);
    }
    return st;
}

gg_status gg_align_embedding(const align_models *m, align_group *g, gg_error *err)
{
    static const char name[] = "token_embd.weight";
    embedding e = { .g = g, .a = gg_source_find(m->a, name, sizeof name - 1), .err = err };
    e.b = gg_source_find(m->b, name, sizeof name - 1);
    *g = (align_group){ GG_ALIGN_EMBEDDING, -1, -1, -1, 0, NULL, 0, 0 };
    if (e.a == SIZE_MAX || e.b == SIZE_MAX || gg_source_count(m->a) != gg_source_count(m->b))
        return GG_OK;
    e.t = gg_source_tensor(m->a, e.a);
    const gg_tensor *d = gg_source_tensor(m->b, e.b);
    if (e.t->n_dims < 2 || e.t->dims[0] < 2 || e.t->dims[0] > GG_ALIGN_UNITS ||
        memcmp(e.t->dims, d->dims, sizeof d->dims) != 0 || !gg_can_decode(e.t->dtype) ||
        !gg_can_decode(d->dtype))
        return GG_OK;
    g->n = (size_t)e.t->dims[0];
    gg_slice s = { .columns = true, .per = 1 };
    s.rows = e.t->dims[1] < TOKENS ? e.t->dims[1] : TOKENS;
    bool usable = true;
    gg_status st = add_slice(&e, s, true, true);
    if (st == GG_OK) st = add_all(m, &e, &usable);
    if (!usable) g->n = 0;
    return st;
}

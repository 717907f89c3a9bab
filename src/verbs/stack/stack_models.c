/* stack_models.c - reads the models whose blocks are stacked. */
#include "stack_models.h"

#include "base/error.h"
#include "gguf/gguf.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "verbs/plan/key_compat.h"
#include "verbs/plan/plan.h"
#include "verbs/shared/verb_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gg_status gg_stack_model(const gg_source *s, gg_layer_model *out, gg_error *err)
{
    char key[160];
    gg_status st = gg_refuse_split_experts(s, err);
    if (st != GG_OK) return st;
    if (!gg_source_meta(s)) {
        gg_fail(err, GG_EUSAGE,
                "it consists of organ records, but must be a model or an organ directory");
        return gg_at_file(err, gg_source_name(s));
    }
    *out = (gg_layer_model){ gg_source_meta(s), gg_source_name(s), 0 };
    out->blocks = gg_arch_number(out->meta, "block_count");
    if (out->blocks > 0 && out->blocks <= GG_LAYERS_MAX) return GG_OK;
    if (!gg_arch_key(out->meta, "block_count", key, sizeof key))
        gg_fail(err, GG_NO, "it has no general.architecture, so its blocks cannot be counted");
    else if (out->blocks == 0) gg_fail(err, GG_NO, "it has no %s", key);
    else gg_fail(err, GG_NO, "%s is %llu", key, (unsigned long long)out->blocks);
    return gg_at_file(err, out->name);
}

int64_t gg_stack_block_of(const gg_tensor *t)
{
    if (t->name_len < 4 || memcmp(t->name, "blk.", 4) != 0) return -1;
    return gg_anatomy_of(t->name, t->name_len).block;
}

/* ---- tensors by block ---------------------------------------------------------------- */

gg_status gg_block_tensors_make(const gg_source *s, const gg_layer_model *m, gg_block_tensors *out,
                                gg_error *err)
{
    size_t n = gg_source_count(s);
    out->list = calloc(n + 1, sizeof *out->list);
    out->first = calloc((size_t)m->blocks + 2, sizeof *out->first);
    if (!out->list || !out->first) return gg_fail(err, GG_ENOMEM, "no memory for %zu tensors", n);
    for (size_t i = 0; i < n; i++) {
        const gg_tensor *t = gg_source_tensor(s, i);
        int64_t block = gg_stack_block_of(t);
        if (block < 0) continue;
        if ((uint64_t)block >= m->blocks) {
            gg_fail(err, GG_NO, "it belongs to block %lld, but block_count is %llu",
                    (long long)block, (unsigned long long)m->blocks);
            gg_at_tensor(err, t->name, t->name_len);
            return gg_at_file(err, m->name);
        }
        out->first[block + 2]++;
    }
    for (uint64_t b = 2; b < m->blocks + 2; b++) out->first[b] += out->first[b - 1];
    for (size_t i = 0; i < n; i++) {
        int64_t block = gg_stack_block_of(gg_source_tensor(s, i));
        if (block >= 0) out->list[out->first[block + 1]++] = i;
    }
    return GG_OK;
}

void gg_block_tensors_free(gg_block_tensors *b)
{
    free(b->list);
    free(b->first);
    *b = (gg_block_tensors){ 0 };
}

/* ---- compatibility --------------------------------------------------------------------- */

typedef struct role {
    const char *text; /* the name after "blk.N." */
    size_t len;
    const gg_tensor *t;
    bool varies; /* its dims differ between blocks */
} role;

static int order_roles(const void *a, const void *b)
{
    const role *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int c = memcmp(x->text, y->text, n);
    return c ? c : x->len < y->len ? -1 : x->len > y->len;
}

static role role_of(const gg_tensor *t)
{
    size_t at = 4; /* after "blk." */
    while (at < t->name_len && t->name[at] != '.') at++;
    return (role){ t->name + at, t->name_len - at, t, false };
}

/* Returns the *n distinct roles of the model's blocks, sorted, or NULL if memory is exhausted. */
static role *roles_of(const gg_source *s, size_t *n)
{
    size_t kept = 0;
    role *list = calloc(gg_source_count(s) + 1, sizeof *list);
    *n = 0;
    for (size_t i = 0; list && i < gg_source_count(s); i++)
        if (gg_stack_block_of(gg_source_tensor(s, i)) >= 0)
            list[(*n)++] = role_of(gg_source_tensor(s, i));
    if (!list || *n == 0) return list;
    qsort(list, *n, sizeof *list, order_roles);
    for (size_t i = 1; i < *n; i++) {
        if (order_roles(&list[kept], &list[i]) != 0) list[++kept] = list[i];
        else if (memcmp(list[kept].t->dims, list[i].t->dims, sizeof list[i].t->dims) != 0)
            list[kept].varies = true;
    }
    *n = kept + 1;
    return list;
}

static gg_status check_dims(const role *mine, const gg_tensor *t, const char *first, gg_error *err)
{
    char a[96], b[96];
    if (!mine || mine->varies || memcmp(mine->t->dims, t->dims, sizeof t->dims) == 0) return GG_OK;
    gg_dims_text(t, a);
    gg_dims_text(mine->t, b);
    gg_fail(err, GG_NO, "its dims are %s, but in the blocks of %.100s they are %s", a, first, b);
    return gg_at_tensor(err, t->name, t->name_len);
}

typedef struct conflict {
    gg_error *err;
    const gg_source *first;
} conflict;

/* "llama.embedding_length differs: base 64, donor 96" */
static void first_conflict(void *ctx, const char *line)
{
    const conflict *c = ctx;
    gg_fail(c->err, GG_NO, "%s (the base is %.100s)", line, gg_source_name(c->first));
}

gg_status gg_stack_agree(const gg_source *first, const gg_source *other, gg_error *err)
{
    conflict c = { err, first };
    size_t n;
    if (gg_key_conflicts(gg_source_meta(first), gg_source_meta(other),
                         GG_COMPAT_BLOCKS | GG_COMPAT_LAYERS_GO, first_conflict, &c) > 0)
        return gg_at_file(err, gg_source_name(other));
    role *roles = roles_of(first, &n);
    gg_status st = roles ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the tensors");
    for (size_t i = 0; i < gg_source_count(other) && st == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(other, i);
        if (gg_stack_block_of(t) < 0) continue;
        role theirs = role_of(t);
        const role *mine = n ? bsearch(&theirs, roles, n, sizeof *roles, order_roles) : NULL;
        st = check_dims(mine, t, gg_source_name(first), err);
    }
    free(roles);
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(other));
}

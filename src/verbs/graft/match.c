/* match.c - which tensor of a donor goes where in a base, or why it cannot. */
#include "gg_transplant.h"

#include "moves.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool gg_match_mode_by_name(const char *name, gg_match_mode *mode)
{
    static const char *const names[] = { "exact", "retype", "convert" };
    for (int i = 0; i < 3; i++)
        if (strcmp(names[i], name) == 0) return *mode = (gg_match_mode)i, true;
    return false;
}

const char *gg_move_name(gg_move_kind kind)
{
    static const char *const names[] = { "replace", "retype", "convert", "add", "mismatch" };
    return names[kind];
}

typedef struct matcher {
    const gg_source *base, *donor;
    const gg_match_options *o;
    gg_move *list;
    size_t n, cap;
    bool *taken; /* donor tensors that have a place */
    bool part;   /* the donor is bare records */
    struct block_list {
        int64_t *list; /* blocks that have a tensor, ascending, some more than once */
        size_t n;
    } base_blocks, donor_blocks;
    gg_error *err;
} matcher;

static int order_blocks(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static gg_status list_blocks(const gg_source *s, struct block_list *out, gg_error *err)
{
    size_t n = gg_source_count(s);
    out->list = calloc(n + 1, sizeof *out->list);
    if (!out->list) return gg_fail(err, GG_ENOMEM, "no memory for %zu tensors", n);
    for (size_t i = 0; i < n; i++) {
        const gg_tensor *t = gg_source_tensor(s, i);
        gg_anatomy a = gg_anatomy_of(t->name, t->name_len);
        if (a.block >= 0) out->list[out->n++] = a.block;
    }
    if (out->n) qsort(out->list, out->n, sizeof *out->list, order_blocks);
    return GG_OK;
}

/* Is this the number of a block of which nothing is there? */
static bool lacks_block(const struct block_list *l, int64_t block)
{
    return block >= 0 && (l->n == 0 || !bsearch(&block, l->list, l->n, sizeof *l->list, order_blocks));
}

static gg_move *new_move(matcher *m)
{
    if (m->n == m->cap) {
        size_t cap = m->cap ? m->cap * 2 : 256;
        gg_move *grown = realloc(m->list, cap * sizeof *grown);
        if (!grown) {
            gg_fail(m->err, GG_ENOMEM, "no memory for %zu moves", cap);
            return NULL;
        }
        m->list = grown;
        m->cap = cap;
    }
    m->list[m->n] = (gg_move){ .base = SIZE_MAX, .donor = SIZE_MAX };
    return &m->list[m->n++];
}

static void dims_text(const gg_tensor *t, char out[96])
{
    size_t n = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < t->n_dims && n < 70; i++)
        n += (size_t)snprintf(out + n, 96 - n, "%s%llu", i ? "x" : "", (unsigned long long)t->dims[i]);
}

static bool same_dims(const gg_tensor *a, const gg_tensor *b)
{
    return memcmp(a->dims, b->dims, sizeof a->dims) == 0; /* 1 past n_dims: trailing ones do not count */
}

/* Can the donor's values be had in the base's dtype? If not, why. */
static bool codecs_know(gg_move *move, const gg_tensor *b, const gg_tensor *d)
{
    if (!gg_can_decode(d->dtype))
        snprintf(move->reason, sizeof move->reason, "no codec decodes the donor's %s", gg_dtype_get(d->dtype)->name);
    else if (!gg_can_encode(b->dtype))
        snprintf(move->reason, sizeof move->reason, "%s cannot be encoded%s", gg_dtype_get(b->dtype)->name,
                 gg_encode_needs_imatrix(b->dtype) ? " without an importance matrix" : "");
    else return true;
    return false;
}

/* Has the ancestor what a task blend takes away? If not, why. */
static bool ancestor_has(const matcher *m, gg_move *move, const gg_tensor *d)
{
    if (!m->o->ancestor) return true;
    size_t i = gg_source_find(m->o->ancestor, d->name, d->name_len);
    if (i == SIZE_MAX) {
        snprintf(move->reason, sizeof move->reason, "the ancestor has no such tensor (%.63s)", d->name);
        return false;
    }
    const gg_tensor *t = gg_source_tensor(m->o->ancestor, i);
    if (!same_dims(t, d)) snprintf(move->reason, sizeof move->reason, "the ancestor's dims differ from the donor's");
    else if (!gg_can_decode(t->dtype)) snprintf(move->reason, sizeof move->reason, "no codec decodes the ancestor's %s", gg_dtype_get(t->dtype)->name);
    else return true;
    return false;
}

/* Experts of the selection that both stacks (or routers) have. */
static void judge_experts(const matcher *m, gg_move *move, const gg_tensor *b, const gg_tensor *d)
{
    uint32_t last = b->n_dims ? b->n_dims - 1 : 0;
    uint64_t n_base = b->dims[last], n_donor = d->dims[last], found = 0;
    bool same = b->n_dims == d->n_dims && b->n_dims > 0 && memcmp(b->dims, d->dims, last * sizeof b->dims[0]) == 0;
    move->experts = true;
    move->kind = GG_MOVE_MISMATCH;
    bool convert = b->dtype != d->dtype || m->o->blends;
    if (!same) {
        snprintf(move->reason, sizeof move->reason, "single experts move only between stacks of equal dims");
        return;
    }
    if (convert && !m->o->blends && m->o->mode != GG_MATCH_CONVERT) {
        snprintf(move->reason, sizeof move->reason, "dtypes differ: base %s, donor %s (--match convert)", gg_dtype_get(b->dtype)->name,
                 gg_dtype_get(d->dtype)->name);
        return;
    }
    if (convert && (!codecs_know(move, b, d) || !ancestor_has(m, move, d))) return;
    bool blocks = gg_dtype_get(b->dtype)->block_elems > 1 || gg_dtype_get(d->dtype)->block_elems > 1;
    if (n_base > GG_EXPERTS_MAX || (b->n_dims == 1 && blocks)) {
        snprintf(move->reason, sizeof move->reason, "its experts are too many, or share blocks: they cannot move one by one");
        return;
    }
    for (uint64_t e = 0; e < n_base; e++) {
        if (!gg_select_expert(m->o->select, e)) continue;
        found++;
        if (e < n_donor) continue;
        snprintf(move->reason, sizeof move->reason, "the donor has no expert %llu", (unsigned long long)e);
        return;
    }
    if (found) move->kind = convert ? GG_MOVE_CONVERT : GG_MOVE_REPLACE;
    else snprintf(move->reason, sizeof move->reason, "the base has none of these experts");
}

/* How the pair may be moved. */
static void judge(const matcher *m, gg_move *move)
{
    const gg_tensor *b = gg_source_tensor(m->base, move->base), *d = gg_source_tensor(m->donor, move->donor);
    const char *from = gg_dtype_get(d->dtype)->name, *to = gg_dtype_get(b->dtype)->name;
    char bd[96], dd[96];
    gg_anatomy a = gg_anatomy_of(b->name, b->name_len);
    if (gg_select_has_experts(m->o->select) && a.expert < 0) {
        judge_experts(m, move, b, d);
        return;
    }
    move->kind = GG_MOVE_MISMATCH;
    if (!same_dims(b, d)) {
        dims_text(b, bd);
        dims_text(d, dd);
        snprintf(move->reason, sizeof move->reason, "dims differ: base %.40s, donor %.40s", bd, dd);
    } else if (b->dtype == d->dtype && !m->o->blends) {
        move->kind = GG_MOVE_REPLACE;
    } else if (m->o->mode == GG_MATCH_RETYPE && !m->o->blends) {
        move->kind = GG_MOVE_RETYPE;
    } else if (m->o->mode == GG_MATCH_EXACT && !m->o->blends) {
        snprintf(move->reason, sizeof move->reason, "dtypes differ: base %s, donor %s (--match retype or convert)", to, from);
    } else if (codecs_know(move, b, d) && ancestor_has(m, move, d)) {
        move->kind = GG_MOVE_CONVERT;
    }
}

/* The router's weights and biases have a row or a value an expert. */
static bool is_router(const char *name, const gg_anatomy *a)
{
    static const char *const roles[] = { "ffn_gate_inp", "ffn_gate_inp.bias", "exp_probs_b.bias", "exp_probs_b" };
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (a->block >= 0 && a->role_len == strlen(roles[i]) && memcmp(name + a->role_at, roles[i], a->role_len) == 0) return true;
    return false;
}

static bool selected(const matcher *m, const char *name, size_t len, const gg_anatomy *a)
{
    if (m->o->map && (a->block < 0 || gg_map_donor(m->o->map, a->block) < 0)) return false;
    gg_anatomy as_stack = *a;
    as_stack.stack = a->stack || (m->o->router && is_router(name, a));
    return gg_select_match(m->o->select, name, len, &as_stack);
}

size_t gg_find_scale(const gg_source *s, const char *weight, size_t len, char name[GG_RECORD_NAME + 1])
{
    static const char tail[] = ".weight";
    size_t n = sizeof tail - 1;
    if (len <= n || len > GG_RECORD_NAME || memcmp(weight + len - n, tail, n) != 0) return SIZE_MAX;
    memcpy(name, weight, len - n);
    memcpy(name + len - n, ".scale", 7);
    return gg_source_find(s, name, len - 1);
}

/* Values that a tensor of its own scales (NVFP4 has such) mean nothing without it, and
 * others nothing under it. */
static void judge_scale(const matcher *m, gg_move *move)
{
    char name[GG_RECORD_NAME + 1], theirs[GG_RECORD_NAME + 1];
    const gg_tensor *d = gg_source_tensor(m->donor, move->donor);
    size_t base = gg_find_scale(m->base, move->name, move->name_len, name), donor = gg_find_scale(m->donor, d->name, d->name_len, theirs);
    if (move->kind == GG_MOVE_MISMATCH || m->part || (base == SIZE_MAX && donor == SIZE_MAX)) return;
    gg_anatomy a = gg_anatomy_of(name, move->name_len - 1);
    bool follows = selected(m, name, move->name_len - 1, &a);
    const char *format;
    if (m->o->blends) format = "values that %.63s scales cannot be blended";
    else if (donor == SIZE_MAX) format = "the base's %.63s would scale them too";
    else if (base == SIZE_MAX && !(follows && m->o->add)) format = "they need the donor's %.63s as well (select it, --add)";
    else if (!follows) format = "%.63s would stay behind: select it too";
    else return;
    move->kind = GG_MOVE_MISMATCH;
    snprintf(move->reason, sizeof move->reason, format, name);
}

/* Why the donor has not what the base has. */
static void tell_missing(const matcher *m, gg_move *move, const char *wanted, size_t len)
{
    const gg_manifest *dir = gg_source_manifest(m->donor);
    char other[GG_RECORD_NAME + 8];
    size_t n;
    int64_t block = gg_anatomy_of(wanted, len).block;
    if (lacks_block(&m->donor_blocks, block))
        snprintf(move->reason, sizeof move->reason, "the donor has no block %lld (no %.63s)", (long long)block, wanted);
    else if (gg_stack_name(wanted, len, other, sizeof other, &n) && gg_source_find(m->donor, other, n) != SIZE_MAX)
        snprintf(move->reason, sizeof move->reason, "the donor has it on %.40s: take it apart with organ-extract --split-experts", other);
    else if (dir && dir->n_stacks > 0 && gg_expert_name(wanted, len, 0, other, sizeof other, &n))
        snprintf(move->reason, sizeof move->reason, "the donor's experts are taken apart, the base's are not");
    else
        snprintf(move->reason, sizeof move->reason, "the donor has no %.63s", wanted);
}

static gg_status match_base(matcher *m, size_t i)
{
    const gg_tensor *b = gg_source_tensor(m->base, i);
    gg_anatomy a = gg_anatomy_of(b->name, b->name_len);
    if (!selected(m, b->name, b->name_len, &a)) return GG_OK;
    char name[GG_RECORD_NAME + 1];
    const char *wanted = b->name;
    size_t len = b->name_len;
    if (m->o->map && a.block >= 0 &&
        gg_name_with_block(b->name, b->name_len, gg_map_donor(m->o->map, a.block), name, sizeof name, &len))
        wanted = name;
    size_t d = gg_source_find(m->donor, wanted, len);
    if (d == SIZE_MAX && m->part) return GG_OK;
    gg_move *move = new_move(m);
    if (!move) return m->err->status;
    memcpy(move->name, b->name, b->name_len + 1);
    move->name_len = b->name_len;
    move->base = i;
    move->donor = d;
    if (d == SIZE_MAX) {
        move->kind = GG_MOVE_MISMATCH;
        tell_missing(m, move, wanted, len);
        return GG_OK;
    }
    m->taken[d] = true;
    judge(m, move);
    judge_scale(m, move);
    return GG_OK;
}

static gg_status match_donor_only(matcher *m, size_t d)
{
    const gg_tensor *t = gg_source_tensor(m->donor, d);
    gg_anatomy a = gg_anatomy_of(t->name, t->name_len);
    char name[GG_RECORD_NAME + 1];
    size_t len = t->name_len;
    memcpy(name, t->name, t->name_len + 1);
    if (m->o->map) {
        int64_t to = gg_map_base(m->o->map, a.block);
        if (to < 0 || !gg_name_with_block(t->name, t->name_len, to, name, sizeof name, &len)) return GG_OK;
        a = gg_anatomy_of(name, len);
    }
    if (!selected(m, name, len, &a) || gg_source_find(m->base, name, len) != SIZE_MAX) return GG_OK;
    gg_move *move = new_move(m);
    if (!move) return m->err->status;
    memcpy(move->name, name, len + 1);
    move->name_len = len;
    move->donor = d;
    move->kind = m->o->add ? GG_MOVE_ADD : GG_MOVE_MISMATCH;
    if (m->o->add) return GG_OK;
    if (lacks_block(&m->base_blocks, a.block))
        snprintf(move->reason, sizeof move->reason, "the base has no block %lld (--add takes it along)", (long long)a.block);
    else
        snprintf(move->reason, sizeof move->reason, "the base has no such tensor (--add takes it along)");
    return GG_OK;
}

/* Of records that were put together: which of the two was meant? */
static gg_status one_of_each(const gg_source *donor, gg_error *err)
{
    for (size_t i = 0; i < gg_source_count(donor); i++) {
        const gg_tensor *t = gg_source_tensor(donor, i);
        size_t k = gg_source_find(donor, t->name, t->name_len);
        if (k == i || k == SIZE_MAX) continue;
        gg_fail(err, GG_EFORMAT, "two of its tensors have this name");
        gg_fix(err, "take one of them out");
        gg_at_tensor(err, t->name, t->name_len);
        return gg_at_file(err, gg_source_name(donor));
    }
    return GG_OK;
}

gg_status gg_match_tensors(const gg_source *base, const gg_source *donor, const gg_match_options *o,
                           gg_move **moves, size_t *n, gg_error *err)
{
    matcher m = { .base = base, .donor = donor, .o = o, .err = err };
    m.part = gg_source_meta(donor) == NULL;
    m.taken = calloc(gg_source_count(donor) + 1, sizeof *m.taken);
    gg_status st = m.taken ? one_of_each(donor, err) : gg_fail(err, GG_ENOMEM, "no memory for the donor's tensors");
    if (st == GG_OK) st = list_blocks(base, &m.base_blocks, err);
    if (st == GG_OK) st = list_blocks(donor, &m.donor_blocks, err);
    for (size_t i = 0; i < gg_source_count(base) && st == GG_OK; i++) st = match_base(&m, i);
    for (size_t d = 0; d < gg_source_count(donor) && st == GG_OK; d++)
        if (!m.taken[d]) st = match_donor_only(&m, d);
    free(m.taken);
    free(m.base_blocks.list);
    free(m.donor_blocks.list);
    if (st != GG_OK) {
        free(m.list);
        return st;
    }
    *moves = m.list;
    *n = m.n;
    return GG_OK;
}

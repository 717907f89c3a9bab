/* fused.c - shows tensors that are fused as separate ones, and the reverse. */
#include "fused.h"

#include "base/error.h"
#include "quant/quant.h"
#include "source_layout.h"
#include "tensor_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const gg_fused_names gg_fused_names_of[GG_FUSED_KINDS] = {
    { "attn_qkv", { "attn_q", "attn_k", "attn_v" } },
    { "ffn_gate_up_exps", { "ffn_gate_exps", "ffn_up_exps" } },
    { "ffn_up", { "ffn_gate", "ffn_up" } },
};

#define N_SUFFIXES 4
static const char *const suffixes[N_SUFFIXES] = { ".weight", ".bias", ".scale", ".input_scale" };

static size_t find_member(const gg_source *s, int64_t block, const char *stem, const char *suffix)
{
    char name[96];
    int n = snprintf(name, sizeof name, "blk.%lld.%s%s", (long long)block, stem, suffix);
    return gg_source_find(s, name, (size_t)n);
}

gg_fused_members gg_fused_find(const gg_source *s, int64_t block, gg_fused_kind kind,
                               const char *suffix)
{
    const gg_fused_names *names = &gg_fused_names_of[kind];
    gg_fused_members m = { .fused = find_member(s, block, names->fused, suffix) };
    bool alone = kind == GG_FUSED_FFN &&
                 find_member(s, block, names->parts[0], ".weight") == SIZE_MAX;
    for (; m.n < GG_FUSED_PARTS && names->parts[m.n]; m.n++) {
        m.parts[m.n] = alone ? SIZE_MAX : find_member(s, block, names->parts[m.n], suffix);
        m.have += m.parts[m.n] != SIZE_MAX;
    }
    if (kind == GG_FUSED_FFN && !alone) m.fused = SIZE_MAX;
    return m;
}

/* ---- the other form of a group ------------------------------------------------------------- */

typedef struct member {
    uint32_t group; /* number + 1; 0: it belongs to none */
    uint32_t suffix;
} member;

typedef struct reformer {
    gg_source *of, *out;
    const gg_fused_group *groups;
    member *members; /* one per tensor of `of` */
    bool decodes;
    gg_error *err;
} reformer;

static gg_status refuse_member(const reformer *r, const gg_tensor *t, const char *why)
{
    gg_fail(r->err, GG_NO, "%s", why);
    gg_at_tensor(r->err, t->name, t->name_len);
    return gg_at_file(r->err, gg_source_name(r->of));
}

static bool is_scale_suffix(size_t suffix)
{
    return suffix >= 2;
}

/* The dimension along which parts follow each other: rows, or the values of a bias. */
static uint32_t joined_axis(const gg_tensor *t, size_t suffix)
{
    return suffix == 0 && t->n_dims > 1 ? 1 : 0;
}

/* A strip of all rows of a tensor. */
static gg_strip whole_strip(const gg_tensor *t, size_t index, size_t suffix)
{
    uint64_t rows = t->dims[joined_axis(t, suffix)];
    return (gg_strip){ index, 0, rows, rows };
}

/* Reads the bytes of a scale: numbers, one per matrix. */
static gg_status read_scale(const reformer *r, size_t index, uint8_t bytes[512])
{
    gg_data d;
    const gg_tensor *t = gg_source_tensor(r->of, index);
    if (t->bytes > 512) return refuse_member(r, t, "this scale has too many values");
    gg_status st = gg_data_open(r->of, index, &d, r->err);
    if (st != GG_OK) return st;
    st = gg_data_read(&d, 0, bytes, (size_t)t->bytes, r->err);
    gg_data_close(&d);
    return st;
}

static gg_status check_scale(const reformer *r, size_t first, size_t index)
{
    uint8_t x[512], y[512];
    const gg_tensor *t = gg_source_tensor(r->of, first), *u = gg_source_tensor(r->of, index);
    gg_status st = read_scale(r, first, x);
    if (st == GG_OK) st = read_scale(r, index, y);
    if (st != GG_OK ||
        (t->dtype == u->dtype && t->bytes == u->bytes && memcmp(x, y, (size_t)t->bytes) == 0))
        return st;
    return refuse_member(r, u, "its scale differs from that of the other parts");
}

static gg_status check_part(const reformer *r, const gg_tensor *first, const gg_tensor *t,
                            uint32_t axis, bool *decoded)
{
    char why[200];
    bool fits = first->n_dims == t->n_dims && first->n_dims > axis;
    for (uint32_t i = 0; fits && i < first->n_dims; i++)
        fits = i == axis || first->dims[i] == t->dims[i];
    if (!fits) return refuse_member(r, t, "its shape does not fit the other parts");
    if (first->dtype == t->dtype) return GG_OK;
    *decoded = true;
    if (r->decodes && gg_can_decode(first->dtype) && gg_can_decode(t->dtype)) return GG_OK;
    snprintf(why, sizeof why,
             "its type is %s, but that of %.80s is %s, so their rows cannot be in "
             "one tensor",
             gg_dtype_name(t->dtype), first->name, gg_dtype_name(first->dtype));
    refuse_member(r, t, why);
    return gg_fix(r->err, "encode %.80s as %s first", t->name, gg_dtype_name(first->dtype));
}

/* Adds the tensor that the parts with this suffix become. */
static gg_status join_parts(const reformer *r, const gg_fused_group *g, size_t suffix,
                            const gg_fused_members *m)
{
    const gg_tensor *first = gg_source_tensor(r->of, m->parts[0]);
    uint32_t axis = joined_axis(first, suffix);
    gg_strip strips[GG_FUSED_PARTS];
    gg_tensor t = *first;
    char name[96];
    bool decoded = false;
    gg_status st = GG_OK;
    for (size_t i = 0; i < m->n && st == GG_OK; i++) {
        const gg_tensor *part = gg_source_tensor(r->of, m->parts[i]);
        strips[i] = whole_strip(part, m->parts[i], suffix);
        if (!is_scale_suffix(suffix)) {
            st = check_part(r, first, part, axis, &decoded);
            if (i && __builtin_add_overflow(t.dims[axis], part->dims[axis], &t.dims[axis]))
                st = refuse_member(r, part, "it is too large");
        } else if (i) {
            st = check_scale(r, m->parts[0], m->parts[i]);
        }
    }
    if (decoded) t.dtype = GG_F32;
    t.name_len = (size_t)snprintf(name, sizeof name, "blk.%lld.%s%s", (long long)g->block,
                                  gg_fused_names_of[g->kind].fused, suffixes[suffix]);
    t.name = name;
    t.a = gg_anatomy_of(name, t.name_len);
    if (st != GG_OK) return st;
    return gg_source_join_add(r->out, &t, strips, is_scale_suffix(suffix) ? 0 : m->n,
                              axis ? t.dims[0] : 1, r->err);
}

/* Adds the parts of a fused tensor. */
static gg_status divide_fused(const reformer *r, const gg_fused_group *g, size_t suffix,
                              const gg_fused_members *m)
{
    const gg_tensor *fused = gg_source_tensor(r->of, m->fused);
    uint32_t axis = joined_axis(fused, suffix);
    uint64_t at = 0;
    gg_status st = GG_OK;
    for (size_t i = 0; i < m->n && st == GG_OK; i++) {
        gg_strip strip = whole_strip(fused, m->fused, suffix);
        gg_tensor t = *fused;
        char name[96];
        if (!is_scale_suffix(suffix)) {
            strip.first = at;
            strip.rows = t.dims[axis] = g->rows[i];
            at += g->rows[i];
        }
        t.name_len = (size_t)snprintf(name, sizeof name, "blk.%lld.%s%s", (long long)g->block,
                                      gg_fused_names_of[g->kind].parts[i], suffixes[suffix]);
        t.name = name;
        t.a = gg_anatomy_of(name, t.name_len);
        st = gg_source_join_add(r->out, &t, &strip, !is_scale_suffix(suffix), axis ? t.dims[0] : 1,
                                r->err);
    }
    return st;
}

/* Whether a suffix of the group changes its form. Biases of some parts only stay as they are. */
static gg_status decide_suffix(const reformer *r, const gg_fused_group *g, size_t suffix,
                               const gg_fused_members *m, bool *changes)
{
    uint64_t rows = 0;
    *changes = g->fuse ? m->have == m->n : m->fused != SIZE_MAX;
    bool experts = g->kind == GG_FUSED_EXPERTS && suffix > 0;
    if (g->fuse && m->have > 0 && (experts || (is_scale_suffix(suffix) && !*changes))) {
        size_t i = 0;
        while (m->parts[i] == SIZE_MAX) i++;
        return refuse_member(r, gg_source_tensor(r->of, m->parts[i]),
                             experts ? "an engine loads no bias or scale of ffn_gate_up_exps"
                                     : "the other parts have no such scale");
    }
    if (!*changes || is_scale_suffix(suffix)) return GG_OK;
    const gg_tensor *t = gg_source_tensor(r->of, g->fuse ? m->parts[0] : m->fused);
    if (joined_axis(t, suffix) == 0 && gg_dtype_get(t->dtype)->block_elems > 1)
        return refuse_member(r, t, "it has one dimension, but its values are stored in blocks");
    if (g->fuse) return GG_OK;
    for (size_t i = 0; i < m->n; i++) rows += g->rows[i];
    return rows == t->dims[joined_axis(t, suffix)]
               ? GG_OK
               : refuse_member(r, t, "it has another number of rows than its parts together");
}

/* Notes which tensors the groups consist of. */
static gg_status mark_members(reformer *r, size_t n)
{
    gg_status st = GG_OK;
    for (size_t k = 0; k < n; k++)
        for (size_t x = 0; x < N_SUFFIXES && st == GG_OK; x++) {
            const gg_fused_group *g = &r->groups[k];
            gg_fused_members m = gg_fused_find(r->of, g->block, g->kind, suffixes[x]);
            bool changes;
            st = decide_suffix(r, g, x, &m, &changes);
            if (st != GG_OK || !changes) continue;
            member here = { (uint32_t)k + 1, (uint32_t)x };
            if (!g->fuse) r->members[m.fused] = here;
            for (size_t i = 0; g->fuse && i < m.n; i++) r->members[m.parts[i]] = here;
        }
    return st;
}

static gg_status add_tensor(reformer *r, size_t i)
{
    gg_strip whole = { .index = i };
    const member *here = &r->members[i];
    if (!here->group)
        return gg_source_join_add(r->out, gg_source_tensor(r->of, i), &whole, 0, 1, r->err);
    const gg_fused_group *g = &r->groups[here->group - 1];
    gg_fused_members m = gg_fused_find(r->of, g->block, g->kind, suffixes[here->suffix]);
    if (!g->fuse) return divide_fused(r, g, here->suffix, &m);
    for (size_t k = 0; k < m.n; k++)
        if (m.parts[k] < i) return GG_OK; /* added with its first part */
    return join_parts(r, g, here->suffix, &m);
}

gg_status gg_fused_open(gg_source *of, const gg_fused_group *groups, size_t n, bool owned,
                        gg_source **out, gg_error *err)
{
    size_t count = gg_source_count(of);
    reformer r = { .of = of, .groups = groups, .decodes = owned, .err = err };
    r.members = calloc(count + 1, sizeof *r.members);
    if (!r.members) return gg_fail(err, GG_ENOMEM, "no memory for %zu tensors", count);
    gg_status st = mark_members(&r, n);
    if (st == GG_OK) st = gg_source_join_open(of, count + 2 * N_SUFFIXES * n, &r.out, err);
    for (size_t i = 0; i < count && st == GG_OK; i++) st = add_tensor(&r, i);
    if (st == GG_OK) st = gg_source_join_end(r.out, owned, err);
    free(r.members);
    if (st == GG_OK) *out = r.out;
    else gg_source_close(r.out);
    return st;
}

/* ---- the form of another model ------------------------------------------------------------- */

/* How a model has a kind of tensors, beyond the block that is asked for. */
typedef struct form {
    bool fused, separate;          /* in some block */
    uint64_t rows[GG_FUSED_PARTS]; /* of the first separate ones */
} form;

static uint64_t rows_of(const gg_source *s, size_t index)
{
    const gg_tensor *t = gg_source_tensor(s, index);
    return t->n_dims > 1 ? t->dims[1] : 0;
}

/* Whether a name ends with .STEM.weight. */
static bool has_stem(const gg_tensor *t, const char *stem)
{
    const size_t n = strlen(stem), tail = sizeof ".weight" - 1;
    if (t->name_len < n + tail + 1) return false;
    const char *at = t->name + t->name_len - tail - n;
    return at[-1] == '.' && memcmp(at, stem, n) == 0 && memcmp(at + n, ".weight", tail) == 0;
}

bool gg_fused_leads(const gg_source *s, size_t i, gg_fused_kind kind, int64_t *block)
{
    const gg_tensor *t = gg_source_tensor(s, i);
    const gg_fused_names *names = &gg_fused_names_of[kind];
    if (t->name_len < 5 || memcmp(t->name, "blk.", 4) != 0) return false;
    if (!has_stem(t, names->fused) && !has_stem(t, names->parts[0])) return false;
    *block = t->a.block;
    if (*block < 0) return false;
    gg_fused_members m = gg_fused_find(s, *block, kind, ".weight");
    return i == m.fused || i == m.parts[0];
}

static form form_of(const gg_source *s, gg_fused_kind kind)
{
    form f = { 0 };
    int64_t block;
    for (size_t i = 0; i < gg_source_count(s); i++) {
        if (!gg_fused_leads(s, i, kind, &block)) continue;
        gg_fused_members m = gg_fused_find(s, block, kind, ".weight");
        f.fused |= m.have == 0;
        for (size_t k = 0; m.have == m.n && k < m.n && !f.separate; k++)
            f.rows[k] = rows_of(s, m.parts[k]);
        f.separate |= m.have == m.n;
    }
    return f;
}

/* Whether the other model has the tensors of this block in the other form. The rows of its parts
 * tell where to divide, and whether ffn_up is a fused tensor. */
static bool differs_in_form(const gg_source *like, const gg_source *s, const form *f,
                            gg_fused_group *g)
{
    gg_fused_members mine = gg_fused_find(s, g->block, g->kind, ".weight");
    gg_fused_members theirs = gg_fused_find(like, g->block, g->kind, ".weight");
    uint64_t rows = 0;
    bool elsewhere = theirs.fused == SIZE_MAX && theirs.have == 0;
    g->fuse = mine.have == mine.n;
    if (g->fuse) {
        for (size_t i = 0; i < mine.n; i++) rows += rows_of(s, mine.parts[i]);
        return elsewhere ? f->fused && !f->separate && g->kind != GG_FUSED_FFN
                         : theirs.have == 0 && rows && rows_of(like, theirs.fused) == rows;
    }
    if (mine.have || mine.fused == SIZE_MAX) return false;
    if (elsewhere ? !f->separate || f->fused : theirs.have < theirs.n) return false;
    for (size_t i = 0; i < mine.n; i++) {
        g->rows[i] = elsewhere ? f->rows[i] : rows_of(like, theirs.parts[i]);
        rows += g->rows[i];
    }
    return rows && rows == rows_of(s, mine.fused);
}

gg_status gg_source_like(const gg_source *like, gg_source **source, gg_error *err)
{
    gg_source *s = *source, *view = NULL;
    size_t n = 0, count = gg_source_count(s);
    gg_status st = GG_OK;
    if (!gg_source_seekable(like) || !gg_source_seekable(s)) return GG_OK;
    gg_fused_group *groups = calloc(GG_FUSED_KINDS * count + 1, sizeof *groups);
    if (!groups) return gg_fail(err, GG_ENOMEM, "no memory for %zu tensors", count);
    for (int kind = 0; kind < GG_FUSED_KINDS; kind++) {
        form f = form_of(like, (gg_fused_kind)kind);
        for (size_t i = 0; i < count && (f.fused || f.separate); i++) {
            gg_fused_group *g = &groups[n];
            *g = (gg_fused_group){ .kind = (gg_fused_kind)kind };
            n += gg_fused_leads(s, i, g->kind, &g->block) && differs_in_form(like, s, &f, g);
        }
    }
    gg_error why = GG_ERROR_INIT;
    if (n) st = gg_fused_open(s, groups, n, true, &view, &why);
    free(groups);
    if (st == GG_OK && view) *source = view;
    /* parts that do not fit together are compared as they are, and reported there */
    if (st == GG_NO) return GG_OK;
    gg_error_merge(err, &why);
    return st;
}

/* ---- importance matrices --------------------------------------------------------------------- */

bool gg_fused_sibling(const char *name, size_t len, size_t k, char *out, size_t size)
{
    static const size_t tail = sizeof ".weight" - 1;
    gg_anatomy a = gg_anatomy_of(name, len);
    if (a.block < 0 || k >= GG_FUSED_PARTS || len < a.role_at + tail) return false;
    const char *role = name + a.role_at;
    size_t n = len - a.role_at - tail;
    for (int kind = 0; kind < GG_FUSED_KINDS; kind++) {
        const gg_fused_names *f = &gg_fused_names_of[kind];
        bool part = false, fused = strlen(f->fused) == n && memcmp(f->fused, role, n) == 0;
        for (size_t i = 0; i < GG_FUSED_PARTS && f->parts[i]; i++)
            part |= strlen(f->parts[i]) == n && memcmp(f->parts[i], role, n) == 0;
        const char *other = fused ? f->parts[k] : part && k == 0 ? f->fused : NULL;
        if (!fused && !part) continue;
        int got = other ? snprintf(out, size, "%.*s%s.weight", (int)a.role_at, name, other) : 0;
        return got > 0 && (size_t)got < size;
    }
    return false;
}

/* hf_write.c - a GGUF model under Hugging Face names, and a GGUF adapter as PEFT has it: the
 * inverse of what checkpoint.c and peft.c do.
 *
 * Rows of the table tell where the values of a stored array go. For a GGUF tensor, the rows of one
 * array are collected, the shape of the array is found by trying those that it may have, and the
 * views of the rows are turned round. An array is written only if its values are exactly those of
 * the tensors.
 */
#include "hf_write.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/text.h"
#include "organ/source_layout.h"
#include "quant/quant.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "base_model.model."
#define EMBEDDING "token_embd"
#define TWO_NORMS "L.ln_mlp" /* the first norm of falcon, if a block has two */
#define ROWS 3               /* of one array */
#define RUNS (1 << 20)       /* of one array */

/* ---- names -------------------------------------------------------------------------------- */

/* "blk.3.attn_q.weight" is "B.attn_q", 3 and ".weight". */
typedef struct gguf_name {
    char plain[GG_HF_NAME], whole[GG_HF_NAME]; /* without and with the ending */
    const char *ending;
    long long block;
} gguf_name;

/* The first `len` bytes of a name; nothing if they are too long. "blk.03.attn_q.weight" is not a
 * name of block 3, which may have a tensor of the proper name too. */
static void split_gguf_name(const char *name, size_t len, gguf_name *out)
{
    static const char *const endings[] = { ".weight", ".bias", "" };
    char proper[32];
    int skip = 0;
    *out = (gguf_name){ .ending = "", .block = -1 };
    if (len >= GG_HF_NAME) return;
    if (sscanf(name, "blk.%18lld.%n", &out->block, &skip) == 1 && skip > 0 && (size_t)skip < len &&
        snprintf(proper, sizeof proper, "blk.%lld.", out->block) == skip &&
        memcmp(name, proper, (size_t)skip) == 0)
        snprintf(out->whole, GG_HF_NAME, "B.%.*s", (int)len - skip, name + skip);
    else snprintf(out->whole, GG_HF_NAME, "%.*s", (int)len, name);
    len = strlen(out->whole);
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(endings[i]);
        if (len < n || strcmp(out->whole + len - n, endings[i]) != 0) continue;
        out->ending = endings[i];
        snprintf(out->plain, GG_HF_NAME, "%.*s", (int)(len - n), out->whole);
        break;
    }
}

/* Writes the name without its ending: prefixes, the block for L and the expert for E. */
static bool hf_name(const gg_hf_writer *w, const gg_hf_name *rule, long long block, uint64_t expert,
                    char out[GG_HF_NAME])
{
    const char *arch = w->arch;
    const char *model = gg_hf_is(arch, GG_HF_IN_TRANSFORMER) ? "transformer."
                        : gg_hf_is(arch, GG_HF_IN_BACKBONE)  ? "backbone."
                        : gg_hf_is(arch, GG_HF_IN_GPT_NEOX)  ? "gpt_neox."
                                                             : "model.";
    const char *p = rule->hf;
    if (strncmp(p, "rope_", 5) == 0 || (p[0] != 'L' && strcmp(rule->gguf, "output") == 0))
        model = "";
    bool mtp = p[0] == 'L' && block >= w->trunk, whole = mtp && strncmp(p, "L.mtp.", 6) == 0;
    int n = whole         ? snprintf(out, GG_HF_NAME, "mtp")
            : mtp         ? snprintf(out, GG_HF_NAME, "mtp.layers.%lld", block - w->trunk)
            : p[0] == 'L' ? snprintf(out, GG_HF_NAME, "%s%s.%lld", model,
                                     gg_hf_is(arch, GG_HF_IN_TRANSFORMER) ? "h" : "layers", block)
                          : snprintf(out, GG_HF_NAME, "%s", model);
    if (p[0] == 'L') p += whole ? 5 : 1;
    const char *e = strstr(p, ".E.");
    int m = e ? snprintf(out + n, GG_HF_NAME - (size_t)n, "%.*s.%llu.%s", (int)(e - p), p,
                         (unsigned long long)expert, e + 3)
              : snprintf(out + n, GG_HF_NAME - (size_t)n, "%s", p);
    return m > 0 && n + m < GG_HF_NAME;
}

/* ---- arrays ------------------------------------------------------------------------------- */

/* A tensor, or one expert of it, that is a part of an array. */
typedef struct hf_part {
    size_t in; /* in gg_checkpoint.in */
    uint32_t n;
    uint64_t dims[GG_HF_AXES]; /* row-major */
    const char *ops;
} hf_part;

/* Consecutive elements of an array. */
typedef struct hf_run {
    uint64_t at;
    gg_ck_piece piece;
} hf_run;

typedef struct hf_array {
    uint32_t n;
    uint64_t dims[GG_HF_AXES];
    hf_run *runs;
    size_t n_runs, cap;
    bool neg_exp;
    bool no_room; /* memory was not enough for its runs */
} hf_array;

static uint64_t count_elements(const hf_part *p)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < p->n; i++) n *= p->dims[i];
    return n;
}

/* Adds the elements of a view, which become those of a part from `start` on. The axes with the
 * smallest steps are consecutive in the array; for each index of the others there is a run. */
static gg_status add_runs(hf_array *a, const gg_hf_view *v, size_t in, uint64_t start,
                          gg_error *err)
{
    uint32_t order[GG_HF_AXES] = { 0 }, outer = v->n;
    uint64_t stride[GG_HF_AXES] = { 0 }, next = 1, runs = 1, block = 1;
    for (uint32_t i = v->n; i-- > 0; next *= v->count[i]) stride[i] = next;
    for (uint32_t i = 0; i < v->n; i++) { /* by descending steps */
        uint32_t k = i;
        for (; k > 0 && v->step[order[k - 1]] < v->step[i]; k--) order[k] = order[k - 1];
        order[k] = i;
    }
    for (; outer > 0; outer--) {
        uint32_t k = order[outer - 1];
        if (v->count[k] != 1 && v->step[k] != block) break;
        block *= v->count[k];
    }
    for (uint32_t i = 0; i < outer; i++) runs *= v->count[order[i]];
    if (runs > RUNS) return gg_fail(err, GG_EUNSUPPORTED, "its values are too scattered");
    for (uint64_t r = 0; r < runs; r++) {
        hf_run run = { .at = v->first, .piece = { .in = (uint32_t)in, .expert = -1 } };
        uint64_t left = r;
        run.piece.view.first = start;
        /* not 0: with a count of 0 there are no runs */
        for (uint32_t i = outer; i-- > 0; left /= v->count[order[i]]) {
            run.at += left % v->count[order[i]] * v->step[order[i]];
            run.piece.view.first += left % v->count[order[i]] * stride[order[i]];
        }
        gg_hf_view *to = &run.piece.view;
        for (uint32_t i = outer; i < v->n; i++) {
            to->count[to->n] = v->count[order[i]];
            to->step[to->n++] = stride[order[i]];
        }
        if (to->n == 0) *to = (gg_hf_view){ 1, to->first, { 1 }, { 1 }, { 0 } };
        if (GG_ROOM(a->runs, a->n_runs, &a->cap, err) != GG_OK) return err->status;
        a->runs[a->n_runs++] = run;
    }
    return GG_OK;
}

static int by_start(const void *x, const void *y)
{
    const hf_run *a = x, *b = y;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* Shapes that an array may have whose first part is `p` and which has `total` elements. */
static bool shape_number(unsigned i, const hf_part *p, uint64_t total, hf_array *a)
{
    const uint64_t *d = p->dims;
    uint32_t n = p->n;
    uint64_t last = n ? d[n - 1] : 0, before = n > 1 ? d[n - 2] : 0, plane = d[0] * last;
    hf_array shapes[] = {
        { .n = n == 2 ? 3 : 0, .dims = { d[0], 1, last } }, /* squeezed */
        { .n = n },
        { .n = n == 2 ? 2 : 0, .dims = { last, d[0] } }, /* transposed */
        { .n = 1, .dims = { total } },
        { .n = last ? 2 : 0, .dims = { last ? total / last : 0, last } },
        { .n = before ? 2 : 0, .dims = { before ? total / before : 0, before } },
        { .n = n == 3 && plane ? 3 : 0, .dims = { d[0], plane ? total / plane : 0, last } },
    };
    if (i >= sizeof shapes / sizeof *shapes) return false;
    memcpy(shapes[1].dims, d, n * sizeof *d);
    a->n = shapes[i].n;
    memcpy(a->dims, shapes[i].dims, sizeof a->dims);
    return true;
}

/* Whether the array of this shape becomes the parts, and consists of nothing else. */
static bool has_parts(hf_array *a, const hf_part *parts, size_t n, const gg_hf_sizes *sizes,
                      uint64_t total)
{
    gg_error why = GG_ERROR_INIT;
    gg_hf_move move;
    uint64_t end = 0;
    a->n_runs = 0;
    for (size_t i = 0; i < n; i++) {
        const hf_part *p = &parts[i];
        uint64_t start = 0;
        if (!gg_hf_views(p->ops, sizes, a->n, a->dims, &move) || move.n_dims != p->n ||
            memcmp(move.dims, p->dims, p->n * sizeof *p->dims) != 0)
            return false;
        a->neg_exp = move.neg_exp;
        for (uint32_t v = 0; v < move.n_views; v++) {
            if (add_runs(a, &move.view[v], p->in, start, &why) != GG_OK) {
                a->no_room = a->no_room || why.status == GG_ENOMEM;
                return false;
            }
            start += gg_hf_view_elements(&move.view[v]);
        }
    }
    if (a->n_runs) qsort(a->runs, a->n_runs, sizeof *a->runs, by_start);
    for (size_t i = 0; i < a->n_runs; i++) {
        if (a->runs[i].at != end) return false;
        end += gg_hf_view_elements(&a->runs[i].piece.view);
    }
    return end == total;
}

/* Finds the array that becomes the parts. Its runs are the caller's to free, also on failure. */
static bool array_of_parts(const hf_part *parts, size_t n, const gg_hf_sizes *sizes, hf_array *a)
{
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++) total += count_elements(&parts[i]);
    for (unsigned i = 0; total && shape_number(i, &parts[0], total, a); i++)
        if (a->n && has_parts(a, parts, n, sizes, total)) return true;
    return false;
}

/* ---- tensors ------------------------------------------------------------------------------ */

static gg_status refuse_tensor(const gg_hf_writer *w, size_t i, const char *why, gg_error *err)
{
    const gg_st_tensor *in = &w->ck->in.items[i];
    gg_fail(err, GG_EUNSUPPORTED, "%s", why);
    gg_at_tensor(err, in->name, in->name_len);
    return gg_at_file(err, gg_source_name(w->s));
}

/* Lists the tensor as a stored one. */
static gg_status store_tensor(gg_hf_writer *w, size_t i, gg_error *err)
{
    const gg_model *m = gg_source_model(w->s);
    const gg_tensor *t = gg_source_tensor(w->s, i);
    gg_st_tensor *in = &w->ck->in.items[i];
    *in = (gg_st_tensor){ .name = t->name,
                          .name_len = t->name_len,
                          .n_dims = t->n_dims,
                          .elements = t->elements,
                          .bytes = t->bytes,
                          .at = gg_model_at(m, t),
                          .file = t->file };
    for (uint32_t k = 0; k < t->n_dims; k++) in->dims[k] = t->dims[t->n_dims - 1 - k];
    while (in->type <= GG_ST_BF16 && gg_st_dtype(in->type) != t->dtype) in->type++;
    if (in->type <= GG_ST_BF16) {
        w->ck->in.n++;
        return GG_OK;
    }
    if (gg_dtype_get(t->dtype)->block_elems < 2 || !gg_can_decode(t->dtype))
        return refuse_tensor(w, i, "its type cannot be written under Hugging Face names", err);
    in->type = w->decoded;
    in->packed = t->dtype;
    w->ck->decode = gg_decode;
    w->ck->in.n++;
    return GG_OK;
}

/* Whether F32 keeps what gg_ck_change needs to give these values back; if not, *wide is set. */
static gg_status check_change(gg_hf_writer *w, size_t i, gg_ck_op op, bool *wide, gg_error *err)
{
    enum { BATCH = 4096 };
    const gg_st_tensor *in = &w->ck->in.items[i];
    gg_ck_op back = op == GG_CK_MINUS_ONE ? GG_CK_PLUS_ONE : GG_CK_NEG_EXP;
    size_t size = gg_st_type_size(in->type);
    uint8_t raw[BATCH * 4];
    float x[BATCH];
    gg_data d;
    if (in->packed) return refuse_tensor(w, i, "its values change, but are quantized", err);
    gg_status st = gg_data_open(w->s, i, &d, err);
    if (st != GG_OK) return st;
    for (uint64_t at = 0; at < in->elements && st == GG_OK; at += BATCH) {
        size_t n = in->elements - at < BATCH ? (size_t)(in->elements - at) : BATCH;
        st = gg_data_read(&d, at * size, raw, n * size, err);
        if (st == GG_OK) gg_st_decode(in->type, raw, x, n);
        for (size_t k = 0; k < n && st == GG_OK; k++) {
            double y = gg_ck_change(op, x[k]);
            if (gg_float_bits((float)gg_ck_change(back, (float)y)) != gg_float_bits(x[k]))
                *wide = true;
            if (op == GG_CK_LOG_NEG && !(x[k] < 0))
                st = refuse_tensor(w, i, "a value of it is not below 0, so it is not -exp of one",
                                   err);
        }
    }
    gg_data_close(&d);
    return st;
}

/* Adds the array under a name; of stacked experts, that of one. */
static gg_status add_array(gg_hf_writer *w, const char *name, const hf_array *a, uint64_t expert,
                           gg_ck_op op, gg_error *err)
{
    size_t first = a->runs[0].piece.in;
    bool wide = false;
    gg_status st = GG_OK;
    gg_ck_tensor *t = gg_ck_tensor_named(w->ck, name, strlen(name), err);
    if (!t) return err->status;
    if (t->n_pieces) {
        char why[200];
        snprintf(why, sizeof why, "it and '%.100s' have the same Hugging Face name", t->hf_name);
        refuse_tensor(w, first, why, err);
        return gg_fix(err, "write it under GGUF names");
    }
    if (op != GG_CK_NONE) st = check_change(w, first, op, &wide, err);
    t->hf_name = w->ck->in.items[first].name;
    t->op = op;
    t->wide = wide;
    t->shape = a->n;
    memcpy(t->dims, a->dims, sizeof t->dims);
    for (size_t i = 0; i < a->n_runs && st == GG_OK; i++) {
        gg_ck_piece piece = a->runs[i].piece;
        const gg_st_tensor *in = &w->ck->in.items[piece.in];
        /* not 0: there is an expert */
        if (expert > 0) piece.view.first += expert * (in->elements / in->dims[0]);
        st = gg_ck_add_piece(w->ck, t, &piece, err);
    }
    return st;
}

/* The first row of the array that a row is of. */
static const gg_hf_name *first_row(const gg_hf_name *r)
{
    while (r > gg_hf_names && gg_hf_further(r - 1) == r) r--;
    return r;
}

/* The tensors that become one array, with `suffix` behind their names. */
typedef struct hf_group {
    const gg_hf_name *first; /* its rows */
    const char *ending;      /* of the Hugging Face name */
    hf_part parts[ROWS];
    size_t n;
    uint64_t experts; /* 0 = not stacked */
} hf_group;

static bool add_part(const gg_hf_writer *w, const gg_hf_name *r, const gguf_name *name,
                     const char *suffix, hf_group *g)
{
    char gguf[GG_HF_NAME], full[GG_HF_NAME + 8];
    gg_hf_match m = { .block = name->block, .ending = g->ending };
    bool stack = strstr(r->hf, ".E.") != NULL;
    if (g->n == ROWS || !gg_hf_gguf_name(r, &m, gguf)) return false;
    snprintf(full, sizeof full, "%s%s", gguf, suffix);
    size_t i = gg_source_find(w->s, full, strlen(full));
    const gg_st_tensor *in = i == SIZE_MAX ? NULL : &w->ck->in.items[i];
    if (!in || in->n_dims > GG_HF_AXES || in->n_dims < 1 + 2 * (uint32_t)stack) return false;
    uint64_t experts = gg_arch_number(gg_source_meta(w->base ? w->base : w->s), "expert_count");
    if (stack && experts && in->dims[0] != experts) return false; /* it would not be read back */
    hf_part *p = &g->parts[g->n++];
    *p = (hf_part){ .in = i, .n = in->n_dims - stack, .ops = r->ops };
    memcpy(p->dims, in->dims + stack, p->n * sizeof *p->dims);
    g->experts = stack ? in->dims[0] : 0;
    return true;
}

/* Whether the architecture has a row of its own for the GGUF name of a row of all. */
static bool is_replaced(const gg_hf_writer *w, const gg_hf_name *row)
{
    for (const gg_hf_name *r = gg_hf_names; r < row && !row->archs; r++)
        if (r->archs && strcmp(r->gguf, row->gguf) == 0 && gg_hf_has(r->archs, w->arch) &&
            strcmp(r->hf, TWO_NORMS) != 0)
            return true;
    return false;
}

/* Collects the tensors for the array of a row, if it is read back as that of the name. */
static bool fill_group(const gg_hf_writer *w, const gguf_name *name, const char *suffix,
                       const gg_hf_name *r, hf_group *g)
{
    char hf[GG_HF_NAME], norm[GG_HF_NAME];
    bool whole = strcmp(r->gguf, name->whole) == 0;
    if (!whole && strcmp(r->gguf, name->plain) != 0) return false;
    if (!gg_hf_has(r->archs, w->arch) || is_replaced(w, r)) return false;
    snprintf(norm, sizeof norm, "blk.%lld.attn_norm_2.weight", name->block);
    if (strcmp(r->hf, TWO_NORMS) == 0 && gg_source_find(w->s, norm, strlen(norm)) == SIZE_MAX)
        return false;
    *g = (hf_group){ .first = first_row(r), .ending = whole ? "" : name->ending };
    bool ok = hf_name(w, r, name->block, 0, hf);
    size_t len = strlen(hf);
    snprintf(hf + len, sizeof hf - len, "%s", g->ending);
    ok = ok && gg_hf_find(w->arch, hf, strlen(hf)).rule == g->first;
    for (const gg_hf_name *one = g->first; one && ok; one = gg_hf_further(one))
        ok = add_part(w, one, name, suffix, g);
    return ok;
}

/* Adds a tensor of a model, and those that are in the same array; or a norm of an adapter. */
static gg_status add_tensor(gg_hf_writer *w, size_t i, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(w->s, i);
    char name[GG_HF_NAME], full[2 * GG_HF_NAME];
    gguf_name split;
    hf_group g;
    hf_array a = { .n = 0 };
    gg_status st = GG_OK;
    const gg_hf_name *r = gg_hf_names;
    split_gguf_name(t->name, t->name_len, &split);
    while (r->hf &&
           !(fill_group(w, &split, "", r, &g) && array_of_parts(g.parts, g.n, &w->sizes, &a)))
        r++;
    if (!r->hf || a.no_room) {
        free(a.runs);
        if (a.no_room) return gg_ck_no_room(err);
        refuse_tensor(w, i, "this tensor of the architecture has no Hugging Face tensor", err);
        return gg_fix(err, "write it under GGUF names");
    }
    for (size_t k = 0; k < g.n; k++) w->done[g.parts[k].in] = true;
    for (uint64_t e = 0; e < (g.experts ? g.experts : 1) && st == GG_OK; e++) {
        hf_name(w, r, split.block, e, name);
        snprintf(full, sizeof full, "%s%s%s", w->base ? PREFIX : "", name, g.ending);
        const char *hf = full + (w->base ? strlen(PREFIX) : 0);
        gg_ck_op op = a.neg_exp                                    ? GG_CK_LOG_NEG
                      : gg_hf_is_plus_one(w->arch, hf, strlen(hf)) ? GG_CK_MINUS_ONE
                                                                   : GG_CK_NONE;
        st = add_array(w, full, &a, e, op, err);
    }
    free(a.runs);
    return st;
}

/* ---- pairs of adapters -------------------------------------------------------------------- */

/* The halves of a pair as arrays. Rows move in lora_B, and columns in lora_A; an embedding has
 * its lora_A transposed, and Conv1D is not transposed at all. */
static bool arrays_of_pair(const gg_hf_writer *w, const hf_group *of_a, hf_group *of_b,
                           bool embedding, hf_array *a, hf_array *b)
{
    hf_part half = of_a->parts[0], *first = &of_b->parts[0];
    gg_hf_pair_ops(first->ops, embedding, &half.ops, &first->ops);
    return array_of_parts(&half, 1, &w->sizes, a) &&
           array_of_parts(of_b->parts, of_b->n, &w->sizes, b) && a->n == 2 && b->n == 2 &&
           a->dims[0] == b->dims[1];
}

static gg_status write_pair(gg_hf_writer *w, const hf_group *g, const gguf_name *name,
                            const hf_array *a, const hf_array *b, gg_error *err)
{
    char module[GG_HF_NAME], full[2 * GG_HF_NAME];
    bool embedding = strcmp(name->plain, EMBEDDING) == 0;
    gg_status st = GG_OK;
    for (uint64_t e = 0; e < (g->experts ? g->experts : 1) && st == GG_OK; e++) {
        hf_name(w, g->first, name->block, e, module);
        snprintf(full, sizeof full, PREFIX "%s.%s", module,
                 embedding ? "lora_embedding_A" : "lora_A.weight");
        st = add_array(w, full, a, e, GG_CK_NONE, err);
        snprintf(full, sizeof full, PREFIX "%s.%s", module,
                 embedding ? "lora_embedding_B" : "lora_B.weight");
        if (st == GG_OK) st = add_array(w, full, b, e, GG_CK_NONE, err);
        if (st == GG_OK) st = gg_hf_add_module(w, module, a->dims[0], err);
        bool conv = g->first->ops && strcmp(g->first->ops, "swap0,1") == 0;
        w->fan_in_fan_out = w->fan_in_fan_out || conv;
    }
    return st;
}

/* Adds the pair whose lora_a is tensor i; and those that become parts of the same matrix, which
 * must have the same lora_a. */
static gg_status add_pair(gg_hf_writer *w, size_t i, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(w->s, i);
    gguf_name name;
    hf_group of_a = { .n = 0 }, of_b;
    hf_array a = { .n = 0 }, b = { .n = 0 };
    bool fits = false;
    split_gguf_name(t->name, t->name_len - strlen(".lora_a"), &name);
    for (const gg_hf_name *r = gg_hf_names; r->hf && !fits; r++)
        fits = fill_group(w, &name, ".lora_b", r, &of_b) &&
               fill_group(w, &name, ".lora_a", r, &of_a) && of_a.experts == of_b.experts &&
               arrays_of_pair(w, &of_a, &of_b, strcmp(name.plain, EMBEDDING) == 0, &a, &b);
    gg_status st = a.no_room || b.no_room ? gg_ck_no_room(err) : GG_OK;
    for (size_t k = 0; k < of_a.n && fits && st == GG_OK; k++) {
        w->done[of_a.parts[k].in] = w->done[of_b.parts[k].in] = true;
        bool same;
        st = gg_ck_same_values(w->ck, &w->ck->in.items[of_a.parts[0].in],
                               &w->ck->in.items[of_a.parts[k].in], &same, err);
        if (st == GG_OK && !same)
            st = refuse_tensor(
                w, of_a.parts[k].in,
                "its matrix is a part of one in the checkpoint, and the pairs of the "
                "parts have different lora_a",
                err);
    }
    if (st == GG_OK && !fits) st = refuse_tensor(w, i, "its pair has no counterpart in PEFT", err);
    if (st == GG_OK) st = write_pair(w, &of_b, &name, &a, &b, err);
    free(a.runs);
    free(b.runs);
    return st;
}

static gg_status add_named(gg_hf_writer *w, size_t i, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(w->s, i);
    char other[GG_HF_NAME];
    if (w->done[i]) return GG_OK;
    if (w->base && gg_text_ends(t->name, t->name_len, ".lora_a")) return add_pair(w, i, err);
    if (!w->base || !gg_text_ends(t->name, t->name_len, ".lora_b")) return add_tensor(w, i, err);
    snprintf(other, sizeof other, "%.*sa", (int)(t->name_len - 1), t->name);
    if (gg_source_find(w->s, other, strlen(other)) != SIZE_MAX) return GG_OK; /* added with it */
    return refuse_tensor(w, i, "the other half of this pair is missing", err);
}

/* ---- opening ------------------------------------------------------------------------------ */

/* The architecture and the sizes, of the model or of an adapter's base. */
static gg_status learn_model(gg_hf_writer *w, const gg_source *base, gg_error *err)
{
    const gg_meta *own = gg_source_meta(w->s), *meta = base ? gg_source_meta(base) : own;
    if (!gg_source_model(w->s)) {
        gg_fail(err, GG_EUNSUPPORTED, "only a GGUF file can be written under Hugging Face names");
        return gg_at_file(err, gg_source_name(w->s));
    }
    if (!meta) {
        gg_fail(err, GG_EUSAGE, "it consists of organ records, but must be a model");
        return gg_at_file(err, gg_source_name(base));
    }
    bool adapter = gg_meta_text_is(own, "general.type", "adapter");
    if (adapter != (base != NULL)) {
        gg_fail(err, GG_EUSAGE,
                adapter ? "an adapter needs its base to be written for PEFT"
                        : "it is not an adapter");
        return gg_at_file(err, gg_source_name(w->s));
    }
    bool known = gg_hf_arch(own, w->arch);
    if (base && !gg_meta_text_is(meta, "general.architecture", w->arch)) {
        gg_fail(err, GG_NO, "the adapter is for a model of architecture %s, which its base is not",
                w->arch);
        return gg_at_file(err, gg_source_name(base));
    }
    w->base = base;
    w->sizes = gg_hf_sizes_of(meta);
    w->sizes.vocab = UINT64_MAX;
    uint64_t blocks = gg_arch_number(meta, "block_count"),
             mtp = gg_arch_number(meta, "nextn_predict_layers");
    w->trunk = mtp && mtp < blocks && blocks < 1000000 ? (int64_t)(blocks - mtp) : INT64_MAX;
    if (!known)
        gg_fail(err, GG_EUNSUPPORTED,
                "the Hugging Face names of the architecture '%s' are not known", w->arch);
    return gg_at_file(err, gg_source_name(w->s));
}

/* Opens the files of the model once more. */
static gg_status share_files(gg_checkpoint *ck, const gg_model *m, gg_error *err)
{
    for (size_t i = 0; i < m->n_files; i++) {
        int fd = fcntl(m->fds[i], F_DUPFD_CLOEXEC, 3);
        if (fd < 0) gg_fail_errno(err, "cannot open");
        if (gg_ck_add_file(ck, m->paths[i], fd, err) != GG_OK) return err->status;
        ck->files[i].stamp = m->stamps[i];
    }
    return GG_OK;
}

/* The names of the tensors in the order of the model, which files of a checkpoint do not keep. */
static gg_status note_order(gg_hf_writer *w, gg_error *err)
{
    gg_buf b = GG_BUF_INIT;
    gg_buf_text(&b, "", err);
    for (size_t i = 0; i < w->ck->in.n && err->status == GG_OK; i++)
        gg_buf_printf(&b, err, "%s\n", w->ck->in.items[i].name);
    if (err->status == GG_OK) w->ck->order = gg_buf_take(&b, NULL);
    else gg_buf_free(&b);
    return err->status;
}

gg_status gg_source_hf_open(gg_source *of, const gg_source *base, bool wide, gg_source **out,
                            gg_error *err)
{
    size_t n = gg_source_count(of);
    gg_hf_writer w = { .s = of, .decoded = wide ? GG_ST_F32 : GG_ST_F16 };
    gg_status st = learn_model(&w, base, err);
    gg_checkpoint *ck = st == GG_OK ? calloc(1, sizeof *ck) : NULL;
    if (!ck) return st == GG_OK ? gg_ck_no_room(err) : st;
    w.ck = ck;
    ck->header.version = 3;
    ck->header.alignment = GG_DEFAULT_ALIGNMENT;
    ck->has_keys = true;
    st = gg_meta_copy(&ck->header.meta, gg_source_meta(of), err);
    if (st == GG_OK) st = share_files(ck, gg_source_model(of), err);
    ck->in.items = calloc(n + 1, sizeof *ck->in.items);
    w.done = calloc(n + 1, sizeof *w.done);
    if (!ck->in.items || !w.done) st = gg_ck_no_room(err);
    for (size_t i = 0; i < n && st == GG_OK; i++) st = store_tensor(&w, i, err);
    for (size_t i = 0; i < n && st == GG_OK; i++) st = add_named(&w, i, err);
    if (st == GG_OK) st = gg_ck_finish(ck, false, err);
    if (st == GG_OK) st = note_order(&w, err);
    if (st == GG_OK) st = base ? gg_hf_adapter_config(&w, err) : gg_hf_model_config(&w, err);
    free(w.done);
    free(w.modules);
    gg_names_free(&w.names);
    if (st == GG_OK) return gg_source_of_checkpoint(ck, gg_source_name(of), out, err);
    gg_checkpoint_close(ck);
    return st;
}

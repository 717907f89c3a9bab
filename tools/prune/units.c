/* units.c - removes hidden units from the matrices of FFNs and experts, fits the rest, and lets
 * the importance matrix follow. */
#include "prune.h"
#include "refit.h"

#include "assemble/experts.h"
#include "base/error.h"
#include "compute/imatrix_write.h"
#include "compute/samples.h"
#include "gguf/gguf.h"
#include "numeric/matrix.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "quant/quant.h"
#include "write/copy.h"
#include "write/verb_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- units ------------------------------------------------------------------------------- */

/* A tensor of which some columns or rows are left, the same number in each matrix. */
typedef struct thin_ctx {
    gg_computation base; /* first: see compute.h; its input has the tensor as it was */
    gg_tensor was;
    bool columns;
    const float *gains;   /* of each matrix; NULL = 1. Those of the line */
    gg_samples samples;   /* of the inputs, if its source is not NULL: instead of gains, columns */
    gg_refit refit;       /* what replaces removed experts, if its model is not NULL */
    const uint64_t *kept; /* replace the removed ones. The number of each matrix in them */
    uint64_t matrices, n; /* n of them are left per matrix: */
    uint32_t left[];
} thin_ctx;

gg_status gg_read_parts(const gg_plan_part *parts, size_t n_parts, uint64_t at, void *to, size_t n,
                        gg_error *err)
{
    size_t k = 0;
    for (; k + 1 < n_parts && at >= parts[k].bytes; k++) at -= parts[k].bytes;
    const gg_plan_part *p = &parts[k];
    gg_data d;
    gg_status st = gg_data_open(p->source, p->index, &d, err);
    if (st != GG_OK) return st;
    st = gg_data_read(&d, p->at + at, to, n, err);
    gg_data_close(&d);
    return st;
}

static gg_status read_thin(const thin_ctx *c, uint64_t at, void *to, size_t n, gg_error *err)
{
    return gg_read_parts(c->base.in[0].parts, c->base.in[0].n_parts, at, to, n, err);
}

#define RIDGE 0.01 /* multiple of the mean diagonal of the Gram matrix */

/* Solves the equations: `map` has X' X[:,left] and gets the solution. *zero: all samples are 0. */
static gg_status solve_map(float *map, size_t columns, const uint32_t *left, size_t n, bool *zero,
                           gg_error *err)
{
    double *s = malloc(n * n * sizeof *s + 1), trace = 0;
    if (!s) return gg_fail(err, GG_ENOMEM, "no memory for a Gram matrix of %zu columns", n);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) s[i * n + j] = (double)map[left[i] * n + j];
    for (size_t i = 0; i < n; i++) trace += s[i * n + i];
    for (size_t i = 0; i < n; i++) s[i * n + i] += RIDGE * trace / (double)n;
    *zero = !(trace > 0);
    gg_status st = isfinite(trace) ? GG_OK : gg_fail(err, GG_EFORMAT, "its samples are too large");
    if (st == GG_OK && !*zero) st = gg_cholesky(s, n, 1, err);
    if (st == GG_OK && !*zero) st = gg_cholesky_solve(s, n, map, columns, 1, err);
    for (size_t i = 0; i < n * n; i++) map[left[i / n] * n + i % n] = i / n == i % n;
    free(s);
    return st;
}

/* How the n ascending columns `left` replace all columns on the samples: *map, columns x n, is
 * the least-squares solution of X[:,left] map = X. The rows of columns that are left are those of
 * the identity, and a small multiple of the identity is added to the equations, so that
 * removed columns count for nothing where samples are few. *map is NULL if all samples are 0; free
 * it even on error. Memory: the samples twice, columns x n floats and n x n doubles. */
static gg_status map_samples(const gg_samples *s, const uint32_t *left, size_t n, float **map,
                             gg_error *err)
{
    size_t rows = 0, columns = (size_t)gg_source_tensor(s->source, s->at)->dims[0];
    float *x = NULL, *kept = NULL;
    bool zero = false;
    *map = NULL;
    gg_status st = gg_samples_read(s, &x, &rows, err);
    if (st == GG_OK) {
        kept = malloc(rows * n * sizeof *kept + 1);
        *map = malloc(columns * n * sizeof **map + 1);
        if (!kept || !*map) st = gg_fail(err, GG_ENOMEM, "no memory for the samples of a matrix");
    }
    for (size_t i = 0; i < rows * n && st == GG_OK; i++) kept[i] = x[i / n * columns + left[i % n]];
    gg_matrix all = gg_matrix_of(x, rows, columns), turned = gg_matrix_transposed(&all),
              some = gg_matrix_of(kept, rows, n), product = gg_matrix_of(*map, columns, n);
    if (st == GG_OK) st = gg_matmul(&product, &turned, &some, 1, err);
    if (st == GG_OK) st = solve_map(*map, columns, left, n, &zero, err);
    free(x);
    free(kept);
    if (st == GG_OK && !zero) return GG_OK;
    free(*map);
    *map = NULL;
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(s->source));
}

/* The room of a thread: several rows as stored and decoded, and the columns that are left. */
typedef struct thin_room {
    const thin_ctx *of;
    uint8_t *raw, *out;
    float *x, *y;
    float *map; /* of the matrix: map_samples; NULL = none */
    size_t rows;
    gg_refit_fit fit;
    float *change; /* of the matrix by the fit; NULL = none */
} thin_room;

/* Computes rows [first, first + n) of matrix m without some columns, in r->y. */
static gg_status thin_columns(const thin_ctx *c, const thin_room *r, uint64_t m, uint64_t first,
                              size_t n, gg_error *err)
{
    size_t row = (size_t)c->was.dims[0];
    /* not 0: as in open_room */
    uint64_t bytes = gg_encoded_bytes(c->was.dtype, row), all = c->was.elements / row / c->matrices;
    const uint32_t *left = c->left + m * c->n;
    float gain = c->gains ? c->gains[m] : 1;
    gg_status st = read_thin(c, (m * all + first) * bytes, r->raw, n * (size_t)bytes, err);
    if (st == GG_OK) st = gg_decode(c->was.dtype, r->raw, r->x, n * row, err);
    gg_matrix x = gg_matrix_of(r->x, n, row), map = gg_matrix_of(r->map, row, c->n),
              y = gg_matrix_of(r->y, n, c->n);
    if (st == GG_OK && r->map) st = gg_matmul(&y, &x, &map, 1, err);
    for (size_t i = 0; i < n && st == GG_OK && !r->map; i++)
        for (size_t j = 0; j < c->n; j++) r->y[i * c->n + j] = r->x[i * row + left[j]] * gain;
    for (size_t i = 0; i < n * c->n && r->change; i++) r->y[i] += r->change[first * c->n + i];
    return st;
}

/* Copies rows of matrix m: those that are left from number `first` on. Consecutive ones are read at
 * once. */
static gg_status thin_rows_of(const thin_ctx *c, const thin_room *r, uint64_t m, uint64_t first,
                              size_t n, gg_error *err)
{
    uint64_t bytes = gg_encoded_bytes(c->was.dtype, c->was.dims[0]);
    const uint32_t *left = c->left + m * c->n + first;
    gg_status st = GG_OK;
    for (size_t i = 0, end; i < n && st == GG_OK; i = end) {
        for (end = i + 1; end < n && left[end] == left[end - 1] + 1; end++)
            ;
        st = read_thin(c, (m * c->was.dims[1] + left[i]) * bytes, r->out + i * bytes,
                       (end - i) * (size_t)bytes, err);
    }
    return st;
}

/* Finds how the remaining columns of matrix m replace the removed ones. */
static gg_status open_map(const thin_ctx *c, thin_room *r, uint64_t m, gg_error *err)
{
    gg_samples samples = c->samples;
    free(r->map);
    r->map = NULL;
    if (!samples.source) return GG_OK;
    samples.matrix = c->kept ? c->kept[m] : m;
    return map_samples(&samples, c->left + m * c->n, (size_t)c->n, &r->map, err);
}

/* A matrix before the fit. */
static gg_status thin_start(void *ctx, uint64_t m, float *out, gg_error *err)
{
    const thin_ctx *c = ((thin_room *)ctx)->of;
    thin_room r = *(thin_room *)ctx;
    uint64_t rows = c->was.dims[1];
    gg_status st = open_map(c, ctx, m, err);
    r.map = ((thin_room *)ctx)->map;
    for (uint64_t i = 0; i < rows && st == GG_OK; i += r.rows) {
        r.y = out + i * c->n;
        st = thin_columns(c, &r, m, i, rows - i < r.rows ? (size_t)(rows - i) : r.rows, err);
    }
    return st;
}

static gg_status open_room(const thin_ctx *c, thin_room *r, gg_error *err)
{
    size_t row = (size_t)c->was.dims[0];
    /* not 0: cut_units refuses tensors without values */
    *r = (thin_room){ .of = c, .rows = 65536 / row + 1 };
    r->raw = malloc(r->rows * (size_t)gg_encoded_bytes(c->was.dtype, row) + 1);
    r->out = malloc(r->rows * (size_t)gg_encoded_bytes(c->was.dtype, row) + 1);
    r->x = malloc(r->rows * row * sizeof *r->x);
    r->y = malloc(r->rows * row * sizeof *r->y);
    if (!r->raw || !r->out || !r->x || !r->y) return gg_fail(err, GG_ENOMEM, "no memory for rows");
    if (!c->refit.model) return GG_OK;
    const gg_refit_start start = { thin_start, r };
    gg_status st = gg_refit_open(&c->refit, &start, &r->fit, err);
    r->change = st == GG_OK ? malloc((size_t)(c->was.dims[1] * c->n) * sizeof *r->change) : NULL;
    return st != GG_OK || r->change ? st : gg_fail(err, GG_ENOMEM, "no memory for a matrix");
}

static void close_room(thin_room *r)
{
    free(r->raw);
    free(r->out);
    free(r->x);
    free(r->y);
    free(r->map);
    free(r->change);
    gg_refit_close(&r->fit);
}

static gg_status make_thin(void *ctx, const gg_target *to, gg_error *err)
{
    const thin_ctx *c = ctx;
    /* not 0: as in open_room */
    uint64_t rows = to->t->elements / c->matrices / to->t->dims[0]; /* that are written */
    size_t bytes = (size_t)gg_encoded_bytes(to->t->dtype, to->t->dims[0]);
    uint64_t at = to->at;
    thin_room r;
    gg_status st = open_room(c, &r, err);
    for (uint64_t m = 0; m < c->matrices && st == GG_OK; m++) {
        st = open_map(c, &r, m, err);
        if (st == GG_OK && r.change) st = gg_refit_change(&r.fit, m, r.change, err);
        for (uint64_t i = 0; i < rows && st == GG_OK; i += r.rows) {
            size_t n = rows - i < r.rows ? (size_t)(rows - i) : r.rows;
            st = c->columns ? thin_columns(c, &r, m, i, n, err) : thin_rows_of(c, &r, m, i, n, err);
            if (st == GG_OK && c->columns)
                st = gg_encode(c->was.dtype, r.y, r.out, n * c->n, c->n, NULL, err);
            if (st == GG_OK) st = gg_put_all(to->fd, r.out, n * bytes, at, err);
            if (st == GG_OK && to->hash) gg_sha256_update(to->hash, r.out, n * bytes);
            if (st == GG_OK) gg_progress_add(to->run, n * bytes);
            at = gg_offset_after(at, n * bytes);
        }
    }
    close_room(&r);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, to->t->name, to->t->name_len);
}

int gg_unit_dim(const gg_tensor *t, bool *down)
{
    const gg_anatomy *a = &t->a;
    static const char *const columns[] = { "ffn_down", "ffn_gate.bias", "ffn_up.bias",
                                           "ffn_gate_up.bias" },
                             *const rows[] = { "ffn_gate", "ffn_up", "ffn_gate_up" };
    char role[32] = ""; /* without the _exps of a stack */
    const char *exps = a->stack ? strstr(t->name + a->role_at, "_exps") : NULL;
    size_t n = exps ? (size_t)(exps - t->name) - a->role_at : a->role_len, skip = exps ? 5 : 0;
    if (a->role_len < sizeof role && n + skip <= a->role_len)
        snprintf(role, sizeof role, "%.*s%.*s", (int)n, t->name + a->role_at,
                 (int)(a->role_len - n - skip), t->name + a->role_at + n + skip);
    *down = strcmp(role, columns[0]) == 0;
    for (size_t i = 0; i < 4; i++)
        if (strcmp(role, columns[i]) == 0) return 0;
    for (size_t i = 0; i < 3; i++)
        if (strcmp(role, rows[i]) == 0) return 1;
    return -1;
}

/* Finds the samples of a down projection that loses units, and what replaces the experts that it
 * loses. */
static gg_status find_fit(gg_keep_experts *k, const kept_line *l, const gg_plan_part *stack,
                          thin_ctx *c, gg_error *err)
{
    const gg_tensor *stored = gg_source_tensor(stack->source, stack->index);
    const char *why = "its experts are stored one by one";
    gg_refit r = { .model = stack->source, .meta = k->meta, .left = l->n, .kept = l->kept };
    size_t at = SIZE_MAX;
    gg_status st = GG_OK;
    if (l->units)
        st = gg_samples_find(k->refit, &c->was, k->units_was, k->dense ? 1 : k->was, &at, err);
    if (st == GG_OK && at != SIZE_MAX) {
        c->samples = (gg_samples){ k->refit, at, 0 };
        k->refitted++;
    }
    r.units = c->left;
    r.n_units = c->n;
    if (st != GG_OK || k->left == k->was) return st;
    if (stored->n_dims == 3 && stored->dims[2] == k->was) {
        st = gg_refit_find(&r, k->refit, stack->index, &why, err);
        if (st != GG_OK) return st;
    }
    if (why) k->unfit = why;
    else c->refit = r, k->refitted++;
    return GG_OK;
}

/* How tensor t loses units along a dimension, of which `left` are left in each of the parts that
 * its `parts` matrices consist of (gate and up may be one). NULL without memory. */
static thin_ctx *new_thin(const gg_keep_experts *k, const kept_line *l, const gg_tensor *t,
                          uint64_t left, uint64_t parts, gg_error *err)
{
    uint64_t n = left * parts;
    thin_ctx *c = gg_compute_new(k->made, sizeof *c + l->n * n * sizeof *c->left, err);
    if (!c) return NULL;
    c->was = *t;
    c->kept = l->kept;
    c->matrices = l->n;
    c->n = n;
    for (uint64_t i = 0; i < l->n * n; i++) {
        /* not 0: n > i */
        uint64_t expert = i / n, part = i % n / left, unit = i % left;
        c->left[i] = (l->units ? l->units[expert * left + unit] : (uint32_t)unit) +
                     (uint32_t)(part * k->units_was);
    }
    return c;
}

/* Gives a planned tensor the producer c, which leaves c->n of a dimension. */
static gg_status make_thinner(gg_plan_tensor *pt, int dim, thin_ctx *c, gg_error *err)
{
    gg_tensor *t = &pt->t;
    gg_input in = { t->dtype, pt->parts, pt->n_parts };
    t->dims[dim] = c->n;
    gg_status st = gg_compute_input(&c->base, &in, err);
    if (st == GG_OK)
        st = gg_tensor_extent(t->dtype, t->n_dims, t->dims, &t->elements, &t->bytes, err);
    if (st == GG_OK && c->columns) st = gg_compute_check_decode(t, &in, err);
    if (st == GG_OK && c->columns) st = gg_compute_check_output(t, NULL, err);
    gg_plan_compute(pt, make_thin, c);
    return st;
}

/* Leaves the kept units of a tensor, of which only the kept experts are left. */
static gg_status cut_units(gg_keep_experts *k, const kept_line *l, gg_plan_tensor *pt, bool verify,
                           gg_error *err)
{
    gg_tensor *t = &pt->t;
    bool down;
    int dim = gg_unit_dim(t, &down);
    if (t->a.stack == k->dense || dim < 0 || !(down || l->units)) return GG_OK;
    if (t->elements == 0) return gg_fail(err, GG_EFORMAT, "it has no values");
    if (!k->units_was) k->units_was = t->dims[0];
    uint64_t parts = k->units_was ? t->dims[dim] / k->units_was : 0;
    if (parts == 0 || t->dims[dim] != parts * k->units_was)
        return gg_fail(err, GG_EFORMAT, "it does not have %llu hidden units",
                       (unsigned long long)k->units_was);
    gg_status st = verify ? gg_verify_parts(pt, 0, err) : GG_OK;
    thin_ctx *c = new_thin(k, l, t, l->units ? k->units : k->units_was, parts, err);
    if (!c || st != GG_OK) return err->status;
    c->columns = dim == 0;
    c->gains = down ? l->gains : NULL;
    if (down && k->refit) st = find_fit(k, l, &pt->parts[0], c, err);
    if (st != GG_OK || (!l->units && !c->refit.model)) return st;
    return make_thinner(pt, dim, c, err);
}

gg_status gg_units_cut(gg_keep_experts *k, gg_plan *p, gg_computations *made, gg_error *err)
{
    gg_status st = GG_OK;
    k->made = made;
    for (size_t i = 0; i < p->n && st == GG_OK; i++) {
        gg_plan_tensor *pt = &p->tensors[i];
        int64_t block = pt->t.a.block;
        const kept_line *l = block < 0 ? NULL : gg_kept_line_of(k, (uint64_t)block);
        if (!l || !(l->units || k->refit) || pt->n_parts == 0) continue;
        st = cut_units(k, l, pt, p->verify, err);
        if (st != GG_OK) gg_at_tensor(err, pt->t.name, pt->t.name_len);
    }
    if (st != GG_OK || !k->refit || k->refitted) return st;
    if (k->unfit)
        return gg_fail(err, GG_NO, "the outputs of removed experts cannot be replaced: %s",
                       k->unfit);
    gg_fail(err, GG_NO, "it has no samples of the model's hidden units");
    gg_fix(err, "write the activations of this model with organ-probe");
    return gg_at_file(err, gg_source_name(k->refit));
}

/* The length of the FFNs that lose units. */
static gg_status set_unit_count(const gg_keep_experts *k, gg_meta *meta, const gg_run *run,
                                gg_error *err)
{
    char key[160];
    uint64_t now = 0;
    bool own = !k->dense && gg_arch_key(meta, "expert_feed_forward_length", key, sizeof key) &&
               gg_meta_find(meta, key);
    if (!own && !gg_arch_key(meta, "feed_forward_length", key, sizeof key)) return GG_OK;
    const gg_kv *kv = gg_meta_find(meta, key);
    if (!kv || !gg_kv_u64(kv, &now) || now != k->units_was) {
        gg_fail(err, GG_EUNSUPPORTED, "%s is not %llu, the number of units of the FFNs", key,
                (unsigned long long)k->units_was);
        return gg_fix(err, "units can be removed only where all blocks have as many");
    }
    gg_note(run, "%llu of %llu hidden units per %s are left", (unsigned long long)k->units,
            (unsigned long long)k->units_was, k->dense ? "block" : "expert");
    return gg_meta_set_u32(meta, key, (uint32_t)k->units, err);
}

gg_status gg_units_keys(const gg_keep_experts *k, gg_meta *meta, const gg_run *run, gg_error *err)
{
    if (k->unfit) gg_note(run, "the outputs of removed experts are not replaced: %s", k->unfit);
    return k->units ? set_unit_count(k, meta, run, err) : GG_OK;
}

/* ---- the importance matrix of the new model ------------------------------------------------ */

/* Plans the entry of a tensor, of which some experts and units are left. */
static gg_status follow_entry(const gg_keep_experts *k, const gg_imatrix *im,
                              const gg_plan_tensor *pt, gg_imatrix_file *file, gg_error *err)
{
    const gg_tensor *t = &pt->t;
    const gg_plan_part *parts = pt->parts;
    gg_tensor was = *t;
    gg_imatrix_cut cut = { .was = &was };
    const kept_line *l = k && t->a.block >= 0 ? gg_kept_line_of(k, (uint64_t)t->a.block) : NULL;
    uint64_t n, *single = NULL;
    bool stack = gg_is_expert_stack(t, &n), down;
    if (!k && stack && pt->n_parts == n &&
        gg_source_tensor(parts->source, parts->index)->a.expert >= 0) { /* put together from single
                                                                         ones */
        single = calloc(n, sizeof *single);
        if (!single) return gg_fail(err, GG_ENOMEM, "no memory for an importance matrix");
        for (size_t i = 0; i < n; i++)
            single[i] = (uint64_t)gg_source_tensor(parts[i].source, parts[i].index)->a.expert;
        cut.matrices = single;
        was.dims[(t->n_dims - 1)] = gg_arch_number(gg_source_meta(parts->source), "expert_count");
    }
    if (l && !k->dense && stack) {
        was.dims[(t->n_dims - 1)] = k->was;
        cut.matrices = l->kept;
    }
    if (l && l->units && gg_unit_dim(t, &down) == 0 && down) {
        was.dims[0] = k->units_was;
        cut.columns = l->units;
    }
    gg_status st = gg_imatrix_file_cut(file, im, t, &cut, err);
    free(single);
    return st;
}

gg_status gg_keep_experts_imatrix(const gg_keep_experts *k, const gg_plan *p, gg_imatrix *im,
                                  const char *output, const gg_run *run, gg_error *err)
{
    gg_imatrix_file file = { .from = &im, .n_from = 1 };
    gg_status st = GG_OK;
    for (size_t i = 0; i < p->n && st == GG_OK; i++)
        st = follow_entry(k, im, &p->tensors[i], &file, err);
    if (st == GG_OK) st = gg_imatrix_file_write(&file, output, false, run, err);
    gg_imatrix_file_free(&file);
    return st;
}

/* refit.c - fits the down projections of the experts that are left to the outputs of all. */
#include "refit.h"

#include "arch/design.h"
#include "compute/compute.h"
#include "numeric/matrix.h"
#include "numeric/ownmath.h"
#include "organ/source_layout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Multiple of the mean diagonal of the Gram matrix of the samples. The sum of three log
 * perplexities of lab3-base with 4 of 8 experts, 512 units in all, by 2048 samples: 9.376 with
 * 0.01, 9.143 with 0.1, 8.984 with 0.5, 8.961 with 2 (9.626 without a fit). */
#define RIDGE 1.0

/* ---- the block ---------------------------------------------------------------------------- */

/* Whether the record of the architecture states this of the weights of the experts in use. It does
 * only if an expert is down(silu(gate x) * up x) with the same inputs as the router. */
static bool weights_are(const gg_meta *meta, const char *word)
{
    const gg_arch *a = gg_arch_of(meta);
    return a && strcmp(a->weights.text, word) == 0;
}

static size_t find_role(const gg_refit *r, int64_t block, const char *role)
{
    char name[96];
    int n = snprintf(name, sizeof name, "blk.%lld.%s", (long long)block, role);
    return gg_source_find(r->model, name, (size_t)n);
}

static bool has_dims(const gg_refit *r, size_t i, uint64_t x, uint64_t y, uint64_t z)
{
    const gg_tensor *t = gg_source_tensor(r->model, i);
    return t->dims[0] == x && t->dims[1] == y && t->dims[2] == z && gg_can_decode(t->dtype);
}

/* Why the outputs of a block cannot be computed; NULL if they can. */
static const char *unknown_part(const gg_refit *r, int64_t block)
{
    static const char *const others[] = {
        "ffn_down_exps.bias",  "ffn_up_exps.bias",  "ffn_gate_exps.bias",  "ffn_gate_up_exps.bias",
        "ffn_down_exps.scale", "ffn_up_exps.scale", "ffn_gate_exps.scale",
    };
    const gg_tensor *d = gg_source_tensor(r->model, r->down);
    uint64_t width = d->dims[1], units = d->dims[0], n = r->experts;
    if (!weights_are(r->meta, "sum") && !weights_are(r->meta, "plain") &&
        !weights_are(r->meta, "key"))
        return "the architecture is not known here";
    if (gg_arch_number(r->meta, "expert_group_count") > 1) return "its experts are in groups";
    if (!r->used || r->used > n) return "it does not state how many experts are used";
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (find_role(r, block, others[i]) != SIZE_MAX) return "its experts have biases or scales";
    if (r->router == SIZE_MAX || r->up == SIZE_MAX || r->gate == SIZE_MAX ||
        !has_dims(r, r->router, width, n, 1) ||
        (r->bias != SIZE_MAX && !has_dims(r, r->bias, n, 1, 1)) ||
        (r->probs_bias != SIZE_MAX && !has_dims(r, r->probs_bias, n, 1, 1)) ||
        !has_dims(r, r->down, units, width, n) ||
        !has_dims(r, r->gate, width, r->gate == r->up ? 2 * units : units, n) ||
        !has_dims(r, r->up, width, r->gate == r->up ? 2 * units : units, n))
        return "its block has other matrices";
    return NULL;
}

gg_status gg_refit_find(gg_refit *r, gg_source *activations, size_t down, const char **why,
                        gg_error *err)
{
    const gg_tensor *d = gg_source_tensor(r->model, down);
    int64_t block = gg_source_tensor(r->model, down)->a.block;
    r->down = down;
    r->experts = d->dims[2];
    r->used = gg_arch_number(r->meta, "expert_used_count");
    r->router = find_role(r, block, "ffn_gate_inp.weight");
    r->bias = find_role(r, block, "ffn_gate_inp.bias");
    r->probs_bias = find_role(r, block, "exp_probs_b.bias");
    r->gate = r->up = find_role(r, block, "ffn_gate_up_exps.weight");
    if (r->up == SIZE_MAX) {
        r->gate = find_role(r, block, "ffn_gate_exps.weight");
        r->up = find_role(r, block, "ffn_up_exps.weight");
    }
    *why = unknown_part(r, block);
    if (*why) return GG_OK;
    const gg_tensor *router = gg_source_tensor(r->model, r->router);
    r->inputs = (gg_samples){ .source = activations };
    gg_status st = gg_samples_find(activations, router, d->dims[1], 1, &r->inputs.at, err);
    if (r->inputs.at == SIZE_MAX) *why = "the activations have no samples of the inputs of routers";
    return st;
}

/* ---- values ------------------------------------------------------------------------------- */

/* Reads n rows of a tensor, all matrices of which follow each other. */
static gg_status read_rows(const gg_refit *r, size_t tensor, uint64_t row, uint64_t n, float *out,
                           gg_error *err)
{
    uint64_t width = gg_source_tensor(r->model, tensor)->dims[0];
    return gg_read_values(r->model, tensor, row * width, (size_t)(n * width), out, err);
}

/* y = a b'. */
static gg_status times_rows(float *y, gg_matrix a, gg_matrix b, gg_error *err)
{
    gg_matrix turned = gg_matrix_transposed(&b), out = gg_matrix_of(y, a.rows, b.rows);
    return gg_matmul(&out, &a, &turned, 1, err);
}

/* ---- the router --------------------------------------------------------------------------- */

/* The logits of all samples, and the biases by which experts are chosen. */
typedef struct router {
    float *logits, *biases;
    bool sigmoid, normed;
    double scale;
} router;

static double number_of(const gg_meta *meta, const char *name)
{
    const gg_kv *kv = gg_arch_kv(meta, name);
    float v = 0;
    uint64_t n = 0;
    if (kv && kv->type == GG_TYPE_F32 && kv->size == sizeof v) memcpy(&v, kv->data, sizeof v);
    else if (kv && kv->type == GG_TYPE_BOOL && kv->size == 1) v = (float)(kv->data[0] != 0);
    else if (kv && gg_kv_u64(kv, &n)) v = (float)n;
    return (double)v;
}

static gg_status open_router(const gg_refit_fit *f, router *o, gg_error *err)
{
    const gg_refit *r = f->r;
    bool by_key = weights_are(r->meta, "key");
    size_t n = (size_t)r->experts;
    float *w = malloc(n * f->width * sizeof *w + 1);
    o->logits = malloc(f->n * n * sizeof *o->logits + 1);
    o->biases = calloc(2 * n + 1, sizeof *o->biases);
    o->sigmoid = by_key && number_of(r->meta, "expert_gating_func") == 2;
    o->normed = weights_are(r->meta, "sum") ||
                (by_key && number_of(r->meta, "expert_weights_norm") > 0);
    o->scale = by_key ? number_of(r->meta, "expert_weights_scale") : 1;
    if (!(o->scale > 0)) o->scale = 1;
    gg_status st = w && o->logits && o->biases ? read_rows(r, r->router, 0, n, w, err)
                                               : gg_fail(err, GG_ENOMEM, "no memory for a router");
    if (st == GG_OK && r->bias != SIZE_MAX) st = read_rows(r, r->bias, 0, 1, o->biases + n, err);
    if (st == GG_OK && r->probs_bias != SIZE_MAX)
        st = read_rows(r, r->probs_bias, 0, 1, o->biases, err);
    if (st == GG_OK)
        st = times_rows(o->logits, gg_matrix_of(f->x, f->n, f->width), gg_matrix_of(w, n, f->width),
                        err);
    for (size_t i = 0; i < f->n * n && st == GG_OK; i++) o->logits[i] += o->biases[n + i % n];
    if (st == GG_OK && (gg_count_bad(o->logits, f->n * n) || gg_count_bad(o->biases, n)))
        st = gg_fail(err, GG_EFORMAT, "the outputs of its router are NaN or infinite");
    free(w);
    return st;
}

/* The experts that a sample can use: n of a list (NULL: all), of which it uses the best. */
typedef struct choice {
    const uint64_t *list;
    size_t n, used;
    uint32_t *ids;  /* those that it uses, as places in the list, */
    float *weights; /* and their weights */
    double *probs;  /* room for n values */
} choice;

static void route(const router *o, const float *logits, const choice *c)
{
    double most = -INFINITY, sum = 0, *probs = c->probs;
    for (size_t i = 0; i < c->n; i++) {
        probs[i] = (double)logits[c->list ? c->list[i] : i];
        most = probs[i] > most ? probs[i] : most;
    }
    for (size_t i = 0; i < c->n; i++) {
        probs[i] = o->sigmoid ? 1 / (1 + own_exp(-probs[i])) : own_exp(probs[i] - most);
        sum += probs[i];
    }
    for (size_t i = 0; i < c->n && !o->sigmoid; i++) probs[i] /= sum;
    sum = 0;
    for (size_t k = 0; k < c->used; k++) {
        double best = -INFINITY;
        for (size_t i = 0; i < c->n; i++) {
            double v = probs[i] + (double)o->biases[c->list ? c->list[i] : i];
            bool taken = false;
            for (size_t j = 0; j < k; j++) taken = taken || c->ids[j] == i;
            if (!taken && v > best) best = v, c->ids[k] = (uint32_t)i;
        }
        sum += probs[c->ids[k]];
    }
    for (size_t k = 0; k < c->used; k++)
        c->weights[k] = (float)(probs[c->ids[k]] / (o->normed && sum > 0 ? sum : 1) * o->scale);
}

static gg_status route_samples(gg_refit_fit *f, gg_error *err)
{
    const gg_refit *r = f->r;
    size_t n = (size_t)r->experts, used = (size_t)r->used;
    router o = { 0 };
    double *probs = calloc(n, sizeof *probs);
    f->ids = calloc(2 * f->n * used + 1, sizeof *f->ids);
    f->weights = calloc(2 * f->n * used + 1, sizeof *f->weights);
    gg_status st = probs && f->ids && f->weights ? open_router(f, &o, err)
                                                 : gg_fail(err, GG_ENOMEM, "no memory for samples");
    for (size_t i = 0; i < 2 * f->n && st == GG_OK;
         i++) { /* with all experts, with the kept ones */
        choice c = { i % 2 ? r->kept : NULL, i % 2 ? (size_t)r->left : n, used,
                     f->ids + i * used,      f->weights + i * used,       probs };
        route(&o, o.logits + i / 2 * n, &c);
    }
    free(o.logits);
    free(o.biases);
    free(probs);
    return st;
}

/* ---- experts ------------------------------------------------------------------------------ */

/* The samples that use an expert, the weighted hidden units there, and room for its inputs. */
typedef struct visit {
    size_t n, *samples;
    float *weights, *hidden, *in, *up;
} visit;

static void end_visit(visit *v)
{
    free(v->samples);
    free(v->weights);
    free(v->hidden);
    free(v->in);
    free(v->up);
}

/* Computes silu(gate x) * up x times the weight, of all units of an expert of the model. */
static gg_status hidden_units(const gg_refit_fit *f, uint64_t expert, visit *v, gg_error *err)
{
    const gg_refit *r = f->r;
    size_t units = (size_t)gg_source_tensor(r->model, r->down)->dims[0], width = f->width;
    float *w = malloc(units * width * sizeof *w + 1);
    gg_matrix x = gg_matrix_of(v->in, v->n, width), wm = gg_matrix_of(w, units, width);
    uint64_t gate = expert * units, up = gate; /* or gate and up are one matrix of twice the rows */
    if (r->gate == r->up) gate *= 2, up = gate + units;
    gg_status st = w ? read_rows(r, r->gate, gate, units, w, err)
                     : gg_fail(err, GG_ENOMEM, "no memory for an expert");
    if (st == GG_OK) st = times_rows(v->hidden, x, wm, err);
    if (st == GG_OK) st = read_rows(r, r->up, up, units, w, err);
    if (st == GG_OK) st = times_rows(v->up, x, wm, err);
    for (size_t i = 0; i < v->n * units && st == GG_OK; i++) {
        double g = (double)v->hidden[i];
        v->hidden[i] = (float)(g / (1 + own_exp(-g))) * v->up[i] * v->weights[i / units];
    }
    free(w);
    return st;
}

/* Visits an expert of all, or number `id` of the kept ones, of which only the units that are left
 * are computed. */
static gg_status visit_expert(const gg_refit_fit *f, bool kept, uint64_t id, visit *v,
                              gg_error *err)
{
    const gg_refit *r = f->r;
    size_t used = (size_t)r->used, units = (size_t)gg_source_tensor(r->model, r->down)->dims[0];
    *v = (visit){ .samples = malloc(f->n * sizeof *v->samples + 1),
                  .weights = malloc(f->n * sizeof *v->weights + 1) };
    for (size_t i = 0; i < f->n && v->samples && v->weights; i++)
        for (size_t k = 0; k < used; k++) {
            size_t at = (2 * i + kept) * used + k;
            if (f->ids[at] != id) continue;
            v->samples[v->n] = i;
            v->weights[v->n++] = f->weights[at];
        }
    v->hidden = malloc(v->n * units * sizeof *v->hidden + 1);
    v->up = malloc(v->n * units * sizeof *v->up + 1);
    v->in = malloc(v->n * f->width * sizeof *v->in + 1);
    if (!v->samples || !v->weights || !v->hidden || !v->in || !v->up)
        return gg_fail(err, GG_ENOMEM, "no memory for samples");
    for (size_t i = 0; i < v->n; i++)
        memcpy(v->in + i * f->width, f->x + v->samples[i] * f->width, f->width * sizeof *v->in);
    gg_status st = v->n ? hidden_units(f, kept ? r->kept[id] : id, v, err) : GG_OK;
    size_t n = (size_t)r->n_units;
    for (size_t i = 0; i < v->n * n && kept && r->units && st == GG_OK; i++)
        v->hidden[i] = v->hidden[i / n * units + r->units[id * n + i % n]];
    return st;
}

/* Adds sign times the outputs of an expert, with this down projection, to the missing ones. */
static gg_status add_outputs(const gg_refit_fit *f, const visit *v, float *down, size_t units,
                             float sign, gg_error *err)
{
    float *y = malloc(f->width * v->n * sizeof *y + 1);
    gg_status st = y ? times_rows(y, gg_matrix_of(down, f->width, units),
                                  gg_matrix_of(v->hidden, v->n, units), err)
                     : gg_fail(err, GG_ENOMEM, "no memory for outputs");
    for (size_t i = 0; i < f->width * v->n && st == GG_OK; i++)
        f->lacking[i / v->n * f->n + v->samples[i % v->n]] += sign * y[i];
    free(y);
    return st;
}

/* Adds the products of the hidden units of a kept expert to the Gram matrix of the samples. */
static gg_status add_products(const gg_refit_fit *f, const visit *v, double *gram, gg_error *err)
{
    size_t n = (size_t)f->r->n_units;
    float *p = malloc(v->n * v->n * sizeof *p + 1);
    gg_matrix h = gg_matrix_of(v->hidden, v->n, n), turned = gg_matrix_transposed(&h),
              out = gg_matrix_of(p, v->n, v->n);
    gg_status st = p ? gg_matmul_symmetric(&out, &h, &turned, 1, err)
                     : gg_fail(err, GG_ENOMEM, "no memory for products");
    for (size_t i = 0; i < v->n * v->n && st == GG_OK; i++)
        gram[v->samples[i / v->n] * f->n + v->samples[i % v->n]] += (double)p[i];
    free(p);
    return st;
}

/* ---- the fit ------------------------------------------------------------------------------ */

/* Adds up what the outputs lack, and the products of the kept experts' hidden units. */
static gg_status compare_outputs(gg_refit_fit *f, const gg_refit_start *start, double *gram,
                                 gg_error *err)
{
    const gg_refit *r = f->r;
    size_t units = (size_t)gg_source_tensor(r->model, r->down)->dims[0];
    float *w = malloc(f->width * units * sizeof *w + 1);
    gg_status st = w ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for an expert");
    for (uint64_t e = 0; e < r->experts + r->left && st == GG_OK; e++) {
        bool kept = e >= r->experts;
        uint64_t id = kept ? e - r->experts : e;
        visit v = { 0 };
        st = gg_cancelled(err);
        if (st == GG_OK) st = visit_expert(f, kept, id, &v, err);
        if (st == GG_OK && v.n) {
            st = kept ? start->read(start->ctx, id, w, err)
                      : read_rows(r, r->down, id * f->width, f->width, w, err);
            if (st == GG_OK)
                st = add_outputs(f, &v, w, kept ? (size_t)r->n_units : units, kept ? -1 : 1, err);
            if (st == GG_OK && kept) st = add_products(f, &v, gram, err);
        }
        end_visit(&v);
    }
    free(w);
    return st;
}

gg_status gg_refit_open(const gg_refit *r, const gg_refit_start *start, gg_refit_fit *f,
                        gg_error *err)
{
    *f = (gg_refit_fit){ .r = r };
    f->width = (size_t)gg_source_tensor(r->model, r->down)->dims[1];
    gg_status st = gg_samples_read(&r->inputs, &f->x, &f->n, err);
    double *gram = st == GG_OK ? calloc(f->n * f->n + 1, sizeof *gram) : NULL, trace = 0;
    if (st == GG_OK) f->lacking = calloc(f->width * f->n + 1, sizeof *f->lacking);
    if (st == GG_OK && (!gram || !f->lacking))
        st = gg_fail(err, GG_ENOMEM, "no memory for samples");
    if (st == GG_OK) st = route_samples(f, err);
    if (st == GG_OK) st = compare_outputs(f, start, gram, err);
    for (size_t i = 0; i < f->n && st == GG_OK; i++) trace += gram[i * f->n + i];
    for (size_t i = 0; i < f->n && st == GG_OK; i++)
        gram[i * f->n + i] += RIDGE * trace / (double)f->n;
    if (st == GG_OK && !isfinite(trace)) st = gg_fail(err, GG_EFORMAT, "its samples are too large");
    if (st == GG_OK && trace > 0) st = gg_cholesky(gram, f->n, 1, err);
    if (st == GG_OK && trace > 0) st = gg_cholesky_solve(gram, f->n, f->lacking, f->width, 1, err);
    free(gram);
    return st;
}

gg_status gg_refit_change(const gg_refit_fit *f, uint64_t k, float *out, gg_error *err)
{
    size_t n = (size_t)f->r->n_units;
    visit v = { 0 };
    gg_status st = visit_expert(f, true, k, &v, err);
    float *a = malloc(f->width * v.n * sizeof *a + 1);
    if (st == GG_OK && !a) st = gg_fail(err, GG_ENOMEM, "no memory for samples");
    for (size_t i = 0; i < f->width * v.n && st == GG_OK; i++)
        a[i] = f->lacking[i / v.n * f->n + v.samples[i % v.n]];
    gg_matrix x = gg_matrix_of(a, f->width, v.n), h = gg_matrix_of(v.hidden, v.n, n),
              y = gg_matrix_of(out, f->width, n);
    if (st == GG_OK) st = gg_matmul(&y, &x, &h, 1, err);
    free(a);
    end_visit(&v);
    return st;
}

void gg_refit_close(gg_refit_fit *f)
{
    free(f->x);
    free(f->ids);
    free(f->weights);
    free(f->lacking);
}

/* vocab_omp.c - orthogonal matching pursuit: a row of the donor as a weighted sum of rows of tokens
 * that both models have. The same weights are then applied to the base's rows of these tokens. */
#include "vocab_edit.h"

#include "base/error.h"
#include "base/parallel.h"
#include "compute/compute.h"
#include "gguf/gguf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CANDIDATES 1024 /* shared tokens, the most similar ones, that a sum is chosen from */
#define MOST_TERMS 256

/* The rows of one matrix of the donor. */
typedef struct dictionary {
    float *rows; /* n rows of shared tokens, each of length 1 */
    float *norms;
    uint32_t *ids; /* the base's tokens */
    size_t n, width, k;
} dictionary;

/* One target. */
typedef struct pursuit {
    const dictionary *d;
    double *y;      /* the row, minus what the sum has */
    double *corr;   /* of all shared rows with the target */
    uint32_t *near; /* candidates */
    size_t n_near;
    uint32_t chosen[MOST_TERMS];
    double *factor; /* lower triangle of the Cholesky factor of the chosen rows' products */
    double b[MOST_TERMS], x[MOST_TERMS];
    size_t n;
} pursuit;

static double product(const float *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static double product_of_rows(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)a[i] * b[i];
    return sum;
}

typedef struct ranked {
    double value;
    uint32_t id;
} ranked;

static int by_value(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Chooses the candidates: those whose products with the target are largest. */
static gg_status find_near(pursuit *p, gg_error *err)
{
    const dictionary *d = p->d;
    ranked *list = malloc((d->n + 1) * sizeof *list);
    if (!list) return gg_fail(err, GG_ENOMEM, "no memory for candidates");
    for (size_t i = 0; i < d->n; i++)
        list[i] = (ranked){ fabs(product(d->rows + i * d->width, p->y, d->width)), (uint32_t)i };
    qsort(list, d->n, sizeof *list, by_value);
    p->n_near = d->n < MOST_CANDIDATES ? d->n : MOST_CANDIDATES;
    for (size_t i = 0; i < p->n_near; i++) p->near[i] = list[i].id;
    free(list);
    return GG_OK;
}

/* Adds a row to the factor. False if it depends on the rows before. */
static bool extend_factor(pursuit *p, uint32_t row)
{
    const dictionary *d = p->d;
    double *last = p->factor + p->n * MOST_TERMS;
    double left = 1;
    for (size_t i = 0; i < p->n; i++) {
        const double *f = p->factor + i * MOST_TERMS;
        double v = product_of_rows(d->rows + p->chosen[i] * d->width, d->rows + row * d->width,
                                   d->width);
        for (size_t j = 0; j < i; j++) v -= f[j] * last[j];
        last[i] = v / f[i];
        left -= last[i] * last[i];
    }
    if (left < 1e-9) return false;
    last[p->n] = sqrt(left);
    p->chosen[p->n] = row;
    return true;
}

/* Solves for the weights of the chosen rows. */
static void solve(pursuit *p)
{
    double z[MOST_TERMS];
    for (size_t i = 0; i < p->n; i++) {
        z[i] = p->b[i];
        for (size_t j = 0; j < i; j++) z[i] -= p->factor[i * MOST_TERMS + j] * z[j];
        z[i] /= p->factor[i * MOST_TERMS + i];
    }
    for (size_t i = p->n; i-- > 0;) {
        p->x[i] = z[i];
        for (size_t j = i + 1; j < p->n; j++) p->x[i] -= p->factor[j * MOST_TERMS + i] * p->x[j];
        p->x[i] /= p->factor[i * MOST_TERMS + i];
    }
}

static gg_status pursue(pursuit *p, const float *target, gg_error *err)
{
    const dictionary *d = p->d;
    p->n = 0;
    for (size_t i = 0; i < d->width; i++) p->y[i] = target[i];
    if (find_near(p, err) != GG_OK) return err->status;
    while (p->n < d->k && p->n < p->n_near) {
        double best = 1e-12;
        size_t at = SIZE_MAX;
        for (size_t i = 0; i < p->n_near; i++) {
            if (p->near[i] == UINT32_MAX) continue;
            double c = fabs(product(d->rows + p->near[i] * d->width, p->y, d->width));
            if (c > best) best = c, at = i;
        }
        if (at == SIZE_MAX) break;
        uint32_t row = p->near[at];
        p->near[at] = UINT32_MAX;
        if (!extend_factor(p, row)) continue;
        p->b[p->n++] = product_of_rows(d->rows + row * d->width, target, d->width);
        solve(p);
        for (size_t i = 0; i < d->width; i++) p->y[i] = target[i];
        for (size_t k = 0; k < p->n; k++)
            for (size_t i = 0; i < d->width; i++)
                p->y[i] -= p->x[k] * d->rows[p->chosen[k] * d->width + i];
    }
    return err->status;
}

/* ---- all targets --------------------------------------------------------------------------------
 */

typedef struct omp_work {
    gg_source *donor;
    size_t index;
    const dictionary *d;
    vocab_edit *e;
    const size_t *targets; /* rows */
    bool other;            /* the output matrix */
} omp_work;

static gg_status store(const omp_work *w, const pursuit *p, gg_vocab_row *row, gg_error *err)
{
    uint32_t *ids = malloc((p->n + 1) * sizeof *ids);
    float *weights = malloc((p->n + 1) * sizeof *weights);
    if (!ids || !weights) {
        free(ids);
        free(weights);
        return gg_fail(err, GG_ENOMEM, "no memory for a row");
    }
    for (size_t i = 0; i < p->n; i++) {
        ids[i] = w->d->ids[p->chosen[i]];
        weights[i] = (float)(p->x[i] / w->d->norms[p->chosen[i]]);
    }
    uint32_t n = (uint32_t)p->n;
    gg_vocab_made *made = gg_vocab_make(row, err);
    if (!made) {
        free(ids);
        free(weights);
        return err->status;
    }
    *(w->other ? &made->output : &made->sum) = (gg_vocab_sum){ n, ids, NULL, weights };
    return GG_OK;
}

static gg_status pursue_one(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    const omp_work *w = ctx;
    const dictionary *d = w->d;
    pursuit p = { .d = d };
    (void)worker;
    float *target = malloc(d->width * sizeof *target);
    p.y = malloc(d->width * sizeof *p.y);
    p.near = malloc((d->n + 1) * sizeof *p.near);
    p.factor = malloc((size_t)MOST_TERMS * MOST_TERMS * sizeof *p.factor);
    if (!target || !p.y || !p.near || !p.factor) gg_fail(err, GG_ENOMEM, "no memory for a row");
    else if (gg_read_values(w->donor, w->index, (uint64_t)w->targets[i] * d->width, d->width,
                            target, err) == GG_OK &&
             pursue(&p, target, err) == GG_OK)
        store(w, &p, &w->e->rows.list[w->targets[i]], err);
    free(target);
    free(p.y);
    free(p.near);
    free(p.factor);
    return err->status;
}

static gg_status read_dictionary(gg_source *donor, size_t index, const uint32_t *shared, size_t n,
                                 dictionary *d, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(donor, index);
    d->width = (size_t)t->dims[0];
    size_t many = 0;
    for (size_t i = 0; i < n; i++) many += shared[i] != UINT32_MAX;
    if (many == 0) return gg_fail(err, GG_NO, "the models have no tokens in common");
    if (t->dims[1] != n || d->width > SIZE_MAX / 16 / many)
        return gg_fail(err, GG_EFORMAT, "the donor's embeddings do not fit its vocabulary");
    d->rows = malloc(many * d->width * sizeof *d->rows);
    d->norms = malloc(many * sizeof *d->norms);
    d->ids = malloc(many * sizeof *d->ids);
    if (!d->rows || !d->norms || !d->ids) return gg_fail(err, GG_ENOMEM, "no memory for rows");
    for (size_t i = 0; i < n && err->status == GG_OK; i++) {
        float *row = d->rows + d->n * d->width;
        if (shared[i] == UINT32_MAX) continue;
        if (gg_read_values(donor, index, (uint64_t)i * d->width, d->width, row, err) != GG_OK)
            break;
        double norm = sqrt(product_of_rows(row, row, d->width));
        if (!(norm > 0) || norm - norm != 0) continue;
        for (size_t k = 0; k < d->width; k++) row[k] = (float)(row[k] / norm);
        d->norms[d->n] = (float)norm;
        d->ids[d->n++] = shared[i];
    }
    return err->status;
}

static gg_status pursue_matrix(omp_work *w, const uint32_t *shared, size_t k, size_t n_targets,
                               const gg_run *run, gg_error *err)
{
    dictionary d = { .k = k < MOST_TERMS ? k : MOST_TERMS };
    w->d = &d;
    if (read_dictionary(w->donor, w->index, shared, w->e->rows.n, &d, err) == GG_OK)
        gg_parallel(n_targets, run->threads, pursue_one, w, err);
    free(d.rows);
    free(d.norms);
    free(d.ids);
    w->d = NULL;
    return err->status;
}

gg_status vocab_omp(gg_source *donor, const uint32_t *shared, size_t k, const gg_run *run,
                    vocab_edit *e, gg_error *err)
{
    size_t *targets = malloc((e->rows.n + 1) * sizeof *targets), n = 0;
    size_t index = gg_source_find(donor, "token_embd.weight", 17),
           output = gg_source_find(donor, "output.weight", 13),
           base_output = gg_source_find(e->base, "output.weight", 13);
    if (!targets) return gg_fail(err, GG_ENOMEM, "no memory for rows");
    for (size_t i = 0; i < e->rows.n; i++)
        if (e->rows.list[i].from == GG_ROW_MADE && !e->rows.list[i].made) targets[n++] = i;
    omp_work w = { donor, index, NULL, e, targets, false };
    if (index == SIZE_MAX) gg_fail(err, GG_NO, "the donor has no token_embd.weight");
    else pursue_matrix(&w, shared, k, n, run, err);
    if (err->status == GG_OK && base_output != SIZE_MAX && output != SIZE_MAX) {
        w.index = output;
        w.other = true;
        pursue_matrix(&w, shared, k, n, run, err);
    }
    free(targets);
    return err->status;
}

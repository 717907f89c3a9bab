/* lora_pairs.c - the factors of the pairs, and the temporary file that holds them. */
#include "lora_core.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/io.h"
#include "numeric/lowrank.h"
#include "verbs/shared/verb_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double gg_lora_alpha(const gg_lora_options *o)
{
    return o->rank ? o->rank : LORA_ALPHA;
}

/* The same seed for the same name and expert on every machine (FNV-1a). */
static uint64_t seed_of(const gg_tensor *t, uint64_t expert)
{
    uint64_t h = UINT64_C(14695981039346656037) ^ expert;
    for (size_t i = 0; i < t->name_len; i++)
        h = (h ^ (unsigned char)t->name[i]) * UINT64_C(1099511628211);
    return h;
}

static gg_status decompose(lora_job *x, const lora_target *g, uint64_t expert, float *d,
                           gg_factors *f, gg_error *err)
{
    uint64_t n = g->rows * g->cols, bytes = g->t.bytes;
    lora_piece p = { x->base, x->tuned, g, expert * n, n };
    gg_lowrank how = { x->o->rank, x->o->energy > 0 ? x->o->energy : LORA_ENERGY,
                       seed_of(&g->t, expert), x->threads };
    gg_status st = gg_lora_difference(&p, d, x->threads, err);
    if (st == GG_OK) st = gg_truncate_matrix(d, (size_t)g->rows, (size_t)g->cols, &how, f, err);
    bytes += gg_source_tensor(x->tuned, g->tuned)->bytes;
    gg_progress_add(x->run, bytes / g->experts);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, g->t.name, g->t.name_len);
}

/* ---- storing -------------------------------------------------------------------------- */

/* Lines of values to store. The rank of an expert can be less than that of its stack; the values
 * that it lacks are 0. */
typedef struct sheet {
    const float *x;
    size_t lines, length, line_step, step;
    size_t have_lines, have_length;
    double factor;
} sheet;

static gg_status store(lora_job *x, const sheet *s, gg_error *err)
{
    float *line = calloc(s->length, sizeof *line);
    gg_status st = line ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for a factor");
    for (size_t i = 0; i < s->lines && st == GG_OK; i++) {
        for (size_t k = 0; k < s->length; k++) {
            bool have = i < s->have_lines && k < s->have_length;
            line[k] = have ? (float)(s->factor * (double)s->x[i * s->line_step + k * s->step]) : 0;
        }
        st = gg_pwrite_all(x->fd, line, s->length * sizeof *line, x->stored, err);
        if (st != GG_OK) gg_fix(err, "set TMPDIR to a folder with room for the adapter");
        x->stored += s->length * sizeof *line;
    }
    free(line);
    return st;
}

/* The factor with one line per column of W (wide, or its transpose), or one per row (tall). */
static gg_status store_factors(lora_job *x, const lora_target *g, const gg_factors *f,
                               uint64_t rank, bool wide, gg_error *err)
{
    size_t rows = (size_t)g->rows, cols = (size_t)g->cols, r = (size_t)rank;
    double factor = sqrt((double)rank / gg_lora_alpha(x->o));
    gg_status st = GG_OK;
    for (uint64_t e = 0; e < g->experts && st == GG_OK; e++) {
        const gg_factors *k = &f[e];
        sheet s = { k->tall, rows, r, k->rank, 1, rows, k->rank, factor };
        if (wide) s = (sheet){ k->wide, r, cols, cols, 1, k->rank, cols, factor };
        if (wide && g->swapped) s = (sheet){ k->wide, cols, r, 1, cols, cols, k->rank, factor };
        st = store(x, &s, err);
    }
    return st;
}

static gg_status add_half(lora_job *x, const lora_target *g, char letter, uint64_t rank,
                          uint64_t bytes, gg_error *err)
{
    lora_half **grown = gg_grow(x->halves, x->n, &x->cap, sizeof(lora_half *), err);
    if (!grown) return GG_ENOMEM;
    x->halves = grown;
    lora_half *h = calloc(1, sizeof *h);
    if (!h) return gg_fail(err, GG_ENOMEM, "no memory for a tensor");
    x->halves[x->n++] = h;
    int n = snprintf(h->name, sizeof h->name, "%.*s.lora_%c", (int)g->t.name_len, g->t.name,
                     letter);
    bool first = letter == 'a';
    uint64_t lines = first == g->swapped ? g->rows : g->cols; /* of the side that it belongs to */
    h->fd = x->fd;
    h->at = x->stored - bytes;
    h->t = (gg_tensor){ .name = h->name,
                        .name_len = (size_t)n,
                        .n_dims = g->t.n_dims > 2 ? 3 : 2,
                        .dtype = GG_F32,
                        .bytes = bytes,
                        .elements = bytes / sizeof(float),
                        .dims = { rank, lines, g->experts, 1 } };
    if (first && !g->swapped) {
        h->t.dims[0] = lines;
        h->t.dims[1] = rank;
    }
    return GG_OK;
}

static gg_status store_pair(lora_job *x, const lora_target *g, const gg_factors *f, uint64_t rank,
                            gg_error *err)
{
    /* lora_a is the factor of the input side, or for token_embd that of the vocabulary. */
    gg_status st = GG_OK;
    for (int half = 0; half < 2 && st == GG_OK; half++) {
        uint64_t before = x->stored;
        st = store_factors(x, g, f, rank, (half == 0) != g->swapped, err);
        if (st == GG_OK) st = add_half(x, g, half ? 'b' : 'a', rank, x->stored - before, err);
    }
    return st;
}

/* ---- a pair --------------------------------------------------------------------------- */

static gg_status finish_pair(lora_job *x, const lora_target *g, const gg_factors *f, gg_error *err)
{
    gg_lora_row row = { g->t.name, g->t.name_len, g->rows, g->cols, g->experts, 0, 0 };
    double kept = 0, total = 0;
    for (uint64_t e = 0; e < g->experts; e++) {
        if (f[e].rank > row.rank) row.rank = f[e].rank;
        kept += f[e].kept;
        total += f[e].total;
    }
    if (row.rank == 0) {
        x->report->equal++;
        return GG_OK;
    }
    row.kept = kept < total ? kept / total : 1;
    x->kept += kept;
    x->total += total;
    x->report->pairs++;
    if (row.rank > x->report->largest) x->report->largest = row.rank;
    gg_status st = store_pair(x, g, f, row.rank, err);
    if (st != GG_OK) return gg_at_tensor(err, g->t.name, g->t.name_len);
    return x->o->row ? x->o->row(x->o->row_ctx, &row, err) : GG_OK;
}

gg_status gg_lora_add_pair(lora_job *x, const lora_target *g, gg_error *err)
{
    uint64_t n = g->rows * g->cols;
    gg_factors *f = calloc((size_t)g->experts, sizeof *f);
    float *d = n <= SIZE_MAX / sizeof *d ? malloc((size_t)n * sizeof *d) : NULL;
    gg_status st = f && d ? GG_OK
                          : gg_fail(err, GG_ENOMEM, "no memory for the %llu values of a matrix",
                                    (unsigned long long)n);
    for (uint64_t e = 0; e < g->experts && st == GG_OK; e++) st = decompose(x, g, e, d, &f[e], err);
    free(d);
    if (st == GG_OK) st = finish_pair(x, g, f, err);
    for (uint64_t e = 0; f && e < g->experts; e++) gg_factors_free(&f[e]);
    free(f);
    return st;
}

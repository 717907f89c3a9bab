/* merge_tensor.c - merges one tensor: reads all inputs in chunks, in several passes if the method
 * needs them, and writes the result. The loop over the chunks is that of compute.h. Describes what
 * a merge does to a tensor. */
#include "merging.h"

#include "base/error.h"
#include "base/io.h"
#include "base/parallel.h"
#include "compute/compute.h"
#include "gguf/gguf.h"
#include "merge_values.h"
#include "organ/tensor_names.h"
#include "write/keys.h"
#include "write/verb_run.h"
#include "json/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_BYTES ((uint64_t)192 << 20) /* for the buffers of all threads */
#define ROW_MOST ((uint64_t)1 << 24)        /* values of a row that a method can hold */

/* ---- reading the inputs --------------------------------------------------------------- */

/* One input of a reader. */
typedef struct merge_input {
    gg_source *source;
    size_t index;
    uint32_t dtype;
    gg_data data;
    bool open;
    uint8_t *raw; /* the encoded values of a chunk */
    float *x;     /* the values of a piece */
} merge_input;

/* For one thread. Start from all zero. */
typedef struct merge_reader {
    const gg_merge_job *job;
    merge_input in[GG_MERGE_MODELS + 1]; /* the models, and then the base if there is one */
    size_t n_in;
    uint64_t first; /* index of the first value of the chunk */
    float *x[GG_MERGE_MODELS + 1], *out;
    void *scratch;
} merge_reader;

/* At most `most` values, or one row. */
static size_t whole_rows(const gg_merge_job *j, size_t most)
{
    size_t row = (size_t)j->t.dims[0];
    if (!j->rows) return most;
    return row < most ? most / (row ? row : 1) * row : row;
}

/* `at` as in gg_merge_producer. A tensor is read in chunks of `chunk` values. Pieces of them are
 * decoded and worked on, so that these stay in the fast caches. Both are whole blocks of every
 * dtype. The reader must be closed, also after an error. */
static gg_status open_reader(merge_reader *r, const gg_merging *m, const gg_merge_job *j,
                             const size_t *at, size_t chunk, gg_error *err)
{
    *r = (merge_reader){ .job = j, .n_in = m->n + m->has_base };
    size_t scratch = m->method->work->scratch * (size_t)(j->rows ? j->t.dims[0] : 0);
    r->out = malloc(chunk * sizeof *r->out + 1);
    r->scratch = malloc(scratch + 1);
    bool ok = r->out && r->scratch;
    for (size_t k = 0; k < r->n_in && ok; k++) {
        merge_input *in = &r->in[k];
        in->source = k < m->n ? m->models[k] : m->base;
        in->index = at[k];
        in->dtype = gg_source_tensor(in->source, at[k])->dtype;
        in->raw = malloc((size_t)gg_encoded_bytes(in->dtype, chunk) + 1);
        in->x = r->x[k] = malloc(whole_rows(j, GG_MERGE_PIECE) * sizeof *in->x + 1);
        ok = in->raw && in->x;
    }
    gg_status st = ok ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the values of a tensor");
    for (size_t k = 0; k < r->n_in && st == GG_OK; k++) {
        st = gg_data_open(r->in[k].source, at[k], &r->in[k].data, err);
        r->in[k].open = st == GG_OK;
    }
    return st;
}

static void close_reader(merge_reader *r)
{
    for (size_t k = 0; k < r->n_in; k++) {
        if (r->in[k].open) gg_data_close(&r->in[k].data);
        free(r->in[k].raw);
        free(r->in[k].x);
    }
    free(r->out);
    free(r->scratch);
    *r = (merge_reader){ 0 };
}

/* Names the first value with which nothing can be computed, of n that begin at value `at` of the
 * chunk. There must be one. */
static gg_status fail_bad_value(const merge_input *in, const uint8_t *raw, uint64_t at, size_t n,
                                gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(in->source, in->index);
    size_t i = 0;
    while (i < n &&
           !gg_count_unusable(in->dtype, raw + gg_encoded_bytes(in->dtype, i), in->x + i, 1))
        i++;
    gg_fail_in(err, GG_EFORMAT, in->source, t, "its value %llu is %s", (unsigned long long)(at + i),
               gg_is_integer(in->dtype) ? "an integer that F32 cannot hold exactly"
               : in->dtype == GG_F64    ? "NaN, infinite or beyond the range of F32"
                                        : "NaN or infinite");
    return gg_fix(err, "repair or replace this model; it cannot be merged");
}

/* Reads a chunk of n values from `first` on, without decoding it. */
static gg_status read_chunk(merge_reader *r, uint64_t first, size_t n, gg_error *err)
{
    gg_status st = GG_OK;
    r->first = first;
    for (size_t k = 0; k < r->n_in && st == GG_OK; k++) {
        merge_input *in = &r->in[k];
        uint64_t offset = gg_encoded_bytes(in->dtype, r->job->skip + first);
        st = gg_data_read(&in->data, offset, in->raw, (size_t)gg_encoded_bytes(in->dtype, n), err);
        if (st != GG_OK) gg_at_file(err, gg_source_name(in->source));
    }
    return st;
}

/* Decodes n values of that chunk, from its value `at` on. If the job has a base, c->x are the
 * differences from it. With `check`, GG_EFORMAT if a value is not finite. */
static gg_status decode_piece(merge_reader *r, size_t at, size_t n, bool check, gg_merge_chunk *c,
                              gg_error *err)
{
    uint64_t first = r->first + at;
    for (size_t k = 0; k < r->n_in; k++) {
        merge_input *in = &r->in[k];
        const uint8_t *raw = in->raw + gg_encoded_bytes(in->dtype, at);
        gg_status st = gg_decode(in->dtype, raw, in->x, n, err);
        if (st == GG_OK && check && gg_count_unusable(in->dtype, raw, in->x, n))
            st = fail_bad_value(in, raw, r->job->skip + first, n, err);
        if (st != GG_OK) {
            gg_at_file(err, gg_source_name(in->source));
            return st;
        }
    }
    const float *base = r->job->has_base ? r->in[r->n_in - 1].x : NULL;
    bool differences = base && !r->job->method->work->subtracts;
    for (size_t k = 0; differences && k < r->job->n; k++) GG_PICK(gg_mk_subtract)(r->x[k], base, n);
    *c = (gg_merge_chunk){ first, n, base, r->x, r->out + at, r->scratch };
    return GG_OK;
}

/* ---- the work on a tensor ------------------------------------------------------------- */

typedef struct merge_ctx {
    gg_computation base; /* first: see compute.h */
    gg_merging *m;
    bool copies; /* some experts of the stack are those of one model */
    size_t at[]; /* index of the tensor in each model, and last in the base */
} merge_ctx;

typedef struct work {
    gg_merge_job *job;
    const merge_ctx *ctx;
    gg_steps steps;
    merge_reader *readers; /* one per thread */
    gg_merge_pass pass;    /* the current one; without scan: the result is computed */
    unsigned pass_no;
    double *sums, *slot_sums; /* of a pass: all so far, and those of each slot */
    uint64_t *counters;       /* of a pass, per thread */
    bool checked;             /* all inputs are known to be finite */
} work;

/* ---- jobs ------------------------------------------------------------------------ */

static gg_status evaluate_parameters(const gg_merging *m, gg_merge_job *j, gg_error *err)
{
    gg_merge_settings parts = { 0 };
    gg_status st = gg_merge_settings_add(&parts, m->method->parts, err);
    for (size_t i = 0; i < m->method->n_takes && st == GG_OK; i++) {
        const gg_merge_default *d = &m->method->takes[i];
        for (size_t k = 0; k <= j->n && st == GG_OK; k++) {
            const gg_merge_settings *from[] = { k < j->n ? &m->of_model[k] : &m->global, &m->global,
                                                &parts };
            double v = d->value;
            for (size_t s = 0; s < sizeof from / sizeof from[0]; s++)
                if (gg_merge_setting_value(from[s], d->param, &j->t, m->blocks, &v)) break;
            j->p[k][d->param] = v;
            if (!isnan(v)) continue;
            const char *name = gg_merge_params[d->param].name;
            gg_fail(err, GG_EUSAGE, "%s needs a value for %s", m->method->name, name);
            st = gg_fix(err, "give it after the name of the method: %s,%s=...", m->method->name,
                        name);
        }
    }
    gg_merge_settings_free(&parts);
    return st;
}

uint64_t gg_merge_experts(const gg_tensor *t)
{
    uint64_t experts = 1;
    return gg_is_expert_stack(t, &experts) ? experts : 1;
}

gg_status gg_merge_job_start(const gg_merging *m, const gg_tensor *t, uint64_t expert,
                             gg_merge_job *j, gg_error *err)
{
    *j = (gg_merge_job){ .method = m->method, .t = *t, .n = m->n, .has_base = m->has_base };
    uint64_t experts;
    if (gg_is_expert_stack(t, &experts)) gg_expert_tensor(t, experts, expert, &j->t, j->name);
    j->skip = expert * j->t.elements;
    j->seed = m->seed;
    j->err = err;
    j->p = calloc(m->n + 1, sizeof *j->p);
    j->state = calloc(1, m->method->work->state + 1);
    if (!j->p || !j->state) return gg_fail(err, GG_ENOMEM, "no memory for a tensor");
    gg_status st = evaluate_parameters(m, j, err);
    if (st == GG_OK && m->method->work->start) st = m->method->work->start(j);
    if (st == GG_OK && j->rows && t->dims[0] > ROW_MOST)
        st = gg_fail(err, GG_EUNSUPPORTED, "its rows are too long for %s", m->method->name);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, t->name, t->name_len);
}

void gg_merge_job_free(gg_merge_job *j)
{
    free(j->p);
    free(j->state);
    free(j->kept);
}

/* ---- chunks ---------------------------------------------------------------------- */

/* Of a method with whole matrices: the base + the matrix in memory. */
static void add_whole(const gg_merge_job *j, const gg_merge_chunk *c)
{
    float *d = j->whole + (c->first - j->whole_at);
    const double one = 1;
    GG_PICK(gg_mk_combine)(c->out, c->base, &d, &one, 1, c->n);
}

static gg_status do_chunk(void *ctx, const gg_step *s, float **x, gg_error *err)
{
    work *w = ctx;
    merge_reader *r = &w->readers[s->worker];
    gg_merge_chunk c;
    size_t piece = whole_rows(w->job, GG_MERGE_PIECE);
    gg_merge_tally tally = { w->pass_no, NULL, NULL };
    gg_status st = read_chunk(r, s->first, s->n, err);
    if (w->pass.scan) {
        tally.sums = w->slot_sums + s->slot * w->pass.sums;
        memset(tally.sums, 0, w->pass.sums * sizeof *tally.sums);
        tally.counters = w->counters + s->worker * w->pass.counters;
    }
    for (size_t at = 0; at < s->n && st == GG_OK; at += piece) {
        size_t n = s->n - at < piece ? s->n - at : piece;
        st = decode_piece(r, at, n, !w->checked, &c, err);
        if (st != GG_OK) break;
        if (w->pass.scan) w->pass.scan(w->job, &c, &tally);
        else if (w->job->method->work->whole) add_whole(w->job, &c);
        else w->job->method->work->make(w->job, &c);
    }
    if (st == GG_OK && !w->pass.scan) *x = r->out;
    return st;
}

static void add_sums(void *ctx, const gg_step *s)
{
    work *w = ctx;
    for (size_t k = 0; k < w->pass.sums; k++)
        w->sums[k] += w->slot_sums[s->slot * w->pass.sums + k];
}

/* ---- passes ---------------------------------------------------------------------- */

static gg_status run_pass(work *w, gg_error *err)
{
    uint64_t all = w->job->t.elements, to = w->pass.to && w->pass.to < all ? w->pass.to : all;
    unsigned threads = w->pass.in_order ? 1 : w->steps.threads;
    size_t n = w->pass.counters;
    w->sums = calloc(w->pass.sums + 1, sizeof *w->sums);
    w->slot_sums = malloc((w->pass.sums * w->steps.n_slots + 1) * sizeof *w->slot_sums);
    w->counters = calloc(threads * n + 1, sizeof *w->counters);
    gg_status st = w->sums && w->slot_sums && w->counters
                       ? gg_steps_run(&w->steps, w->pass.from, to, threads, false, err)
                       : gg_fail(err, GG_ENOMEM, "no memory for sums");
    for (size_t i = n; i < threads * n && st == GG_OK; i++) w->counters[i % n] += w->counters[i];
    gg_merge_tally all_sums = { w->pass_no, w->sums, w->counters };
    if (st == GG_OK && w->pass.end) st = w->pass.end(w->job, &all_sums);
    free(w->counters);
    free(w->sums);
    free(w->slot_sums);
    if (w->pass.from == 0 && to == all) w->checked = true;
    return st;
}

static gg_status all_passes(work *w, gg_error *err)
{
    gg_status st = GG_OK;
    for (w->pass_no = 0; st == GG_OK && w->job->method->work->pass; w->pass_no++) {
        w->pass = (gg_merge_pass){ 0 };
        if (!w->job->method->work->pass(w->job, w->pass_no, &w->pass)) break;
        if (w->pass.scan) st = run_pass(w, err); /* a pass may turn out to be unnecessary */
    }
    w->pass = (gg_merge_pass){ 0 };
    return st;
}

/* ---- whole matrices -------------------------------------------------------------- */

static void add_up(const gg_merge_job *j, const gg_merge_chunk *c, gg_merge_tally *t)
{
    double weights[GG_MERGE_MODELS];
    (void)t;
    for (size_t k = 0; k < j->n; k++)
        weights[k] = j->only == SIZE_MAX ? j->p[k][GG_MP_WEIGHT] : j->only == k;
    GG_PICK(gg_mk_combine)(j->whole + (c->first - j->whole_at), NULL, c->x, weights, j->n, c->n);
}

/* Sums the differences of one model, or of all with their weights (SIZE_MAX), in m->d. */
static gg_status sum_models(work *w, const gg_whole_matrix *m, size_t only, gg_error *err)
{
    uint64_t at = w->job->whole_at;
    w->job->only = only;
    w->checked = false;
    w->pass = (gg_merge_pass){ .from = at, .to = at + m->rows * m->cols, .scan = add_up };
    gg_status st = run_pass(w, err);
    w->pass = (gg_merge_pass){ 0 };
    return st;
}

/* Finds the samples of all models for the tensor of the job. *n: how many have some. */
static gg_status find_samples(const work *w, gg_regmean_samples *list, size_t *n, gg_error *err)
{
    const gg_merge_job *j = w->job;
    const gg_merging *m = w->ctx->m;
    gg_status st = GG_OK;
    *n = 0;
    for (size_t k = 0; k < j->n && st == GG_OK; k++) {
        const gg_tensor *stack = gg_source_tensor(m->models[k], w->ctx->at[k]);
        gg_samples *of = &list[k].of;
        list[k] = (gg_regmean_samples){ { m->inputs[k], SIZE_MAX, 0 }, j->p[k][GG_MP_WEIGHT] };
        if (j->t.elements) of->matrix = j->skip / j->t.elements;
        st = gg_samples_find(of->source, stack, j->t.dims[0], gg_dims_from(stack, 2), &of->at, err);
        *n += of->at != SIZE_MAX;
        if (st != GG_OK || *n == 0 || *n == k + 1) continue;
        st = gg_fail(err, GG_NO, "not all activations have samples of this tensor");
    }
    return st;
}

/* The mean of regmean in r->sum; without samples, as of embeddings and vectors, the weighted mean.
 */
static gg_status regression_mean(work *w, const gg_whole_matrix *m, gg_regmean *r, gg_error *err)
{
    const gg_merge_job *j = w->job;
    gg_regmean_samples list[GG_MERGE_MODELS];
    double weights = 0;
    size_t n = 0, values = m->rows * m->cols;
    gg_status st = find_samples(w, list, &n, err);
    if (st == GG_OK) st = gg_regmean_open(r, m->rows, n ? m->cols : 0, values, err);
    for (size_t k = 0; k < n && st == GG_OK; k++) {
        st = sum_models(w, m, k, err);
        if (st == GG_OK) st = gg_regmean_add(r, m->d, &list[k], m->p[GG_MP_RIDGE], m->threads, err);
    }
    if (st != GG_OK || n) return st == GG_OK ? gg_regmean_solve(r, m->threads, err) : st;
    for (size_t k = 0; k < j->n; k++) weights += j->p[k][GG_MP_WEIGHT];
    if (weights == 0) return gg_fail(err, GG_EUSAGE, "the weights add up to 0");
    st = sum_models(w, m, SIZE_MAX, err);
    for (size_t i = 0; i < values && st == GG_OK; i++)
        r->sum[i] = (float)((double)m->d[i] / weights);
    return st;
}

static gg_status merge_by_grams(work *w, const gg_whole_matrix *m, gg_error *err)
{
    gg_regmean r = { 0 };
    size_t n = m->rows * m->cols;
    double share = m->p[GG_MP_SHARE];
    gg_status st = regression_mean(w, m, &r, err);
    if (st == GG_OK && share > 0) {
        st = sum_models(w, m, SIZE_MAX, err);
        if (st == GG_OK) st = w->job->method->work->whole(m, err);
        for (size_t i = 0; i < n && st == GG_OK; i++)
            m->d[i] = (float)((1 - share) * (double)r.sum[i] + share * (double)m->d[i]);
    } else if (st == GG_OK) memcpy(m->d, r.sum, n * sizeof *m->d);
    gg_regmean_close(&r);
    return st;
}

static gg_status make_whole(work *w, gg_error *err)
{
    gg_merge_job *j = w->job;
    const uint64_t *dims = j->t.dims;
    uint64_t size = dims[0] * dims[1], n = j->t.elements;
    gg_status st = GG_OK;
    if (n == 0) return GG_OK;
    if (size <= SIZE_MAX / sizeof(float)) j->whole = malloc((size_t)size * sizeof(float));
    if (!j->whole)
        return gg_fail(err, GG_ENOMEM, "no memory for a matrix of %llu values",
                       (unsigned long long)size);
    for (uint64_t at = 0; at < n && st == GG_OK; at += size) {
        gg_whole_matrix m = { j->whole, (size_t)dims[1], (size_t)dims[0],
                              j->n,     j->p[j->n],      w->steps.threads };
        j->whole_at = at;
        if (j->method->grams) st = merge_by_grams(w, &m, err);
        else {
            st = sum_models(w, &m, SIZE_MAX, err);
            if (st == GG_OK) st = j->method->work->whole(&m, err);
        }
        w->checked = true;
        if (st == GG_OK) st = gg_steps_run(&w->steps, at, at + size, w->steps.threads, true, err);
    }
    free(j->whole);
    return st;
}

/* ---- the producer ---------------------------------------------------------------- */

/* `alone`: no other tensor is computed at the same time. */
static gg_status open_work(work *w, const gg_target *to, bool alone, gg_error *err)
{
    const merge_ctx *ctx = w->ctx;
    unsigned threads = to->run->threads ? to->run->threads : gg_thread_count();
    w->steps = (gg_steps){ .to = *to,
                           .size = whole_rows(w->job, GG_MERGE_CHUNK),
                           .threads = alone ? threads : 1 };
    w->steps.ctx = w;
    w->steps.make = do_chunk;
    w->steps.after = add_sums;
    gg_status st = gg_steps_open(&w->steps, ctx->base.imatrix, 0, 0, err);
    if (st != GG_OK) return st;
    w->readers = calloc(w->steps.threads, sizeof *w->readers);
    if (w->job->keep && w->job->keep <= GG_MERGE_KEPT) w->job->kept = malloc((size_t)w->job->keep);
    if (!w->readers) return gg_fail(err, GG_ENOMEM, "no memory for the values of a tensor");
    for (unsigned k = 0; k < w->steps.threads && st == GG_OK; k++)
        st = open_reader(&w->readers[k], ctx->m, w->job, ctx->at, w->steps.size, err);
    return st;
}

static void close_work(work *w)
{
    for (unsigned k = 0; w->readers && k < w->steps.threads; k++) close_reader(&w->readers[k]);
    free(w->readers);
    gg_steps_close(&w->steps);
}

static gg_status verify_inputs(const merge_ctx *ctx, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t k = 0; k < ctx->m->n && st == GG_OK; k++)
        st = gg_verify_data(ctx->m->models[k], ctx->at[k], err);
    if (st == GG_OK && ctx->m->has_base) st = gg_verify_data(ctx->m->base, ctx->at[ctx->m->n], err);
    return st;
}

/* Merges the tensor of the job. */
static gg_status merge_values(const merge_ctx *ctx, gg_merge_job *job, const gg_target *to,
                              gg_error *err)
{
    work w = { .job = job, .ctx = ctx };
    bool whole = ctx->m->method->work->whole != NULL;
    gg_status st = open_work(&w, to, whole || to->at == GG_AT_POS, err);
    if (st == GG_OK && !whole) st = all_passes(&w, err);
    if (st == GG_OK && whole) st = make_whole(&w, err);
    else if (st == GG_OK)
        st = gg_steps_run(&w.steps, 0, job->t.elements, w.steps.threads, true, err);
    if (st == GG_OK) st = gg_steps_fail_lost(&w.steps, err);
    close_work(&w);
    return st;
}

/* Copies an expert that is that of model k, if it has the type of the result. */
static gg_status copy_expert(const merge_ctx *ctx, size_t k, const gg_merge_job *job,
                             const gg_target *to, bool *copied, gg_error *err)
{
    gg_source *s = k < ctx->m->n ? ctx->m->models[k] : ctx->m->base;
    uint64_t skip = gg_encoded_bytes(to->t->dtype, job->skip);
    gg_plan_part part = { s, ctx->at[k], skip, to->t->bytes, NULL };
    *copied = gg_source_tensor(s, ctx->at[k])->dtype == to->t->dtype;
    if (*copied && to->zeros) atomic_store(&to->zeros->kept, true);
    return *copied ? gg_copy_part(&part, (gg_place){ to->fd, to->at }, NULL, to->run, err) : GG_OK;
}

/* Merges a tensor, or the experts of a stack one after another, each as a tensor of its own. */
static gg_status make_merge(void *context, const gg_target *to, gg_error *err)
{
    const merge_ctx *ctx = context;
    const gg_tensor *t = to->t;
    bool whole = ctx->m->method->work->whole != NULL;
    gg_target one = *to;
    if (ctx->copies) one.hash = NULL; /* copies are not hashed */
    if (whole) pthread_mutex_lock(&ctx->m->whole);
    gg_status st = verify_inputs(ctx, err);
    for (uint64_t e = 0; e < gg_merge_experts(t) && st == GG_OK; e++) {
        gg_merge_job job;
        bool copied = false;
        st = gg_merge_job_start(ctx->m, t, e, &job, err);
        one.t = &job.t;
        size_t k = st == GG_OK && ctx->copies ? job.method->work->unchanged(&job) : SIZE_MAX;
        if (k != SIZE_MAX) st = copy_expert(ctx, k, &job, &one, &copied, err);
        if (st == GG_OK && !copied) st = merge_values(ctx, &job, &one, err);
        one.at = gg_offset_after(one.at, job.t.bytes);
        gg_merge_job_free(&job);
    }
    if (whole) pthread_mutex_unlock(&ctx->m->whole);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, t->name, t->name_len);
}

gg_status gg_merge_producer(gg_computations *list, gg_merging *m, const size_t *at, bool copies,
                            gg_producer *p, gg_error *err)
{
    merge_ctx *ctx = gg_compute_new(list, sizeof *ctx + (m->n + 1) * sizeof *at, err);
    if (!ctx) return err->status;
    ctx->m = m;
    ctx->copies = copies;
    memcpy(ctx->at, at, (m->n + 1) * sizeof *at);
    *p = (gg_producer){ make_merge, ctx };
    return GG_OK;
}

/* Most bytes that one thread needs to merge a tensor with rows of so many values. */
static uint64_t thread_bytes(const gg_merging *m, uint64_t row)
{
    uint64_t chunk = row < GG_MERGE_CHUNK ? GG_MERGE_CHUNK : row < ROW_MOST ? row : ROW_MOST;
    size_t counters = m->method->random ? 0 : m->method->work->counters; /* they count nothing */
    uint64_t counted = counters * m->n * sizeof(uint64_t) + GG_MERGE_KEPT;
    return chunk * (m->n + 2) * (sizeof(float) + sizeof(double)) + chunk * 16 +
           chunk * m->method->work->scratch + counted;
}

gg_run gg_merge_bounded(const gg_merging *m, uint64_t row, const gg_run *run)
{
    gg_run less = *run;
    /* not 0: it is a positive sum */
    uint64_t most = THREADS_BYTES / thread_bytes(m, row);
    unsigned threads = run->threads ? run->threads : gg_thread_count();
    less.threads = threads < most ? threads : most ? (unsigned)most : 1;
    return less;
}

/* ---- what a merge does to a tensor -------------------------------------------------------- */

/* The parameters of a tensor as text: "weight=0.6,0.4 lambda=1". Cut to `size`. */
static void job_text(const gg_merge_job *j, char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < j->method->n_takes && at < size; i++) {
        gg_merge_param p = j->method->takes[i].param;
        size_t values = 1;
        for (size_t k = 1; k < j->n; k++)
            if (j->p[k][p] != j->p[0][p]) values = j->n;
        at += (size_t)snprintf(out + at, size - at, "%s%s=", i ? " " : "", gg_merge_params[p].name);
        for (size_t k = 0; k < values && at < size; k++) {
            char number[32];
            gg_format_f64(j->p[k][p], number);
            at += (size_t)snprintf(out + at, size - at, "%s%s", k ? "," : "", number);
        }
    }
}

/* Adds the parameters of experts `first` to `last`. */
static void add_expert_text(gg_merge_how *how, uint64_t first, uint64_t last, const char *text)
{
    size_t at = strlen(how->text), room = sizeof how->text - at;
    char numbers[64];
    snprintf(numbers, sizeof numbers, "%sexperts %llu-%llu: ", at ? "; " : "",
             (unsigned long long)first, (unsigned long long)last);
    if (strlen(numbers) < room)
        snprintf(how->text + at, room, "%s%.*s", numbers, (int)(room - strlen(numbers) - 1), text);
}

gg_status gg_merge_describe(const gg_merging *m, const gg_tensor *t, bool text, gg_merge_how *how,
                            gg_error *err)
{
    char texts[2][sizeof how->text] = { "" };
    uint64_t n = gg_merge_experts(t), first = 0;
    gg_status st = GG_OK;
    *how = (gg_merge_how){ .from = SIZE_MAX };
    for (uint64_t e = 0; e < n && st == GG_OK; e++) {
        gg_merge_job j;
        st = gg_merge_job_start(m, t, e, &j, err);
        size_t from = st == GG_OK && m->method->work->unchanged ? m->method->work->unchanged(&j)
                                                                : SIZE_MAX;
        if (st == GG_OK && text) job_text(&j, texts[e % 2], sizeof texts[0]);
        gg_merge_job_free(&j);
        if (e == 0) how->from = from;
        how->copies = how->copies || from != how->from;
        if (e == 0 || strcmp(texts[0], texts[1]) == 0) continue;
        add_expert_text(how, first, e - 1, texts[(e - 1) % 2]);
        first = e;
    }
    if (how->copies) how->from = SIZE_MAX;
    if (first) add_expert_text(how, first, n - 1, texts[(n - 1) % 2]);
    else memcpy(how->text, texts[0], sizeof texts[0]);
    return st;
}

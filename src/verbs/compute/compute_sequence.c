/* compute_sequence.c - computes a tensor that is written in sequence. Steps are read in order,
 * computed by several threads, and written in order.
 */
#include "compute_core.h"

#include "base/io.h"
#include "base/parallel.h"
#include "verbs/shared/verb_run.h"

#include <stdlib.h>

#define STEPS_PER_THREAD 2

/* One step: the data read from each input, and the data to write. */
typedef struct slot {
    uint8_t *raw[COMPUTE_INPUTS], *out;
    uint64_t first;
    size_t n;
    uint64_t bad[COMPUTE_INPUTS], lost;
} slot;

typedef struct sequence {
    const gg_computation *t;
    compute_mix mix;
    void *state;
    const compute_target *to;
    feed in[COMPUTE_INPUTS];
    slot *slots;
    size_t n_slots;
    float **x; /* per worker: a step of values per input, and one of weights */
    gg_weights weights;
    unsigned threads;
    uint64_t bad[COMPUTE_INPUTS], lost;
} sequence;

static size_t dtype_bytes(uint32_t dtype, size_t n)
{
    const gg_dtype_info *info = gg_dtype_get(dtype);
    return n / info->block_elems * info->block_bytes;
}

static gg_status compute(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    sequence *q = ctx;
    slot *s = &q->slots[i];
    float *x[COMPUTE_INPUTS];
    gg_status st = GG_OK;
    uint64_t bad = 0;
    for (size_t k = 0; k < q->t->n_in && st == GG_OK; k++) {
        x[k] = q->x[worker] + k * COMPUTE_STEP;
        st = gg_decode(q->t->in[k].dtype, s->raw[k], x[k], s->n, err);
        if (st == GG_OK) bad += s->bad[k] = gg_count_bad(x[k], s->n);
    }
    if (st != GG_OK || bad) return st;
    if (q->mix) st = q->mix(q->state, s->first, s->n, x, err);
    s->lost = gg_count_beyond(q->to->t->dtype, x[0], s->n);
    if (st != GG_OK || s->lost) return st;
    float *room = q->x[worker] + q->t->n_in * COMPUTE_STEP;
    const float *weights = gg_weights_of(&q->weights, s->first, s->n, room);
    return gg_encode(q->to->t->dtype, x[0], s->out, s->n, s->n, weights, err);
}

/* Reads up to n_slots steps from value `first` on; *used is their number. */
static gg_status read_steps(sequence *q, uint64_t first, size_t *used, gg_error *err)
{
    uint64_t elements = q->to->t->elements;
    gg_status st = GG_OK;
    for (*used = 0; *used < q->n_slots && first < elements && st == GG_OK; ++*used) {
        slot *s = &q->slots[*used];
        s->first = first;
        s->n = elements - first < COMPUTE_STEP ? (size_t)(elements - first) : COMPUTE_STEP;
        s->lost = 0;
        for (size_t k = 0; k < q->t->n_in && st == GG_OK; k++)
            st = gg_feed_raw(&q->in[k], s->raw[k], dtype_bytes(q->t->in[k].dtype, s->n), err);
        first += s->n;
    }
    return st;
}

/* After the first value that cannot be written, values are only counted. */
static gg_status write_steps(sequence *q, size_t used, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < used && st == GG_OK; i++) {
        const slot *s = &q->slots[i];
        uint64_t bad = 0;
        for (size_t k = 0; k < q->t->n_in; k++) bad += q->bad[k] += s->bad[k];
        q->lost += s->lost;
        if (bad || q->lost) continue;
        size_t bytes = dtype_bytes(q->to->t->dtype, s->n);
        st = gg_put_all(q->to->fd, s->out, bytes, GG_AT_POS, err);
        if (st == GG_OK) gg_progress_add(q->to->run, bytes);
    }
    return st;
}

static gg_status allocate(sequence *q, gg_error *err)
{
    size_t steps = (size_t)((q->to->t->elements + COMPUTE_STEP - 1) / COMPUTE_STEP);
    q->threads = q->to->run->threads ? q->to->run->threads : gg_thread_count();
    q->n_slots = (size_t)q->threads * STEPS_PER_THREAD;
    if (q->n_slots > steps) q->n_slots = steps;
    if (q->threads > q->n_slots) q->threads = q->n_slots ? (unsigned)q->n_slots : 1;
    q->slots = calloc(q->n_slots + 1, sizeof *q->slots);
    q->x = calloc(q->threads, sizeof *q->x);
    bool ok = q->slots && q->x;
    for (size_t i = 0; ok && i < q->n_slots; i++) {
        slot *s = &q->slots[i];
        ok = (s->out = malloc(dtype_bytes(q->to->t->dtype, COMPUTE_STEP))) != NULL;
        for (size_t k = 0; ok && k < q->t->n_in; k++)
            ok = (s->raw[k] = malloc(dtype_bytes(q->t->in[k].dtype, COMPUTE_STEP))) != NULL;
    }
    for (unsigned w = 0; ok && w < q->threads; w++)
        ok = (q->x[w] = malloc((q->t->n_in + 1) * COMPUTE_STEP * sizeof(float))) != NULL;
    return ok ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the values of a tensor");
}

static void release(sequence *q)
{
    for (size_t i = 0; q->slots && i < q->n_slots; i++) {
        free(q->slots[i].out);
        for (size_t k = 0; k < COMPUTE_INPUTS; k++) free(q->slots[i].raw[k]);
    }
    for (unsigned w = 0; q->x && w < q->threads; w++) free(q->x[w]);
    for (size_t k = 0; k < q->t->n_in; k++) gg_feed_close(&q->in[k]);
    gg_weights_close(&q->weights);
    free(q->slots);
    free(q->x);
}

gg_status gg_compute_in_sequence(const gg_computation *t, compute_mix mix, void *state,
                                 const compute_target *to, gg_error *err)
{
    sequence q = { .t = t, .mix = mix, .state = state, .to = to };
    gg_status st = allocate(&q, err);
    if (st == GG_OK)
        st = gg_weights_open(&q.weights, t->imatrix, to->t, t->stack_first, t->stack_size, err);
    for (size_t k = 0; k < t->n_in && st == GG_OK; k++)
        st = gg_feed_open(&q.in[k], &t->in[k], true, err);
    for (uint64_t first = 0; first < to->t->elements && st == GG_OK;) {
        size_t used;
        st = read_steps(&q, first, &used, err);
        if (st == GG_OK) st = gg_parallel(used, q.threads, compute, &q, err);
        if (st == GG_OK) st = write_steps(&q, used, err);
        first += (uint64_t)q.n_slots * COMPUTE_STEP;
    }
    for (size_t k = 0; k < t->n_in && st == GG_OK; k++) {
        q.in[k].bad = q.bad[k];
        if (q.bad[k]) st = gg_feed_fail_bad(&q.in[k], err);
    }
    if (st == GG_OK && q.lost) st = gg_compute_fail_lost(to->t, q.lost, err);
    release(&q);
    return st;
}

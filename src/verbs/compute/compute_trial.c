/* compute_trial.c - encodes samples of a tensor in several dtypes, to compare the errors. */
#include "compute_core.h"

#include "base/error.h"
#include "verbs/shared/verb_run.h"

#include <stdlib.h>

typedef struct trial {
    const gg_trial *of;
    gg_computation source; /* only its input */
    feed in;
    gg_weights weights;
    float *room, *back;
    uint8_t *out;
    gg_encode_error *errors;
} trial;

/* Steps to take of `all`: so many that they have about `most` values. */
static uint64_t steps_taken(uint64_t all, uint64_t most)
{
    uint64_t n = most / COMPUTE_STEP ? most / COMPUTE_STEP : 1;
    return most == 0 || n > all ? all : n;
}

static gg_status try_step(trial *t, uint64_t first, size_t n, gg_error *err)
{
    const float *weights = gg_weights_of(&t->weights, first, n, t->room);
    gg_status st = gg_feed_next(&t->in, n, err);
    if (st == GG_OK && t->in.bad) return gg_feed_fail_bad(&t->in, err);
    for (size_t k = 0; k < t->of->n && st == GG_OK; k++) {
        uint32_t dtype = t->of->dtypes[k];
        st = gg_encode(dtype, t->in.x, t->out, n, n, weights, err);
        const gg_encoded made = { dtype, t->in.x, t->out, n, weights, t->back };
        if (st == GG_OK) st = gg_encode_error_add(&t->errors[k], &made, err);
        if (st == GG_OK) st = gg_cancelled(err);
    }
    return st;
}

static gg_status open_trial(trial *t, gg_error *err)
{
    gg_tensor weighed = *t->of->t;
    weighed.dtype = GG_Q8_0; /* any that takes weights */
    gg_status st = gg_compute_input(&t->source, t->of->in, err);
    gg_feed_open(&t->in, &t->source.in[0], false);
    if (st == GG_OK) st = gg_weights_open(&t->weights, t->of->imatrix, &weighed, 0, 0, err);
    if (st != GG_OK) return st;
    t->room = malloc(COMPUTE_STEP * sizeof *t->room);
    t->back = malloc(COMPUTE_STEP * sizeof *t->back);
    t->out = malloc(COMPUTE_STEP * 8);
    if (t->room && t->back && t->out) return GG_OK;
    return gg_fail(err, GG_ENOMEM, "no memory for the values of a tensor");
}

gg_status gg_compute_trial(const gg_trial *of, gg_encode_error *out, gg_error *err)
{
    trial t = { .of = of, .errors = out };
    const gg_dtype_info *info = gg_dtype_get(of->in->dtype);
    uint64_t elements = of->t->elements, at = 0;
    uint64_t all = (elements + COMPUTE_STEP - 1) / COMPUTE_STEP;
    uint64_t taken = steps_taken(all, of->most);
    for (size_t k = 0; k < of->n; k++) out[k] = (gg_encode_error){ 0 };
    gg_status st = open_trial(&t, err);
    for (uint64_t i = 0; i < taken && st == GG_OK; i++) {
        /* all * i / taken, without overflow */
        uint64_t step = all / taken * i + all % taken * i / taken;
        uint64_t first = step * COMPUTE_STEP, left = elements - first;
        size_t n = left < COMPUTE_STEP ? (size_t)left : COMPUTE_STEP;
        st = gg_feed_skip(&t.in, (first - at) / info->block_elems * info->block_bytes, err);
        if (st == GG_OK) st = try_step(&t, first, n, err);
        at = first + n;
    }
    gg_feed_close(&t.in);
    gg_weights_close(&t.weights);
    free(t.source.in[0].parts);
    free(t.room);
    free(t.back);
    free(t.out);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, of->t->name, of->t->name_len);
}

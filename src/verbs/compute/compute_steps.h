/* compute_steps.h - the loop over the values of a tensor that is computed: steps are computed by
 * several threads, encoded, and written in order. Internal to compute_*.c and to organ-merge.
 */
#ifndef GG_COMPUTE_STEPS_H
#define GG_COMPUTE_STEPS_H

#include "base/sha256.h"
#include "compute_weights.h"
#include "encode_error.h"
#include "organ/gg_verbs.h"
#include "verbs/plan/plan.h"

/* A step has so many values, or a multiple of it. It is a multiple of every block size, so a step
 * ends at a block boundary in all dtypes. Rows consist of whole blocks, so a tensor can be cut
 * there whatever its rows. */
#define COMPUTE_STEP ((size_t)16384)

/* One step: n values from value `first` on. Steps in flight at the same time have different slots,
 * and those of different threads different workers. */
typedef struct gg_step {
    uint64_t first;
    size_t n, slot;
    unsigned worker;
} gg_step;

#define STEPS_UNHASHED 3

/* Fill in the members up to `error`, then gg_steps_open, any number of gg_steps_run, and
 * gg_steps_close, also after an error. */
typedef struct gg_steps {
    gg_target to;     /* if fd is -1, values are only computed: not checked, encoded or written */
    size_t size;      /* values per step: whole blocks of to.t's dtype */
    unsigned threads; /* most threads; gg_steps_open may lower it */
    void *ctx;
    /* Reads what a step needs. Called by one thread, in the order of the steps. May be NULL. */
    gg_status (*read)(void *ctx, const gg_step *s, gg_error *err);
    /* Computes the values of a step: *x, which stays valid until the worker's next step. NULL: this
     * step and all after it cannot be written. Called by any thread, in any order. */
    gg_status (*make)(void *ctx, const gg_step *s, float **x, gg_error *err);
    /* Called by one thread, in the order of the steps, when a step was made. May be NULL. */
    void (*after)(void *ctx, const gg_step *s);
    /* Sets pieces to what was read and is not hashed yet, and returns their number: at most
     * STEPS_UNHASHED. They are hashed together with the output of a step. May be NULL. */
    size_t (*unhashed)(void *ctx, gg_sha256_piece *pieces);
    gg_encode_error *error; /* what is written is compared with its values; NULL = it is not */

    size_t n_slots; /* set by gg_steps_open */
    struct gg_slot *slots;
    gg_weights weights;
    float *room; /* per worker: the weights of COMPUTE_STEP values, and the values decoded again */
    bool write, stopped;
    uint64_t lost; /* values that the dtype cannot represent */
} gg_steps;

/* The weights of the encoder are those of a part of a stack, or of a whole tensor: see
 * gg_weights_open. */
gg_status gg_steps_open(gg_steps *s, const gg_imatrix *imatrix, uint64_t stack_first,
                        uint64_t stack_size, gg_error *err);
void gg_steps_close(gg_steps *s);

/* Computes the values from `first` to `end` with at most `threads` threads. With `write`, they are
 * encoded and written, unless to.fd is -1. After the first value that the dtype cannot represent
 * they are only counted: GG_OK with s->lost above 0, see gg_steps_fail_lost. */
gg_status gg_steps_run(gg_steps *s, uint64_t first, uint64_t end, unsigned threads, bool write,
                       gg_error *err);

/* GG_OK, or the error for s->lost values that the dtype cannot represent. */
gg_status gg_steps_fail_lost(const gg_steps *s, gg_error *err);

#endif

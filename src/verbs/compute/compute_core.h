/* compute_core.h - shared by all computations: the loop over the values of a tensor, whose steps
 * are computed by several threads, encoded, and written in order; the weights that encoders take
 * from an importance matrix; contexts, and inputs that are read as values. Internal to compute_*.c
 * and to verbs that compute values of their own.
 */
#ifndef GG_COMPUTE_CORE_H
#define GG_COMPUTE_CORE_H

#include "base/sha256.h"
#include "compute.h"
#include "organ/gg_verbs.h"
#include "organ/imatrix.h"
#include "verbs/plan/plan.h"

/* ---- weights of the encoders (compute_steps.c) ---------------------------------------- */

/* The weights of one tensor. All zero: it is encoded without weights. */
typedef struct gg_weights {
    gg_importance of;
    uint64_t first; /* index in of.mean2 of the tensor's first column */
    uint64_t rows;  /* per matrix */
} gg_weights;

/* The weights of tensor t, or none if imatrix is NULL or lacks it, or if t's dtype uses none. t may
 * be a part of a stack of stack_size matrices that starts at matrix stack_first; stack_size is 0
 * for a whole tensor. Ends with gg_weights_close. Errors as gg_imatrix_read. */
gg_status gg_weights_open(gg_weights *w, const gg_imatrix *imatrix, const gg_tensor *t,
                          uint64_t stack_first, uint64_t stack_size, gg_error *err);
void gg_weights_close(gg_weights *w);

/* The weights of n values from value `first` on, one per value, which gg_encode takes as those of
 * a row. They are stored in room, which has space for n; NULL if there are none. */
const float *gg_weights_of(const gg_weights *w, uint64_t first, size_t n, float *room);

/* ---- steps (compute_steps.c) ------------------------------------------------------------ */

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

/* ---- contexts and inputs (compute_core.c) -------------------------------------------------- */

#define COMPUTE_INPUTS STEPS_UNHASHED

typedef struct operand {
    uint32_t dtype;
    gg_plan_part *parts; /* owned */
    size_t n_parts;
} operand;

/* First member of every context. */
struct gg_computation {
    gg_computation *next;
    operand in[COMPUTE_INPUTS];
    size_t n_in;
    bool in_order;             /* its mix must be called with the steps in order */
    const gg_imatrix *imatrix; /* the list's */
    gg_encode_error *error;    /* what was encoded, compared with its values; owned, or NULL */
    /* If the output is part of a stack: the number of its first matrix, and of all of them. */
    uint64_t stack_first, stack_size;
    /* Adapt the context to encode in out->dtype; NULL if it needs no change. */
    gg_status (*retype)(gg_computation *t, gg_producer *p, const gg_tensor *out, gg_error *err);
};

/* A zeroed context of `size` bytes, owned by the list; NULL if out of memory. */
void *gg_compute_new(gg_computations *list, size_t size, gg_error *err);
gg_status gg_compute_input(gg_computation *t, const gg_input *in, gg_error *err);

/* Check that the size of `in` matches out's dims, and that its dtype can be decoded. Errors of
 * both name out. */
gg_status gg_compute_check_input(const gg_tensor *out, const gg_input *in, gg_error *err);
gg_status gg_compute_check_decode(const gg_tensor *out, const gg_input *in, gg_error *err);
/* Check that out's dtype can be encoded, with weights of imatrix (may be NULL) if it needs them.
 * Errors name out. */
gg_status gg_compute_check_output(const gg_tensor *out, const gg_imatrix *imatrix, gg_error *err);

/* Make producer p, which is one of this folder, write `out`, whose dtype has changed. */
gg_status gg_producer_retype(gg_producer *p, const gg_tensor *out, gg_error *err);

/* An operand that is read in order. */
typedef struct feed {
    const operand *op;
    size_t part; /* the current part */
    uint64_t at; /* bytes read of it */
    gg_data data;
    bool verify, open, hashed;
    gg_sha256 hash;
    gg_sha256_piece unhashed; /* bytes read last, which the hash lacks; n = 0: none */
    bool ended;               /* the part before the current one is not yet compared */
    uint8_t *raw;
    float *x;     /* the step's values */
    uint64_t bad; /* number of values so far that are not finite */
} feed;

/* With `verify`, the hashes that the parts have are compared. */
void gg_feed_open(feed *f, const operand *op, bool verify);
gg_status gg_feed_next(feed *f, size_t elems, gg_error *err); /* at most COMPUTE_STEP */
gg_status gg_feed_skip(feed *f, uint64_t n, gg_error *err);   /* n bytes; only without `verify` */
void gg_feed_close(feed *f);
gg_status gg_feed_fail_bad(const feed *f, gg_error *err); /* the error for bad > 0 */

/* Compute n values from element `first` on: from x[0] (and x[1], x[2]) into x[0]. */
typedef gg_status (*compute_mix)(void *state, uint64_t first, size_t n, float *const *x,
                                 gg_error *err);

/* The number of values that are not finite. */
uint64_t gg_count_bad(const float *x, size_t n);

/* Compute a whole tensor: read the operands, mix (NULL: use x[0]), encode, write. If to->at is
 * GG_AT_POS and `mix` can be called with the steps in any order, to->run->threads threads work on
 * it. */
gg_status gg_compute_all(const gg_computation *t, compute_mix mix, void *state, const gg_target *to,
                         gg_error *err);

#endif

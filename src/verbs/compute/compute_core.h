/* compute_core.h - shared by all computations: contexts, inputs read as values, and the loop
 * over a tensor. Internal to compute_*.c.
 */
#ifndef GG_COMPUTE_CORE_H
#define GG_COMPUTE_CORE_H

#include "base/sha256.h"
#include "compute.h"
#include "compute_steps.h"

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

/* compute_core.h - what every transform shares: contexts, inputs read as values,
 * the loop over a tensor. Internal to compute_*.c.
 */
#ifndef GG_COMPUTE_CORE_H
#define GG_COMPUTE_CORE_H

#include "base/sha256.h"
#include "compute.h"

/* Values a step: a multiple of every block, so that a step ends where blocks end in
 * all dtypes at once. Blocks never cross rows and rows are whole blocks of each, so
 * a tensor can be cut there whatever its rows. */
#define COMPUTE_STEP ((size_t)65536)
#define COMPUTE_INPUTS 3

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
    bool in_order; /* its mix must see the steps one after another */
    /* Make it encode in out->dtype, if more is needed than to be called with another tensor;
     * NULL = nothing is. */
    gg_status (*retype)(gg_computation *t, gg_producer *p, const gg_tensor *out, gg_error *err);
};

/* A context of `size` bytes, zeroed, owned by the list; NULL when there is no memory. */
void *gg_compute_new(gg_computations *list, size_t size, gg_error *err);
gg_status gg_compute_input(gg_computation *t, const gg_input *in, gg_error *err);

/* Does `in` hold out's dims in its dtype; can that be decoded? Both name out. */
gg_status gg_compute_check_input(const gg_tensor *out, const gg_input *in, gg_error *err);
gg_status gg_compute_check_decode(const gg_tensor *out, const gg_input *in, gg_error *err);
/* Can out's dtype be encoded? Names out. */
gg_status gg_compute_check_output(const gg_tensor *out, gg_error *err);

/* Let producer p, of this room, make `out`, whose dtype has changed. */
gg_status gg_producer_retype(gg_producer *p, const gg_tensor *out, gg_error *err);

/* An operand read front to back. */
typedef struct feed {
    const operand *op;
    size_t part; /* the one being read */
    uint64_t at; /* bytes of it that were read */
    gg_data data;
    bool open, hashed;
    gg_sha256 hash;
    uint8_t *raw;
    float *x;     /* the step's values */
    uint64_t bad; /* values so far that are not finite */
} feed;

gg_status gg_feed_open(feed *f, const operand *op, gg_error *err);
gg_status gg_feed_next(feed *f, size_t elems, gg_error *err);         /* at most COMPUTE_STEP */
gg_status gg_feed_raw(feed *f, uint8_t *to, size_t n, gg_error *err); /* n bytes, not decoded */
void gg_feed_close(feed *f);
gg_status gg_feed_fail_bad(const feed *f, gg_error *err); /* the error for bad > 0 */

/* Compute n values from element `first` on: from x[0] (and x[1], x[2]) into x[0]. */
typedef gg_status (*compute_mix)(void *state, uint64_t first, size_t n, float *const *x,
                                 gg_error *err);

typedef struct compute_target {
    const gg_tensor *t;
    int fd; /* -1: the values are only looked at */
    uint64_t at;
    const gg_run *run;
} compute_target;

/* Values that are not finite; those that would become infinite in dtype. */
uint64_t gg_count_bad(const float *x, size_t n);
uint64_t gg_count_beyond(uint32_t dtype, const float *x, size_t n);

/* The error for `lost` values that t's dtype cannot hold. */
gg_status gg_compute_fail_lost(const gg_tensor *t, uint64_t lost, gg_error *err);

/* gg_compute_all where to->at is GG_AT_POS and `mix` takes the steps in any order: with
 * to->run->threads threads. */
gg_status gg_compute_in_sequence(const gg_computation *t, compute_mix mix, void *state,
                                 const compute_target *to, gg_error *err);

/* All of a tensor: read the operands, mix (NULL: x[0] as it is), encode, write. */
gg_status gg_compute_all(const gg_computation *t, compute_mix mix, void *state,
                         const compute_target *to, gg_error *err);

#endif

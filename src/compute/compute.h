/* compute.h - tensors that are computed while a model is written: re-encoded, or with the values
 * that a tool computes. Internal.
 *
 * gg_compute_* check everything that can be known from names, dims and dtypes. They return a
 * producer, which is a gg_plan_make with its context, for gg_plan_tensor or for a .bin file.
 * The producer reads its inputs in order in pieces of a few 100 KiB, so its memory does not
 * depend on the tensor. Its result does not depend on the instruction set or the number of
 * threads. It fails with the tensor's name and the count if values to encode are not finite
 * (GG_EFORMAT), or too large for F16 or BF16 (GG_EUSAGE).
 *
 * Contexts belong to the gg_computations list and live until it is freed. Sources must be
 * seekable and outlive the list. The list is not thread safe; its producers are.
 */
#pragma once

#include "base/sha256.h"
#include "organ/gg_quant.h"
#include "organ/gg_verbs.h"
#include "organ/imatrix.h"
#include "write/plan.h"

#include <stdatomic.h>

/* ---- errors of encodings: how far encoded values are from the values that were encoded ----- */

typedef struct gg_encode_error {
    uint64_t n;                        /* values compared */
    double error, signal;              /* sums of (y - x)^2 and x^2 */
    double weighed_error, weighed_sum; /* the same, times the importance of the column */
    bool weighed;                      /* whether there was an importance matrix */
} gg_encode_error;

/* n values x, and their encodings. */
typedef struct gg_encoded {
    uint32_t dtype;
    const float *x;
    const void *blocks;
    size_t n;
    const float *weights; /* one per value, or NULL */
    float *room;          /* for n values */
} gg_encoded;

/* Adds the sums of a part. */
void gg_add_errors(gg_encode_error *e, const gg_encode_error *part);

/* Root mean square error; 0 if no values were compared. */
double gg_encode_rmse(const gg_encode_error *e);

/* |y - x|^2 / |x|^2, or the same weighed by importance; 0 if x is 0. */
double gg_encode_relative2(const gg_encode_error *e, bool weighed);

/* ---- computations ------------------------------------------------------------------------ */

typedef struct gg_computation gg_computation;

typedef struct gg_computations {
    gg_computation *first;
    /* Weights for the encoders, or NULL; not owned. Set it before the first producer is made. */
    const gg_imatrix *imatrix;
    /* Compare encoded values with their source; see gg_compute_error. Set it before the first
     * producer is made. */
    bool compare;
} gg_computations; /* zero-initialised: empty */

void gg_computations_free(gg_computations *list);

typedef struct gg_producer {
    gg_plan_make make;
    void *ctx;
} gg_producer;

/* The data of a tensor: consecutive parts in one dtype. One part for a tensor or a piece of
 * one ({ source, index, offset within it, bytes, NULL }); several for a stack made of
 * experts. If a part has a sha256, it is compared with the bytes. Copied, except for the
 * sha256 text. */
typedef struct gg_input {
    uint32_t dtype;
    const gg_plan_part *parts;
    size_t n_parts;
} gg_input;

/* Convert `in`, which has out's dims, to out's dtype. If the dtypes are equal, the bytes are
 * copied unchanged. GG_EUNSUPPORTED if a codec is missing; GG_EUSAGE if it needs an importance
 * matrix that list->imatrix does not have, or if rows are not whole blocks of out's dtype;
 * GG_EFORMAT if the size of `in` does not match its dtype and out's dims, or the importance matrix
 * does not match out's dims. Errors name out. */
gg_status gg_compute_convert(gg_computations *list, const gg_tensor *out, const gg_input *in,
                             gg_producer *p, gg_error *err);

/* Write a tensor of a plan, which has parts or a producer of this list, in another dtype.
 * Without `verify` the sha256 of its parts is ignored. Errors as above. */
gg_status gg_compute_retype(gg_plan_tensor *pt, uint32_t dtype, bool verify, gg_computations *list,
                            gg_error *err);

/* The error of a tensor that a producer of a list with `compare` has written: over all values that
 * were encoded, not those copied. It does not depend on the number of threads or on the way the
 * tensor was written. */
gg_encode_error gg_compute_error(const gg_producer *p);

/* Encode values of `in`, which has the dims of t, in n dtypes, and compare them. About `most`
 * values are taken, in runs of 16384 that are evenly spread over the tensor; 0 takes all. imatrix
 * may be NULL; it must be possible to encode every dtype with it. out has n entries. Errors:
 * GG_EFORMAT, naming the tensor, if a value is not finite; GG_EIO; GG_ENOMEM. */
typedef struct gg_trial {
    const gg_tensor *t;
    const gg_input *in;
    const gg_imatrix *imatrix;
    const uint32_t *dtypes;
    size_t n;
    uint64_t most;
} gg_trial;
gg_status gg_compute_trial(const gg_trial *trial, gg_encode_error *out, gg_error *err);

/* ---- ramps ---------------------------------------------------------------------- */

/* The value for a tensor in a model of `blocks` blocks, interpolated linearly from that of the
 * first block to that of the last. Outside the blocks, tensors whose names begin with "output" or
 * "cls" take the last, and all others (token_embd, ...) the first. */
double gg_ramp_at(double first, double last, const gg_tensor *t, uint64_t blocks);

/* Reads n bytes as a decimal number with optional sign, point and exponent. Returns false for
 * anything else, such as hex, "inf" and blanks. */
bool gg_parse_decimal(const char *s, size_t n, double *value);

/* ---- for verbs that compute values of their own ------------------------------------------------
 *
 * The loop over the values of a tensor, whose steps are computed and encoded by several threads,
 * and written in order to a stream or into a hash, otherwise by the thread that made them; the
 * weights that encoders take from an importance matrix; contexts, and inputs that are read as
 * values. */

/* Bytes of n values, which are whole blocks. */
static inline uint64_t gg_encoded_bytes(uint32_t dtype, uint64_t n)
{
    const gg_dtype_info *info = gg_dtype_get(dtype);
    return n / info->block_elems * info->block_bytes;
}

/* Reads n values of a tensor, which are whole blocks, from value `first` on. */
gg_status gg_read_values(gg_source *s, size_t index, uint64_t first, size_t n, float *out,
                         gg_error *err);

/* ---- weights of the encoders ---------------------------------------- */

/* The weights of one tensor. All zero: it is encoded without weights. */
typedef struct gg_weights {
    gg_importance of;
    uint64_t first; /* index in of.mean2 of the tensor's first column */
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

/* ---- steps ------------------------------------------------------------ */

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
    bool stopped; /* an earlier step could not be written, nor can this one */
} gg_step;

/* Fill in the members up to `error`, then gg_steps_open, any number of gg_steps_run, and
 * gg_steps_close, also after an error. */
typedef struct gg_steps {
    gg_target to;     /* if fd is -1, values are only computed: not checked, encoded or written */
    size_t size;      /* values per step: whole blocks of to.t's dtype */
    unsigned threads; /* most threads; gg_steps_open may lower it */
    void *ctx;
    /* Reads what a step needs. Called by one thread at a time, in the order of the steps, while
     * others make earlier steps. May be NULL. */
    gg_status (*read)(void *ctx, const gg_step *s, gg_error *err);
    /* Computes the values of a step: *x, which stays valid until the worker's next step. NULL: this
     * step and all after it cannot be written. Called by any thread, in any order. */
    gg_status (*make)(void *ctx, const gg_step *s, float **x, gg_error *err);
    /* Called by one thread at a time, in the order of the steps, when a step was made. May be NULL.
     */
    void (*after)(void *ctx, const gg_step *s);
    gg_encode_error *error; /* what is written is compared with its values; NULL = it is not */
    bool
        back; /* the values become those that a reader will get; if one is not finite, it is lost */

    size_t n_slots; /* set by gg_steps_open */
    struct gg_slot *slots;
    gg_weights weights;
    float *room; /* per worker: the weights of COMPUTE_STEP values, and the values decoded again */
    uint64_t begin, end, lost; /* of a run; lost: values that the dtype cannot represent */
    bool write;
    atomic_bool stopped, counts; /* counts: values were lost, so that no more are encoded */
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

/* ---- contexts and inputs -------------------------------------------------- */

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

/* Lets a producer write in out's dtype. */
gg_status gg_retype_producer(gg_producer *p, const gg_tensor *out, gg_error *err);

/* Check that the size of `in` matches out's dims, and that its dtype can be decoded. Errors of
 * both name out. */
gg_status gg_compute_check_input(const gg_tensor *out, const gg_input *in, gg_error *err);
gg_status gg_compute_check_decode(const gg_tensor *out, const gg_input *in, gg_error *err);
/* Check that out's dtype can be encoded, with weights of imatrix (may be NULL) if it needs them.
 * Errors name out. */
gg_status gg_compute_check_output(const gg_tensor *out, const gg_imatrix *imatrix, gg_error *err);

/* An operand that is read in order. */
typedef struct feed {
    const operand *op;
    size_t part; /* the current part */
    uint64_t at; /* bytes read of it */
    gg_data data;
    bool verify, open, hashed;
    gg_sha256 hash;
    uint8_t *raw;
    float *x;     /* the step's values */
    uint64_t bad; /* number of values so far that are not finite */
} feed;

/* With `verify`, the hashes that the parts have are compared. */
void gg_feed_open(feed *f, const operand *op, bool verify);
gg_status gg_feed_next(feed *f, size_t elems, gg_error *err); /* at most COMPUTE_STEP */
/* Reads the next n bytes, or skips them if `to` is NULL (only without `verify`). */
gg_status gg_feed_raw(feed *f, uint8_t *to, uint64_t n, gg_error *err);
void gg_feed_close(feed *f);
/* How many of n values of a type cannot be computed with: those that are not finite in float32, and
 * integers that float32 rounds. `x` are the stored values after gg_decode. The error for them. */
uint64_t gg_count_unusable(uint32_t dtype, const void *stored, const float *x, size_t n);
gg_status gg_fail_unusable(gg_error *err, uint32_t dtype, uint64_t count);

/* GG_EFORMAT, with the tensor and the file, if a value is NaN or infinite. Compares the hash that
 * an organ directory has. Types that cannot be decoded pass. */
gg_status gg_require_finite(gg_source *s, size_t index, gg_error *err);

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

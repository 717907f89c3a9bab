/* compute.h - tensors that are computed while a model is written: re-encoded, blended with a
 * donor's, or with a LoRA adapter applied. Internal.
 *
 * gg_compute_* check everything that can be known from names, dims and dtypes. They return a
 * producer, which is a gg_plan_make with its context, for gg_plan_tensor or for a .bin file.
 * The producer reads its inputs in order in pieces of a few 100 KiB, so its memory does not
 * depend on the tensor. Its result does not depend on the instruction set or the number of
 * threads. It fails with GG_EFORMAT, the tensor's name and the count if values to encode are
 * not finite or too large for F16 or BF16.
 *
 * Contexts belong to the gg_computations list and live until it is freed. Sources must be
 * seekable and outlive the list. The list is not thread safe; its producers are.
 */
#ifndef GG_COMPUTE_H
#define GG_COMPUTE_H

#include "organ/gg_quant.h"
#include "organ/gg_transplant.h"
#include "organ/imatrix.h"
#include "verbs/plan/plan.h"

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
gg_status gg_encode_error_add(gg_encode_error *e, const gg_encoded *v, gg_error *err);

void gg_encode_error_merge(gg_encode_error *e, const gg_encode_error *part);

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
 * copied unchanged. GG_EUNSUPPORTED if a codec is missing, or needs an importance matrix that
 * list->imatrix does not have; GG_EFORMAT if rows are not whole blocks of out's dtype, the size of
 * `in` does not match its dtype and out's dims, or the importance matrix does not match out's dims.
 * Errors name out. */
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

/* A part of a tensor along its last dimension with its own producer, for stacks of which some
 * experts are converted and others copied. */
typedef struct gg_joint {
    gg_tensor t; /* of the part; its name must live as long as the list */
    gg_producer p;
} gg_joint;

/* The tensors that contain the parts. A part has no sha256 of its own, so these tensors are
 * first read and compared with their sha256, if a manifest states one. source may be NULL. */
typedef struct gg_whole {
    gg_source *source;
    size_t index;
} gg_whole;

gg_status gg_compute_join(gg_computations *list, const gg_joint *joints, size_t n,
                          const gg_whole of[3], gg_producer *p, gg_error *err);

/* ---- blends ---------------------------------------------------------------------- */

/* T of a tensor in a model of `blocks` blocks, interpolated linearly from the first block to
 * the last. Outside the blocks, tensors whose names begin with "output" or "cls" take the T
 * of the last block, and all others (token_embd, ...) that of the first. */
double gg_blend_t(const gg_blend *b, const char *name, size_t name_len, uint64_t blocks);

/* Reads n bytes as a decimal number with optional sign, point and exponent. Returns false for
 * anything else, such as hex, "inf" and blanks. */
bool gg_parse_decimal(const char *s, size_t n, double *value);

/* A blend of the tensors A and B, and of C in a task blend. */
typedef struct gg_mixture {
    gg_blend_mode mode;
    double t;
    gg_input in[3]; /* A, B, C; without parts if unused */
} gg_mixture;

/* Blend the inputs of the mixture, which have out's dims and any dtypes that can be decoded.
 * Computed in double and written in out's dtype. T = 0 gives A, and T = 1 of linear and slerp
 * gives B, as by gg_compute_convert: byte for byte if the dtype is the same. Errors as there;
 * GG_EUSAGE for task without C. */
gg_status gg_compute_blend(gg_computations *list, const gg_tensor *out, const gg_mixture *m,
                           gg_producer *p, gg_error *err);

/* ---- LoRA ------------------------------------------------------------------------ */

typedef struct gg_lora {
    gg_source *adapter; /* the caller's */
    float strength, alpha;
    size_t pairs;   /* number of base tensors that it changes */
    size_t ignored; /* number of *_norm.weight tensors, which llama.cpp ignores too */
} gg_lora;

/* Check an adapter: it must be a LoRA of the base's architecture, and each of its tensors half
 * of a pair X.lora_a, X.lora_b with X in the base and matching shapes:
 *     X [in, out (, experts)]   lora_a [in, r (, experts)]   lora_b [r, out (, experts)]
 *     token_embd.weight [in, vocabulary]   lora_a [r, vocabulary]   lora_b [r, in]
 * X may be a stack that the base has as single experts; those it still has are changed.
 * GG_EFORMAT names a tensor whose shape does not match or whose target is missing;
 * GG_EUNSUPPORTED for an aLoRA, which affects only part of a text, so that it cannot be
 * merged into the weights. */
gg_status gg_lora_open(gg_source *adapter, const gg_source *base, double strength, gg_lora *out,
                       gg_error *err);

/* W + scale B A in out's dtype, where scale = strength alpha / r, or strength when alpha
 * is 0; as llama.cpp applies it (W[o][i] += scale sum_k B[o][k] A[k][i]; for token_embd
 * A[o][k] B[i][k]), in float32. `out` has the base tensor's name and dims. p->make is
 * NULL, with GG_OK, if the adapter has no pair for it. Memory: A of one expert, 4 in r bytes
 * per thread; GG_EUNSUPPORTED above 256 MiB. */
gg_status gg_compute_lora(gg_computations *list, const gg_lora *lora, const gg_tensor *out,
                          const gg_input *w, gg_producer *p, gg_error *err);

#endif

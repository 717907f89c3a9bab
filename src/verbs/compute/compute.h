/* compute.h - tensors that are computed on the way: re-encoded, blended with a
 * donor's, or with a LoRA adapter folded in. Internal.
 *
 * gg_compute_* check everything that can be known from names, dims and dtypes, and
 * give a producer: a gg_plan_make and its context, for gg_plan_tensor or for a .bin
 * file. The producer reads its inputs front to back in pieces of a few 100 KiB, so
 * its memory does not depend on the tensor. The same bytes come out on every machine
 * level and for any -j. It refuses with GG_EFORMAT, the tensor's name and the count,
 * when a value that it must encode is not finite or beyond what F16 or BF16 can hold.
 *
 * Contexts belong to the gg_computations list and live until it is freed; sources must
 * outlive the list and be seekable. The list is not thread safe; its producers are.
 */
#ifndef GG_COMPUTE_H
#define GG_COMPUTE_H

#include "organ/gg_transplant.h"
#include "verbs/plan/plan.h"

typedef struct gg_computation gg_computation;

typedef struct gg_computations {
    gg_computation *first;
} gg_computations; /* zero-initialised: empty */

void gg_computations_free(gg_computations *list);

typedef struct gg_producer {
    gg_plan_make make;
    void *ctx;
} gg_producer;

/* The data of a tensor: parts end to end, in one dtype. One part for a tensor or a
 * piece of one ({ source, index, offset within it, bytes, NULL }); several for a stack
 * put together. A part's sha256, where given, is held against the bytes. Copied,
 * except for the sha256 text. */
typedef struct gg_input {
    uint32_t dtype;
    const gg_plan_part *parts;
    size_t n_parts;
} gg_input;

/* `in`, with out's dims, in out's dtype. Equal dtypes: the bytes as they are, whatever
 * they hold. GG_EUNSUPPORTED when a codec is missing (or needs an importance matrix),
 * GG_EFORMAT when rows do not fit out's dtype or in has not the bytes that its dtype
 * and out's dims make. Errors name out. */
gg_status gg_compute_convert(gg_computations *list, const gg_tensor *out, const gg_input *in,
                             gg_producer *p, gg_error *err);

/* Let a tensor of a plan, with parts or a producer of this list, be written in another
 * dtype. Without `verify` the sha256 of parts is forgotten. Errors as above. */
gg_status gg_compute_retype(gg_plan_tensor *pt, uint32_t dtype, bool verify, gg_computations *list,
                            gg_error *err);

/* A part of a tensor along its last dimension, made by a producer of its own: some experts of
 * a stack are converted, others are copied. */
typedef struct gg_joint {
    gg_tensor t; /* of the part; its name must live as long as the list */
    gg_producer p;
} gg_joint;

/* The tensors that the parts are of. A part cannot be compared with the sha256 of its tensor,
 * so these are read and compared with theirs first, where a manifest states one. source may be
 * NULL. */
typedef struct gg_whole {
    gg_source *source;
    size_t index;
} gg_whole;

gg_status gg_compute_join(gg_computations *list, const gg_joint *joints, size_t n,
                          const gg_whole of[3], gg_producer *p, gg_error *err);

/* ---- blends ---------------------------------------------------------------------- */

/* T of a tensor in a model of `blocks` blocks: on the straight line from the first block
 * to the last. Tensors outside the blocks take the end they stand at: names from
 * "output" or "cls" on the last block's T, all others (token_embd, ...) the first's. */
double gg_blend_t(const gg_blend *b, const char *name, size_t name_len, uint64_t blocks);

/* What becomes of the tensors A and B, and of C in a task blend. */
typedef struct gg_mixture {
    gg_blend_mode mode;
    double t;
    gg_input in[3]; /* A, B, C; without parts where there is none */
} gg_mixture;

/* The mixture's inputs, all with out's dims and in any dtypes that decode, computed in double
 * and written in out's dtype. T = 0 gives A and T = 1 of linear and slerp B, converted as
 * gg_compute_convert does: to the byte where the dtype is the same. Errors as there; GG_EUSAGE
 * for task without C. */
gg_status gg_compute_blend(gg_computations *list, const gg_tensor *out, const gg_mixture *m,
                           gg_producer *p, gg_error *err);

/* ---- LoRA ------------------------------------------------------------------------ */

typedef struct gg_lora {
    gg_source *adapter; /* the caller's */
    float strength, alpha;
    size_t pairs;   /* tensors of the base that it changes */
    size_t ignored; /* *_norm.weight tensors, which llama.cpp leaves out too */
} gg_lora;

/* Look an adapter over: it must be a LoRA of the base's architecture, each of its
 * tensors half of a pair X.lora_a, X.lora_b with X in the base, shapes fitting:
 *     X [in, out (, experts)]   lora_a [in, r (, experts)]   lora_b [r, out (, experts)]
 *     token_embd.weight [in, vocabulary]   lora_a [r, vocabulary]   lora_b [r, in]
 * X may be a stack that the base has taken apart: the experts that are left are changed.
 * GG_EFORMAT names the tensor that does not fit or finds no target; GG_EUNSUPPORTED for
 * an aLoRA, which acts on part of a text only and cannot be folded in. */
gg_status gg_lora_open(gg_source *adapter, const gg_source *base, double strength, gg_lora *out,
                       gg_error *err);

/* W + scale B A in out's dtype, where scale = strength alpha / r, or strength when alpha
 * is 0; as llama.cpp applies it (W[o][i] += scale sum_k B[o][k] A[k][i]; for token_embd
 * A[o][k] B[i][k]), in float32. `out` has the base tensor's name and dims. p->make is
 * NULL, with GG_OK, when the adapter has no pair for it. Memory: A of one expert,
 * 4 in r bytes a thread; GG_EUNSUPPORTED above 256 MiB. */
gg_status gg_compute_lora(gg_computations *list, const gg_lora *lora, const gg_tensor *out,
                          const gg_input *w, gg_producer *p, gg_error *err);

#endif

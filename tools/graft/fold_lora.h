/* fold_lora.h - folds a LoRA adapter into the tensors that it changes. */
#pragma once

#include "compute/compute.h"

typedef struct gg_lora {
    gg_source *adapter; /* the caller's */
    float strength, alpha;
    size_t pairs; /* number of base tensors that they change */
    size_t norms; /* number of *_norm.weight tensors, which replace those of the base */
} gg_lora;

/* Check an adapter: it must be a LoRA of the base's architecture, and each of its tensors half
 * of a pair X.lora_a, X.lora_b with X in the base and matching shapes:
 *     X [in, out (, experts)]   lora_a [in, r (, experts)]   lora_b [r, out (, experts)]
 *     token_embd.weight [in, vocabulary]   lora_a [r, vocabulary]   lora_b [r, in]
 * X may be a stack that the base has as single experts; those it still has are changed. A tensor
 * X_norm.weight was trained whole, and must have the dims of the base's.
 * GG_EFORMAT names a tensor whose shape does not match or whose target is missing;
 * GG_EUNSUPPORTED for an aLoRA, which affects only part of a text, so that it cannot be
 * merged into the weights. */
gg_status gg_lora_open(gg_source *adapter, const gg_source *base, double strength, gg_lora *out,
                       gg_error *err);

/* W + scale B A in out's dtype, where scale = strength alpha / r, or strength when alpha
 * is 0; as llama.cpp applies it (W[o][i] += scale sum_k B[o][k] A[k][i]; for token_embd
 * A[o][k] B[i][k]), in float32; or the adapter's own norm. `out` has the base tensor's name and
 * dims. p->make is NULL, with GG_OK, if the adapter does not change it. Memory: A of one expert, 4
 * in r bytes per thread; GG_EUNSUPPORTED above 256 MiB. */
gg_status gg_compute_lora(gg_computations *list, const gg_lora *lora, const gg_tensor *out,
                          const gg_input *w, gg_producer *p, gg_error *err);

/* compute_lora.h - one pair of a LoRA adapter. Internal to compute_*.c. */
#ifndef GG_COMPUTE_LORA_H
#define GG_COMPUTE_LORA_H

#include "compute.h"

/* A pair. For a single expert it is the expert's part of the stack's pair, number `at` of `of`;
 * `experts` is then 1.
 *
 * delta[o][i] = sum_k tall[o][k] wide[k][i], for each expert. `wide` is lora_a, stored as
 * r rows of `in` values; for token_embd it is lora_b, stored as `in` rows of r. */
typedef struct lora_pair {
    size_t wide, tall; /* tensors of the adapter */
    bool swapped;
    uint64_t r, in, out, experts;
    uint64_t at, of;
} lora_pair;

/* Find the pair for tensor w of the base. *found is false, with GG_OK, if the adapter does not
 * have both halves. GG_EFORMAT if they do not match. */
gg_status gg_lora_pair_of(const gg_source *adapter, const gg_tensor *w, lora_pair *pair,
                          bool *found, gg_error *err);

#endif

/* compute_lora.h - one pair of a LoRA adapter. Internal to compute_*.c. */
#ifndef GG_COMPUTE_LORA_H
#define GG_COMPUTE_LORA_H

#include "compute.h"

/* Where experts are taken apart, an expert's share of its stack's pair: `at` of `of`, and
 * experts is 1.
 *
 * delta[o][i] = sum_k tall[o][k] wide[k][i], an expert each. `wide` is lora_a, stored as
 * r rows of `in` values; for token_embd it is lora_b, stored as `in` rows of r. */
typedef struct lora_pair {
    size_t wide, tall; /* tensors of the adapter */
    bool swapped;
    uint64_t r, in, out, experts;
    uint64_t at, of;
} lora_pair;

/* The pair for tensor w of the base. *found false, with GG_OK: the adapter does not
 * have both halves. GG_EFORMAT when they do not fit. */
gg_status gg_lora_pair_of(const gg_source *adapter, const gg_tensor *w, lora_pair *pair,
                          bool *found, gg_error *err);

#endif

/* verb_mix.h - mixtures of experts of dense models. */
#pragma once

#include "assemble/gg_stack.h"

/* A mixture of experts: the base, in which the feed-forward layer of each block becomes a choice of
 * those of the experts. The records of architectures tell which mixtures engines know. */
typedef struct gg_expert_mix {
    gg_source *base;
    gg_source **experts; /* n of them; a model may occur several times, as copies */
    size_t n;
    /* One file per expert with the activations of the base on a text for which the expert is
     * meant. The row of the router is the mean input of the layer on this text, minus the mean over
     * all experts. NULL = random rows. */
    gg_source **router;
    uint64_t used; /* experts per token; 0 = 2, or all for qwen2moe, whose weights engines do not
                      scale to 1 */
    double noise;  /* values of a second or later copy are multiplied by 1 + noise * a normal
                      number, and encoded again */
    uint64_t seed; /* of random rows and of noise */
} gg_expert_mix;

/* Writes the mixture as one file; "-" is stdout, and NULL only checks. Data are copied byte for
 * byte, except for copies with noise. `report` gets the number of tensors and blocks. Errors:
 * GG_EUNSUPPORTED for other architectures and for tensors without a place in a mixture; GG_NO for
 * experts of another architecture, shape or type, and for files of activations that lack a block;
 * GG_EUSAGE for a wrong number of experts. */
gg_status gg_stack_mixture(const gg_expert_mix *m, const char *output, const gg_run *run,
                           gg_stack_report *report, gg_error *err);

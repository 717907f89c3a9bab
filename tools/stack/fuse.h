/* fuse.h - joins separate tensors of a model, or divides fused ones. */
#pragma once

#include "assemble/gg_stack.h"

/* Which tensors change their form. With qkv and gate_up both false, those are changed of which an
 * engine loads both forms. */
typedef struct gg_fuse_options {
    bool unfuse;  /* divide fused tensors; false: fuse separate ones */
    bool qkv;     /* attn_q, attn_k and attn_v; attn_qkv */
    bool gate_up; /* ffn_gate_exps and ffn_up_exps; ffn_gate_up_exps. ffn_gate and ffn_up; ffn_up */
} gg_fuse_options;

/* Writes the model with fused tensors in place of separate ones, or the reverse; "-" is stdout.
 * Rows are copied byte for byte. If the parts were not next to each other, the key
 * organ.tensor_order keeps the order of the tensors, so that the reverse gives the first file
 * again, byte for byte. Biases are joined too, scales must be equal. Errors: GG_NO, with
 * the tensor or the rule, if no tensor changes, if an engine would not load the fused form, if a
 * block has both forms, if parts have different types or shapes, and if no table of the
 * architecture is known. */
gg_status gg_stack_fuse(gg_source *model, const gg_fuse_options *o, const char *output,
                        const gg_run *run, gg_stack_report *report, gg_error *err);

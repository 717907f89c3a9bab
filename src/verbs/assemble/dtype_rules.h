/* dtype_rules.h - "blk.*.ffn_*=q4_k,output*=q6_k,*=f16": which tensors of a
 * plan are written in another dtype. Internal.
 *
 * GLOB=TYPE[,GLOB=TYPE]...; names are those of the model's tensors, as gg_extract_list gives
 * them (a stack of experts is one tensor); the first glob that matches decides; TYPE in
 * any case, or "keep". What a glob means to leave alone it leaves alone:
 *   - tensors of one dimension (norms, biases: llama.cpp wants them F32) and integers
 *     are re-encoded only by a glob without wildcards, which names them;
 *   - tensors that llama-quantize never touches (routers, convolutions, expert biases,
 *     position embeddings, ...: see dtype_rules.c) only by a glob that spells their role,
 *     such as blk.*.ffn_gate_inp.weight=f16.
 */
#ifndef GG_DTYPE_RULES_H
#define GG_DTYPE_RULES_H

#include "verbs/compute/compute.h"
#include "verbs/plan/plan.h"

typedef struct gg_dtype_rules gg_dtype_rules;

/* `fallback` (a type's name, or NULL) is for rows that do not fit the type asked for.
 * GG_EUSAGE for a mistake in the text; GG_EUNSUPPORTED for a type that no encoder here
 * makes, or that needs an importance matrix, by its name. */
gg_status gg_dtype_rules_parse(const char *text, const char *fallback, gg_dtype_rules **out,
                               gg_error *err);
void gg_dtype_rules_free(gg_dtype_rules *r);

/* Change the dtypes of p's tensors (with parts, not yet made) and let them be computed
 * by producers of `list`. *changed is how many. GG_EFORMAT names a tensor whose rows
 * fit neither the type nor the fallback, GG_EUNSUPPORTED one that cannot be decoded.
 * A glob that decided nothing is noted. */
gg_status gg_dtype_rules_apply(const gg_dtype_rules *r, gg_plan *p, gg_computations *list,
                               size_t *changed, const gg_run *run, gg_error *err);

/* The keys of the first file's metadata that follow (follow_types.h); imatrix keys go
 * when no quantized tensor is left as it was. */
gg_status gg_dtype_rules_keys(const gg_plan *p, gg_meta *meta, gg_error *err);

#endif

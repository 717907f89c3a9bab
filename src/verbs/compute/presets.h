/* presets.h - llama-quantize's mixtures of types by name: Q4_K_M, Q3_K_S, IQ4_XS, ...
 * Internal.
 *
 * A preset chooses the type of each tensor from its name, its place among the blocks, the
 * number of heads and experts of the model, and its row length. The choices are those of
 * llama-quantize with its default options. They are rows of a table (presets.c).
 */
#ifndef GG_PRESETS_H
#define GG_PRESETS_H

#include "organ/gg_gguf.h"

typedef struct gg_preset gg_preset;

/* By name in any case, aliases (Q4_K is Q4_K_M) included; NULL if there is none. */
const gg_preset *gg_preset_by_name(const char *name);
const char *gg_preset_name(const gg_preset *p);
/* The number that general.file_type gets. */

/* The types that preset p chooses for n tensors of a model with these keys: dtypes[i] is
 * tensors[i].dtype where llama-quantize leaves the tensor alone. GG_EUNSUPPORTED names the
 * first tensor whose type needs an importance matrix. */
gg_status gg_preset_choose(const gg_preset *p, const gg_tensor *tensors, size_t n,
                           const gg_meta *meta, uint32_t *dtypes, gg_error *err);

/* Does llama-quantize leave this tensor alone whatever the preset: one dimension, not a
 * .weight, or a role that is small and delicate (routers, convolutions, norms, ...)?
 * *part is the part of the name that says so, or NULL. */
bool gg_is_delicate(const gg_tensor *t, const char **part);

/* general.quantization_version and general.file_type, at the end as llama-quantize puts
 * them; quantize.imatrix.* go, as no importance matrix was used. */
gg_status gg_preset_keys(const gg_preset *p, gg_meta *meta, gg_error *err);

#endif

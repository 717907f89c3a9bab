/* presets.h - llama-quantize's mixtures of types by name: Q4_K_M, Q3_K_S, IQ4_XS, ...
 * Internal.
 *
 * A preset chooses the type of each tensor from its name, its block, its row length, and the
 * number of heads and experts of the model. The choices are those of llama-quantize with its
 * default options. They are rows of a table (presets.c).
 */
#ifndef GG_PRESETS_H
#define GG_PRESETS_H

#include "organ/gg_gguf.h"
#include "organ/gg_verbs.h"

/* Find a preset by name or alias (Q4_K is Q4_K_M), in upper or lower case; NULL if unknown. */
const gg_preset *gg_preset_by_name(const char *name);

/* The name of the preset that a misspelt one probably means, or NULL. */
const char *gg_preset_near(const char *name);

/* What a preset looks at. */
typedef struct gg_preset_model {
    const gg_tensor *tensors;
    size_t n;
    const gg_meta *meta; /* NULL = no keys */
    bool imatrix;        /* the model is encoded with an importance matrix */
} gg_preset_model;

/* Choose the types of all tensors of a model by preset p. dtypes[i] is tensors[i].dtype if
 * llama-quantize does not change the tensor. Without an importance matrix, GG_EUNSUPPORTED names
 * the first tensor whose type needs one. */
gg_status gg_preset_choose(const gg_preset *p, const gg_preset_model *m, uint32_t *dtypes,
                           gg_error *err);

/* dtype, or the type that llama-quantize uses instead if rows of `row` values are not whole blocks
 * of it; F16 if no other fits. */
uint32_t gg_preset_fit_row(uint32_t dtype, uint64_t row);

/* True if llama-quantize never changes this tensor: it has one dimension, is not a .weight, or
 * has a small and delicate role (routers, convolutions, norms, ...). *part is the part of the
 * name that shows this role, or NULL. */
bool gg_is_delicate(const gg_tensor *t, const char **part);

/* Append general.quantization_version and general.file_type, like llama-quantize. Keys
 * quantize.imatrix.* of an earlier encoding are removed. */
gg_status gg_preset_keys(const gg_preset *p, gg_meta *meta, gg_error *err);

#endif

/* hf_quantized.h - weights that a program has quantized, in ways that are not read. Internal. */
#pragma once

#include "safetensors.h"

/* A method, by its word in quant_method, and by the ends of names that only it has. The last row of
 * each table has no text. */
typedef struct gg_hf_method {
    const char *word, *name, *fix;
} gg_hf_method;
typedef struct gg_hf_method_end {
    const char *end, *word;
} gg_hf_method_end;
extern const gg_hf_method gg_hf_methods[];
extern const gg_hf_method_end gg_hf_method_ends[];

#define GG_HF_METHOD 256

/* The quant_method that `config`, quantization_config or NULL, states, escaped; returns its length.
 */
size_t gg_hf_stated_method(const gg_json_node *config, char name[GG_HF_METHOD]);

/* If the tensors are quantized in a way that is not read: fails with GG_EUNSUPPORTED, which names
 * the method and what to do, and sets *of to one of them. `config` is quantization_config or NULL.
 */
gg_status gg_hf_refuse_quantized(const gg_st_list *list, const gg_json_node *config,
                                 const gg_st_tensor **of, gg_error *err);

/* hf_quantized.h - weights that a program has quantized, in ways that are not read. Internal. */
#pragma once

#include "safetensors.h"

#define GG_HF_METHOD 256

/* The quant_method that `config`, quantization_config or NULL, states, escaped; returns its length.
 */
size_t gg_hf_stated_method(const gg_json_node *config, char name[GG_HF_METHOD]);

/* If the tensors are quantized in a way that is not read: fails with GG_EUNSUPPORTED, which names
 * the method and what to do, and sets *of to one of them. `config` is quantization_config or NULL.
 */
gg_status gg_hf_refuse_quantized(const gg_st_list *list, const gg_json_node *config,
                                 const gg_st_tensor **of, gg_error *err);

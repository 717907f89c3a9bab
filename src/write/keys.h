/* keys.h - sets keys from texts and files, and those that depend on the types of the tensors.
 * Internal. */
#pragma once

#include "base/buf.h"
#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"

/* "KEY=FILE": set KEY to a string, the bytes of FILE ("-" is stdin); if KEY is an array, to the
 * lines of FILE, one element per line as GG_KEY_PLAIN writes them. A line that begins with a
 * quotation mark is a JSON string. GG_EUSAGE if it has no "=", if the file is over 2^30 bytes, if a
 * line does not fit the type, or if KEY exists with another type than str or an array. */
gg_status gg_meta_set_file(gg_meta *meta, const char *text, gg_error *err);

/* The general.name of a model, or the last part of its path. Of a longer name only the first
 * GG_MODEL_NAME bytes are used, because names are joined. */
#define GG_MODEL_NAME ((size_t)4096)
void gg_model_name(const gg_source *s, const char **name, size_t *len);

/* Applies o->set_kv, then o->set_kv_files. */
gg_status gg_set_keys(gg_meta *meta, const gg_output_options *o, gg_error *err);

/* general.file_type becomes the type of most tensors, as llama.cpp's loader would guess it.
 * The number of a dtype is gg_dtype_info.file_type (Q4_K has 15, Q4_K_M). Only tensors of two
 * or more dimensions count if there are any, because norms and biases are F32 in any model.
 * If two dtypes have equally many tensors, that with more bytes is used. The key is removed
 * if the dtype has no such number. general.quantization_version becomes 2 if any tensor is
 * quantized; otherwise it is removed together with quantize.imatrix.*. */
gg_status gg_type_keys_update(gg_meta *meta, const gg_tensor *tensors, size_t n, gg_error *err);

/* The same for a base whose tensors were replaced by these, if one of them changed its type.
 * Otherwise the keys of the base are kept, right or wrong; only general.quantization_version
 * is added for quantized tensors that the base did not have. Bare records get no such key. */
gg_status gg_type_keys_change(gg_meta *meta, const gg_source *base, const gg_tensor *tensors,
                              size_t n, gg_error *err);

/* Whether the dtype is neither a plain float nor an integer. */
bool gg_is_quantized(uint32_t dtype);
bool gg_is_integer(uint32_t dtype);

/* Remove the keys quantize.imatrix.*, which describe an importance matrix. */
void gg_meta_delete_imatrix(gg_meta *meta);

/* type_keys.h - metadata that must follow the dtypes of the tensors. Internal. */
#ifndef GG_TYPE_KEYS_H
#define GG_TYPE_KEYS_H

#include "organ/gg_organ.h"

/* general.file_type: the type of most tensors, as llama.cpp's loader would guess it
 * (its number per dtype is gg_dtype_info.file_type: Q4_K says 15, Q4_K_M), among those
 * of two or more dimensions, because norms and biases stay F32 whatever a model is; of
 * all where there are no such. The most bytes decide between equally many. The key is
 * removed where that dtype has no such number. general.quantization_version: 2 where
 * any tensor is quantized, else removed, and quantize.imatrix.* with it. */
gg_status gg_type_keys_update(gg_meta *meta, const gg_tensor *tensors, size_t n, gg_error *err);

/* The same for a base whose tensors have become these, where one of them changed its type.
 * Otherwise what the base states stays, right or wrong; only general.quantization_version is
 * added for quantized tensors that the base did not have. Bare records state nothing and get
 * no such key. */
gg_status gg_type_keys_change(gg_meta *meta, const gg_source *base, const gg_tensor *tensors,
                              size_t n, gg_error *err);

/* Is it neither a plain float nor an integer? */
bool gg_is_quantized(uint32_t dtype);
bool gg_is_integer(uint32_t dtype);

/* Remove what quantize.imatrix.* says of an importance matrix. */
void gg_meta_delete_imatrix(gg_meta *meta);

#endif

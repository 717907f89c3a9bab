/* quant.h - sizes and conversions of single values, for use inside the library only. Internal. */
#pragma once

#include "organ/gg_quant.h"

/* Returns the name of a type for messages, also for unknown types. */
const char *gg_dtype_name(uint32_t dtype);

/* How many rows have their blocks together, so that none of them can be moved alone: more than 1
 * for types of a fork whose names end in R and this number. */
unsigned gg_rows_together(uint32_t dtype);

/* gg_decode for the types of single values: F32, F16, BF16, F64 and integers. A program that
 * decodes only those is linked without the other codecs. */
gg_status gg_decode_plain(uint32_t dtype, const void *values, float *out, size_t elems,
                          gg_error *err);

/* The conversion to f16 rounds to nearest even. A NaN becomes a quiet NaN. */
float gg_f16_to_f32(uint16_t h);
uint16_t gg_f32_to_f16(float f);

/* How many of n stored values float32, to which gg_decode converts, cannot hold: finite F64 beyond
 * its range, and integers that are rounded. Returns 0 for all other types. */
uint64_t gg_count_narrowed(uint32_t dtype, const void *stored, size_t n);

/* True if the type can be encoded only with an importance matrix. */
bool gg_encode_needs_imatrix(uint32_t dtype);

/* The weights that gg_encode uses for n columns, which are whole blocks of a type, in place of w.
 * An encoder would lose the values whose weights are zero, or so small that sums of products
 * underflow. A block without any usable weight gets equal ones; in other blocks such a column gets
 * the smallest usable weight of the block. Returns the number of columns that get another weight; 0
 * for a type that uses none. `out` may be NULL. */
size_t gg_settle_weights(uint32_t dtype, const float *w, size_t n, float *out);

/* The name of the tensor type that a misspelt one probably means, or NULL. */
const char *gg_dtype_near(const char *name);

/* Computes the number of values and bytes of a tensor. `dims` has n_dims entries in GGUF order,
 * so dims[0] is the length of a row. A tensor with n_dims 0 has one value, and one with a
 * dimension of 0 has no values and no bytes. `elements` and `bytes` may be NULL.
 * Errors: GG_EUNSUPPORTED for an unknown or removed type; GG_EFORMAT if dims[0] is not a
 * multiple of the block, or if a number would not fit 63 bits. */
gg_status gg_tensor_extent(uint32_t dtype, uint32_t n_dims, const uint64_t *dims,
                           uint64_t *elements, uint64_t *bytes, gg_error *err);

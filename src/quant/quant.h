/* quant.h - sizes and conversions of single values, for use inside the library only. Internal. */
#ifndef GG_QUANT_INTERNAL_H
#define GG_QUANT_INTERNAL_H

#include "organ/gg_quant.h"

/* Computes the size in bytes of a row of `row_elems` values. Fails with GG_EUNSUPPORTED for
 * unknown and removed types, and with GG_EFORMAT if row_elems is not a multiple of the block
 * size or if the size exceeds 63 bits. The caller adds the place to the error. */
gg_status gg_row_bytes(uint32_t dtype, uint64_t row_elems, uint64_t *bytes, gg_error *err);

/* Row i of the table of types, from 0; NULL past its end. */
const gg_dtype_info *gg_dtype_at(size_t i);

/* Returns the name of a type for messages, also for unknown types. */
const char *gg_dtype_name(uint32_t dtype);

/* Conversions to f16 and bf16 round to nearest even. A NaN becomes a quiet NaN. */
float gg_f16_to_f32(uint16_t h);
uint16_t gg_f32_to_f16(float f);
float gg_bf16_to_f32(uint16_t h);
uint16_t gg_f32_to_bf16(float f);

/* True if the type can be encoded only with an importance matrix. */
bool gg_encode_needs_imatrix(uint32_t dtype);

/* The name of the tensor type that a misspelt one probably means, or NULL. */
const char *gg_dtype_near(const char *name);

#endif

/* quant.h - sizes and scalar conversions that only the library uses. Internal. */
#ifndef GG_QUANT_INTERNAL_H
#define GG_QUANT_INTERNAL_H

#include "organ/gg_quant.h"

/* Bytes of a row of `row_elems` values. GG_EUNSUPPORTED for unknown or removed
 * types, GG_EFORMAT when row_elems is no multiple of the block or bytes overflow
 * 63 bits. The error gets no place: the caller adds it. */
gg_status gg_row_bytes(uint32_t dtype, uint64_t row_elems, uint64_t *bytes, gg_error *err);

/* The name of a type for messages, of unknown ones too. */
const char *gg_dtype_name(uint32_t dtype);

/* Scalars. f32 -> f16 rounds to nearest even; NaN stays NaN (quiet). */
float gg_f16_to_f32(uint16_t h);
uint16_t gg_f32_to_f16(float f);
float gg_bf16_to_f32(uint16_t h);
uint16_t gg_f32_to_bf16(float f);

/* True if the type can be encoded only with an importance matrix. */
bool gg_encode_needs_imatrix(uint32_t dtype);

#endif

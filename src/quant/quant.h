/* quant.h - sizes and conversions of single values, for use inside the library only. Internal. */
#ifndef GG_QUANT_INTERNAL_H
#define GG_QUANT_INTERNAL_H

#include "organ/gg_quant.h"

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

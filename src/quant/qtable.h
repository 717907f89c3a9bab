/* qtable.h - the table of tensor types that is made of types.txt. Internal. */
#pragma once

#include "organ/gg_quant.h"

/* Whether a type can be encoded, and what the encoder does with an importance matrix. */
typedef enum gg_weighing {
    GG_ENC_NONE,
    GG_ENC_BLIND,
    GG_ENC_WEIGHS,
    GG_ENC_NEEDS /* it must not be called without one */
} gg_weighing;

/* The table that is made of types.txt, by ascending id. It knows no codec, so that a program that
 * only asks for sizes has none. */
typedef struct gg_type_row {
    gg_dtype_info info;
    gg_weighing weighing;
} gg_type_row;

/* Returns the row of a type, or NULL if the table has none. */
const gg_type_row *gg_type_row_get(uint32_t id);

#define GG_TYPES_MOST 128
extern const gg_type_row gg_type_rows[];
extern const size_t gg_type_rows_n;

/* clang-format off */
#define LIVE(name, elems, bytes, ftype, weighing) \
    { { GG_##name, #name, elems, bytes, 0, GG_DTYPE_LIVE, ftype }, GG_ENC_##weighing }
#define GONE(name, id) { { id, #name, 0, 0, 0, GG_DTYPE_REMOVED, -1 }, GG_ENC_NONE }
#define FORK(name, id, elems, bytes, extra) \
    { { id, #name, elems, bytes, extra, GG_DTYPE_FORK, -1 }, GG_ENC_NONE }
/* clang-format on */

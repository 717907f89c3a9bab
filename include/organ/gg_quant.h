/* gg_quant.h - the tensor types (dtypes) of GGUF, their sizes and codecs.
 *
 * Facts: ggml's ggml.h / ggml-common.h (MIT) of 2026-08, GGML_TYPE_COUNT 43,
 * and ik_llama.cpp's fork types, which can be carried but not decoded.
 * A tensor is rows of dims[0] values; a row is row_extra bytes followed by
 * dims[0] / block_elems blocks of block_bytes each. Blocks never cross rows.
 */
#ifndef GG_QUANT_H
#define GG_QUANT_H

#include "gg_status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gg_dtype {
    GG_F32 = 0,
    GG_F16 = 1,
    GG_Q4_0 = 2,
    GG_Q4_1 = 3,
    GG_Q5_0 = 6,
    GG_Q5_1 = 7,
    GG_Q8_0 = 8,
    GG_Q8_1 = 9,
    GG_Q2_K = 10,
    GG_Q3_K = 11,
    GG_Q4_K = 12,
    GG_Q5_K = 13,
    GG_Q6_K = 14,
    GG_Q8_K = 15,
    GG_IQ2_XXS = 16,
    GG_IQ2_XS = 17,
    GG_IQ3_XXS = 18,
    GG_IQ1_S = 19,
    GG_IQ4_NL = 20,
    GG_IQ3_S = 21,
    GG_IQ2_S = 22,
    GG_IQ4_XS = 23,
    GG_I8 = 24,
    GG_I16 = 25,
    GG_I32 = 26,
    GG_I64 = 27,
    GG_F64 = 28,
    GG_IQ1_M = 29,
    GG_BF16 = 30,
    GG_TQ1_0 = 34,
    GG_TQ2_0 = 35,
    GG_MXFP4 = 39,
    GG_NVFP4 = 40,
    GG_Q1_0 = 41,
    GG_Q2_0 = 42,
    GG_DTYPE_COUNT = 43 /* mainline ids are below this */
} gg_dtype;

typedef enum gg_dtype_kind {
    GG_DTYPE_LIVE,   /* valid in files today */
    GG_DTYPE_FORK,   /* valid in ik_llama.cpp's files only: carried as bytes */
    GG_DTYPE_REMOVED /* had an id once; no current reader takes it: refused by name */
} gg_dtype_kind;

typedef struct gg_dtype_info {
    uint32_t id;          /* the id in files */
    const char *name;     /* "Q4_K" */
    uint32_t block_elems; /* values a block; 0 for removed types */
    uint32_t block_bytes; /* bytes a block; 0 for removed types */
    uint32_t row_extra;   /* bytes before the blocks of each row (fork types) */
    gg_dtype_kind kind;
    int32_t file_type; /* general.file_type of a model mostly of it, -1 = none */
} gg_dtype_info;

/* The row of the table, or NULL for an id that no known reader gives a meaning. */
const gg_dtype_info *gg_dtype_get(uint32_t id);

/* By name, any case ("q4_k", "Q4_K"); live and fork types only; NULL if none. */
const gg_dtype_info *gg_dtype_by_name(const char *name);

/* Bytes and elements of a whole tensor; dims in GGUF order (dims[0] the row
 * length); n_dims 0 is one element; a zero dim is a tensor of 0 bytes. Checked
 * against overflow at every step. Either out pointer may be NULL. */
gg_status gg_tensor_extent(uint32_t dtype, uint32_t n_dims, const uint64_t *dims,
                           uint64_t *elements, uint64_t *bytes, gg_error *err);

bool gg_can_decode(uint32_t dtype);

/* True if gg_encode can produce the type without an importance matrix. */
bool gg_can_encode(uint32_t dtype);

/* Decode `elems` values (a multiple of block_elems) of consecutive blocks at
 * `blocks` (no alignment needed) to float32, to the bit as ggml's plain C
 * to_float does; the NaNs of F16 come out quiet, those of F32 and BF16 as they
 * are. Integers and F64 are C casts to float.
 * Any bytes are valid input; nothing outside blocks/out is touched.
 * GG_EUNSUPPORTED when gg_can_decode is false; GG_EUSAGE on a broken multiple. */
gg_status gg_decode(uint32_t dtype, const void *blocks, float *out, size_t elems, gg_error *err);

/* Encode `elems` values (a multiple of block_elems; rows may be passed one after
 * another) into consecutive blocks. `imatrix` is NULL or one weight a column,
 * `row_elems` values, repeated for each row. Input must be finite: GG_EFORMAT
 * with the index of the first NaN or Inf otherwise. Finite input never gives NaN
 * or Inf, not in scales and not in values: what is too large for F16 or BF16 becomes
 * their largest value. Deterministic: the same bytes on every instruction set.
 * GG_EUNSUPPORTED when the type cannot be encoded, or needs an imatrix and got none. */
gg_status gg_encode(uint32_t dtype, const float *x, void *blocks, size_t elems, size_t row_elems,
                    const float *imatrix, gg_error *err);

#ifdef __cplusplus
}
#endif

#endif

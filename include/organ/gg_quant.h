/* gg_quant.h - the tensor types (dtypes) of GGUF: their sizes, decoding and encoding.
 *
 * A tensor consists of rows of dims[0] values. A row consists of row_extra bytes followed by
 * dims[0] / block_elems blocks of block_bytes bytes each. A block never spans two rows.
 *
 *     const gg_dtype_info *type = gg_dtype_by_name("q8_0");
 *     float values[32];
 *     gg_decode(type->id, block, values, type->block_elems, &err);
 *
 * The table follows ggml's ggml.h and ggml-common.h (MIT) of 2026-08, which has ids 0 to 42,
 * and adds the types of ik_llama.cpp, which can be copied but not decoded.
 *
 * All functions can be called from any thread. `err` must not be NULL (see gg_status.h).
 */
#ifndef GG_QUANT_H
#define GG_QUANT_H

#include "gg_status.h"

GG_BEGIN_DECLS

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
    GG_DTYPE_LIVE,   /* in use today */
    GG_DTYPE_FORK,   /* used by ik_llama.cpp only: tensors can be copied, but not decoded */
    GG_DTYPE_REMOVED /* withdrawn from ggml: files with it are refused */
} gg_dtype_kind;

typedef struct gg_dtype_info {
    uint32_t id;          /* the id in files, a gg_dtype for the types of ggml */
    const char *name;     /* "Q4_K" */
    uint32_t block_elems; /* values per block; 0 for removed types */
    uint32_t block_bytes; /* bytes per block; 0 for removed types */
    uint32_t row_extra;   /* bytes before the blocks of each row (fork types only) */
    gg_dtype_kind kind;
    int32_t file_type; /* general.file_type of a model that mostly has this type; -1 = none */
} gg_dtype_info;

/* Returns the description of a type, or NULL if the id is unknown. It is static. */
const gg_dtype_info *gg_dtype_get(uint32_t id);

/* Returns type i of all known ones by ascending id, from 0, or NULL past the last. It is static. */
const gg_dtype_info *gg_dtype_at(size_t i);

/* Returns the type with this name, in upper or lower case ("q4_k" or "Q4_K"), or NULL if there
 * is none. Removed types are not found. `name` must not be NULL. The result is static. */
const gg_dtype_info *gg_dtype_by_name(const char *name);

/* Computes the size in bytes of a row of `row_elems` values; a row without values has 0 bytes. Use
 * it rather than divide the bytes of a tensor by its rows, of which there may be none.
 * Errors: GG_EUNSUPPORTED for an unknown or removed type; GG_EFORMAT if row_elems is not a multiple
 * of the block, or if the size would not fit 63 bits. */
gg_status gg_row_bytes(uint32_t dtype, uint64_t row_elems, uint64_t *bytes, gg_error *err);

/* Whether gg_decode supports the type. */
bool gg_can_decode(uint32_t dtype);

/* Whether gg_encode supports the type without an importance matrix. */
bool gg_can_encode(uint32_t dtype);

/* Decodes consecutive blocks into `elems` float32 values in `out`. `elems` must be a multiple of
 * block_elems. `blocks` needs no alignment. Both buffers are the caller's and must not overlap.
 * The values have the same bits as those of ggml's reference decoder. Integers and F64 are
 * converted as C does. Any bytes are valid input.
 * Errors: GG_EUNSUPPORTED if gg_can_decode is false; GG_EUSAGE for a partial block. */
gg_status gg_decode(uint32_t dtype, const void *blocks, float *out, size_t elems, gg_error *err);

/* Encodes `elems` values from `x` into consecutive blocks at `blocks`. They are rows of
 * row_elems values, one after another; row_elems must be a multiple of block_elems, and elems a
 * multiple of row_elems. `imatrix` has one weight per column (row_elems values), which is used
 * for every row, or is NULL. A block of weights that are all zero (or below 2^-100, negative or not
 * finite) counts as one of equal weights, and such a weight in another block as the smallest one of
 * the block. All buffers are the caller's and must not overlap.
 *
 * A finite value that is too large for F16 or BF16 becomes their largest value. The result
 * never contains NaN or infinity, and has the same bytes on every CPU.
 * Errors: GG_EFORMAT, with the index of the value, if one is NaN or infinite; GG_EUNSUPPORTED if
 * the type cannot be encoded, or needs an importance matrix and imatrix is NULL; GG_EUSAGE for
 * a partial block or row; GG_ENOMEM. After an error the contents of `blocks` are undefined. */
gg_status gg_encode(uint32_t dtype, const float *x, void *blocks, size_t elems, size_t row_elems,
                    const float *imatrix, gg_error *err);

GG_END_DECLS

#endif

/* gg_gguf.h - the GGUF container: read, edit and write headers; open whole models.
 *
 * Format (ggml, docs/gguf.md): "GGUF", version u32, tensor count i64, kv count i64,
 * key-values, tensor infos, zero bytes up to the alignment, tensor data. All
 * little-endian. Versions 2 and 3 are read and written; version 1 and big-endian
 * files are recognised and refused. What is accepted is what ggml's gguf.cpp
 * accepts; docs/formats.md lists where this reader is stricter or laxer, and why.
 *
 * This layer knows nothing of organs. Nothing here is thread safe for writing;
 * any number of threads may read an opened model.
 */
#ifndef GG_GGUF_H
#define GG_GGUF_H

#include "gg_quant.h"
#include "gg_status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GG_MAX_DIMS 4
#define GG_MAX_NAME 63 /* bytes of a tensor name, as in ggml (64 with the NUL) */
#define GG_DEFAULT_ALIGNMENT 32

/* ---- metadata ------------------------------------------------------------ */

typedef enum gg_type {
    GG_TYPE_U8,
    GG_TYPE_I8,
    GG_TYPE_U16,
    GG_TYPE_I16,
    GG_TYPE_U32,
    GG_TYPE_I32,
    GG_TYPE_F32,
    GG_TYPE_BOOL,
    GG_TYPE_STR,
    GG_TYPE_ARR,
    GG_TYPE_U64,
    GG_TYPE_I64,
    GG_TYPE_F64,
    GG_TYPE_COUNT
} gg_type;

typedef struct gg_kv {
    const char *key; /* key_len bytes, any but empty; not NUL-terminated */
    size_t key_len;
    uint32_t type;       /* gg_type */
    uint32_t elem_type;  /* of an array, never GG_TYPE_ARR */
    uint64_t count;      /* array elements; 1 otherwise */
    const uint8_t *data; /* scalar: little-endian value; str: the text; arr: the elements
                            as in the file (each str a u64 length and its bytes) */
    size_t size;         /* bytes of data */
} gg_kv;

/* An ordered list of key-values. Keys and values belong to the list or to the
 * gg_gguf that it came from, which must outlive it. Start from GG_META_INIT. */
typedef struct gg_meta {
    gg_kv *kv;
    size_t n, cap;
    void *owned; /* blocks the list frees */
} gg_meta;
/* clang-format off */
#define GG_META_INIT { NULL, 0, 0, NULL }
/* clang-format on */

void gg_meta_free(gg_meta *meta);
const gg_kv *gg_meta_find(const gg_meta *meta,
                          const char *key); /* looks at all: not for each of many */

/* Set (in place, keeping its position) or append. Key and data are copied.
 * GG_EUSAGE for an empty key or an element type that may not be. */
gg_status gg_meta_set(gg_meta *meta, const gg_kv *kv, gg_error *err);
gg_status gg_meta_set_u32(gg_meta *meta, const char *key, uint32_t value, gg_error *err);
gg_status gg_meta_set_str(gg_meta *meta, const char *key, const char *text, size_t len,
                          gg_error *err);
bool gg_meta_delete(gg_meta *meta, const char *key); /* false if it was not there */
gg_status gg_meta_copy(gg_meta *to, const gg_meta *from, gg_error *err); /* deep; `to` empty */

/* Typed reads: false if kv is NULL or has another type (any integer type, and
 * bool, reads as integer when it fits). */
bool gg_kv_u64(const gg_kv *kv, uint64_t *value);
bool gg_kv_f32(const gg_kv *kv, float *value);
bool gg_kv_str(const gg_kv *kv, const char **text, size_t *len);

/* Walk an array of strings: *pos from 0; false at the end. */
bool gg_kv_next_str(const gg_kv *kv, uint64_t *pos, const char **text, size_t *len);

/* Parse "KEY=TYPE:VALUE" (TYPE as gg_type_name; "KEY=VALUE"
 * keeps the type the key has in `meta`, or guesses: integer u32 or i64, float f32,
 * true/false bool, else str; arrays as TYPE[]:a,b,c). "KEY=" with nothing deletes.
 * A word before a colon that means a type and is none (u9:1, int32:1, string:x) is
 * refused; other text may hold colons ("note: x", "https://x").
 * GG_EUSAGE says what is wrong. */
gg_status gg_meta_set_text(gg_meta *meta, const char *text, gg_error *err);

/* ---- tensors ------------------------------------------------------------- */

typedef struct gg_tensor {
    const char *name; /* name_len bytes; a NUL follows, and may be inside too */
    size_t name_len;
    uint32_t n_dims;            /* as stored: 0..4 */
    uint64_t dims[GG_MAX_DIMS]; /* GGUF order, dims[0] the row; 1 past n_dims */
    uint32_t dtype;             /* gg_dtype id */
    uint64_t elements, bytes;   /* of the data, without padding */
    uint64_t offset;            /* in the data section of its file */
    uint32_t file;              /* index of the file (shard) that holds it */
} gg_tensor;

#ifdef __cplusplus
}
#endif

#endif

/* safetensors.h - the header of a .safetensors file. Internal.
 *
 * A file is a u64 with the length of the header, the header as a JSON object, and the data. Each
 * member of the object is a tensor: its dtype, its shape (row-major: the last axis varies
 * fastest) and the bytes of its data, counted from the end of the header. The member
 * "__metadata__" holds texts.
 */
#pragma once

#include "base/buf.h"
#include "base/names.h"
#include "base/text.h"
#include "organ/gg_gguf.h"
#include "json/json.h"

/* Largest header that is read, as in the reference implementation. */
#define GG_ST_HEADER ((uint64_t)100 << 20)
#define GG_ST_DIMS 8

/* Types of elements. */
typedef enum gg_st_type {
    GG_ST_F32,
    GG_ST_F16,
    GG_ST_BF16,
    GG_ST_F64,
    GG_ST_F8_E4M3,
    GG_ST_F8_E5M2,
    GG_ST_I8,
    GG_ST_I16,
    GG_ST_I32,
    GG_ST_I64,
    GG_ST_U8,
    GG_ST_BOOL,
    GG_ST_U16,
    GG_ST_U32,
    GG_ST_U64,
    GG_ST_OTHER, /* a type that is not read: only its place is known */
    GG_ST_TYPES
} gg_st_type;

/* The bytes of an element. */
size_t gg_st_type_size(gg_st_type type);

/* Whether its values are integers or truth values. */
bool gg_st_is_integer(gg_st_type type);

/* The same type in GGUF files; GG_DTYPE_COUNT if there is none. */
uint32_t gg_st_dtype(gg_st_type type);

/* Converts n elements to float32. */
void gg_st_decode(gg_st_type type, const uint8_t *raw, float *out, size_t n);

typedef struct gg_st_tensor {
    const char *name; /* name_len bytes and a NUL */
    size_t name_len;
    gg_st_type type;
    uint32_t n_dims;
    uint64_t dims[GG_ST_DIMS];
    uint64_t elements, bytes;
    uint64_t at;        /* offset of the data in the file */
    uint32_t file;      /* number of the file, set by the caller */
    char type_name[16]; /* as the file has it, escaped */
    uint32_t packed;    /* the gg_dtype of blocks that are decoded as `type`; 0 = none */
} gg_st_tensor;

/* A growing list. The names are its own. */
typedef struct gg_st_list {
    gg_names names;
    gg_st_tensor *items; /* malloc'd */
    size_t n;
} gg_st_list;

/* Reads the header of an open file and appends its tensors to the list, in the order of their data.
 * If `metadata` is not NULL, it gets the header's JSON tree if that has a member "__metadata__",
 * which the caller frees.
 * Errors: GG_EFORMAT, with the tensor or the offset, for a header that is malformed, for sizes that
 * contradict each other, and for data that overlap or lie outside the file; GG_EUNSUPPORTED for a
 * header over GG_ST_HEADER, for unknown types, names over GG_MAX_NAME bytes and more than
 * GG_ST_DIMS axes; GG_EIO; GG_ENOMEM. */
gg_status gg_st_read(int fd, gg_st_list *list, gg_json **metadata, gg_error *err);

/* Whether a path ends with .safetensors. */
static inline bool gg_is_safetensors_name(const char *path)
{
    return gg_text_ends(path, strlen(path), ".safetensors");
}

/* What a header tells beside the tensors. */
typedef struct gg_st_form {
    const char *hf_order; /* the GGUF names in the order of the model, one per line; NULL if the
                             names of the tensors are those of GGUF */
    bool stored;          /* the keys are texts of __metadata__ */
} gg_st_form;

/* Appends the header of a file with these tensors, whose offsets are set, to `out`, which must be
 * empty. Its metadata has the keys except those of shards, so that the file can be read back as the
 * same model, and form->hf_order; with form->stored the keys themselves. Its length is a multiple
 * of 8. Errors: GG_EUNSUPPORTED for a type that safetensors lacks, and a header that is too large;
 * GG_EFORMAT for a name that is not UTF-8.
 */
gg_status gg_st_header(const gg_meta *meta, const gg_tensor *tensors, size_t n,
                       const gg_st_form *form, gg_buf *out, gg_error *err);

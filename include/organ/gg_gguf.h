/* gg_gguf.h - the contents of a GGUF file: keys (metadata) and tensors.
 *
 * Open a model with gg_source_open of gg_organ.h, which gives you its keys and tensors:
 *
 *     const gg_meta *meta = gg_source_meta(source);
 *     uint64_t blocks;
 *     if (meta && gg_kv_u64(gg_meta_find(meta, "llama.block_count"), &blocks))
 *         printf("%llu blocks\n", (unsigned long long)blocks);
 *
 * GGUF versions 2 and 3 are read and written, both little-endian. Version 1 and big-endian files
 * are recognised and refused. docs/formats.md describes the format, and where this reader is
 * stricter or more tolerant than ggml's gguf.cpp.
 *
 * A split model (one GGUF file per shard) is opened as a whole and keeps one file descriptor per
 * shard open until it is closed. The library does not raise the process's limit of open files.
 *
 * Errors are described in gg_status.h; `err` must not be NULL. No other pointer may be NULL
 * unless its function says so. Any number of threads can read the same gg_meta, but nothing may
 * read it while a function changes it.
 */
#ifndef GG_GGUF_H
#define GG_GGUF_H

#include "gg_quant.h"
#include "gg_status.h"

GG_BEGIN_DECLS

#define GG_MAX_DIMS 8
#define GG_MAX_NAME 255 /* most bytes of a tensor name */
#define GG_DEFAULT_ALIGNMENT 32

/* ---- metadata ------------------------------------------------------------ */

/* The type of a key's value, with the ids that files have. */
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

/* A key and its value. */
typedef struct gg_kv {
    const char *key; /* key_len bytes, at least one; not NUL-terminated */
    size_t key_len;
    uint32_t type;      /* a gg_type */
    uint32_t elem_type; /* the gg_type of an array's elements, never GG_TYPE_ARR */
    uint64_t count;     /* number of array elements; 1 for other types */
    /* The value as in the file, little-endian. A string is its text without a NUL. An array is
     * its elements; each string in it is a u64 length followed by its bytes. */
    const uint8_t *data;
    size_t size; /* bytes of data */
} gg_kv;

/* An ordered list of keys. Initialise a list of your own with GG_META_INIT and end it with
 * gg_meta_free. You may read kv[0] to kv[n - 1] directly. Keys and values belong to the list, or
 * to the source that returned it. A pointer to an entry is valid until the list is changed. */
typedef struct gg_meta {
    gg_kv *kv;
    size_t n, cap;
    void *owned; /* memory that the list frees; private */
} gg_meta;
/* clang-format off */
#define GG_META_INIT { NULL, 0, 0, NULL }
/* clang-format on */

/* Frees the list and all that gg_meta_set and gg_meta_copy have stored in it, and makes it empty
 * again. */
void gg_meta_free(gg_meta *meta);

/* Returns the entry of a key (NUL-terminated), or NULL if it is absent. The search is linear. */
const gg_kv *gg_meta_find(const gg_meta *meta, const char *key);

/* Changes the value of a key in its place, or appends the key. Key and data are copied.
 * gg_meta_set_str takes `len` bytes of text, which may contain NULs.
 * Errors: GG_EUSAGE for an empty key or an invalid type; GG_ENOMEM. The list is then unchanged. */
gg_status gg_meta_set(gg_meta *meta, const gg_kv *kv, gg_error *err);
gg_status gg_meta_set_str(gg_meta *meta, const char *key, const char *text, size_t len,
                          gg_error *err);

/* Appends copies of all entries of `from` to `to`, which should be empty. The copy does not depend
 * on `from`. On GG_ENOMEM `to` has some of the entries and must still be freed. */
gg_status gg_meta_copy(gg_meta *to, const gg_meta *from, gg_error *err);

/* Read a value. They return false, and leave the result unchanged, if kv is NULL or has another
 * type. gg_kv_u64 reads every integer type and bool, if the value is not negative. The text from
 * gg_kv_str has *len bytes, is not NUL-terminated, and is valid as long as the entry. */
bool gg_kv_u64(const gg_kv *kv, uint64_t *value);
bool gg_kv_str(const gg_kv *kv, const char **text, size_t *len);

/* Walks through an array of strings. Start with *pos = 0; each call gives the next string and
 * advances *pos. Returns false at the end, or if kv is not an array of strings. The text is like
 * that of gg_kv_str. */
bool gg_kv_next_str(const gg_kv *kv, uint64_t *pos, const char **text, size_t *len);

/* Sets a key from a text such as "llama.block_count=u32:12", "general.name=str:Verse" or
 * "tokenizer.ggml.scores=f32[]:0.5,1". The types are u8, i8, u16, i16, u32, i32, u64, i64, f32,
 * f64, bool, str, and these with [] for an array.
 * - "KEY=VALUE" keeps the type that the key has in `meta`. For a new key the type is guessed:
 *   u32 or i64 for an integer, f32 for another number, bool for true and false, str for the rest.
 * - "KEY=" deletes the key.
 * - "KEY[7]=VALUE" replaces element 7, counted from 0, of an array.
 * - A value may contain colons ("note: x", "https://x"), but a word before the first colon that
 *   looks like a mistyped type (u9:1, int32:1, string:x) is refused.
 * Returns GG_EUSAGE, with the reason, if the text is wrong; `meta` is then unchanged. */
gg_status gg_meta_set_text(gg_meta *meta, const char *text, gg_error *err);

/* ---- anatomy --------------------------------------------------------------- */

/* The class of a tensor. docs/anatomy.svg and docs/formats.md show what belongs to each. */
typedef enum gg_class {
    GG_SKELETON, /* attention and state-space layers */
    GG_ORGAN,    /* feed-forward layers: their weights, experts and routers */
    GG_EMBED,    /* token and position embeddings, the output matrix */
    GG_NORM,     /* norms */
    GG_ADAPTER,  /* LoRA pairs and control vectors */
    GG_OTHER,    /* everything else */
    GG_CLASS_COUNT
} gg_class;

/* Returns "skeleton", "organ", "embed", "norm", "adapter" or "other"; a static string. */
const char *gg_class_name(gg_class c);

/* The sub-model that a tensor belongs to. The comments show how names begin. */
typedef enum gg_part {
    GG_PART_TEXT,
    GG_PART_VISION,    /* v. mm. resampler. adapter. */
    GG_PART_AUDIO,     /* a. mm.a. */
    GG_PART_ENCODER,   /* enc., and text encoders in image models */
    GG_PART_DECODER,   /* dec. */
    GG_PART_DIFFUSION, /* image and video models */
    GG_PART_ADAPTER,   /* LoRA, control vectors */
    GG_PART_IMATRIX,   /* importance matrices */
    GG_PART_COUNT
} gg_part;

/* Returns "text", "vision" and so on; a static string. */
const char *gg_part_name(gg_part p);

/* What the name of a tensor tells about it. The first matching rule of docs/formats.md decides. For
 * an organ directory the class is that in the manifest, which may have been edited. */
typedef struct gg_anatomy {
    int64_t block;     /* the N of blk.N. or of another list of blocks; -1 = none */
    int64_t expert;    /* the E of ffn_gate.E; -1 = none */
    uint16_t role_at;  /* where the role begins in the name: after blk.N. */
    uint16_t role_len; /* its length, without .weight */
    uint8_t cls;       /* a gg_class */
    uint8_t part;      /* a gg_part */
    bool known;        /* false if only the last rule ("anything else") matched */
    bool mtp;          /* multi-token prediction: nextn.* or mtp.* */
    bool stack;        /* all experts of a block in one tensor: ffn_*_exps */
} gg_anatomy;

/* ---- tensors ------------------------------------------------------------- */

/* A tensor as a header describes it. It has no data; see gg_data_open in gg_organ.h. */
typedef struct gg_tensor {
    const char *name; /* name_len bytes and a NUL; the name itself may contain NULs too */
    size_t name_len;
    uint32_t n_dims;            /* 0..GG_MAX_DIMS, as stored */
    uint32_t dtype;             /* a gg_dtype, or an id of a fork type */
    uint64_t dims[GG_MAX_DIMS]; /* GGUF order: dims[0] is the length of a row; 1 from n_dims on */
    uint64_t elements, bytes;   /* size of the data, without padding */
    uint64_t offset;            /* in bytes, from the start of the data section of its file */
    uint32_t file;              /* number of the shard that holds it, from 0 */
    gg_anatomy a;               /* set in sources and plans */
} gg_tensor;

GG_END_DECLS

#endif

/* gguf.h - GGUF functions for use inside the library only. Internal. */
#pragma once

#include "base/buf.h"
#include "base/io.h"
#include "organ/gg_gguf.h"

#include <assert.h>

/* ---- limits of the reader --------------------------------------------------
 *
 * GG_LIMIT_STRING and GG_LIMIT_ARRAY are limits of ggml, the others are ours. Of tensors, ggml has
 * only those with at most 63 bytes in the name and 4 dimensions; other programs write more. ggml
 * accepts any power of two as alignment, but then padding could reach 4 GiB per tensor; no known
 * model uses more than 4096. GG_LIMIT_ENTRIES and GG_LIMIT_HEADER bound the memory that a header
 * can use. The size of the input cannot bound it: a pipe has no known size, and a huge sparse file
 * costs nothing to make. */

#define GG_LIMIT_STRING ((uint64_t)1 << 30)    /* bytes of a key, name or text */
#define GG_LIMIT_ARRAY ((uint64_t)1 << 30)     /* elements of an array */
#define GG_LIMIT_ALIGNMENT ((uint64_t)1 << 20) /* if the file has tensors */
#define GG_LIMIT_ENTRIES ((uint64_t)1 << 22)   /* tensors, and also keys; 100 bytes each or so */
#define GG_LIMIT_HEADER ((uint64_t)1 << 31)    /* bytes up to the last tensor info */
#define GG_LIMIT_SHARDS 99999                  /* shard names have five digits */

#define GG_MIN_KV 14     /* key length (8), key (1), type (4), value (1) */
#define GG_MIN_TENSOR 24 /* name length (8), n_dims (4), dtype (4), offset (8) */

/* Values of tokenizer.ggml.token_type. */
typedef enum gg_token_type {
    GG_TOKEN_NORMAL = 1,
    GG_TOKEN_UNKNOWN,
    GG_TOKEN_CONTROL,
    GG_TOKEN_USER_DEFINED,
    GG_TOKEN_UNUSED,
    GG_TOKEN_BYTE,
} gg_token_type;

/* ---- one file's header --------------------------------------------------- */

typedef struct gg_gguf {
    uint32_t version;
    uint64_t alignment;
    gg_meta meta;
    gg_tensor *tensors;
    size_t n_tensors;
    uint64_t header_bytes; /* end of the tensor infos */
    uint64_t data_start;   /* header_bytes rounded up; not rounded without tensors */
    uint64_t data_bytes;   /* all tensors, each padded to the alignment */
    uint8_t *raw;          /* header_bytes bytes, as read; meta and names point into it */
    size_t *by_name;       /* tensor indices sorted by name */
} gg_gguf;

/* ---- whole models: one file, or all shards of a split set ----------------- */

typedef struct gg_model {
    size_t n_files;
    char **paths;
    int *fds; /* read-only */
    uint64_t *file_sizes;
    gg_stamp *stamps; /* of each file, when it was opened */
    gg_gguf **files;  /* files[0]->meta is the model's metadata */
    size_t n_tensors;
    gg_tensor *tensors; /* all, in order; names belong to files[t.file] */
    /* Of a set whose other shards are missing (gg_model_options): */
    uint32_t shard_count; /* shards of the whole set; 0 = the model is whole */
    uint32_t first_shard; /* number of files[0] in it, from 0 */
    uint64_t set_tensors; /* tensors of the whole set, 0 = not stated */
    char *missing;        /* path of the first shard that is not there, NULL = not known */
    uint32_t n_missing;   /* number of shards that are not there, or cannot be found by name */
} gg_model;

/* ---- keys and headers ---------------------------------------------------- */

/* Removes a key. Returns false if it was absent. */
bool gg_meta_delete(gg_meta *meta, const char *key);

/* Like gg_kv_u64, for an f32. */
bool gg_kv_f32(const gg_kv *kv, float *value);
/* Sets *out to number or boolean i of an array, or to a scalar itself for i = 0. False if there is
 * none. */
bool gg_kv_element(const gg_kv *kv, uint64_t i, gg_kv *out);
/* Like gg_kv_u64; of an array it is element i. */
bool gg_kv_u64_at(const gg_kv *kv, uint64_t i, uint64_t *value);

/* Whether the key is this text. */
bool gg_meta_text_is(const gg_meta *meta, const char *key, const char *text);
/* Whether both exist and have the same type and bytes. */
bool gg_same_value(const gg_kv *a, const gg_kv *b);
/* Whether the dimensions are equal; those after n_dims count as 1. */
bool gg_same_dims(const gg_tensor *a, const gg_tensor *b);

/* The product of the dimensions from number `first` on: rows from 1, matrices from 2. */
static inline uint64_t gg_dims_from(const gg_tensor *t, uint32_t first)
{
    uint64_t n = 1;
    for (uint32_t i = first; i < t->n_dims; i++) n *= t->dims[i];
    return n;
}

/* Whether it has several rows; norms and biases have one. */
static inline bool gg_is_matrix(const gg_tensor *t)
{
    return gg_dims_from(t, 1) > 1;
}

/* The dimensions of a tensor before they are set. */
#define GG_DIMS_ONE \
    { \
        1, 1, 1, 1, 1, 1, 1, 1 \
    }
static_assert(GG_MAX_DIMS == 8, "GG_DIMS_ONE has as many");

/* Like gg_meta_set_str, for other types: any of at most 4 bytes, whose bits are given; and these.
 */
gg_status gg_meta_set_bits(gg_meta *meta, const char *key, uint32_t type, uint32_t bits,
                           gg_error *err);
gg_status gg_meta_set_u32(gg_meta *meta, const char *key, uint32_t value, gg_error *err);
gg_status gg_meta_set_f32(gg_meta *meta, const char *key, float value, gg_error *err);
gg_status gg_meta_set_bool(gg_meta *meta, const char *key, bool value, gg_error *err);

/* Adds a text to the bytes of an array of strings, and sets an array of `count` values of that type
 * with these bytes. */
gg_status gg_array_add_str(gg_buf *bytes, const char *text, size_t len, gg_error *err);
gg_status gg_meta_set_array(gg_meta *meta, const char *key, uint32_t elem_type, uint64_t count,
                            const gg_buf *bytes, gg_error *err);

/* Adds an entry at the end, without looking for its key. */
gg_status gg_meta_append(gg_meta *meta, const gg_kv *kv, gg_error *err);

/* "u8" "i8" ... "bool" "str" "arr" ...; NULL for an unknown id. */
const char *gg_type_name(uint32_t type);

/* Finds the metadata type with that name, such as "u32". Returns false if there is none. */
bool gg_type_by_name(const char *name, size_t len, uint32_t *type);
/* Size in bytes of a scalar type; 0 for str, arr and unknown ids. */
size_t gg_type_size(uint32_t type);

/* Entries sorted by key, for many look-ups. Only `list` is malloc'd and must be freed with
 * free(); the entries still belong to their gg_meta. */
typedef struct gg_meta_order {
    const gg_kv **list;
    size_t n;
} gg_meta_order;

gg_status gg_meta_order_make(const gg_meta *meta, gg_meta_order *out, gg_error *err);
const gg_kv *gg_meta_order_find(const gg_meta_order *o, const char *key, size_t key_len);
/* Fails with GG_EFORMAT if two entries have the same key. `raw` is the header that they are in, for
 * the offset, or NULL. Sorts once: a search per key would take hours on a hostile file. */
gg_status gg_unique_keys(const gg_meta *meta, const uint8_t *raw, gg_error *err);

static inline uint64_t gg_align_up(uint64_t n, uint64_t alignment)
{
    assert(alignment > 0);
    return (n + alignment - 1) / alignment * alignment;
}

/* Reads a header from a pipe. `prefix` contains bytes that were already read from the descriptor.
 * *surplus is set to the bytes read beyond header_bytes; it is malloc'd and may be NULL if there
 * are none. */
gg_status gg_gguf_read_pipe(int fd, const void *prefix, size_t prefix_len, gg_gguf **out,
                            uint8_t **surplus, size_t *surplus_len, gg_error *err);

/* Sets the offset of each tensor, in order: the end of the previous one rounded up to the
 * alignment. Sets *data_bytes to the padded total. Fails with GG_EFORMAT on overflow, and with
 * GG_EUNSUPPORTED if the alignment is too large. */
gg_status gg_plan_offsets(gg_tensor *tensors, size_t n, uint64_t alignment, uint64_t *data_bytes,
                          gg_error *err);

/* Reads general.alignment; the default is 32. Fails with GG_EFORMAT if the key is not a u32 or
 * not a power of two. */
gg_status gg_meta_alignment(const gg_meta *meta, uint64_t *alignment, gg_error *err);

/* Writes "<architecture>.NAME" to key[size]. Returns false if the model has no
 * general.architecture or if the key does not fit. */
bool gg_arch_key(const gg_meta *meta, const char *name, char *key, size_t size);

/* Returns the entry with that key, or NULL. */
const gg_kv *gg_arch_kv(const gg_meta *meta, const char *name);

/* Returns the value of that key, or 0 if it is absent or not a whole number. */
uint64_t gg_arch_number(const gg_meta *meta, const char *name);

/* Writes the header, from the magic to the last tensor info and without padding, to a malloc'd
 * buffer. The bytes of tensor names are not checked, but a name of more than GG_MAX_NAME bytes
 * fails with GG_EFORMAT. */
gg_status gg_header_emit(uint32_t version, const gg_meta *meta, const gg_tensor *tensors, size_t n,
                         uint8_t **out, size_t *out_len, gg_error *err);

/* The same for writing: long values are not copied, so that the header is not in memory once more.
 * The keys must stay as long. */
typedef struct gg_long_value {
    size_t at; /* it comes before this byte of `bytes` */
    const void *data;
    size_t n;
} gg_long_value;

typedef struct gg_header {
    uint8_t *bytes; /* all but the long values; owned */
    size_t n;
    size_t size;    /* of the whole header */
    size_t longest; /* of the values that are copied */
    gg_long_value *longs;
    size_t n_longs;
} gg_header;

gg_status gg_header_plan(uint32_t version, const gg_meta *meta, const gg_tensor *tensors, size_t n,
                         gg_header *out, gg_error *err);
/* Writes it at an offset of fd, or at GG_AT_POS. */
gg_status gg_header_put(const gg_header *h, int fd, uint64_t at, gg_error *err);
void gg_header_free(gg_header *h);

/* Absolute offset of a tensor's data in its file. */
static inline uint64_t gg_model_at(const gg_model *m, const gg_tensor *t)
{
    return m->files[t->file]->data_start + t->offset;
}

/* Removes split.no, split.count and split.tensors.count, for a model that is written as one
 * file. */
void gg_meta_delete_split(gg_meta *meta);
bool gg_is_split_key(const gg_kv *kv); /* whether it is one of these three */

/* Returns "PREFIX-00002-of-00003.gguf" for no = 1 and count = 3; malloc'd, NULL without memory. */
char *gg_shard_name(const char *prefix, uint32_t no, uint32_t count);
/* Parses such a name. Returns false if `path` is not the name of a shard. *prefix_len is the
 * length of PREFIX with its folder; *no counts from 0. */
bool gg_shard_parse(const char *path, size_t *prefix_len, uint32_t *no, uint32_t *count);

/* Reads split.no and split.count. A file without them is shard 0 of 1. Fails with GG_EFORMAT if
 * the values are impossible. */
gg_status gg_split_numbers(const gg_meta *meta, uint64_t *no, uint64_t *count, gg_error *err);

/* Reads the header of a regular file. The position of `fd` does not change. With `cut`, tensor data
 * may lie beyond the end of the file. *out is freed with gg_gguf_free. Errors: GG_EFORMAT or
 * GG_EUNSUPPORTED with the byte offset; the latter also for a header of over 2 GiB and for one with
 * more than 2^22 tensors or keys; GG_EFORMAT if a file turns out to be shorter than its size. */
gg_status gg_gguf_open_fd(int fd, bool cut, gg_gguf **out, uint64_t *file_size, gg_error *err);

/* The same for a GGUF that begins at byte `from` of a file of `size` bytes in total. header_bytes
 * and data_start are offsets from the start of the file. Reads may go a little beyond the header.
 */
gg_status gg_gguf_read_part(int fd, uint64_t from, uint64_t size, bool cut, gg_gguf **out,
                            gg_error *err);

/* Replaces element i of the array `key`, whose elements have the type of `value`. GG_EUSAGE if
 * there is none; GG_ENOMEM. */
gg_status gg_meta_set_element(gg_meta *meta, const char *key, uint64_t i, const gg_kv *value,
                              gg_error *err);

/* Reads a number or bool from a text, as gg_meta_set_text does, into the bytes of a value. False if
 * it does not fit the type. */
bool gg_parse_scalar(const char *text, uint32_t type, uint8_t le[8]);

/* Sets *by_name to a malloc'd list of the indices of n tensors, sorted by name. Tensors with the
 * same name keep their order. */
gg_status gg_name_index(const gg_tensor *tensors, size_t n, size_t **by_name, gg_error *err);

/* The same, but fails with GG_EFORMAT and this reason if two tensors have one name. Names are
 * compared as C strings, because ggml stores them so: "a" and "a\0b" are duplicates. */
gg_status gg_unique_name_index(const gg_tensor *tensors, size_t n, const char *reason,
                               size_t **by_name, gg_error *err);

/* Returns the index of the tensor with that name, or SIZE_MAX. */
size_t gg_name_index_find(const gg_tensor *tensors, const size_t *by_name, size_t n,
                          const char *name, size_t name_len);

void gg_gguf_free(gg_gguf *g);

typedef struct gg_model_options {
    bool lone_shards; /* open a shard alone if another of its set is missing */
    bool cut_data;    /* the header is enough: tensors may lie past the end of their file */
} gg_model_options;

/* Open PATH and, if its split.count is above 1, every other shard of the set. PATH may be any
 * of them; tensors and files come in shard order. Each shard keeps one descriptor open. Shards
 * concatenated in one file are a set too: all `files` then have the same path, and their
 * header_bytes, data_start and file_sizes count from its start. Returns GG_EFORMAT, naming it,
 * for a missing shard (unless o->lone_shards) and for shards that contradict each other. `o`
 * may be NULL, which means all false. */
gg_status gg_model_open(const char *path, const gg_model_options *o, gg_model **out, gg_error *err);
void gg_model_free(gg_model *m); /* accepts NULL */

/* ---- journals ------------------------------------------------------------
 *
 * Before a header is changed in place, the bytes that will change are saved in a journal file
 * next to the model. The journal is removed when the change is on disk. If a journal exists, the
 * header may be half changed, and the model is not opened until the change has been finished or
 * undone.
 */

/* Returns "FILE.keys-undo", malloc'd. Symbolic links in `path` are resolved, so that every name
 * of a model gives the same journal. Returns NULL without memory or if the file does not
 * exist. */
char *gg_journal_path(const char *path, gg_error *err);

/* Whether a journal exists for that model file. */
bool gg_journal_exists(const char *path, gg_error *err);

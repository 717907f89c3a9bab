/* gguf.h - the part of the GGUF layer that only the library uses. Internal. */
#ifndef GG_GGUF_INTERNAL_H
#define GG_GGUF_INTERNAL_H

#include "organ/gg_gguf.h"

#include <assert.h>

bool gg_type_by_name(const char *name, size_t len, uint32_t *type);
/* Bytes of a scalar; 0 for str, arr and unknown ids. */
size_t gg_type_size(uint32_t type);

/* Entries in the order of their keys, for look-ups of many: malloc'd, freed with free()
 * of the list. The entries stay the meta's (or whosever they are). */
typedef struct gg_meta_order {
    const gg_kv **list;
    size_t n;
} gg_meta_order;

gg_status gg_meta_order_make(const gg_meta *meta, gg_meta_order *out, gg_error *err);
void gg_meta_order_sort(gg_meta_order *o); /* of a list that the caller filled */
const gg_kv *gg_meta_order_find(const gg_meta_order *o, const char *key, size_t key_len);
/* Of two entries of one key the later in memory; NULL when there are none. */
const gg_kv *gg_meta_order_twice(const gg_meta_order *o);

static inline uint64_t gg_align_up(uint64_t n, uint64_t alignment)
{
    assert(alignment > 0);
    return (n + alignment - 1) / alignment * alignment;
}

/* Read a header from a pipe. `prefix` holds bytes already taken from the descriptor;
 * *surplus gets the bytes read past header_bytes (malloc'd, may be NULL when none). */
gg_status gg_gguf_read_pipe(int fd, const void *prefix, size_t prefix_len, gg_gguf **out,
                            uint8_t **surplus, size_t *surplus_len, gg_error *err);

/* Index of the tensor, or SIZE_MAX. */
size_t gg_gguf_find(const gg_gguf *g, const char *name, size_t name_len);

/* Offsets in order, each start the previous end rounded up; *data_bytes the padded
 * sum. GG_EFORMAT on overflow. */
gg_status gg_plan_offsets(gg_tensor *tensors, size_t n, uint64_t alignment, uint64_t *data_bytes,
                          gg_error *err);

/* The alignment that `meta` asks for: general.alignment or 32. GG_EFORMAT when it
 * is no u32 or no power of two. */
gg_status gg_meta_alignment(const gg_meta *meta, uint64_t *alignment, gg_error *err);

/* "<architecture>.NAME" of a model into key[size]; false without architecture, or where
 * it is too long. */
bool gg_arch_key(const gg_meta *meta, const char *name, char *key, size_t size);

/* The value of that key; 0 where it is absent or no whole number. */
uint64_t gg_arch_number(const gg_meta *meta, const char *name);

/* Header bytes from magic to the last tensor info, no padding, malloc'd. Names are
 * written whatever bytes they hold; GG_EFORMAT for one of more than 63 bytes. */
gg_status gg_header_emit(uint32_t version, const gg_meta *meta, const gg_tensor *tensors, size_t n,
                         uint8_t **out, size_t *out_len, gg_error *err);

/* Absolute byte of a tensor's data in its file. */
static inline uint64_t gg_model_at(const gg_model *m, const gg_tensor *t)
{
    return m->files[t->file]->data_start + t->offset;
}

/* Remove split.no, split.count and split.tensors.count: the shards become one file. */
void gg_meta_delete_split(gg_meta *meta);
bool gg_is_split_key(const gg_kv *kv); /* one of these three */

/* "PREFIX-00002-of-00003.gguf" from prefix, no (from 0) and count; malloc'd. */
char *gg_shard_name(const char *prefix, uint32_t no, uint32_t count);
/* Split such a name; false if it is none. *prefix_len counts into path. */
bool gg_shard_parse(const char *path, size_t *prefix_len, uint32_t *no, uint32_t *count);

/* split.no and split.count of a file: 0 of 1 if it is no shard. GG_EFORMAT if they cannot
 * be right. */
gg_status gg_shard_numbers(const gg_gguf *g, uint64_t *no, uint64_t *count, gg_error *err);

/* Parse a header from memory; `size` is the whole file's size when `whole`, and
 * tensors must lie within it. On error: GG_EFORMAT or GG_EUNSUPPORTED with the
 * byte offset. *out is freed with gg_gguf_free. */
gg_status gg_gguf_parse(const void *bytes, uint64_t size, bool whole, gg_gguf **out, gg_error *err);

/* Read the header of a regular file. The position of `fd` is left alone. GG_EUNSUPPORTED for a
 * header of over 2 GiB, as from gg_gguf_parse for one with more than 2^22 tensors or keys;
 * GG_EFORMAT when a file turns out shorter than its size. */
gg_status gg_gguf_open_fd(int fd, gg_gguf **out, uint64_t *file_size, gg_error *err);
void gg_gguf_free(gg_gguf *g);

typedef struct gg_model_options {
    bool lone_shards; /* open a shard alone if another of its set is missing */
    bool cut_data;    /* the header is enough: tensors may lie past the end of their file */
} gg_model_options;

/* As gg_model_open, with options; o may be NULL: all false. */
gg_status gg_model_open_with(const char *path, const gg_model_options *o, gg_model **out,
                             gg_error *err);

#endif

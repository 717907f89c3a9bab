/* gguf_read.h - the seams between the parser, the index and the openers. Internal. */
#ifndef GG_GGUF_READ_H
#define GG_GGUF_READ_H

#include "organ/gg_gguf.h"

#include "base/cursor.h"

/* Parse from the cursor's start; tensors must lie before `data_end` (UINT64_MAX: not known,
 * or the data may be incomplete).
 * `keep` gives what the header lives in: `room` bytes, malloc'd, that begin with all
 * the cursor has passed; NULL = no memory. Nothing is read from the cursor after it. */
typedef uint8_t *gg_gguf_keep(gg_cursor *c, size_t room);
gg_status gg_gguf_parse_cursor(gg_cursor *c, uint64_t data_end, gg_gguf_keep *keep, gg_gguf **out,
                               gg_error *err);

/* The header of a file that had `size` bytes when it was asked: GG_EFORMAT if a read,
 * which may look a step further than the header, meets its end before. */
gg_status gg_gguf_read_file(int fd, uint64_t size, gg_gguf **out, gg_error *err);

/* The same of the GGUF that begins at byte `from` of a file of `size` bytes in all. Its
 * header_bytes and data_start count from the start of the file. With `cut` tensors may lie
 * past the end. */
gg_status gg_gguf_read_part(int fd, uint64_t from, uint64_t size, bool cut, gg_gguf **out,
                            gg_error *err);

/* gg_gguf_open_fd, with `cut` as above. */
gg_status gg_gguf_open_cut(int fd, bool cut, gg_gguf **out, uint64_t *file_size, gg_error *err);

/* *by_name: malloc'd, the indices of n tensors in the order of their names; tensors of one
 * name keep their order. */
gg_status gg_name_index(const gg_tensor *tensors, size_t n, size_t **by_name, gg_error *err);

/* The index of a tensor of that name, or SIZE_MAX. */
size_t gg_name_index_find(const gg_tensor *tensors, const size_t *by_name, size_t n,
                          const char *name, size_t name_len);

/* A tensor whose name an earlier one has, or NULL. ggml keeps names as C strings: "a" and
 * "a\0b" are one name to every engine, and here. */
const gg_tensor *gg_name_index_twice(const gg_tensor *tensors, const size_t *by_name, size_t n);

/* Refuse duplicate keys and names; fill g->by_name. */
gg_status gg_index_build(gg_gguf *g, gg_error *err);

#endif

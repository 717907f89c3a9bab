/* gguf_read.h - functions shared by the header parser, the name index and the openers. Internal. */
#ifndef GG_GGUF_READ_H
#define GG_GGUF_READ_H

#include "organ/gg_gguf.h"

#include "base/cursor.h"

/* Parses a header from the start of the cursor. Tensor data must end before `data_end`, which is
 * UINT64_MAX if the size is unknown or the data may be incomplete.
 * `keep` returns the buffer that becomes gg_gguf.raw: `room` bytes, malloc'd, which begin with
 * all bytes that the cursor has passed. It returns NULL without memory. The cursor is not used
 * after it. */
typedef uint8_t *gg_gguf_keep(gg_cursor *c, size_t room);
gg_status gg_gguf_parse_cursor(gg_cursor *c, uint64_t data_end, gg_gguf_keep *keep, gg_gguf **out,
                               gg_error *err);

/* Whether the first `size` bytes are those of another known format, as gg_fail_kind names it. */
bool gg_is_other_kind(const uint8_t *m, uint64_t size);

/* Fails with GG_EFORMAT for a file that is not GGUF, and names its real format if the first bytes
 * tell. There are `size` of them at m, at least four. */
gg_status gg_fail_kind(const uint8_t *m, uint64_t size, gg_error *err);

/* Reads the header of a file of `size` bytes. Fails with GG_EFORMAT if the file turns out to be
 * shorter while it is read; reads may go a little beyond the header. */
gg_status gg_gguf_read_file(int fd, uint64_t size, gg_gguf **out, gg_error *err);

/* The same for a GGUF that begins at byte `from` of a file of `size` bytes in total. header_bytes
 * and data_start are offsets from the start of the file. With `cut`, tensor data may lie beyond
 * the end of the file. */
gg_status gg_gguf_read_part(int fd, uint64_t from, uint64_t size, bool cut, gg_gguf **out,
                            gg_error *err);

/* Like gg_gguf_open_fd, with `cut` as above. */
gg_status gg_gguf_open_cut(int fd, bool cut, gg_gguf **out, uint64_t *file_size, gg_error *err);

/* Sets *by_name to a malloc'd list of the indices of n tensors, sorted by name. Tensors with the
 * same name keep their order. */
gg_status gg_name_index(const gg_tensor *tensors, size_t n, size_t **by_name, gg_error *err);

/* Returns the index of the tensor with that name, or SIZE_MAX. */
size_t gg_name_index_find(const gg_tensor *tensors, const size_t *by_name, size_t n,
                          const char *name, size_t name_len);

/* Returns a tensor that has the same name as an earlier one, or NULL. Names are compared as C
 * strings, because ggml stores them so: "a" and "a\0b" are duplicates. */
const gg_tensor *gg_name_index_twice(const gg_tensor *tensors, const size_t *by_name, size_t n);

/* Fills g->by_name. Fails with GG_EFORMAT if a key or a tensor name appears twice. */
gg_status gg_index_build(gg_gguf *g, gg_error *err);

#endif

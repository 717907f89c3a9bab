/* gguf_read.h - the seams between the parser, the index and the openers. Internal. */
#ifndef GG_GGUF_READ_H
#define GG_GGUF_READ_H

#include "organ/gg_gguf.h"

#include "base/cursor.h"

/* Parse from the cursor's start; where its end is known, tensors must lie before it.
 * `keep` gives what the header lives in: `room` bytes, malloc'd, that begin with all
 * the cursor has passed; NULL = no memory. Nothing is read from the cursor after it. */
typedef uint8_t *gg_gguf_keep(gg_cursor *c, size_t room);
gg_status gg_gguf_parse_cursor(gg_cursor *c, gg_gguf_keep *keep, gg_gguf **out, gg_error *err);

/* The header of a file that had `size` bytes when it was asked: GG_EFORMAT if a read,
 * which may look a step further than the header, meets its end before. */
gg_status gg_gguf_read_file(int fd, uint64_t size, gg_gguf **out, gg_error *err);

/* Refuse duplicate keys and names; fill g->by_name. */
gg_status gg_index_build(gg_gguf *g, gg_error *err);

#endif

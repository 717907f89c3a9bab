/* gguf_read.h - the seams between the parser, the index and the openers. Internal. */
#ifndef GG_GGUF_READ_H
#define GG_GGUF_READ_H

#include "gguf.h"

#include "../base/cursor.h"

/* Parse from the cursor's start. file_size UINT64_MAX = a pipe, end unknown. */
gg_status gg_gguf_parse_cursor(gg_cursor *c, uint64_t file_size, gg_gguf **out, gg_error *err);

/* Refuse duplicate keys and names; fill g->by_name. */
gg_status gg_index_build(gg_gguf *g, gg_error *err);

#endif

/* record.h - organ records, the .bin files. docs/formats.md describes the format. Internal. */
#ifndef GG_RECORD_H
#define GG_RECORD_H

#include "organ/gg_organ.h"

/* [name_len:u32][name][n_dims:u32][dims:u64 x n][dtype:u32][data], little-endian. */
#define GG_RECORD_NAME 255                                 /* bytes of a name at most */
#define GG_RECORD_HEADER (4 + GG_RECORD_NAME + 4 + 32 + 4) /* bytes before the data at most */

/* Header bytes of t into out; returns how many. name_len <= GG_RECORD_NAME. */
size_t gg_record_header(const gg_tensor *t, uint8_t out[GG_RECORD_HEADER]);

/* Parse a header from `size` bytes. *used 0 and GG_OK when more bytes are needed
 * (size < GG_RECORD_HEADER and nothing wrong so far). t->name points into `bytes`
 * and is NOT NUL-terminated; t->offset is 0. */
gg_status gg_record_parse(const uint8_t *bytes, size_t size, gg_tensor *t, size_t *used,
                          gg_error *err);

#endif

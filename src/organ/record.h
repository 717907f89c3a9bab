/* record.h - headers of organ records, the .bin files. Internal.
 *
 * docs/formats.md describes the format. */
#pragma once

#include "organ/gg_organ.h"

/* [name_len:u32][name][n_dims:u32][dims:u64 x n][dtype:u32][data], little-endian. */
#define GG_RECORD_NAME GG_MAX_NAME
#define GG_RECORD_HEADER \
    (4 + GG_MAX_NAME + 4 + 8 * GG_MAX_DIMS + 4) /* maximum bytes of a header \
                                                 */

/* Writes the header of t to out and returns its length. t->name_len must be at most
 * GG_RECORD_NAME. */
size_t gg_record_header(const gg_tensor *t, uint8_t out[GG_RECORD_HEADER]);

/* Parses a header from `size` bytes and sets *used to its length. If more bytes are needed, it
 * returns GG_OK with *used 0; this happens only if size < GG_RECORD_HEADER. t->name points into
 * `bytes` and is NOT NUL-terminated. t->offset is 0. */
gg_status gg_record_parse(const uint8_t *bytes, size_t size, gg_tensor *t, size_t *used,
                          gg_error *err);

/* The same for a record that no manifest describes. There an empty name is GG_EFORMAT, so
 * that a file of zeros is not taken for records. */
gg_status gg_record_parse_alone(const uint8_t *bytes, size_t size, gg_tensor *t, size_t *used,
                                gg_error *err);

/* GG_EUNSUPPORTED for a tensor with an empty name, which no stream of records can hold. */
gg_status gg_record_check_name(const gg_tensor *t, gg_error *err);

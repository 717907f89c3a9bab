/* first_bytes.h - formats other than GGUF, told from the first bytes of a file or pipe. Internal.
 */
#pragma once

#include "organ/gg_status.h"

#define GG_FIRST_BYTES 128 /* enough to name each format */

/* Whether the bytes are those of a known format that is neither GGUF nor safetensors nor organ
 * records. */
bool gg_is_other_kind(const uint8_t *m, size_t size);

/* Whether they begin a safetensors file: the length of a header in JSON, and the header. */
bool gg_is_safetensors(const uint8_t *m, size_t size);

/* Fails with GG_EFORMAT, and names the format, if the bytes tell it; otherwise returns GG_OK.
 * `not_a` is the format that was expected, "GGUF model". */
gg_status gg_fail_other_kind(const uint8_t *m, size_t size, const char *not_a, gg_error *err);

/* The same for an open file of `size` bytes, whose end is read too: a model may be in a ZIP archive
 * there. The first n bytes are at m. */
gg_status gg_fail_other_file(int fd, uint64_t size, const uint8_t *m, size_t n, const char *not_a,
                             gg_error *err);

/* Whether a program for text has read the bytes as UTF-8 and replaced others by U+FFFD: all are
 * valid, and this character is among them. Only of use for bytes that turned out to be damaged. */
bool gg_is_mangled_text(const uint8_t *m, size_t size);

/* first_bytes.h - formats other than GGUF, told from the first bytes of a file or pipe. Internal.
 */
#pragma once

#include "organ/gg_status.h"

#define GG_FIRST_BYTES 264 /* enough to name each format; a tar archive has its mark at 257 */

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

/* What a program for text has done to the bytes: it replaced those that are not UTF-8 by U+FFFD, or
 * took them for another encoding, or converted the ends of lines. NULL if nothing tells so. Only of
 * use for bytes that turned out to be damaged. */
const char *gg_text_damage(const uint8_t *m, size_t size);

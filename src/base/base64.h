/* base64.h - strict base64 as in RFC 4648 section 4. Internal. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Number of characters that encode n bytes, with padding and without a NUL. n is at most
 * SIZE_MAX / 2. */
size_t gg_base64_length(size_t n);

/* Writes gg_base64_length(n) characters and no NUL. */
void gg_base64_encode(const void *bytes, size_t n, char *out);

/* Writes at most len / 4 * 3 bytes and sets *n. `out` may be the text itself.
 * Returns false if the text contains a character outside the alphabet (white space included),
 * if padding is missing or misplaced, or if unused bits at the end are not zero. Therefore
 * exactly one text decodes to any given bytes. */
bool gg_base64_decode(const char *text, size_t len, void *out, size_t *n);

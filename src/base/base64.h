/* base64.h - RFC 4648 section 4, strict. Internal. */
#ifndef GG_BASE64_H
#define GG_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* Characters for n bytes, padding counted, no NUL. n up to SIZE_MAX / 2. */
size_t gg_base64_length(size_t n);

/* Writes gg_base64_length(n) characters, no NUL. */
void gg_base64_encode(const void *bytes, size_t n, char *out);

/* Most bytes that `len` characters can decode to. */
size_t gg_base64_capacity(size_t len);

/* Writes at most gg_base64_capacity(len) bytes (out may be the text itself) and
 * sets *n. False on a foreign character (white space too), missing or misplaced
 * padding, or bits left over that are not zero: one text only for any bytes. */
bool gg_base64_decode(const char *text, size_t len, void *out, size_t *n);

#endif

/* utf8.h - one strict UTF-8 decoder for everything. Internal. */
#ifndef GG_UTF8_H
#define GG_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length 1..4 of the well-formed sequence at s (RFC 3629: no overlong forms, no
 * surrogates, at most U+10FFFF) and its code point; 0 if there is none. */
size_t gg_utf8_next(const char *s, size_t len, uint32_t *code_point);

bool gg_utf8_valid(const char *s, size_t len);

#endif

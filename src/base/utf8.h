/* utf8.h - a strict UTF-8 decoder (RFC 3629). Internal. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes the sequence at s. Returns its length 1..4 and sets *code_point, or returns 0 if s
 * does not start with a well-formed sequence. Overlong forms, surrogates and code points above
 * U+10FFFF are not well-formed. */
size_t gg_utf8_next(const char *s, size_t len, uint32_t *code_point);

bool gg_utf8_valid(const char *s, size_t len);

/* Whether the code point could move the cursor, reorder what a terminal shows, or hide. */
bool gg_utf8_unsafe(uint32_t code_point);

/* Whether this byte can begin a character. */
static inline bool gg_utf8_begins(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

/* name_span.h - part of a tensor's name, for the rules of the anatomy. Internal. */
#ifndef GG_NAME_SPAN_H
#define GG_NAME_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct gg_span {
    const char *s;
    size_t n;
} gg_span;

/* How many bytes at the beginning of x are those of text. Nearly all of the many comparisons of
 * the rules end at the first byte, which calls of strlen and memcmp would make slow. */
static inline size_t gg_span_common(gg_span x, const char *text)
{
    size_t n = 0;
    while (n < x.n && text[n] != '\0' && x.s[n] == text[n]) n++;
    return n;
}

static inline bool gg_span_starts(gg_span x, const char *text)
{
    return text[gg_span_common(x, text)] == '\0';
}

static inline bool gg_span_is(gg_span x, const char *text)
{
    size_t n = gg_span_common(x, text);
    return n == x.n && text[n] == '\0';
}

static inline bool gg_span_ends(gg_span x, const char *text)
{
    size_t n = strlen(text);
    return x.n >= n && gg_span_starts((gg_span){ x.s + x.n - n, n }, text);
}

static inline bool gg_span_has(gg_span x, const char *text)
{
    for (; x.n > 0; x.s++, x.n--)
        if (gg_span_starts(x, text)) return true;
    return false;
}

/* As gg_span_is, but a text that ends with '*' matches any rest. */
static inline bool gg_span_fits(gg_span x, const char *text)
{
    size_t n = gg_span_common(x, text);
    if (text[n] == '*') return true;
    return text[n] == '\0' && (n == x.n || (n > 0 && text[n - 1] == '*'));
}

static inline gg_span gg_span_drop(gg_span x, size_t n)
{
    return (gg_span){ x.s + n, x.n - n };
}

static inline gg_span gg_span_cut(gg_span x, size_t n)
{
    return (gg_span){ x.s, x.n - n };
}

/* The next segment of a dotted name; *rest is what follows. False at the end. */
static inline bool gg_span_segment(gg_span *rest, gg_span *segment)
{
    if (rest->n == 0) return false;
    const char *dot = memchr(rest->s, '.', rest->n);
    size_t n = dot ? (size_t)(dot - rest->s) : rest->n;
    *segment = (gg_span){ rest->s, n };
    *rest = gg_span_drop(*rest, dot ? n + 1 : n);
    return true;
}

/* A list that ends with NULL; entries that end with '*' match any rest. */
static inline bool gg_span_in(gg_span x, const char *const *list)
{
    for (; *list; list++)
        if (gg_span_fits(x, *list)) return true;
    return false;
}

#endif

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

static inline bool gg_span_is(gg_span x, const char *text)
{
    return x.n == strlen(text) && memcmp(x.s, text, x.n) == 0;
}

static inline bool gg_span_starts(gg_span x, const char *text)
{
    size_t n = strlen(text);
    return x.n >= n && memcmp(x.s, text, n) == 0;
}

static inline bool gg_span_ends(gg_span x, const char *text)
{
    size_t n = strlen(text);
    return x.n >= n && memcmp(x.s + x.n - n, text, n) == 0;
}

static inline bool gg_span_has(gg_span x, const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i + n <= x.n; i++)
        if (memcmp(x.s + i, text, n) == 0) return true;
    return false;
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
    for (; *list; list++) {
        size_t n = strlen(*list);
        if ((*list)[n - 1] == '*' ? x.n >= n - 1 && memcmp(x.s, *list, n - 1) == 0
                                  : gg_span_is(x, *list))
            return true;
    }
    return false;
}

#endif

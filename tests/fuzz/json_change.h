/* json_change.h - changes a JSON text by its structure: numbers become odd ones, strings change
 * places, and members and items are doubled and removed. tests/unit/mutant.c and mutate.c use it.
 */
#ifndef JSON_CHANGE_H
#define JSON_CHANGE_H

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct json_text {
    char *p; /* malloc'd */
    size_t n;
    size_t (*below)(size_t n); /* a random number below n */
} json_text;

/* Replaces n bytes by `with`. */
static inline void json_put(json_text *t, size_t at, size_t n, const char *with, size_t size)
{
    char *p = malloc(t->n - n + size + 1);
    if (!p) exit(2);
    memcpy(p, t->p, at);
    memcpy(p + at, with, size);
    memcpy(p + at + size, t->p + at + n, t->n - at - n);
    free(t->p);
    t->p = p;
    t->n += size - n;
}

/* The place of the first byte `c` behind a random one; n if there is none. */
static inline size_t json_find(const json_text *t, char c)
{
    size_t from = t->below(t->n);
    for (size_t i = 0; i < t->n; i++)
        if (t->p[(from + i) % t->n] == c) return (from + i) % t->n;
    return t->n;
}

/* A piece between two commas or brackets, which may be a member or an item. */
static inline void json_piece(const json_text *t, size_t *at, size_t *n)
{
    size_t from = json_find(t, ',');
    *at = from < t->n ? from + 1 : 0;
    size_t end = *at;
    for (int depth = 0; end < t->n && (depth > 0 || !strchr(",}]", t->p[end])); end++) {
        depth += t->p[end] == '{' || t->p[end] == '[';
        depth -= t->p[end] == '}' || t->p[end] == ']';
    }
    *n = end - *at;
}

static inline void json_change_number(json_text *t)
{
    static const char *const odd[] = { "0",       "1",          "-1",
                                       "3",       "255",        "4294967295",
                                       "1e3",     "4294967296", "9223372036854775807",
                                       "1048576", "0.5",        "18446744073709551615" };
    size_t at = t->below(t->n), end;
    for (size_t i = 0; i < t->n && !isdigit((unsigned char)t->p[at]); i++) at = (at + 1) % t->n;
    for (end = at; end < t->n && isdigit((unsigned char)t->p[end]);) end++;
    const char *with = odd[t->below(sizeof odd / sizeof *odd)];
    if (end > at) json_put(t, at, end - at, with, strlen(with));
}

/* One string becomes another one of the text. */
static inline void json_change_string(json_text *t)
{
    size_t place[2], size[2];
    for (int k = 0; k < 2; k++) {
        place[k] = json_find(t, '"');
        if (place[k] >= t->n) return;
        for (size[k] = 1; place[k] + size[k] < t->n && t->p[place[k] + size[k]] != '"';) size[k]++;
    }
    char *copy = malloc(size[1] + 1);
    if (!copy) exit(2);
    memcpy(copy, t->p + place[1], size[1]);
    json_put(t, place[0], size[0], copy, size[1]);
    free(copy);
}

static inline void json_double(json_text *t)
{
    size_t at, n, to = json_find(t, ',');
    json_piece(t, &at, &n);
    char *copy = malloc(n + 1);
    if (!copy) exit(2);
    memcpy(copy, t->p + at, n);
    copy[n] = ',';
    if (to < t->n) json_put(t, to + 1, 0, copy, n + 1);
    free(copy);
}

static inline void json_remove(json_text *t)
{
    size_t at, n;
    json_piece(t, &at, &n);
    json_put(t, at, n + (at + n < t->n), "", 0);
}

static inline void json_change(json_text *t)
{
    if (t->n == 0) return;
    switch (t->below(5)) {
    case 0:
    case 1: json_change_number(t); break;
    case 2: json_change_string(t); break;
    case 3: json_double(t); break;
    default: json_remove(t);
    }
}

#endif

/* nearest.c - the edit distance between short words. */
#include "nearest.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define LONGEST 64 /* longer words are never near */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

/* The number of letters to insert, delete, replace or swap with their neighbour. Rows of the
 * usual table are kept for the last two letters of a. */
static size_t distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t rows[3][LONGEST + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= nb; j++) last[j] = before[j] = j;
    for (size_t i = 1; i <= na; i++) {
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            char x = lower(a[i - 1]), y = lower(b[j - 1]);
            size_t d = last[j - 1] + (x != y);
            if (last[j] + 1 < d) d = last[j] + 1;
            if (row[j - 1] + 1 < d) d = row[j - 1] + 1;
            if (i > 1 && j > 1 && x == lower(b[j - 2]) && lower(a[i - 2]) == y &&
                before[j - 2] + 1 < d)
                d = before[j - 2] + 1;
            row[j] = d;
        }
        size_t *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[nb];
}

const char *gg_nearest(const char *word, size_t len, const char *const *list, size_t n)
{
    const char *found = NULL;
    size_t best = len < 4 ? 1 : len < 8 ? 2 : 3;
    if (len == 0 || len > LONGEST) return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t m = list[i] ? strlen(list[i]) : 0;
        if (m == 0 || m > LONGEST) continue;
        if (len >= 3 && m > len && strncasecmp(word, list[i], len) == 0) return list[i];
        size_t d = distance(word, len, list[i], m);
        if (d >= len || d > best || (found && d == best)) continue;
        found = list[i];
        best = d;
    }
    return found;
}

const char *gg_meant(const char *near, char text[GG_MEANT])
{
    text[0] = '\0';
    if (near) snprintf(text, GG_MEANT, " (did you mean '%s'?)", near);
    return text;
}

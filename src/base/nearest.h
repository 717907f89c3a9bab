/* nearest.h - finds the known word that a misspelt one probably means. Internal. */
#pragma once

#include <stddef.h>

/* Returns the word of list[n] nearest to word[len], ignoring case: a word that begins with it, or
 * else the first of those with the fewest letters inserted, left out, replaced or swapped. Returns
 * NULL if none is near. NULL entries of the list are skipped. */
const char *gg_nearest(const char *word, size_t len, const char *const *list, size_t n);

/* Room for the text of gg_meant. */
#define GG_MEANT 96

/* Writes the end of an error text, " (did you mean 'NEAR'?)", where near comes from gg_nearest and
 * may have a prefix of two letters. Writes nothing if near is NULL. Returns text. */
const char *gg_meant(const char *near, char text[GG_MEANT]);

/* text_index.h - finds texts of a list by their bytes. Internal. */
#pragma once

#include "organ/gg_status.h"

/* A hash table of numbers of texts. Set `at`, perhaps `expect`, and the rest to zero. `list` is the
 * first argument of `at` in each call. */
typedef struct gg_text_index {
    const char *(*at)(const void *list, size_t i, size_t *len); /* text number i */
    size_t expect; /* so many texts will be added: the table need not grow */
    /* Half a hash above 1 + the number of a text; 0 = empty. The start of hashes is an address,
     * which differs from run to run, so that nobody can choose texts that share a slot. */
    uint64_t *slots;
    uint64_t start;
    size_t n, n_slots; /* n_slots is a power of 2, at least twice n */
} gg_text_index;

/* The number of the text with these bytes; SIZE_MAX if there is none. */
size_t gg_text_find(const gg_text_index *x, const void *list, const char *bytes, size_t n);

/* Adds text number i, unless the index has the same bytes: *was is the number of that text, or
 * SIZE_MAX. GG_EUNSUPPORTED for numbers from 2^30 on. */
gg_status gg_text_add(gg_text_index *x, const void *list, size_t i, size_t *was, gg_error *err);

void gg_text_index_free(gg_text_index *x); /* frees the table only */

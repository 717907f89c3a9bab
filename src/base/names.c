/* names.c - strings stored in a linked list of chunks. */
#include "names.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK ((size_t)16384)

struct gg_names_chunk {
    struct gg_names_chunk *before;
    size_t used, size;
    char bytes[];
};

static bool grow(gg_names *names, size_t n)
{
    size_t size = n > CHUNK ? n : CHUNK;
    struct gg_names_chunk *c = size < SIZE_MAX - sizeof *c ? malloc(sizeof *c + size) : NULL;
    if (!c) return false;
    c->before = names->last;
    c->used = 0;
    c->size = size;
    names->last = c;
    return true;
}

const char *gg_names_add(gg_names *names, const char *bytes, size_t n, gg_error *err)
{
    struct gg_names_chunk *c = names->last;
    if (n == SIZE_MAX || ((!c || c->size - c->used < n + 1) && !grow(names, n + 1))) {
        gg_fail(err, GG_ENOMEM, "no memory for a name of %zu bytes", n);
        return NULL;
    }
    c = names->last;
    assert(c->used + n < c->size);
    char *copy = c->bytes + c->used;
    if (n) memcpy(copy, bytes, n);
    copy[n] = '\0';
    c->used += n + 1;
    return copy;
}

void gg_names_free(gg_names *names)
{
    while (names->last) {
        struct gg_names_chunk *c = names->last;
        names->last = c->before;
        free(c);
    }
}

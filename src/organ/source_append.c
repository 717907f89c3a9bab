/* source_append.c - the list of tensors that a source of records grows by. */
#include "source.h"

#include <stdlib.h>
#include <string.h>

gg_status gg_source_append(gg_source *s, const gg_tensor *t, record_place place, gg_error *err)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 64;
        /* names first: from then on the tensors are known to be the source's own */
        void *names = realloc(s->names, cap * sizeof *s->names);
        if (names) s->names = names;
        void *places = names ? realloc(s->places, cap * sizeof *s->places) : NULL;
        if (places) s->places = places;
        void *tensors = places ? realloc(s->tensors, cap * sizeof *s->tensors) : NULL;
        if (!tensors) return gg_fail(err, GG_ENOMEM, "no memory for a list of tensors");
        s->tensors = tensors;
        s->cap = cap;
    }
    char *name = malloc(t->name_len + 1);
    if (!name) return gg_fail(err, GG_ENOMEM, "no memory for a list of tensors");
    memcpy(name, t->name, t->name_len);
    name[t->name_len] = '\0';
    s->tensors[s->n] = *t;
    s->tensors[s->n].name = name;
    s->places[s->n] = place;
    s->names[s->n++] = name;
    return GG_OK;
}

/* source_append.c - append tensors to the list of a source of records. */
#include "source.h"

#include <stdlib.h>
#include <string.h>

static gg_status no_memory_to_append(gg_error *err)
{
    return gg_fail(err, GG_ENOMEM, "no memory for a list of tensors");
}

static bool grow(void **list, size_t cap, size_t size)
{
    void *grown = realloc(*list, cap * size);
    if (grown) *list = grown;
    return grown != NULL;
}

/* Makes room for one more item in every list. */
static bool make_room(gg_source *s)
{
    if (s->n < s->cap) return true;
    size_t cap = s->cap ? s->cap * 2 : 64;
    void *names = s->names, *places = s->places, *streamed = s->streamed, *tensors = s->tensors;
    bool pipe = s->kind == SOURCE_PIPE_RECORDS;
    bool ok = grow(&names, cap, sizeof *s->names) && grow(&places, cap, sizeof *s->places) &&
              (pipe ? grow(&streamed, cap, sizeof *s->streamed)
                    : grow(&tensors, cap, sizeof *s->tensors));
    s->names = names, s->places = places, s->streamed = streamed, s->tensors = tensors;
    if (ok) s->cap = cap;
    return ok;
}

gg_status gg_source_append(gg_source *s, const gg_tensor *t, record_place place, gg_error *err)
{
    if (!make_room(s)) return no_memory_to_append(err);
    bool pipe = s->kind == SOURCE_PIPE_RECORDS;
    char *name = malloc(t->name_len + 1);
    if (!name) return no_memory_to_append(err);
    gg_tensor *to = pipe ? malloc(sizeof *to) : &s->tensors[s->n];
    if (!to) {
        free(name);
        return no_memory_to_append(err);
    }
    memcpy(name, t->name, t->name_len);
    name[t->name_len] = '\0';
    *to = *t;
    to->name = name;
    if (pipe) s->streamed[s->n] = to;
    s->places[s->n] = place;
    s->names[s->n++] = name;
    return GG_OK;
}

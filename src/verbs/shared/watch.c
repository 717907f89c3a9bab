/* watch.c - a short list of distinct sources. */
#include "watch.h"

#include "base/grow.h"
#include "organ/source_watch.h"

#include <stdlib.h>

gg_status gg_watch_add(gg_watch *w, const gg_source *s, gg_error *err)
{
    for (size_t i = w->n; i > 0; i--) /* from the end: parts of one source follow one another */
        if (w->list[i - 1] == s) return GG_OK;
    if (!s) return GG_OK;
    const gg_source **grown = gg_grow(w->list, w->n, &w->cap, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    w->list = grown;
    w->list[w->n++] = s;
    return GG_OK;
}

gg_status gg_watch_check(const gg_watch *w, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < w->n && st == GG_OK; i++) st = gg_source_unchanged(w->list[i], err);
    return st;
}

void gg_watch_free(gg_watch *w)
{
    free(w->list);
    *w = (gg_watch){ 0 };
}

/* watch.h - the sources of an output, checked before it gets its name. Internal. */
#ifndef GG_WATCH_H
#define GG_WATCH_H

#include "organ/gg_organ.h"

/* Start from all zero. The sources must outlive it. */
typedef struct gg_watch {
    const gg_source **list;
    size_t n, cap;
} gg_watch;

/* Adds a source. NULL and a source that the list holds already are ignored. */
gg_status gg_watch_add(gg_watch *w, const gg_source *s, gg_error *err);

/* GG_EIO for the first file of a source that changed, see gg_source_unchanged. */
gg_status gg_watch_check(const gg_watch *w, gg_error *err);
void gg_watch_free(gg_watch *w);

#endif

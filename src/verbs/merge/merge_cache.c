/* merge_cache.c - memory for the encoded inputs of a tensor. */
#include "merge_cache.h"

#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)
#define HEAD ((size_t)64) /* bytes before the memory that is given out; a cache line */

/* Precedes the memory. */
typedef struct gg_cache_memory {
    struct gg_cache_memory *next;
    size_t size; /* without the head */
} gg_cache_memory;

void gg_merge_cache_init(gg_merge_cache *c)
{
    *c = (gg_merge_cache){ 0 };
    pthread_mutex_init(&c->lock, NULL);
}

void gg_merge_cache_free(gg_merge_cache *c)
{
    while (c->free) {
        gg_cache_memory *next = c->free->next;
        free(c->free);
        c->free = next;
    }
    pthread_mutex_destroy(&c->lock);
}

/* Large memory is in huge pages, which need fewer page faults. */
static gg_cache_memory *new_memory(size_t size)
{
    size_t unit = size < HUGE_PAGE ? HEAD : HUGE_PAGE;
    size_t all = (size + HEAD + unit - 1) / unit * unit;
    gg_cache_memory *m = aligned_alloc(unit, all);
#ifdef MADV_HUGEPAGE
    if (m && unit == HUGE_PAGE) (void)madvise(m, all, MADV_HUGEPAGE);
#endif
    if (m) *m = (gg_cache_memory){ NULL, all - HEAD };
    return m;
}

void *gg_merge_cache_take(gg_merge_cache *c, uint64_t size)
{
    if (size > c->most) return NULL;
    pthread_mutex_lock(&c->lock);
    gg_cache_memory *m = c->free;
    if (m) c->free = m->next;
    pthread_mutex_unlock(&c->lock);
    if (m && m->size < size) {
        free(m);
        m = NULL;
    }
    if (!m) m = new_memory((size_t)size);
    return m ? (char *)m + HEAD : NULL;
}

void gg_merge_cache_give(gg_merge_cache *c, void *memory)
{
    if (!memory) return;
    gg_cache_memory *m = (gg_cache_memory *)(void *)((char *)memory - HEAD);
    pthread_mutex_lock(&c->lock);
    m->next = c->free;
    c->free = m;
    pthread_mutex_unlock(&c->lock);
}

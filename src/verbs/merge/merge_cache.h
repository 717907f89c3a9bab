/* merge_cache.h - memory for the encoded inputs of a tensor. Internal.
 *
 * A method with several passes reads the inputs only once if they fit. The memory of a tensor is
 * used again for later tensors, because the kernel has to clear new memory.
 */
#ifndef GG_MERGE_CACHE_H
#define GG_MERGE_CACHE_H

#include <pthread.h>
#include <stdint.h>

/* May be used by several threads between gg_merge_cache_init and gg_merge_cache_free. */
typedef struct gg_merge_cache {
    pthread_mutex_t lock;
    uint64_t most; /* bytes per tensor; 0 at the start */
    struct gg_cache_memory *free;
} gg_merge_cache;

void gg_merge_cache_init(gg_merge_cache *c);
void gg_merge_cache_free(gg_merge_cache *c);

/* Memory of at least `size` bytes. NULL if these are more than c->most, or without memory: then
 * read the inputs again. Give it back with gg_merge_cache_give, which accepts NULL. */
void *gg_merge_cache_take(gg_merge_cache *c, uint64_t size);
void gg_merge_cache_give(gg_merge_cache *c, void *memory);

#endif

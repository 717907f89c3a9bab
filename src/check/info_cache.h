/* info_cache.h - the cache of keys and values that a model needs. Internal. */
#pragma once

#include "check_context.h"
#include "organ/gg_info.h"

#define GG_INFO_BLOCKS 100000 /* far above the block_count of any real model */

/* The cache of the model in c. known is false for architectures whose cache is not described. */
gg_cache gg_info_cache(const check *c);

/* info_cache.h - the cache of keys and values that a model needs. Internal. */
#pragma once

#include "arch/design.h"
#include "organ/gg_info.h"

#define GG_INFO_BLOCKS 100000 /* far above the block_count of any real model */

/* The cache of a model. known is false for architectures whose record does not describe it. */
gg_cache gg_info_cache(const gg_design *d);

/* added_blocks.h - keys that grow when a graft brings whole blocks that the base lacks.
 * Internal. */
#ifndef GG_ADDED_BLOCKS_H
#define GG_ADDED_BLOCKS_H

#include "organ/gg_transplant.h"

/* The base's keys into `meta` (empty). Where moves add blocks from the base's block_count
 * on, block_count and every key with one value per block grow by the donor's values for
 * them, as for MTP blocks; see gg_layer_keys. GG_NO where they leave a gap behind the base's
 * blocks, and where gg_layer_keys refuses them. A base without block_count keeps its keys. */
gg_status gg_added_blocks_meta(const gg_source *base, const gg_source *donor, const gg_moves *moves,
                               gg_meta *meta, gg_error *err);

#endif

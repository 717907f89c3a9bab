/* match_tensors.h - the keys of a base that gets blocks in addition. Internal. */
#pragma once

#include "organ/gg_transplant.h"

/* Write the base's keys to `meta` (empty). If moves add blocks from the base's block_count on,
 * block_count and every key with one value per block are extended by the donor's values, as
 * for MTP blocks; see gg_layer_keys. With `mtp` they follow the last block before the base's MTP
 * blocks. GG_NO if there is a gap after the base's blocks, or if gg_layer_keys refuses the blocks.
 * A base without block_count keeps its keys. */
gg_status gg_added_blocks_meta(const gg_source *base, const gg_source *donor, const gg_moves *moves,
                               bool mtp, gg_meta *meta, gg_error *err);

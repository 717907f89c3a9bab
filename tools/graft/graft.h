/* graft.h - parts of a transplant. Internal. */
#pragma once

#include "gg_transplant.h"
#include "organ/imatrix.h"

/* Write the base's keys to `meta` (empty). If moves add blocks from the base's block_count on,
 * block_count and every key with one value per block are extended by the donor's values, as
 * for MTP blocks; see gg_layer_keys. With `mtp` they follow the last block before the base's MTP
 * blocks. GG_NO if there is a gap after the base's blocks, or if gg_layer_keys refuses the blocks.
 * A base without block_count keeps its keys. */
gg_status gg_added_blocks_meta(const gg_source *base, const gg_source *donor, const gg_moves *moves,
                               bool mtp, gg_meta *meta, gg_error *err);

/* ---- the importance matrix of the base follows --------------------------------------------- */

typedef struct gg_moved_models {
    gg_source *base, *donor;
    const gg_moves *moves; /* in the order of the base; none for an adapter */
    const gg_match_options *match;
    gg_imatrix *imatrix; /* of the base */
} gg_moved_models;

/* Writes the entries of the base, and those of the donor's importance matrix for what moved: with
 * the blocks, experts and units of the base. A blend gets the sum of both entries. Matrices that
 * moved and are not in `donor` (NULL: there is none) are left out and noted. Errors: GG_EFORMAT for
 * an importance matrix of another model; GG_NO if no entry is left; as gg_plan_write. */
gg_status gg_transplant_imatrix(const gg_moved_models *x, const char *donor, const char *output,
                                const gg_run *run, gg_error *err);

/* mtp.h - moves multi-token-prediction blocks from a donor into a base that has none.
 * Internal. See the section on MTP in docs/grafting.md. */
#ifndef GG_MTP_H
#define GG_MTP_H

#include "organ/gg_transplant.h"

/* Fills in `moves` for gg_match_options.mtp, with the rules of gg_match_tensors. */
gg_status gg_mtp_moves(const gg_source *base, const gg_source *donor, gg_moves *moves,
                       gg_error *err);

/* Writes the base's keys to `meta` (empty), with block_count, nextn_predict_layers and every
 * per-layer array extended by the donor's values for those blocks. */
gg_status gg_mtp_meta(const gg_source *base, const gg_source *donor, gg_meta *meta, gg_error *err);

#endif

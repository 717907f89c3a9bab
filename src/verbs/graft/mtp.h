/* mtp.h - multi-token-prediction blocks from a donor into a base that has none.
 * Internal. Facts: docs/grafting.md, section on MTP. */
#ifndef GG_MTP_H
#define GG_MTP_H

#include "organ/gg_transplant.h"

/* The base's keys into `meta` (empty), with block_count, nextn_predict_layers and every
 * per-layer array grown by the donor's values for those blocks. */
gg_status gg_mtp_meta(const gg_source *base, const gg_source *donor, gg_meta *meta, gg_error *err);

#endif

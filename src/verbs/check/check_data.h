/* check_data.h - checks of the values of the weights. Internal. */
#ifndef GG_CHECK_DATA_H
#define GG_CHECK_DATA_H

#include "organ/gg_check.h"

/* Report a finding and count it in `found`, for a check without a `check` context. */
gg_status gg_check_report_one(const gg_finding *f, gg_finding_fn fn, void *ctx,
                              size_t found[GG_CHECK_LEVELS], gg_error *err);

/* Read all tensors of a source and report problems with their values. */
gg_status gg_check_data(gg_source *s, const gg_run *run, gg_finding_fn fn, void *ctx,
                        size_t found[GG_CHECK_LEVELS], gg_error *err);

#endif

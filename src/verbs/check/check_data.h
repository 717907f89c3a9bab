/* check_data.h - what the weights themselves show. Internal. */
#ifndef GG_CHECK_DATA_H
#define GG_CHECK_DATA_H

#include "organ/gg_check.h"

/* Report a finding of a check that has no rules' context: counts it in `found`. */
gg_status gg_check_report_one(const gg_finding *f, gg_finding_fn fn, void *ctx,
                              size_t found[GG_CHECK_LEVELS], gg_error *err);

/* Read all tensors of a source and report what is wrong with their values. */
gg_status gg_check_data(gg_source *s, const gg_run *run, gg_finding_fn fn, void *ctx,
                        size_t found[GG_CHECK_LEVELS], gg_error *err);

#endif

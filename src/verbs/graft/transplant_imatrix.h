/* transplant_imatrix.h - the importance matrix of a base that gets tensors of a donor. Internal. */
#pragma once

#include "organ/gg_transplant.h"
#include "organ/imatrix.h"

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

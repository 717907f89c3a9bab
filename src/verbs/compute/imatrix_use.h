/* imatrix_use.h - which tensors are encoded with an importance matrix, and the keys that tell of
 * it. Internal. Every function does nothing if the matrix is NULL. */
#ifndef GG_IMATRIX_USE_H
#define GG_IMATRIX_USE_H

#include "organ/imatrix.h"
#include "verbs/plan/plan.h"

typedef struct gg_imatrix_use {
    const gg_imatrix *imatrix;
    size_t used, lacking; /* tensors that are encoded: those that it has, and the others */
    char names[256];      /* the first of the others */
} gg_imatrix_use;         /* start from { .imatrix = ... } */

/* Counts tensor t, which is encoded. GG_EFORMAT names it if its columns or matrices do not match
 * the importance matrix. */
gg_status gg_imatrix_use_add(gg_imatrix_use *u, const gg_tensor *t, gg_error *err);

/* Call it when all tensors are counted: notes those that the importance matrix lacks. */
void gg_imatrix_use_note(const gg_imatrix_use *u, const gg_run *run);

/* Both, for the tensors of a plan that are computed. *used, if it is not NULL, is how many are
 * encoded with the importance matrix. */
gg_status gg_imatrix_review(const gg_imatrix *imatrix, const gg_plan *p, size_t *used,
                            const gg_run *run, gg_error *err);

/* Replaces the keys quantize.imatrix.* as llama-quantize does. */
gg_status gg_imatrix_keys(const gg_imatrix *imatrix, gg_meta *meta, gg_error *err);

#endif

/* compute_weights.h - the weights that encoders take from an importance matrix. Internal to
 * compute_*.c.
 */
#ifndef GG_COMPUTE_WEIGHTS_H
#define GG_COMPUTE_WEIGHTS_H

#include "organ/imatrix.h"

/* The weights of one tensor. All zero: it is encoded without weights. */
typedef struct gg_weights {
    gg_importance of;
    uint64_t first; /* index in of.mean2 of the tensor's first column */
    uint64_t rows;  /* per matrix */
} gg_weights;

/* The weights of tensor t, or none if imatrix is NULL or lacks it, or if t's dtype uses none. t may
 * be a part of a stack of stack_size matrices that starts at matrix stack_first; stack_size is 0
 * for a whole tensor. Ends with gg_weights_close. Errors as gg_imatrix_read. */
gg_status gg_weights_open(gg_weights *w, const gg_imatrix *imatrix, const gg_tensor *t,
                          uint64_t stack_first, uint64_t stack_size, gg_error *err);
void gg_weights_close(gg_weights *w);

/* The weights of n values from value `first` on, one per value, which gg_encode takes as those of
 * a row. They are stored in room, which has space for n; NULL if there are none. */
const float *gg_weights_of(const gg_weights *w, uint64_t first, size_t n, float *room);

#endif

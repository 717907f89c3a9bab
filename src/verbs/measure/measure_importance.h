/* measure_importance.h - the column `importance`: the mean squared output of a tensor on the
 * calibration text of an importance matrix, summed while the tensor is read. Internal.
 */
#ifndef GG_MEASURE_IMPORTANCE_H
#define GG_MEASURE_IMPORTANCE_H

#include "verbs/shared/column_weights.h"

typedef struct importance_taker {
    uint32_t dtype;
    gg_column_weights weights;
    double sums[2];
} importance_taker;

/* Starts with a tensor. gg_importance_end must be called, also after an error. *any is true if the
 * tensor has an importance, and its values must be added. Errors as gg_imatrix_read. */
gg_status gg_importance_start(importance_taker *k, const gg_imatrix *imatrix, const gg_tensor *t,
                              bool *any, gg_error *err);

/* Adds the elements [first, first + n) in whole blocks. */
gg_status gg_importance_add(importance_taker *k, const uint8_t *bytes, uint64_t first, uint64_t n,
                            gg_error *err);

/* Frees the memory. Returns the importance, or NaN if there is none. */
double gg_importance_end(importance_taker *k);

#endif

/* column_weights.h - sums over a tensor in which an importance matrix weighs the columns: the mean
 * squared output of a matrix on the calibration text, and that of an error. Internal.
 */
#pragma once

#include "organ/imatrix.h"

/* The weights of one tensor. All zero: it has none. */
typedef struct gg_column_weights {
    gg_importance of;
    uint64_t rows; /* per matrix */
} gg_column_weights;

/* Reads the weights of t, see gg_imatrix_read_per_token. There are none if imatrix is NULL or lacks
 * t, or if t cannot be decoded. Ends with gg_column_weights_close, also after an error. */
gg_status gg_column_weights_open(gg_column_weights *w, const gg_imatrix *imatrix,
                                 const gg_tensor *t, gg_error *err);
void gg_column_weights_close(gg_column_weights *w);

/* True if there are weights. */
bool gg_column_weights_any(const gg_column_weights *w);

/* Bytes of memory that they need. */
uint64_t gg_column_weights_bytes(const gg_column_weights *w);

/* Adds the n values from value `first` of the tensor on to the sums of gg_weighted_add. Does
 * nothing if there are no weights. */
void gg_column_weights_add(const gg_column_weights *w, uint64_t first, const float *a,
                           const float *b, size_t n, double sums[2]);

/* encode_error.h - how far encoded values are from the values that were encoded. Internal. */
#ifndef GG_ENCODE_ERROR_H
#define GG_ENCODE_ERROR_H

#include "organ/gg_quant.h"

typedef struct gg_encode_error {
    uint64_t n;                        /* values compared */
    double error, signal;              /* sums of (y - x)^2 and x^2 */
    double weighed_error, weighed_sum; /* the same, times the importance of the column */
    bool weighed;                      /* whether there was an importance matrix */
} gg_encode_error;

/* n values x, and their encodings. */
typedef struct gg_encoded {
    uint32_t dtype;
    const float *x;
    const void *blocks;
    size_t n;
    const float *weights; /* one per value, or NULL */
    float *room;          /* for n values */
} gg_encoded;
gg_status gg_encode_error_add(gg_encode_error *e, const gg_encoded *v, gg_error *err);

void gg_encode_error_merge(gg_encode_error *e, const gg_encode_error *part);

/* Root mean square error; 0 if no values were compared. */
double gg_encode_rmse(const gg_encode_error *e);

/* |y - x|^2 / |x|^2, or the same weighed by importance; 0 if x is 0. */
double gg_encode_relative2(const gg_encode_error *e, bool weighed);

#endif

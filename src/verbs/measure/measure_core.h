/* measure_core.h - the inside of organ-measure's verb: taking the values of a tensor
 * that its measures need, and the null model. Internal.
 */
#ifndef GG_MEASURE_CORE_H
#define GG_MEASURE_CORE_H

#include "numeric/measure_big.h"
#include "numeric/numeric.h"
#include "organ/gg_measure_model.h"
#include "verbs/shared/selected_tensors.h"

#include <pthread.h>

#define MEASURE_RAW ((size_t)256 << 10) /* bytes read at once */
#define MEASURE_SHARED \
    (UINT64_C(4) << 20) /* of more values one tensor is held, and threads share it */

/* Buffers of one thread. Start from { 0 }. */
typedef struct measure_space {
    uint8_t *raw;  /* MEASURE_RAW */
    float *row[2]; /* GG_ROW_RUN values each, and one */
    float *values; /* cap of them */
    uint64_t cap;
    void *scratch;    /* for gg_measure_values, up to GG_MEASURE_BIG values */
    float block[256]; /* a decoded block */
} measure_space;

gg_status gg_measure_space(measure_space *w, uint64_t values, gg_error *err); /* have room */
void gg_measure_space_free(measure_space *w);

/* What is taken of a piece. */
typedef struct measure_take {
    float *values;
    uint64_t count;
    gg_row_theta rows;
} measure_take;

/* Fill take->values with the samples of the piece and take->rows with its row pairs.
 * d is open on the piece's tensor; a pipe is read forward through the piece. */
gg_status gg_measure_collect(gg_data *d, const gg_selected *p, measure_space *w, const gg_run *run,
                             measure_take *take, gg_error *err);

/* Measure n values, which may be overwritten, by the way that fits their number. */
gg_status gg_measure_taken(float *values, uint64_t n, void *scratch, unsigned threads,
                           gg_measure *out, gg_error *err);

/* ---- null model ---- */

typedef struct measure_null {
    pthread_mutex_t lock;
    pthread_cond_t ready;
    struct null_entry *list;
} measure_null;

void gg_measure_null_init(measure_null *m);
void gg_measure_null_free(measure_null *m);
gg_status gg_measure_null_theta(measure_null *m, uint32_t dtype, uint64_t count, double *theta,
                                gg_error *err);

#endif

/* measure_core.h - internals of the measure verb: reading the values that the measures of a tensor
 * need, and the null model. Internal.
 */
#ifndef GG_MEASURE_CORE_H
#define GG_MEASURE_CORE_H

#include "measure_edge.h"
#include "numeric/measure_big.h"
#include "numeric/numeric.h"
#include "organ/gg_measure_model.h"
#include "verbs/shared/selected_tensors.h"

#include <pthread.h>

#define MEASURE_RAW ((size_t)256 << 10) /* bytes read at once */
#define MEASURE_SHARED \
    (UINT64_C(4) << 20) /* larger tensors are held one at a time; all threads share the work */

/* Buffers of one thread. Start from { 0 }. */
typedef struct measure_space {
    uint8_t *raw;  /* MEASURE_RAW */
    float *row[2]; /* GG_ROW_RUN + 1 values each */
    float *values; /* room for `cap` values */
    uint64_t cap;
    void *scratch;    /* for gg_measure_values with up to GG_MEASURE_BIG values */
    float block[256]; /* a decoded block */
} measure_space;

/* Makes room for that many values. */
gg_status gg_measure_space(measure_space *w, uint64_t values, gg_error *err);
void gg_measure_space_free(measure_space *w);

/* The values read from a piece. */
typedef struct measure_take {
    float *values;
    uint64_t count;
    gg_row_theta rows;
    edge_taker *edge; /* gets all rows of matrices; NULL if they are not wanted */
} measure_take;

/* Fill take->values with the samples of the piece and take->rows with its row pairs.
 * d is open on the piece's tensor; a pipe is read forward through the piece. */
gg_status gg_measure_collect(gg_data *d, const gg_selected *p, measure_space *w, const gg_run *run,
                             measure_take *take, gg_error *err);

/* Measures n values, which may be overwritten, with the method that suits their number. */
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

/* measure_core.h - internals of the measure verb: reading the values that the measures of a tensor
 * need, and the null model. Internal.
 */
#ifndef GG_MEASURE_CORE_H
#define GG_MEASURE_CORE_H

#include "measure_edge.h"
#include "measure_histogram.h"
#include "measure_importance.h"
#include "numeric/measure_big.h"
#include "numeric/numeric.h"
#include "organ/gg_measure_model.h"
#include "verbs/shared/selected_tensors.h"

#include <pthread.h>

#define MEASURE_RAW ((size_t)256 << 10) /* bytes read at once */
#define MEASURE_SHARED \
    (UINT64_C(4) << 20) /* more sampled values are held for one tensor at a time */

/* The memory for GG_MEASURE_BIG or more values. All its threads work on one such array or tensor at
 * a time, which holds the lock. */
typedef struct measure_many {
    pthread_mutex_t lock;
    gg_measure_room *room; /* NULL until it is needed */
    unsigned threads;
    float *of_code; /* values of the 65536 codes of type `coded` */
    uint32_t coded;
} measure_many;

/* Buffers of one thread. Start from { 0 } and gg_measure_many_init. */
typedef struct measure_space {
    uint8_t *raw;  /* MEASURE_RAW */
    float *row[2]; /* GG_ROW_RUN + 1 values each */
    float *values; /* room for `cap` values */
    uint64_t cap;
    void *scratch;      /* for gg_measure_values with fewer than GG_MEASURE_BIG values */
    measure_many alone; /* for tensors that this thread measures alone; needs no lock */
} measure_space;

/* Makes room for that many values. */
gg_status gg_measure_space(measure_space *w, uint64_t values, gg_error *err);
void gg_measure_space_free(measure_space *w);

/* The values read from a piece. */
typedef struct measure_take {
    bool blocks; /* the samples are runs of 256 values */
    bool later;  /* all of many values are needed: gg_measure_data reads them */
    float *values;
    uint64_t count;
    gg_row_theta rows;
    edge_taker *edge;             /* gets all rows of matrices; NULL if they are not wanted */
    importance_taker *importance; /* gets all values; NULL if they are not wanted */
} measure_take;

/* Number of values to sample of a tensor. */
uint64_t gg_measure_count(const gg_tensor *t, const gg_measure_options *o);

/* Fill take->values, unless take->later, with the samples of the piece and take->rows with its row
 * pairs. d is open on the piece's tensor; a pipe is read forward through the piece. */
gg_status gg_measure_collect(gg_data *d, const gg_selected *p, measure_space *w, const gg_run *run,
                             measure_take *take, gg_error *err);

/* ---- many values ---- */

void gg_measure_many_init(measure_many *m, unsigned threads);
void gg_measure_many_free(measure_many *m);

/* Measures an array, or all values of the piece of which d is open on the tensor. The caller holds
 * the lock. */
gg_status gg_measure_array(measure_many *m, const float *values, uint64_t n, gg_measure *out,
                           gg_error *err);
gg_status gg_measure_data(measure_many *m, gg_data *d, const gg_selected *p, const gg_run *run,
                          gg_measure *out, gg_error *err);

/* Counts all values of the piece, in one pass by one thread; nothing if h was not started. */
gg_status gg_measure_each(gg_data *d, const gg_selected *p, measure_histogram *h, gg_error *err);

/* ---- null model ---- */

typedef struct measure_null {
    pthread_mutex_t lock;
    struct null_entry *list;
} measure_null;

void gg_measure_null_init(measure_null *m);
void gg_measure_null_free(measure_null *m);
/* Returns true for the first of the tensors of a dtype and count: the caller has to compute it. */
bool gg_measure_null_first(measure_null *m, uint32_t dtype, uint64_t count, gg_error *err);
/* If count is at least GG_MEASURE_BIG, the caller holds many->lock. */
gg_status gg_measure_null_compute(measure_null *m, measure_many *many, uint32_t dtype,
                                  uint64_t count, gg_error *err);
/* Returns false if it is still being computed. */
bool gg_measure_null_get(measure_null *m, uint32_t dtype, uint64_t count, double *theta);

#endif

/* measure_core.h - internals of the measure verb: reading the values that the measures of a tensor
 * need, and the null model. Internal.
 */
#pragma once

#include "gg_measure_model.h"
#include "measure_big.h"
#include "organ/gg_gguf.h"
#include "organ/gg_status.h"
#include "organ/imatrix.h"
#include "rowtheta.h"
#include "write/selected_tensors.h"

#include <pthread.h>

/* ---- the column edge ---- */

/* The column `edge`: collects the rows of a tensor's matrices while they are
 * read, and computes the edge of each. */
/* The most values of a matrix that are held, 512 MiB. Of a larger one evenly spread rows are used,
 * and the edge is an estimate (see numeric/matrix.h). */
#define GG_EDGE_MOST (UINT64_C(1) << 27)

typedef struct edge_taker {
    uint32_t dtype;
    uint64_t cols, of_rows, matrices; /* of the tensor */
    uint64_t rows;                    /* that are held; 0 if the tensor has no edge */
    uint64_t matrix, row;             /* the next row to hold */
    unsigned threads;
    float *x;
    double *edges; /* one per matrix */
} edge_taker;

/* Number of values that a tensor's largest matrix needs in memory; 0 if it has no edge: a vector,
 * a single row, or a dtype that cannot be decoded. At most `most`, unless one row is longer: such
 * a tensor has no edge either. */
uint64_t gg_edge_values(const gg_tensor *t, uint64_t most);

/* Starts with a tensor. gg_edge_end must be called, also after an error. */
gg_status gg_edge_start(edge_taker *k, const gg_tensor *t, uint64_t most, unsigned threads,
                        gg_error *err);

/* Adds the elements [first, first + n) in whole blocks. They follow each other from 0 on. */
gg_status gg_edge_add(edge_taker *k, const uint8_t *bytes, uint64_t first, uint64_t n,
                      gg_error *err);

/* Frees the memory. Returns the edge, for several matrices the median, or NaN if there is none. */
double gg_edge_end(edge_taker *k);

/* ---- histograms ---- */

/* Counts the values of each class while tensors are measured.
 *
 * Values are counted by the upper 16 bits of their float, so that no range has to be known before.
 * Such a cell is at most 1/128 as wide as its distance from 0, and its edges are multiples of its
 * width. It therefore lies within one bin of a histogram whose bins are wider. */
typedef struct measure_histogram {
    pthread_mutex_t lock;
    uint64_t *counts; /* for each class and cell, in units of 1/65536; NULL = not counted */
} measure_histogram;

gg_status gg_histogram_start(measure_histogram *h, gg_error *err);

/* Counts values that are finite, each as `weight` values. Does nothing if h was not started. */
void gg_histogram_add(measure_histogram *h, gg_class cls, const float *values, size_t n,
                      double weight);

/* Fills in the histograms of all classes, and frees the counts. `out` may be NULL. */
void gg_histogram_end(measure_histogram *h, gg_histogram out[GG_CLASS_COUNT]);

/* ---- the column importance ---- */

/* The column `importance`: the mean squared output of a tensor on the
 * calibration text of an importance matrix, summed while the tensor is read. */
typedef struct importance_taker {
    uint32_t dtype;
    gg_importance weights;
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

#define MEASURE_RAW ((size_t)256 << 10) /* bytes read at once */
#define MEASURE_SHARED \
    (UINT64_C(4) << 20) /* more sampled values are held for one tensor at a time */

/* Buffers of one thread. */
typedef struct measure_space {
    uint8_t raw[MEASURE_RAW];
    float row[2][GG_ROW_RUN + 1];
    char scratch[8 * GG_MEASURE_BIG + 64]; /* for gg_measure_values with fewer values */
} measure_space;

/* The values read from a piece. */
typedef struct measure_take {
    const gg_measure_options *o;
    bool later; /* all of many values are needed: gg_measure_data reads them */
    float *values;
    uint64_t count;           /* of samples, in runs of `run` samples, which may be 1 */
    uint64_t run, step;       /* Samples of a run are `step` elements apart. */
    uint64_t stride, strides; /* Run i of N begins at element floor(i strides / N) stride. */
    uint64_t pairs;           /* of rows, at most */
    gg_row_theta rows;
    edge_taker *edge;             /* gets all rows of matrices; NULL if they are not wanted */
    importance_taker *importance; /* gets all values; NULL if they are not wanted */
} measure_take;

/* Sets count, run, stride, strides and pairs: the values to sample of a tensor. */
void gg_measure_plan(const gg_tensor *t, const gg_measure_options *o, measure_take *take);

/* Fill take->values, unless take->later, with the samples of the piece and take->rows with its row
 * pairs. d is open on the piece's tensor; a pipe is read forward through the piece. */
gg_status gg_measure_collect(gg_data *d, const gg_selected *p, measure_space *w, const gg_run *run,
                             measure_take *take, gg_error *err);

/* ---- many values ---- */

/* Measures GG_MEASURE_BIG or more values: an array, or all values of the piece of which d is open
 * on the tensor. All threads of the room work on one at a time, because it needs much memory,
 * except for the data of types that need little: these can be measured in several rooms. */
bool gg_measure_needs_little(uint32_t dtype);
gg_status gg_measure_array(gg_measure_room *room, const float *values, uint64_t n, gg_measure *out,
                           gg_error *err);
gg_status gg_measure_data(gg_measure_room *room, gg_data *d, const gg_selected *p,
                          const gg_run *run, gg_measure *out, gg_error *err);

/* Counts all values of the piece, in one pass by one thread; nothing if h was not started. */
gg_status gg_measure_each(gg_data *d, const gg_selected *p, measure_histogram *h, gg_error *err);

/* ---- null model ---- */

typedef struct null_entry {
    struct null_entry *next;
    uint64_t count;
    uint32_t dtype;
    double theta;
} null_entry;

/* Starts with zeros. Not thread safe. */
typedef struct measure_null {
    null_entry *list;
} measure_null;

void gg_measure_null_free(measure_null *m);
/* The theta of noise; it is computed on the first call for a dtype and count. */
gg_status gg_measure_null_theta(measure_null *m, gg_measure_room *room, uint32_t dtype,
                                uint64_t count, double *theta, gg_error *err);
/* 90 max(0, theta - null) / (90 - null), or 0 if null >= 90. */
double gg_calibrated(double theta, double null_theta);

/* measure_histogram.h - counts the values of each class while tensors are measured. Internal.
 *
 * Values are counted by the upper 16 bits of their float, so that no range has to be known before.
 * Such a cell is at most 1/128 as wide as its distance from 0, and its edges are multiples of its
 * width. It therefore lies within one bin of a histogram whose bins are wider.
 */
#ifndef GG_MEASURE_HISTOGRAM_H
#define GG_MEASURE_HISTOGRAM_H

#include "organ/gg_measure_model.h"

#include <pthread.h>

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

#endif

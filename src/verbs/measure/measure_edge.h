/* measure_edge.h - the column `edge`: collects the rows of a tensor's matrices while they are
 * read, and computes the edge of each. Internal.
 */
#ifndef GG_MEASURE_EDGE_H
#define GG_MEASURE_EDGE_H

#include "organ/gg_gguf.h"
#include "organ/gg_status.h"

/* The most values of a matrix that are held, 512 MiB. Of a larger one evenly spread rows are used,
 * and the edge is an estimate (see numeric/spectral.h). */
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

#endif

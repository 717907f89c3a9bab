/* merge_whole.h - methods of organ-merge that need a whole matrix in memory. Internal.
 *
 * To add one, write a function of this form and name it as `whole` in the row of its method in
 * merge_methods.c. The engine calls it once per matrix: for a stack of experts once per expert,
 * for a vector with rows = 1. Matrices are computed one at a time, whatever the number of threads,
 * so that the memory is that of one: `d`, and what the function allocates itself (at most twice
 * the size of d).
 */
#ifndef GG_MERGE_WHOLE_H
#define GG_MERGE_WHOLE_H

#include "merge_core.h"

typedef struct gg_whole_matrix {
    /* In: the sum over all models of weight * (model - base), row by row. Out: the change to add to
     * the base. All values are finite on entry; the engine checks those of the result. */
    float *d;
    size_t rows, cols; /* rows = 1 for a tensor of one dimension */
    size_t models;     /* how many differences were added up */
    const double *p;   /* parameters of the merge, by gg_merge_param */
    unsigned threads;  /* that the function may use; at least 1 */
} gg_whole_matrix;

typedef gg_status (*gg_whole_fn)(const gg_whole_matrix *w, gg_error *err);

#endif

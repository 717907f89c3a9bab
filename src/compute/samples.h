/* samples.h - samples of the inputs of matrices, as organ-probe stores them in a file of
 * activations: NAME.sample, [columns, rows, matrices]. Internal. */
#pragma once

#include "organ/gg_organ.h"

/* The index of the samples of a matrix, or of a stack of `matrices`, with this name; SIZE_MAX if
 * there are none. GG_NO if they do not have so many columns and matrices. */
gg_status gg_samples_find(gg_source *s, const gg_tensor *of, uint64_t columns, uint64_t matrices,
                          size_t *at, gg_error *err);

/* The samples of one matrix. */
typedef struct gg_samples {
    gg_source *source; /* activations */
    size_t at;         /* what gg_samples_find found */
    uint64_t matrix;
} gg_samples;

/* Reads them: *x has *rows rows. Free *x even on error. */
gg_status gg_samples_read(const gg_samples *s, float **x, size_t *rows, gg_error *err);

/* measure_big.h - measure any number of values, on several threads, in bounded memory.
 * Internal. */
#pragma once

#include "organ/gg_numeric.h"

#include "numeric/numeric.h"

/* From this number of values on, gg_measure_big is used instead of gg_measure_values. */
#define GG_MEASURE_BIG ((uint64_t)1 << 17)

/* Values are read in runs of this many, except for the last run. */
#define GG_VALUES_RUN ((size_t)8192)

/* A sequence of n values that can be read several times, by several threads at once. `first` is a
 * multiple of GG_VALUES_RUN and count is at most GG_VALUES_RUN. */
typedef struct gg_values {
    uint64_t n;
    /* Reads the values [first, first + count). */
    gg_status (*read)(void *ctx, uint64_t first, size_t count, float *to, gg_error *err);
    void *ctx;
    /* If each value is a code of 16 bits, which can be counted without decoding it: reads the codes
     * of the same values, and the values of all 65536 codes. Otherwise of_code is NULL. */
    gg_status (*read_codes)(void *ctx, uint64_t first, size_t count, void *to, gg_error *err);
    const float *of_code;
} gg_values;

/* Measures the values, as gg_measure_values does, with the same results up to rounding. They do
 * not depend on the number of threads, which is at least 1. Floats are read twice, or up to 20
 * times if they cover a large part of all floats. Codes are read once. Memory: 29 MiB, and 0.4 MiB
 * per thread. Fails with the status of `read`, GG_ENOMEM or GG_ECANCELLED. */
gg_status gg_measure_big(unsigned threads, const gg_values *v, gg_measure *out, gg_error *err);

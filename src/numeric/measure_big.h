/* measure_big.h - measure large arrays without a second array to sort. Internal. */
#ifndef GG_MEASURE_BIG_H
#define GG_MEASURE_BIG_H

#include "organ/gg_numeric.h"

#include "numeric/numeric.h"

#define GG_MEASURE_BIG ((uint64_t)1 << 19) /* from this number of values on it is also faster */

/* Like gg_measure_values, with the same results up to rounding, but on several threads and in
 * place: `values` is overwritten. Needs about 3 MiB per thread and 1/1024 of the array. Results
 * depend only on the values. Fails with GG_ENOMEM or GG_ECANCELLED. */
gg_status gg_measure_in_place(float *values, uint64_t n, unsigned threads, gg_measure *out,
                              gg_error *err);

#endif

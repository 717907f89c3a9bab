/* measure_big.h - measures of arrays too large to sort beside themselves. Internal. */
#ifndef GG_MEASURE_BIG_H
#define GG_MEASURE_BIG_H

#include "organ/gg_numeric.h"

#include "numeric/numeric.h"

#define GG_MEASURE_BIG ((uint64_t)1 << 19) /* from so many values on it is faster, too */

/* As gg_measure_values, to within rounding, but `values` is overwritten, and on
 * `threads` threads. Memory beyond the array: about 3 MiB a thread, and 1/1024
 * of it. Results depend on the values alone. GG_ENOMEM, GG_ECANCELLED. */
gg_status gg_measure_in_place(float *values, uint64_t n, unsigned threads, gg_measure *out,
                              gg_error *err);

#endif

/* measure_big.h - the measures of any number of values, in bounded memory. */
#pragma once

#include "numeric/numeric.h"

/* From this number of values on, gg_measure_big is used instead of gg_measure_values. */
#define GG_MEASURE_BIG ((uint64_t)1 << 17)

/* Values are read in runs of this many, except for the last run. */
#define GG_VALUES_RUN ((size_t)8192)

/* How values can be counted without decoding them. Unless they are floats, of_code has the values
 * of all 65536 codes of 16 bits. */
typedef enum gg_value_form {
    GG_FORM_FLOATS, /* they cannot */
    GG_FORM_CODES,  /* each value is a code */
    GG_FORM_SCALED  /* a block is a code and 32 signed bytes: the values of_code[code] x byte */
} gg_value_form;
#define GG_SCALED_BLOCK ((size_t)32) /* values and bytes of a block */
#define GG_SCALED_BYTES ((size_t)34)

/* A sequence of n values that can be read several times, by several threads at once. `first` is a
 * multiple of GG_VALUES_RUN and count is at most GG_VALUES_RUN. */
typedef struct gg_values {
    uint64_t n;
    /* Reads the values [first, first + count); `to` has room for GG_VALUES_RUN. */
    gg_status (*read)(void *ctx, uint64_t first, size_t count, float *to, gg_error *err);
    void *ctx;
    gg_value_form form;
    /* Reads the codes or blocks of the same values; NULL for GG_FORM_FLOATS. */
    gg_status (*read_raw)(void *ctx, uint64_t first, size_t count, void *to, gg_error *err);
    const float *of_code;
} gg_values;

/* What gg_measure_big keeps from one call to the next. Set `threads`, which is at least 1, and
 * nothing else. One call at a time may use it. */
typedef struct gg_measure_room {
    unsigned threads;
    struct gg_float_set *set;
} gg_measure_room;

void gg_measure_room_free(gg_measure_room *room);

/* Measures the values, as gg_measure_values does, with the same results up to rounding. They do
 * not depend on the number of threads. Floats are read twice, or up to 20
 * times if they cover a large part of all floats. Codes are read once, and so are scaled blocks if
 * they have at most 16384 different scales. Memory: 41 MiB, and 0.9 MiB per thread, most of which
 * is kept, and for scaled blocks up to 16 MiB for each of up to four threads. Fails with the status
 * of `read`, GG_ENOMEM or GG_ECANCELLED. */
gg_status gg_measure_big(gg_measure_room *room, const gg_values *v, gg_measure *out, gg_error *err);

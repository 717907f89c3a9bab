/* measure_room.h - the memory of gg_measure_big, and steps shared by its methods. Internal. */
#ifndef GG_MEASURE_ROOM_H
#define GG_MEASURE_ROOM_H

#include "float_set.h"
#include "measure_parts.h"

#define GG_ROOM_COUNTERS 65536 /* of codes, or of GG_FLOAT_BUCKETS */
#define GG_ROOM_GROUPS 256     /* of buckets, for the gaps */

/* Memory of one thread. */
typedef struct gg_room_part {
    float x[GG_VALUES_RUN];
    uint16_t codes[GG_VALUES_RUN];
    uint32_t count[GG_ROOM_COUNTERS];
} gg_room_part;

/* Sums over a span. */
typedef struct gg_span_sum {
    uint64_t n; /* finite values */
    gg_nk_range range;
    gg_nk_central central;
} gg_span_sum;

struct gg_measure_room {
    unsigned threads;
    gg_room_part *parts;
    gg_span_sum *sums; /* some per thread */
    gg_float_set *set;
    uint64_t count[GG_ROOM_COUNTERS];
    gg_gap_sum gaps[GG_ROOM_GROUPS];
};

/* Adds the gaps of this part of the set to the sums of the positive and the negative values. */
gg_status gg_room_add_gaps(gg_measure_room *room, unsigned threads, gg_gap_sum gaps[2],
                           gg_error *err);

/* Sets what follows from the gaps between n values, of which equal ones are in the set once. */
void gg_room_set_gaps(gg_measure *out, uint64_t n, const gg_gap_sum gaps[2]);

/* Measures the values of GG_FORM_SCALED. Sets *done to false if it cannot. */
gg_status gg_measure_scaled(gg_measure_room *room, const gg_values *v, gg_measure *out, bool *done,
                            gg_error *err);

#endif

/* copy_lanes.h - copy the data of many items and hash it in the same pass. Internal.
 *
 * Each thread works on as many items at once as it can hash faster together than one after
 * another (base/sha256_many.h). The result does not depend on the number of threads.
 */
#ifndef GG_COPY_LANES_H
#define GG_COPY_LANES_H

#include "hashcopy.h"

/* The item that a lane works on. */
typedef struct gg_lane {
    size_t item;
    gg_plan_part part; /* the data to copy and to hash */
    gg_place out;      /* if part.source is NULL, part.bytes bytes here are only hashed */
    size_t k;          /* for the callbacks; 0 at first */
    int fd;            /* for the callbacks; -1 at first */
} gg_lane;

typedef struct gg_lane_work {
    /* Called with sha NULL when an item starts, and with the SHA-256 of part when that has been
     * copied. Sets part and out to the next data of the item, or *more to false at its end. It
     * may do any work of its own. */
    gg_status (*next)(void *ctx, gg_lane *l, const char *sha, bool *more, gg_error *err);
    /* The item failed, in next or while its data was copied. Releases what the lane holds, and
     * adds names to err. */
    void (*fail)(void *ctx, gg_lane *l, gg_error *err);
    /* Number of values that are computed for an item; 0 = it is copied. NULL: all are copied. */
    uint64_t (*cost)(const void *ctx, size_t item);
    void *ctx;
} gg_lane_work;

/* Works on items 0 to n - 1 with run->threads threads. Computed items are started first, those with
 * the highest cost before others, so that no thread has to finish a large one alone at the end.
 * Copies follow, in the order of their numbers. If several items fail, the error of the item that
 * was started first is kept. */
gg_status gg_copy_lanes(size_t n, const gg_lane_work *work, const gg_run *run, gg_error *err);

#endif

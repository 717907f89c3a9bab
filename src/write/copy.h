/* copy.h - copy tensor data, and hash it in the same pass. Internal. */
#pragma once

#include "base/io.h"
#include "base/sha256.h"
#include "organ/gg_organ.h"
#include "organ/gg_status.h"
#include "organ/gg_verbs.h"

#include <pthread.h>

/* Threads that write to the same file take turns, because a file system allows one write at
 * a time and lets the others spin. A gg_run points to the turn of its outputs; the runs of a
 * process do not wait for each other. */
struct gg_turn {
    pthread_mutex_t lock;
};

void gg_turn_take(const gg_run *run); /* no effect without a turn */
void gg_turn_leave(const gg_run *run);

/* Bytes [at, at + bytes) of a tensor of a source. */
typedef struct gg_plan_part {
    gg_source *source;
    size_t index;
    uint64_t at, bytes;
    const char *sha256; /* hash of exactly these bytes; NULL = unknown */
} gg_plan_part;

/* Ends a hash and writes it as hex. */
void gg_hash_text(gg_sha256 *h, char sha[65]);

/* Copy a part to `out`, and write its SHA-256 in hex to sha unless that is NULL. If out.fd
 * is -1, only the hash is computed. Data of pipes is copied in sequence; with a hash, another
 * thread computes it unless run->threads is 1. */
gg_status gg_copy_part(const gg_plan_part *part, gg_place out, char sha[65], const gg_run *run,
                       gg_error *err);

/* The same, but GG_EFORMAT if the bytes do not match the sha256 of the part, with the names of the
 * source and of its tensor (or t, if the part is none of its tensors). A part without a sha256 is
 * only copied, because hashing costs more than a copy by the kernel. */
gg_status gg_copy_verified(const gg_plan_part *part, const gg_tensor *t, gg_place out,
                           const gg_run *run, gg_error *err);

/* The same for bytes that were copied already and have the hash `sha`. */
gg_status gg_check_part(const gg_plan_part *part, const gg_tensor *t, const char *sha,
                        gg_error *err);

/* GG_EFORMAT unless `got` equals the sha256 of a manifest. NULL or "" means there is none. */
gg_status gg_check_sha256(const char *got, const char *stated, gg_error *err);

/* Read tensor `index` and compare it with the sha256 in the manifest of its directory.
 * GG_EFORMAT, with tensor and file, if they differ. Does nothing if the manifest has no
 * sha256, the source is NULL or the index is SIZE_MAX. */
gg_status gg_verify_data(gg_source *s, size_t index, gg_error *err);

/* Copy the data of many items and hash it in the same pass.
 *
 * Each thread works on as many items at once as it can hash faster together than one after
 * another (base/sha256.h). The result does not depend on the number of threads.
 */

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

/* Hashes bytes [at, at + n) of fd, without moving its position; adds to the progress. */
gg_status gg_file_sha256(int fd, uint64_t at, uint64_t n, char sha[65], const gg_run *run,
                         gg_error *err);

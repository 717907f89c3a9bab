/* hashcopy.h - copy tensor data and hash it in the same pass. Internal. */
#ifndef GG_HASHCOPY_H
#define GG_HASHCOPY_H

#include "base/io.h"
#include "organ/gg_organ.h"
#include "organ/gg_verbs.h"

#include <pthread.h>

/* Threads that write into one file take turns: a file system lets one write at a time, and
 * lets the others spin for it. A gg_run points at the turn of its outputs; runs of one
 * process do not wait for each other. */
struct gg_turn {
    pthread_mutex_t lock;
};

void gg_turn_take(const gg_run *run); /* nothing without a turn */
void gg_turn_leave(const gg_run *run);

/* Bytes [at, at + bytes) of a tensor of a source. */
typedef struct gg_plan_part {
    gg_source *source;
    size_t index;
    uint64_t at, bytes;
    const char *sha256; /* of exactly these bytes, NULL = unknown */
} gg_plan_part;

/* Copy a part to `out`. SHA-256 as hex into sha unless that is NULL; with out.fd -1 only the
 * hash is made. Data of pipes is copied in sequence. */
gg_status gg_copy_part(const gg_plan_part *part, gg_place out, char sha[65], const gg_run *run,
                       gg_error *err);

/* The same, and GG_EFORMAT with the names of t and the source if the part states another sha256
 * than its bytes have. A part that states none is only copied: a hash costs more than the
 * kernel's copy. */
gg_status gg_copy_verified(const gg_plan_part *part, const gg_tensor *t, gg_place out,
                           const gg_run *run, gg_error *err);

/* GG_EFORMAT unless `got` is the sha256 that a manifest states; NULL or "" states none. */
gg_status gg_check_sha256(const char *got, const char *stated, gg_error *err);

/* Read tensor `index` and hold it against the sha256 that its directory's manifest states:
 * GG_EFORMAT, with tensor and file, where it is another. Nothing to do without one, nor
 * for a NULL source or an index of SIZE_MAX. */
gg_status gg_verify_data(gg_source *s, size_t index, gg_error *err);

#endif

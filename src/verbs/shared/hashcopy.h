/* hashcopy.h - copy tensor data and hash it in the same pass. Internal. */
#ifndef GG_HASHCOPY_H
#define GG_HASHCOPY_H

#include "base/io.h"
#include "organ/gg_organ.h"
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

/* Copy a part to `out`, and write its SHA-256 in hex to sha unless that is NULL. If out.fd
 * is -1, only the hash is computed. Data of pipes is copied in sequence. */
gg_status gg_copy_part(const gg_plan_part *part, gg_place out, char sha[65], const gg_run *run,
                       gg_error *err);

/* The same, but GG_EFORMAT, with the names of t and the source, if the bytes do not match the
 * sha256 of the part. A part without a sha256 is only copied, because hashing costs more
 * than a copy by the kernel. */
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

#endif

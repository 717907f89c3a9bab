/* hashcopy.h - copy tensor data and hash it in the same pass. Internal. */
#ifndef GG_HASHCOPY_H
#define GG_HASHCOPY_H

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

/* [offset, offset+n) of d to `out` at out_offset, or in sequence with GG_AT_POS;
 * SHA-256 as hex into sha unless sha is NULL; with out -1 only that. Data of pipes
 * only in sequence. */
gg_status gg_hash_copy(gg_data *d, uint64_t offset, uint64_t n, int out, uint64_t out_offset,
                       char sha[65], const gg_run *run, gg_error *err);

/* GG_EFORMAT unless `got` is the sha256 that a manifest states; NULL or "" states none. */
gg_status gg_check_sha256(const char *got, const char *stated, gg_error *err);

/* Read tensor `index` and hold it against the sha256 that its directory's manifest states:
 * GG_EFORMAT, with tensor and file, where it is another. Nothing to do without one, nor
 * for a NULL source or an index of SIZE_MAX. */
gg_status gg_verify_data(gg_source *s, size_t index, gg_error *err);

#endif

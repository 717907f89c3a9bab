/* file_hash.h - computes the sha256 of a file. Internal. */
#ifndef GG_FILE_HASH_H
#define GG_FILE_HASH_H

#include "organ/gg_verbs.h"

/* Hashes the first `size` bytes of fd, without moving its position; adds to the progress. */
gg_status gg_file_sha256(int fd, uint64_t size, char sha[65], const gg_run *run, gg_error *err);

#endif

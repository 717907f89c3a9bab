/* file_hash.h - the sha256 of a whole file. Internal. */
#ifndef GG_FILE_HASH_H
#define GG_FILE_HASH_H

#include "organ/gg_verbs.h"

/* Of the first `size` bytes of fd, whose position is left alone; adds to the progress. */
gg_status gg_file_sha256(int fd, uint64_t size, char sha[65], const gg_run *run, gg_error *err);

#endif

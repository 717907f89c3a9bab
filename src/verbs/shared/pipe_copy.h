/* pipe_copy.h - copy and hash data of a pipe, with reading, hashing and writing at the same time.
 * Internal to hashcopy.c. */
#ifndef GG_PIPE_COPY_H
#define GG_PIPE_COPY_H

#include "base/sha256.h"
#include "hashcopy.h"

#define GG_PIPE_STEP ((size_t)512 << 10)

/* Reads a part, adds its bytes to h and writes them to out. The calling thread reads, and two
 * others hash and write the steps in a small ring of buffers. */
gg_status gg_pipe_copy_part(gg_data *d, const gg_plan_part *part, gg_place out, gg_sha256 *h,
                            const gg_run *run, gg_error *err);

#endif

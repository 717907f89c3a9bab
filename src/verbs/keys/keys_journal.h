/* keys_journal.h - changes a header so that an interrupted change can be undone. Internal.
 *
 * First the journal is written and synced to disk. Then the new bytes replace the old ones and
 * are synced, and the journal is removed. The journal contains the old and the new bytes, so
 * that a half-changed header can be distinguished from the header of another model.
 */
#ifndef GG_KEYS_JOURNAL_H
#define GG_KEYS_JOURNAL_H

#include "organ/gg_keys.h"

/* The bytes [at, at + n) of a header of header_end bytes, before and after the change. */
typedef struct gg_header_change {
    uint64_t file_size, header_end, at;
    size_t n;
    const uint8_t *before, *after; /* n bytes each */
    uint8_t rest[32];              /* sha256 of the header's other bytes */
} gg_header_change;

/* Open a file for reading and writing, and take the lock that is used by all changes in place.
 * GG_EIO if another process has the lock. The caller closes *fd. */
gg_status gg_open_locked(const char *path, int *fd, gg_error *err);

/* Compute the sha256 of the header of fd without the bytes of the change. */
gg_status gg_header_rest(int fd, const gg_header_change *c, uint8_t out[32], gg_error *err);

/* Write the change to fd, the locked file `path`. On failure the header is unchanged or, if the
 * error mentions it, the journal is kept for gg_keys_recover. */
gg_status gg_header_replace(const char *path, int fd, const gg_header_change *c, gg_error *err);

#endif

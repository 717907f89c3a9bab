/* keys_journal.h - a header change that survives being cut off. Internal.
 *
 * Order of events: the journal, whole and on disk; the new bytes over the old ones; fsync;
 * the journal removed. The journal holds the old and the new bytes, so that a header of which
 * each byte is one or the other can be told from a header of another model.
 */
#ifndef GG_KEYS_JOURNAL_H
#define GG_KEYS_JOURNAL_H

#include "organ/gg_keys.h"

/* The bytes [at, at + n) of a header of header_end bytes, before and after. */
typedef struct gg_header_change {
    uint64_t file_size, header_end, at;
    size_t n;
    const uint8_t *before, *after; /* n bytes each */
    uint8_t rest[32];              /* sha256 of the header's other bytes */
} gg_header_change;

/* Open for reading and writing, and take the lock that all changes in place take. GG_EIO
 * while another process has it. *fd is the caller's to close. */
gg_status gg_open_locked(const char *path, int *fd, gg_error *err);

/* sha256 of the header of fd without the bytes of the change. */
gg_status gg_header_rest(int fd, const gg_header_change *c, uint8_t out[32], gg_error *err);

/* Write the change to fd, which is `path` and is locked. On failure the header is as before
 * or, if the error says so, the journal is left for gg_keys_recover. */
gg_status gg_header_replace(const char *path, int fd, const gg_header_change *c, gg_error *err);

#endif

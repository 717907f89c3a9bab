/* io.h - checked reads, writes and copies on file descriptors. Internal.
 *
 * Each call loops over short transfers and EINTR, moves at most a few MiB before
 * it looks at gg_cancelled, and reports GG_EIO (a system call failed), GG_EFORMAT
 * (the input ended early) or GG_ECANCELLED. The caller adds the file's name.
 */
#ifndef GG_IO_H
#define GG_IO_H

#include "organ/gg_status.h"

#define GG_CHUNK ((size_t)8 << 20) /* most bytes between two looks at gg_cancelled */

/* A place in an open file: an offset, or GG_AT_POS for the current position, which then moves. */
#define GG_AT_POS UINT64_MAX
typedef struct gg_place {
    int fd;
    uint64_t at;
} gg_place;

gg_status gg_write_all(int fd, const void *buf, size_t n, gg_error *err);
gg_status gg_pwrite_all(int fd, const void *buf, size_t n, uint64_t offset, gg_error *err);

/* Exactly n bytes at offset; GG_EFORMAT if the file ends before. */
gg_status gg_pread_all(int fd, void *buf, size_t n, uint64_t offset, gg_error *err);

/* Up to n bytes from the current position; *got < n only at the end. */
gg_status gg_read_some(int fd, void *buf, size_t n, size_t *got, gg_error *err);

/* Move n bytes between two descriptors, through the kernel where it can:
 * copy_file_range (which shares extents on file systems that know how), sendfile
 * to a pipe or socket, splice from a pipe, and read/write as the last resort.
 * GG_EFORMAT when the input ends before n bytes. */
gg_status gg_copy(gg_place in, gg_place out, uint64_t n, gg_error *err);

/* The same; an error has in_name as its file if it is the input's, and none if not. */
gg_status gg_copy_from(const char *in_name, gg_place in, gg_place out, uint64_t n, gg_error *err);

/* Write n bytes at `offset`, or at the current position if it is GG_AT_POS. */
gg_status gg_put_all(int fd, const void *buf, size_t n, uint64_t offset, gg_error *err);

/* The offset n bytes after `at`; GG_AT_POS stays what it is. */
static inline uint64_t gg_offset_after(uint64_t at, uint64_t n)
{
    return at == GG_AT_POS ? GG_AT_POS : at + n;
}

/* Start writing out [offset, offset+n) without waiting, where the system can. */
void gg_writeback_hint(int fd, uint64_t offset, uint64_t n);

#endif

/* io.h - checked reads, writes and copies on file descriptors, and stamps of files. Internal.
 *
 * Each call continues after short transfers and EINTR, and checks gg_cancelled at least once
 * per GG_CHUNK bytes. It fails with GG_EIO (a system call failed), GG_EFORMAT (the input ended
 * early) or GG_ECANCELLED. The caller adds the name of the file to the error.
 */
#pragma once

#include "organ/gg_status.h"

#include <dirent.h>

#define GG_CHUNK ((size_t)8 << 20) /* maximum bytes between two checks of gg_cancelled */

/* A place in an open file: an offset, or GG_AT_POS for the current position, which then
 * advances. */
#define GG_AT_POS UINT64_MAX
typedef struct gg_place {
    int fd;
    uint64_t at;
} gg_place;

gg_status gg_write_all(int fd, const void *buf, size_t n, gg_error *err);

/* Writes n bytes at `offset`, or at the current position if offset is GG_AT_POS. */
gg_status gg_put_all(int fd, const void *buf, size_t n, uint64_t offset, gg_error *err);

/* Reads exactly n bytes at offset. Fails with GG_EFORMAT if the file ends before. */
gg_status gg_pread_all(int fd, void *buf, size_t n, uint64_t offset, gg_error *err);

/* Reads up to n bytes from the current position. *got is less than n only at the end of the
 * input. */
gg_status gg_read_some(int fd, void *buf, size_t n, size_t *got, gg_error *err);

/* Copies n bytes between two descriptors, inside the kernel where possible. It tries
 * copy_file_range (which shares extents if the file system can), sendfile to a pipe or socket,
 * splice from a pipe, and finally read and write. Fails with GG_EFORMAT if the input ends
 * before n bytes. If the input causes the error, in_name, which may be NULL, becomes its file; an
 * error of the output has no file yet. */
gg_status gg_copy(const char *in_name, gg_place in, gg_place out, uint64_t n, gg_error *err);

/* Whether gg_copy may be faster between two files than reads and writes: if the file system can
 * share extents or let a server copy. Others copy pages in the same way as read and write, but only
 * one thread at a time can use it for an output, which then waits for the reads too. */
bool gg_copy_by_kernel(int in, int out);

/* The offset n bytes after `at`; GG_AT_POS remains GG_AT_POS. */
static inline uint64_t gg_offset_after(uint64_t at, uint64_t n)
{
    return at == GG_AT_POS ? GG_AT_POS : at + n;
}

/* Returns the first address in `room` that has the place in a cache line which byte `at` of a file
 * has: copies to the page cache are up to a tenth faster from there. The room must be GG_LINE_ROOM
 * bytes larger than the data. GG_AT_POS stands for the start of a line. */
#define GG_LINE_ROOM ((size_t)128)
static inline uint8_t *gg_in_line(uint8_t *room, uint64_t at)
{
    const size_t line = 64;
    size_t place = at == GG_AT_POS ? 0 : (size_t)(at % line);
    return room + (line - (uintptr_t)room % line) % line + place;
}

/* If `offset` is in a hole of a sparse file, returns the end of the hole, and otherwise `offset`.
 * All bytes of a hole are 0. */
uint64_t gg_hole_end(int fd, uint64_t offset);

/* Tells that [offset, offset+n) was written. Starts writing it back to disk without waiting, if the
 * system supports it: at most one call for each 4 MiB of the file, with all before it in the same 4
 * MiB. If offset and n are 0, starts writing all of the file back. */
void gg_writeback_hint(int fd, uint64_t offset, uint64_t n);

/* Opens a file for reading, without waiting for the writer of a FIFO. Returns -1, with an error
 * that names it, if that fails. */
int gg_open_read(const char *path, gg_error *err);

/* Length of the folder part of a path with its slash; 0 = none. Slashes at the end do not count:
 * "a/b/" is "b" in "a/". *end is the length without them. */
size_t gg_folder_len(const char *path, size_t *end);

/* Returns "FOLDER/NAME", malloc'd; NULL, with GG_ENOMEM in err, without memory. */
char *gg_path_in(const char *folder, const char *name, gg_error *err);

/* Tells the system that the file will be read from start to end, so that it reads farther ahead. */
void gg_read_in_order(int fd);

/* ---- files that someone else may change -------------------------------------------------- */

/* The properties of a file that are compared. All zero: the file is not watched (it is a pipe or a
 * device). */
typedef struct gg_stamp {
    uint64_t device, inode, size, links;
    int64_t modified[2], changed[2]; /* seconds and nanoseconds of mtime and ctime */
} gg_stamp;

/* Sets *out to the stamp of an open file; all zero unless it is a regular file. */
gg_status gg_stamp_fd(int fd, gg_stamp *out, gg_error *err);

/* Fails with GG_EIO if the open file, or with fd -1 the file of that name, is not as it was. It
 * counts as changed if the name no longer exists or belongs to another file. ctime is not compared
 * if links to the file were made or removed meanwhile, which changes it too. `path` may be NULL for
 * standard input. */
gg_status gg_check_stamp(const gg_stamp *was, int fd, const char *path, gg_error *err);

/* Whether it is the stamp of the file that stat() described. */
struct stat;
bool gg_stamp_is_of(const gg_stamp *was, const struct stat *s);

/* ---- questions about files ---- */

/* Whether the path exists: sets *s as stat() and lstat() do. Only the answer of the system that it
 * does not exist is a no. If the question fails for another reason, the result is false, too, and
 * err has the reason. */
bool gg_stat(const char *path, struct stat *s, gg_error *err);
bool gg_lstat(const char *path, struct stat *s, gg_error *err);

/* The absolute path without links, malloc'd; NULL if the path does not exist, or if that cannot be
 * found out, which fails. */
char *gg_real_path(const char *path, gg_error *err);

/* Opens a folder; NULL if it does not exist, or if it cannot be opened, which fails. */
DIR *gg_open_folder(const char *path, gg_error *err);

/* The next name in an open folder except . and ..; NULL at the end, or if the folder cannot be
 * read, which fails. It is valid until the next call. */
const char *gg_next_name(DIR *dir, gg_error *err);

/* Returns whether `real` is root or lies below it. Both must be real paths; only their texts
 * are compared. */
bool gg_path_within(const char *root, const char *real);

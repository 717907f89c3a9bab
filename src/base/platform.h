/* platform.h - what systems do in different ways, or lack. Internal.
 *
 * Linux, macOS and FreeBSD differ here and nowhere else: platform.c has all conditions on the
 * system. A function that a system lacks fails with ENOSYS, or does nothing if it is only a hint,
 * so that callers need plain POSIX as the other way.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Times of a file in nanoseconds: part 0 are the seconds, part 1 the rest. */
void gg_sys_times(const struct stat *s, int64_t modified[2], int64_t changed[2]);

/* Transfers at most n bytes inside the kernel. An offset that is NULL means the current position.
 * Returns the number of bytes, or -1 and errno. Ways differ in what they can connect. */
typedef enum gg_sys_way {
    GG_SYS_COPY_RANGE,
    GG_SYS_SENDFILE,
    GG_SYS_SPLICE,
    GG_SYS_WAYS
} gg_sys_way;
ssize_t gg_sys_transfer(gg_sys_way way, int in, const uint64_t *in_at, int out,
                        const uint64_t *out_at, size_t n);

/* The file system of an open file. Returns false if the system does not tell. */
typedef struct gg_sys_disk {
    int64_t type; /* f_type of statfs(2) on Linux, otherwise 0 */
    uint64_t block_bytes, blocks, free_blocks;
} gg_sys_disk;
bool gg_sys_disk_of(int fd, gg_sys_disk *disk);

/* Values of gg_sys_disk.type. The second one is that of ext2 and ext3 too. */
#define GG_TMPFS 0x01021994
#define GG_EXT4 0xef53

/* Reserves space from `offset` on, where that does not write to it. With keep_size the size of the
 * file does not change. Returns 0 or an errno value. */
int gg_sys_reserve(int fd, uint64_t offset, uint64_t n, bool keep_size);

/* Starts to write a range of a file to the disk, without waiting. A hint. */
void gg_sys_start_writing(int fd, uint64_t offset, uint64_t n);

/* Waits until the data of a file or folder is on the disk, and not only in its cache. Returns 0,
 * or -1 and errno. */
int gg_sys_sync(int fd);

/* Renames a file or folder, but never onto another one, which fails with EEXIST. */
int gg_sys_rename_new(const char *from, const char *to);

/* Exchanges two names in one step. */
int gg_sys_exchange(const char *a, const char *b);

/* Calls `each` for every name in the folder except "." and "..", and closes fd. Needs no memory on
 * Linux: a folder must be removable even if none is left. */
void gg_sys_each_name(int fd, void (*each)(int fd, const char *name, void *ctx), void *ctx);

/* Number of processors that this process may use, at least 1. */
unsigned gg_sys_processors(void);

/* Waits with the signal mask `unblocked` until fd can be read, a signal arrives or `ms`
 * milliseconds have passed. Returns true if fd can be read. */
bool gg_sys_wait_readable(int fd, int ms, const sigset_t *unblocked);

#ifdef __aarch64__
/* Whether the processor has the instructions of SHA-256. */
bool gg_sys_has_sha2(void);
#endif

/* Lets this process end with its parent, whose id is given. Returns false if that has ended. */
bool gg_sys_end_with_parent(pid_t parent);

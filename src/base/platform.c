/* platform.c - Linux, macOS and FreeBSD: all conditions on the system. */
#define _GNU_SOURCE /* copy_file_range, fallocate, ppoll and others */
#include "platform.h"

#include "io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h> /* rename; renamex_np of macOS */
#include <string.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#if defined __aarch64__ && (defined __linux__ || defined __FreeBSD__)
#include <sys/auxv.h>
#endif
#ifdef __linux__
#include <sched.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#endif
#ifdef __FreeBSD__
#include <sys/procctl.h>
#endif

void gg_sys_times(const struct stat *s, int64_t modified[2], int64_t changed[2])
{
#ifdef __APPLE__
    const struct timespec m = s->st_mtimespec, c = s->st_ctimespec;
#else
    const struct timespec m = s->st_mtim, c = s->st_ctim;
#endif
    modified[0] = m.tv_sec;
    modified[1] = m.tv_nsec;
    changed[0] = c.tv_sec;
    changed[1] = c.tv_nsec;
}

/* ---- data ------------------------------------------------------------------------------- */

ssize_t gg_sys_transfer(gg_sys_way way, int in, const uint64_t *in_at, int out,
                        const uint64_t *out_at, size_t n)
{
    off_t i = in_at ? (off_t)*in_at : 0, o = out_at ? (off_t)*out_at : 0;
    off_t *from = in_at ? &i : NULL, *to = out_at ? &o : NULL;
#if defined __linux__ || defined __FreeBSD__
    if (way == GG_SYS_COPY_RANGE) return copy_file_range(in, from, out, to, n, 0);
#endif
#ifdef __linux__
    if (way == GG_SYS_SPLICE) return splice(in, from, out, to, n, SPLICE_F_MOVE);
    if (way == GG_SYS_SENDFILE && !to) return sendfile(out, in, from, n);
#endif
    (void)way, (void)in, (void)from, (void)out, (void)to, (void)n;
    errno = EINVAL;
    return -1;
}

bool gg_sys_disk_of(int fd, gg_sys_disk *disk)
{
#ifdef __linux__
    struct statfs s;
    if (fstatfs(fd, &s) != 0) return false;
    *disk = (gg_sys_disk){ (int64_t)s.f_type, (uint64_t)s.f_bsize, (uint64_t)s.f_blocks,
                           (uint64_t)s.f_bavail };
    return true;
#else
    (void)fd, (void)disk;
    return false;
#endif
}

int gg_sys_reserve(int fd, uint64_t offset, uint64_t n, bool keep_size)
{
#ifdef __linux__
    return fallocate(fd, keep_size ? FALLOC_FL_KEEP_SIZE : 0, (off_t)offset, (off_t)n) == 0 ? 0
                                                                                            : errno;
#else
    /* Where it is not supported, posix_fallocate writes to every block. */
    (void)fd, (void)offset, (void)n, (void)keep_size;
    return ENOSYS;
#endif
}

void gg_sys_start_writing(int fd, uint64_t offset, uint64_t n)
{
#ifdef __linux__
    (void)sync_file_range(fd, (off_t)offset, (off_t)n, SYNC_FILE_RANGE_WRITE);
#else
    (void)fd, (void)offset, (void)n;
#endif
}

void gg_read_in_order(int fd)
{
#ifdef POSIX_FADV_SEQUENTIAL
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
#else
    (void)fd;
#endif
}

int gg_sys_sync(int fd)
{
#ifdef F_FULLFSYNC
    /* fsync leaves the data in the cache of the disk. Not every file system knows this. */
    if (fcntl(fd, F_FULLFSYNC) == 0) return 0;
#endif
    return fsync(fd);
}

uint64_t gg_hole_end(int fd, uint64_t offset)
{
#ifdef SEEK_DATA
    if (offset > INT64_MAX) return offset;
    off_t data = lseek(fd, (off_t)offset, SEEK_DATA);
    if (data >= 0) return (uint64_t)data;
    if (errno != ENXIO) return offset; /* not supported */
    off_t end = lseek(fd, 0, SEEK_END);
    return end > (off_t)offset ? (uint64_t)end : offset;
#else
    (void)fd;
    return offset;
#endif
}

/* ---- names ------------------------------------------------------------------------------ */

#ifdef __linux__
/* musl 1.2.3 declares neither renameat2 nor its flags, but the kernel has both. */
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1u
#define RENAME_EXCHANGE 2u
static int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}
#endif
#endif

int gg_sys_rename_new(const char *from, const char *to)
{
#if defined __linux__
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
#elif defined __APPLE__
    return renamex_np(from, to, RENAME_EXCL);
#else
    (void)from, (void)to;
    errno = ENOSYS;
    return -1;
#endif
}

int gg_sys_exchange(const char *a, const char *b)
{
#if defined __linux__
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
#elif defined __APPLE__
    return renamex_np(a, b, RENAME_SWAP);
#else
    (void)a, (void)b;
    errno = ENOSYS;
    return -1;
#endif
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

void gg_sys_each_name(int fd, void (*each)(int fd, const char *name, void *ctx), void *ctx)
{
#ifdef __linux__
    struct entry { /* as the kernel writes it; opendir would allocate memory */
        uint64_t inode, next;
        unsigned short size;
        unsigned char type;
        char name[];
    };
    _Alignas(struct entry) char buf[4096];
    for (long n; (n = syscall(SYS_getdents64, fd, buf, sizeof buf)) > 0;)
        for (long at = 0; at < n;) {
            const struct entry *e = (const void *)(buf + at);
            if (!is_dots(e->name)) each(fd, e->name, ctx);
            at += e->size;
        }
    close(fd);
#else
    DIR *dir = fdopendir(fd);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (!is_dots(e->d_name)) each(fd, e->d_name, ctx);
    if (dir) closedir(dir);
    else close(fd);
#endif
}

/* ---- processes -------------------------------------------------------------------------- */

unsigned gg_sys_processors(void)
{
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        int n = CPU_COUNT(&set);
        if (n > 0) return (unsigned)n;
    }
#endif
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (unsigned)n : 1;
}

bool gg_sys_wait_readable(int fd, int ms, const sigset_t *unblocked)
{
    const struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };
#ifdef __APPLE__
    fd_set set;
    FD_ZERO(&set);
    FD_SET(fd, &set);
    return pselect(fd + 1, &set, NULL, NULL, &t, unblocked) > 0;
#else
    struct pollfd p = { .fd = fd, .events = POLLIN };
    return ppoll(&p, 1, &t, unblocked) > 0;
#endif
}

#ifdef __aarch64__
bool gg_sys_has_sha2(void)
{
#if defined __APPLE__
    return true; /* all of them have */
#elif defined __linux__
    return (getauxval(AT_HWCAP) >> 6 & 1) != 0; /* HWCAP_SHA2 */
#elif defined __FreeBSD__
    unsigned long has = 0;
    return elf_aux_info(AT_HWCAP, &has, sizeof has) == 0 && (has >> 6 & 1);
#else
    return false;
#endif
}
#endif

bool gg_sys_end_with_parent(pid_t parent)
{
#if defined __linux__
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    return getppid() == parent;
#elif defined __FreeBSD__
    int signal = SIGTERM;
    procctl(P_PID, 0, PROC_PDEATHSIG_CTL, &signal);
    return getppid() == parent;
#else
    return getppid() == parent;
#endif
}

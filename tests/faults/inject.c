/* clang-format off: the list below keeps its lines
 * inject.c - a preloaded library (LD_PRELOAD) that makes one call of a program fail.
 *
 *     FAULT_OP     alloc read write sync rename make open look close unlink: the kind of call that
 *                  fails; to look is to ask about a file or a folder: stat, access, opendir, readdir
 *                  signal: SIGTERM is raised just before a call of any kind but alloc
 *                  kill: SIGKILL is raised just before a write, sync, rename, make or unlink
 *                  step: the process group is killed when a program starts; the starts of this
 *                  program and of the programs that it starts are counted in the file FAULT_STEPS
 *                  touch: the file FAULT_PATH changes just before it is read, and only its reads
 *                  count; with FAULT_STAY, those of all files
 *     FAULT_NTH    which call, from 1; 0 lets all succeed
 *     FAULT_STAY   set: all later calls of the kind fail too
 *     FAULT_OURS   set: only allocations by the program itself count, not those of libraries
 *     FAULT_PLAIN  1: names cannot be exchanged, nor given to new files only;
 *                  2: nor can files have two names
 *     FAULT_COUNT  a file to which the number of calls of the kind is appended at the end
 *
 * It is for glibc. Calls that libc makes internally, such as the reads of stdio, are not seen,
 * except allocations. */
/* clang-format on */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#define _FORTIFY_SOURCE 0
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *op;
static long nth = -1;
static int stay, ours;
static struct stat watched;
static atomic_long calls;

static void count_step(void)
{
    struct stat s;
    long number = nth;
    nth = -1; /* no call of this program fails */
    int fd = (int)syscall(SYS_openat, AT_FDCWD, getenv("FAULT_STEPS"),
                          O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (syscall(SYS_write, fd, ".", 1) == 1 && fstat(fd, &s) == 0 && s.st_size == number)
        kill(0, SIGKILL);
    syscall(SYS_close, fd);
}

__attribute__((constructor)) static void start(void)
{
    const char *text = getenv("FAULT_NTH"), *path = getenv("FAULT_PATH");
    if (path) stat(path, &watched);
    op = getenv("FAULT_OP");
    stay = getenv("FAULT_STAY") != NULL;
    ours = getenv("FAULT_OURS") != NULL;
    nth = text ? strtol(text, NULL, 10) : 0;
    atomic_store(&calls, 0);
    if (op && strcmp(op, "step") == 0) count_step();
}

__attribute__((destructor)) static void end(void)
{
    char line[32];
    const char *path = getenv("FAULT_COUNT");
    long n = atomic_load(&calls);
    nth = -1;
    int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND, 0600)
                  : -1;
    if (fd < 0) return;
    int len = snprintf(line, sizeof line, "%ld\n", n);
    syscall(SYS_write, fd, line, len);
    syscall(SYS_close, fd);
}

/* Whether this call fails. */
static int fails(const char *kind, int error)
{
    if (nth < 0 || !op || strcmp(op, "touch") == 0) return 0;
    int changes = strcmp(kind, "write") == 0 || strcmp(kind, "sync") == 0 ||
                  strcmp(kind, "rename") == 0 || strcmp(kind, "make") == 0 ||
                  strcmp(kind, "unlink") == 0;
    int raises = strcmp(op, "kill") == 0 ? changes
                                         : strcmp(op, "signal") == 0 && strcmp(kind, "alloc") != 0;
    if (!raises && strcmp(kind, op) != 0) return 0;
    long n = atomic_fetch_add(&calls, 1) + 1;
    if (nth == 0 || (n != nth && !(stay && n > nth))) return 0;
    if (raises) {
        raise(*op == 'k' ? SIGKILL : SIGTERM);
        return 0;
    }
    errno = error;
    return 1;
}

/* Whether the file system of the test has no calls of this level. */
static int lacks(int level, int error)
{
    const char *plain = getenv("FAULT_PLAIN");
    if (!plain || *plain - '0' < level) return 0;
    errno = *plain == '1' ? EINVAL : error;
    return 1;
}

/* Before a read of the descriptor. */
static void touch(int fd)
{
    struct stat s;
    struct timespec old[2] = { { 1000000000, 0 }, { 1000000000, 0 } };
    if (nth < 0 || !op || strcmp(op, "touch") != 0 || fstat(fd, &s) != 0) return;
    if (!stay && (s.st_dev != watched.st_dev || s.st_ino != watched.st_ino)) return;
    if (atomic_fetch_add(&calls, 1) + 1 == nth) utimensat(AT_FDCWD, getenv("FAULT_PATH"), old, 0);
}

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

static int no_memory(const void *caller)
{
    Dl_info info;
    if (ours && dladdr(caller, &info) && strstr(info.dli_fname, ".so")) return 0;
    return fails("alloc", ENOMEM);
}

void *malloc(size_t n)
{
    return no_memory(__builtin_return_address(0)) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return no_memory(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    return no_memory(__builtin_return_address(0)) ? NULL : __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n)
{
    return no_memory(__builtin_return_address(0)) ? NULL : __libc_memalign(align, n);
}

int posix_memalign(void **p, size_t align, size_t n)
{
    if (no_memory(__builtin_return_address(0))) return ENOMEM;
    *p = __libc_memalign(align, n);
    return *p ? 0 : ENOMEM;
}

/* One wrapper: result type, name, its parameters, their names, kind, error. */
#define WRAP(result, name, params, args, kind, error) \
    WRAP_AFTER((void)0, result, name, params, args, kind, error)
#define READ(name, params, args) WRAP_AFTER(touch(fd), ssize_t, name, params, args, "read", EIO)
#define WRAP_AFTER(before, result, name, params, args, kind, error) \
    result name params \
    { \
        static result(*next) params; \
        if (!next) *(void **)&next = dlsym(RTLD_NEXT, #name); \
        before; \
        return fails(kind, error) ? (result)-1 : next args; \
    }

READ(read, (int fd, void *p, size_t n), (fd, p, n))
READ(pread, (int fd, void *p, size_t n, off_t at), (fd, p, n, at))
READ(pread64, (int fd, void *p, size_t n, off_t at), (fd, p, n, at))
READ(__read_chk, (int fd, void *p, size_t n, size_t m), (fd, p, n, m))
READ(__pread64_chk, (int fd, void *p, size_t n, off_t at, size_t m), (fd, p, n, at, m))
WRAP(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n), "write", ENOSPC)
WRAP(ssize_t, pwrite, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at), "write", ENOSPC)
WRAP(ssize_t, pwrite64, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at), "write",
     ENOSPC)
#define COPY(name, params, args) WRAP_AFTER(touch(in), ssize_t, name, params, args, "write", ENOSPC)
COPY(copy_file_range, (int in, off64_t *from, int out, off64_t *to, size_t n, unsigned flags),
     (in, from, out, to, n, flags))
COPY(sendfile, (int out, int in, off_t *from, size_t n), (out, in, from, n))
COPY(sendfile64, (int out, int in, off_t *from, size_t n), (out, in, from, n))
WRAP(int, ftruncate, (int fd, off_t n), (fd, n), "write", ENOSPC)
WRAP(int, ftruncate64, (int fd, off_t n), (fd, n), "write", ENOSPC)
WRAP(int, fallocate, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n), "write", ENOSPC)
WRAP(int, fallocate64, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n), "write", ENOSPC)
WRAP(int, fflush, (FILE * f), (f), "write", ENOSPC)
WRAP(int, fsync, (int fd), (fd), "sync", EIO)
WRAP(int, fdatasync, (int fd), (fd), "sync", EIO)
WRAP(int, rename, (const char *a, const char *b), (a, b), "rename", EIO)
WRAP(int, renameat, (int d, const char *a, int e, const char *b), (d, a, e, b), "rename", EIO)
#define LACKS(level, error, ...) \
    WRAP_AFTER(if (lacks(level, error)) return -1, int, __VA_ARGS__, "rename", EIO)
LACKS(1, ENOTSUP, renameat2, (int d, const char *a, int e, const char *b, unsigned f),
      (d, a, e, b, f))
LACKS(2, EPERM, link, (const char *a, const char *b), (a, b))
LACKS(2, EPERM, linkat, (int d, const char *a, int e, const char *b, int f), (d, a, e, b, f))
WRAP(int, unlink, (const char *a), (a), "unlink", EIO)
WRAP(int, unlinkat, (int d, const char *a, int f), (d, a, f), "unlink", EIO)
WRAP(int, rmdir, (const char *a), (a), "unlink", EIO)
WRAP(int, mkdir, (const char *a, mode_t m), (a, m), "make", ENOSPC)
WRAP(int, mkdirat, (int d, const char *a, mode_t m), (d, a, m), "make", ENOSPC)
WRAP(int, fchmod, (int fd, mode_t m), (fd, m), "make", ENOSPC)

WRAP(int, stat, (const char *a, struct stat *s), (a, s), "look", EIO)
WRAP(int, stat64, (const char *a, struct stat64 *s), (a, s), "look", EIO)
WRAP(int, lstat, (const char *a, struct stat *s), (a, s), "look", EIO)
WRAP(int, lstat64, (const char *a, struct stat64 *s), (a, s), "look", EIO)
WRAP(int, fstat, (int fd, struct stat *s), (fd, s), "look", EIO)
WRAP(int, fstat64, (int fd, struct stat64 *s), (fd, s), "look", EIO)
WRAP(int, fstatat, (int d, const char *a, struct stat *s, int f), (d, a, s, f), "look", EIO)
WRAP(int, fstatat64, (int d, const char *a, struct stat64 *s, int f), (d, a, s, f), "look", EIO)
WRAP(int, access, (const char *a, int mode), (a, mode), "look", EIO)
WRAP(int, faccessat, (int d, const char *a, int mode, int f), (d, a, mode, f), "look", EIO)

/* A folder that cannot be read: only errno tells a failure from the end of the list. */
DIR *opendir(const char *path)
{
    static DIR *(*next)(const char *);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "opendir");
    return fails("look", EIO) ? NULL : next(path);
}

struct dirent64 *readdir64(DIR *d)
{
    static struct dirent64 *(*next)(DIR *);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "readdir64");
    return fails("look", EIO) ? NULL : next(d);
}

ssize_t readlink(const char *path, char *to, size_t n)
{
    static ssize_t (*next)(const char *, char *, size_t);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "readlink");
    return fails("look", EIO) ? -1 : next(path, to, n);
}

char *realpath(const char *path, char *to)
{
    static char *(*next)(const char *, char *);
    if (!next) *(void **)&next = dlvsym(RTLD_NEXT, "realpath", "GLIBC_2.3");
    return fails("look", EIO) ? NULL : next(path, to);
}

FILE *fopen64(const char *path, const char *mode)
{
    static FILE *(*next)(const char *, const char *);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "fopen64");
    return fails("open", EMFILE) ? NULL : next(path, mode);
}

/* The descriptor is closed all the same, as on Linux. */
int close(int fd)
{
    int bad = fails("close", EIO);
    int got = (int)syscall(SYS_close, fd);
    if (bad) errno = EIO;
    return bad ? -1 : got;
}

static int open_any(int dir, const char *path, int flags, va_list ap)
{
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? (mode_t)va_arg(ap, int) : 0;
    if (fails("open", EMFILE)) return -1;
    return (int)syscall(SYS_openat, dir, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int fd = open_any(AT_FDCWD, path, flags, ap);
    va_end(ap);
    return fd;
}

int open64(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int fd = open_any(AT_FDCWD, path, flags, ap);
    va_end(ap);
    return fd;
}

int openat(int dir, const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int fd = open_any(dir, path, flags, ap);
    va_end(ap);
    return fd;
}

int openat64(int dir, const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int fd = open_any(dir, path, flags, ap);
    va_end(ap);
    return fd;
}

/* io.c - checked reads and writes, copies inside the kernel, and stamps of files. */
#include "io.h"

#include "platform.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Lock-free, so it is safe in a signal handler and across threads. */
static atomic_int cancel_flag;

void gg_cancel(void)
{
    atomic_store_explicit(&cancel_flag, 1, memory_order_relaxed);
}

void gg_cancel_clear(void)
{
    atomic_store_explicit(&cancel_flag, 0, memory_order_relaxed);
}

gg_status gg_cancelled(gg_error *err)
{
    bool asked = atomic_load_explicit(&cancel_flag, memory_order_relaxed);
    return asked ? gg_fail(err, GG_ECANCELLED, "interrupted; no output was written") : GG_OK;
}

/* After a transfer that returned -1: returns true to retry, or false with *st set to the error. */
static bool try_again(gg_status *st, const char *verb, gg_error *err)
{
    if (errno == EINTR) {
        *st = gg_cancelled(err);
        return *st == GG_OK;
    }
    *st = gg_fail_errno(err, "%s failed", verb);
    if (errno == ENOSPC || err->sys_errno == ENOSPC)
        gg_fix(err, "make room on the disk and run again");
    return false;
}

gg_status gg_put_all(int fd, const void *buf, size_t n, uint64_t offset, gg_error *err)
{
    const uint8_t *p = buf;
    while (n > 0) {
        gg_status st = gg_cancelled(err);
        if (st != GG_OK) return st;
        size_t step = n < GG_CHUNK ? n : GG_CHUNK;
        ssize_t w = offset == GG_AT_POS ? write(fd, p, step) : pwrite(fd, p, step, (off_t)offset);
        if (w < 0) {
            if (!try_again(&st, "write", err)) return st;
            continue;
        }
        p += w;
        n -= (size_t)w;
        offset = gg_offset_after(offset, (uint64_t)w);
    }
    return GG_OK;
}

gg_status gg_write_all(int fd, const void *buf, size_t n, gg_error *err)
{
    return gg_put_all(fd, buf, n, GG_AT_POS, err);
}

static gg_status ended_early(gg_error *err, uint64_t missing)
{
    gg_fail(err, GG_EFORMAT, "the input ends %llu bytes early", (unsigned long long)missing);
    return gg_fix(err, "fetch the file again: it is truncated or was changed while it was read");
}

gg_status gg_pread_all(int fd, void *buf, size_t n, uint64_t offset, gg_error *err)
{
    uint8_t *p = buf;
    while (n > 0) {
        gg_status st = gg_cancelled(err);
        if (st != GG_OK) return st;
        ssize_t r = pread(fd, p, n < GG_CHUNK ? n : GG_CHUNK, (off_t)offset);
        if (r < 0) {
            if (!try_again(&st, "read", err)) return st;
            continue;
        }
        if (r == 0) return ended_early(err, n);
        p += r;
        n -= (size_t)r;
        offset += (uint64_t)r;
    }
    return GG_OK;
}

gg_status gg_read_some(int fd, void *buf, size_t n, size_t *got, gg_error *err)
{
    uint8_t *p = buf;
    *got = 0;
    while (*got < n) {
        gg_status st = gg_cancelled(err);
        if (st != GG_OK) return st;
        ssize_t r = read(fd, p + *got, n - *got < GG_CHUNK ? n - *got : GG_CHUNK);
        if (r < 0) {
            if (!try_again(&st, "read", err)) return st;
            continue;
        }
        if (r == 0) return GG_OK;
        *got += (size_t)r;
    }
    return GG_OK;
}

int gg_open_read(const char *path, gg_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) gg_fail_errno(err, "cannot open");
    if (fd < 0) gg_at_file(err, path);
    return fd;
}

size_t gg_folder_len(const char *path, size_t *end)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    *end = n;
    while (n > 0 && path[n - 1] != '/') n--;
    return n;
}

char *gg_path_in(const char *folder, const char *name, gg_error *err)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path) snprintf(path, size, "%s/%s", folder, name);
    else gg_fail(err, GG_ENOMEM, "no memory for a path");
    return path;
}

/* ---- copies ------------------------------------------------------------- */

typedef struct copy {
    int in, out;
    const char *in_name;      /* for errors, or NULL */
    uint64_t in_off, out_off; /* GG_AT_POS = current position */
    uint64_t left;
} copy;

static void advance(copy *c, uint64_t n)
{
    if (c->in_off != GG_AT_POS) c->in_off += n;
    if (c->out_off != GG_AT_POS) c->out_off += n;
    c->left -= n;
}

/* Errors that mean "not supported between these two descriptors", not "the transfer failed". */
static bool is_unsupported(int e)
{
    return e == EINVAL || e == EXDEV || e == ENOSYS || e == EOPNOTSUPP || e == EBADF ||
           e == EPERM || e == ETXTBSY || e == ESPIPE;
}

/* Copies with one kind of system call. GG_OK with c->left > 0 means that it is not supported
 * here and the caller should try the next kind. If *broken is set, the transfer failed. These
 * calls do not tell whether reading or writing failed, so the caller must continue with read
 * and write, which do. */
static gg_status copy_by(copy *c, gg_sys_way way, bool *broken, gg_error *err)
{
    while (c->left > 0) {
        gg_status st = gg_cancelled(err);
        if (st != GG_OK) return st;
        ssize_t n = gg_sys_transfer(way, c->in, c->in_off == GG_AT_POS ? NULL : &c->in_off, c->out,
                                    c->out_off == GG_AT_POS ? NULL : &c->out_off,
                                    c->left < GG_CHUNK ? (size_t)c->left : GG_CHUNK);
        if (n > 0) {
            advance(c, (uint64_t)n);
        } else if (n == 0) {
            return GG_OK; /* end of input, or not supported: read() will tell which */
        } else if (errno != EINTR) {
            *broken = !is_unsupported(errno);
            return GG_OK;
        }
    }
    return GG_OK;
}

static gg_status copy_by_buffer(copy *c, gg_error *err)
{
    const size_t size = (size_t)256 << 10;
    uint8_t *buf = malloc(size);
    if (!buf) return gg_fail(err, GG_ENOMEM, "no memory for a copy buffer");
    gg_status st = GG_OK;
    while (c->left > 0 && st == GG_OK) {
        size_t n = c->left < size ? (size_t)c->left : size, got = n;
        st = c->in_off == GG_AT_POS ? gg_read_some(c->in, buf, n, &got, err)
                                    : gg_pread_all(c->in, buf, n, c->in_off, err);
        if (st == GG_OK && got < n) st = ended_early(err, c->left - got);
        if ((st == GG_EIO || st == GG_EFORMAT) && c->in_name) gg_at_file(err, c->in_name);
        if (st != GG_OK) break;
        st = gg_put_all(c->out, buf, n, c->out_off, err);
        advance(c, n);
    }
    free(buf);
    return st;
}

gg_status gg_copy(const char *in_name, gg_place in, gg_place out, uint64_t n, gg_error *err)
{
    copy c = { in.fd, out.fd, in_name, in.at, out.at, n };
    bool broken = false;
    for (gg_sys_way way = 0; way < GG_SYS_WAYS && c.left > 0 && !broken; way++) {
        gg_status st = copy_by(&c, way, &broken, err);
        if (st != GG_OK) return st;
    }
    return c.left > 0 ? copy_by_buffer(&c, err) : GG_OK;
}

bool gg_copy_by_kernel(int in, int out)
{
    struct stat a, b;
    gg_sys_disk disk;
    if (fstat(in, &a) != 0 || fstat(out, &b) != 0 || !gg_sys_disk_of(out, &disk)) return true;
    return a.st_dev == b.st_dev && disk.type != GG_TMPFS && disk.type != GG_EXT4;
}

#define WINDOW ((uint64_t)4 << 20)

void gg_writeback_hint(int fd, uint64_t offset, uint64_t n)
{
    uint64_t from = offset / WINDOW * WINDOW, end = offset + n;
    if (n == 0 || end - from >= WINDOW) gg_sys_start_writing(fd, from, end - from);
}

/* ---- stamps ------------------------------------------------------------------------------ */

static gg_stamp stamp_of(const struct stat *s)
{
    gg_stamp stamp = { .device = (uint64_t)s->st_dev,
                       .inode = (uint64_t)s->st_ino,
                       .size = (uint64_t)s->st_size,
                       .links = (uint64_t)s->st_nlink };
    gg_sys_times(s, stamp.modified, stamp.changed);
    return stamp;
}

gg_status gg_stamp_fd(int fd, gg_stamp *out, gg_error *err)
{
    struct stat s;
    *out = (gg_stamp){ 0 };
    if (fstat(fd, &s) != 0) return gg_fail_errno(err, "cannot get the state of the file");
    if (S_ISREG(s.st_mode)) *out = stamp_of(&s);
    return GG_OK;
}

static bool same_stamp(const gg_stamp *a, gg_stamp b)
{
    return a->device == b.device && a->inode == b.inode && a->size == b.size &&
           a->modified[0] == b.modified[0] && a->modified[1] == b.modified[1] &&
           (a->links != b.links ||
            (a->changed[0] == b.changed[0] && a->changed[1] == b.changed[1]));
}

static bool is_watched(const gg_stamp *was)
{
    return was->inode || was->modified[0] || was->size;
}

gg_status gg_check_stamp(const gg_stamp *was, int fd, const char *path, gg_error *err)
{
    struct stat s;
    bool there = true;
    if (!is_watched(was)) return GG_OK;
    if (fd < 0) there = gg_stat(path, &s, err);
    else if (fstat(fd, &s) != 0) gg_fail_errno(err, "cannot tell whether the file was changed");
    if (err->status == GG_OK && !(there && same_stamp(was, stamp_of(&s)))) {
        gg_fail(err, GG_EIO, "was changed by another program while it was read");
        gg_fix(err, "run again when nothing writes to it");
    }
    return gg_at_file(err, path ? path : "<stdin>");
}

bool gg_stamp_is_of(const gg_stamp *was, const struct stat *s)
{
    return is_watched(was) && was->device == (uint64_t)s->st_dev &&
           was->inode == (uint64_t)s->st_ino;
}

/* ---- questions about files --------------------------------------------------------------- */

static bool answered(bool yes, const char *path, gg_error *err)
{
    if (yes || errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ENAMETOOLONG)
        return yes;
    gg_fail_errno(err, "cannot find out whether this exists");
    gg_at_file(err, path);
    return false;
}

bool gg_stat(const char *path, struct stat *s, gg_error *err)
{
    return answered(stat(path, s) == 0, path, err);
}

bool gg_lstat(const char *path, struct stat *s, gg_error *err)
{
    return answered(lstat(path, s) == 0, path, err);
}

char *gg_real_path(const char *path, gg_error *err)
{
    char *real = realpath(path, NULL);
    answered(real != NULL, path, err);
    return real;
}

DIR *gg_open_folder(const char *path, gg_error *err)
{
    DIR *dir = opendir(path);
    if (dir || errno == ENOENT || errno == ENOTDIR) return dir;
    gg_fail_errno(err, "cannot read the folder");
    gg_at_file(err, path);
    return NULL;
}

const char *gg_next_name(DIR *dir, gg_error *err)
{
    struct dirent *e;
    do {
        errno = 0;
        e = readdir(dir);
    } while (e && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0));
    if (!e && errno) gg_fail_errno(err, "cannot read the folder");
    return e ? e->d_name : NULL;
}

bool gg_path_within(const char *root, const char *real)
{
    size_t n = strlen(root);
    if (n == 1) return real[0] == '/';
    return strncmp(real, root, n) == 0 && (real[n] == '/' || real[n] == '\0');
}

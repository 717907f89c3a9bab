/* output.c - an output file that appears under its name only when complete. */
#include "output.h"

#include "io.h"
#include "tempname.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/vfs.h>
#endif

struct gg_output {
    char *path, *temp;
    int fd;
    bool force, synced, placed;
};

static void output_free(gg_output *o)
{
    free(o->path);
    free(o->temp);
    free(o);
}

/* Only regular files are replaced. With a folder the rename would fail, but only after all the
 * work. A device, or a link to one such as /dev/stdout, would be removed by the rename. */
static gg_status check_file_target(const char *path, bool force, gg_error *err)
{
    struct stat s;
    gg_status st = gg_refuse_existing(path, force, err);
    if (st != GG_OK || stat(path, &s) != 0 || S_ISREG(s.st_mode)) return st;
    gg_fail(err, GG_EUSAGE, "this output is %s; only regular files are replaced",
            S_ISDIR(s.st_mode) ? "a folder" : "not a regular file");
    gg_fix(err, "choose another name");
    return gg_at_file(err, path);
}

static int make_file(const char *temp)
{
    return open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
}

gg_status gg_output_open(const char *path, bool force, gg_output **out, gg_error *err)
{
    gg_status st = check_file_target(path, force, err);
    if (st != GG_OK) return st;
    gg_output *o = calloc(1, sizeof *o);
    if (!o) return gg_fail(err, GG_ENOMEM, "no memory for an output");
    o->path = strdup(path);
    o->force = force;
    if (!o->path) st = gg_fail(err, GG_ENOMEM, "no memory for an output name");
    else st = gg_temp_make(path, "a temporary file", make_file, &o->temp, &o->fd, err);
    if (st == GG_OK) *out = o;
    else output_free(o);
    return st;
}

int gg_output_fd(const gg_output *o)
{
    return o->fd;
}

/* In tmpfs, allocating costs two thirds of the time of writing, and no other thread could write
 * meanwhile. Its free space is only compared: 0 or ENOSPC. -1 for other file systems. */
static int fits_in_memory(int fd, uint64_t bytes)
{
#ifdef __linux__
    struct statfs s;
    if (fstatfs(fd, &s) != 0 || s.f_type != GG_TMPFS) return -1;
    uint64_t size = (uint64_t)s.f_bsize, blocks = bytes / size + (bytes % size != 0);
    return s.f_blocks > 0 && blocks > (uint64_t)s.f_bavail ? ENOSPC : 0;
#else
    (void)fd, (void)bytes;
    return -1;
#endif
}

/* Returns 0 or an errno value. posix_fallocate is not a substitute: on a file system without
 * support it writes to every block, so a large model would be written twice. */
static int allocate(int fd, uint64_t bytes, uint64_t before)
{
#ifdef __linux__
    int e = fits_in_memory(fd, bytes < UINT64_MAX - before ? bytes + before : UINT64_MAX);
    if (e >= 0) return e;
    return fallocate(fd, 0, 0, (off_t)bytes) == 0 ? 0 : errno;
#else
    (void)fd, (void)bytes, (void)before;
    return EOPNOTSUPP;
#endif
}

gg_status gg_output_reserve(gg_output *o, uint64_t bytes, uint64_t before, gg_error *err)
{
    if (bytes == 0) return GG_OK;
    int e;
    do e = allocate(o->fd, bytes, before);
    while (e == EINTR && gg_cancelled(err) == GG_OK);
    if (err->status != GG_OK) return err->status;
    if (e == ENOSPC || e == EFBIG || e == EDQUOT || e == EIO) {
        errno = e;
        gg_fail_errno(err, "cannot reserve %llu bytes", (unsigned long long)bytes);
        gg_fix(err, "free some disk space or choose another folder");
        return gg_at_file(err, o->path);
    }
    return GG_OK; /* not supported here: a full disk will show when writing */
}

gg_status gg_output_sync(gg_output *o, gg_error *err)
{
    gg_status st = gg_cancelled(err);
    if (st == GG_OK && fsync(o->fd) != 0 && errno != EINVAL && errno != EROFS)
        st = gg_fail_errno(err, "fsync failed");
    o->synced = st == GG_OK;
    return gg_at_file(err, o->path), st;
}

gg_status gg_output_place(gg_output *o, gg_error *err)
{
    gg_status st = o->synced ? GG_OK : gg_output_sync(o, err);
    if (close(o->fd) != 0 && st == GG_OK) st = gg_fail_errno(err, "close failed");
    o->fd = -1;
    if (st == GG_OK) st = gg_put_in_place(o->temp, o->path, o->force, err);
    o->placed = st == GG_OK;
    if (st == GG_OK) st = gg_sync_parent(o->path, err);
    return gg_at_file(err, o->path), st;
}

void gg_output_end(gg_output *o, bool keep)
{
    if (!o) return;
    if (o->fd >= 0) close(o->fd);
    if (!o->placed) unlink(o->temp);
    else if (!keep) unlink(o->path);
    output_free(o);
}

gg_status gg_output_commit(gg_output *o, gg_error *err)
{
    gg_status st = gg_output_place(o, err);
    gg_output_end(o, true);
    return st;
}

void gg_output_abort(gg_output *o)
{
    gg_output_end(o, false);
}

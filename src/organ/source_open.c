/* source_open.c - opens a source of any kind, and stores pipes in temporary files. */
#define _GNU_SOURCE /* mkostemp */
#include "hf/checkpoint.h"
#include "source.h"

#include "base/text.h"
#include "gguf/first_bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The kinds that a path may name, in the order in which they are asked. */
static const gg_source_kind *const kinds[] = {
    &gg_source_pipe, &gg_source_checkpoint, &gg_source_dir, &gg_source_records, &gg_source_gguf,
};

/* Whether it is standard input, a FIFO or a device. */
static bool is_pipe(const char *path, gg_error *err)
{
    struct stat s;
    return strcmp(path, "-") == 0 ||
           (gg_stat(path, &s, err) && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode));
}

/* Reads the first bytes of a file. */
static gg_status look(gg_spec *spec, uint8_t bytes[GG_FIRST_BYTES], gg_error *err)
{
    struct stat s;
    spec->pipe = is_pipe(spec->path, err);
    if (spec->pipe || err->status != GG_OK) return err->status;
    if (stat(spec->path, &s) != 0) {
        gg_fail_errno(err, "cannot open");
        if (err->sys_errno == ENOENT) gg_fix(err, "check the path");
        return gg_at_file(err, spec->path);
    }
    spec->folder = S_ISDIR(s.st_mode);
    if (spec->folder) return GG_OK;
    int fd = gg_open_read(spec->path, err);
    if (fd < 0) return err->status;
    spec->bytes = bytes;
    gg_read_some(fd, bytes, GG_FIRST_BYTES, &spec->n, err);
    close(fd);
    return gg_at_file(err, spec->path);
}

/* The kind of a path; NULL, with the reason, if it cannot be read. */
static const gg_source_kind *kind_of(const char *path, gg_error *err)
{
    uint8_t bytes[GG_FIRST_BYTES] = { 0 };
    gg_spec spec = { .path = path, .err = err };
    if (look(&spec, bytes, err) != GG_OK) return NULL;
    size_t i = 0;
    while (!kinds[i]->is(&spec)) i++; /* the last one takes all, for its message */
    return err->status == GG_OK ? kinds[i] : NULL;
}

bool gg_is_part_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t prefix;
    uint32_t no, count;
    if (gg_shard_parse(path, &prefix, &no, &count)) return false;
    const char *end = strrchr(name, '.');
    if (strstr(name, ".gguf-split-") ||
        (end && strlen(end) == 4 && strspn(end + 1, "0123456789") == 3))
        return true; /* model.gguf-split-a, model.gguf.001 */
    for (; (name = strstr(name, "part")) != NULL; name += 4) {
        const char *number = name + 4 + strspn(name + 4, "-_.");
        if (*number >= '0' && *number <= '9') return true;
        if (number > name + 4 && strlen(number) == 2 &&
            strspn(number, "abcdefghijklmnopqrstuvwxyz") == 2)
            return true; /* model.gguf.part-aa, of split(1) */
    }
    return false;
}

/* Opens `path`, whose name for users is `name`. The source then owns fd, unless it is -1; on
 * failure fd is closed. */
static gg_status open_named(const char *path, const char *name, int fd, const gg_source_options *o,
                            gg_source **out, gg_error *err)
{
    const gg_source_kind *kind = kind_of(path, err);
    gg_source *s = kind ? gg_source_new(kind, name, err) : NULL;
    if (!s && fd >= 0) close(fd);
    if (!s) return err->status;
    if (o) s->o = *o;
    s->own_fd = fd + 1;
    gg_status st = kind->open(s, path, err);
    if (st == GG_EFORMAT && gg_is_part_name(path)) {
        err->fix[0] = '\0'; /* another download would not help */
        gg_fix(err, GG_PART_ADVICE);
    }
    return gg_source_opened(s, st, out, err);
}

/* Opens `path` and o->more as one source. */
static gg_status open_record_files(const char *path, const gg_source_options *o, gg_source **out,
                                   gg_error *err)
{
    gg_source *s = gg_source_new(&gg_source_records, path, err);
    if (!s) return GG_ENOMEM;
    s->o.changed = o->changed;
    gg_status st = GG_OK;
    for (size_t i = 0; i <= o->n_more && st == GG_OK; i++) {
        const char *next = i ? o->more[i - 1] : path;
        const gg_source_kind *kind = kind_of(next, err);
        if (!kind) st = err->status;
        else if (kind == &gg_source_records) st = gg_source_add_records(s, next, err);
        else {
            st = gg_fail(err, GG_EUSAGE,
                         "this is not an organ record file; several inputs must all be record "
                         "files");
            gg_at_file(err, next);
        }
    }
    return gg_source_opened(s, st, out, err);
}

static gg_status open_pipe_spooled(const char *spec, const gg_source_options *o, gg_source **out,
                                   gg_error *err);

gg_status gg_source_open_with(const char *spec, const gg_source_options *o, gg_source **out,
                              gg_error *err)
{
    if (o && o->n_more) return open_record_files(spec, o, out, err);
    if (o && o->spooled && is_pipe(spec, err)) return open_pipe_spooled(spec, o, out, err);
    return open_named(spec, spec, -1, o, out, err);
}

gg_status gg_source_open(const char *spec, gg_source **out, gg_error *err)
{
    gg_source_options o = { .spooled = true };
    return gg_source_open_with(spec, &o, out, err);
}

/* ---- pipes in temporary files ------------------------------------------------------------ */

/* The file has no name, so nothing is left behind. */

static const char *temp_folder(void)
{
    const char *dir = getenv("TMPDIR");
    return dir && dir[0] ? dir : "/tmp";
}

static gg_status advise_room(const char *what, gg_error *err)
{
    err->fix[0] = '\0';
    gg_fix(err, "set TMPDIR to a folder with room for the %s", what);
    return gg_at_file(err, temp_folder());
}

int gg_unnamed_file(gg_error *err)
{
    char path[512];
    snprintf(path, sizeof path, "%.480s/organ-XXXXXX", temp_folder());
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        gg_fail_errno(err, "cannot create a temporary file");
        advise_room("model", err);
    } else {
        unlink(path);
    }
    return fd;
}

/* Opens the spooled copy of `spec` by the /dev/fd name of its descriptor. */
static gg_status open_spooled(int fd, const char *spec, const gg_source_options *o, gg_source **out,
                              gg_error *err)
{
    char path[48];
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    gg_status st = open_named(path, spec, fd, o, out, err);
    if (st != GG_OK) err->file[0] = '\0'; /* the caller names the pipe instead of /dev/fd */
    return st;
}

/* Copies a pipe, of which no tensor was read yet, to a new file. */
static gg_status store_pipe(gg_source *pipe, int *fd, gg_error *err)
{
    const gg_gguf *g = gg_source_header(pipe);
    uint64_t rest;
    *fd = gg_unnamed_file(err);
    if (*fd < 0) return err->status;
    gg_status st = g ? gg_write_all(*fd, g->raw, (size_t)g->header_bytes, err) : GG_OK;
    if (st == GG_OK) st = gg_source_copy_trailing(pipe, gg_source_files(pipe), *fd, &rest, err);
    if (st == GG_EIO && !err->file[0]) advise_room("model", err);
    return st == GG_OK ? gg_source_unchanged(pipe, err) : st;
}

static gg_status open_pipe_spooled(const char *spec, const gg_source_options *o, gg_source **out,
                                   gg_error *err)
{
    gg_source *pipe;
    int fd;
    gg_status st = open_named(spec, spec, -1, o, &pipe, err);
    if (st != GG_OK) return st;
    st = store_pipe(pipe, &fd, err);
    gg_source_close(pipe); /* before its header is read again */
    if (st == GG_OK) st = open_spooled(fd, spec, o, out, err);
    else if (fd >= 0) close(fd);
    return st == GG_OK ? GG_OK : gg_at_file(err, spec);
}

gg_status gg_source_store(gg_source *pipe, gg_source **out, gg_error *err)
{
    int fd;
    gg_status st = store_pipe(pipe, &fd, err);
    if (st == GG_OK) st = open_spooled(fd, gg_source_name(pipe), &pipe->o, out, err);
    else if (fd >= 0) close(fd);
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(pipe));
}

gg_status gg_data_spool(gg_data *d, uint64_t offset, uint64_t n, gg_error *err)
{
    if (d->fd >= 0) return GG_OK;
    int fd = gg_unnamed_file(err);
    if (fd < 0) return err->status;
    gg_status st = gg_data_copy(d, offset, n, (gg_place){ fd, offset }, err);
    if (st == GG_EIO && !err->file[0]) advise_room("largest tensor", err);
    if (st != GG_OK) {
        close(fd);
        return st;
    }
    d->fd = fd;
    d->at = 0;
    d->close_fd = true;
    return GG_OK;
}

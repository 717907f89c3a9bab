/* source_spool.c - spool a pipe to a temporary file, for verbs that need random access.
 *
 * The file has no name, so nothing is left behind. */
#include "source.h"

#include "organ/source_spool.h"

#include "base/io.h"
#include "organ/source_layout.h"
#include "organ/source_watch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *temp_folder(void)
{
    const char *dir = getenv("TMPDIR");
    return dir && dir[0] ? dir : "/tmp";
}

int gg_unnamed_file(gg_error *err)
{
    char path[512];
    snprintf(path, sizeof path, "%.480s/organ-XXXXXX", temp_folder());
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        gg_fail_errno(err, "cannot create a temporary file");
        gg_fix(err, "set TMPDIR to a folder with room for the model");
        gg_at_file(err, temp_folder());
    } else {
        unlink(path);
    }
    return fd;
}

/* Replaces the name of the temporary file by that of the pipe in notes. */
typedef struct spooled_notes {
    const gg_source_options *o;
    const char *path, *spec;
} spooled_notes;

static void note_spooled(void *ctx, const char *line)
{
    const spooled_notes *n = ctx;
    char text[1024];
    size_t len = strlen(n->path);
    const char *rest = strncmp(line, n->path, len) == 0 ? line + len : line;
    snprintf(text, sizeof text, "%s%s",
             rest == line                ? ""
             : strcmp(n->spec, "-") == 0 ? "<stdin>"
                                         : n->spec,
             rest);
    n->o->note(n->o->ctx, text);
}

static gg_status store(const char *spec, int in, int out, gg_error *err)
{
    char buf[65536];
    size_t got = sizeof buf;
    while (got == sizeof buf) {
        if (gg_read_some(in, buf, sizeof buf, &got, err) != GG_OK) return gg_at_file(err, spec);
        if (gg_write_all(out, buf, got, err) == GG_OK) continue;
        err->fix[0] = '\0';
        gg_fix(err, "set TMPDIR to a folder with room for the model");
        return gg_at_file(err, temp_folder());
    }
    return GG_OK;
}

/* Opens the spooled copy of `spec` by the /dev/fd name of its descriptor. The source owns fd from
 * then on; on failure fd is closed. */
static gg_status open_spooled(int fd, const char *spec, const gg_source_options *o, gg_source **out,
                              gg_error *err)
{
    char path[48];
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    spooled_notes n = { o, path, spec };
    gg_source_options renamed = { .header_only = o && o->header_only,
                                  .note = o && o->note ? note_spooled : NULL,
                                  .ctx = &n };
    gg_status st = gg_source_open_with(path, &renamed, out, err);
    if (st != GG_OK) {
        err->file[0] = '\0'; /* the caller names the pipe instead of /dev/fd */
        close(fd);
        return st;
    }
    (*out)->o = o ? *o : (gg_source_options){ 0 };
    gg_source_own_fd(*out, fd);
    if ((st = gg_source_rename(*out, spec, err)) == GG_OK) return GG_OK;
    gg_source_close(*out);
    *out = NULL;
    return st;
}

gg_status gg_source_open_pipe_spooled(const char *spec, const gg_source_options *o, gg_source **out,
                                      gg_error *err)
{
    int in = strcmp(spec, "-") == 0 ? STDIN_FILENO : open(spec, O_RDONLY | O_CLOEXEC);
    if (in < 0) {
        gg_fail_errno(err, "cannot open");
        return gg_at_file(err, spec);
    }
    int fd = gg_unnamed_file(err);
    gg_stamp was = gg_stamp_fd(in);
    gg_status st = fd < 0 ? err->status : store(spec, in, fd, err);
    if (st == GG_OK && !gg_stamp_holds_fd(&was, in)) st = gg_fail_changed(spec, err);
    if (in != STDIN_FILENO) close(in);
    if (st == GG_OK) st = open_spooled(fd, spec, o, out, err);
    else if (fd >= 0) close(fd);
    return st == GG_OK ? GG_OK : gg_at_file(err, spec);
}

gg_status gg_source_store(gg_source *pipe, gg_source **out, gg_error *err)
{
    const gg_gguf *g = gg_source_header(pipe);
    uint64_t rest;
    int fd = gg_unnamed_file(err);
    gg_status st = fd < 0 ? err->status : GG_OK;
    if (st == GG_OK && g) st = gg_write_all(fd, g->raw, (size_t)g->header_bytes, err);
    if (st == GG_OK) st = gg_pipe_drain(pipe, fd, &rest, err);
    if (st == GG_EIO && !err->file[0]) {
        err->fix[0] = '\0';
        gg_fix(err, "set TMPDIR to a folder with room for the model");
        gg_at_file(err, temp_folder());
    }
    if (st == GG_OK) st = gg_source_unchanged(pipe, err);
    if (st == GG_OK) st = open_spooled(fd, gg_source_name(pipe), &pipe->o, out, err);
    else if (fd >= 0) close(fd);
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(pipe));
}

gg_status gg_source_spool(gg_source **s, gg_error *err)
{
    gg_source *stored;
    if (gg_source_seekable(*s)) return GG_OK;
    gg_status st = gg_source_store(*s, &stored, err);
    if (st != GG_OK) return st;
    gg_source_close(*s);
    *s = stored;
    return GG_OK;
}

gg_status gg_data_spool(gg_data *d, uint64_t offset, uint64_t n, gg_error *err)
{
    if (d->fd >= 0) return GG_OK;
    int fd = gg_unnamed_file(err);
    if (fd < 0) return err->status;
    gg_status st = gg_data_copy(d, offset, n, (gg_place){ fd, offset }, err);
    if (st == GG_EIO && !err->file[0]) {
        err->fix[0] = '\0';
        gg_fix(err, "set TMPDIR to a folder with room for the largest tensor");
        gg_at_file(err, temp_folder());
    }
    if (st != GG_OK) {
        close(fd);
        return st;
    }
    d->fd = fd;
    d->at = 0;
    d->close_fd = true;
    return GG_OK;
}

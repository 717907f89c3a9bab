/* stored.c - a pipe that has to be read more than front to back: stored first in a
 * temporary file that has no name, so that nothing is left behind. */
#include "gg_transplant.h"

#include "../../base/io.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int unnamed_file(gg_error *err)
{
    const char *dir = getenv("TMPDIR");
    char path[512];
    snprintf(path, sizeof path, "%.480s/organ-XXXXXX", dir && dir[0] ? dir : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0) {
        gg_fail_errno(err, "cannot make a temporary file");
        gg_fix(err, "set TMPDIR to a folder with room for the model");
        gg_at_file(err, path);
    } else {
        unlink(path);
    }
    return fd;
}

gg_status gg_source_open_stored(const char *spec, gg_source **out, gg_error *err)
{
    if (strcmp(spec, "-") != 0) return gg_source_open(spec, out, err);
    int fd = unnamed_file(err);
    if (fd < 0) return err->status;
    char buf[65536], path[48];
    size_t got = sizeof buf;
    gg_status st = GG_OK;
    while (st == GG_OK && got == sizeof buf) {
        st = gg_read_some(STDIN_FILENO, buf, sizeof buf, &got, err);
        if (st == GG_OK) st = gg_write_all(fd, buf, got, err);
    }
    /* The descriptor stays open for as long as the program runs: its /proc name is
     * how the source opens it again. */
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    if (st == GG_OK && (st = gg_source_open(path, out, err)) != GG_OK) err->file[0] = '\0'; /* what it is: stdin */
    if (st == GG_OK && (st = gg_source_rename(*out, "-", err)) != GG_OK) gg_source_close(*out);
    if (st != GG_OK) close(fd);
    return st == GG_OK ? GG_OK : gg_at_file(err, "-");
}

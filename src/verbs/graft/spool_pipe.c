/* spool_pipe.c - a pipe that has to be read more than front to back: stored first in a
 * temporary file that has no name, so that nothing is left behind. */
#include "organ/gg_transplant.h"

#include "base/io.h"
#include "organ/source_layout.h"

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

static int unnamed_file(gg_error *err)
{
    char path[512];
    snprintf(path, sizeof path, "%.480s/organ-XXXXXX", temp_folder());
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        gg_fail_errno(err, "cannot make a temporary file");
        gg_fix(err, "set TMPDIR to a folder with room for the model");
        gg_at_file(err, temp_folder());
    } else {
        unlink(path);
    }
    return fd;
}

/* stdin, a FIFO, the /dev/fd name of a shell's <( ). What cannot be found is opened as
 * a file, which says so. */
static bool is_pipe(const char *spec)
{
    struct stat s;
    if (strcmp(spec, "-") == 0) return true;
    return stat(spec, &s) == 0 && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode);
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

gg_status gg_source_open_spooled(const char *spec, gg_source **out, gg_error *err)
{
    if (!is_pipe(spec)) return gg_source_open(spec, out, err);
    char path[48];
    int in = strcmp(spec, "-") == 0 ? STDIN_FILENO : open(spec, O_RDONLY | O_CLOEXEC);
    if (in < 0) {
        gg_fail_errno(err, "cannot open");
        return gg_at_file(err, spec);
    }
    int fd = unnamed_file(err);
    gg_status st = fd < 0 ? err->status : store(spec, in, fd, err);
    if (in != STDIN_FILENO) close(in);
    /* The source opens the file again by the /dev/fd name of this descriptor, which stays
     * open until the source is closed. */
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    if (st == GG_OK && (st = gg_source_open(path, out, err)) != GG_OK)
        err->file[0] = '\0'; /* what it is: stdin */
    if (st != GG_OK && fd >= 0) close(fd);
    if (st != GG_OK) return gg_at_file(err, spec);
    gg_source_own_fd(*out, fd);
    if ((st = gg_source_rename(*out, spec, err)) == GG_OK) return GG_OK;
    gg_source_close(*out);
    *out = NULL;
    return gg_at_file(err, spec);
}

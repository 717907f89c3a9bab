/* tempname.c - temporary names beside the final ones, and the move into place. */
#include "tempname.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 100 /* temporary names, before there must be something wrong */

/* Length of the folder part with its slash; "a/b/" counts as "b" in "a/". */
static size_t folder_len(const char *path, size_t *end)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    *end = n;
    while (n > 0 && path[n - 1] != '/') n--;
    return n;
}

/* ".NAME.PID-N.tmp" in the folder of path, malloc'd. */
static char *temp_name(const char *path)
{
    static atomic_uint counter;
    size_t end, dir = folder_len(path, &end);
    size_t base = end - dir > 180 ? 180 : end - dir; /* keep within NAME_MAX */
    size_t size = dir + base + 48;
    char *temp = malloc(size);
    if (temp)
        snprintf(temp, size, "%.*s.%.*s.%ld-%u.tmp", (int)dir, path, (int)base, path + dir,
                 (long)getpid(), atomic_fetch_add(&counter, 1));
    return temp;
}

static gg_status cannot_create(const char *what, const char *path, gg_error *err)
{
    int why = errno;
    gg_fail_errno(err, "cannot create %s beside it", what);
    if (why == ENOENT) gg_fix(err, "make its folder first, or choose another name");
    else if (why == EEXIST)
        gg_fix(
            err,
            "remove what killed runs left beside it: its name with a dot before and .tmp behind");
    else gg_fix(err, "choose a name in a folder that can be written to");
    gg_at_file(err, path);
    return GG_EIO;
}

/* A name that is taken belongs to another run: in containers every run may have the
 * same PID, and one that was killed leaves its names. They stay; the next is tried. */
gg_status gg_temp_make(const char *path, const char *what, gg_temp_maker make, char **temp,
                       int *made, gg_error *err)
{
    char *name = NULL;
    for (int i = 0; i < TRIES; i++) {
        free(name);
        name = temp_name(path);
        if (!name) return gg_fail(err, GG_ENOMEM, "no memory for an output name");
        *made = make(name);
        if (*made >= 0) {
            *temp = name;
            return GG_OK;
        }
        if (errno != EEXIST) break;
    }
    gg_status st = cannot_create(what, path, err);
    free(name);
    return st;
}

gg_status gg_refuse_existing(const char *path, bool force, gg_error *err)
{
    struct stat s;
    if (path[0] == '\0') return gg_fail(err, GG_EUSAGE, "the output's name is empty");
    if (strcmp(path, "-") == 0) {
        gg_fail(err, GG_EUSAGE, "this output cannot go to a pipe");
        return gg_fix(err, "give it a name, or write ./- if that is its name");
    }
    if (force || lstat(path, &s) != 0) return GG_OK;
    gg_fail(err, GG_EUSAGE, "exists already");
    gg_fix_hint(err, GG_HINT_REPLACE, "choose another name, or have it replaced");
    return gg_at_file(err, path);
}

gg_status gg_put_in_place(const char *temp, const char *path, bool force, gg_error *err)
{
#ifdef RENAME_NOREPLACE
    if (!force) {
        if (renameat2(AT_FDCWD, temp, AT_FDCWD, path, RENAME_NOREPLACE) == 0) return GG_OK;
        if (errno == EEXIST && gg_refuse_existing(path, false, err) != GG_OK) return err->status;
        if (errno != EINVAL && errno != ENOSYS) return gg_fail_errno(err, "rename failed");
    }
#else
    (void)force;
#endif
    return rename(temp, path) == 0 ? GG_OK : gg_fail_errno(err, "rename failed");
}

gg_status gg_sync_parent(const char *path, gg_error *err)
{
    size_t end, dir = folder_len(path, &end);
    char *parent = dir > 0 ? strndup(path, dir) : strdup(".");
    if (!parent) return gg_fail(err, GG_ENOMEM, "no memory for a folder name");
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(parent);
    if (fd < 0) return GG_OK; /* a folder we may write but not read: nothing to do */
    gg_status st = GG_OK;
    if (fsync(fd) != 0 && errno != EINVAL && errno != EROFS)
        st = gg_fail_errno(err, "fsync of the folder failed");
    close(fd);
    return st;
}

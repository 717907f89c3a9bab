/* tempname.c - temporary names in the folder of an output, and the final rename. */
#include "tempname.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 100 /* number of temporary names to try */

/* Length of the folder part with its slash. Trailing slashes are ignored: "a/b/" is "b" in
 * "a/". *end is the length without them. */
static size_t folder_len(const char *path, size_t *end)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    *end = n;
    while (n > 0 && path[n - 1] != '/') n--;
    return n;
}

/* Returns ".NAME.PID-N.tmp" in the folder of path, malloc'd. */
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
    gg_fail_errno(err, "cannot create %s in the folder of this output", what);
    if (why == ENOENT) gg_fix(err, "create the folder first, or choose another name");
    else if (why == EEXIST)
        gg_fix(err, "remove the files that killed runs left there: they are named .NAME.*.tmp");
    else if (why == EACCES || why == EPERM) gg_fix(err, "choose a folder that you can write to");
    gg_at_file(err, path);
    return GG_EIO;
}

/* If a name is taken, the next one is tried. In containers every run may have the same PID, and
 * killed runs leave their temporary files. They are not ours to remove. */
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
    if (path[0] == '\0') return gg_fail(err, GG_EUSAGE, "the name of the output is empty");
    if (strcmp(path, "-") == 0) {
        gg_fail(err, GG_EUSAGE, "this output cannot be written to a pipe");
        return gg_fix(err, "give the name of a file; for a file named -, write ./-");
    }
    if (force || lstat(path, &s) != 0) return GG_OK;
    gg_fail(err, GG_EUSAGE, "already exists");
    gg_fix_hint(err, GG_HINT_REPLACE, "choose another name, or allow it to be replaced");
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
    char parent[PATH_MAX] = "."; /* no allocation: the output is complete already */
    size_t end, dir = folder_len(path, &end);
    if (dir >= sizeof parent) return GG_OK;
    if (dir > 0) {
        memcpy(parent, path, dir);
        parent[dir] = '\0';
    }
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return GG_OK; /* a folder may be writable but not readable; it cannot be synced */
    gg_status st = GG_OK;
    if (fsync(fd) != 0 && errno != EINVAL && errno != EROFS)
        st = gg_fail_errno(err, "fsync of the folder failed");
    close(fd);
    return st;
}

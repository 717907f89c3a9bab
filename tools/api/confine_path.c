/* confine_path.c - look up untrusted path names below one folder only. */
#include "confine_path.h"

#include "base/io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TREE_DEPTH 8

static gg_status leads_out(const char *relative, gg_error *err)
{
    gg_fail(err, GG_NO, "this path leads out of the folder");
    return gg_at_file(err, relative);
}

/* Whether the name is absolute or has a component "..". */
static bool climbs(const char *relative)
{
    if (relative[0] == '/') return true;
    for (const char *p = relative; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') return true;
        p += n + (p[n] == '/');
    }
    return false;
}

static gg_status join(const char *root, const char *relative, char **path, gg_error *err)
{
    if (climbs(relative)) return leads_out(relative, err);
    *path = gg_path_in(root, relative, err);
    return *path ? GG_OK : GG_ENOMEM;
}

/* A name behind a link that leads out of root gets the same error whether it exists or not.
 * Otherwise the errors would reveal which files exist outside. Modifies `path`. */
static gg_status not_found(const char *root, char *path, const char *relative, gg_error *err)
{
    int saved = errno;
    char *folder = NULL;
    for (char *slash; !folder && (slash = strrchr(path, '/')) && slash > path;) {
        *slash = '\0';
        folder = realpath(path, NULL);
    }
    bool inside = !folder || gg_path_within(root, folder);
    free(folder);
    if (!inside) return leads_out(relative, err);
    errno = saved;
    gg_fail_errno(err, "cannot be found");
    return gg_at_file(err, relative);
}

gg_status gg_confine_path(const char *root, const char *relative, char **real, gg_error *err)
{
    char *path;
    gg_status st = join(root, relative, &path, err);
    if (st != GG_OK) return st;
    char *found = realpath(path, NULL);
    if (!found) st = not_found(root, path, relative, err);
    free(path);
    if (!found) return st;
    if (!gg_path_within(root, found)) {
        free(found);
        return leads_out(relative, err);
    }
    *real = found;
    return GG_OK;
}

/* Opens `real` from root down, one folder at a time, without following any link. */
static int open_without_links(const char *root, const char *real)
{
    char name[NAME_MAX + 1];
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *p = real + (root[1] ? strlen(root) : 0);
    while (fd >= 0) {
        while (*p == '/') p++;
        if (!*p) break;
        size_t n = strcspn(p, "/");
        if (n > NAME_MAX) {
            close(fd);
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(name, p, n);
        name[n] = '\0';
        int next = openat(
            fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | (p[n] ? O_DIRECTORY : 0));
        int saved = errno;
        close(fd);
        errno = saved;
        fd = next;
        p += n;
    }
    return fd;
}

gg_status gg_confine_open(const char *root, const char *relative, int *fd, char **real,
                          gg_error *err)
{
    char *found;
    gg_status st = gg_confine_path(root, relative, &found, err);
    if (st != GG_OK) return st;
    /* not_found, which fails always, is too long for the analyzer.
     * NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage) */
    *fd = open_without_links(root, found);
    if (*fd < 0) {
        int saved = errno;
        free(found);
        if (saved == ELOOP || saved == ENOTDIR) return leads_out(relative, err);
        errno = saved;
        gg_fail_errno(err, "cannot be opened");
        return gg_at_file(err, relative);
    }
    if (real) *real = found;
    else free(found);
    return GG_OK;
}

gg_status gg_confine_new(const char *root, const char *relative, gg_error *err)
{
    char *path, *real = NULL;
    gg_status st = join(root, relative, &path, err);
    if (st != GG_OK) return st;
    struct stat s;
    bool exists = gg_lstat(path, &s, err);
    if (!exists) {
        char *slash = strrchr(path, '/');
        slash[slash == path] = '\0';
    }
    /* A dangling link has no real path and is refused, wherever it points. */
    real = err->status == GG_OK ? realpath(path, NULL) : NULL;
    if (!real && exists && S_ISLNK(s.st_mode)) st = leads_out(relative, err);
    else if (!real) {
        gg_fail_errno(err, "cannot find the folder of this path");
        st = gg_at_file(err, relative);
    } else if (!gg_path_within(root, real)) {
        st = leads_out(relative, err);
    }
    free(real);
    free(path);
    return st;
}

static gg_status check_link(const char *root, const char *folder, const char *name, gg_error *err)
{
    char *path, *real;
    gg_status st = join(folder, name, &path, err);
    if (st != GG_OK) return st;
    real = gg_real_path(path, err);
    free(path);
    bool inside = real && gg_path_within(root, real);
    free(real);
    return inside || err->status != GG_OK ? err->status : leads_out(name, err);
}

static gg_status check_folder(const char *root, const char *folder, int depth, gg_error *err);

static gg_status check_entry(const char *root, int dir, const char *folder, const char *name,
                             int depth, gg_error *err)
{
    struct stat s;
    if (fstatat(dir, name, &s, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) return GG_OK; /* deleted meanwhile */
        gg_fail_errno(err, "cannot find out what this is");
        return gg_at_file(err, name);
    }
    if (S_ISLNK(s.st_mode)) return check_link(root, folder, name, err);
    if (!S_ISDIR(s.st_mode)) return GG_OK;
    char *path = NULL;
    gg_status st = join(folder, name, &path, err);
    if (st == GG_OK) st = check_folder(root, path, depth + 1, err);
    free(path);
    return st;
}

static gg_status check_folder(const char *root, const char *folder, int depth, gg_error *err)
{
    if (depth > TREE_DEPTH) {
        gg_fail(err, GG_NO, "folders are nested more than %d levels deep", TREE_DEPTH);
        return gg_at_file(err, folder);
    }
    DIR *d = opendir(folder);
    if (!d) {
        gg_fail_errno(err, "cannot be read");
        return gg_at_file(err, folder);
    }
    for (const char *name; err->status == GG_OK && (name = gg_next_name(d, err));)
        check_entry(root, dirfd(d), folder, name, depth, err);
    closedir(d);
    return gg_at_file(err, folder);
}

gg_status gg_confine_tree(const char *root, const char *real, gg_error *err)
{
    return check_folder(root, real, 0, err);
}

/* output_guard.c - refuse outputs that would overwrite an input. */
#include "output_guard.h"

#include "base/error.h"
#include "manifest.h"
#include "source_layout.h"
#include "source_watch.h"
#include "tensor_names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The real path of the folder that contains `path`, malloc'd; NULL if it does not exist. */
static char *folder_of(const char *path, gg_error *err)
{
    size_t end, n = gg_folder_len(path, &end);
    char *cut = n ? strndup(path, n) : strdup("."), *real = cut ? gg_real_path(cut, err) : NULL;
    if (!cut) gg_fail(err, GG_ENOMEM, "no memory for a path");
    free(cut);
    return real;
}

/* Whether organ directories use that name at their top level. */
static bool is_reserved(const char *name)
{
    return gg_is_class_folder(name) || strcmp(name, GG_MANIFEST) == 0 ||
           strncmp(name, "trailing-", 9) == 0 || name[0] == '.';
}

/* Whether path is a name at the top level of the directory that organ directories do not use. */
static bool is_new_at_top(const char *path, const char *folder, const char *dir)
{
    char name[256];
    size_t end, start = gg_folder_len(path, &end);
    if (strcmp(folder, dir) != 0 || end - start >= sizeof name) return false;
    memcpy(name, path + start, end - start);
    name[end - start] = '\0';
    return !is_reserved(name);
}

static gg_status refuse_input(const char *path, gg_error *err)
{
    gg_fail(err, GG_EUSAGE, "this output is also an input");
    gg_fix_by(err, "in_place", "choose another name");
    return gg_at_file(err, path);
}

typedef struct output_file {
    const char *path;
    struct stat s;
} output_file;

static gg_status compare_file(void *ctx, const gg_stamp *was, int fd, const char *path,
                              gg_error *err)
{
    const output_file *out = ctx;
    (void)fd, (void)path;
    return gg_stamp_is_of(was, &out->s) ? refuse_input(out->path, err) : GG_OK;
}

/* Whether `path` lies inside the organ directory, where it could replace the manifest or a record.
 * If its folder does not exist, creating the output will fail with a reason. */
static bool lies_inside(const char *path, const char *organ_dir, gg_error *err)
{
    char *link_to = gg_real_path(path, err), *dir = gg_real_path(organ_dir, err);
    const char *place = link_to ? link_to : path;
    char *folder = folder_of(place, err);
    bool inside = folder && dir && gg_path_within(dir, folder) &&
                  !is_new_at_top(place, folder, dir);
    free(folder);
    free(dir);
    free(link_to);
    return inside;
}

gg_status gg_guard_output(const char *path, const gg_source *s, gg_error *err)
{
    struct stat in;
    output_file out = { .path = path };
    if (!s || strcmp(path, "-") == 0) return GG_OK;
    const char *name = gg_source_name(s);
    bool exists = gg_stat(path, &out.s, err);
    if (err->status != GG_OK) return err->status;
    if (exists && (strcmp(name, "-") == 0 ? fstat(0, &in) == 0 : gg_stat(name, &in, err)) &&
        (S_ISREG(in.st_mode) || S_ISDIR(in.st_mode)) && in.st_dev == out.s.st_dev &&
        in.st_ino == out.s.st_ino)
        return refuse_input(path, err);
    if (err->status == GG_OK && gg_source_manifest(s) && lies_inside(path, name, err)) {
        gg_fail(err, GG_EUSAGE, "this output lies inside the organ directory that is being read");
        gg_fix(err, "choose a name outside of that directory");
        return gg_at_file(err, path);
    }
    if (err->status != GG_OK) return err->status;
    return exists ? gg_source_each_file(s, compare_file, &out, err) : GG_OK;
}

/* A link often leads into a cache whose files are named after their content. */
static gg_status refuse_link(const char *path, gg_error *err)
{
    struct stat s;
    if (!gg_lstat(path, &s, err) || !S_ISLNK(s.st_mode)) return err->status;
    gg_fail(err, GG_EUSAGE, "this is a symbolic link; the file that it leads to would change");
    return gg_fix_by(err, "follow", "name that file, copy it and change the copy, or allow it");
}

gg_status gg_open_in_place(const char *path, int fd, gg_in_place allowed, int *out, gg_error *err)
{
    struct stat is, was;
    *out = -1;
    if (!allowed.follow && refuse_link(path, err) != GG_OK) return gg_at_file(err, path);
    *out = open(path, O_RDWR | O_CLOEXEC);
    if (*out < 0 || fstat(*out, &is) != 0) gg_fail_errno(err, "cannot open for writing");
    else if (fd >= 0 && fstat(fd, &was) != 0)
        gg_fail_errno(err, "cannot tell whether the file was replaced");
    else if (fd >= 0 && (was.st_dev != is.st_dev || was.st_ino != is.st_ino))
        gg_fail(err, GG_EIO, "the file was replaced while it was opened");
    else if (flock(*out, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        gg_fail(err, GG_EIO, "another program is changing this file");
        gg_fix(err, "wait for it to end");
    } else if (!allowed.links && is.st_nlink > 1) {
        gg_fail(err, GG_EUSAGE, "the file has %llu names (hard links), and would change under all",
                (unsigned long long)is.st_nlink);
        gg_fix_by(err, "force", "copy it and change the copy, or allow it");
    }
    return gg_at_file(err, path);
}

/* output_guard.c - refuse outputs that would overwrite an input. */
#include "output_guard.h"

#include "base/confine_path.h"
#include "base/error.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The real path of the folder that contains `path`, malloc'd; NULL if it does not exist. */
static char *folder_of(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    while (n > 0 && path[n - 1] != '/') n--;
    char *cut = n ? strndup(path, n) : strdup("."), *real = cut ? realpath(cut, NULL) : NULL;
    free(cut);
    return real;
}

/* Whether organ directories use that name at their top level. */
static bool is_reserved(const char *name)
{
    for (int c = 0; c < GG_CLASS_COUNT; c++)
        if (strcmp(name, gg_class_folder((gg_class)c)) == 0) return true;
    return strcmp(name, GG_MANIFEST) == 0 || strncmp(name, "trailing-", 9) == 0 || name[0] == '.';
}

/* Whether path is a name at the top level of the directory that organ directories do not use. */
static bool is_new_at_top(const char *path, const char *folder, const char *dir)
{
    char name[256];
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/') start--;
    if (strcmp(folder, dir) != 0 || end - start >= sizeof name) return false;
    memcpy(name, path + start, end - start);
    name[end - start] = '\0';
    return !is_reserved(name);
}

/* Whether s reads the file of `out`: a file of records, a directory, a shard, stdin. */
static bool is_read_by(const struct stat *out, const gg_source *s)
{
    struct stat in;
    const char *name = gg_source_name(s);
    bool used = (strcmp(name, "-") == 0 ? fstat(0, &in) : stat(name, &in)) == 0 &&
                in.st_dev == out->st_dev && in.st_ino == out->st_ino;
    const gg_model *m = gg_source_model(s);
    for (size_t i = 0; m && i < m->n_files && !used; i++)
        used = fstat(m->fds[i], &in) == 0 && in.st_dev == out->st_dev && in.st_ino == out->st_ino;
    return used;
}

gg_status gg_guard_output(const char *path, const gg_source *s, gg_error *err)
{
    struct stat out;
    if (!s || strcmp(path, "-") == 0) return GG_OK;
    if (stat(path, &out) == 0 && (S_ISREG(out.st_mode) || S_ISDIR(out.st_mode)) &&
        is_read_by(&out, s)) {
        gg_fail(err, GG_EUSAGE, "this output is also an input");
        gg_fix_hint(err, GG_HINT_IN_PLACE, "choose another name");
        return gg_at_file(err, path);
    }
    if (!gg_source_manifest(s)) return GG_OK;
    char *link_to = realpath(path, NULL), *dir = realpath(gg_source_name(s), NULL);
    const char *place = link_to ? link_to : path;
    char *folder = folder_of(place);
    bool inside = folder && dir && gg_path_within(dir, folder) &&
                  !is_new_at_top(place, folder, dir);
    free(folder); /* if the folder does not exist, creating the output will fail with a reason */
    free(dir);
    free(link_to);
    if (!inside) return GG_OK;
    gg_fail(err, GG_EUSAGE, "this output lies inside the organ directory that is being read");
    gg_fix(err, "choose a name outside of that directory");
    return gg_at_file(err, path);
}

gg_status gg_refuse_links(int fd, gg_error *err)
{
    struct stat s;
    if (fstat(fd, &s) != 0) return gg_fail_errno(err, "cannot get the number of its names");
    if (s.st_nlink < 2) return GG_OK;
    gg_fail(err, GG_EUSAGE, "the file has %llu names (hard links), and would change under all",
            (unsigned long long)s.st_nlink);
    return gg_fix_hint(err, GG_HINT_REPLACE, "copy it and change the copy, or allow it");
}

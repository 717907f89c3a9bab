/* inside.c - is a name to be written within a folder that is read? */
#include "inside.h"

#include <stdlib.h>
#include <string.h>

/* The folder that path's last part lies in, links followed; NULL when there is none. */
static char *folder_of(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    while (n > 0 && path[n - 1] != '/') n--;
    char *cut = n ? strndup(path, n) : strdup("."), *real = cut ? realpath(cut, NULL) : NULL;
    free(cut);
    return real;
}

static bool beneath(const char *folder, const char *dir)
{
    size_t n = strlen(dir);
    while (n > 0 && dir[n - 1] == '/') n--; /* the root is all but its slash */
    return strncmp(folder, dir, n) == 0 && (folder[n] == '/' || folder[n] == '\0');
}

gg_status gg_refuse_inside(const char *path, const gg_source *s, gg_error *err)
{
    if (!s || !gg_source_manifest(s)) return GG_OK;
    char *folder = folder_of(path), *dir = realpath(gg_source_name(s), NULL);
    bool inside = folder && dir && beneath(folder, dir); /* no folder: creating it will say so */
    free(folder);
    free(dir);
    if (!inside) return GG_OK;
    gg_fail(err, GG_EUSAGE, "lies within the organ directory that is read");
    gg_fix(err, "give a name outside of it");
    return gg_at_file(err, path);
}

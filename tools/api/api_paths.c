/* api_paths.c - checks that the paths of a job's arguments stay inside the data folder, together
 * with everything a tool would open with them. */
#include "api.h"

#include "base/confine_path.h" /* paths that must stay below a folder */
#include "base/error.h"        /* a second error that replaces none */
#include "base/io.h"           /* whole reads and writes */
#include "gguf/gguf.h"         /* names of shards */
#include "organ/gg_gguf.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define IN_PARTS 3 /* DIR/organs/FILE.bin */

/* Whether two names are names of shards of one set. */
static bool same_set(const char *a, const char *b)
{
    size_t a_len, b_len;
    uint32_t no, a_count, b_count;
    return gg_shard_parse(a, &a_len, &no, &a_count) && gg_shard_parse(b, &b_len, &no, &b_count) &&
           a_count == b_count && a_len == b_len && memcmp(a, b, a_len) == 0;
}

/* A tool that is given one shard opens the others of the set too: PREFIX-00001-of-00003.gguf.
 * The folder is read once instead of looking up every possible name, because a name can claim
 * 99999 shards. A missing shard is reported by the tool. */
static gg_status check_shards(const api *a, const char *path, gg_error *err)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    int folder_len = (int)(name - path);
    char *folder = NULL, other[4 * API_NAME];
    if (!same_set(name, name)) return GG_OK;
    snprintf(other, sizeof other, "%.*s.", folder_len, path);
    gg_status st = gg_confine_path(a->data, other, &folder, err);
    DIR *d = st == GG_OK ? opendir(folder) : NULL;
    if (st == GG_OK && !d) st = gg_fail_errno(err, "cannot read the folder of the shards");
    for (struct dirent *e; st == GG_OK && d && (e = readdir(d));) {
        char *real = NULL;
        gg_error why = GG_ERROR_INIT;
        if (!same_set(name, e->d_name)) continue;
        snprintf(other, sizeof other, "%.*s%s", folder_len, path, e->d_name);
        gg_status found = gg_confine_path(a->data, other, &real, &why);
        free(real);
        if (found == GG_NO || found == GG_ENOMEM) gg_error_merge(err, &why), st = found;
    }
    if (d) closedir(d);
    free(folder);
    return st;
}

gg_status api_check_input(const api *a, const char *path, gg_error *err)
{
    char *real = NULL;
    struct stat s;
    gg_status st = gg_confine_path(a->data, path, &real, err);
    if (st == GG_OK && stat(real, &s) != 0) {
        gg_fail_errno(err, "cannot find this file");
        st = gg_at_file(err, path);
    }
    if (st == GG_OK && S_ISDIR(s.st_mode)) st = gg_confine_tree(a->data, real, err);
    else if (st == GG_OK && S_ISREG(s.st_mode)) st = check_shards(a, path, err);
    else if (st == GG_OK) {
        gg_fail(err, GG_EUSAGE, "this is neither a file nor a folder");
        st = gg_at_file(err, path);
    }
    free(real);
    return st;
}

static bool is_output(cli_kind kind)
{
    return kind >= CLI_NEW_MODEL && kind <= CLI_INTO;
}

bool api_is_path(cli_kind kind)
{
    return kind >= CLI_MODEL && kind <= CLI_INTO;
}

/* The length of the path in a value. What follows the first comma of CLI_PARAMS must look like a
 * parameter, so that organ-merge ends the path at the same comma. */
static size_t path_length(cli_kind kind, const char *value)
{
    size_t n = strlen(value), path = strcspn(value, ",");
    if (kind != CLI_PARAMS || path == n) return n;
    size_t key = strspn(value + path + 1, "abcdefghijklmnopqrstuvwxyz0123456789_");
    char end = value[path + 1 + key];
    return key > 0 && (end == '=' || end == ':') ? path : n;
}

/* Links in a folder that is going to be written into could lead out of the data folder. */
static gg_status check_into(const api *a, const char *path, gg_error *err)
{
    char *real = NULL;
    struct stat s;
    gg_error none = GG_ERROR_INIT;
    gg_status st = gg_confine_new(a->data, path, err);
    if (st != GG_OK) return st;
    st = gg_confine_path(a->data, path, &real, &none);
    if (st == GG_OK && stat(real, &s) == 0 && S_ISDIR(s.st_mode))
        st = gg_confine_tree(a->data, real, err);
    else if (st == GG_EIO && none.sys_errno == ENOENT) st = GG_OK; /* it will be made */
    else if (st != GG_OK) gg_error_merge(err, &none);
    free(real);
    return st;
}

gg_status api_check_path(const api *a, cli_kind kind, const char *value, gg_error *err)
{
    char path[4 * API_NAME];
    size_t n = path_length(kind, value);
    if (n >= sizeof path) return gg_fail(err, GG_EUSAGE, "the path is too long");
    memcpy(path, value, n);
    path[n] = '\0';
    if (kind == CLI_INTO) return check_into(a, path, err);
    return is_output(kind) ? gg_confine_new(a->data, path, err) : api_check_input(a, path, err);
}

/* Checks the names before any file is looked up. ".." and absolute paths give 403 instead
 * of 400, because the client tried to leave the data folder. */
bool api_path_ok(api *a, cli_kind kind, const char *value)
{
    size_t parts = 0, most = is_output(kind) ? 1 : IN_PARTS;
    const char *end = value + path_length(kind, value);
    if (value[0] == '/')
        return api_fail(a, 403, "'%s' is an absolute path: use a name inside the data folder",
                        value);
    if (strcmp(value, "-") == 0)
        return api_fail(a, 400, "'-' (stdin or stdout) is not available here: name a file");
    for (const char *p = value;; p++) {
        size_t n = strcspn(p, "/");
        if (n > (size_t)(end - p)) n = (size_t)(end - p);
        if (n == 2 && p[0] == '.' && p[1] == '.')
            return api_fail(a, 403, "'%s' is outside the data folder", value);
        if (!api_name_ok(p, n) || ++parts > most)
            return api_fail(
                a, 400,
                "'%s' is not a valid name: use letters, digits, '.', '_', '-', at most %zu part%s",
                value, most, most == 1 ? "" : "s");
        p += n;
        if (p == end) break;
    }
    gg_error err = GG_ERROR_INIT;
    return api_check_path(a, kind, value, &err) == GG_OK || api_fail_error(a, &err);
}

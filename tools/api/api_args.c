/* api_args.c - turns the JSON arguments of a job into an argument vector that cannot touch
 * anything outside the data folder.
 *
 * Every option becomes one item, "--name=value", and everything else follows "--", so no
 * value can be mistaken for an option. The tools run in the data folder, so paths remain
 * the relative names that were given.
 */
#include "api.h"

#include "base/confine_path.h" /* paths that must stay below a folder */
#include "base/error.h"        /* a second error that replaces none */
#include "base/io.h"           /* whole reads and writes */
#include "base/utf8.h"         /* what JSON can hold */
#include "gguf/gguf.h"         /* names of shards */
#include "organ/gg_gguf.h"
#include "json/json.h" /* the one JSON reader and writer */

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MAX 4096 /* longest value in bytes */
#define ITEMS_MAX 1100
#define IN_PARTS 3 /* DIR/organs/FILE.bin */

void api_vector_free(api_vector *v)
{
    for (size_t i = 0; i < v->n; i++) free(v->items[i]);
    free(v->items);
    *v = (api_vector){ NULL, 0 };
}

/* Takes ownership of `item` even on failure. The list stays terminated by NULL for exec. */
static bool push(api *a, api_vector *v, char *item)
{
    char **grown = item && v->n < ITEMS_MAX ? realloc(v->items, (v->n + 2) * sizeof *grown) : NULL;
    if (grown) {
        v->items = grown;
        grown[v->n++] = item;
        grown[v->n] = NULL;
        return true;
    }
    bool many = v->n >= ITEMS_MAX;
    free(item);
    return many ? api_fail(a, 400, "more than %d arguments", ITEMS_MAX)
                : api_fail(a, 500, "out of memory for the arguments");
}

static const api_option *find_option(const api_tool *tool, const char *name)
{
    static const api_option force = { "force", API_FLAG, NULL };
    static const api_option strict = { "strict", API_FLAG, NULL };
    const api_option *lists[] = { tool->options, api_common, tool->selects ? api_selection : NULL };
    if (tool->force && strcmp(name, "force") == 0) return &force;
    if (tool->strict && strcmp(name, "strict") == 0) return &strict;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (const api_option *o = lists[i]; o && o->name; o++)
            if (strcmp(o->name, name) == 0) return o;
    return NULL;
}

static const api_tool *find_tool(const char *name)
{
    const api_tool *t = api_tools;
    while (t->name && strcmp(t->name, name) != 0) t++;
    return t->name ? t : NULL;
}

/* ---- paths --------------------------------------------------------------------- */

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

static gg_status check_path(const api *a, api_kind kind, const char *path, gg_error *err)
{
    return kind == API_OUT ? gg_confine_new(a->data, path, err) : api_check_input(a, path, err);
}

/* Checks the names before any file is looked up. ".." and absolute paths give 403 instead
 * of 400, because the client tried to leave the data folder. */
static bool path_ok(api *a, api_kind kind, const char *path)
{
    size_t parts = 0, most = kind == API_OUT ? 1 : IN_PARTS;
    if (path[0] == '/')
        return api_fail(a, 403, "'%s' is an absolute path: use a name inside the data folder",
                        path);
    if (strcmp(path, "-") == 0)
        return api_fail(a, 400, "'-' (stdin or stdout) is not available here: name a file");
    for (const char *p = path;; p++) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.')
            return api_fail(a, 403, "'%s' is outside the data folder", path);
        if (!api_name_ok(p, n) || ++parts > most)
            return api_fail(
                a, 400,
                "'%s' is not a valid name: use letters, digits, '.', '_', '-', at most %zu part%s",
                path, most, most == 1 ? "" : "s");
        p += n;
        if (!*p) break;
    }
    gg_error err = GG_ERROR_INIT;
    return check_path(a, kind, path, &err) == GG_OK || api_fail_error(a, &err);
}

/* ---- values --------------------------------------------------------------------- */

static bool only(const char *text, const char *bytes)
{
    return *text && text[strspn(text, bytes)] == '\0';
}

static bool is_size(const char *text)
{
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n > 18) return false;
    if (text[n] && strchr("kKmMgGtT", text[n]) && ++n && (text[n] == 'B' || text[n] == 'b')) n++;
    return text[n] == '\0';
}

static bool is_number(const char *text)
{
    char *end;
    if (!only(text, "0123456789.eE+-")) return false;
    (void)strtod(text, &end);
    return *end == '\0';
}

static bool is_word(const char *words, const char *text)
{
    char padded[40];
    int n = snprintf(padded, sizeof padded, " %s ", text);
    return n > 2 && (size_t)n < sizeof padded && strchr(text, ' ') == NULL &&
           strstr(words, padded) != NULL;
}

static bool is_text(const char *text)
{
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) return false;
    return len > 0 && len <= TEXT_MAX && gg_utf8_valid(text, len);
}

static bool value_ok(api *a, const api_option *o, const char *value)
{
    bool ok = false;
    const char *want = "";
    switch (o->kind) {
    case API_FLAG: return api_fail(a, 400, "--%s takes no value", o->name);
    case API_IN:
    case API_OUT: return path_ok(a, o->kind, value);
    case API_U64:
        ok = only(value, "0123456789") && strlen(value) < 20, want = "a whole number";
        break;
    case API_SIZE: ok = is_size(value), want = "a size such as 500M"; break;
    case API_F64: ok = strlen(value) < 60 && is_number(value), want = "a number"; break;
    case API_WORD: ok = is_word(o->words, value), want = o->words; break;
    case API_LIST:
        ok = strlen(value) <= TEXT_MAX && only(value, "0123456789,-="), want = "numbers and ranges";
        break;
    case API_RANGES:
        ok = strlen(value) <= TEXT_MAX && only(value, "0123456789,-"), want = "numbers and ranges";
        break;
    case API_TEXT: ok = is_text(value), want = "text without control bytes"; break;
    }
    return ok || api_fail(a, 400, "--%s: the value must be %s", o->name, want);
}

/* ---- from JSON -------------------------------------------------------------------- */

typedef struct builder {
    api *a;
    const api_tool *tool;
    api_vector *v; /* options */
    api_vector rest;
} builder;

static char *copy_string(builder *b, const gg_json_node *node)
{
    const char *p;
    size_t len;
    gg_error err = GG_ERROR_INIT;
    if (gg_json_string(node, &p, &len, &err) != GG_OK) {
        api_fail(b->a, 400, "offset %llu: an argument must be a string",
                 (unsigned long long)gg_json_offset(node));
        return NULL;
    }
    if (memchr(p, 0, len) || len > TEXT_MAX) {
        api_fail(b->a, 400, "offset %llu: an argument has a NUL byte or more than %d bytes",
                 (unsigned long long)gg_json_offset(node), TEXT_MAX);
        return NULL;
    }
    char *s = strndup(p, len);
    if (!s) api_fail(b->a, 500, "out of memory for the arguments");
    return s;
}

static bool unknown(builder *b, const char *name)
{
    return api_fail(b->a, 400, "unknown option for %s over HTTP: %.60s", b->tool->name, name);
}

/* Adds an option; value is NULL if none was given. */
static bool add_option(builder *b, const char *name, const char *value)
{
    const api_option *o = find_option(b->tool, name);
    if (b->tool->json && strcmp(name, "json") == 0 && !value) return true; /* it is added anyway */
    if (!o) return unknown(b, name);
    if (!value && o->kind != API_FLAG) return api_fail(b->a, 400, "--%s needs a value", name);
    if (value && !value_ok(b->a, o, value)) return false;
    size_t size = strlen(name) + (value ? strlen(value) : 0) + 4;
    char *item = malloc(size);
    if (item) snprintf(item, size, "--%s%s%s", name, value ? "=" : "", value ? value : "");
    return push(b->a, b->v, item);
}

static bool add_rest(builder *b, const char *text)
{
    if (b->rest.n >= b->tool->max_args)
        return api_fail(b->a, 400, "%s takes at most %u positional arguments: unexpected '%.100s'",
                        b->tool->name, b->tool->max_args, text);
    return path_ok(b->a, API_IN, text) && push(b->a, &b->rest, strdup(text));
}

/* Handles one item of the array, with the next as its value; sets *took to the number used. */
static bool add_item(builder *b, char *item, const char *next, bool *ended, int *took)
{
    *took = 1;
    if (*ended || item[0] != '-') return add_rest(b, item);
    if (strcmp(item, "--") == 0) return *ended = true;
    if (strcmp(item, "-q") == 0) return add_option(b, "quiet", NULL);
    if (strcmp(item, "-v") == 0) return add_option(b, "verbose", NULL);
    if (item[1] == 'j' && item[2]) return add_option(b, "threads", item + 2);
    bool threads = strcmp(item, "-j") == 0;
    if (!threads && item[1] != '-')
        return strcmp(item, "-") == 0 ? path_ok(b->a, API_IN, item) : unknown(b, item);
    const char *name = threads ? "threads" : item + 2;
    char *eq = strchr(item, '=');
    if (eq) {
        *eq = '\0';
        return add_option(b, name, eq + 1);
    }
    const api_option *o = find_option(b->tool, name);
    bool takes = o && o->kind != API_FLAG;
    if (takes && next) *took = 2;
    return add_option(b, name, takes ? next : NULL);
}

static bool is_string(const gg_json_node *node, const char *text)
{
    const char *p;
    size_t len;
    gg_error err = GG_ERROR_INIT;
    return gg_json_string(node, &p, &len, &err) == GG_OK && len == strlen(text) &&
           memcmp(p, text, len) == 0;
}

static bool from_array(builder *b, const gg_json_node *array)
{
    bool ok = true, ended = false;
    const gg_json_node *n = gg_json_first(array);
    /* Ignored, as organ-graft itself does. */
    if (n && strcmp(b->tool->name, "organ-graft") == 0 && is_string(n, "graft"))
        n = gg_json_next(n);
    while (ok && n) {
        const gg_json_node *after = gg_json_next(n);
        char *item = copy_string(b, n), *next = item && after ? copy_string(b, after) : NULL;
        int took = 1;
        ok = item && (next || !after) && add_item(b, item, next, &ended, &took);
        n = took == 2 ? gg_json_next(after) : after;
        free(item);
        free(next);
    }
    return ok;
}

/* The value is true, false, a string, a number, or an array of strings for a repeated option. */
static bool add_member(builder *b, const char *name, const gg_json_node *value)
{
    bool yes = false, ok;
    gg_error err = GG_ERROR_INIT;
    size_t len;
    const char *number = gg_json_number_text(value, &len);
    char *text = NULL;
    switch (gg_json_type_of(value)) {
    case GG_JSON_BOOL:
        (void)gg_json_bool(value, &yes, &err);
        if (!yes && !find_option(b->tool, name)) return unknown(b, name);
        return !yes || add_option(b, name, NULL);
    case GG_JSON_NUMBER: text = strndup(number, len); break;
    case GG_JSON_STRING: text = copy_string(b, value); break;
    default:
        return api_fail(b->a, 400, "--%.60s: use true, a string, a number or an array of strings",
                        name);
    }
    ok = text ? add_option(b, name, text) : api_fail(b->a, 500, "out of memory for the arguments");
    free(text);
    return ok;
}

static bool from_object(builder *b, const gg_json_node *object)
{
    bool ok = true;
    for (const gg_json_node *n = gg_json_first(object); ok && n; n = gg_json_next(n)) {
        size_t len;
        const char *key = gg_json_key(n, &len);
        char name[64];
        if (len >= sizeof name || memchr(key, 0, len))
            return api_fail(b->a, 400, "offset %llu: unknown option",
                            (unsigned long long)gg_json_offset(n));
        memcpy(name, key, len);
        name[len] = '\0';
        bool rest = strcmp(name, "args") == 0, list = gg_json_type_of(n) == GG_JSON_ARRAY;
        if (rest && !list) return api_fail(b->a, 400, "\"args\" must be an array of strings");
        if (!list) ok = add_member(b, name, n);
        for (const gg_json_node *e = list ? gg_json_first(n) : NULL; ok && e; e = gg_json_next(e)) {
            char *text = copy_string(b, e);
            ok = text && (rest ? add_rest(b, text) : add_option(b, name, text));
            free(text);
        }
    }
    return ok;
}

/* ---- all of it --------------------------------------------------------------------- */

static const api_tool *named_tool(api *a, const gg_json_node *request)
{
    char name[64] = "";
    const char *p;
    size_t len;
    gg_error err = GG_ERROR_INIT;
    if (gg_json_string(gg_json_get(request, "tool"), &p, &len, &err) == GG_OK && len < sizeof name)
        memcpy(name, p, len);
    const api_tool *tool = find_tool(name);
    if (!tool)
        api_fail(a, 400,
                 "\"tool\" must be one of organ-extract, organ-measure, organ-purify, organ-graft, "
                 "organ-assemble, "
                 "organ-transplant, organ-compare, organ-keys, organ-check");
    return tool;
}

static bool only_known(api *a, const gg_json_node *request)
{
    if (gg_json_type_of(request) != GG_JSON_OBJECT)
        return api_fail(a, 400,
                        "the body must be an object: {\"tool\": ..., \"arguments\": [...]}");
    for (const gg_json_node *n = gg_json_first(request); n; n = gg_json_next(n))
        if (!gg_json_key_is(n, "tool") && !gg_json_key_is(n, "arguments"))
            return api_fail(a, 400,
                            "offset %llu: unknown member; use only \"tool\" and \"arguments\"",
                            (unsigned long long)gg_json_offset(n));
    return true;
}

static bool start_vector(builder *b)
{
    size_t size = strlen(b->a->bin) + strlen(b->tool->name) + 2;
    char *path = malloc(size);
    if (path) snprintf(path, size, "%s/%s", b->a->bin, b->tool->name);
    if (path && access(path, X_OK) != 0) {
        free(path);
        return api_fail(b->a, 500, "%s is not installed in ORGAN_API_BIN", b->tool->name);
    }
    return push(b->a, b->v, path);
}

static bool has_option(const api_vector *v, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 1; i < v->n; i++) {
        const char *item = v->items[i];
        if (strncmp(item, "--", 2) == 0 && strncmp(item + 2, name, n) == 0 &&
            (item[2 + n] == '\0' || item[2 + n] == '='))
            return true;
    }
    return false;
}

/* Adds --json, so that every table is printed as JSON Lines. */
static bool add_json(builder *b)
{
    const char *with = b->tool->json;
    bool prints = with && (!*with || has_option(b->v, with));
    if (with && strcmp(with, "-") == 0)
        prints = !has_option(b->v, "output") && !has_option(b->v, "in-place") &&
                 !has_option(b->v, "recover");
    return !prints || push(b->a, b->v, strdup("--json"));
}

bool api_arguments(api *a, const gg_json_node *request, api_vector *v)
{
    builder b = { .a = a, .v = v };
    if (!only_known(a, request) || !(b.tool = named_tool(a, request))) return false;
    const gg_json_node *args = gg_json_get(request, "arguments");
    bool ok = start_vector(&b);
    switch (gg_json_type_of(args)) {
    case GG_JSON_ARRAY: ok = ok && from_array(&b, args); break;
    case GG_JSON_OBJECT: ok = ok && from_object(&b, args); break;
    default:
        ok = api_fail(a, 400, "\"arguments\" must be an array of strings or an object of options");
    }
    ok = ok && add_json(&b);
    if (ok && b.rest.n) ok = push(a, v, strdup("--"));
    for (size_t i = 0; ok && i < b.rest.n; i++) ok = push(a, v, strdup(b.rest.items[i]));
    api_vector_free(&b.rest);
    return ok;
}

gg_status api_check_paths(const api *a, const api_vector *v, gg_error *err)
{
    const char *slash = strrchr(v->items[0], '/');
    const api_tool *tool = find_tool(slash ? slash + 1 : v->items[0]);
    bool rest = false;
    gg_status st = tool ? GG_OK : gg_fail(err, GG_EUSAGE, "no such tool");
    for (size_t i = 1; st == GG_OK && i < v->n; i++) {
        const char *item = v->items[i], *eq = strchr(item, '=');
        if (rest) st = check_path(a, API_IN, item, err);
        else if (strcmp(item, "--") == 0) rest = true;
        else if (eq) {
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)(eq - item - 2), item + 2);
            const api_option *o = find_option(tool, name);
            if (o && (o->kind == API_IN || o->kind == API_OUT))
                st = check_path(a, o->kind, eq + 1, err);
        }
    }
    return st;
}

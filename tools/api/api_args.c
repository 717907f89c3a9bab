/* api_args.c - turns the JSON arguments of a job into an argument vector that cannot touch
 * anything outside the data folder.
 *
 * Every option becomes one item, "--name=value", and everything else follows "--", so no
 * value can be mistaken for an option. The tools run in the data folder, so paths remain
 * the relative names that were given.
 */
#define _GNU_SOURCE /* vasprintf */
#include "api.h"

#include "base/error.h"   /* a second error that replaces none */
#include "base/grow.h"    /* lists that grow */
#include "base/io.h"      /* paths */
#include "base/utf8.h"    /* what JSON can hold */
#include "confine_path.h" /* paths that must stay below a folder */
#include "gguf/gguf.h"    /* names of shards */
#include "hf/checkpoint.h"
#include "hf/hf_files.h" /* the files beside the weights of a checkpoint */
#include "json/json.h"   /* the one JSON reader and writer */

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- paths ------------------------------------------------------------------------------- */

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
    DIR *d = NULL;
    if (gg_confine_path(a->data, other, &folder, err) == GG_OK && !(d = opendir(folder)))
        gg_fail_errno(err, "cannot read the folder of the shards");
    for (const char *e; d && err->status == GG_OK && (e = gg_next_name(d, err));) {
        char *real = NULL;
        gg_error why = GG_ERROR_INIT;
        if (!same_set(name, e)) continue;
        snprintf(other, sizeof other, "%.*s%s", folder_len, path, e);
        gg_status found = gg_confine_path(a->data, other, &real, &why);
        free(real);
        if (found != GG_OK && why.sys_errno != ENOENT) gg_error_merge(err, &why);
    }
    if (d) closedir(d);
    free(folder);
    return err->status;
}

/* Files that are read because of the names in another one must lie in the data folder, too. Those
 * that do not exist are the tool's to report. */
static gg_status check_named(const api *a, const char *path, gg_error *err)
{
    char *real = gg_real_path(path, err);
    gg_status st = err->status;
    if (real && !gg_path_within(a->data, real)) {
        gg_fail(err, GG_NO, "it reads a file that lies outside of the data folder");
        st = gg_at_file(err, path);
    }
    free(real);
    return st;
}

/* The base that an adapter in the folder names, as a tool finds it, which runs in the data folder.
 */
static gg_status check_base(const api *a, const char *folder, gg_error *err)
{
    gg_json *config = NULL;
    if (!gg_hf_has_file(folder, GG_HF_ADAPTER_CONFIG, err)) return err->status;
    gg_status st = gg_hf_parse(folder, GG_HF_ADAPTER_CONFIG, &config, err);
    for (int i = 0; i < 2 && st == GG_OK; i++) {
        char name[GG_PEFT_BASE], path[4096 + GG_PEFT_BASE + 2];
        gg_peft_base(gg_json_root(config), i == 1, name);
        if (!name[0]) continue;
        snprintf(path, sizeof path, "%s%s%s", name[0] == '/' ? "" : a->data,
                 name[0] == '/' ? "" : "/", name);
        st = check_named(a, path, err);
        char *real = st == GG_OK ? gg_real_path(path, err) : NULL;
        struct stat s;
        if (real && gg_stat(real, &s, err) && S_ISDIR(s.st_mode))
            gg_confine_tree(a->data, real, err);
        st = err->status;
        free(real);
    }
    gg_json_free(config);
    return st;
}

/* What a tool reads beside a file of a checkpoint, or in the folder of one. */
static gg_status check_checkpoint(const api *a, const char *real, bool is_folder, gg_error *err)
{
    if (!gg_is_checkpoint(real, err)) return err->status;
    char *folder = strdup(real), *slash = folder ? strrchr(folder, '/') : NULL;
    if (!folder) return gg_fail(err, GG_ENOMEM, "no memory for a path");
    if (!is_folder && slash) *slash = '\0';
    /* The tree of a folder has been checked. */
    DIR *d = is_folder ? NULL : gg_open_folder(folder, err);
    gg_status st = err->status;
    for (const char *e; d && st == GG_OK && (e = gg_next_name(d, err));) {
        if (!gg_hf_is_read(e)) continue;
        char *path = gg_path_in(folder, e, err);
        st = path ? check_named(a, path, err) : GG_ENOMEM;
        free(path);
    }
    if (d) closedir(d);
    if (st == GG_OK) check_base(a, folder, err);
    free(folder);
    return err->status;
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
    if (st == GG_OK) st = check_checkpoint(a, real, S_ISDIR(s.st_mode), err);
    free(real);
    return st;
}

static bool is_output(cli_kind kind)
{
    return kind >= CLI_NEW_MODEL && kind <= CLI_INTO;
}

static bool is_path_kind(cli_kind kind)
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

/* The next path of a value, to be freed: its own, and of parameters the file of each
 * "activations=FILE". *at begins at the value, and is NULL after the last. NULL without memory. */
static char *next_path(cli_kind kind, const char **at)
{
    static const char key[] = ",activations=";
    const char *path = *at;
    *at = kind == CLI_PARAMS ? strstr(path, key) : NULL;
    if (*at) *at += sizeof key - 1;
    return strndup(path, path_length(kind, path));
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
    if (st == GG_OK && gg_stat(real, &s, err) && S_ISDIR(s.st_mode))
        st = gg_confine_tree(a->data, real, err);
    else if (err->status != GG_OK) st = err->status;
    else if (st == GG_EIO && none.sys_errno == ENOENT) st = GG_OK; /* it will be made */
    else if (st != GG_OK) gg_error_merge(err, &none);
    free(real);
    return st;
}

/* Checks the paths in a value of one of these kinds. */
static gg_status check_paths(const api *a, cli_kind kind, const char *value, gg_error *err)
{
    for (const char *at = value; at && err->status == GG_OK;) {
        char *path = next_path(kind, &at);
        if (!path) gg_fail(err, GG_ENOMEM, "no memory for a path");
        else if (kind == CLI_INTO) check_into(a, path, err);
        else if (is_output(kind)) gg_confine_new(a->data, path, err);
        else api_check_input(a, path, err);
        free(path);
    }
    return err->status;
}

/* Checks a name of at most so many parts. ".." and absolute paths give 403 instead of 400, because
 * the client tried to leave the data folder. */
static bool name_ok(api *a, const char *path, size_t most)
{
    size_t parts = 0;
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
        if (!*p) return true;
    }
}

/* Checks the names in a value before any file is looked up. */
static bool path_ok(api *a, cli_kind kind, const char *value)
{
    for (const char *at = value; at;) {
        char *path = next_path(kind, &at);
        bool ok = path ? name_ok(a, path, is_output(kind) ? 1 : IN_PARTS)
                       : api_fail(a, 500, "out of memory for the arguments");
        free(path);
        if (!ok) return false;
    }
    gg_error err = GG_ERROR_INIT;
    return check_paths(a, kind, value, &err) == GG_OK || api_fail_error(a, &err);
}

/* ---- argument vectors --------------------------------------------------------------------- */

#define TEXT_MAX 4096    /* longest value in bytes */
#define VALUE_MAX 100000 /* and of a key of a model, such as a chat template */
#define ITEMS_MAX 1100
#define ARGS_MAX 1000 /* positional arguments */

void api_vector_free(api_vector *v)
{
    for (size_t i = 0; i < v->n; i++) free(v->items[i]);
    free(v->items);
    free(v->kinds);
    *v = (api_vector){ 0 };
}

/* Adds an item whose value is of this kind. The list stays terminated by NULL for exec. */
static bool GG_PRINTF(4, 5) push(api *a, api_vector *v, cli_kind kind, const char *fmt, ...)
{
    gg_error err = GG_ERROR_INIT;
    va_list ap;
    if (v->n >= ITEMS_MAX) return api_fail(a, 400, "more than %d arguments", ITEMS_MAX);
    GG_ROOM(v->kinds, v->n, NULL, &err);
    GG_ROOM(v->items, v->n + 1, NULL, &err);
    va_start(ap, fmt);
    if (err.status != GG_OK || vasprintf(&v->items[v->n], fmt, ap) < 0)
        api_fail(a, 500, "out of memory for the arguments");
    else v->kinds[v->n++] = kind, v->items[v->n] = NULL;
    va_end(ap);
    return !a->status;
}

static const api_option *find_option(const char *tool, const char *name, char letter)
{
    for (const api_option *o = api_options; o->tool; o++)
        if (strcmp(o->tool, tool) == 0 &&
            (letter ? o->letter == letter : strcmp(o->name, name) == 0))
            return *o->name ? o : NULL;
    return NULL;
}

/* What the nth argument without a name must be, from 0; NULL if there are fewer. The last of them
 * are repeated if they may be. */
static const api_option *positional(const char *tool, size_t n)
{
    size_t places = 0, many = 0;
    for (const api_option *o = api_options; o->tool; o++) {
        if (strcmp(o->tool, tool) != 0 || !o->place) continue;
        places++;
        many += o->many;
    }
    if (n >= places && many) n = places - many + (n - places) % many;
    for (const api_option *o = api_options; o->tool; o++)
        if (strcmp(o->tool, tool) == 0 && o->place == (int)n + 1) return o;
    return NULL;
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
    if (text[n] == '.') n += 1 + strspn(text + n + 1, "0123456789");
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

/* Whether the list of words has this one. */
static bool is_word(const char *words, const char *text)
{
    size_t n = strlen(text);
    for (const char *p = words; n && p && (p = strstr(p, text)); p += n)
        if ((p == words || p[-1] == ' ') && (p[n] == ' ' || !p[n]) && !strchr(text, ' '))
            return true;
    return false;
}

/* Whether it is text without control bytes other than those of `allowed`. */
static bool is_text_with(const char *text, const char *allowed, size_t most)
{
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++)
        if (((unsigned char)text[i] < 0x20 || text[i] == 0x7f) && !strchr(allowed, text[i]))
            return false;
    return len > 0 && len <= most && gg_utf8_valid(text, len);
}

static bool is_text(const char *text)
{
    return is_text_with(text, "", TEXT_MAX);
}

/* The value of a key may have several lines: KEY=str:TEXT. */
static bool sets_key(const api_option *o)
{
    return o->kind == CLI_TEXT && (strcmp(o->name, "set") == 0 || strcmp(o->name, "set-kv") == 0);
}

/* What a value of a kind must be, or NULL if it is that. */
static const char *unfit(const api_option *o, const char *value)
{
    bool ok = false;
    const char *want = "text without control bytes";
    switch (o->kind) {
    case CLI_U64:
        ok = only(value, "0123456789") && strlen(value) < 20, want = "a whole number";
        break;
    case CLI_COUNT:
    case CLI_SIZE: ok = is_size(value), want = "a number such as 5000 or 500M"; break;
    case CLI_F64: ok = strlen(value) < 60 && is_number(value), want = "a number"; break;
    case CLI_WORD: ok = is_word(o->values, value), want = o->values; break;
    case CLI_MAP:
        ok = strlen(value) <= TEXT_MAX && only(value, "0123456789,-="), want = "numbers and ranges";
        break;
    case CLI_RANGES: /* with enc: or dec: for organ-stack */
        ok = strlen(value) <= TEXT_MAX && only(value, "0123456789,-cden:");
        want = "numbers and ranges";
        break;
    case CLI_RANGE_FILE: /* so that it cannot be the name of a file of lines */
        ok = strlen(value) <= TEXT_MAX && only(value, "0123456789,-"), want = "numbers and ranges";
        break;
    case CLI_RULES: /* @FILE and like:MODEL would read any file */
        ok = is_text(value) && value[0] != '@' && !strstr(value, ",@") && !strstr(value, "like:");
        want = "rules without @FILE and like:MODEL";
        break;
    default:
        ok = is_text(value);
        if (!ok && sets_key(o)) {
            ok = is_text_with(value, "\t\n\r", VALUE_MAX);
            want = "UTF-8 text of at most 100000 bytes, without control bytes but tabs and line "
                   "breaks";
        }
    }
    return ok ? NULL : want;
}

/* The kind of a value: of an option that takes a model or one of some words, such a word is text.
 */
static cli_kind kind_of(const api_option *o, const char *value)
{
    bool word = is_path_kind(o->kind) && o->values && is_word(o->values, value);
    return word ? CLI_TEXT : o->kind;
}

/* `what` names the value in the error: "--layers". */
static bool value_ok(api *a, const char *what, const api_option *o, const char *value)
{
    if (o->kind <= CLI_ACT_NOW) return api_fail(a, 400, "%s takes no value", what);
    if (kind_of(o, value) != o->kind) return true;
    if (is_path_kind(o->kind) && (o->kind != CLI_PARAMS || is_text(value)))
        return path_ok(a, o->kind, value);
    const char *want = unfit(o, value);
    return !want || api_fail(a, 400, "%s: the value must be %s", what, want);
}

/* ---- from JSON -------------------------------------------------------------------- */

typedef struct builder {
    api *a;
    char tool[64];
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
    if (memchr(p, 0, len) || len > VALUE_MAX) {
        api_fail(b->a, 400, "offset %llu: an argument has a NUL byte or more than %d bytes",
                 (unsigned long long)gg_json_offset(node), VALUE_MAX);
        return NULL;
    }
    char *s = strndup(p, len);
    if (!s) api_fail(b->a, 500, "out of memory for the arguments");
    return s;
}

static bool unknown(builder *b, const char *name)
{
    return api_fail(b->a, 400, "unknown option for %s over HTTP: %.60s", b->tool, name);
}

/* Adds an option; value is NULL if none was given. */
static bool add_option(builder *b, const char *name, const char *value)
{
    const api_option *o = find_option(b->tool, name, 0);
    if (!o) return unknown(b, name);
    bool flag = o->kind <= CLI_ACT_NOW;
    if (flag && strcmp(name, "json") == 0 && !value) return true; /* it is added anyway */
    if (!value && !flag) return api_fail(b->a, 400, "--%s needs a value", name);
    char what[80];
    snprintf(what, sizeof what, "--%s", name);
    if (value && !value_ok(b->a, what, o, value)) return false;
    return push(b->a, b->v, value ? kind_of(o, value) : o->kind, "--%s%s%s", name, value ? "=" : "",
                value ? value : "");
}

static bool add_rest(builder *b, const char *text)
{
    const api_option *o = b->rest.n < ARGS_MAX ? positional(b->tool, b->rest.n) : NULL;
    if (!o)
        return api_fail(b->a, 400, "%s takes at most %zu positional arguments: unexpected '%.100s'",
                        b->tool, b->rest.n, text);
    return value_ok(b->a, "an argument", o, text) &&
           push(b->a, &b->rest, kind_of(o, text), "%s", text);
}

/* Handles -q, -j N and -jN; sets *took to the number of items used. */
static bool add_short(builder *b, const char *item, const char *next, int *took)
{
    if (!item[1]) return path_ok(b->a, CLI_MODEL, item);
    const api_option *o = find_option(b->tool, "", item[1]);
    bool takes = o && o->kind > CLI_ACT_NOW;
    if (!o || (!takes && item[2])) return unknown(b, item);
    if (takes && !item[2] && next) *took = 2;
    return add_option(b, o->name, !takes ? NULL : item[2] ? item + 2 : next);
}

/* Handles one item of the array, with the next as its value; sets *took to the number used. */
static bool add_item(builder *b, char *item, const char *next, bool *ended, int *took)
{
    *took = 1;
    if (*ended || item[0] != '-') return add_rest(b, item);
    if (strcmp(item, "--") == 0) return *ended = true;
    if (item[1] != '-') return add_short(b, item, next, took);
    char *eq = strchr(item, '=');
    if (eq) {
        *eq = '\0';
        return add_option(b, item + 2, eq + 1);
    }
    const api_option *o = find_option(b->tool, item + 2, 0);
    bool takes = o && o->kind > CLI_ACT_NOW;
    if (takes && next) *took = 2;
    return add_option(b, item + 2, takes ? next : NULL);
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
    if (n && strcmp(b->tool, "organ-graft") == 0 && is_string(n, "graft")) n = gg_json_next(n);
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
static bool add_value(builder *b, const char *name, const gg_json_node *value, bool listed)
{
    bool yes = false, ok;
    gg_error err = GG_ERROR_INIT;
    size_t len;
    const char *number = listed ? NULL : gg_json_number_text(value, &len);
    if (!listed && gg_json_bool(value, &yes, &err) == GG_OK)
        return yes ? add_option(b, name, NULL) : find_option(b->tool, name, 0) || unknown(b, name);
    if (!listed && !number && gg_json_type_of(value) != GG_JSON_STRING)
        return api_fail(b->a, 400, "--%s: use true, a string, a number or an array of strings",
                        name);
    char *text = number ? strndup(number, len) : copy_string(b, value);
    if (!text) return api_fail(b->a, 500, "out of memory for the arguments");
    ok = listed && strcmp(name, "args") == 0 ? add_rest(b, text) : add_option(b, name, text);
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
        snprintf(name, sizeof name, "%.*s", (int)len, key);
        bool list = gg_json_type_of(n) == GG_JSON_ARRAY;
        if (!list && strcmp(name, "args") == 0)
            return api_fail(b->a, 400, "\"args\" must be an array of strings");
        if (!list) ok = add_value(b, name, n, false);
        for (const gg_json_node *e = list ? gg_json_first(n) : NULL; ok && e; e = gg_json_next(e))
            ok = add_value(b, name, e, true);
    }
    return ok;
}

/* ---- all of it --------------------------------------------------------------------- */

/* Reads the name of the tool; a tool without a row of the table is not allowed. */
static bool named_tool(api *a, const gg_json_node *request, char name[64])
{
    const char *p, *before = "";
    size_t len, n = 0;
    char names[400] = "";
    gg_error err = GG_ERROR_INIT;
    name[0] = '\0';
    if (gg_json_string(gg_json_get(request, "tool"), &p, &len, &err) == GG_OK && len < 64)
        snprintf(name, 64, "%.*s", (int)len, p);
    for (const api_option *o = api_options; o->tool && n < sizeof names; o++) {
        if (strcmp(o->tool, name) == 0) return true;
        if (strcmp(o->tool, before) == 0) continue;
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", o->tool);
        before = o->tool;
    }
    return api_fail(a, 400, "\"tool\" must be one of %s", names);
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

/* Scripts are beside the tools if installed, but not in a source tree. */
static bool start_vector(builder *b)
{
    const char *folders[] = { b->a->bin, b->a->scripts };
    char path[4300];
    for (size_t i = 0; i < 2 && folders[i]; i++) {
        int n = snprintf(path, sizeof path, "%s/%s", folders[i], b->tool);
        if ((size_t)n < sizeof path && access(path, X_OK) == 0)
            return push(b->a, b->v, CLI_FLAG, "%s", path);
    }
    return api_fail(b->a, 500, "%s is not installed on this server", b->tool);
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

/* Whether one of the options in the list was given. */
static bool has_any(const api_vector *v, const char *names)
{
    char name[64];
    for (const char *p = names; p && *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");
        snprintf(name, sizeof name, "%.*s", (int)n, p);
        if (has_option(v, name)) return true;
        p += n;
    }
    return false;
}

/* Adds --json where a table is printed, so that every table is printed as JSON Lines. */
static bool add_json(builder *b)
{
    const api_option *json = find_option(b->tool, "json", 0);
    bool prints = json && (!json->needs || has_any(b->v, json->needs)) &&
                  !has_any(b->v, json->excludes);
    for (const api_option *o = api_options; prints && o->tool; o++)
        if (strcmp(o->tool, b->tool) == 0 && o->excludes && is_word(o->excludes, "json"))
            prints = !has_option(b->v, o->name);
    return !prints || push(b->a, b->v, CLI_FLAG, "--json");
}

/* Adds the positional arguments from the i-th on. */
static bool add_positional(builder *b, size_t i)
{
    bool ok = b->rest.n <= i || push(b->a, b->v, CLI_FLAG, "--");
    for (; ok && i < b->rest.n; i++)
        ok = push(b->a, b->v, b->rest.kinds[i], "%s", b->rest.items[i]);
    return ok;
}

/* Puts a verb, the first argument of some tools, before all options. */
static bool move_verb(builder *b)
{
    const api_option *first = positional(b->tool, 0);
    api_vector *v = b->v;
    if (!first || first->kind != CLI_WORD) return add_positional(b, 0);
    if (b->rest.n == 0)
        return api_fail(b->a, 400, "%s: the first argument must be one of %s", b->tool,
                        first->values);
    if (!push(b->a, v, CLI_WORD, "%s", b->rest.items[0])) return false;
    char *verb = v->items[v->n - 1];
    memmove(v->items + 2, v->items + 1, (v->n - 2) * sizeof *v->items);
    memmove(v->kinds + 2, v->kinds + 1, (v->n - 2) * sizeof *v->kinds);
    v->items[1] = verb;
    v->kinds[1] = CLI_WORD;
    return add_positional(b, 1);
}

bool api_arguments(api *a, const gg_json_node *request, api_vector *v)
{
    builder b = { .a = a, .v = v };
    if (!only_known(a, request) || !named_tool(a, request, b.tool)) return false;
    const gg_json_node *args = gg_json_get(request, "arguments");
    bool ok = start_vector(&b);
    switch (gg_json_type_of(args)) {
    case GG_JSON_ARRAY: ok = ok && from_array(&b, args); break;
    case GG_JSON_OBJECT: ok = ok && from_object(&b, args); break;
    default:
        ok = api_fail(a, 400, "\"arguments\" must be an array of strings or an object of options");
    }
    ok = ok && add_json(&b) && move_verb(&b);
    api_vector_free(&b.rest);
    return ok;
}

gg_status api_check_paths(const api *a, const api_vector *v, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 1; st == GG_OK && i < v->n; i++) {
        const char *item = v->items[i];
        if (!is_path_kind(v->kinds[i])) continue;
        st = check_paths(a, v->kinds[i], item[0] == '-' ? strchr(item, '=') + 1 : item, err);
    }
    return st;
}

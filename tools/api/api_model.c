/* api_model.c - the routes of models, organ directories and their files. */
#include "api.h"
#include "organ/gg_verbs.h"

#include "base/error.h"          /* a second error that replaces none */
#include "base/io.h"             /* whole reads and writes */
#include "base/output.h"         /* outputs that appear only when whole */
#include "base/platform.h"       /* times of files */
#include "confine_path.h"        /* paths that must stay below a folder */
#include "gguf/gguf.h"           /* shard names, and a header by descriptor */
#include "hf/safetensors.h"      /* the header of a safetensors file */
#include "organ/manifest.h"      /* gg_manifest: whether a folder is an organ directory */
#include "organ/manifest_json.h" /* names that are not UTF-8, as manifests have them */
#include "organ/tensor_names.h"  /* folders of classes */
#include "json/json.h"           /* the one JSON reader and writer */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODEL ".gguf"
#define TENSORS ".safetensors"
#define TEXT ".txt"

static bool ends_with(const char *name, const char *ending)
{
    size_t n = strlen(name), m = strlen(ending);
    return n > m && strcmp(name + n - m, ending) == 0;
}

/* Whether the name is one of HTTP and ends so, with something before. Among models are .safetensors
 * files. */
static bool is_named(const char *name, const char *ending)
{
    bool model = strcmp(ending, MODEL) == 0;
    return (ends_with(name, ending) || (model && ends_with(name, TENSORS))) &&
           api_name_ok(name, strlen(name));
}

static const char *endings(const char *ending)
{
    return ending && strcmp(ending, MODEL) == 0 ? MODEL " or " TENSORS : ending;
}

/* ---- lists ---------------------------------------------------------------------- */

/* A name that leads to nothing that may be read is left out of a list; any other failure is an
 * error. */
static void keep_lack(const gg_error *why, gg_error *err)
{
    int e = why->sys_errno;
    bool left_out = e == ENOENT || e == ENOTDIR || e == ELOOP || e == EACCES || e == EPERM;
    if (gg_is_of_system(why) && !left_out) gg_error_merge(err, why);
}

static void changed(const struct stat *s, char out[API_TIME])
{
    int64_t modified[2], unused[2];
    gg_sys_times(s, modified, unused);
    uint64_t ms = (uint64_t)modified[1] / 1000000;
    if (modified[0] > 0) ms += (uint64_t)modified[0] * 1000;
    api_time(ms ? ms : 1, out);
}

/* Whether the name is that of a file with this ending or, if the ending is NULL, of an organ
 * directory, and its state or that of the manifest. */
static bool find_listed(const api *a, const char *name, const char *ending, struct stat *s,
                        gg_error *err)
{
    gg_error missing = GG_ERROR_INIT;
    char *real = NULL, manifest[2 * API_NAME];
    bool ok = (ending ? is_named(name, ending) : api_name_ok(name, strlen(name))) &&
              gg_confine_path(a->data, name, &real, &missing) == GG_OK;
    if (ok && !ending) {
        snprintf(manifest, sizeof manifest, "%.*s/%s", API_NAME, name, GG_MANIFEST);
        ok = gg_is_organ_dir(real, &missing);
        free(real);
        real = NULL;
        ok = ok && gg_confine_path(a->data, manifest, &real, &missing) == GG_OK;
    }
    ok = ok && gg_stat(real, s, &missing) && (!ending || S_ISREG(s->st_mode));
    free(real);
    if (!ok) keep_lack(&missing, err);
    return ok;
}

static bool list(api *a, const char *ending)
{
    gg_error err = GG_ERROR_INIT;
    gg_buf body = GG_BUF_INIT;
    struct dirent **names = NULL;
    int n = scandir(a->data, &names, NULL, alphasort);
    if (n < 0) return api_fail(a, 500, "the data folder cannot be read: %s", strerror(errno));
    gg_buf_printf(&body, &err, "{\"%s\": [", a->part[1]);
    const char *before = "";
    for (int i = 0; i < n; i++) {
        struct stat s;
        char modified[API_TIME];
        if (find_listed(a, names[i]->d_name, ending, &s, &err)) {
            changed(&s, modified);
            gg_buf_printf(&body, &err, "%s\n{\"name\": \"%s\"", before, names[i]->d_name);
            if (ending)
                gg_buf_printf(&body, &err, ", \"bytes\": %llu", (unsigned long long)s.st_size);
            gg_buf_printf(&body, &err, ", \"modified\": %s}", modified);
            before = ",";
        }
        free(names[i]);
    }
    free(names);
    gg_buf_text(&body, "\n]}\n", &err);
    return api_finish(a, 200, NULL, &body, &err);
}

/* ---- anatomy ----------------------------------------------------------------------- */

typedef struct anatomy {
    const gg_json_out *out;
    size_t rows;
} anatomy;

static gg_status put_tensor(void *ctx, const gg_extract_row *row, gg_error *err)
{
    const gg_tensor *t = row->tensor;
    const gg_anatomy *n = &row->tensor->a;
    anatomy *x = ctx;
    gg_mj_put(x->out, err,
              "%t{\"name\": %b, \"class\": \"%t\", \"block\": %i, \"role\": %b, \"dtype\": \"%t\"",
              x->rows++ ? ",\n" : "\n", t->name, t->name_len, gg_class_name(n->cls), n->block,
              t->name + n->role_at, n->role_len, gg_dtype_get(t->dtype)->name);
    gg_json_put_text(x->out, ", \"dims\": [", err);
    for (uint32_t i = 0; i < t->n_dims; i++) gg_mj_put(x->out, err, i ? ", %u" : "%u", t->dims[i]);
    return gg_mj_put(x->out, err, "], \"elements\": %u, \"bytes\": %u, \"offset\": %u}",
                     t->elements, t->bytes, t->offset);
}

/* The value of a key that is a text, or NULL. */
static const char *text_of(const gg_meta *meta, const char *key, size_t *len)
{
    const char *text;
    *len = 0;
    return gg_kv_str(gg_meta_find(meta, key), &text, len) ? text : NULL;
}

static gg_status put_anatomy(const char *name, gg_source *s, const gg_json_out *out, gg_error *err)
{
    anatomy x = { out, 0 };
    gg_extract_options o = { .row = put_tensor, .ctx = &x };
    const gg_meta *meta = gg_source_meta(s);
    size_t arch_len, title_len;
    const char *arch = text_of(meta, "general.architecture", &arch_len),
               *title = text_of(meta, "general.name", &title_len);
    gg_mj_put(out, err, "{\"name\": \"%t\", \"architecture\": %b, \"title\": %b, \"tensors\": [",
              name, arch, arch_len, title, title_len);
    /* A model may have no tensors. */
    gg_error none = GG_ERROR_INIT;
    gg_status st = gg_source_count(s) ? gg_extract(s, &o, NULL, NULL, NULL, &none) : GG_OK;
    if (st != GG_OK) {
        gg_error_merge(err, &none);
        return st;
    }
    return gg_json_put_text(out, "\n]}\n", err);
}

static void no_note(void *ctx, const char *line)
{
    (void)ctx, (void)line;
}

/* Opens a model of the data folder to look at it, even if data or shards are missing, which the
 * verdict of organ-info tells. `changed`: see gg_source_options; may be NULL. */
static gg_status open_model(const api *a, const char *name, gg_source **s, gg_error *changed,
                            gg_error *err)
{
    char *real = NULL;
    gg_source_options o = { .changed = changed, .header_only = true, .note = no_note };
    gg_status st = api_check_input(a, name, err);
    if (st == GG_OK) st = gg_confine_path(a->data, name, &real, err);
    if (st == GG_OK) st = gg_source_open_with(real, &o, s, err);
    free(real);
    return st;
}

static bool get_model(api *a, const char *name)
{
    gg_error err = GG_ERROR_INIT, changed = GG_ERROR_INIT;
    gg_buf body = GG_BUF_INIT;
    gg_json_out out = gg_json_to_buf(&body);
    gg_source *s = NULL;
    gg_status st = open_model(a, name, &s, &changed, &err);
    if (st == GG_OK && !gg_source_meta(s)) st = gg_fail(&err, GG_EFORMAT, "this is not a model");
    if (st == GG_OK) (void)put_anatomy(name, s, &out, &err);
    gg_source_close(s);
    return api_finish(a, 200, NULL, &body, changed.status == GG_OK ? &err : &changed);
}

/* The row of organ-info. The model is opened here first, because that gives the reason if it
 * cannot be. */
bool api_info(api *a)
{
    if (!api_allow(a, "GET, HEAD")) return false;
    if (a->parts != 3 || !api_name_ok(a->part[2], strlen(a->part[2]))) return api_nothing(a);
    gg_error err = GG_ERROR_INIT;
    gg_buf body = GG_BUF_INIT;
    char name[API_NAME + 1], tool[4300], json[] = "--json", rest[] = "--";
    char *const argv[] = { tool, json, rest, name, NULL };
    gg_source *s = NULL;
    snprintf(name, sizeof name, "%s", a->part[2]);
    snprintf(tool, sizeof tool, "%s/organ-info", a->bin);
    bool ok = open_model(a, name, &s, NULL, &err) == GG_OK || api_fail_error(a, &err);
    gg_source_close(s);
    ok = ok && api_program(a, argv, a->data, &body);
    if (ok) api_answer(a, 200, "application/json", NULL, &body);
    gg_buf_free(&body);
    return ok;
}

/* ---- quota --------------------------------------------------------------------------- */

typedef struct folder {
    uint64_t bytes;
    int depth;
} folder;

/* Adds the disk space of a file, or of all files in a folder. Links are not followed. */
static void add_size(int dir, const char *name, void *ctx)
{
    folder *f = ctx;
    struct stat s;
    if (fstatat(dir, name, &s, AT_SYMLINK_NOFOLLOW) != 0) return;
    f->bytes += (uint64_t)s.st_blocks * 512;
    if (!S_ISDIR(s.st_mode) || f->depth > 16) return;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    f->depth++;
    if (fd >= 0) gg_sys_each_name(fd, add_size, f);
    f->depth--;
}

bool api_room(api *a, uint64_t more, uint64_t *room)
{
    folder f = { 0 };
    *room = UINT64_MAX;
    if (!a->quota) return true;
    add_size(AT_FDCWD, a->data, &f);
    *room = f.bytes < a->quota ? a->quota - f.bytes : 0;
    return more <= *room ||
           api_fail(a, 507, "the data folder has %llu of %llu bytes: delete something first",
                    (unsigned long long)f.bytes, (unsigned long long)a->quota);
}

/* ---- upload -------------------------------------------------------------------------- */

static gg_status count_tensors(const char *name, int fd, size_t *tensors, gg_error *err)
{
    gg_gguf *g = NULL;
    gg_st_list list = { 0 };
    uint64_t size;
    gg_status st;
    if (ends_with(name, TENSORS)) {
        st = gg_st_read(fd, &list, NULL, err);
        *tensors = list.n;
        gg_names_free(&list.names);
        free(list.items);
        return st;
    }
    st = gg_gguf_open_fd(fd, false, &g, &size, err);
    if (st == GG_OK) *tensors = g->n_tensors;
    gg_gguf_free(g);
    return st;
}

/* The header is checked in the temporary file, so only a valid model ever gets its name. */
static bool check_upload(api *a, const char *name, int fd, size_t *tensors)
{
    gg_error err = GG_ERROR_INIT;
    if (count_tensors(name, fd, tensors, &err) != GG_OK) {
        if (err.status == GG_EIO || err.status == GG_ENOMEM || err.status == GG_ECANCELLED)
            return api_fail_error(a, &err);
        char line[500];
        gg_error_line(&err, "upload", line, sizeof line);
        return api_fail(a, 400, "%s", line);
    }
    return true;
}

/* Any bytes but NUL: a text may be in an old encoding, but a model or a picture is refused. */
static bool check_text(api *a, int fd)
{
    char bytes[65536];
    ssize_t n;
    for (off_t at = 0; (n = pread(fd, bytes, sizeof bytes, at)) > 0; at += n)
        if (memchr(bytes, 0, (size_t)n)) return api_fail(a, 400, "this is not a text");
    return n == 0 || api_fail(a, 500, "the upload cannot be read: %s", strerror(errno));
}

/* tensors is NULL if it is a text. */
static bool receive(api *a, const char *name, gg_output *o, size_t *tensors)
{
    gg_error err = GG_ERROR_INIT;
    gg_status st = gg_output_reserve(o, a->length, 0, &err);
    a->reading = st == GG_OK;
    if (st == GG_OK)
        st = gg_copy(NULL, (gg_place){ STDIN_FILENO, GG_AT_POS }, (gg_place){ gg_output_fd(o), 0 },
                     a->length, &err);
    if (st == GG_EFORMAT) return api_fail(a, 400, "the body ended before its Content-Length");
    if (st != GG_OK) return api_fail_error(a, &err);
    return tensors ? check_upload(a, name, gg_output_fd(o), tensors)
                   : check_text(a, gg_output_fd(o));
}

static bool answer_upload(api *a, const char *name, const size_t *tensors)
{
    gg_error err = GG_ERROR_INIT;
    gg_buf body = GG_BUF_INIT;
    char location[API_NAME + 200];
    api_location(location, sizeof location, a->part[1], name);
    gg_buf_printf(&body, &err, "{\"name\": \"%s\", \"bytes\": %llu", name,
                  (unsigned long long)a->length);
    if (tensors) gg_buf_printf(&body, &err, ", \"tensors\": %zu", *tensors);
    gg_buf_append(&body, "}\n", 2, &err);
    return api_finish(a, 201, location, &body, &err);
}

static bool put_file(api *a, const char *name, const char *ending)
{
    gg_error err = GG_ERROR_INIT;
    gg_output *o = NULL;
    struct stat s;
    char path[4400];
    size_t count = 0, *tensors = strcmp(ending, MODEL) == 0 ? &count : NULL;
    bool force = api_query_has(a, "force");
    uint64_t room;
    if (!is_named(name, ending))
        return api_fail(a, 400, "the name must end in %s", endings(ending));
    if (a->length == UINT64_MAX) return api_fail(a, 411, "send Content-Length");
    if (getenv("HTTP_CONTENT_RANGE"))
        return api_fail(a, 400, "partial uploads are not supported: leave out Content-Range");
    if (a->length > a->max_body)
        return api_fail(a, 413, "this server accepts uploads of at most %llu bytes",
                        (unsigned long long)a->max_body);
    if (gg_confine_new(a->data, name, &err) != GG_OK) return api_fail_error(a, &err);
    if ((size_t)snprintf(path, sizeof path, "%s/%s", a->data, name) >= sizeof path)
        return api_fail(a, 400, "the name is too long");
    if (gg_lstat(path, &s, &err) && (!force || S_ISDIR(s.st_mode)))
        return api_fail(a, 409, "%s exists; add ?force=1 to replace it", name);
    if (err.status != GG_OK) return api_fail_error(a, &err);
    if (!api_room(a, a->length, &room)) return false;
    if (gg_output_open(path, force, &o, &err) != GG_OK) return api_fail_error(a, &err);
    if (!receive(a, name, o, tensors)) {
        gg_output_abort(o);
        return false;
    }
    if (gg_output_commit(o, &err) != GG_OK) /* another upload was faster, or the disk failed */
        return err.status == GG_EUSAGE
                   ? api_fail(a, 409, "%s exists; add ?force=1 to replace it", name)
                   : api_fail_error(a, &err);
    return answer_upload(a, name, tensors);
}

/* ---- rename and delete ------------------------------------------------------------------ */

/* Whether a folder holds nothing but what organ-extract writes: the manifest and the folders of
 * classes. Only such a folder is deleted. */
static bool is_only_organs(const char *path, gg_error *err)
{
    DIR *d = gg_is_organ_dir(path, err) ? gg_open_folder(path, err) : NULL;
    bool ok = d;
    for (const char *n; ok && (n = gg_next_name(d, err));) {
        ok = strcmp(n, GG_MANIFEST) == 0;
        for (int c = GG_SKELETON; !ok && c <= GG_OTHER; c++)
            ok = strcmp(n, gg_class_folder((gg_class)c)) == 0;
    }
    if (d) closedir(d);
    return ok;
}

/* Writes the path of a file with this ending, or of an organ directory if the ending is NULL. A
 * link to a file counts as a file, and is itself renamed or deleted. */
static bool own_path(api *a, const char *name, const char *ending, char path[4400])
{
    gg_error err = GG_ERROR_INIT;
    char *real = NULL;
    struct stat s;
    if (gg_confine_path(a->data, name, &real, &err) != GG_OK) return api_fail_error(a, &err);
    bool file = gg_stat(real, &s, &err) && S_ISREG(s.st_mode);
    free(real);
    if (err.status != GG_OK) return api_fail_error(a, &err);
    if ((size_t)snprintf(path, 4400, "%s/%s", a->data, name) >= 4400)
        return api_fail(a, 400, "the name is too long");
    if (ending)
        return (file && is_named(name, ending)) ||
               api_fail(a, 404, "%s is not a file that ends in %s", name, endings(ending));
    bool organs = gg_lstat(path, &s, &err) && S_ISDIR(s.st_mode) && gg_is_organ_dir(path, &err);
    bool only = organs && is_only_organs(path, &err);
    if (err.status != GG_OK) return api_fail_error(a, &err); /* they gave no answer */
    if (!organs) return api_fail(a, 404, "%s is not an organ directory", name);
    return only || api_fail(a, 409, "%s has other files too", name);
}

static bool answer_name(api *a, const char *name, const char *state)
{
    gg_error err = GG_ERROR_INIT;
    gg_buf body = GG_BUF_INIT;
    gg_buf_printf(&body, &err, "{\"name\": \"%s\", \"state\": \"%s\"}\n", name, state);
    return api_finish(a, 200, NULL, &body, &err);
}

/* A folder gets a hidden name first, so that nobody sees a part of it. */
static bool delete_own(api *a, const char *name, const char *ending)
{
    char path[4400], gone[4400];
    if (!own_path(a, name, ending, path)) return false;
    if (!ending) {
        snprintf(gone, sizeof gone, "%.4000s/.gone-%.60s-%ld", a->data, name, (long)getpid());
        if (rename(path, gone) != 0)
            return api_fail(a, 500, "%s cannot be deleted: %s", name, strerror(errno));
        gg_remove_tree(gone);
    } else if (unlink(path) != 0) {
        return api_fail(a, errno == ENOENT ? 404 : 500, "%s cannot be deleted: %s", name,
                        strerror(errno));
    }
    return answer_name(a, name, "deleted");
}

/* The query says rename=NAME. The names of shards belong together, so they stay. */
static bool rename_own(api *a, const char *name, const char *ending)
{
    gg_error err = GG_ERROR_INIT;
    char path[4400], to[4400], new_name[API_NAME + 1];
    size_t len, stem;
    uint32_t no, count;
    const char *value = api_query(a, "rename", &len);
    if (!api_name_ok(value, len)) return api_fail(a, 400, "this name is not allowed");
    snprintf(new_name, sizeof new_name, "%.*s", (int)len, value);
    if (ending && strcmp(ending, MODEL) == 0 &&
        ends_with(name, TENSORS) != ends_with(new_name, TENSORS))
        return api_fail(a, 400, "the new name must have the same ending: the format stays");
    if (ending ? !is_named(new_name, ending)
               : is_named(new_name, MODEL) || is_named(new_name, TEXT))
        return api_fail(a, 400, ending ? "the name must end in %s" : "this is the name of a file",
                        endings(ending));
    if (gg_shard_parse(name, &stem, &no, &count) || gg_shard_parse(new_name, &stem, &no, &count))
        return api_fail(a, 400, "the name of a shard cannot be changed");
    if (!own_path(a, name, ending, path)) return false;
    snprintf(to, sizeof to, "%.4000s/%s", a->data, new_name);
    if (gg_put_in_place(path, to, false, &err) != GG_OK)
        return err.status == GG_EUSAGE ? api_fail(a, 409, "%s exists", new_name)
                                       : api_fail_error(a, &err);
    return answer_name(a, new_name, "renamed");
}

/* ---- routes ----------------------------------------------------------------------------- */

static bool name_ok(api *a, const char *name)
{
    return api_name_ok(name, strlen(name)) || api_nothing(a);
}

static bool send_file(api *a, const char *path, const char *type)
{
    int fd;
    gg_error err = GG_ERROR_INIT;
    if (gg_confine_open(a->data, path, &fd, NULL, &err) != GG_OK) return api_fail_error(a, &err);
    return api_answer_file(a, fd, type);
}

/* Sends the file whose path is the parts of the request from the third on. */
static bool send_named(api *a)
{
    char path[4 * API_NAME];
    size_t n = 0;
    for (size_t i = 2; i < a->parts; i++) {
        if (!name_ok(a, a->part[i])) return false;
        n += (size_t)snprintf(path + n, sizeof path - n, "%s%s", i > 2 ? "/" : "", a->part[i]);
    }
    bool json = cli_has_ending(path, ".json");
    return send_file(a, path, json ? "application/json" : "application/octet-stream");
}

/* What models and texts have in common. POST is accepted for uploads because busybox httpd passes
 * on no body of other methods. */
static bool files_of(api *a, const char *ending, bool (*get)(api *a, const char *name))
{
    size_t len;
    if (a->parts == 2) return api_allow(a, "GET, HEAD") && list(a, ending);
    if (a->parts != 3) return api_nothing(a);
    const char *name = a->part[2];
    if (!name_ok(a, name) || !api_allow(a, "GET, HEAD, PUT, POST, DELETE")) return false;
    if (api_is(a, "DELETE")) return delete_own(a, name, ending);
    if (api_is(a, "POST") && api_query(a, "rename", &len)) return rename_own(a, name, ending);
    return api_is(a, "PUT") || api_is(a, "POST") ? put_file(a, name, ending) : get(a, name);
}

bool api_models(api *a)
{
    return files_of(a, MODEL, get_model);
}

static bool get_text(api *a, const char *name)
{
    if (!is_named(name, TEXT)) return api_nothing(a);
    return send_file(a, name, "text/plain; charset=utf-8");
}

bool api_texts(api *a)
{
    return files_of(a, TEXT, get_text);
}

static bool change_organs(api *a, const char *name)
{
    size_t len;
    if (!name_ok(a, name)) return false;
    if (api_is(a, "DELETE")) return delete_own(a, name, NULL);
    return api_query(a, "rename", &len) ? rename_own(a, name, NULL)
                                        : api_fail(a, 400, "say ?rename=NAME");
}

/* Only files of organ directories, which have a manifest, are sent. */
bool api_organs(api *a)
{
    char manifest[2 * API_NAME];
    int fd;
    gg_error err = GG_ERROR_INIT;
    if (!api_allow(a, a->parts == 3 ? "GET, HEAD, POST, DELETE" : "GET, HEAD")) return false;
    if (api_is(a, "POST") || api_is(a, "DELETE")) return change_organs(a, a->part[2]);
    if (a->parts == 2) return list(a, NULL);
    if (!name_ok(a, a->part[2])) return false;
    snprintf(manifest, sizeof manifest, "%s/%s", a->part[2], GG_MANIFEST);
    if (a->parts == 3) return send_file(a, manifest, "application/json");
    if (gg_confine_open(a->data, manifest, &fd, NULL, &err) != GG_OK)
        return api_fail_error(a, &err);
    close(fd);
    return send_named(a);
}

bool api_files(api *a)
{
    if (a->parts < 3) return api_nothing(a);
    return api_allow(a, "GET, HEAD") && send_named(a);
}

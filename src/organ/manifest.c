/* manifest.c - read, check and write manifest.json, the index of an organ directory.
 *
 * People may edit a manifest. Edited values are accepted unless they contradict each other. */
#define _GNU_SOURCE /* memmem */
#include "organ/gg_organ.h"

#include "base/base64.h"
#include "base/buf.h"
#include "base/cursor.h"
#include "base/error.h"
#include "base/io.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "manifest.h"
#include "manifest_json.h"
#include "quant/quant.h"
#include "record.h"
#include "tensor_names.h"
#include "json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Frees a string that is owned although its pointer is const. */
static void free_const(const char *s)
{
    free((void *)(uintptr_t)s);
}

void gg_pads_free(gg_pad *pads, size_t n)
{
    for (size_t i = 0; pads && i < n; i++) {
        free(pads[i].after);
        free(pads[i].bytes);
    }
    free(pads);
}

void gg_manifest_free(gg_manifest *m)
{
    if (!m) return;
    for (size_t i = 0; i < m->n_entries; i++) {
        gg_entry *e = &m->entries[i];
        free_const(e->t.name);
        free(e->file);
        free(e->z);
        free(e->history);
    }
    for (size_t i = 0; i < m->n_files; i++) {
        gg_file_layout *f = &m->files[i];
        free(f->name);
        free(f->trailing);
        gg_meta_free(&f->meta);
        gg_pads_free(f->pads, f->n_pads);
    }
    for (size_t i = 0; i < m->n_stacks; i++) free_const(m->stacks[i].t.name);
    gg_meta_free(&m->meta);
    free(m->entries);
    free(m->files);
    free(m->stacks);
    free(m->source);
    free(m);
}

/* Other programs write a manifest.json too, and replacing removes whole folders, so the format
 * is looked for near the front. The rest of the file may be damaged. */
bool gg_is_organ_dir(const char *path, gg_error *err)
{
    char head[4096];
    struct stat s;
    size_t n = 0;
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = dir >= 0 ? openat(dir, GG_MANIFEST, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd < 0 && errno != ENOENT && errno != ENOTDIR) gg_fail_errno(err, "cannot open");
    else if (fd >= 0 && fstat(fd, &s) != 0) gg_fail_errno(err, "cannot open " GG_MANIFEST);
    else if (fd >= 0 && S_ISREG(s.st_mode)) gg_read_some(fd, head, sizeof head, &n, err);
    gg_at_file(err, path);
    bool yes = n > 0 && memmem(head, n, "\"organ-manifest\"", 16) != NULL;
    if (fd >= 0) close(fd);
    if (dir >= 0) close(dir);
    return yes;
}

gg_status gg_history_add(const char *before, char **object, gg_error *err)
{
    gg_buf b = GG_BUF_INIT;
    int old = before && strlen(before) > 2 ? (int)strlen(before) - 1 : 0; /* without its ] */
    gg_status st = gg_buf_printf(&b, err, "%.*s%s%s]", old, old ? before : "", old ? ", " : "[",
                                 *object);
    if (st != GG_OK) {
        gg_buf_free(&b);
        return st;
    }
    free(*object);
    *object = gg_buf_take(&b, NULL);
    return GG_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

static gg_status wrong_member(const gg_json_node *node, gg_error *err, const char *what)
{
    return gg_fail_at(gg_json_offset(node), err, "%s", what);
}

static gg_status optional_string(const gg_json_node *node, const char *what, char **out, size_t *n,
                                 gg_error *err)
{
    gg_json_type type = gg_json_type_of(node);
    if (type == GG_JSON_NONE || type == GG_JSON_NULL) return GG_OK;
    return gg_mj_bytes(node, what, out, n, err);
}

/* Fails if the member exists with another type; null counts as absent. */
static gg_status check_type(const gg_json_node *node, gg_json_type type, const char *what,
                            gg_error *err)
{
    gg_json_type is = gg_json_type_of(node);
    return is == type || is == GG_JSON_NONE || is == GG_JSON_NULL ? GG_OK
                                                                  : wrong_member(node, err, what);
}

/* Reads an item of a list into `to`. Items of an outline are parsed just before, each once. */
typedef gg_status (*item_fn)(const gg_json_node *node, void *to, gg_error *err);

static gg_status with_item(const gg_json_node *item, item_fn fn, void *to, gg_error *err)
{
    gg_json *tree;
    if (gg_json_type_of(item) != GG_JSON_TEXT) return fn(item, to, err);
    gg_status st = gg_json_item_once(item, &tree, err);
    if (st == GG_OK) st = fn(gg_json_root(tree), to, err);
    gg_json_free(tree);
    return st;
}

static void *list_of(const gg_json_node *array, size_t size, size_t *n)
{
    size_t count = gg_json_count(array);
    void *list = calloc(count ? count : 1, size);
    *n = list ? count : 0;
    return list;
}

/* Whether the path is "FOLDER/NAME" or "NAME" inside the directory. */
static bool safe_path(const char *p, size_t n)
{
    if (n == 0 || n > 300 || strlen(p) != n || p[0] == '/') return false;
    for (const char *part = p; part;) {
        const char *slash = strchr(part, '/');
        size_t len = slash ? (size_t)(slash - part) : strlen(part);
        if (len == 0 || (part[0] == '.' && (len == 1 || (len == 2 && part[1] == '.'))))
            return false;
        part = slash ? slash + 1 : NULL;
    }
    return true;
}

static gg_status read_path(const gg_json_node *node, char **path, gg_error *err)
{
    size_t n = 0;
    gg_status st = gg_mj_bytes(node, "\"file\"", path, &n, err);
    if (st == GG_OK && !safe_path(*path, n))
        st = wrong_member(node, err, "\"file\" must be a path inside the organ directory");
    return st;
}

static gg_status read_sha(const gg_json_node *node, char out[65], gg_error *err)
{
    const char *s;
    size_t n;
    if (!node) return GG_OK;
    gg_status st = gg_json_string(node, &s, &n, err);
    if (st != GG_OK) return st;
    for (size_t i = 0; i < n; i++)
        if (!((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f'))) n = 0;
    if (n != 64)
        return wrong_member(node, err, "\"sha256\" must be 64 lower-case hexadecimal digits");
    memcpy(out, s, 64);
    out[64] = '\0';
    return GG_OK;
}

/* Reads name, dims and dtype of a tensor, and computes bytes and elements from them. */
static gg_status read_tensor(const gg_json_node *node, gg_tensor *t, gg_error *err)
{
    *t = (gg_tensor){ .dims = GG_DIMS_ONE };
    char *name = NULL;
    gg_status st = gg_mj_bytes(gg_json_get(node, "name"), "\"name\"", &name, &t->name_len, err);
    t->name = name;
    if (st == GG_OK && t->name_len > GG_RECORD_NAME)
        st = wrong_member(node, err, "a tensor name is too long");
    const gg_json_node *dims = gg_json_get(node, "dims");
    if (st == GG_OK &&
        (gg_json_type_of(dims) != GG_JSON_ARRAY || gg_json_count(dims) > GG_MAX_DIMS))
        st = wrong_member(node, err, "\"dims\" must be a list of at most 8 numbers");
    for (const gg_json_node *d = gg_json_first(dims); d && st == GG_OK; d = gg_json_next(d))
        if ((st = gg_json_u64(d, &t->dims[t->n_dims], err)) == GG_OK &&
            t->dims[t->n_dims++] > INT64_MAX)
            st = wrong_member(d, err, "a dimension is too large");
    const char *dtype = NULL;
    size_t n = 0;
    const gg_dtype_info *info = NULL;
    char text[24];
    if (st == GG_OK) st = gg_json_string(gg_json_get(node, "dtype"), &dtype, &n, err);
    if (st == GG_OK) {
        snprintf(text, sizeof text, "%.*s", (int)(n < 20 ? n : 20), dtype);
        info = gg_dtype_by_name(text);
        if (!info)
            st = wrong_member(gg_json_get(node, "dtype"), err, "\"dtype\" is not a tensor type");
    }
    if (st == GG_OK) {
        t->dtype = info->id;
        t->a = gg_anatomy_of(t->name, t->name_len);
        st = gg_tensor_extent(t->dtype, t->n_dims, t->dims, &t->elements, &t->bytes, err);
    }
    if (st != GG_OK && name) gg_at_tensor(err, name, t->name_len);
    return st;
}

/* Keeps an object as one line of text. */
static gg_status keep_text(const gg_json_node *node, char **out, gg_error *err)
{
    if (!node || gg_json_type_of(node) == GG_JSON_NULL) return GG_OK;
    gg_buf b = GG_BUF_INIT;
    gg_json_out o = gg_json_to_buf(&b);
    gg_status st = gg_json_put_node(&o, node, err);
    if (st == GG_OK) *out = gg_buf_take(&b, NULL);
    else gg_buf_free(&b);
    return st;
}

static gg_status read_entry(const gg_json_node *node, void *to, gg_error *err)
{
    gg_entry *e = to;
    gg_status st = read_tensor(node, &e->t, err);
    if (st != GG_OK) return st;
    const gg_json_node *bytes = gg_json_get(node, "bytes"), *offset = gg_json_get(node, "offset");
    uint64_t stated = e->t.bytes;
    if (bytes) st = gg_json_u64(bytes, &stated, err);
    if (st == GG_OK && offset) st = gg_json_u64(offset, &e->t.offset, err);
    if (st == GG_OK && stated != e->t.bytes)
        st = gg_fail_at(gg_json_offset(bytes), err,
                        "\"bytes\" is %llu, but dims and dtype give %llu",
                        (unsigned long long)stated, (unsigned long long)e->t.bytes);
    const char *text;
    size_t n;
    gg_class cls = e->t.a.cls;
    const gg_json_node *c = gg_json_get(node, "class");
    if (st == GG_OK && c && (st = gg_json_string(c, &text, &n, err)) == GG_OK &&
        !gg_class_by_name(text, n, &cls))
        st = wrong_member(c, err,
                          "\"class\" must be skeleton, organ, embed, norm, adapter or other");
    e->t.a.cls = (uint8_t)cls;
    if (st == GG_OK) st = read_path(gg_json_get(node, "file"), &e->file, err);
    if (st == GG_OK) st = read_sha(gg_json_get(node, "sha256"), e->sha256, err);
    if (st == GG_OK) st = keep_text(gg_json_get(node, "z"), &e->z, err);
    const gg_json_node *history = gg_json_get(node, "history");
    if (st == GG_OK) st = check_type(history, GG_JSON_ARRAY, "\"history\" must be a list", err);
    if (st == GG_OK) st = keep_text(history, &e->history, err);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, e->t.name, e->t.name_len);
}

static gg_status read_metadata_item(const gg_json_node *node, void *meta, gg_error *err)
{
    return gg_mj_kv(node, meta, err);
}

static gg_status read_metadata(const gg_json_node *list, gg_meta *meta, gg_error *err)
{
    gg_status st = GG_OK;
    if (list && gg_json_type_of(list) != GG_JSON_ARRAY)
        return wrong_member(list, err, "\"metadata\" must be a list");
    for (const gg_json_node *kv = gg_json_first(list); kv && st == GG_OK; kv = gg_json_next(kv))
        st = with_item(kv, read_metadata_item, meta, err);
    return st == GG_OK ? gg_unique_keys(meta, NULL, err) : st;
}

static gg_status read_pad(const gg_json_node *node, gg_pad *p, gg_error *err)
{
    size_t n = 0;
    char *bytes = NULL;
    const gg_json_node *base64 = gg_json_get(node, "base64");
    const char *text;
    size_t len;
    gg_status st = optional_string(gg_json_get(node, "after"), "\"after\"", &p->after,
                                   &p->after_len, err);
    if (st == GG_OK) st = gg_json_string(base64, &text, &len, err);
    if (st != GG_OK) return st;
    bytes = malloc(len + 1);
    if (!bytes) return gg_fail(err, GG_ENOMEM, "no memory for padding");
    p->bytes = (uint8_t *)bytes;
    if (!gg_base64_decode(text, len, bytes, &n))
        return wrong_member(base64, err, "padding is not valid base64");
    p->n = n;
    return GG_OK;
}

/* The member "gguf_version" of an object; 3 if it is absent. */
static gg_status read_version(const gg_json_node *node, uint32_t *version, gg_error *err)
{
    uint64_t v = 3;
    const gg_json_node *member = gg_json_get(node, "gguf_version");
    gg_status st = member ? gg_json_u64(member, &v, err) : GG_OK;
    *version = (uint32_t)v;
    return st != GG_OK || v == 2 || v == 3
               ? st
               : wrong_member(member, err, "\"gguf_version\" must be 2 or 3");
}

static gg_status read_file_layout(const gg_json_node *node, gg_file_layout *f, gg_error *err)
{
    uint64_t tensors = 0;
    size_t n;
    const gg_json_node *t = gg_json_get(node, "trailing");
    gg_status st = optional_string(gg_json_get(node, "file"), "\"file\"", &f->name, &n, err);
    if (st == GG_OK) st = gg_json_u64(gg_json_get(node, "tensors"), &tensors, err);
    if (st == GG_OK) st = read_version(node, &f->version, err);
    f->n_tensors = (size_t)tensors;
    const gg_json_node *pads = gg_json_get(node, "padding");
    f->pads = list_of(pads, sizeof *f->pads, &f->n_pads);
    if (!f->pads) return gg_fail(err, GG_ENOMEM, "no memory for the layout");
    size_t i = 0;
    for (const gg_json_node *p = gg_json_first(pads); p && st == GG_OK; p = gg_json_next(p))
        st = read_pad(p, &f->pads[i++], err);
    if (st == GG_OK && t) st = read_path(gg_json_get(t, "file"), &f->trailing, err);
    if (st == GG_OK && t) st = gg_json_u64(gg_json_get(t, "bytes"), &f->trailing_bytes, err);
    if (st == GG_OK && t) st = read_sha(gg_json_get(t, "sha256"), f->trailing_sha256, err);
    if (st == GG_OK) st = read_metadata(gg_json_get(node, "metadata"), &f->meta, err);
    return st;
}

static gg_status read_layout(const gg_json_node *layout, gg_manifest *m, gg_error *err)
{
    const gg_json_node *files = gg_json_get(layout, "files"),
                       *stacks = gg_json_get(layout, "stacked");
    gg_status st = check_type(layout, GG_JSON_OBJECT, "\"layout\" must be an object", err);
    if (st == GG_OK) st = check_type(files, GG_JSON_ARRAY, "\"files\" must be a list", err);
    if (st == GG_OK) st = check_type(stacks, GG_JSON_ARRAY, "\"stacked\" must be a list", err);
    if (st != GG_OK) return st;
    m->files = list_of(files, sizeof *m->files, &m->n_files);
    m->stacks = list_of(stacks, sizeof *m->stacks, &m->n_stacks);
    if (!m->files || !m->stacks) return gg_fail(err, GG_ENOMEM, "no memory for the layout");
    size_t i = 0;
    for (const gg_json_node *f = gg_json_first(files); f && st == GG_OK; f = gg_json_next(f))
        st = read_file_layout(f, &m->files[i++], err);
    i = 0;
    for (const gg_json_node *s = gg_json_first(stacks); s && st == GG_OK; s = gg_json_next(s))
        st = read_tensor(s, &m->stacks[i++].t, err);
    if (m->n_files == 0)
        m->files[0] = (gg_file_layout){ .n_tensors = SIZE_MAX, .version = m->version };
    if (m->n_files == 0) m->n_files = 1;
    return st;
}

static gg_status read_model(const gg_json_node *model, gg_manifest *m, gg_error *err)
{
    size_t n;
    const gg_json_node *b = gg_json_get(model, "bytes");
    gg_status st = optional_string(gg_json_get(model, "source"), "\"source\"", &m->source, &n, err);
    if (st == GG_OK && b) st = gg_json_u64(b, &m->bytes, err);
    return st == GG_OK ? read_version(model, &m->version, err) : st;
}

/* A member that is a string or null. The text belongs to the tree, or to *copy. */
static gg_status member_text(const gg_json_node *node, const char *what, const char **text,
                             size_t *n, char **copy, gg_error *err)
{
    *text = *copy = NULL;
    *n = 0;
    if (gg_json_type_of(node) == GG_JSON_STRING) return gg_json_string(node, text, n, err);
    gg_status st = optional_string(node, what, copy, n, err);
    *text = *copy;
    return st;
}

static bool same_text(const char *a, size_t an, const char *b, size_t bn)
{
    return (!a || !b) ? a == b : an == bn && memcmp(a, b, an) == 0;
}

/* Some values are both in "model" and in a metadata key, and "layout" records the original. If
 * only "model" was edited, the key is set to it. An edited key has priority. */
static gg_status follow_text(const gg_json_node *model, const gg_json_node *layout,
                             const char *member, const char *key, gg_meta *meta, gg_error *err)
{
    const gg_kv *kv = gg_meta_find(meta, key);
    const char *now, *was = NULL, *text = NULL;
    char *now_copy, *was_copy = NULL;
    size_t n, was_n = 0, text_n = 0;
    gg_status st = member_text(model, member, &now, &n, &now_copy, err);
    if (st == GG_OK) st = member_text(layout, key, &was, &was_n, &was_copy, err);
    gg_kv_str(kv, &text, &text_n);
    bool untouched = was ? same_text(text, text_n, was, was_n) : !kv;
    if (st == GG_OK && now && untouched && !same_text(now, n, was, was_n))
        st = gg_meta_set_str(meta, key, now, n, err);
    free(now_copy);
    free(was_copy);
    return st;
}

/* Manifests of older versions do not record the architecture. */
static gg_status follow_texts(const gg_json_node *model, const gg_json_node *layout, gg_meta *meta,
                              gg_error *err)
{
    const gg_json_node *arch = gg_json_get(layout, "general.architecture"),
                       *name = gg_json_get(layout, "general.name");
    if (!name) name = gg_json_get(layout, "name");
    gg_status st = follow_text(gg_json_get(model, "name"), name, "\"name\"", "general.name", meta,
                               err);
    if (st != GG_OK || !arch) return st;
    return follow_text(gg_json_get(model, "architecture"), arch, "\"architecture\"",
                       "general.architecture", meta, err);
}

static gg_status follow_alignment(const gg_json_node *model, const gg_json_node *layout,
                                  gg_meta *meta, gg_error *err)
{
    const gg_json_node *node = gg_json_get(model, "alignment"),
                       *noted = gg_json_get(layout, "general.alignment");
    uint64_t now = 0, was = 0, key = 0;
    gg_error odd = GG_ERROR_INIT; /* an invalid key is reported later, when it is used */
    if (!node || !noted || gg_meta_alignment(meta, &key, &odd) != GG_OK) return GG_OK;
    gg_status st = gg_json_u64(node, &now, err);
    if (st == GG_OK) st = gg_json_u64(noted, &was, err);
    if (st != GG_OK || now == was || key != was) return st;
    if (now == 0 || now > UINT32_MAX || (now & (now - 1)) != 0)
        return wrong_member(node, err, "\"alignment\" must be a power of two below 2^32");
    return gg_meta_set_u32(meta, "general.alignment", (uint32_t)now, err);
}

static gg_status check_format(const gg_json_node *root, gg_error *err)
{
    const char *s = "";
    size_t n = 0;
    uint64_t version = 0;
    gg_json_string(gg_json_get(root, "format"), &s, &n, NULL);
    if (n != 14 || memcmp(s, "organ-manifest", 14) != 0)
        return wrong_member(root, err,
                            "this is not an organ manifest: \"format\" must be "
                            "\"organ-manifest\"");
    gg_status st = gg_json_u64(gg_json_get(root, "version"), &version, err);
    if (st == GG_OK && version != 1)
        st = wrong_member(root, err,
                          "the version of the manifest is not 1; use a newer version of these "
                          "tools");
    return st;
}

static gg_status read_manifest(const gg_json_node *root, gg_manifest *m, gg_error *err)
{
    gg_status st = check_format(root, err);
    if (st == GG_OK)
        st = check_type(gg_json_get(root, "model"), GG_JSON_OBJECT, "\"model\" must be an object",
                        err);
    if (st == GG_OK) st = read_model(gg_json_get(root, "model"), m, err);
    if (st == GG_OK) st = read_metadata(gg_json_get(root, "metadata"), &m->meta, err);
    if (st == GG_OK) st = read_layout(gg_json_get(root, "layout"), m, err);
    if (st == GG_OK)
        st = follow_texts(gg_json_get(root, "model"), gg_json_get(root, "layout"), &m->meta, err);
    if (st == GG_OK)
        st = follow_alignment(gg_json_get(root, "model"), gg_json_get(root, "layout"), &m->meta,
                              err);
    const gg_json_node *tensors = gg_json_get(root, "tensors");
    if (st == GG_OK && gg_json_type_of(tensors) != GG_JSON_ARRAY)
        st = wrong_member(root, err, "the list \"tensors\" is missing");
    if (st != GG_OK) return st;
    m->entries = list_of(tensors, sizeof *m->entries, &m->n_entries);
    if (!m->entries) return gg_fail(err, GG_ENOMEM, "no memory for the tensors");
    size_t i = 0;
    for (const gg_json_node *t = gg_json_first(tensors); t && st == GG_OK; t = gg_json_next(t))
        st = with_item(t, read_entry, &m->entries[i++], err);
    return st;
}

gg_status gg_manifest_slurp(const char *path, char **text, size_t *len, gg_stamp *stamp,
                            gg_error *err)
{
    struct stat s;
    *text = NULL;
    int fd = gg_open_read(path, err);
    if (fd < 0) return err->status;
    gg_status st = gg_stamp_fd(fd, stamp, err);
    if (st != GG_OK) gg_at_file(err, path);
    else if (fstat(fd, &s) != 0) st = gg_fail_errno(err, "cannot get the file's size");
    else if (!S_ISREG(s.st_mode) || (uint64_t)s.st_size > GG_MANIFEST_MOST)
        st = gg_fail(err, GG_EFORMAT,
                     "this cannot be a manifest: it is not a regular file, or it "
                     "is larger than 1 GiB");
    else if (!(*text = malloc((size_t)s.st_size + 1)))
        st = gg_fail(err, GG_ENOMEM, "no memory for a manifest of %lld bytes",
                     (long long)s.st_size);
    else st = gg_pread_all(fd, *text, *len = (size_t)s.st_size, 0, err);
    close(fd);
    if (st != GG_OK) {
        free(*text);
        *text = NULL;
    }
    return st;
}

gg_status gg_manifest_read(const char *path, gg_manifest **out, gg_error *err)
{
    char *text = NULL;
    size_t len = 0;
    gg_json *json = NULL;
    gg_manifest *m = calloc(1, sizeof *m);
    if (!m) return gg_fail(err, GG_ENOMEM, "no memory for a manifest");
    gg_status st = gg_manifest_slurp(path, &text, &len, &m->stamp, err);
    if (st == GG_OK) st = gg_json_outline(text, len, &json, err);
    if (st == GG_OK) st = read_manifest(gg_json_root(json), m, err);
    gg_json_free(json);
    free(text);
    if (st == GG_OK) {
        *out = m;
        return GG_OK;
    }
    gg_manifest_free(m);
    gg_at_file(err, path);
    return st;
}

/* ---- comparing with the files ---------------------------------------------------------------- */

/* The first member that differs between a line of the manifest and the record; NULL if none. */
static const char *differing_member(const gg_tensor *line, const gg_tensor *record)
{
    if (line->name_len != record->name_len || memcmp(line->name, record->name, line->name_len) != 0)
        return "name";
    if (line->n_dims != record->n_dims || memcmp(line->dims, record->dims, sizeof line->dims) != 0)
        return "dims";
    return line->dtype != record->dtype ? "dtype" : NULL;
}

static gg_status compare_record(int fd, gg_entry *e, gg_error *err)
{
    uint8_t head[GG_RECORD_HEADER];
    struct stat s;
    gg_tensor t;
    size_t used;
    if (fstat(fd, &s) != 0) return gg_fail_errno(err, "cannot get the file's size");
    size_t n = (uint64_t)s.st_size < sizeof head ? (size_t)s.st_size : sizeof head;
    gg_status st = S_ISREG(s.st_mode) ? gg_pread_all(fd, head, n, 0, err)
                                      : gg_fail(err, GG_EFORMAT, "not a regular file");
    if (st == GG_OK) st = gg_record_parse(head, n, &t, &used, err);
    if (st == GG_OK && used == 0)
        st = gg_fail(err, GG_EFORMAT, "the file ends within the header of the record");
    if (st != GG_OK) return st;
    const char *differs = differing_member(&e->t, &t);
    if (differs) {
        gg_fail(err, GG_EFORMAT, "the manifest and the record file have different values of \"%s\"",
                differs);
        return gg_fix(err, "restore this line in " GG_MANIFEST ", or extract the model again");
    }
    if ((uint64_t)s.st_size - used == t.bytes) return GG_OK;
    gg_fail(err, GG_EFORMAT, "the file has %llu bytes of data, but the tensor needs %llu",
            (unsigned long long)s.st_size - used, (unsigned long long)t.bytes);
    return gg_fix(err, "extract the model again");
}

static gg_status compare_entry(const char *dir, gg_entry *e, gg_error *err)
{
    char *path = gg_path_in(dir, e->file, err);
    int fd = path ? gg_open_read(path, err) : -1;
    if (fd >= 0) {
        if (gg_stamp_fd(fd, &e->stamp, err) == GG_OK) compare_record(fd, e, err);
        close(fd);
    } else if (err->sys_errno == ENOENT) {
        *err = (gg_error)GG_ERROR_INIT;
        gg_fail(err, GG_EFORMAT, "this file is listed in the manifest but does not exist");
        gg_fix(err, "extract the model again, or remove the line from " GG_MANIFEST);
    }
    gg_at_tensor(err, e->t.name, e->t.name_len);
    if (path) gg_at_file(err, path);
    free(path);
    return err->status;
}

/* Trailing bytes have no format and are copied into a model unchanged. Links are therefore never
 * followed, not even in a parent folder: a hostile directory could otherwise copy any file of
 * the user into the model. */
static gg_status check_trailing(const char *dir, const gg_file_layout *f, gg_error *err)
{
    struct stat s;
    char *path = gg_path_in(dir, f->trailing, err);
    if (!path) return err->status;
    if (strchr(f->trailing, '/')) {
        gg_fail(err, GG_EFORMAT,
                "the file of trailing bytes must be in the folder of the manifest");
    } else if (lstat(path, &s) != 0 && errno == ENOENT) {
        gg_fail(err, GG_EFORMAT, "this file is listed in the manifest but does not exist");
    } else if (lstat(path, &s) != 0) {
        gg_fail_errno(err, "cannot open the file of trailing bytes");
    } else if (!S_ISREG(s.st_mode)) {
        gg_fail(err, GG_EFORMAT, "not a regular file");
    } else if ((uint64_t)s.st_size != f->trailing_bytes) {
        gg_fail(err, GG_EFORMAT, "the file has %llu bytes, but the manifest states %llu",
                (unsigned long long)s.st_size, (unsigned long long)f->trailing_bytes);
    }
    gg_fix(err, "extract the model again, or remove \"trailing\" from " GG_MANIFEST);
    gg_at_file(err, path);
    free(path);
    return err->status;
}

gg_status gg_manifest_load(const char *dir, gg_manifest **out, gg_error *err)
{
    char *path = gg_path_in(dir, GG_MANIFEST, err);
    gg_manifest *m = NULL;
    gg_status st = path ? gg_manifest_read(path, &m, err) : GG_ENOMEM;
    if (st != GG_OK && err->sys_errno == ENOENT) {
        *err = (gg_error)GG_ERROR_INIT;
        st = gg_fail(err, GG_EFORMAT,
                     "this folder has no " GG_MANIFEST ", so it is not an organ directory");
        gg_fix(err, "give a GGUF file, or a folder that was extracted from one");
        gg_at_file(err, dir);
    }
    if (path) gg_at_file(err, path);
    free(path);
    for (size_t i = 0; st == GG_OK && i < m->n_entries; i++)
        st = compare_entry(dir, &m->entries[i], err);
    for (size_t i = 0; st == GG_OK && i < m->n_files; i++)
        if (m->files[i].trailing) st = check_trailing(dir, &m->files[i], err);
    if (st == GG_EFORMAT) gg_fix(err, "correct " GG_MANIFEST ", or extract the model again");
    if (st == GG_OK) *out = m;
    else gg_manifest_free(m);
    return st;
}

/* ---- writing --------------------------------------------------------------------------- */

/* The order of members is fixed, and there is one line per tensor and per metadata entry, so that
 * diff, grep and jq work on it. */

typedef struct writer {
    gg_json_out o;
    gg_error *err;
    gg_buf *buf; /* text that is not written yet */
    int fd;
    uint64_t written;
    const gg_meta *meta; /* what a refusal looks for */
} writer;

#define put(w, ...) gg_mj_put(&(w)->o, (w)->err, __VA_ARGS__)

/* The value of <arch>.block_count, or the number of blocks in the tensor names if it is absent. */
static uint64_t count_blocks(const gg_manifest *m)
{
    uint64_t blocks = 0;
    if (gg_kv_u64(gg_arch_kv(&m->meta, "block_count"), &blocks)) return blocks;
    for (size_t i = 0; i < m->n_entries; i++)
        if (m->entries[i].t.a.block >= 0 && (uint64_t)m->entries[i].t.a.block + 1 > blocks)
            blocks = (uint64_t)m->entries[i].t.a.block + 1;
    return blocks;
}

static void put_model(writer *w, const gg_manifest *m, uint64_t alignment, const char *arch,
                      size_t arch_len)
{
    uint64_t parameters = 0;
    const char *name = NULL;
    size_t name_len = 0;
    gg_kv_str(gg_meta_find(&m->meta, "general.name"), &name, &name_len);
    for (size_t i = 0; i < m->n_entries; i++) parameters += m->entries[i].t.elements;
    put(w, "  \"model\": {\n    \"source\": %s,\n    \"bytes\": %u,\n", m->source, m->bytes);
    put(w, "    \"gguf_version\": %u,\n    \"alignment\": %u,\n", (uint64_t)m->version, alignment);
    put(w, "    \"architecture\": %b,\n    \"name\": %b,\n", arch, arch_len, name, name_len);
    put(w, "    \"blocks\": %u,\n    \"parameters\": %u,\n", count_blocks(m), parameters);
    put(w, "    \"tensors\": %u\n  },\n  ", (uint64_t)m->n_entries);
}

static void put_metadata(writer *w, const gg_meta *meta, const char *indent)
{
    put(w, "\"metadata\": [");
    for (size_t i = 0; i < meta->n && w->err->status == GG_OK; i++) {
        put(w, "%t%t  ", i ? ",\n" : "\n", indent);
        gg_mj_put_kv(&w->o, &meta->kv[i], w->err);
    }
    if (meta->n) put(w, "\n%t", indent);
    put(w, "]");
}

static void put_dims(writer *w, const gg_tensor *t)
{
    put(w, ", \"dims\": [");
    for (uint32_t d = 0; d < t->n_dims; d++) put(w, d ? ", %u" : "%u", t->dims[d]);
    const gg_dtype_info *info = gg_dtype_get(t->dtype);
    put(w, "], \"dtype\": \"%t\"", info ? info->name : "?");
}

static void put_entry(writer *w, const gg_entry *e)
{
    put(w, "    {\"name\": %b, \"class\": \"%t\", \"block\": %i, \"role\": %b", e->t.name,
        e->t.name_len, gg_class_name(e->t.a.cls), e->t.a.block, e->t.name + e->t.a.role_at,
        (size_t)e->t.a.role_len);
    put_dims(w, &e->t);
    put(w, ", \"bytes\": %u, \"offset\": %u, \"file\": %s", e->t.bytes, e->t.offset, e->file);
    if (e->sha256[0]) put(w, ", \"sha256\": %s", e->sha256);
    if (e->z) put(w, ", \"z\": %t", e->z);
    if (e->history) put(w, ", \"history\": %t", e->history);
    put(w, "}");
}

static void put_pad(writer *w, const gg_pad *p)
{
    size_t len = gg_base64_length(p->n);
    char *coded = malloc(len + 1);
    if (!coded) {
        gg_fail(w->err, GG_ENOMEM, "no memory for padding");
        return;
    }
    gg_base64_encode(p->bytes, p->n, coded);
    coded[len] = '\0';
    put(w, "{\"after\": %b, \"base64\": \"%t\"}", p->after, p->after_len, coded);
    free(coded);
}

static void put_file(writer *w, const gg_file_layout *f, bool first)
{
    put(w, "      {\"file\": %s, \"tensors\": %u, \"gguf_version\": %u", f->name,
        (uint64_t)f->n_tensors, (uint64_t)f->version);
    if (f->n_pads) {
        put(w, ",\n        \"padding\": [");
        for (size_t i = 0; i < f->n_pads; i++) {
            if (i) put(w, ", ");
            put_pad(w, &f->pads[i]);
        }
        put(w, "]");
    }
    if (f->trailing) {
        put(w, ",\n        \"trailing\": {\"file\": %s, \"bytes\": %u", f->trailing,
            f->trailing_bytes);
        if (f->trailing_sha256[0]) put(w, ", \"sha256\": %s", f->trailing_sha256);
        put(w, "}");
    }
    if (!first) {
        put(w, ",\n        ");
        put_metadata(w, &f->meta, "        ");
    }
    put(w, "}");
}

/* "layout" has the details that a byte-exact rebuild needs in addition. It also records values
 * that are both in "model" and in a metadata key, to tell which of the two was edited. No member
 * has the same name as a member of "model", because a sed command would edit both. */
static void put_layout(writer *w, const gg_manifest *m, uint64_t alignment, const char *arch,
                       size_t arch_len)
{
    bool plain = m->n_files == 1 && m->files[0].n_pads == 0 && !m->files[0].trailing;
    const char *name;
    size_t name_len;
    put(w, "  \"layout\": {\n    \"general.alignment\": %u,\n    \"general.architecture\": %b",
        alignment, arch, arch_len);
    if (gg_kv_str(gg_meta_find(&m->meta, "general.name"), &name, &name_len))
        put(w, ",\n    \"general.name\": %b", name, name_len);
    if (!plain) put(w, ",\n    \"files\": [\n");
    for (size_t i = 0; i < m->n_files && !plain; i++) {
        if (i) put(w, ",\n");
        put_file(w, &m->files[i], i == 0);
    }
    if (!plain) put(w, "\n    ]");
    for (size_t i = 0; i < m->n_stacks; i++) {
        put(w, i ? ",\n      {\"name\": %b" : ",\n    \"stacked\": [\n      {\"name\": %b",
            m->stacks[i].t.name, m->stacks[i].t.name_len);
        put_dims(w, &m->stacks[i].t);
        put(w, "}");
    }
    put(w, "%t\n  },\n", m->n_stacks ? "\n    ]" : "");
}

static gg_status fail_too_large(const writer *w)
{
    const gg_kv *most = NULL;
    char key[100];
    for (size_t i = 0; i < w->meta->n; i++)
        if (!most || w->meta->kv[i].size > most->size) most = &w->meta->kv[i];
    gg_fail(w->err, GG_EUNSUPPORTED, "the manifest would exceed the maximum of %llu bytes",
            (unsigned long long)GG_MANIFEST_MOST);
    if (!most || most->size < GG_MANIFEST_MOST / 64)
        return gg_fix(w->err, "extract fewer tensors at a time");
    gg_escape(most->key, most->key_len, key, sizeof key);
    return gg_fix(w->err, "shorten or delete the key '%s', which has %llu bytes", key,
                  (unsigned long long)most->size);
}

static gg_status write_piece(writer *w, const char *bytes, size_t n)
{
    w->written += n;
    if (w->written > GG_MANIFEST_MOST) return fail_too_large(w);
    return gg_write_all(w->fd, bytes, n, w->err);
}

/* Keys can have strings of 1 GiB, so a manifest is not held. */
static gg_status write_pieces(void *ctx, const char *bytes, size_t n, gg_error *err)
{
    writer *w = ctx;
    gg_status st = GG_OK;
    if (w->buf->len + n >= 65536) {
        st = write_piece(w, w->buf->data, w->buf->len);
        gg_buf_clear(w->buf);
    }
    if (st == GG_OK && n >= 65536) return write_piece(w, bytes, n);
    return st == GG_OK ? gg_buf_append(w->buf, bytes, n, err) : st;
}

static void put_manifest(writer *w, const gg_manifest *m)
{
    const char *arch = NULL;
    size_t arch_len = 0;
    uint64_t alignment;
    gg_error ignored = GG_ERROR_INIT;
    gg_meta_alignment(&m->meta, &alignment, &ignored);
    if (gg_kv_str(gg_meta_find(&m->meta, "general.architecture"), &arch, &arch_len) && !arch)
        arch = "";
    put(w, "{\n  \"format\": \"organ-manifest\",\n  \"version\": 1,\n");
    put_model(w, m, alignment, arch, arch_len);
    put_metadata(w, &m->meta, "  ");
    put(w, ",\n");
    put_layout(w, m, alignment, arch, arch_len);
    put(w, "  \"tensors\": [");
    for (size_t i = 0; i < m->n_entries && w->err->status == GG_OK; i++) {
        put(w, i ? ",\n" : "\n");
        put_entry(w, &m->entries[i]);
    }
    put(w, m->n_entries ? "\n  ]\n}\n" : "]\n}\n");
}

gg_status gg_manifest_write(const gg_manifest *m, int fd, gg_error *err)
{
    gg_buf buf = GG_BUF_INIT;
    writer w = { .err = err, .buf = &buf, .fd = fd, .meta = &m->meta };
    w.o = (gg_json_out){ write_pieces, &w };
    put_manifest(&w, m);
    if (err->status == GG_OK) write_piece(&w, buf.data, buf.len);
    gg_buf_free(&buf);
    return err->status;
}

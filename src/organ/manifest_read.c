/* manifest_read.c - parse manifest.json.
 *
 * People may edit a manifest. Edited values are accepted unless they contradict each other. */
#include "manifest_read.h"

#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/io.h"
#include "gguf/gguf.h"
#include "manifest_json.h"
#include "organ/manifest.h"
#include "organ/record.h"
#include "organ/tensor_names.h"
#include "json/json.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static gg_status wrong(const gg_json_node *node, gg_error *err, const char *what)
{
    gg_fail(err, GG_EFORMAT, "%s", what);
    return gg_at_offset(err, gg_json_offset(node));
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
    return is == type || is == GG_JSON_NONE || is == GG_JSON_NULL ? GG_OK : wrong(node, err, what);
}

/* Reads an item of a list into `to`. Items of an outline are parsed just before. */
typedef gg_status (*item_fn)(const gg_json_node *node, void *to, gg_error *err);

static gg_status with_item(const gg_json_node *item, item_fn fn, void *to, gg_error *err)
{
    gg_json *tree;
    if (gg_json_type_of(item) != GG_JSON_TEXT) return fn(item, to, err);
    gg_status st = gg_json_item(item, &tree, err);
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
        st = wrong(node, err, "\"file\" must be a path inside the organ directory");
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
    if (n != 64) return wrong(node, err, "\"sha256\" must be 64 lower-case hexadecimal digits");
    memcpy(out, s, 64);
    out[64] = '\0';
    return GG_OK;
}

/* Reads name, dims and dtype of a tensor, and computes bytes and elements from them. */
static gg_status read_tensor(const gg_json_node *node, gg_tensor *t, gg_error *err)
{
    *t = (gg_tensor){ .dims = { 1, 1, 1, 1 } };
    char *name = NULL;
    gg_status st = gg_mj_bytes(gg_json_get(node, "name"), "\"name\"", &name, &t->name_len, err);
    t->name = name;
    if (st == GG_OK && t->name_len > GG_RECORD_NAME)
        st = wrong(node, err, "a tensor name is too long");
    const gg_json_node *dims = gg_json_get(node, "dims");
    if (st == GG_OK &&
        (gg_json_type_of(dims) != GG_JSON_ARRAY || gg_json_count(dims) > GG_MAX_DIMS))
        st = wrong(node, err, "\"dims\" must be a list of at most 4 numbers");
    for (const gg_json_node *d = gg_json_first(dims); d && st == GG_OK; d = gg_json_next(d))
        if ((st = gg_json_u64(d, &t->dims[t->n_dims], err)) == GG_OK &&
            t->dims[t->n_dims++] > INT64_MAX)
            st = wrong(d, err, "a dimension is too large");
    const char *dtype = NULL;
    size_t n = 0;
    const gg_dtype_info *info = NULL;
    char text[24];
    if (st == GG_OK) st = gg_json_string(gg_json_get(node, "dtype"), &dtype, &n, err);
    if (st == GG_OK) {
        snprintf(text, sizeof text, "%.*s", (int)(n < 20 ? n : 20), dtype);
        info = gg_dtype_by_name(text);
        if (!info) st = wrong(gg_json_get(node, "dtype"), err, "\"dtype\" is not a tensor type");
    }
    if (st == GG_OK) {
        t->dtype = info->id;
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
    e->a = gg_anatomy_of(e->t.name, e->t.name_len);
    const gg_json_node *bytes = gg_json_get(node, "bytes"), *offset = gg_json_get(node, "offset");
    uint64_t stated = e->t.bytes;
    if (bytes) st = gg_json_u64(bytes, &stated, err);
    if (st == GG_OK && offset) st = gg_json_u64(offset, &e->t.offset, err);
    if (st == GG_OK && stated != e->t.bytes) {
        gg_fail(err, GG_EFORMAT, "\"bytes\" is %llu, but dims and dtype give %llu",
                (unsigned long long)stated, (unsigned long long)e->t.bytes);
        st = gg_at_offset(err, gg_json_offset(bytes));
    }
    const char *cls;
    size_t n;
    const gg_json_node *c = gg_json_get(node, "class");
    if (st == GG_OK && c && (st = gg_json_string(c, &cls, &n, err)) == GG_OK &&
        !gg_class_by_name(cls, n, &e->a.cls))
        st = wrong(c, err, "\"class\" must be skeleton, organ, embed, norm, adapter or other");
    if (st == GG_OK) st = read_path(gg_json_get(node, "file"), &e->file, err);
    if (st == GG_OK) st = read_sha(gg_json_get(node, "sha256"), e->sha256, err);
    if (st == GG_OK) st = keep_text(gg_json_get(node, "z"), &e->z, err);
    const gg_json_node *history = gg_json_get(node, "history");
    if (st == GG_OK) st = check_type(history, GG_JSON_ARRAY, "\"history\" must be a list", err);
    if (st == GG_OK) st = keep_text(history, &e->history, err);
    return st == GG_OK ? GG_OK : (gg_at_tensor(err, e->t.name, e->t.name_len), st);
}

/* Sorts the keys once; a search per key would take hours on a hostile manifest. */
static gg_status check_keys(const gg_meta *meta, gg_error *err)
{
    gg_meta_order o;
    gg_status st = gg_meta_order_make(meta, &o, err);
    const gg_kv *twice = st == GG_OK ? gg_meta_order_twice(&o) : NULL;
    if (twice) {
        int len = twice->key_len < 80 ? (int)twice->key_len : 80;
        st = gg_fail(err, GG_EFORMAT, "metadata key %.*s appears twice", len, twice->key);
    }
    free(o.list);
    return st;
}

static gg_status read_kv(const gg_json_node *node, void *meta, gg_error *err)
{
    return gg_mj_kv(node, meta, err);
}

static gg_status read_metadata(const gg_json_node *list, gg_meta *meta, gg_error *err)
{
    gg_status st = GG_OK;
    if (list && gg_json_type_of(list) != GG_JSON_ARRAY)
        return wrong(list, err, "\"metadata\" must be a list");
    for (const gg_json_node *kv = gg_json_first(list); kv && st == GG_OK; kv = gg_json_next(kv))
        st = with_item(kv, read_kv, meta, err);
    return st == GG_OK ? check_keys(meta, err) : st;
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
        return wrong(base64, err, "padding is not valid base64");
    p->n = n;
    return GG_OK;
}

static gg_status read_file_layout(const gg_json_node *node, gg_file_layout *f, gg_error *err)
{
    uint64_t tensors = 0, version = 3;
    size_t n;
    const gg_json_node *v = gg_json_get(node, "gguf_version"), *t = gg_json_get(node, "trailing");
    gg_status st = optional_string(gg_json_get(node, "file"), "\"file\"", &f->name, &n, err);
    if (st == GG_OK) st = gg_json_u64(gg_json_get(node, "tensors"), &tensors, err);
    if (st == GG_OK && v) st = gg_json_u64(v, &version, err);
    if (st == GG_OK && (version < 2 || version > 3))
        st = wrong(v, err, "\"gguf_version\" must be 2 or 3");
    f->n_tensors = (size_t)tensors;
    f->version = (uint32_t)version;
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
    const gg_json_node *name = gg_json_get(layout, "general.name"),
                       *older = gg_json_get(layout, "name");
    gg_status st = optional_string(name ? name : older, "\"general.name\"", &m->name_was,
                                   &m->name_was_len, err);
    const gg_json_node *files = gg_json_get(layout, "files"),
                       *stacks = gg_json_get(layout, "stacked");
    if (st == GG_OK) st = check_type(layout, GG_JSON_OBJECT, "\"layout\" must be an object", err);
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
    uint64_t version = 3;
    const gg_json_node *v = gg_json_get(model, "gguf_version"), *b = gg_json_get(model, "bytes");
    gg_status st = optional_string(gg_json_get(model, "source"), "\"source\"", &m->source, &n, err);
    if (st == GG_OK)
        st = optional_string(gg_json_get(model, "name"), "\"name\"", &m->name, &m->name_len, err);
    if (st == GG_OK && v) st = gg_json_u64(v, &version, err);
    if (st == GG_OK && b) st = gg_json_u64(b, &m->bytes, err);
    if (st == GG_OK && (version < 2 || version > 3))
        st = wrong(v, err, "\"gguf_version\" must be 2 or 3");
    m->version = (uint32_t)version;
    return st;
}

/* Reads a member that is a string or null. Returns false if it is absent or something else. */
static bool text_in(const gg_json_node *object, const char *member, char **text, size_t *n,
                    gg_error *err)
{
    const gg_json_node *node = gg_json_get(object, member);
    *text = NULL;
    *n = 0;
    return node && optional_string(node, "an architecture", text, n, err) == GG_OK;
}

static bool same_text(const char *a, size_t an, const char *b, size_t bn)
{
    return (!a || !b) ? a == b : an == bn && memcmp(a, b, an) == 0;
}

/* Some values are both in "model" and in a metadata key, and "layout" records the original. If
 * only "model" was edited, the key is set to it. An edited key has priority. manifest_check.c does
 * the same for the name. */
static gg_status follow_architecture(const gg_json_node *model, const gg_json_node *layout,
                                     gg_meta *meta, gg_error *err)
{
    char *now, *was = NULL;
    const char *key = NULL;
    size_t n, was_n = 0, key_n = 0;
    bool both = text_in(model, "architecture", &now, &n, err) &&
                text_in(layout, "general.architecture", &was, &was_n, err);
    gg_kv_str(gg_meta_find(meta, "general.architecture"), &key, &key_n);
    if (both && now && !same_text(now, n, was, was_n) && same_text(key, key_n, was, was_n))
        gg_meta_set_str(meta, "general.architecture", now, n, err);
    free(now);
    free(was);
    return err->status;
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
        return wrong(node, err, "\"alignment\" must be a power of two below 2^32");
    return gg_meta_set_u32(meta, "general.alignment", (uint32_t)now, err);
}

static gg_status check_format(const gg_json_node *root, gg_error *err)
{
    const char *s = "";
    size_t n = 0;
    uint64_t version = 0;
    gg_error ignored = GG_ERROR_INIT;
    gg_json_string(gg_json_get(root, "format"), &s, &n, &ignored);
    if (n != 14 || memcmp(s, "organ-manifest", 14) != 0)
        return wrong(root, err,
                     "this is not an organ manifest: \"format\" must be "
                     "\"organ-manifest\"");
    gg_status st = gg_json_u64(gg_json_get(root, "version"), &version, err);
    if (st == GG_OK && version != 1)
        st = wrong(root, err,
                   "the version of the manifest is not 1; use a newer version of these "
                   "tools");
    return st;
}

static gg_status read_all(const gg_json_node *root, gg_manifest *m, gg_error *err)
{
    gg_status st = check_format(root, err);
    if (st == GG_OK)
        st = check_type(gg_json_get(root, "model"), GG_JSON_OBJECT, "\"model\" must be an object",
                        err);
    if (st == GG_OK) st = read_model(gg_json_get(root, "model"), m, err);
    if (st == GG_OK) st = read_metadata(gg_json_get(root, "metadata"), &m->meta, err);
    if (st == GG_OK) st = read_layout(gg_json_get(root, "layout"), m, err);
    if (st == GG_OK)
        st = follow_architecture(gg_json_get(root, "model"), gg_json_get(root, "layout"), &m->meta,
                                 err);
    if (st == GG_OK)
        st = follow_alignment(gg_json_get(root, "model"), gg_json_get(root, "layout"), &m->meta,
                              err);
    const gg_json_node *tensors = gg_json_get(root, "tensors");
    if (st == GG_OK && gg_json_type_of(tensors) != GG_JSON_ARRAY)
        st = wrong(root, err, "the list \"tensors\" is missing");
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
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* do not wait for a FIFO's writer */
    if (fd < 0) return gg_fail_errno(err, "cannot open");
    gg_status st = GG_OK;
    *stamp = gg_stamp_fd(fd);
    if (fstat(fd, &s) != 0) st = gg_fail_errno(err, "cannot get the file's size");
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
    if (st == GG_OK) st = read_all(gg_json_root(json), m, err);
    gg_json_free(json);
    free(text);
    if (st == GG_OK) {
        *out = m;
        return GG_OK;
    }
    gg_manifest_free(m);
    return gg_at_file(err, path), st;
}

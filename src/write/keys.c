/* keys.c - sets keys from texts and files, and those that depend on the types of the tensors. */
#include "keys.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/io.h"
#include "base/utf8.h"
#include "gguf/gguf.h"
#include "organ/source_layout.h"
#include "json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads a whole file of any kind; the size of a pipe is not known. */
static gg_status read_whole_file(int fd, gg_buf *out, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t step = 65536, got = step; st == GG_OK && got == step;) {
        if (out->len > GG_LIMIT_STRING) {
            gg_fail(err, GG_EUSAGE, "the file is larger than 2^30 bytes, the limit for a string");
            return err->status;
        }
        step = out->len > 65536 ? out->len : 65536;
        st = gg_buf_reserve(out, step, err);
        if (st == GG_OK) st = gg_read_some(fd, out->data + out->len, step, &got, err);
        if (st == GG_OK) out->len += got;
    }
    return st;
}

static gg_status read_value_file(const char *path, gg_buf *out, gg_error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        gg_fail_errno(err, "cannot open");
        if (err->sys_errno == ENOENT) gg_fix(err, "check the path");
        return gg_at_file(err, path);
    }
    read_whole_file(fd, out, err);
    if (!is_stdin) close(fd);
    return gg_at_file(err, path);
}

/* Appends the text of a line of a file; modifies it. */
static gg_status add_text_line(gg_buf *to, char *line, size_t n, gg_error *err)
{
    gg_json *json = NULL;
    const char *text = line;
    if (n == 0 || line[0] != '"') {
        if (!gg_unescape(line, &n))
            return gg_fail(err, GG_EUSAGE,
                           "it has a \\ that begins no escape: write \\\\, \\n, \\t or "
                           "\\x and two hex digits");
        return gg_array_add_str(to, text, n, err);
    }
    gg_error why = GG_ERROR_INIT;
    gg_status st = gg_json_parse(line, n, &json, &why);
    if (st == GG_OK) st = gg_json_string(gg_json_root(json), &text, &n, &why);
    if (st == GG_OK) st = gg_array_add_str(to, text, n, err);
    else if (gg_is_of_system(&why)) gg_error_merge(err, &why);
    else st = gg_fail(err, GG_EUSAGE, "it begins with a quotation mark, but is not a JSON string");
    gg_json_free(json);
    return st;
}

/* Sets an array to the lines of a file, which are modified. */
static gg_status set_array_lines(gg_meta *meta, const char *key, uint32_t type, gg_buf *lines,
                                 gg_error *err)
{
    gg_buf bytes = GG_BUF_INIT;
    uint64_t count = 0;
    gg_status st = gg_buf_append(lines, "", 1, err); /* a NUL at the end of the last line */
    char *at = lines->data, *end = st == GG_OK ? at + lines->len - 1 : at;
    while (st == GG_OK && at < end) {
        char *stop = memchr(at, '\n', (size_t)(end - at)), *next = stop ? stop + 1 : end;
        if (!stop) stop = end;
        if (stop > at && stop[-1] == '\r') stop--;
        *stop = '\0';
        uint8_t le[8];
        count++;
        if (type == GG_TYPE_STR) st = add_text_line(&bytes, at, (size_t)(stop - at), err);
        else if (gg_parse_scalar(at, type, le))
            st = gg_buf_append(&bytes, le, gg_type_size(type), err);
        else
            st = gg_fail(err, GG_EUSAGE, "'%.40s' does not fit the type %s", at,
                         gg_type_name(type));
        if (st == GG_EUSAGE) {
            char what[sizeof err->what];
            snprintf(what, sizeof what, "%s", err->what);
            snprintf(err->what, sizeof err->what, "line %llu: %.280s", (unsigned long long)count,
                     what);
        }
        at = next;
    }
    if (st == GG_OK) st = gg_meta_set_array(meta, key, type, count, &bytes, err);
    gg_buf_free(&bytes);
    return st;
}

gg_status gg_meta_set_file(gg_meta *meta, const char *text, gg_error *err)
{
    const char *eq = strchr(text, '=');
    if (!eq || eq == text || !eq[1]) {
        gg_fail(err, GG_EUSAGE, "%s: expected KEY=FILE", text);
        return gg_fix(err, "for example tokenizer.chat_template=template.jinja");
    }
    char *key = strndup(text, (size_t)(eq - text));
    if (!key) return gg_fail(err, GG_ENOMEM, "no memory for a metadata value");
    const gg_kv *old = gg_meta_find(meta, key);
    gg_buf value = GG_BUF_INIT;
    gg_status st = GG_OK;
    bool array = old && old->type == GG_TYPE_ARR;
    if (old && old->type != GG_TYPE_STR && !array)
        st = gg_fail(err, GG_EUSAGE,
                     "%s is of type %s; a file can only replace a string or an array", key,
                     gg_type_name(old->type));
    if (st == GG_OK) st = read_value_file(eq + 1, &value, err);
    if (st == GG_OK && array) {
        st = set_array_lines(meta, key, old->elem_type, &value, err);
        if (st == GG_EUSAGE) gg_at_file(err, eq + 1);
    } else if (st == GG_OK)
        st = gg_meta_set_str(meta, key, value.len ? value.data : "", value.len, err);
    gg_buf_free(&value);
    free(key);
    return st;
}

void gg_model_name(const gg_source *s, const char **name, size_t *len)
{
    const char *path = gg_source_name(s), *slash = strrchr(path, '/');
    const gg_meta *meta = gg_source_meta(s);
    const gg_kv *kv = meta ? gg_meta_find(meta, "general.name") : NULL;
    if (gg_kv_str(kv, name, len) && *len) {
        if (*len <= GG_MODEL_NAME) return;
        *len = GG_MODEL_NAME;
        while (*len > GG_MODEL_NAME - 4 && !gg_utf8_begins((*name)[*len])) --*len;
        return;
    }
    *name = slash && slash[1] ? slash + 1 : path;
    *len = strlen(*name);
}

gg_status gg_set_keys(gg_meta *meta, const gg_output_options *o, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < o->set_kv.n && st == GG_OK; i++)
        st = gg_meta_set_text(meta, o->set_kv.items[i], err);
    for (size_t i = 0; i < o->set_kv_files.n && st == GG_OK; i++)
        st = gg_meta_set_file(meta, o->set_kv_files.items[i], err);
    return st;
}

/* ---- keys that depend on the tensors' types ------------------------------------------ */

bool gg_is_integer(uint32_t dtype)
{
    return dtype == GG_I8 || dtype == GG_I16 || dtype == GG_I32 || dtype == GG_I64;
}

bool gg_is_quantized(uint32_t dtype)
{
    bool plain = dtype == GG_F32 || dtype == GG_F16 || dtype == GG_BF16 || dtype == GG_F64;
    return !plain && !gg_is_integer(dtype);
}

/* Returns the dtype of most tensors; UINT32_MAX without tensors. Linear search, few types. */
static uint32_t most_common_type(const gg_tensor *tensors, size_t n, bool matrices)
{
    struct {
        uint32_t dtype;
        size_t count;
        uint64_t bytes;
    } seen[128];
    size_t types = 0, best = 0;
    for (size_t i = 0; i < n; i++) {
        if (matrices && !gg_is_matrix(&tensors[i])) continue;
        size_t k = 0;
        while (k < types && seen[k].dtype != tensors[i].dtype) k++;
        if (k == sizeof seen / sizeof seen[0]) continue;
        if (k == types) {
            seen[types].dtype = tensors[i].dtype;
            seen[types].count = 0;
            seen[types++].bytes = 0;
        }
        seen[k].count++;
        seen[k].bytes += tensors[i].bytes;
    }
    for (size_t k = 1; k < types; k++)
        if (seen[k].count > seen[best].count ||
            (seen[k].count == seen[best].count && seen[k].bytes > seen[best].bytes))
            best = k;
    return types ? seen[best].dtype : UINT32_MAX;
}

void gg_meta_delete_imatrix(gg_meta *meta)
{
    static const char *const keys[] = { "quantize.imatrix.file", "quantize.imatrix.dataset",
                                        "quantize.imatrix.entries_count",
                                        "quantize.imatrix.chunks_count" };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) gg_meta_delete(meta, keys[i]);
}

gg_status gg_type_keys_update(gg_meta *meta, const gg_tensor *tensors, size_t n, gg_error *err)
{
    uint32_t dtype = most_common_type(tensors, n, true);
    if (dtype == UINT32_MAX) dtype = most_common_type(tensors, n, false);
    const gg_dtype_info *info = dtype == UINT32_MAX ? NULL : gg_dtype_get(dtype);
    gg_status st = GG_OK;
    if (info && info->file_type >= 0)
        st = gg_meta_set_u32(meta, "general.file_type", (uint32_t)info->file_type, err);
    else gg_meta_delete(meta, "general.file_type");
    for (size_t i = 0; i < n && st == GG_OK; i++)
        if (gg_is_quantized(tensors[i].dtype))
            return gg_meta_set_u32(meta, "general.quantization_version", 2, err);
    gg_meta_delete(meta, "general.quantization_version");
    gg_meta_delete_imatrix(meta);
    return st;
}

/* GGUF requires general.quantization_version if any tensor is quantized. */
static gg_status add_version(gg_meta *meta, uint32_t dtype, gg_error *err)
{
    static const char key[] = "general.quantization_version";
    if (!gg_is_quantized(dtype) || gg_meta_find(meta, key)) return GG_OK;
    return gg_meta_set_u32(meta, key, 2, err);
}

gg_status gg_type_keys_change(gg_meta *meta, const gg_source *base, const gg_tensor *tensors,
                              size_t n, gg_error *err)
{
    gg_status st = GG_OK;
    if (gg_source_refusal(base)) return GG_OK; /* no model, but tensors */
    for (size_t i = 0; i < n; i++) {
        size_t k = gg_source_find(base, tensors[i].name, tensors[i].name_len);
        if (k != SIZE_MAX && gg_source_tensor(base, k)->dtype != tensors[i].dtype)
            return gg_type_keys_update(meta, tensors, n, err);
    }
    for (size_t i = 0; i < n && st == GG_OK && gg_source_meta(base); i++)
        if (gg_source_find(base, tensors[i].name, tensors[i].name_len) == SIZE_MAX)
            st = add_version(meta, tensors[i].dtype, err);
    return st;
}

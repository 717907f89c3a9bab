/* set_keys.c - sets keys from texts and files. */
#include "set_keys.h"

#include "base/buf.h"
#include "base/io.h"
#include "gguf/gguf_limits.h"
#include "verbs/shared/key_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads a whole file of any kind; the size of a pipe is not known. */
static gg_status read_all(int fd, gg_buf *out, gg_error *err)
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

static gg_status read_file(const char *path, gg_buf *out, gg_error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        gg_fail_errno(err, "cannot open");
        if (err->sys_errno == ENOENT) gg_fix(err, "check the path");
        return gg_at_file(err, path);
    }
    read_all(fd, out, err);
    if (!is_stdin) close(fd);
    return gg_at_file(err, path);
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
    if (old && old->type != GG_TYPE_STR) {
        char type[GG_KEY_TYPE];
        gg_key_type(old, type);
        st = gg_fail(err, GG_EUSAGE, "%s is of type %s; a file can only replace a string", key,
                     type);
    }
    if (st == GG_OK) st = read_file(eq + 1, &value, err);
    if (st == GG_OK) st = gg_meta_set_str(meta, key, value.len ? value.data : "", value.len, err);
    gg_buf_free(&value);
    free(key);
    return st;
}

gg_status gg_set_keys(gg_meta *meta, const gg_output_options *o, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < o->n_set_kv && st == GG_OK; i++)
        st = gg_meta_set_text(meta, o->set_kv[i], err);
    for (size_t i = 0; i < o->n_set_kv_files && st == GG_OK; i++)
        st = gg_meta_set_file(meta, o->set_kv_files[i], err);
    return st;
}

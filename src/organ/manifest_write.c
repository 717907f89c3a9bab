/* manifest_write.c - write manifest.json.
 *
 * The order of members is fixed, and there is one line per tensor and per metadata entry, so that
 * diff, grep and jq work on it. */
#include "manifest_json.h"
#include "manifest_read.h"

#include "base/base64.h"
#include "base/buf.h"
#include "base/io.h"
#include "gguf/gguf.h"
#include "organ/manifest.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct writer {
    gg_json_out o; /* to buf */
    gg_error *err;
    gg_buf *buf;
    int fd;
    uint64_t written;
} writer;

static void text(writer *w, const char *s)
{
    gg_json_put_text(&w->o, s, w->err);
}

static void number(writer *w, uint64_t v)
{
    gg_json_put_u64(&w->o, v, w->err);
}

/* Writes a C string, or null for NULL. */
static void string(writer *w, const char *s)
{
    if (s) gg_mj_put_bytes(&w->o, s, strlen(s), w->err);
    else text(w, "null");
}

static void kv_string(writer *w, const gg_kv *kv)
{
    const char *s;
    size_t n;
    if (gg_kv_str(kv, &s, &n)) gg_mj_put_bytes(&w->o, s, n, w->err);
    else text(w, "null");
}

/* The value of <arch>.block_count, or the number of blocks in the tensor names if it is absent. */
static uint64_t count_blocks(const gg_manifest *m)
{
    uint64_t blocks = 0;
    char key[160];
    if (gg_arch_key(&m->meta, "block_count", key, sizeof key) &&
        gg_kv_u64(gg_meta_find(&m->meta, key), &blocks))
        return blocks;
    for (size_t i = 0; i < m->n_entries; i++)
        if (m->entries[i].a.block >= 0 && (uint64_t)m->entries[i].a.block + 1 > blocks)
            blocks = (uint64_t)m->entries[i].a.block + 1;
    return blocks;
}

static void put_alignment(writer *w, const gg_manifest *m)
{
    uint64_t alignment;
    gg_error ignored = GG_ERROR_INIT;
    gg_meta_alignment(&m->meta, &alignment, &ignored);
    number(w, alignment);
}

static void put_model(writer *w, const gg_manifest *m)
{
    uint64_t parameters = 0;
    for (size_t i = 0; i < m->n_entries; i++) parameters += m->entries[i].t.elements;
    text(w, "  \"model\": {\n    \"source\": ");
    string(w, m->source);
    text(w, ",\n    \"bytes\": ");
    number(w, m->bytes);
    text(w, ",\n    \"gguf_version\": ");
    number(w, m->version);
    text(w, ",\n    \"alignment\": ");
    put_alignment(w, m);
    text(w, ",\n    \"architecture\": ");
    kv_string(w, gg_meta_find(&m->meta, "general.architecture"));
    text(w, ",\n    \"name\": ");
    if (m->name) gg_mj_put_bytes(&w->o, m->name, m->name_len, w->err);
    else text(w, "null");
    text(w, ",\n    \"blocks\": ");
    number(w, count_blocks(m));
    text(w, ",\n    \"parameters\": ");
    number(w, parameters);
    text(w, ",\n    \"tensors\": ");
    number(w, m->n_entries);
    text(w, "\n  }");
}

static void put_metadata(writer *w, const gg_meta *meta, const char *indent)
{
    text(w, "\"metadata\": [");
    for (size_t i = 0; i < meta->n && w->err->status == GG_OK; i++) {
        text(w, i ? ",\n" : "\n");
        text(w, indent);
        text(w, "  ");
        gg_mj_put_kv(&w->o, &meta->kv[i], w->err);
    }
    if (meta->n) {
        text(w, "\n");
        text(w, indent);
    }
    text(w, "]");
}

static void put_dims(writer *w, const gg_tensor *t)
{
    text(w, ", \"dims\": [");
    for (uint32_t d = 0; d < t->n_dims; d++) {
        if (d) text(w, ", ");
        number(w, t->dims[d]);
    }
    const gg_dtype_info *info = gg_dtype_get(t->dtype);
    text(w, "], \"dtype\": \"");
    text(w, info ? info->name : "?");
    text(w, "\"");
}

static void put_entry(writer *w, const gg_entry *e)
{
    text(w, "    {\"name\": ");
    gg_mj_put_bytes(&w->o, e->t.name, e->t.name_len, w->err);
    text(w, ", \"class\": \"");
    text(w, gg_class_name(e->a.cls));
    text(w, "\", \"block\": ");
    if (e->a.block >= 0) number(w, (uint64_t)e->a.block);
    else text(w, "null");
    text(w, ", \"role\": ");
    gg_mj_put_bytes(&w->o, e->t.name + e->a.role_at, e->a.role_len, w->err);
    put_dims(w, &e->t);
    text(w, ", \"bytes\": ");
    number(w, e->t.bytes);
    text(w, ", \"offset\": ");
    number(w, e->t.offset);
    text(w, ", \"file\": ");
    string(w, e->file);
    if (e->sha256[0]) {
        text(w, ", \"sha256\": ");
        string(w, e->sha256);
    }
    if (e->z) {
        text(w, ", \"z\": ");
        text(w, e->z);
    }
    if (e->history) {
        text(w, ", \"history\": ");
        text(w, e->history);
    }
    text(w, "}");
}

static void put_pad(writer *w, const gg_pad *p)
{
    text(w, "{\"after\": ");
    if (p->after) gg_mj_put_bytes(&w->o, p->after, p->after_len, w->err);
    else text(w, "null");
    text(w, ", \"base64\": \"");
    size_t len = gg_base64_length(p->n);
    char *coded = malloc(len ? len : 1);
    if (!coded) {
        gg_fail(w->err, GG_ENOMEM, "no memory for padding");
        return;
    }
    gg_base64_encode(p->bytes, p->n, coded);
    gg_json_put_raw(&w->o, coded, len, w->err);
    free(coded);
    text(w, "\"}");
}

static void put_file(writer *w, const gg_file_layout *f, bool first)
{
    text(w, "      {\"file\": ");
    string(w, f->name);
    text(w, ", \"tensors\": ");
    number(w, f->n_tensors);
    text(w, ", \"gguf_version\": ");
    number(w, f->version);
    if (f->n_pads) {
        text(w, ",\n        \"padding\": [");
        for (size_t i = 0; i < f->n_pads; i++) {
            if (i) text(w, ", ");
            put_pad(w, &f->pads[i]);
        }
        text(w, "]");
    }
    if (f->trailing) {
        text(w, ",\n        \"trailing\": {\"file\": ");
        string(w, f->trailing);
        text(w, ", \"bytes\": ");
        number(w, f->trailing_bytes);
        if (f->trailing_sha256[0]) {
            text(w, ", \"sha256\": ");
            string(w, f->trailing_sha256);
        }
        text(w, "}");
    }
    if (!first) {
        text(w, ",\n        ");
        put_metadata(w, &f->meta, "        ");
    }
    text(w, "}");
}

static bool files_are_plain(const gg_manifest *m)
{
    return m->n_files == 1 && m->files[0].n_pads == 0 && !m->files[0].trailing;
}

/* "layout" has the details that a byte-exact rebuild needs in addition. It also records values
 * that are both in "model" and in a metadata key, to tell which of the two was edited. No member
 * has the same name as a member of "model", because a sed command would edit both. */
static void put_layout(writer *w, const gg_manifest *m)
{
    text(w, "  \"layout\": {\n    \"general.alignment\": ");
    put_alignment(w, m);
    text(w, ",\n    \"general.architecture\": ");
    kv_string(w, gg_meta_find(&m->meta, "general.architecture"));
    if (m->name_was) {
        text(w, ",\n    \"general.name\": ");
        gg_mj_put_bytes(&w->o, m->name_was, m->name_was_len, w->err);
    }
    if (!files_are_plain(m)) {
        text(w, ",\n    \"files\": [\n");
        for (size_t i = 0; i < m->n_files; i++) {
            if (i) text(w, ",\n");
            put_file(w, &m->files[i], i == 0);
        }
        text(w, "\n    ]");
    }
    if (m->n_stacks) {
        text(w, ",\n    \"stacked\": [\n");
        for (size_t i = 0; i < m->n_stacks; i++) {
            text(w, i ? ",\n      {\"name\": " : "      {\"name\": ");
            gg_mj_put_bytes(&w->o, m->stacks[i].t.name, m->stacks[i].t.name_len, w->err);
            put_dims(w, &m->stacks[i].t);
            text(w, "}");
        }
        text(w, "\n    ]");
    }
    text(w, "\n  },\n");
}

/* `flush` is called after each part. */
static void put_manifest(writer *w, const gg_manifest *m, void (*flush)(writer *w))
{
    text(w, "{\n  \"format\": \"organ-manifest\",\n  \"version\": 1,\n");
    put_model(w, m);
    text(w, ",\n  ");
    put_metadata(w, &m->meta, "  ");
    text(w, ",\n");
    put_layout(w, m);
    text(w, "  \"tensors\": [");
    for (size_t i = 0; i < m->n_entries && w->err->status == GG_OK; i++) {
        text(w, i ? ",\n" : "\n");
        put_entry(w, &m->entries[i]);
        flush(w);
    }
    text(w, m->n_entries ? "\n  ]\n}\n" : "]\n}\n");
}

static void keep(writer *w)
{
    (void)w;
}

gg_status gg_manifest_text(const gg_manifest *m, char **out, size_t *len, gg_error *err)
{
    gg_buf buf = GG_BUF_INIT;
    writer w = { gg_json_to_buf(&buf), err, &buf, -1, 0 };
    put_manifest(&w, m, keep);
    if (err->status != GG_OK) {
        gg_buf_free(&buf);
        return err->status;
    }
    *out = gg_buf_take(&buf, len);
    return GG_OK;
}

static void empty(writer *w)
{
    w->written += w->buf->len;
    if (w->written > GG_MANIFEST_MOST) {
        gg_fail(w->err, GG_EUNSUPPORTED, "the manifest would exceed the maximum of %llu bytes",
                (unsigned long long)GG_MANIFEST_MOST);
        gg_fix(w->err, "extract fewer tensors at a time");
    }
    if (w->err->status == GG_OK) gg_write_all(w->fd, w->buf->data, w->buf->len, w->err);
    gg_buf_clear(w->buf);
}

static void empty_when_full(writer *w)
{
    if (w->buf->len >= 65536) empty(w);
}

gg_status gg_manifest_write(const gg_manifest *m, int fd, gg_error *err)
{
    gg_buf buf = GG_BUF_INIT;
    writer w = { gg_json_to_buf(&buf), err, &buf, fd, 0 };
    put_manifest(&w, m, empty_when_full);
    empty(&w);
    gg_buf_free(&buf);
    return err->status;
}

/* manifest_new.c - what is known of a source, written down for its organs. */
#include "manifest_new.h"

#include "../base/io.h"
#include "../base/sha256.h"

#include <stdlib.h>
#include <string.h>

static char *copy_bytes(const char *s, size_t n)
{
    char *c = malloc(n + 1);
    if (!c) return NULL;
    memcpy(c, s, n);
    c[n] = '\0';
    return c;
}

static gg_status no_memory(gg_error *err)
{
    return gg_fail(err, GG_ENOMEM, "no memory for the manifest");
}

static gg_status set_name(gg_manifest *m, gg_error *err)
{
    const char *s;
    size_t n;
    if (!gg_kv_str(gg_meta_find(&m->meta, "general.name"), &s, &n)) return GG_OK;
    m->name = copy_bytes(s, n);
    m->name_was = copy_bytes(s, n);
    m->name_len = m->name_was_len = n;
    return m->name && m->name_was ? GG_OK : no_memory(err);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static gg_status note_files(gg_manifest *m, const gg_source *s, gg_error *err)
{
    const gg_model *model = gg_source_model(s);
    const gg_gguf *header = gg_source_header(s);
    m->n_files = model ? model->n_files : 1;
    m->files = calloc(m->n_files, sizeof *m->files);
    if (!m->files) return no_memory(err);
    for (size_t i = 0; i < m->n_files; i++) {
        const gg_gguf *g = model ? model->files[i] : header;
        gg_file_layout *f = &m->files[i];
        f->version = g ? g->version : 3;
        f->n_tensors = g ? g->n_tensors : gg_source_count(s);
        if (model && !(f->name = strdup(base_name(model->paths[i])))) return no_memory(err);
        if (i > 0 && gg_meta_copy(&f->meta, &g->meta, err) != GG_OK) return err->status;
        m->bytes += model ? model->file_sizes[i] : g ? g->data_start + g->data_bytes : 0;
    }
    m->version = m->files[0].version;
    return GG_OK;
}

static gg_status add_entry(gg_manifest *m, gg_source *s, const gg_piece *p, const char *file, const char *sha, gg_error *err)
{
    gg_entry *e = &m->entries[m->n_entries++];
    *e = (gg_entry){ .t = p->t, .a = p->a };
    e->t.name = copy_bytes(p->t.name, p->t.name_len);
    e->file = strdup(file);
    if (!e->t.name || !e->file) return no_memory(err);
    memcpy(e->sha256, sha, sizeof e->sha256);
    const gg_manifest *from = gg_source_manifest(s);
    const gg_entry *was = from ? &from->entries[p->source] : NULL;
    bool same = was && was->t.bytes == p->t.bytes && p->at == 0;
    if (same && was->z && !(e->z = strdup(was->z))) return no_memory(err);
    if (was && was->history && !(e->history = strdup(was->history))) return no_memory(err);
    return GG_OK;
}

static gg_status add_stack(gg_manifest *m, const gg_tensor *t, gg_error *err)
{
    gg_stack *grown = realloc(m->stacks, (m->n_stacks + 1) * sizeof *grown);
    if (!grown) return no_memory(err);
    m->stacks = grown;
    gg_stack *k = &m->stacks[m->n_stacks++];
    k->t = *t;
    k->t.name = copy_bytes(t->name, t->name_len);
    return k->t.name ? GG_OK : no_memory(err);
}

/* The stacks of a directory that is copied on, and those taken apart just now. */
static gg_status note_stacks(gg_manifest *m, gg_source *s, const gg_piece *pieces, size_t n, gg_error *err)
{
    const gg_manifest *from = gg_source_manifest(s);
    for (size_t i = 0; from && i < from->n_stacks; i++)
        if (add_stack(m, &from->stacks[i].t, err) != GG_OK) return err->status;
    size_t last = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        if (!pieces[i].expert || pieces[i].source == last) continue;
        last = pieces[i].source;
        if (add_stack(m, gg_source_tensor(s, last), err) != GG_OK) return err->status;
    }
    return GG_OK;
}

gg_status gg_manifest_new(gg_source *source, const gg_piece *pieces, size_t n, char *const *names,
                          char (*sha)[65], gg_manifest **out, gg_error *err)
{
    gg_manifest *m = calloc(1, sizeof *m);
    if (!m) return no_memory(err);
    gg_status st = GG_OK;
    m->source = strdup(gg_source_name(source));
    m->entries = calloc(n ? n : 1, sizeof *m->entries);
    if (!m->source || !m->entries) st = no_memory(err);
    const gg_meta *meta = gg_source_meta(source);
    if (st == GG_OK && meta) st = gg_meta_copy(&m->meta, meta, err);
    if (st == GG_OK) st = set_name(m, err);
    if (st == GG_OK) st = note_files(m, source, err);
    for (size_t i = 0; i < n && st == GG_OK; i++) st = add_entry(m, source, &pieces[i], names[i], sha[i], err);
    if (st == GG_OK) st = note_stacks(m, source, pieces, n, err);
    if (st != GG_OK) {
        gg_manifest_free(m);
        return st;
    }
    *out = m;
    return GG_OK;
}

gg_status gg_manifest_note_trailing(gg_manifest *m, size_t file, const char *name, int fd, uint64_t bytes, gg_error *err)
{
    gg_file_layout *f = &m->files[file];
    uint8_t buf[16384];
    gg_sha256 h;
    gg_sha256_init(&h);
    for (uint64_t at = 0; at < bytes;) {
        size_t n = bytes - at < sizeof buf ? (size_t)(bytes - at) : sizeof buf;
        gg_status st = gg_pread_all(fd, buf, n, at, err);
        if (st != GG_OK) return st;
        gg_sha256_update(&h, buf, n);
        at += n;
    }
    unsigned char digest[32];
    gg_sha256_final(&h, digest);
    gg_sha256_hex(digest, f->trailing_sha256);
    f->trailing_bytes = bytes;
    f->trailing = strdup(name);
    return f->trailing ? GG_OK : no_memory(err);
}

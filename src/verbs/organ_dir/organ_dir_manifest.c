/* organ_dir_manifest.c - builds the manifest from the base and the items. */
#include "organ_dir_manifest.h"

#include "base/grow.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"

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

static gg_status copy_pads(gg_file_layout *to, const gg_file_layout *from, gg_error *err)
{
    to->pads = calloc(from->n_pads ? from->n_pads : 1, sizeof *to->pads);
    if (!to->pads) return no_memory(err);
    for (size_t k = 0; k < from->n_pads; k++) {
        const gg_pad *a = &from->pads[k];
        gg_pad *b = &to->pads[to->n_pads++];
        *b = (gg_pad){ .after_len = a->after_len, .n = a->n };
        b->bytes = (uint8_t *)copy_bytes((const char *)a->bytes, a->n);
        if (a->after) b->after = copy_bytes(a->after, a->after_len);
        if (!b->bytes || (a->after && !b->after)) return no_memory(err);
    }
    return GG_OK;
}

/* Copies a directory's layout of its original files, with pads and trailing bytes only if
 * nothing is left out. */
static gg_status copy_files(gg_manifest *m, const gg_manifest *from, bool whole, gg_error *err)
{
    m->version = from->version;
    m->bytes = from->bytes;
    m->files = calloc(from->n_files, sizeof *m->files);
    if (!m->files) return no_memory(err);
    m->n_files = from->n_files;
    for (size_t i = 0; i < m->n_files; i++) {
        const gg_file_layout *a = &from->files[i];
        gg_file_layout *b = &m->files[i];
        b->n_tensors = a->n_tensors;
        b->version = a->version;
        if (a->name && !(b->name = strdup(a->name))) return no_memory(err);
        if (gg_meta_copy(&b->meta, &a->meta, err) != GG_OK) return err->status;
        if (!whole) continue;
        if (copy_pads(b, a, err) != GG_OK) return err->status;
        if (!a->trailing) continue;
        if (!(b->trailing = strdup(a->trailing))) return no_memory(err);
        b->trailing_bytes = a->trailing_bytes;
        memcpy(b->trailing_sha256, a->trailing_sha256, sizeof b->trailing_sha256);
    }
    return GG_OK;
}

static gg_status note_files(gg_manifest *m, const gg_source *s, gg_error *err)
{
    const gg_model *model = gg_source_model(s);
    size_t n_files = gg_source_files(s) ? gg_source_files(s) : 1;
    m->files = calloc(n_files, sizeof *m->files);
    if (!m->files) return no_memory(err);
    m->n_files = n_files;
    for (size_t i = 0; i < m->n_files; i++) {
        const gg_gguf *g = gg_source_files(s) ? gg_source_file(s, i) : NULL;
        gg_file_layout *f = &m->files[i];
        f->version = g ? g->version : 3;
        f->n_tensors = g ? g->n_tensors : gg_source_count(s);
        bool pipe = strcmp(gg_source_name(s), "-") == 0;
        if (model && !pipe && !(f->name = strdup(base_name(model->paths[i]))))
            return no_memory(err);
        if (i > 0 && gg_meta_copy(&f->meta, &g->meta, err) != GG_OK) return err->status;
        m->bytes += model ? model->file_sizes[i] : g ? g->data_start + g->data_bytes : 0;
    }
    m->version = m->files[0].version;
    return GG_OK;
}

static gg_status add_entry(gg_manifest *m, const gg_organ_dir *d, gg_dir_item *it, gg_error *err)
{
    gg_entry *e = &m->entries[m->n_entries++];
    *e = (gg_entry){ .t = it->t, .a = it->a };
    e->t.name = copy_bytes(it->t.name, it->t.name_len);
    e->file = it->file;
    it->file = NULL;
    if (!e->t.name) return no_memory(err);
    memcpy(e->sha256, it->sha, sizeof e->sha256);
    const gg_manifest *from = gg_source_manifest(d->base);
    const gg_entry *was = from && it->source != SIZE_MAX ? &from->entries[it->source] : NULL;
    if (was && was->z && !it->expert && !it->history && !(e->z = strdup(was->z)))
        return no_memory(err);
    if (was && was->history && !(e->history = strdup(was->history))) return no_memory(err);
    return it->history ? gg_entry_add_history(e, it->history, err) : GG_OK;
}

static gg_status add_stack(gg_manifest *m, const gg_tensor *t, gg_error *err)
{
    gg_stack *grown = gg_grow_pow2(m->stacks, m->n_stacks, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    m->stacks = grown;
    gg_stack *k = &m->stacks[m->n_stacks++];
    k->t = *t;
    k->t.name = copy_bytes(t->name, t->name_len);
    return k->t.name ? GG_OK : no_memory(err);
}

/* Lists the stacks of a copied directory and those split in this run. */
static gg_status note_stacks(gg_manifest *m, const gg_organ_dir *d, gg_error *err)
{
    const gg_manifest *from = gg_source_manifest(d->base);
    for (size_t i = 0; from && i < from->n_stacks; i++)
        if (add_stack(m, &from->stacks[i].t, err) != GG_OK) return err->status;
    size_t last = SIZE_MAX;
    for (size_t i = 0; i < d->n; i++) {
        const gg_dir_item *it = &d->items[i];
        if (!it->expert || it->source == last) continue;
        last = it->source;
        if (add_stack(m, gg_source_tensor(d->base, last), err) != GG_OK) return err->status;
    }
    return GG_OK;
}

gg_status gg_organ_dir_manifest(const gg_organ_dir *d, gg_manifest **out, gg_error *err)
{
    gg_manifest *m = calloc(1, sizeof *m);
    if (!m) return no_memory(err);
    gg_status st = GG_OK;
    const gg_manifest *from = gg_source_manifest(d->base);
    m->source = strdup(from && from->source ? from->source : gg_source_name(d->base));
    m->entries = calloc(d->n ? d->n : 1, sizeof *m->entries);
    if (!m->source || !m->entries) st = no_memory(err);
    const gg_meta *meta = d->meta ? d->meta : gg_source_meta(d->base);
    if (st == GG_OK && meta) st = gg_meta_copy(&m->meta, meta, err);
    if (st == GG_OK) st = set_name(m, err);
    if (st == GG_OK) st = from ? copy_files(m, from, d->whole, err) : note_files(m, d->base, err);
    for (size_t i = 0; i < d->n && st == GG_OK; i++) st = add_entry(m, d, &d->items[i], err);
    if (st == GG_OK) st = note_stacks(m, d, err);
    if (st != GG_OK) {
        gg_manifest_free(m);
        return st;
    }
    *out = m;
    return GG_OK;
}

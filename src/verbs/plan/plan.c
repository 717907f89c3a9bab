/* plan.c - builds the lists of a plan. */
#include "plan.h"

#include "base/error.h"
#include "base/grow.h"
#include "gguf/gguf.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

gg_status gg_plan_add(gg_plan *p, const gg_tensor *t, gg_plan_tensor **out, gg_error *err)
{
    if (t->name_len > GG_MAX_NAME) {
        gg_fail(err, GG_EFORMAT, "its name has %zu bytes, but a model allows at most %d",
                t->name_len, GG_MAX_NAME);
        return gg_at_tensor(err, t->name, t->name_len);
    }
    gg_plan_tensor *grown = gg_grow(p->tensors, p->n, &p->cap, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    p->tensors = grown;
    gg_plan_tensor *pt = &p->tensors[p->n];
    *pt = (gg_plan_tensor){ .t = *t };
    pt->t.name = gg_names_add(&p->names, t->name, t->name_len, err);
    if (!pt->t.name) return GG_ENOMEM;
    p->n++;
    *out = pt;
    return GG_OK;
}

gg_status gg_plan_add_part(gg_plan_tensor *t, const gg_plan_part *part, gg_error *err)
{
    gg_plan_part *grown = gg_grow_pow2(t->parts, t->n_parts, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    t->parts = grown;
    t->parts[t->n_parts++] = *part;
    return GG_OK;
}

gg_status gg_plan_add_copy(gg_plan *p, gg_source *source, size_t i, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(source, i);
    const gg_manifest *m = gg_source_manifest(source);
    gg_plan_tensor *pt;
    gg_status st = gg_plan_add(p, t, &pt, err);
    gg_plan_part part = { source, i, 0, t->bytes, m ? m->entries[i].sha256 : NULL };
    return st == GG_OK ? gg_plan_add_part(pt, &part, err) : st;
}

gg_status gg_refuse_split_experts(const gg_source *s, gg_error *err)
{
    const gg_manifest *m = gg_source_manifest(s);
    if (!m || m->n_stacks == 0) return GG_OK;
    gg_fail(err, GG_EUSAGE,
            "this organ directory has single experts, which no engine can read in a GGUF file");
    gg_fix(err,
           "assemble it first with organ-assemble, or graft into a directory and assemble that");
    return gg_at_file(err, gg_source_name(s));
}

uint32_t gg_plan_version(const gg_source *s)
{
    return gg_source_manifest(s) ? gg_source_manifest(s)->version : gg_source_header(s)->version;
}

gg_status gg_plan_one_file(gg_plan *p, const char *path, uint32_t version, const gg_meta *meta,
                           gg_error *err)
{
    p->files = calloc(1, sizeof *p->files);
    if (p->files) p->files->path = strdup(path);
    if (!p->files || !p->files->path) return gg_fail(err, GG_ENOMEM, "no memory for a plan");
    p->n_files = 1;
    p->files->version = version;
    p->files->n = p->n;
    return gg_meta_copy(&p->files->meta, meta, err);
}

gg_status gg_plan_odd_bytes(gg_plan_file *f, const gg_file_layout *layout, const char *dir,
                            gg_error *err)
{
    f->pads = layout->pads;
    f->n_pads = layout->n_pads;
    if (!layout->trailing) return GG_OK;
    size_t size = strlen(dir) + strlen(layout->trailing) + 2;
    f->trailing = malloc(size);
    if (!f->trailing) return gg_fail(err, GG_ENOMEM, "no memory for a path");
    snprintf(f->trailing, size, "%s/%s", dir, layout->trailing);
    f->trailing_bytes = layout->trailing_bytes;
    f->trailing_sha256 = layout->trailing_sha256;
    int fd = open(f->trailing, O_RDONLY | O_CLOEXEC); /* if it is missing, copying fails */
    if (fd < 0) return GG_OK;
    f->trailing_stamp = gg_stamp_fd(fd);
    close(fd);
    return GG_OK;
}

gg_status gg_plan_source_bytes(gg_plan_file *f, gg_source *source, size_t file, gg_error *err)
{
    const gg_model *m = gg_source_model(source);
    gg_status st = gg_source_pads(source, file, &f->own_pads, &f->n_pads, err);
    if (st != GG_OK) return st;
    f->pads = f->own_pads;
    f->trailing_bytes = gg_source_trailing(source, file);
    f->trailing_at = m->file_sizes[file] - f->trailing_bytes;
    f->trailing_stamp = m->stamps[file];
    if (f->trailing_bytes && !(f->trailing = strdup(m->paths[file])))
        return gg_fail(err, GG_ENOMEM, "no memory for a path");
    return GG_OK;
}

gg_status gg_plan_changed_file(gg_plan *p, const char *path, uint32_t version, const gg_meta *meta,
                               gg_source *base, gg_error *err)
{
    p->base = base;
    const gg_model *m = gg_source_model(base);
    const gg_manifest *dir = gg_source_manifest(base);
    gg_status st = gg_plan_one_file(p, path, version, meta, err);
    if (st != GG_OK || !(m || dir)) return st;
    gg_plan_file *f = &p->files[0];
    if ((m ? m->n_files : dir->n_files) > 1) return gg_meta_delete_split(&f->meta), GG_OK;
    if (dir) return gg_plan_odd_bytes(f, &dir->files[0], gg_source_name(base), err);
    return gg_plan_source_bytes(f, base, 0, err);
}

gg_status gg_plan_sources_unchanged(gg_plan *p, gg_error *err)
{
    gg_status st = gg_watch_add(&p->watch, p->base, err);
    if (st == GG_OK) st = gg_watch_add(&p->watch, p->pipe, err);
    for (size_t i = 0; i < p->n && st == GG_OK; i++)
        for (size_t k = 0; k < p->tensors[i].n_parts && st == GG_OK; k++)
            st = gg_watch_add(&p->watch, p->tensors[i].parts[k].source, err);
    return st == GG_OK ? gg_watch_check(&p->watch, err) : st;
}

void gg_plan_free(gg_plan *p)
{
    gg_watch_free(&p->watch);
    for (size_t i = 0; i < p->n; i++) free(p->tensors[i].parts);
    for (size_t i = 0; i < p->n_files; i++) {
        gg_plan_file *f = &p->files[i];
        gg_pads_free(f->own_pads, f->own_pads ? f->n_pads : 0);
        free(f->path);
        free(f->trailing);
        gg_meta_free(&f->meta);
    }
    gg_names_free(&p->names);
    free(p->tensors);
    free(p->files);
    *p = (gg_plan){ 0 };
}

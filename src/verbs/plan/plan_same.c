/* plan_same.c - plans to write a model again unchanged. */
#include "plan_same.h"

#include "gguf/gguf.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"

#include <stdlib.h>
#include <string.h>

static gg_status no_memory(gg_error *err)
{
    return gg_fail(err, GG_ENOMEM, "no memory for a plan");
}

static gg_status add_tensors(gg_plan *p, gg_source *s, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < gg_source_count(s) && st == GG_OK; i++)
        st = gg_plan_add_copy(p, s, i, err);
    return st;
}

static size_t files_of(const gg_source *s)
{
    const gg_model *m = gg_source_model(s);
    const gg_manifest *dir = gg_source_manifest(s);
    return m ? m->n_files : dir ? dir->n_files : 1;
}

/* File i of a GGUF set: everything but its tensors and its name. */
static gg_status same_shard(gg_plan_file *f, gg_source *s, size_t i, gg_plan_kept *kept,
                            gg_error *err)
{
    const gg_model *m = gg_source_model(s);
    f->version = m->files[i]->version;
    f->n = m->files[i]->n_tensors;
    gg_status st = gg_meta_copy(&f->meta, &m->files[i]->meta, err);
    if (st == GG_OK) st = gg_source_pads(s, i, &kept->pads[i], &kept->n_pads[i], err);
    if (st != GG_OK) return st;
    f->pads = kept->pads[i];
    f->n_pads = kept->n_pads[i];
    f->trailing_bytes = gg_source_trailing(s, i);
    f->trailing_at = m->file_sizes[i] - f->trailing_bytes;
    if (f->trailing_bytes && !(f->trailing = strdup(m->paths[i]))) return no_memory(err);
    return GG_OK;
}

static gg_status same_file_of_dir(gg_plan_file *f, gg_source *s, size_t i, gg_error *err)
{
    const gg_manifest *m = gg_source_manifest(s);
    f->version = m->files[i].version;
    f->n = m->files[i].n_tensors;
    gg_status st = gg_meta_copy(&f->meta, i == 0 ? &m->meta : &m->files[i].meta, err);
    return st == GG_OK ? gg_plan_odd_bytes(f, &m->files[i], gg_source_name(s), err) : st;
}

static gg_status same_set(gg_plan *p, gg_source *s, const char *output, size_t prefix_len, size_t n,
                          gg_plan_kept *kept, gg_error *err)
{
    size_t first = 0;
    char *prefix = strndup(output, prefix_len);
    p->files = calloc(n, sizeof *p->files);
    kept->pads = calloc(n, sizeof *kept->pads);
    kept->n_pads = calloc(n, sizeof *kept->n_pads);
    gg_status st = prefix && p->files && kept->pads && kept->n_pads ? GG_OK : no_memory(err);
    kept->n_files = st == GG_OK ? n : 0;
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        gg_plan_file *f = &p->files[i];
        p->n_files++;
        st = gg_source_model(s) ? same_shard(f, s, i, kept, err) : same_file_of_dir(f, s, i, err);
        if (st == GG_OK && f->n > p->n - first)
            st = gg_fail(err, GG_EFORMAT,
                         "the layout of its shards has more tensors than the manifest lists");
        f->first = first;
        first += f->n;
        if (st == GG_OK && !(f->path = gg_shard_name(prefix, (uint32_t)i, (uint32_t)n)))
            st = no_memory(err);
    }
    if (st == GG_OK && first != p->n) {
        gg_fail(
            err, GG_EUSAGE,
            "tensors were added to or removed from its manifest, so its shards cannot be restored");
        st = gg_fix(err, "give the name of one file, or split it with organ-assemble");
    }
    free(prefix);
    return st;
}

gg_status gg_plan_same(gg_plan *p, gg_source *s, const char *output, gg_plan_kept *kept,
                       gg_error *err)
{
    size_t prefix_len, n = files_of(s);
    uint32_t no, named;
    const gg_manifest *m = gg_source_manifest(s);
    bool shard = gg_shard_parse(output, &prefix_len, &no, &named);
    gg_status st = add_tensors(p, s, err);
    if (st != GG_OK) return st;
    if (n == 1 || !shard)
        return gg_plan_changed_file(p, output, m ? m->version : gg_source_header(s)->version,
                                    gg_source_meta(s), s, err);
    if (named == n) return same_set(p, s, output, prefix_len, n, kept, err);
    gg_fail(err, GG_EUSAGE, "this is the name of one of %u shards, but the model has %zu", named,
            n);
    gg_fix(err, "use a name for %zu shards or for one file", n);
    return gg_at_file(err, output);
}

void gg_plan_kept_free(gg_plan_kept *kept)
{
    for (size_t i = 0; i < kept->n_files; i++) gg_pads_free(kept->pads[i], kept->n_pads[i]);
    free(kept->pads);
    free(kept->n_pads);
    *kept = (gg_plan_kept){ 0 };
}

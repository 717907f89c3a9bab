/* assemble_shards.c - plans one file, the original files of the source, or other shards. */
#include "assemble_shards.h"

#include "base/error.h"
#include "gguf/gguf.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"
#include "verbs/plan/plan_shards.h"

#include <stdlib.h>
#include <string.h>

static gg_status no_memory(gg_error *err)
{
    return gg_fail(err, GG_ENOMEM, "no memory for a plan of shards");
}

/* ---- the files that the tensors came from --------------------------------------- */

typedef struct origin {
    gg_source *source;
    const gg_manifest *m; /* NULL unless the source is a directory */
    const gg_meta *meta;  /* keys of the first file to write */
    uint32_t version;
    size_t n_files;
} origin;

static origin origin_of(gg_source *source, const gg_meta *meta)
{
    const gg_manifest *m = gg_source_manifest(source);
    return (origin){ source, m, meta, gg_plan_version(source),
                     m ? m->n_files : gg_source_files(source) };
}

static size_t tensors_of(const origin *o, size_t file)
{
    return o->m ? o->m->files[file].n_tensors : gg_source_file(o->source, file)->n_tensors;
}

static gg_status odd_bytes(const origin *o, size_t file, gg_plan_file *f, gg_error *err)
{
    if (o->m) return gg_plan_odd_bytes(f, &o->m->files[file], gg_source_name(o->source), err);
    return gg_source_model(o->source) ? gg_plan_source_bytes(f, o->source, file, err) : GG_OK;
}

/* Restores the source's own shards: the same tensors, keys and unusual bytes in each. */
static bool as_it_was(const gg_plan *p, const origin *o, uint64_t shards)
{
    size_t left = p->n; /* counted down, because a sum of hostile counts could wrap */
    for (size_t i = 0; i < o->n_files; i++) {
        if (tensors_of(o, i) > left) return false;
        left -= tensors_of(o, i);
    }
    return shards == o->n_files && left == 0;
}

static gg_status restore_files(gg_plan *p, const origin *o, gg_error *err)
{
    size_t first = 0;
    p->files = calloc(o->n_files, sizeof *p->files);
    if (!p->files) return no_memory(err);
    p->n_files = o->n_files;
    for (size_t i = 0; i < o->n_files; i++) {
        gg_plan_file *f = &p->files[i];
        const gg_meta *meta = i == 0 ? o->meta
                              : o->m ? &o->m->files[i].meta
                                     : &gg_source_file(o->source, i)->meta;
        f->version = o->m ? o->m->files[i].version : gg_source_file(o->source, i)->version;
        f->first = first;
        f->n = tensors_of(o, i);
        first += f->n;
        gg_status st = odd_bytes(o, i, f, err);
        if (st == GG_OK) st = gg_meta_copy(&f->meta, meta, err);
        if (st != GG_OK) return st;
    }
    return GG_OK;
}

/* ---- planning ------------------------------------------------------------------- */

static gg_status one_file(gg_plan *p, const origin *o, const char *output, gg_error *err)
{
    gg_status st = gg_plan_one_file(p, output, o->version, o->meta, err);
    if (st != GG_OK) return st;
    p->keep_odd = p->pipe && o->n_files == 1;
    if (o->n_files > 1) gg_meta_delete_split(&p->files->meta);
    return o->n_files == 1 ? odd_bytes(o, 0, p->files, err) : GG_OK;
}

/* A single shard becomes one file, even if its name is that of a shard. */
static bool is_that_shard(const origin *o, uint32_t no, uint32_t count)
{
    uint64_t was_no, was_count;
    return o->n_files == 1 && count > 1 && gg_kv_u64(gg_meta_find(o->meta, "split.no"), &was_no) &&
           gg_kv_u64(gg_meta_find(o->meta, "split.count"), &was_count) && was_no == no &&
           was_count == count;
}

gg_status gg_assemble_files(gg_plan *p, gg_source *source, const gg_meta *meta,
                            const gg_assemble_options *o, const char *output, gg_error *err)
{
    size_t prefix_len;
    uint32_t no, named = 0;
    gg_split split = { o->output.shards, o->output.shard_size };
    const origin from = origin_of(source, meta);
    if (!gg_is_split(&split) && gg_shard_parse(output, &prefix_len, &no, &named) &&
        !is_that_shard(&from, no, named))
        split.shards = named;
    if (!gg_is_split(&split)) return one_file(p, &from, output, err);
    bool restored = split.shards && !p->pipe && as_it_was(p, &from, split.shards);
    if (!restored || strcmp(output, "-") == 0)
        return gg_plan_shards(p, &split, output, from.version, meta, err);
    gg_status st = restore_files(p, &from, err);
    return st == GG_OK ? gg_plan_name_shards(p, output, err) : st;
}

/* assemble_shards.c - one file or a split set.
 *
 * A set as llama.cpp's loader wants it: the first shard has the model's metadata,
 * every one has split.no (u16), split.count (u16) and split.tensors.count (i32);
 * only the first can state an alignment, so the others are aligned to 32.
 */
#include "assemble_shards.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/grow.h"
#include "gguf/gguf.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"
#include "verbs/shared/verb_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gg_status set_number(gg_meta *meta, const char *key, uint32_t type, uint32_t value,
                            gg_error *err)
{
    uint8_t le[4];
    gg_put_le32(le, value);
    gg_kv kv = { key, strlen(key), type, 0, 1, le, gg_type_size(type) };
    return gg_meta_set(meta, &kv, err);
}

static gg_status set_split_keys(gg_meta *meta, uint32_t no, uint32_t count, size_t tensors,
                                gg_error *err)
{
    gg_status st = set_number(meta, "split.no", GG_TYPE_U16, no, err);
    if (st == GG_OK)
        st = set_number(meta, "split.tensors.count", GG_TYPE_I32, (uint32_t)tensors, err);
    return st == GG_OK ? set_number(meta, "split.count", GG_TYPE_U16, count, err) : st;
}

static gg_status no_memory(gg_error *err)
{
    return gg_fail(err, GG_ENOMEM, "no memory for a plan of shards");
}

/* PREFIX of the shard names. */
static char *prefix_of(const char *output)
{
    size_t n = strlen(output), prefix_len;
    uint32_t no, count;
    if (gg_shard_parse(output, &prefix_len, &no, &count)) return strndup(output, prefix_len);
    if (n > 5 && strcmp(output + n - 5, ".gguf") == 0) n -= 5;
    return strndup(output, n);
}

static gg_status name_files(gg_plan *p, const char *output, gg_error *err)
{
    char *prefix = prefix_of(output);
    if (!prefix) return no_memory(err);
    for (size_t i = 0; i < p->n_files; i++)
        if (!(p->files[i].path = gg_shard_name(prefix, (uint32_t)i, (uint32_t)p->n_files))) break;
    free(prefix);
    return p->n_files && p->files[p->n_files - 1].path ? GG_OK : no_memory(err);
}

/* ---- the files that the tensors came from --------------------------------------- */

typedef struct origin {
    gg_source *source;
    const gg_manifest *m; /* NULL unless it is a directory */
    const gg_meta *meta;
    uint32_t version;
    size_t n_files;
} origin;

static origin origin_of(gg_source *source)
{
    const gg_manifest *m = gg_source_manifest(source);
    return (origin){ source, m, gg_source_meta(source), gg_plan_version(source),
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

/* The source's own shards: same tensors in each, same keys, same odd bytes. */
static bool as_it_was(const gg_plan *p, const origin *o, uint64_t shards)
{
    size_t left = p->n; /* counted down: a sum of hostile counts would wrap */
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

/* ---- other files ----------------------------------------------------------------- */

/* Cut the list where the next shard is due. With `shards` the cuts lie as near to
 * equal bytes as whole tensors allow, and every shard has at least one tensor. */
static size_t cut(const gg_plan *p, const gg_assemble_options *o, size_t first, size_t shard,
                  uint64_t *done, uint64_t total)
{
    uint64_t bytes = 0;
    size_t i = first;
    size_t keep = o->shards ? o->shards - shard - 1 : 0; /* tensors the later shards need */
    while (i < p->n - keep) {
        uint64_t b = gg_align_up(p->tensors[i].t.bytes, GG_DEFAULT_ALIGNMENT);
        if (i > first && !o->shards && bytes + b > o->shard_size) break;
        uint64_t goal = o->shards ? total / o->shards * (shard + 1) : 0;
        if (i > first && o->shards && shard + 1 < o->shards && *done + bytes + b / 2 > goal) break;
        bytes += b;
        i++;
    }
    *done += bytes;
    return i - first;
}

static gg_status cut_files(gg_plan *p, const origin *from, const gg_assemble_options *o,
                           gg_error *err)
{
    uint64_t total = 0, done = 0;
    size_t first = 0, cap = 0;
    for (size_t i = 0; i < p->n; i++)
        total += gg_align_up(p->tensors[i].t.bytes, GG_DEFAULT_ALIGNMENT);
    while (first < p->n || p->n_files == 0) { /* a model without tensors is one shard */
        gg_plan_file *grown = gg_grow(p->files, p->n_files, &cap, sizeof *grown, err);
        if (!grown) return GG_ENOMEM;
        p->files = grown;
        gg_plan_file *f = &p->files[p->n_files];
        *f = (gg_plan_file){ .version = from->version, .first = first };
        f->n = cut(p, o, first, p->n_files, &done, total);
        first += f->n;
        p->n_files++;
    }
    if (p->n_files > 65535) {
        gg_fail(err, GG_EUSAGE, "%zu shards are too many: 65535 is the most", p->n_files);
        return o->shards ? gg_fix(err, "ask for fewer")
                         : gg_fix_hint(err, GG_HINT_SHARD_SIZE, "use larger shards");
    }
    gg_status st = GG_OK;
    for (size_t i = 0; i < p->n_files && st == GG_OK; i++) {
        if (i == 0) st = gg_meta_copy(&p->files[0].meta, from->meta, err);
        if (st == GG_OK)
            st = set_split_keys(&p->files[i].meta, (uint32_t)i, (uint32_t)p->n_files, p->n, err);
    }
    return st;
}

static gg_status one_file(gg_plan *p, const origin *o, const char *output, gg_error *err)
{
    gg_status st = gg_plan_one_file(p, output, o->version, o->meta, err);
    if (st != GG_OK) return st;
    p->keep_odd = p->pipe && o->n_files == 1;
    if (o->n_files > 1) gg_meta_delete_split(&p->files->meta);
    return o->n_files == 1 ? odd_bytes(o, 0, p->files, err) : GG_OK;
}

/* A shard that came alone is one file: its own name asks for no set. */
static bool is_that_shard(const origin *o, uint32_t no, uint32_t count)
{
    uint64_t was_no, was_count;
    return o->n_files == 1 && count > 1 && gg_kv_u64(gg_meta_find(o->meta, "split.no"), &was_no) &&
           gg_kv_u64(gg_meta_find(o->meta, "split.count"), &was_count) && was_no == no &&
           was_count == count;
}

static gg_status check_count(const gg_plan *p, const gg_assemble_options *o, const char *output,
                             gg_error *err)
{
    if (strcmp(output, "-") == 0) {
        gg_fail(err, GG_EUSAGE, "stdout takes one file, not shards");
        return gg_fix(err, "write one file, or give a name for the shards");
    }
    if (o->shards <= p->n) return GG_OK;
    gg_fail(err, GG_EUSAGE, "%u shards are more than the model has tensors: %zu", o->shards, p->n);
    return gg_fix(err, "ask for as many at most: each shard needs one");
}

void gg_note_large_shard(const gg_plan *p, uint64_t shard_size, const gg_run *run)
{
    const gg_tensor *most = NULL;
    for (size_t i = 0; i < p->n; i++)
        if (!most || p->tensors[i].t.bytes > most->bytes) most = &p->tensors[i].t;
    if (!shard_size || !most || most->bytes <= shard_size) return;
    gg_note(
        run,
        "a shard is larger than %llu bytes: tensor '%.*s' alone has %llu, and a tensor is never "
        "split",
        (unsigned long long)shard_size, (int)most->name_len, most->name,
        (unsigned long long)most->bytes);
}

gg_status gg_assemble_files(gg_plan *p, gg_source *source, const gg_assemble_options *o,
                            const char *output, gg_error *err)
{
    size_t prefix_len;
    uint32_t no, named = 0;
    gg_assemble_options opt = *o;
    const origin from = origin_of(source);
    if (!opt.shards && !opt.shard_size && gg_shard_parse(output, &prefix_len, &no, &named) &&
        !is_that_shard(&from, no, named))
        opt.shards = named;
    if (!opt.shards && !opt.shard_size) return one_file(p, &from, output, err);
    bool restored = opt.shards && !p->pipe && as_it_was(p, &from, opt.shards);
    gg_status st = restored && strcmp(output, "-") != 0 ? restore_files(p, &from, err)
                                                        : check_count(p, &opt, output, err);
    if (st == GG_OK && !restored) st = cut_files(p, &from, &opt, err);
    return st == GG_OK ? name_files(p, output, err) : st;
}

/* plan.c - builds the lists of a plan. */
#include "plan.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/grow.h"
#include "gguf/gguf.h"
#include "hf/safetensors.h"
#include "keys.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"
#include "quant/quant.h"
#include "verb_run.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

gg_status gg_plan_add(gg_plan *p, const gg_tensor *t, gg_plan_tensor **out, gg_error *err)
{
    if (t->name_len > GG_MAX_NAME && !p->hf_order && !p->stored && !p->records) {
        gg_fail(err, GG_EFORMAT, "its name has %zu bytes, but a model allows at most %d",
                t->name_len, GG_MAX_NAME);
        return gg_at_tensor(err, t->name, t->name_len);
    }
    if (GG_ROOM(p->tensors, p->n, &p->cap, err) != GG_OK) return GG_ENOMEM;
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
    if (GG_ROOM(t->parts, t->n_parts, NULL, err) != GG_OK) return GG_ENOMEM;
    t->parts[t->n_parts++] = *part;
    return GG_OK;
}

gg_status gg_plan_add_made(gg_plan *p, const gg_tensor *t, gg_plan_make make, void *ctx,
                           gg_error *err)
{
    gg_tensor full = *t;
    gg_plan_tensor *pt;
    gg_status st = gg_tensor_extent(t->dtype, t->n_dims, t->dims, &full.elements, &full.bytes, err);
    if (st != GG_OK) return gg_at_tensor(err, t->name, t->name_len);
    st = gg_plan_add(p, &full, &pt, err);
    if (st != GG_OK) return st;
    pt->make = make;
    pt->ctx = ctx;
    return GG_OK;
}

void gg_plan_compute(gg_plan_tensor *t, gg_plan_make make, void *ctx)
{
    free(t->parts);
    t->parts = NULL;
    t->n_parts = 0;
    t->make = make;
    t->ctx = ctx;
}

gg_tensor *gg_plan_list(const gg_plan *p, size_t first, size_t n, gg_error *err)
{
    gg_tensor *list = malloc((n + 1) * sizeof *list);
    if (!list) gg_fail(err, GG_ENOMEM, "no memory for a list of %zu tensors", n);
    for (size_t i = 0; list && i < n; i++) list[i] = p->tensors[first + i].t;
    return list;
}

gg_status gg_plan_type_keys(const gg_plan *p, gg_meta *meta, gg_error *err)
{
    gg_tensor *list = gg_plan_list(p, 0, p->n, err);
    gg_status st = list ? gg_type_keys_update(meta, list, p->n, err) : GG_ENOMEM;
    free(list);
    return st;
}

gg_plan_part gg_plan_whole(gg_source *source, size_t i)
{
    const gg_manifest *m = gg_source_manifest(source);
    return (gg_plan_part){ source, i, 0, gg_source_tensor(source, i)->bytes,
                           m ? m->entries[i].sha256 : NULL };
}

gg_status gg_plan_add_copy(gg_plan *p, gg_source *source, size_t i, gg_error *err)
{
    gg_plan_tensor *pt;
    gg_status st = gg_plan_add(p, gg_source_tensor(source, i), &pt, err);
    gg_plan_part part = gg_plan_whole(source, i);
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

gg_status gg_refuse_stored_names(const gg_source *s, gg_error *err)
{
    const gg_error *why = gg_source_refusal(s);
    if (why) *err = *why;
    return why ? err->status : GG_OK;
}

gg_status gg_require_model(const gg_source *s, gg_error *err)
{
    if (gg_source_meta(s)) return gg_refuse_split_experts(s, err);
    if (gg_refuse_stored_names(s, err) != GG_OK) return err->status;
    return gg_fail_in(err, GG_EUSAGE, s, NULL,
                      "it consists of organ records, but must be a model or an organ directory");
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

/* Restores the padding and trailing bytes that the layout of an organ directory has kept. */
static gg_status odd_bytes_of_dir(gg_plan_file *f, const gg_file_layout *layout, const char *dir,
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

/* The same for GGUF file `file` of a seekable model. */
static gg_status odd_bytes_of_model(gg_plan_file *f, gg_source *source, size_t file, gg_error *err)
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

/* Restores the unusual padding and trailing bytes of file `file` of the source, which must outlive
 * the plan. Does nothing for a pipe. */
static gg_status odd_bytes(gg_plan_file *f, gg_source *s, size_t file, gg_error *err)
{
    const gg_manifest *m = gg_source_manifest(s);
    if (m) return odd_bytes_of_dir(f, &m->files[file], gg_source_name(s), err);
    return gg_source_model(s) ? odd_bytes_of_model(f, s, file, err) : GG_OK;
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
    return odd_bytes(f, base, 0, err);
}

gg_status gg_plan_watch(gg_plan *p, gg_error *err)
{
    gg_status st = gg_watch_add(&p->watch, p->base, err);
    if (st == GG_OK) st = gg_watch_add(&p->watch, p->pipe, err);
    for (size_t i = 0; i < p->n && st == GG_OK; i++)
        for (size_t k = 0; k < p->tensors[i].n_parts && st == GG_OK; k++)
            st = gg_watch_add(&p->watch, p->tensors[i].parts[k].source, err);
    return st;
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

/* Divides a plan into several files.
 *
 * They form a set that llama.cpp's loader accepts. The first shard has the model's metadata. Every
 * shard has split.no (u16), split.count (u16) and split.tensors.count (i32). Only the first can
 * state an alignment, so the others are aligned to 32.
 */

static gg_status set_split_keys(gg_meta *meta, uint32_t no, uint32_t count, size_t tensors,
                                gg_error *err)
{
    char texts[3][64];
    gg_status st = GG_OK;
    snprintf(texts[0], sizeof texts[0], "split.no=u16:%u", no);
    snprintf(texts[1], sizeof texts[1], "split.tensors.count=i32:%d", (int)tensors);
    snprintf(texts[2], sizeof texts[2], "split.count=u16:%u", count);
    for (int i = 0; i < 3 && st == GG_OK; i++) st = gg_meta_set_text(meta, texts[i], err);
    return st;
}

static gg_status no_memory_for_shards(gg_error *err)
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
    else if (gg_is_safetensors_name(output)) n -= strlen(".safetensors");
    return strndup(output, n);
}

/* PREFIX-00001-of-00002.gguf, or the same with .safetensors as in `output`. */
static char *shard_path(const char *prefix, const char *output, uint32_t no, uint32_t count)
{
    size_t size = strlen(prefix) + 64;
    char *path = gg_is_safetensors_name(output) ? malloc(size) : NULL;
    if (!gg_is_safetensors_name(output)) return gg_shard_name(prefix, no, count);
    if (path) snprintf(path, size, "%s-%05u-of-%05u.safetensors", prefix, no + 1, count);
    return path;
}

/* Gives the existing p->files the names of shards. */
static gg_status name_shards(gg_plan *p, const char *output, gg_error *err)
{
    char *prefix = prefix_of(output);
    if (!prefix) return no_memory_for_shards(err);
    for (size_t i = 0; i < p->n_files; i++) {
        free(p->files[i].path);
        p->files[i].path = shard_path(prefix, output, (uint32_t)i, (uint32_t)p->n_files);
        if (!p->files[i].path) break;
    }
    free(prefix);
    return p->n_files && p->files[p->n_files - 1].path ? GG_OK : no_memory_for_shards(err);
}

/* Cut the list where the next shard is due. With `shards` the cuts lie as near to
 * equal bytes as whole tensors allow, and every shard has at least one tensor. */
static size_t tensors_of_shard(const gg_plan *p, const gg_split *o, size_t first, size_t shard,
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

static gg_status cut_files(gg_plan *p, const gg_split *o, uint32_t version, const gg_meta *meta,
                           gg_error *err)
{
    uint64_t total = 0, done = 0;
    size_t first = 0, cap = 0;
    for (size_t i = 0; i < p->n; i++)
        total += gg_align_up(p->tensors[i].t.bytes, GG_DEFAULT_ALIGNMENT);
    while (first < p->n || p->n_files == 0) { /* a model without tensors is one shard */
        if (GG_ROOM(p->files, p->n_files, &cap, err) != GG_OK) return GG_ENOMEM;
        gg_plan_file *f = &p->files[p->n_files];
        *f = (gg_plan_file){ .version = version, .first = first };
        f->n = tensors_of_shard(p, o, first, p->n_files, &done, total);
        first += f->n;
        p->n_files++;
    }
    if (p->n_files > 65535) {
        gg_fail(err, GG_EUSAGE, "%zu shards are too many: a model can have at most 65535",
                p->n_files);
        return o->shards ? gg_fix(err, "use fewer shards")
                         : gg_fix_hint(err, GG_HINT_SHARD_SIZE, "use larger shards");
    }
    gg_status st = GG_OK;
    for (size_t i = 0; i < p->n_files && st == GG_OK; i++) {
        if (i == 0) st = gg_meta_copy(&p->files[0].meta, meta, err);
        if (st == GG_OK)
            st = set_split_keys(&p->files[i].meta, (uint32_t)i, (uint32_t)p->n_files, p->n, err);
    }
    return st;
}

static gg_status check_count(const gg_plan *p, const gg_split *o, const char *output, gg_error *err)
{
    if (strcmp(output, "-") == 0) {
        gg_fail(err, GG_EUSAGE, "shards cannot be written to stdout");
        return gg_fix(err, "write one file, or give a file name for the shards");
    }
    if (o->shards <= p->n) return GG_OK;
    gg_fail(err, GG_EUSAGE, "the model cannot have %u shards, because it has only %zu tensors",
            o->shards, p->n);
    return gg_fix(err, "use at most that many shards; each needs a tensor");
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

gg_status gg_plan_shards(gg_plan *p, const gg_split *split, const char *output, uint32_t version,
                         const gg_meta *meta, gg_error *err)
{
    gg_status st = check_count(p, split, output, err);
    if (st == GG_OK) st = cut_files(p, split, version, meta, err);
    return st == GG_OK ? name_shards(p, output, err) : st;
}

gg_status gg_plan_output(gg_plan *p, const gg_split *split, const char *output, gg_meta *meta,
                         gg_source *base, const gg_run *run, gg_error *err)
{
    uint32_t version = gg_plan_version(base);
    bool alone = split->shards == 1 &&
                 strcmp(output, "-") != 0; /* a set of one shard has no split keys */
    if (!gg_is_split(split) || alone) {
        gg_status st = gg_plan_changed_file(p, output, version, meta, base, err);
        return st == GG_OK && alone ? name_shards(p, output, err) : st;
    }
    p->base = base;
    gg_meta_delete_split(meta);
    gg_note_large_shard(p, split->shard_size, run);
    return gg_plan_shards(p, split, output, version, meta, err);
}

/* ---- the files of the source again ---------------------------------------------- */

static size_t tensors_in_file(const gg_source *s, size_t file)
{
    const gg_manifest *m = gg_source_manifest(s);
    return m ? m->files[file].n_tensors : gg_source_file(s, file)->n_tensors;
}

size_t gg_plan_file_count(const gg_source *s)
{
    const gg_manifest *m = gg_source_manifest(s);
    return m ? m->n_files : gg_source_files(s);
}

int gg_plan_compare_files(const gg_plan *p, const gg_source *s)
{
    size_t left = p->n; /* counted down, because a sum of hostile counts could wrap */
    for (size_t i = 0; i < gg_plan_file_count(s); i++) {
        if (tensors_in_file(s, i) > left) return -1;
        left -= tensors_in_file(s, i);
    }
    return left > 0;
}

gg_status gg_plan_restore_files(gg_plan *p, gg_source *s, const gg_meta *meta, const char *output,
                                gg_error *err)
{
    const gg_manifest *m = gg_source_manifest(s);
    size_t first = 0, n = gg_plan_file_count(s);
    gg_status st = GG_OK;
    p->files = calloc(n, sizeof *p->files);
    if (!p->files) return no_memory_for_shards(err);
    p->n_files = n;
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        gg_plan_file *f = &p->files[i];
        const gg_meta *own = m ? &m->files[i].meta : &gg_source_file(s, i)->meta;
        f->version = m ? m->files[i].version : gg_source_file(s, i)->version;
        f->first = first;
        f->n = tensors_in_file(s, i);
        first += f->n;
        st = odd_bytes(f, s, i, err);
        if (st == GG_OK) st = gg_meta_copy(&f->meta, i == 0 ? meta : own, err);
    }
    return st == GG_OK ? name_shards(p, output, err) : st;
}

gg_status gg_plan_same(gg_plan *p, gg_source *s, const char *output, gg_error *err)
{
    size_t prefix_len, n = gg_plan_file_count(s);
    uint32_t no, named;
    bool shard = gg_shard_parse(output, &prefix_len, &no, &named);
    gg_status st = GG_OK;
    for (size_t i = 0; i < gg_source_count(s) && st == GG_OK; i++)
        st = gg_plan_add_copy(p, s, i, err);
    if (st != GG_OK) return st;
    if (n <= 1 || !shard)
        return gg_plan_changed_file(p, output, gg_plan_version(s), gg_source_meta(s), s, err);
    if (named != n) {
        gg_fail(err, GG_EUSAGE, "this is the name of one of %u shards, but the model has %zu",
                named, n);
        gg_fix(err, "use a name for %zu shards or for one file", n);
        return gg_at_file(err, output);
    }
    int differ = gg_plan_compare_files(p, s);
    if (differ < 0)
        return gg_fail(err, GG_EFORMAT,
                       "the layout of its shards has more tensors than the manifest lists");
    if (differ == 0) return gg_plan_restore_files(p, s, gg_source_meta(s), output, err);
    gg_fail(err, GG_EUSAGE,
            "tensors were added to or removed from its manifest, so its shards cannot be restored");
    return gg_fix(err, "give the name of one file, or split it with organ-assemble");
}

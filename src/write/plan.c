/* plan.c - builds the lists of a plan, and writes its files. */
#include "plan.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/io.h"
#include "base/output.h"
#include "base/text.h"
#include "copy.h"
#include "gguf/gguf.h"
#include "hf/safetensors.h"
#include "keys.h"
#include "organ/manifest.h"
#include "organ/output_guard.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "quant/quant.h"
#include "verb_run.h"

#include <assert.h>
#include <errno.h>
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
    pt->t.a = gg_anatomy_of(t->name, t->name_len); /* it may have been renamed */
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
    gg_fix(err, "assemble it first, or graft into a directory and assemble that");
    return gg_at_file(err, gg_source_name(s));
}

/* Fails for safetensors that cannot be converted, with the reason: GGUF is not made of them. */
static gg_status refuse_stored_names(const gg_source *s, gg_error *err)
{
    const gg_error *why = gg_source_refusal(s);
    if (why) *err = *why;
    return why ? err->status : GG_OK;
}

gg_status gg_require_model(const gg_source *s, gg_error *err)
{
    if (gg_source_meta(s)) return gg_refuse_split_experts(s, err);
    if (refuse_stored_names(s, err) != GG_OK) return err->status;
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
    f->trailing = gg_path_in(dir, layout->trailing, err);
    if (!f->trailing) return err->status;
    f->trailing_bytes = layout->trailing_bytes;
    f->trailing_sha256 = layout->trailing_sha256;
    int fd = open(f->trailing, O_RDONLY | O_CLOEXEC); /* if it is missing, copying fails */
    if (fd < 0) return GG_OK;
    gg_stamp_fd(fd, &f->trailing_stamp, err);
    close(fd);
    return gg_at_file(err, f->trailing);
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
    if ((m ? m->n_files : dir->n_files) > 1) {
        gg_meta_delete_split(&f->meta);
        return GG_OK;
    }
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
        if (f->own_pads) gg_pads_free(f->own_pads, f->n_pads);
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
    if (!gg_is_safetensors_name(output)) return gg_shard_name(prefix, no, count);
    size_t size = strlen(prefix) + 64;
    char *path = malloc(size);
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
                         : gg_fix_by(err, "shard_size", "use larger shards");
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

/* ---- writing a plan: into files with all tensors in parallel, or in sequence ------- */

/* A file while it is written. */
typedef struct out_file {
    gg_output *out; /* NULL = stdout */
    int fd;
    uint64_t at;      /* where the next bytes go; GG_AT_POS if they follow those before */
    uint64_t written; /* bytes so far */
    gg_header header;
    uint64_t data_start, data_bytes;
    uint64_t size; /* of the file with the trailing bytes */
    uint64_t alignment;
    const gg_pad **pads; /* of the layout, sorted by the name they follow; owned */
} out_file;

/* Finds the pad that follows `after` (NULL = the header, which is first). */
static int order_name(const char *after, size_t len, const gg_pad *pad)
{
    if (!after || !pad->after) return (after != NULL) - (pad->after != NULL);
    return after ? gg_text_order(after, len, pad->after, pad->after_len) : 0;
}

static int order_pad(const void *a, const void *b)
{
    const gg_pad *x = *(const gg_pad *const *)a, *y = *(const gg_pad *const *)b;
    int c = order_name(x->after, x->after_len, y);
    return c ? c : x < y ? -1 : x > y;
}

/* A layout may have as many pads as the model has tensors, so they are sorted. */
static gg_status sort_pads(const gg_plan_file *f, out_file *fp, gg_error *err)
{
    fp->pads = calloc(f->n_pads ? f->n_pads : 1, sizeof *fp->pads);
    if (!fp->pads) return gg_fail(err, GG_ENOMEM, "no memory for padding");
    for (size_t i = 0; i < f->n_pads; i++) fp->pads[i] = &f->pads[i];
    qsort(fp->pads, f->n_pads, sizeof *fp->pads, order_pad);
    return GG_OK;
}

/* Whether `pad` can replace `want` zeros. Only the padding after the last tensor (`last`) may be
 * shorter. */
static bool pad_fits(const gg_pad *pad, uint64_t want, bool last)
{
    return pad->n == want || (last && pad->n < want);
}

/* The unusual padding after `after` (NULL = the header) if it fits, else NULL. */
static const gg_pad *find_pad(const gg_plan_file *f, const out_file *fp, const gg_tensor *after,
                              uint64_t want, bool last)
{
    size_t lo = 0, hi = f->n_pads;
    const char *name = after ? after->name : NULL;
    size_t len = after ? after->name_len : 0;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (order_name(name, len, fp->pads[mid]) > 0) lo = mid + 1;
        else hi = mid;
    }
    const gg_pad *pad = lo < f->n_pads ? fp->pads[lo] : NULL;
    if (!pad || order_name(name, len, pad) != 0) return NULL;
    return pad_fits(pad, want, last) ? pad : NULL;
}

/* Number of padding bytes after tensor `t`. */
static uint64_t padding_after(const gg_tensor *t, uint64_t alignment)
{
    uint64_t end = t->offset + t->bytes;
    return gg_align_up(end, alignment) - end;
}

static void free_layout(out_file *fp)
{
    gg_header_free(&fp->header);
    free(fp->pads);
    *fp = (out_file){ 0 };
}

/* A safetensors file has no padding and no unusual bytes. */
static void drop_odd_bytes(gg_plan_file *pf)
{
    if (pf->own_pads) gg_pads_free(pf->own_pads, pf->n_pads);
    pf->own_pads = NULL;
    pf->n_pads = 0;
    pf->trailing_bytes = 0;
}

static gg_status make_header(const gg_plan *p, const gg_plan_file *pf, const gg_tensor *list,
                             gg_header *out, gg_error *err)
{
    gg_buf text = GG_BUF_INIT;
    bool stored = p->stored || (p->base && gg_source_refusal(p->base));
    gg_st_form form = { p->hf_order, stored };
    if (!gg_is_safetensors_name(pf->path))
        return gg_header_plan(pf->version, &pf->meta, list, pf->n, out, err);
    gg_status st = gg_st_header(&pf->meta, list, pf->n, &form, &text, err);
    out->bytes = (uint8_t *)gg_buf_take(&text, &out->n);
    out->size = out->n;
    return st;
}

/* Compute the layout of file f: the header, and the offset of each of its tensors (stored in
 * p->tensors). GG_EFORMAT if the keys state an invalid alignment. Free *out with
 * free_layout even on error. */
static gg_status lay_out_file(gg_plan *p, size_t f, out_file *fp, gg_error *err)
{
    gg_plan_file *pf = &p->files[f];
    gg_status st = GG_OK;
    *fp = (out_file){ .alignment = 1 };
    if (gg_is_safetensors_name(pf->path)) drop_odd_bytes(pf);
    else st = gg_meta_alignment(&pf->meta, &fp->alignment, err);
    gg_fix(err, "make it a u32 that is a power of two, such as 32, or delete it");
    if (st == GG_OK) st = sort_pads(pf, fp, err);
    gg_tensor *list = st == GG_OK ? gg_plan_list(p, pf->first, pf->n, err) : NULL;
    if (!list) return err->status;
    st = gg_plan_offsets(list, pf->n, fp->alignment, &fp->data_bytes, err);
    if (st == GG_OK) st = make_header(p, pf, list, &fp->header, err);
    for (size_t i = 0; i < pf->n; i++) p->tensors[pf->first + i].t.offset = list[i].offset;
    fp->data_start = pf->n ? gg_align_up(fp->header.size, fp->alignment) : fp->header.size;
    fp->size = fp->data_start + fp->data_bytes + pf->trailing_bytes;
    if (pf->n && st == GG_OK) {
        uint64_t want = padding_after(&list[pf->n - 1], fp->alignment);
        const gg_pad *pad = find_pad(pf, fp, &list[pf->n - 1], want, true);
        if (pad) fp->size -= want - pad->n;
    }
    free(list);
    return st;
}

gg_status gg_plan_size(gg_plan *p, uint64_t *bytes, gg_error *err)
{
    gg_status st = GG_OK;
    *bytes = 0;
    for (size_t f = 0; f < p->n_files && st == GG_OK; f++) {
        out_file fp;
        st = lay_out_file(p, f, &fp, err);
        *bytes += fp.size;
        free_layout(&fp);
    }
    return st;
}

/* Copies one part of tensor t. With p->verify its sha256 is checked. Errors of the output have no
 * file name. */
static gg_status copy_plan_part(const gg_plan *p, const gg_tensor *t, const gg_plan_part *part,
                                gg_place out, const gg_run *run, gg_error *err)
{
    return p->verify ? gg_copy_verified(part, t, out, run, err)
                     : gg_copy_part(part, out, NULL, run, err);
}

/* Writes padding: the bytes of `pad`, or `want` zeros if it is NULL. */
static gg_status write_pad_bytes(int fd, uint64_t at, uint64_t want, const gg_pad *pad,
                                 gg_error *err)
{
    static uint8_t zeros[4096]; /* if it were const, each program would contain it */
    if (pad) return gg_put_all(fd, pad->bytes, pad->n, at, err);
    gg_status st = GG_OK;
    for (uint64_t done = 0; done < want && st == GG_OK; done += sizeof zeros)
        st = gg_put_all(fd, zeros,
                        want - done < sizeof zeros ? (size_t)(want - done) : sizeof zeros,
                        gg_offset_after(at, done), err);
    return st;
}

/* Copies the bytes that follow the tensors of a file. With p->verify their sha256 is checked. */
static gg_status copy_trailing_file(const gg_plan *p, const gg_plan_file *pf, int fd, uint64_t at,
                                    gg_error *err)
{
    int in = open(pf->trailing, O_RDONLY | O_CLOEXEC);
    if (in < 0) {
        gg_fail_errno(err, "cannot open the file of the bytes after the tensors");
        return gg_at_file(err, pf->trailing);
    }
    const gg_place from = { in, pf->trailing_at }, to = { fd, at };
    char sha[65];
    gg_status st = GG_OK;
    if (p->verify && pf->trailing_sha256 && pf->trailing_sha256[0]) {
        st = gg_file_sha256(in, from.at, pf->trailing_bytes, sha, NULL, err);
        if (st == GG_OK && strcmp(sha, pf->trailing_sha256) != 0)
            st = gg_fail(err, GG_EFORMAT, "the file does not match the sha256 in the manifest");
        if (st != GG_OK) gg_at_file(err, pf->trailing);
    }
    if (st == GG_OK) st = gg_copy(pf->trailing, from, to, pf->trailing_bytes, err);
    if (st == GG_OK) st = gg_check_stamp(&pf->trailing_stamp, in, pf->trailing, err);
    close(in);
    return st;
}

/* ---- files ------------------------------------------------------------------------ */

typedef struct writer {
    gg_plan *p;
    const gg_run *run;
    out_file *files;
    uint32_t *file_of; /* per tensor */
    /* Everything is written in order, so that the output and a source may be pipes, and threads
     * work on one tensor at a time (see gg_plan_make). Otherwise the tensors come last, all in
     * parallel. */
    bool in_order;
    size_t next; /* next tensor of the pipe */
} writer;

static bool to_stdout(const gg_plan_file *f)
{
    return strcmp(f->path, "-") == 0;
}

/* The next n bytes of the file are written, or will be. */
static void advance(out_file *of, uint64_t n)
{
    of->at = gg_offset_after(of->at, n);
    of->written += n;
}

/* Writes the padding after a tensor (NULL = the header). That of a pipe is used if it still fits
 * there, that is, after the same tensor and with as many bytes; reading it goes on to the pipe's
 * next tensor. */
static gg_status write_padding(writer *w, size_t f, const gg_tensor *after, uint64_t want,
                               bool last, gg_error *err)
{
    out_file *of = &w->files[f];
    bool odd = w->p->pipe && w->p->keep_odd, more;
    gg_pad *pads = NULL;
    size_t n = 0;
    const gg_pad *pad = odd ? NULL : find_pad(&w->p->files[f], of, after, want, last);
    gg_status st = odd ? gg_source_next(w->p->pipe, w->next++, &more, err) : GG_OK;
    if (st == GG_OK && odd) st = gg_source_pads(w->p->pipe, 0, &pads, &n, err);
    for (size_t i = 0; i < n; i++)
        if (order_name(after ? after->name : NULL, after ? after->name_len : 0, &pads[i]) == 0 &&
            pad_fits(&pads[i], want, last))
            pad = &pads[i];
    if (st == GG_OK) st = write_pad_bytes(of->fd, of->at, want, pad, err);
    advance(of, pad ? pad->n : want);
    if (pads) gg_pads_free(pads, n);
    return st;
}

/* Writes a computed tensor. */
static gg_status make_tensor(const writer *w, gg_plan_tensor *pt, gg_place to, gg_error *err)
{
    if (!pt->make) return GG_OK;
    const gg_target target = { &pt->t, to.fd, to.at, w->run, NULL, &pt->zeros };
    gg_status st = pt->make(pt->ctx, &target, err);
    return st == GG_OK ? st : gg_at_tensor(err, pt->t.name, pt->t.name_len);
}

static gg_status write_trailing(writer *w, size_t f, gg_error *err)
{
    const gg_plan_file *pf = &w->p->files[f];
    out_file *of = &w->files[f];
    uint64_t n = pf->trailing_bytes;
    gg_status st = GG_OK;
    if (w->p->pipe && w->p->keep_odd) st = gg_source_copy_trailing(w->p->pipe, 0, of->fd, &n, err);
    else if (n) st = copy_trailing_file(w->p, pf, of->fd, of->at, err);
    advance(of, n);
    return st;
}

/* Writes a file, without the data of tensors unless everything is written in order. */
static gg_status write_file(writer *w, size_t f, gg_error *err)
{
    out_file *of = &w->files[f];
    const gg_plan_file *pf = &w->p->files[f];
    gg_status st = gg_header_put(&of->header, of->fd, of->at, err);
    advance(of, of->header.size);
    if (st == GG_OK)
        st = write_padding(w, f, NULL, of->data_start - of->header.size, pf->n == 0, err);
    for (size_t i = 0; i < pf->n && st == GG_OK; i++) {
        gg_plan_tensor *pt = &w->p->tensors[pf->first + i];
        const gg_place to = { of->fd, GG_AT_POS };
        if (w->in_order) st = make_tensor(w, pt, to, err);
        for (size_t k = 0; k < pt->n_parts && w->in_order && st == GG_OK; k++)
            st = copy_plan_part(w->p, &pt->t, &pt->parts[k], to, w->run, err);
        advance(of, pt->t.bytes);
        if (st == GG_OK)
            st = write_padding(w, f, &pt->t, padding_after(&pt->t, of->alignment), i + 1 == pf->n,
                               err);
    }
    return st == GG_OK ? write_trailing(w, f, err) : st;
}

/* Errors of an output get its name; those of reading have a file already. */
static void at_output(const gg_plan_file *pf, gg_error *err)
{
    if (err->status != GG_EIO || err->file[0]) return;
    if (to_stdout(pf) && err->sys_errno == EPIPE)
        gg_fix(err, "the program that reads stdout ended early");
    gg_at_file(err, to_stdout(pf) ? "stdout" : pf->path);
}

/* ---- tensors in parallel ------------------------------------------------------------- */

/* See gg_lane_work. Parts with a hash are copied in lanes, and others inside the kernel. */
static gg_status next_part(void *ctx, gg_lane *l, const char *sha, bool *more, gg_error *err)
{
    writer *w = ctx;
    size_t i = l->item;
    gg_plan_tensor *pt = &w->p->tensors[i];
    const out_file *of = &w->files[w->file_of[i]];
    uint64_t at = of->data_start + pt->t.offset;
    assert(pt->t.offset + pt->t.bytes <= of->data_bytes);
    *more = false;
    gg_status st;
    if (sha) {
        st = gg_check_part(&l->part, &pt->t, sha, err);
        l->out.at += l->part.bytes;
    } else {
        l->out = (gg_place){ of->fd, at };
        st = make_tensor(w, pt, l->out, err);
    }
    for (; l->k < pt->n_parts && st == GG_OK && !*more; l->k++) {
        l->part = pt->parts[l->k];
        *more = w->p->verify && l->part.sha256 && l->part.sha256[0];
        if (*more) continue;
        st = copy_plan_part(w->p, &pt->t, &l->part, l->out, w->run, err);
        l->out.at += l->part.bytes;
    }
    if (st == GG_OK && !*more) gg_writeback_hint(of->fd, at, pt->t.bytes);
    return st;
}

static void fail_tensor(void *ctx, gg_lane *l, gg_error *err)
{
    const writer *w = ctx;
    at_output(&w->p->files[w->file_of[l->item]], err);
}

static uint64_t cost_of(const void *ctx, size_t i)
{
    const gg_plan_tensor *pt = &((const writer *)ctx)->p->tensors[i];
    return pt->make ? pt->t.elements : 0;
}

/* ---- writing --------------------------------------------------------------------- */

static gg_status open_files(writer *w, gg_error *err)
{
    uint64_t total = 0, before = 0;
    gg_status st = GG_OK;
    for (size_t f = 0; f < w->p->n_files && st == GG_OK; f++) {
        st = lay_out_file(w->p, f, &w->files[f], err);
        total += w->files[f].data_bytes;
        for (size_t i = 0; i < w->p->files[f].n; i++)
            w->file_of[w->p->files[f].first + i] = (uint32_t)f;
    }
    gg_progress_total(w->run, total);
    for (size_t f = 0; f < w->p->n_files && st == GG_OK; f++) {
        out_file *of = &w->files[f];
        of->at = w->in_order ? GG_AT_POS : 0;
        of->fd = STDOUT_FILENO;
        if (to_stdout(&w->p->files[f])) continue;
        st = gg_output_open(w->p->files[f].path, w->run->force, &of->out, err);
        if (st == GG_OK) st = gg_output_reserve(of->out, of->size, before, err);
        if (st == GG_OK) of->fd = gg_output_fd(of->out);
        before += of->size;
    }
    return st;
}

static gg_status verify_result(const writer *w, gg_error *err)
{
    char sha[65];
    gg_status st = gg_file_sha256(w->files[0].fd, 0, w->files[0].size, sha, NULL, err);
    if (st != GG_OK) return gg_at_file(err, w->p->files[0].path);
    if (strcmp(sha, w->p->result_sha256) == 0) return GG_OK;
    gg_fail(err, GG_EFORMAT, "the result does not match the expected sha256");
    return gg_fix(err, "make or download the patch again; nothing was written");
}

/* The planned size is too large if a pipe ends within its last padding. */
static gg_status sync_file(const writer *w, size_t f, gg_error *err)
{
    const out_file *of = &w->files[f];
    gg_status st = GG_OK;
    if (!of->out) return GG_OK;
    if (of->written != of->size && ftruncate(of->fd, (off_t)of->written) != 0)
        st = gg_fail_errno(err, "cannot set its size");
    at_output(&w->p->files[f], err);
    return st == GG_OK ? gg_output_sync(of->out, err) : st;
}

static gg_status write_all(writer *w, uint64_t *bytes, gg_error *err)
{
    size_t n = w->p->n_files;
    gg_lane_work work = { next_part, fail_tensor, cost_of, w };
    gg_status st = open_files(w, err);
    for (size_t f = 0; f < n && st == GG_OK; f++) {
        st = write_file(w, f, err);
        at_output(&w->p->files[f], err);
    }
    if (st == GG_OK && !w->in_order) st = gg_copy_lanes(w->p->n, &work, w->run, err);
    for (size_t f = 0; f < n && st == GG_OK; f++) st = sync_file(w, f, err);
    if (st == GG_OK) st = gg_watch_check(&w->p->watch, err);
    if (st == GG_OK && w->p->result_sha256) st = verify_result(w, err);
    for (size_t f = 0; f < n && st == GG_OK; f++) {
        *bytes += w->files[f].written;
        if (w->files[f].out) st = gg_output_place(w->files[f].out, err);
    }
    for (size_t f = 0; f < n; f++) gg_output_end(w->files[f].out, st == GG_OK || n == 1);
    return st;
}

static gg_status check_plan(const gg_plan *p, const gg_run *run, gg_held_notes *notes,
                            gg_error *err)
{
    bool other = p->hf_order || p->stored || (p->base && gg_source_refusal(p->base));
    if ((!run->review && !run->strict) || other) return GG_OK; /* rules know GGUF names only */
    gg_tensor *list = gg_plan_list(p, 0, p->n, err);
    gg_planned planned = { .meta = p->n_files ? &p->files[0].meta : NULL,
                           .tensors = list,
                           .n = p->n,
                           .files = (uint32_t)p->n_files,
                           .base = p->base,
                           .all_findings = p->all_findings };
    gg_status st = list ? gg_review(planned, run, notes, err) : GG_ENOMEM;
    free(list);
    return st;
}

static gg_status write_plan(gg_plan *p, const gg_run *run, uint64_t *bytes, gg_error *err)
{
    struct gg_turn turn;
    gg_run mine = *run;
    writer w = { .p = p, .run = &mine, .in_order = p->pipe != NULL };
    for (size_t f = 0; f < p->n_files; f++) {
        if (!to_stdout(&p->files[f])) continue;
        w.in_order = true;
        if (p->n_files == 1) continue;
        gg_fail(err, GG_EUSAGE, "%zu shards cannot be written to stdout", p->n_files);
        return gg_fix(err, "write one file, or give a file name for the shards");
    }
    mine.turn = &turn;
    pthread_mutex_init(&turn.lock, NULL);
    w.files = calloc(p->n_files + 1, sizeof *w.files);
    w.file_of = calloc(p->n + 1, sizeof *w.file_of);
    gg_status st = w.files && w.file_of ? write_all(&w, bytes, err)
                                        : gg_fail(err, GG_ENOMEM, "no memory for a plan");
    for (size_t f = 0; w.files && f < p->n_files; f++) free_layout(&w.files[f]);
    free(w.files);
    free(w.file_of);
    pthread_mutex_destroy(&turn.lock);
    return st;
}

void gg_note_zeroed(const gg_plan *p, const gg_run *run)
{
    const gg_tensor *first = NULL;
    char more[60] = "";
    size_t n = 0;
    for (size_t i = p->n; i-- > 0;)
        if (p->tensors[i].zeros.vanished && !p->tensors[i].zeros.kept && ++n)
            first = &p->tensors[i].t;
    if (n > 1)
        snprintf(more, sizeof more, ", and those of %zu more tensor%s", n - 1, n == 2 ? "" : "s");
    if (n)
        gg_note(run,
                "all values of '%.*s' are too small for %s and became 0%s: BF16 and F32 can hold "
                "them",
                (int)first->name_len, first->name, gg_dtype_name(first->dtype), more);
}

gg_status gg_plan_write(gg_plan *p, const gg_run *run, uint64_t *bytes, gg_error *err)
{
    gg_held_notes notes = { 0 };
    *bytes = 0;
    gg_status st = gg_plan_watch(p, err);
    for (size_t f = 0; f < p->n_files && p->base && st == GG_OK; f++)
        if (!gg_is_safetensors_name(p->files[f].path)) st = refuse_stored_names(p->base, err);
    for (size_t f = 0; f < p->n_files; f++) /* shards have other names than the output */
        for (size_t i = 0; i < p->watch.n && st == GG_OK; i++)
            st = gg_guard_output(p->files[f].path, p->watch.list[i], err);
    if (st == GG_OK) st = check_plan(p, run, &notes, err);
    if (st == GG_OK) st = write_plan(p, run, bytes, err);
    if (st == GG_OK) gg_note_zeroed(p, run);
    gg_held_end(&notes, run, st == GG_OK);
    return st;
}

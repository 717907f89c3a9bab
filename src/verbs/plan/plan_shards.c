/* plan_shards.c - divides a plan into several files.
 *
 * They form a set that llama.cpp's loader accepts. The first shard has the model's metadata. Every
 * shard has split.no (u16), split.count (u16) and split.tensors.count (i32). Only the first can
 * state an alignment, so the others are aligned to 32.
 */
#include "plan_shards.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/grow.h"
#include "gguf/gguf.h"
#include "verbs/shared/verb_run.h"

#include <stdlib.h>
#include <string.h>

static gg_status set_split_number(gg_meta *meta, const char *key, uint32_t type, uint32_t value,
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
    gg_status st = set_split_number(meta, "split.no", GG_TYPE_U16, no, err);
    if (st == GG_OK)
        st = set_split_number(meta, "split.tensors.count", GG_TYPE_I32, (uint32_t)tensors, err);
    return st == GG_OK ? set_split_number(meta, "split.count", GG_TYPE_U16, count, err) : st;
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
    return strndup(output, n);
}

gg_status gg_plan_name_shards(gg_plan *p, const char *output, gg_error *err)
{
    char *prefix = prefix_of(output);
    if (!prefix) return no_memory_for_shards(err);
    for (size_t i = 0; i < p->n_files; i++) {
        free(p->files[i].path);
        p->files[i].path = gg_shard_name(prefix, (uint32_t)i, (uint32_t)p->n_files);
        if (!p->files[i].path) break;
    }
    free(prefix);
    return p->n_files && p->files[p->n_files - 1].path ? GG_OK : no_memory_for_shards(err);
}

/* Cut the list where the next shard is due. With `shards` the cuts lie as near to
 * equal bytes as whole tensors allow, and every shard has at least one tensor. */
static size_t cut(const gg_plan *p, const gg_split *o, size_t first, size_t shard, uint64_t *done,
                  uint64_t total)
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
        gg_plan_file *grown = gg_grow(p->files, p->n_files, &cap, sizeof *grown, err);
        if (!grown) return GG_ENOMEM;
        p->files = grown;
        gg_plan_file *f = &p->files[p->n_files];
        *f = (gg_plan_file){ .version = version, .first = first };
        f->n = cut(p, o, first, p->n_files, &done, total);
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
    return st == GG_OK ? gg_plan_name_shards(p, output, err) : st;
}

gg_status gg_plan_output(gg_plan *p, const gg_split *split, const char *output, gg_meta *meta,
                         gg_source *base, const gg_run *run, gg_error *err)
{
    uint32_t version = gg_plan_version(base);
    bool alone = split->shards == 1 &&
                 strcmp(output, "-") != 0; /* a set of one shard has no split keys */
    if (!gg_is_split(split) || alone) {
        gg_status st = gg_plan_changed_file(p, output, version, meta, base, err);
        return st == GG_OK && alone ? gg_plan_name_shards(p, output, err) : st;
    }
    p->base = base;
    gg_meta_delete_split(meta);
    gg_note_large_shard(p, split->shard_size, run);
    return gg_plan_shards(p, split, output, version, meta, err);
}

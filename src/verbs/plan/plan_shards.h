/* plan_shards.h - a model that is written as a split set. Internal. */
#ifndef GG_PLAN_SHARDS_H
#define GG_PLAN_SHARDS_H

#include "plan.h"

/* How to divide a model: into a number of shards, or by their size. Both 0 = one file. */
typedef struct gg_split {
    uint32_t shards;
    uint64_t shard_size; /* bytes of tensor data per shard at most */
} gg_split;

static inline bool gg_is_split(const gg_split *s)
{
    return s->shards || s->shard_size;
}

/* Fill p->files with shards of the tensors planned, named after `output` (a shard's name, or
 * PREFIX.gguf). meta is copied to the first shard. GG_EUSAGE for more shards than tensors,
 * for too many, and for the output "-". */
gg_status gg_plan_shards(gg_plan *p, const gg_split *split, const char *output, uint32_t version,
                         const gg_meta *meta, gg_error *err);

/* Puts a changed model into one file or several: gg_plan_changed_file, or gg_plan_shards without
 * the split keys of the base in meta. */
gg_status gg_plan_output(gg_plan *p, const gg_split *split, const char *output, gg_meta *meta,
                         gg_source *base, const gg_run *run, gg_error *err);

/* Gives the existing p->files the names of shards. */
gg_status gg_plan_name_shards(gg_plan *p, const char *output, gg_error *err);

/* Note the largest tensor if it alone exceeds `shard_size` (0 = no limit): a tensor is never
 * split, so its shard becomes larger than that. */
void gg_note_large_shard(const gg_plan *p, uint64_t shard_size, const gg_run *run);

#endif

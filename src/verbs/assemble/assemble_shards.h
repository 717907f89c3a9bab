/* assemble_shards.h - which files an assembly writes. Internal. */
#ifndef GG_ASSEMBLE_SHARDS_H
#define GG_ASSEMBLE_SHARDS_H

#include "organ/gg_verbs.h"
#include "organ/manifest.h"
#include "verbs/plan/plan.h"

/* Fill p->files from the options and the files that the source is, or was extracted from:
 * see gg_assemble. With p->pipe set, p->keep_odd is set where it applies. */
gg_status gg_assemble_files(gg_plan *p, gg_source *source, const gg_assemble_options *o,
                            const char *output, gg_error *err);

/* Note the largest tensor if it alone exceeds `shard_size` (0 = no limit): a tensor is never
 * split, so its shard becomes larger than asked for. */
void gg_note_large_shard(const gg_plan *p, uint64_t shard_size, const gg_run *run);

#endif

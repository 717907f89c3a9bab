/* assemble_shards.h - plans the files that an assembly writes. Internal. */
#ifndef GG_ASSEMBLE_SHARDS_H
#define GG_ASSEMBLE_SHARDS_H

#include "organ/gg_verbs.h"
#include "organ/manifest.h"
#include "verbs/plan/plan.h"

/* Fill p->files from the options and the files of the source, or those it was extracted from.
 * See gg_assemble. `meta` is copied to the first file. With p->pipe set, p->keep_odd is set where
 * it applies. */
gg_status gg_assemble_files(gg_plan *p, gg_source *source, const gg_meta *meta,
                            const gg_assemble_options *o, const char *output, gg_error *err);

#endif

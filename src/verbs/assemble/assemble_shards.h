/* assemble_shards.h - which files an assembly writes. Internal. */
#ifndef GG_ASSEMBLE_SHARDS_H
#define GG_ASSEMBLE_SHARDS_H

#include "organ/gg_verbs.h"
#include "organ/manifest.h"
#include "verbs/plan/plan.h"

/* Fill p->files from the options and the manifest's layout: see gg_assemble. */
gg_status gg_assemble_files(gg_plan *p, const gg_manifest *m, const char *dir,
                            const gg_assemble_options *o, const char *output, gg_error *err);

#endif

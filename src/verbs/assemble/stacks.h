/* stacks.h - experts that were taken apart, found in a manifest and put
 * back on their stack. Internal. */
#ifndef GG_STACKS_H
#define GG_STACKS_H

#include "organ/gg_organ.h"
#include "organ/manifest.h"
#include "verbs/plan/plan.h"

typedef struct gg_stacks gg_stacks;

/* Which entries are experts of which stack. GG_EFORMAT when an expert does not fit
 * its stack, or stands in no order. */
gg_status gg_stacks_new(const gg_manifest *m, gg_stacks **out, gg_error *err);
void gg_stacks_free(gg_stacks *s);

size_t gg_stacks_of(const gg_stacks *s, size_t entry); /* stack index or SIZE_MAX */
size_t gg_stacks_first(const gg_stacks *s, size_t k);  /* its first entry: where the stack stands */
/* Numbers of the experts that are there, ascending; *n of them. */
const uint64_t *gg_stacks_experts(const gg_stacks *s, size_t k, size_t *n);

/* Append the stacked tensor to the plan, one part an expert. */
gg_status gg_stacks_add(const gg_stacks *s, size_t k, gg_source *dir, gg_plan *p, gg_error *err);

#endif

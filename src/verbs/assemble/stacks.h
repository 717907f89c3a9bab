/* stacks.h - finds single experts in a manifest and puts them back into stacks. Internal. */
#ifndef GG_STACKS_H
#define GG_STACKS_H

#include "organ/gg_organ.h"
#include "organ/manifest.h"
#include "verbs/plan/plan.h"

typedef struct gg_stacks gg_stacks;

/* Find the stack of each expert. GG_EFORMAT if an expert does not match its stack. */
gg_status gg_stacks_new(const gg_manifest *m, gg_stacks **out, gg_error *err);
void gg_stacks_free(gg_stacks *s);

size_t gg_stacks_of(const gg_stacks *s, size_t entry); /* stack index or SIZE_MAX */
size_t gg_stacks_first(const gg_stacks *s,
                       size_t k); /* its first entry, which gives the stack its place */
/* Numbers of the present experts, ascending; *n of them. */
const uint64_t *gg_stacks_experts(const gg_stacks *s, size_t k, size_t *n);

/* Append the stacked tensor to the plan, with one part per expert. */
gg_status gg_stacks_add(const gg_stacks *s, size_t k, gg_source *dir, gg_plan *p, gg_error *err);

#endif

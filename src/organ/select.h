/* select.h - queries on selections and block maps, for the verbs. Internal. */
#pragma once

#include "organ/gg_organ.h"

bool gg_select_empty(const gg_select *s);
/* Whether an expert is selected; true if s does not restrict experts. */
bool gg_select_expert(const gg_select *s, uint64_t expert);
/* The expert of the donor that replaces an expert of the base: the one with the same number,
 * unless GG_SELECT_EXPERT_MAP defined another. */
uint64_t gg_select_donor_expert(const gg_select *s, uint64_t expert);
/* The inverse: the expert of the base that a donor's expert replaces, or -1. */
int64_t gg_select_base_expert(const gg_select *s, uint64_t donor_expert);
/* Whether this exact name was selected, not only a pattern that matches it. */
bool gg_select_by_name(const gg_select *s, const char *name);

/* When and how a selection is checked. */
typedef struct gg_select_when {
    bool end;           /* all tensors of a growing pipe were read */
    bool split_experts; /* experts of stacks are selected by their own names too */
} gg_select_when;

/* Fails with GG_NO and names the item if a class, part, block, expert, pattern or listed name
 * matches no tensor of the sources, or if the list of names is empty. b may be NULL, and then s
 * selects from a alone. Does nothing if s is NULL, or before the end of a growing pipe. */
gg_status gg_select_check(const gg_select *s, const gg_source *a, const gg_source *b,
                          const gg_select_when *when, gg_error *err);

/* The donor block for a base block: the same block if m is NULL, or -1 if the map does not
 * contain it. */
int64_t gg_map_donor(const gg_map *m, int64_t base_block);
/* The inverse: the first base block that a donor block is mapped to, or -1. */
int64_t gg_map_base(const gg_map *m, int64_t donor_block);

/* ---- lists of numbers ---------------------------------------------------------------- */

typedef struct gg_ranges {
    struct gg_range {
        uint64_t first, last;
    } * items;
    size_t n;
} gg_ranges;

/* Appends the ranges of `text`. Fails with GG_EUSAGE if it is malformed; the error is then
 * about the argument `about`, which may be NULL. */
gg_status gg_ranges_parse(gg_ranges *r, const char *about, const char *text, gg_error *err);
bool gg_ranges_have(const gg_ranges *r, uint64_t v);
void gg_ranges_free(gg_ranges *r);

/* Shell-style match (* ? [a-z]) of the whole name; bytes may have any value except NUL. */
bool gg_glob(const char *pattern, const char *name);

/* Whether the selection has a condition on experts. `s` may be NULL. */
bool gg_select_has_experts(const gg_select *s);

/* select.h - what the verbs ask of a selection or a map. Internal. */
#ifndef GG_SELECT_H
#define GG_SELECT_H

#include "organ/gg_organ.h"

bool gg_select_empty(const gg_select *s);
bool gg_select_expert(const gg_select *s, uint64_t expert); /* true without experts in s */
/* Which of the donor's experts takes the place of the base's: the same, unless
 * gg_select_expert_map said another. Of an expert that is not selected: itself. */
uint64_t gg_select_donor_expert(const gg_select *s, uint64_t expert);
/* The other way round: the base's expert that a donor's goes to, or -1. */
int64_t gg_select_base_expert(const gg_select *s, uint64_t donor_expert);
/* Do the patterns or names have this very name, not a pattern that fits it? */
bool gg_select_by_name(const gg_select *s, const char *name);

/* Donor block for a base block; block itself when m is NULL; -1 if a map was
 * given that does not name it. */
int64_t gg_map_donor(const gg_map *m, int64_t base_block);
/* The map read backwards: the first base block that a donor block goes to, or -1. */
int64_t gg_map_base(const gg_map *m, int64_t donor_block);

/* Add "2=5,8-9=0-1,12" (base expert = donor expert) to *map, which is made if it is NULL.
 * GG_EUSAGE says what is wrong; *map may then hold the items before it. */
gg_status gg_map_add_experts(gg_map **map, const char *text, gg_error *err);

/* Shell-style match (* ? [a-z]) over the whole name, any byte but NUL. */
bool gg_glob(const char *pattern, const char *name);

#endif

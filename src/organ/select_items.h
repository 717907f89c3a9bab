/* select_items.h - the items of a selection, for select*.c. Internal. */
#ifndef GG_SELECT_ITEMS_H
#define GG_SELECT_ITEMS_H

#include "organ/gg_organ.h"
#include "ranges.h"

typedef struct text_list {
    char **items;
    size_t n, cap;
} text_list;

struct gg_select {
    uint32_t classes; /* one bit per gg_class; 0 = all */
    uint32_t parts;   /* one bit per gg_part; 0 = all */
    gg_ranges layers, experts;
    gg_map *expert_map;     /* NULL: each expert is replaced by that with the same number */
    text_list globs, names; /* names are sorted, without repetitions */
    bool by_name;           /* names were given */
};

/* The index of a name in the list of names, or SIZE_MAX. */
size_t gg_select_listed(const gg_select *s, const char *name);

#endif

/* match_options.h - the options that pair and blend tensors, shared by organ-graft and
 * organ-transplant. */
#ifndef MATCH_OPTIONS_H
#define MATCH_OPTIONS_H

#include "cli.h"

#include "organ/gg_transplant.h"

typedef struct match_options {
    const char *mode, *map, *blend, *ancestor; /* as given; NULL if not */
    bool align;                                /* bring donor and ancestor into base's order */
    gg_match_options match;                    /* complete after match_options_open */
    gg_map *parsed;                            /* private: of `map` */
    gg_source *opened;                         /* private: of `ancestor` */
    gg_source *aligned[2];                     /* private: donor and ancestor */
} match_options;

/* clang-format off */
/* Rows for the table of options. */
#define MATCH_OPTIONS(o) \
    { "match", CLI_TEXT, &(o).mode }, \
    { "map", CLI_TEXT, &(o).map }, \
    { "blend", CLI_TEXT, &(o).blend }, \
    { "ancestor", CLI_TEXT, &(o).ancestor }, \
    { "align", CLI_FLAG, &(o).align }, \
    { "add", CLI_FLAG, &(o).match.add }
/* clang-format on */

/* Whether an option that pairs or blends tensors, or a selection, was given. */
bool match_options_given(const cli *c, const match_options *o);

/* Exits on mistakes. Sets o->match.mode. */
void match_options_check(const cli *c, match_options *o);

/* Parses the map and the blend, and opens the ancestor. match_options_close must follow, also
 * after an error. */
gg_status match_options_open(cli *c, match_options *o);
/* With --align, replaces *donor and the ancestor of o->match by their aligned versions, which
 * belong to `o`. match_options_unalign must follow before the donor is closed. */
gg_status match_options_align(cli *c, match_options *o, gg_source *base, gg_source **donor);
void match_options_unalign(match_options *o);

void match_options_close(match_options *o);

#endif

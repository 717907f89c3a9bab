/* match_options.h - the options that pair and blend tensors, shared by organ-graft and
 * organ-transplant. */
#pragma once

#include "common/cli.h"

#include "gg_transplant.h"

typedef struct match_options {
    gg_transplant_options o;            /* complete after match_options_open */
    const char *map, *blend, *ancestor; /* as given; NULL if not */
    int mode;                           /* a gg_match_mode */
    bool check;                         /* only print what would move */
    bool align;                         /* bring donor and ancestor into base's order */
    bool reads;                         /* only print which bytes would be read */
    gg_map *parsed;                     /* private: of `map` */
    gg_source *opened;                  /* private: of `ancestor` */
    gg_source *aligned[2];              /* private: donor and ancestor */
} match_options;

/* Groups of options. match_group is included with .to = the match_options, and match_last, which
 * sets members of cli and ends the table, without. */
extern const cli_option match_group[], match_last[];

/* Parses the map and the blend, and opens the ancestor. match_options_close must follow, also
 * after an error. Exits on mistakes of usage. */
gg_status match_options_open(cli *c, match_options *m);

/* Does what the options say: prints the moves (--check) and what they would read (--reads), or
 * writes `output`, which is the undo stream if the base is changed in place. *donor is read in the
 * form of the base (gg_source_like). GG_NO if something does not fit. */
gg_status match_options_run(cli *c, match_options *m, gg_source *base, gg_source **donor,
                            const char *output, bool in_place);

void match_options_close(match_options *m);

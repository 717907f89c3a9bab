/* match_options.h - the options that pair and blend tensors, shared by organ-graft and
 * organ-transplant. */
#pragma once

#include "cli.h"

#include "organ/gg_transplant.h"

typedef struct match_options {
    gg_match_options match;             /* complete after match_options_open */
    const char *map, *blend, *ancestor; /* as given; NULL if not */
    int mode;                           /* a gg_match_mode */
    bool align;                         /* bring donor and ancestor into base's order */
    bool partial;                       /* even if most units have no counterpart */
    bool reads;                         /* --reads */
    gg_map *parsed;                     /* private: of `map` */
    gg_source *opened;                  /* private: of `ancestor` */
    gg_source *aligned[2];              /* private: donor and ancestor */
} match_options;

/* Rows for the table of options: { .group = match_group, .to = &opt.match }. */
extern const cli_option match_group[];

/* Parses the map and the blend, and opens the ancestor. match_options_close must follow, also
 * after an error. Exits on mistakes of usage. */
gg_status match_options_open(cli *c, match_options *o);
/* Reads *donor and the ancestor of o->match in the form of the base (gg_source_like). Sets *used to
 * *donor; with --align it and the ancestor are aligned versions, which belong to `o`.
 * match_options_unalign must follow before the donor is closed. */
gg_status match_options_align(cli *c, match_options *o, gg_source *base, gg_source **donor,
                              gg_source **used);
void match_options_unalign(match_options *o);

/* Notes how many tensors are converted because that is the default. */
void match_options_note(const cli *c, size_t converted);

void match_options_close(match_options *o);

/* Print the moves as a table on stdout, and the keys that differ, counts and the lineage
 * verdict as notes. `weighed`: an importance matrix, or NULL. GG_OK if everything fits, GG_NO if
 * something does not. With --reads print the table only, which needs no data. */
gg_status match_options_check(cli *c, const match_options *o, gg_source *base, gg_source *donor,
                              const char *weighed);

/* Prints a range of bytes: --reads without --check; see gg_transplant_options.read. */
void match_options_read(void *ctx, const char *file, uint64_t place, uint64_t bytes);

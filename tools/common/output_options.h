/* output_options.h - the options of a written model, shared by organ-assemble, organ-merge and
 * organ-transplant. */
#pragma once

#include "cli.h"

#include "organ/gg_verbs.h"

/* Rows for the table of options: { .group = output_group, .to = &opt.o.output }. */
extern const cli_option output_group[];

/* Print a note for each KEY=@FILE or KEY=str:@FILE, which sets the text "@FILE", and for a template
 * that is only the name of a file. `option` is
 * the option that stores the content of a file. */
void key_options_note(const cli *c, const gg_texts *texts, const char *option);

/* Print a note for each KEY=... whose key is new to a model, but close to a key of the model or to
 * a usual key: it may be misspelt. `meta` may be NULL. */
void key_options_spelling(const cli *c, const gg_meta *meta, const gg_texts *texts);

/* Replaces "like:MODEL" by the types of the model, and calls key_options_note. To be called when
 * all options are read. Exits on mistakes. */
void output_options_end(cli *c, gg_output_options *o);

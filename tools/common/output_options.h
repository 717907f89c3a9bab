/* output_options.h - the options of a written model, shared by organ-assemble, organ-merge and
 * organ-transplant. */
#pragma once

#include "cli.h"

#include "organ/gg_verbs.h"

/* Rows for the table of options: { .group = output_group, .to = &opt.o.output }. */
extern const cli_option output_group[];

/* Print a note for each KEY=@FILE or KEY=str:@FILE: it sets the text "@FILE". `option` is
 * the option that stores the content of a file. */
void key_options_note(const cli *c, const gg_texts *texts, const char *option);

/* Replaces "like:MODEL" by the types of the model, and calls key_options_note. To be called when
 * all options are read. Exits on mistakes. */
void output_options_end(cli *c, gg_output_options *o);

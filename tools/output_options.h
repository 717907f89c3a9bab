/* output_options.h - the options of a written model, shared by organ-assemble, organ-merge and
 * organ-transplant. */
#ifndef OUTPUT_OPTIONS_H
#define OUTPUT_OPTIONS_H

#include "cli.h"

#include "organ/gg_verbs.h"

typedef struct output_options {
    gg_output_options made; /* by output_options_make */
    uint64_t shards, shard_size;
    const char *dtype, *fallback, *imatrix;
    cli_list set_kv, set_kv_files;
} output_options;

/* Rows for the table of options: { .group = output_group, .to = &opt.out }. */
extern const cli_option output_group[];

/* Print a note for each KEY=@FILE or KEY=str:@FILE: it sets the text "@FILE". `option` is
 * the option that stores the content of a file. */
void key_options_note(const cli *c, const cli_list *texts, const char *option);

/* Fills in o->made for a verb, with the types of a model for "like:MODEL". Exits on mistakes. */
const gg_output_options *output_options_make(cli *c, output_options *o);

#endif

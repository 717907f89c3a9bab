/* assemble_options.h - the options of organ-assemble, which organ-prune has too: what a whole model
 * is read from and written as. */
#pragma once

#include "cli.h"
#include "size.h"
#include "table.h"

#include "assemble/hf_names.h"
#include "base/output.h"
#include "organ/gg_verbs.h"

/* A text beside the model: a table, rules. The file is opened before the work begins, so that an
 * existing one is refused. */
typedef struct text_output {
    const char *path; /* NULL = not asked for; "-" is stdout */
    gg_buf text;
    gg_output *file;
} text_output;

typedef struct assemble_options {
    const char *dir, *model, *output, *vocabulary;
    int names; /* --names; read o.edit */
    gg_hf_names hf;
    gg_plan_edit edit;
    gg_size_choice size;
    gg_type_chooser chooser;
    text_output report, rules;
    table report_rows, size_rows;
    gg_assemble_options o;
} assemble_options;

/* Groups of options. assemble_places (the model and the output) and assemble_types (the types of
 * its tensors) are included with .to = &opt.a, and assemble_files, which sets members of cli,
 * without. */
extern const cli_option assemble_places[], assemble_types[], assemble_files[];

/* Refuses values that contradict each other, and fills in a->o. To be called when all options are
 * read. Exits on mistakes. */
void assemble_options_end(cli *c, assemble_options *a);

/* Opens the texts, the model and the vocabulary, calls `write` with them, and closes them. Notes
 * what was written. `write` gets `ctx`, and options and arguments as gg_assemble. */
typedef gg_status assemble_write(void *ctx, gg_source *model, const gg_assemble_options *o,
                                 const char *output, const gg_run *run, gg_assemble_report *report,
                                 gg_error *err);
gg_status assemble_options_run(cli *c, assemble_options *a, assemble_write *write, void *ctx);

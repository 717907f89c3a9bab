/* output_options.h - the options --shards, --shard-size, --dtype, --fallback and --imatrix, shared
 * by tools that write models. */
#ifndef OUTPUT_OPTIONS_H
#define OUTPUT_OPTIONS_H

#include "cli.h"
#include "organ/gg_verbs.h"

typedef struct output_options {
    uint64_t shards, shard_size;
    const char *dtype, *fallback, *imatrix;
} output_options;

/* No number of shards was given. */
/* clang-format off */
#define OUTPUT_OPTIONS_INIT { .shards = UINT64_MAX }

/* Rows for the table of options. */
#define OUTPUT_OPTIONS(o) \
    { "shards", CLI_U64, &(o).shards }, \
    { "shard-size", CLI_SIZE, &(o).shard_size }, \
    { "dtype", CLI_TEXT, &(o).dtype }, \
    { "fallback", CLI_TEXT, &(o).fallback }, \
    { "imatrix", CLI_TEXT, &(o).imatrix }
/* clang-format on */

/* Exits on mistakes. Afterwards shards is 0 if it was not given. */
void output_options_check(const cli *c, output_options *o);

/* Passes the options, and those of --set-kv and --set-kv-file, to a verb. The lists stay alive. */
void output_options_set(gg_output_options *to, const output_options *o, const cli_list *set_kv,
                        const cli_list *set_kv_files);

#endif

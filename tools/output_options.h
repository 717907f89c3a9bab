/* output_options.h - --shards, --shard-size, --dtype and --fallback, as the tools that write
 * models of any type into any number of files have them. */
#ifndef OUTPUT_OPTIONS_H
#define OUTPUT_OPTIONS_H

#include "cli.h"

typedef struct output_options {
    uint64_t shards, shard_size;
    const char *dtype, *fallback;
} output_options;

/* No number of shards was given. */
/* clang-format off */
#define OUTPUT_OPTIONS_INIT { .shards = UINT64_MAX }

/* Rows for the table of options. */
#define OUTPUT_OPTIONS(o) \
    { "shards", CLI_U64, &(o).shards }, \
    { "shard-size", CLI_SIZE, &(o).shard_size }, \
    { "dtype", CLI_TEXT, &(o).dtype }, \
    { "fallback", CLI_TEXT, &(o).fallback }
/* clang-format on */

/* Exits on mistakes; shards is 0 then where it was not given. */
void output_options_check(const cli *c, output_options *o);

#endif

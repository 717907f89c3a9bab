/* cli.h - what every tool's main shares: options, errors, exit, progress.
 *
 *     static const char help[] = "usage: ...";
 *     int main(int argc, char **argv)
 *     {
 *         cli c = { .tool = "organ-x", .help = help };
 *         const cli_option options[] = { { "output", CLI_TEXT, &output }, { 0 } };
 *         cli_start(&c, argc, argv, options);        exits on --help and mistakes
 *         gg_status st = ...(…, &c.run, &c.err);
 *         return cli_end(&c, st);
 *     }
 *
 * Common options, handled here: --help -h, --version -V, -q --quiet, -v --verbose,
 * -j --threads N; and, if the flags below are set, --json, --force and the selection.
 */
#ifndef CLI_H
#define CLI_H

#include "where.h"

#include "organ/gg_verbs.h"

typedef enum cli_kind {
    CLI_FLAG,  /* bool */
    CLI_TEXT,  /* const char * */
    CLI_LIST,  /* cli_list: may be given several times */
    CLI_U64,   /* uint64_t */
    CLI_COUNT, /* uint64_t with k M G (powers of 1000) */
    CLI_SIZE,  /* uint64_t with K M G T (powers of 1024) or KB MB GB TB (of 1000) */
    CLI_F64,   /* double */
} cli_kind;

typedef struct cli_option {
    const char *name; /* without -- */
    cli_kind kind;
    void *to;
} cli_option;

typedef struct cli_list {
    const char **items;
    size_t n;
} cli_list;

typedef struct cli {
    const char *tool, *help;
    bool maps_experts;         /* --experts takes BASE=DONOR items too */
    bool selects;              /* takes --type --layers --tensors --experts --names-from */
    bool has_json;             /* takes --json */
    bool has_force;            /* takes --force */
    bool has_strict;           /* takes --strict: refuse to write a model with errors */
    const char *where_columns; /* takes --where, for tables with these columns */
    /* filled by cli_start: */
    bool json, quiet;
    cli_list names;  /* values of --names-from, read after all options */
    cli_list wheres; /* values of --where */
    where *where;    /* the same, parsed */
    int verbose;
    gg_select *select; /* NULL when nothing was selected */
    cli_list args;     /* positional arguments in order; "-" is one */
    gg_run run;
    gg_progress progress;
    gg_error err;
} cli;

void cli_start(cli *c, int argc, char **argv, const cli_option *options);

/* Open a model. What the user should know about it (a lone shard, missing data) is printed
 * as a note. CLI_HEADER_ONLY accepts incomplete data; CLI_SPOOLED stores a pipe first. */
typedef enum cli_open_kind { CLI_DATA, CLI_HEADER_ONLY, CLI_SPOOLED } cli_open_kind;
gg_status cli_open(cli *c, const char *spec, cli_open_kind kind, gg_source **out);

/* Print the error, if any, check that all output was written, and return the exit code.
 * An interrupted run ends by its signal instead. */
int cli_end(cli *c, gg_status status);

/* Report a usage mistake in one line on stderr and exit with 2. */
_Noreturn void cli_usage(const cli *c, const char *fmt, ...) GG_PRINTF(2, 3);

/* Print a note on stderr: one line, escaped. Prints nothing with --quiet. */
void cli_note(const cli *c, const char *fmt, ...) GG_PRINTF(2, 3);

/* Returns the only positional argument or the option's value; exactly one must be given. */
const char *cli_one(const cli *c, const char *option_value, const char *what);

/* Set the error for output lost on stdout, with its remedy, and return GG_EIO. `why` is
 * the errno of the failed write, or 0 if unknown. */
gg_status cli_stdout_lost(gg_error *err, int why);

/* The plural ending of a count: "" for 1, else "s". */
static inline const char *cli_s(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* Refuse to write binary data to a terminal. */
void cli_no_terminal(const cli *c, int fd);

/* Print a help text to stdout. An installed tool replaces the paths of the source tree by
 * those of the installation. */
void cli_print_help(const char *help);

#endif

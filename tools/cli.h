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
 * -j --threads N, and with the flags below --json, --force and the selection.
 */
#ifndef CLI_H
#define CLI_H

#include "organ/gg_verbs.h"

typedef enum cli_kind {
    CLI_FLAG, /* bool */
    CLI_TEXT, /* const char * */
    CLI_LIST, /* cli_list: may be given several times */
    CLI_U64,  /* uint64_t */
    CLI_SIZE, /* uint64_t with K M G T (powers of 1024) or KB MB GB TB (of 1000) */
    CLI_F64,  /* double */
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
    bool maps_experts; /* --experts takes BASE=DONOR items too */
    bool selects;      /* takes --type --layers --tensors --experts --names-from */
    bool has_json;     /* takes --json */
    bool has_force;    /* takes --force */
    bool has_strict;   /* takes --strict: refuse to write a model with errors */
    /* filled by cli_start: */
    bool json, quiet;
    cli_list names; /* of --names-from: read when all options are known */
    int verbose;
    gg_select *select; /* NULL when nothing was selected */
    cli_list args;     /* what is no option, in order; "-" counts */
    gg_run run;
    gg_progress progress;
    gg_error err;
} cli;

void cli_start(cli *c, int argc, char **argv, const cli_option *options);

/* Open a model; what is to be told about it (a lone shard, missing data) is printed as a
 * note. With header_only its data may be incomplete; with CLI_SPOOLED a pipe is stored first. */
typedef enum cli_open_kind { CLI_DATA, CLI_HEADER_ONLY, CLI_SPOOLED } cli_open_kind;
gg_status cli_open(cli *c, const char *spec, cli_open_kind kind, gg_source **out);

/* Print the error, if any; check that stdout took everything; give the exit code.
 * An interrupted run ends by its signal. */
int cli_end(cli *c, gg_status status);

/* A usage mistake: one line on stderr, exit 2. */
_Noreturn void cli_usage(const cli *c, const char *fmt, ...) GG_PRINTF(2, 3);

/* A note for the user on standard error: one line, escaped; nothing with --quiet. */
void cli_note(const cli *c, const char *fmt, ...) GG_PRINTF(2, 3);

/* The one positional argument or the option's value: exactly one must be given. */
const char *cli_one(const cli *c, const char *option_value, const char *what);

/* GG_EIO: stdout did not take everything, because of the errno `why` (0: not known);
 * and what to do. */
gg_status cli_stdout_lost(gg_error *err, int why);

/* "tensor" and cli_s(1), "tensor" and cli_s(2). */
static inline const char *cli_s(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* Refuse to write binary data to a terminal. */
void cli_no_terminal(const cli *c, int fd);

/* Print a help text to stdout. An installed tool prints the paths of the installation in
 * place of those of the source tree. */
void cli_print_help(const char *help);

#endif

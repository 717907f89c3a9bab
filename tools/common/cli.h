/* cli.h - what every tool's main shares: options, help, errors, exit, progress.
 *
 *     static const char *const help[2] = { "usage: ...", "" };
 *     static struct { const char *model, *output; bool list; } opt;
 *     static const cli_option options[] = {
 *         { "model", CLI_MODEL, .to = &opt.model, .arg = "M", .place = 1, .help = "..." }, ...
 *         { .group = cli_common },
 *         { 0 },
 *     };
 *
 *     int main(int argc, char **argv)
 *     {
 *         CLI_TOOL(c, x);
 *         cli_start(&c, argc, argv, options);        exits on --help and mistakes
 *         gg_status st = ...(…, &c.run, &c.err);
 *         return cli_end(&c, st);
 *     }
 *
 * This table is the only list of the options. cli_start parses and checks by it, and
 * --help and --list-options print it; completion and organ-api are made from the latter.
 */
#pragma once

#include "where.h"

#include "organ/gg_verbs.h"

#include "base/buf.h"  /* texts */
#include "base/io.h"   /* stamps of inputs */
#include "base/text.h" /* endings of names */

/* What a value is, and the type of its destination. */
typedef enum cli_kind {
    CLI_FLAG,       /* no value; bool */
    CLI_MORE,       /* no value; int, one more each time */
    CLI_ACT,        /* no value; runs `act` instead of the tool, after all options are read */
    CLI_ACT_NOW,    /* the same, at once */
    CLI_TEXT,       /* any text; const char * like all others up to CLI_WHERE */
    CLI_MODEL,      /* a model; - is stdin */
    CLI_PARAMS,     /* a model and parameters: PATH,weight=0.5 */
    CLI_DIR,        /* an organ directory */
    CLI_FILE,       /* another file to read */
    CLI_NEW_MODEL,  /* a model to write; - is stdout */
    CLI_NEW_DIR,    /* an organ directory to write; - is stdout */
    CLI_NEW_FILE,   /* a text to write; - is stdout */
    CLI_INTO,       /* a folder that may exist, to write files into */
    CLI_KEY_FILE,   /* KEY=FILE, a file to read */
    CLI_RULES,      /* GLOB=TYPE,... or a preset */
    CLI_RANGES,     /* 0-3,17 */
    CLI_RANGE_FILE, /* the same, or a file of lines */
    CLI_MAP,        /* 10-15=20-25 */
    CLI_WORDS,      /* some of `values`, separated by commas */
    CLI_WHERE,      /* a condition on one of the columns in `values` */
    CLI_WORD,       /* one of `values`; int, its index */
    CLI_U64,        /* uint64_t */
    CLI_COUNT,      /* uint64_t with k M G (powers of 1000) */
    CLI_SIZE,       /* uint64_t with K M G T (powers of 1024) or KB MB GB TB (of 1000) */
    CLI_F64,        /* double */
} cli_kind;

struct cli;

/* A row of a table of options, whose last row is all 0. Several rows with one destination are
 * names of one option; the conditions are those of the first. In `needs`, `excludes` and
 * `required`, names are separated by spaces. */
typedef struct cli_option {
    const char *name; /* without --; NULL = only a line of the help; "" = see `place` */
    cli_kind kind;
    void *to;         /* destination; NULL = `at` in the cli or, in a group, in the group's `to` */
    const char *arg;  /* stands for the value in the help: "FILE" */
    const char *help; /* wrapped to the screen; "" = the words of the value; NULL = another row
                         explains it */
    const char
        *flow; /* not NULL: the help goes on in the line of the row before, after this text */
    const char *needs, *needs_why; /* one of these must be given: "nothing else prints a table" */
    const char *excludes, *excludes_why; /* none of these may be: "draws a picture" */
    const char *required;                /* must be given unless one of these is; "" = always */
    const char *values; /* the words for CLI_WORD, CLI_WORDS, CLI_WHERE, CLI_MODEL (which may
                           then be one of them) and for completion */
    const char *(*list)(size_t i);  /* the same as a function; NULL after the last word */
    void (*act)(struct cli *c);     /* of CLI_ACT */
    const struct cli_option *group; /* the rows of this table stand here; with a `to` of the group
                                       each of them has a destination */
    double low, high;               /* the range of a number, if high > 0 */
    size_t at;                      /* see `to` */
    int place;   /* the value may be given without name, as the argument with this number */
    char letter; /* -j; shown in the help if the row has `flow` and `help` */
    bool maybe;  /* CLI_WORDS that may be left out: the next argument is them if all are words */
    bool many;   /* may be repeated; then the destination is a gg_texts */
    bool or_dir; /* CLI_NEW_MODEL that may also be a new organ directory */
    bool local;  /* not over HTTP, because it needs a terminal or reads any file */
    bool binary; /* CLI_NEW_FILE that is not a text, and not written to a terminal */
} cli_option;

/* --type --part --names-from --layers --tensors, and --experts, which may follow, also as a map
 * from the base's experts to the donor's. */
extern const cli_option cli_selection[], cli_experts[], cli_expert_map[];
/* --strict and --no-strict of tools that write models. */
extern const cli_option cli_strict[];
/* --force and --partial of tools that write models, after the options of --strict. */
extern const cli_option cli_writes[];
/* -j -q -v --help --version, at the end of a table. --json may follow. */
extern const cli_option cli_common[];

/* Options that go together, for `needs`, `excludes` and `required`. */
#define NAMES_SELECTION "type part names-from layers tensors experts"
#define NAMES_MATCH "match map blend ancestor align add router " NAMES_SELECTION
#define NAMES_COMPARED NAMES_SELECTION " map sample split-experts"
#define NAMES_EDITS "delete rename set set-file"

typedef struct cli_row {
    const cli_option *o;
    void *to;
    size_t first; /* the first row with the same destination */
    bool given;   /* of the first row */
} cli_row;

/* A file other than a model that an option reads. */
typedef struct cli_input {
    char *path;
    const char *option;
    gg_stamp stamp;
} cli_input;

/* Declares the cli of the tool organ-VERB, whose file has the texts `help`: what --help prints
 * before the options and after them. Paths of the source tree are replaced where a tool is
 * installed. */
#define CLI_TOOL(name, verb) \
    cli name = { .tool = "organ-" #verb, .intro = help[0], .examples = help[1] }

typedef struct cli {
    const char *tool;
    const char *intro;    /* the help before the options */
    const char *examples; /* and after them */
    /* filled by cli_start: */
    const char *where_columns;
    bool json, quiet;
    int verbose;
    uint64_t threads;
    gg_texts selected[GG_SELECT_KINDS]; /* as given */
    gg_select *select;                  /* the same, parsed; NULL when nothing was selected */
    gg_texts wheres;                    /* values of --where */
    where *where;                       /* the same, parsed */
    gg_texts args;                      /* positional arguments in order; "-" is one */
    const char **files;                 /* those of them that are files to read */
    size_t n_files;
    gg_run run;
    gg_progress progress;
    gg_error err;
    gg_error changed; /* an input that changed meanwhile: the option of each gg_source_open_with */
    cli_input *inputs;
    size_t n_inputs;
    bool stored_names;       /* cli_open shows what cannot be converted, see gg_organ.h */
    bool pairs_only;         /* of an adapter, for cli_open */
    gg_source *adapter_base; /* for cli_open of a PEFT adapter; may be NULL */
    double adapter_alpha;
    const char *pre; /* for cli_open of a checkpoint: its pre-tokenizer; may be NULL */
    bool whole;      /* for cli_open of a checkpoint: its tokenizer is needed */
    cli_row *rows;   /* all options */
    size_t n_rows;
    void (*act)(struct cli *c);
    /* Prints what a successful run wrote, perhaps in place. NULL: cli_end names the files. */
    void (*tell)(const struct cli *c, bool in_place);
    /* Called by cli_end before outputs get their names; may be NULL. Returns the status. */
    gg_status (*finish)(struct cli *c, gg_status status);
    const char *card;            /* --card, see card.h */
    struct gg_output *card_file; /* the open file of --card */
} cli;

void cli_start(cli *c, int argc, char **argv, const cli_option *options);

/* Called by cli_start: no file that is opened later gets the number of a closed stdin, stdout or
 * stderr. */
void cli_hold_descriptors(void);

/* Whether an option of this name, or of another name for it, was given. */
bool cli_given(const cli *c, const char *name);
/* The same for one of several names, separated by spaces. */
bool cli_given_any(const cli *c, const char *names);

/* Exits if a file that is to be changed in place was given by a name of organ-models. */
void cli_require_own(const cli *c, const char *path);

/* Open a model. What the user should know about it (a lone shard, missing data) is printed
 * as a note. Fails if an output of the table would replace a file of it. CLI_HEADER_ONLY accepts
 * incomplete data; CLI_SPOOLED stores a pipe first. */
typedef enum cli_open_kind { CLI_DATA, CLI_HEADER_ONLY, CLI_SPOOLED } cli_open_kind;
gg_status cli_open(cli *c, const char *spec, cli_open_kind kind, gg_source **out);
/* gg_source_like, with a note. */
gg_status cli_like(cli *c, const gg_source *like, gg_source **source);

/* Whether a path exists, as gg_stat. The tool ends if that cannot be found out. */
struct stat;
bool cli_stat(cli *c, const char *path, struct stat *s);

/* Prints a range of bytes for a program that fetches a part of a model (--reads), without header.
 */
void cli_print_read(void *ctx, const char *file, uint64_t place, uint64_t bytes);

/* Reads all of a file, or of stdin for "-". GG_EFORMAT if it has more than `most` bytes. */
gg_status cli_read_file(const char *path, size_t most, gg_buf *text, gg_error *err);

/* Print the error, if any, check that all output was written, and return the exit code.
 * An interrupted run ends by its signal instead. */
int cli_end(cli *c, gg_status status);

/* Print an error in one line on stderr, for a tool that goes on with the next model. */
void cli_print_error(const cli *c, const gg_error *err);

/* Report a usage mistake in one line on stderr and exit with 2. */
_Noreturn void cli_usage(const cli *c, const char *fmt, ...) GG_PRINTF(2, 3);

/* Print a note on stderr: one line, escaped. Prints nothing with --quiet. */
void cli_note(const cli *c, const char *fmt, ...) GG_PRINTF(2, 3);

/* Returns the only positional argument or the option's value; exactly one must be given. */
const char *cli_one(const cli *c, const char *option_value, const char *what);

/* Set the error for output lost on stdout, with its remedy, and return GG_EIO. `why` is
 * the errno of the failed write, or 0 if unknown. */
gg_status cli_stdout_lost(gg_error *err, int why);

/* Whether a path, which may be NULL, is standard output. */
static inline bool cli_is_stdout(const char *path)
{
    return path && path[0] == '-' && !path[1];
}

/* Whether a path, which may be NULL, ends with this and has a name before it. */
static inline bool cli_has_ending(const char *path, const char *ending)
{
    return path && gg_text_ends(path, strlen(path), ending);
}

/* The plural ending of a count: "" for 1, else "s". */
static inline const char *cli_s(uint64_t n)
{
    return n == 1 ? "" : "s";
}

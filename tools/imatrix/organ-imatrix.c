/* organ-imatrix - add up, convert and look at importance matrices, and let them follow a model. */
#include "common/cli.h"
#include "common/model_text.h"
#include "common/table.h"

#include "gg_imatrix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The help before the options, and after them. */
/* clang-format off */
static const char *const help[2] = {
    "usage: organ-imatrix combine FILE... --output FILE\n"
    "       organ-imatrix convert FILE --output FILE\n"
    "       organ-imatrix follow NEW FILE MODEL [FILE MODEL]... --output FILE\n"
    "       organ-imatrix show FILE [--experts]\n"
    "Importance matrices as GGUF or in the older format. combine adds sums and\n"
    "counts. follow writes one for the model NEW, which was made from MODEL by\n"
    "organ-stack, by removing experts, or by a transplant from another MODEL. show\n"
    "prints the statistics of llama-imatrix.\n"
    ,
    "  organ-imatrix show tests/data/lab/lab-verse.imatrix.gguf\n"
    "  organ-imatrix convert tests/data/lab/lab-verse.imatrix.gguf \\\n"
    "    -o /tmp/verse.imatrix.dat --force\n"
    "  organ-stack --drop 2 tests/data/lab/lab-verse-q4_k_m.gguf \\\n"
    "    -o /tmp/3.gguf --force\n"
    "  organ-imatrix follow /tmp/3.gguf tests/data/lab/lab-verse.imatrix.gguf \\\n"
    "    tests/data/lab/lab-verse-q4_k_m.gguf -o /tmp/3.imatrix.gguf --force\n"
    "exit: 0 done, 1 files of different models or no entry that fits, 2 usage,\n"
    "3 malformed input, 4 I/O failure\n"
};
/* clang-format on */

static struct {
    const char *output, *model, *format;
    uint64_t chunk;
    bool show, experts;
} opt;

static const cli_option options[] = {
    { "", CLI_TEXT, .arg = "ACTION", .place = 1 },
    { "", CLI_FILE, .arg = "FILE", .place = 2, .many = true },
    { "output", CLI_NEW_MODEL, .to = &opt.output, .arg = "FILE",
      .help = "the importance matrix to write" },
    { "format", CLI_TEXT, .to = &opt.format, .arg = "F", .values = "gguf dat",
      .help = "gguf or dat, the older format (default: dat for a name that ends in .dat)" },
    { "model", CLI_MODEL, .to = &opt.model, .arg = "M",
      .help = "the model of an importance matrix in the older format, which does not state the "
              "number of experts" },
    { "chunk-size", CLI_U64, .to = &opt.chunk, .arg = "N", .low = 1, .high = 1e9,
      .help = "tokens of a call in the older format (default: as another file states, or 512)" },
    { "show", CLI_FLAG, .to = &opt.show, .help = "the same as the action show" },
    { "experts", CLI_FLAG, .to = &opt.experts, .help = "with show: also one row per expert" },
    { "force", CLI_FLAG, .at = offsetof(cli, run.force), .help = "replace an existing output" },
    { .group = cli_common },
    { "json", CLI_FLAG, .at = offsetof(cli, json), .flow = ", ", .help = "(of show)" },
    { 0 },
};

static gg_status print_row(void *ctx, const gg_imatrix_row *r, gg_error *err)
{
    table *t = ctx;
    table_begin(t,
                "name\texpert\tcolumns\tcount\tshare\tsum\tmin\tmax\tmean\tstd\tactive\tentropy\t"
                "evenness\toutliers\tcosine");
    table_line(t, cell_bytes(r->name, r->name_len), cell_i64_if(r->expert), cell_u64(r->columns),
               cell_f64(r->count), cell_f64(r->share), cell_f64_if(r->sum), cell_f64_if(r->min),
               cell_f64_if(r->max), cell_f64_if(r->mean), cell_f64_if(r->std),
               cell_f64_if(r->active), cell_f64_if(r->entropy), cell_f64_if(r->evenness),
               cell_f64_if(r->outliers), cell_f64_if(r->cosine));
    return ferror(stdout) ? cli_stdout_lost(err, table_errno()) : GG_OK;
}

static gg_status show(cli *c, const char *path, const gg_imatrix_options *o)
{
    table t = { .json = c->json };
    return gg_imatrix_show(path, opt.experts, o, print_row, &t, &c->err);
}

static gg_status follow(cli *c, const char *const *args, size_t n)
{
    gg_imatrix_of *from = calloc(n / 2 + 1, sizeof *from);
    gg_imatrix_report r = { 0 };
    gg_source *model = NULL;
    gg_status st = from ? cli_open(c, args[0], CLI_DATA, &model)
                        : gg_fail(&c->err, GG_ENOMEM, "out of memory");
    for (size_t i = 0; 2 * i + 1 < n && st == GG_OK; i++) {
        from[i].path = args[2 * i + 1];
        st = cli_open(c, args[2 * i + 2], CLI_DATA, &from[i].model);
    }
    if (st == GG_OK) st = gg_imatrix_follow(model, from, opt.output, &c->run, &r, &c->err);
    if (st == GG_OK && c->verbose)
        cli_note(c, "%zu entries, %zu of them found by name", r.entries, r.by_name);
    for (size_t i = 0; from && i < n / 2; i++) gg_source_close(from[i].model);
    gg_source_close(model);
    free(from);
    return st;
}

/* An importance matrix that is read must not be replaced. */
static void guard_inputs(cli *c)
{
    struct stat in, out;
    if (!opt.output || !cli_stat(c, opt.output, &out)) return;
    for (size_t i = 0; i < c->args.n; i++)
        if (cli_stat(c, c->args.items[i], &in) && in.st_dev == out.st_dev &&
            in.st_ino == out.st_ino)
            cli_usage(c, "%s: this output is also an input: choose another name", opt.output);
}

/* Whether the older format is to be written. */
static bool old_format(const cli *c)
{
    bool old = opt.format ? strcmp(opt.format, "dat") == 0 : cli_has_ending(opt.output, ".dat");
    if (opt.format && !old && strcmp(opt.format, "gguf") != 0)
        cli_usage(c, "--format %s: use gguf or dat", opt.format);
    if (old && cli_is_stdout(opt.output))
        cli_usage(c, "the older format cannot be written to stdout: name a file");
    return old;
}

typedef enum imatrix_action { SHOW, FOLLOW, COMBINE, CONVERT, UNKNOWN } imatrix_action;
static const char *const actions[] = { "show", "follow", "combine", "convert" };

/* Checks the number of files and the options of an action. */
static void check_action(const cli *c, imatrix_action a, size_t n)
{
    const char *action = actions[a];
    if (n == 0) cli_usage(c, "%s takes an importance matrix", action);
    if ((a == SHOW || a == CONVERT) && n != 1)
        cli_usage(c, "%s takes one importance matrix at a time", action);
    if (a == FOLLOW && (n < 3 || n % 2 == 0))
        cli_usage(c, "follow takes the new model, and then pairs of an importance matrix and its "
                     "model");
    if (a == SHOW && opt.output) cli_usage(c, "show prints to stdout and takes no --output");
    if (a != SHOW && !opt.output) cli_usage(c, "%s needs --output", action);
    if (a != SHOW && opt.experts) cli_usage(c, "--experts prints rows, so it needs show");
    if (a == FOLLOW && old_format(c)) cli_usage(c, "follow writes GGUF; convert its result");
}

static gg_status run_action(cli *c, const char *action, const char *const *args, size_t n)
{
    gg_imatrix_options o = { .chunk_size = (uint32_t)opt.chunk };
    imatrix_action a = UNKNOWN;
    for (int i = SHOW; i < UNKNOWN; i++)
        if (strcmp(action, actions[i]) == 0) a = (imatrix_action)i;
    if (a == UNKNOWN)
        cli_usage(c, "unknown action '%s': use combine, convert, follow or show", action);
    check_action(c, a, n);
    guard_inputs(c);
    if (a == FOLLOW) return follow(c, args, n);
    gg_status st = opt.model ? cli_open(c, opt.model, CLI_HEADER_ONLY, &o.model) : GG_OK;
    o.old_format = a != SHOW && old_format(c);
    if (st == GG_OK)
        st = a == SHOW ? show(c, args[0], &o)
                       : gg_imatrix_combine(args, n, &o, opt.output, &c->run, &c->err);
    gg_source_close(o.model);
    return st;
}

int main(int argc, char **argv)
{
    CLI_TOOL(c, imatrix);
    cli_start(&c, argc, argv, options);
    cli_writes_models(&c);
    if (c.args.n == 0) cli_usage(&c, "no action given: use combine, convert, follow or show");
    const char *action = opt.show ? "show" : c.args.items[0];
    const char *const *args = c.args.items + !opt.show;
    return cli_end(&c, run_action(&c, action, args, c.args.n - !opt.show));
}

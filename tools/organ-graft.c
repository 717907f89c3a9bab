/* organ-graft - write an organ directory that combines the organs of two models. */
#include "cli.h"
#include "match_options.h"
#include "moves_table.h"
#include "pictures.h"

#include "organ/gg_graft.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: organ-graft --source DONOR --target BASE --output DIR [selection]\n"
    "       organ-graft --source DONOR --target BASE --check [selection]\n"
    "       organ-graft --adapter LORA --target BASE --output DIR [--scale S]\n"
    "       organ-graft --svg FILE DIR\n"
    "Write a new organ directory: BASE with the selected organs of DONOR. Both are\n"
    "organ directories or models; - is stdin. --donor means --source, and --base\n"
    "means --target.\n"
    "\n"
    "  --match MODE       exact: equal dims and dtype (default); retype: keep the\n"
    "                     donor's dtype; convert: re-encode in the base's dtype\n"
    "  --map 10-15=20-25  donor blocks 20-25 into base blocks 10-15, nothing else\n"
    "  --blend MODE:T     linear, slerp or task (with --ancestor MODEL); T is a\n"
    "                     number or a ramp over the blocks, 0.2..0.8; the result\n"
    "                     has the base's dtype\n"
    "  --align            bring the donor's hidden units into the base's order first\n"
    "  --check            print what would move, what does not match, and the\n"
    "                     lineage; exit 1 if something does not match\n"
    "  --skip-mismatched  leave out tensors that do not match\n"
    "  --add              also take tensors that the base does not have\n"
    "  --experts 3,2=5    only these experts of stacks: 3 from 3, 2 from 5;\n"
    "                     --router also takes their rows of the router\n"
    "  --adapter LORA     fold W + S (alpha/r) B A into the weights; --scale S (1)\n"
    "  --imatrix F        encode with the importance matrix F (GGUF or older format)\n"
    "  --svg FILE         draw where each tensor of the output, or of DIR, comes from\n"
    "  --link             hard-link unchanged files (both directories share them)\n"
    "  --strict           write nothing if an engine would refuse the result\n"
    "  --force            replace an existing organ directory\n"
    "select: --type CLASS,... --part PART,... --layers 5-20\n"
    "        --tensors GLOB,... --names-from FILE|-\n"
    "common: -j N, -q, -v, --json (with --check), --help, --version\n"
    "\n"
    "examples:\n"
    "  organ-graft --source tests/data/lab/lab-code-q4_k_m.gguf --type organ \\\n"
    "    --target tests/data/lab/lab-verse-q4_k_m.gguf --check\n"
    "  organ-graft --source tests/data/lab/lab-code-q4_k_m.gguf --layers 1-2 \\\n"
    "    --target tests/data/lab/lab-verse-q4_k_m.gguf --blend slerp:0.5 \\\n"
    "    --output /tmp/graft.organs --force\n"
    "exit: 0 done, 1 does not match, 2 usage, 3 malformed input, 4 I/O failure\n";

typedef struct arguments {
    const char *source, *target, *output, *adapter, *svg;
    match_options match;
    cli_list adapters;
    bool check;
    double scale;
    gg_graft_options o;
} arguments;

static gg_status check(cli *c, const arguments *a, gg_source *base, gg_source *donor)
{
    gg_moves moves = { 0 };
    gg_status st = gg_match_tensors(base, donor, &a->o.match, &moves, &c->err);
    if (st == GG_OK) st = moves_check(c, base, donor, &moves);
    gg_moves_free(&moves);
    return st;
}

/* The picture of a finished organ directory, by its history. */
static gg_status draw(cli *c, const char *dir, const char *svg)
{
    return picture_finished(c, dir, svg, "Where each tensor comes from:", gg_picture_origins);
}

static gg_status graft(cli *c, arguments *a)
{
    gg_source *base = NULL, *donor = NULL;
    gg_transplant_report r = { 0 };
    gg_status st = cli_open(c, a->adapter ? a->adapter : a->source, CLI_SPOOLED, &donor);
    if (st == GG_OK) st = cli_open(c, a->target, CLI_SPOOLED, &base);
    if (st == GG_OK) st = picture_allowed(c, a->svg, base);
    if (st == GG_OK) st = picture_allowed(c, a->svg, donor);
    gg_source *used = donor;
    if (st == GG_OK) st = match_options_align(c, &a->match, base, &used);
    a->o.match = a->match.match;
    a->o.match.weighed = a->o.imatrix != NULL;
    if (st == GG_OK && a->check) st = check(c, a, base, used);
    else if (st == GG_OK) st = gg_graft(base, used, &a->o, a->output, &c->run, &r, &c->err);
    match_options_unalign(&a->match);
    gg_source_close(base);
    gg_source_close(donor);
    if (st == GG_OK && !a->check && (c->verbose || r.skipped))
        cli_note(c, "%zu tensor%s changed, %zu added, %zu left out; %llu bytes", r.moved,
                 cli_s(r.moved), r.added, r.skipped, (unsigned long long)r.bytes_moved);
    if (st == GG_OK && a->svg) st = draw(c, a->output, a->svg);
    return st;
}

static void check_usage(const cli *c, const arguments *a)
{
    if (c->args.n) cli_usage(c, "unexpected argument '%s'", c->args.items[0]);
    if (a->svg && a->check) cli_usage(c, "--svg draws what was written: leave out --check");
    if (!a->target) cli_usage(c, "give --target");
    if ((a->source != NULL) + (a->adapter != NULL) != 1) cli_usage(c, "give --source or --adapter");
    if (!a->output && !a->check) cli_usage(c, "give --output or --check");
    bool matches = match_options_given(c, &a->match) || a->match.match.router ||
                   a->o.skip_mismatched;
    if (a->adapter && (a->check || matches))
        cli_usage(c, "--adapter takes only --target, --output, --scale, --imatrix and --link");
    if (c->json && !a->check) cli_usage(c, "--json needs --check: nothing else prints a table");
    if (!isnan(a->scale) && !a->adapter)
        cli_usage(c, "--scale needs --adapter; to scale a blend, use its T: --blend linear:%g",
                  a->scale);
    if (a->match.match.router && !gg_select_has_experts(c->select))
        cli_usage(c, "--router needs --experts");
}

int main(int argc, char **argv)
{
    cli c = { .tool = "organ-graft",
              .help = help,
              .selects = true,
              .maps_experts = true,
              .has_json = true,
              .has_force = true,
              .has_strict = true };
    arguments a = { .scale = NAN }; /* not given */
    const cli_option options[] = { { "source", CLI_TEXT, &a.source },
                                   { "target", CLI_TEXT, &a.target },
                                   { "donor", CLI_TEXT, &a.source },
                                   { "base", CLI_TEXT, &a.target },
                                   { "output", CLI_TEXT, &a.output },
                                   MATCH_OPTIONS(a.match),
                                   { "adapter", CLI_LIST, &a.adapters },
                                   { "scale", CLI_F64, &a.scale },
                                   { "imatrix", CLI_TEXT, &a.o.imatrix },
                                   { "check", CLI_FLAG, &a.check },
                                   { "skip-mismatched", CLI_FLAG, &a.o.skip_mismatched },
                                   { "router", CLI_FLAG, &a.match.match.router },
                                   { "link", CLI_FLAG, &a.o.link },
                                   { "svg", CLI_TEXT, &a.svg },
                                   { NULL, CLI_FLAG, NULL } };
    /* Accept `organ-graft graft ...`, as the original tool did. */
    if (argc > 1 && strcmp(argv[1], "graft") == 0) argv++, argc--;
    cli_start(&c, argc, argv, options);
    if (a.adapters.n > 1)
        cli_usage(&c,
                  "only one --adapter at a time: apply the next one to the output of the first");
    if (a.adapters.n) a.adapter = a.adapters.items[0];
    if (a.svg && c.args.n == 1 && !a.target && !a.source && !a.adapter && !a.output)
        return cli_end(&c, draw(&c, c.args.items[0], a.svg));
    match_options_check(&c, &a.match);
    check_usage(&c, &a);
    a.o.adapter = a.adapter != NULL;
    a.o.scale = isnan(a.scale) ? 1 : a.scale;
    gg_status st = match_options_open(&c, &a.match);
    if (st == GG_OK) st = graft(&c, &a);
    match_options_close(&a.match);
    free(a.adapters.items);
    return cli_end(&c, st);
}

/* organ-graft - write an organ directory that combines the organs of two models. */
#include "common/card.h"
#include "common/cli.h"
#include "common/model_text.h"
#include "common/pictures.h"
#include "match_options.h"

#include "gg_transplant.h"

#include <string.h>

/* The help before the options, and after them. */
/* clang-format off */
static const char *const help[2] = {
    "usage: organ-graft BASE DONOR --output DIR|NEW.gguf [selection]\n"
    "       organ-graft BASE DONOR --check [selection]\n"
    "       organ-graft BASE --adapter LORA -o DIR [--scale S]\n"
    "       organ-graft --svg FILE DIR\n"
    "Write a new organ directory, or a model as organ-transplant does: BASE with the\n"
    "selected organs of DONOR. Both are organ directories or models; - is stdin.\n"
    "They may be named: --base or --target, --donor or --source.\n"
    ,
    "  organ-graft tests/data/lab/lab-verse-q4_k_m.gguf \\\n"
    "    tests/data/lab/lab-code-q4_k_m.gguf --type ffn --check\n"
    "  organ-graft tests/data/lab/lab-verse-q4_k_m.gguf --layers 1-2 \\\n"
    "    tests/data/lab/lab-code-q4_k_m.gguf --blend slerp:0.5 \\\n"
    "    --output /tmp/graft.organs --force\n"
    "exit: 0 done, 1 does not match, 2 usage, 3 malformed input, 4 I/O failure\n"
};
/* clang-format on */

static struct {
    const char *source, *target, *output, *svg, *finished;
    match_options m;
    gg_texts adapters;
} opt = { .m.o.scale = 1 };

static const cli_option options[] = {
    { "source", CLI_MODEL, .to = &opt.source, .arg = "DONOR", .place = 2 },
    { "target", CLI_MODEL, .to = &opt.target, .arg = "BASE", .place = 1 },
    { "donor", CLI_MODEL, .to = &opt.source },
    { "base", CLI_MODEL, .to = &opt.target },
    { "output", CLI_NEW_DIR, .to = &opt.output },
    { .group = match_group, .to = &opt.m },
    { "check", CLI_FLAG, .to = &opt.m.check,
      .help = "print what would move, what does not match (exit 1), and the lineage; --reads: "
              "which bytes are read" },
    { "skip-mismatched", CLI_FLAG, .to = &opt.m.o.skip_mismatched,
      .help = "leave out tensors that do not match" },
    { "adapter", CLI_MODEL, .to = &opt.adapters, .arg = "LORA", .many = true,
      .excludes = "check reads skip-mismatched " NAMES_MATCH,
      .excludes_why = "takes only --target, --output, --scale, --imatrix and --link",
      .help = "fold W + S (alpha/r) B A into the weights; --scale S (1)" },
    { "scale", CLI_F64, .to = &opt.m.o.scale, .needs = "adapter",
      .needs_why = "to scale a blend, use its T: --blend linear:0.5" },
    { "imatrix", CLI_FILE, .to = &opt.m.o.output.imatrix, .arg = "F",
      .help = "encode with the importance matrix F (GGUF or older format)" },
    { "imatrix-out", CLI_NEW_FILE, .binary = true, .to = &opt.m.o.imatrix_out, .arg = "FILE",
      .needs = "imatrix", .excludes = "check reads",
      .help = "write --imatrix for the result; --donor-imatrix FILE" },
    { "donor-imatrix", CLI_FILE, .to = &opt.m.o.donor_imatrix, .needs = "imatrix-out",
      .excludes = "adapter" },
    { "svg", CLI_NEW_FILE, .to = &opt.svg, .arg = "FILE", .excludes = "check",
      .excludes_why = "draws what was written",
      .help = "draw where each tensor of the output, or of DIR, comes from" },
    { "link", CLI_FLAG, .to = &opt.m.o.link,
      .help = "hard-link unchanged files (both directories share them)" },
    { .group = match_last },
    { 0 },
};

/* The picture of a finished organ directory, by its history. */
static gg_status draw(cli *c, const char *dir, const char *svg)
{
    opt.output = NULL; /* written, and now read */
    return picture_finished(c, dir, svg, "Where each tensor comes from:", gg_picture_origins);
}

static gg_status graft(cli *c)
{
    const char *adapter = opt.adapters.n ? opt.adapters.items[0] : NULL;
    gg_source *base = NULL, *donor = NULL;
    gg_status st = cli_open(c, opt.target, CLI_SPOOLED, &base);
    c->adapter_base = base;
    if (st == GG_OK) st = cli_open(c, adapter ? adapter : opt.source, CLI_SPOOLED, &donor);
    if (st == GG_OK) st = picture_allowed(c, opt.svg);
    if (st == GG_OK) st = match_options_run(c, &opt.m, base, &donor, opt.output, false);
    c->adapter_base = NULL; /* the picture opens the result */
    gg_source_close(base);
    gg_source_close(donor);
    if (st == GG_OK && opt.svg && !opt.m.reads) st = draw(c, opt.output, opt.svg);
    return st;
}

/* Checks what a finished directory, or else a graft, needs. */
static void check_inputs(const cli *c)
{
    bool donor = opt.source || opt.adapters.n;
    if (c->args.n == 1 && opt.svg && !donor && !opt.output) opt.finished = opt.target;
    if (opt.finished) return;
    opt.m.o.directory = !cli_has_ending(opt.output, ".gguf");
    if (!opt.m.o.directory && (opt.svg || opt.m.o.link))
        cli_usage(c, "--%s needs an organ directory, but %s would be a model: choose another name",
                  opt.svg ? "svg" : "link", opt.output);
    if (!opt.target) cli_usage(c, "give --target");
    if (!donor || (opt.source && opt.adapters.n)) cli_usage(c, "give --source or --adapter");
    if (!opt.output && !opt.m.check && !opt.m.reads) cli_usage(c, "give --output or --check");
    if (opt.adapters.n > 1)
        cli_usage(c, "only one --adapter at a time: apply the next one to the output of the first");
}

int main(int argc, char **argv)
{
    CLI_TOOL(c, graft);
    /* Accept `organ-graft graft ...`, as the original tool did. */
    if (argc > 1 && strcmp(argv[1], "graft") == 0) argv++, argc--;
    cli_start(&c, argc, argv, options);
    cli_writes_models(&c);
    card_begin(&c);
    check_inputs(&c);
    if (opt.finished) return cli_end(&c, draw(&c, opt.finished, opt.svg));
    opt.m.o.adapter = opt.adapters.n > 0;
    gg_status st = match_options_open(&c, &opt.m);
    if (st == GG_OK) st = graft(&c);
    match_options_close(&opt.m);
    return cli_end(&c, st);
}

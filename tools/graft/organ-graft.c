/* organ-graft - write an organ directory that combines the organs of two models. */
#include "common/cli.h"
#include "common/pictures.h"
#include "match_options.h"
#include "organ/gg_check.h"

#include "gg_transplant.h"

#include <string.h>

static struct {
    const char *source, *target, *output, *svg, *finished;
    match_options m;
    gg_texts adapters;
} opt = { .m.o.scale = 1 };

#include "options/graft.h"

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
    c.run.review = gg_check_review;
    check_inputs(&c);
    if (opt.finished) return cli_end(&c, draw(&c, opt.finished, opt.svg));
    opt.m.o.adapter = opt.adapters.n > 0;
    gg_status st = match_options_open(&c, &opt.m);
    if (st == GG_OK) st = graft(&c);
    match_options_close(&opt.m);
    return cli_end(&c, st);
}

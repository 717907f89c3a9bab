/* organ-transplant - replace tensors of a base by those of a donor, from file to file. */
#include "common/cli.h"
#include "common/output_options.h"
#include "match_options.h"
#include "organ/gg_check.h"
#include "organ/gg_patch.h"

#include <string.h>

static struct {
    const char *base, *donor, *output, *undo, *adapter;
    match_options m;
    bool in_place, no_undo, all; /* the last two with in_place */
} opt = { .m.o.scale = 1 };

#include "options/transplant.h"

static gg_status apply_patch(cli *c, gg_source *patch)
{
    gg_source *base = NULL;
    gg_patch_report r = { 0 };
    if (cli_given_any(c, NAMES_MATCH " mtp skip-mismatched set-kv set-kv-file copy-kv dtype shards "
                                     "shard-size check in-place reads imatrix-out"))
        cli_usage(c, "the donor is a patch, which is always applied as a whole: give only --base, "
                     "--donor and --output");
    gg_status st = cli_open(c, opt.base, CLI_SPOOLED, &base);
    if (st == GG_OK) st = gg_patch_apply(base, patch, opt.output, &c->run, &r, &c->err);
    gg_source_close(base);
    if (st == GG_OK && c->verbose)
        cli_note(c, "patch: %zu tensor%s and %zu key%s set, %zu and %zu deleted; %llu bytes",
                 r.tensors, cli_s(r.tensors), r.keys, cli_s(r.keys), r.deleted_tensors,
                 r.deleted_keys, (unsigned long long)r.bytes);
    return st;
}

/* Checks the options that are required unless the donor is an undo stream. */
static void check_in_place(const cli *c)
{
    if (!opt.undo && !opt.no_undo)
        cli_usage(c,
                  "--in-place overwrites %s: give --undo FILE to be able to restore it, or "
                  "--no-undo",
                  opt.base);
    if (!c->select && !opt.m.map && !opt.all)
        cli_usage(c, "--in-place without a selection replaces every tensor: give --type, "
                     "--layers, --tensors or another selection, or --all");
}

/* Opens the donor; or an adapter, after its base. */
static gg_status open_donor(cli *c, gg_source **base, gg_source **donor)
{
    if (!opt.adapter) return cli_open(c, opt.donor, CLI_SPOOLED, donor);
    gg_status st = cli_open(c, opt.base, CLI_SPOOLED, base);
    c->adapter_base = *base;
    return st == GG_OK ? cli_open(c, opt.adapter, CLI_SPOOLED, donor) : st;
}

static gg_status transplant(cli *c)
{
    gg_source *donor = NULL, *base = NULL;
    gg_status st = open_donor(c, &base, &donor);
    if (st == GG_OK && !opt.adapter && gg_is_patch(donor)) {
        st = apply_patch(c, donor);
        gg_source_close(donor);
        return st;
    }
    bool in_place = opt.in_place && !opt.m.check && !opt.m.reads;
    if (st == GG_OK && in_place && gg_source_meta(donor)) check_in_place(c);
    if (st == GG_OK && !base)
        st = in_place ? gg_source_open(opt.base, &base, &c->err)
                      : cli_open(c, opt.base, CLI_SPOOLED, &base);
    if (st == GG_OK)
        st = match_options_run(c, &opt.m, base, &donor, in_place ? opt.undo : opt.output, in_place);
    gg_source_close(base);
    gg_source_close(donor);
    return st;
}

int main(int argc, char **argv)
{
    CLI_TOOL(c, transplant);
    cli_start(&c, argc, argv, options);
    c.run.review = gg_check_review;
    if (strcmp(opt.base, "-") == 0 && opt.in_place)
        cli_usage(&c, "--base -: stdin cannot be changed in place; give a file name");
    opt.m.o.adapter = opt.adapter != NULL;
    output_options_end(&c, &opt.m.o.output);
    gg_status st = match_options_open(&c, &opt.m);
    if (st == GG_OK) st = transplant(&c);
    match_options_close(&opt.m);
    return cli_end(&c, st);
}

/* organ-transplant - replace tensors of a base by those of a donor, from file to file. */
#include "common/card.h"
#include "common/cli.h"
#include "common/model_text.h"
#include "common/output_options.h"
#include "match_options.h"
#include "patch_apply.h"

#include <string.h>

/* The help before the options, and after them. */
/* clang-format off */
static const char *const help[2] = {
    "usage: organ-transplant BASE DONOR --output CHIMERA.gguf | --check\n"
    "       organ-transplant BASE DONOR --in-place --undo FILE\n"
    "       organ-transplant BASE --adapter LORA -o FILE.gguf\n"
    "Replace tensors of BASE by those of DONOR: models, organ directories or records;\n"
    "- is stdin or stdout. Names for them: --base or --target, --donor or --source.\n"
    "A DONOR that is a patch (organ-compare --patch) is applied as a whole.\n"
    ,
    "  organ-transplant tests/data/lab/lab-verse-q4_k_m.gguf \\\n"
    "    tests/data/lab/lab-code-q4_k_m.gguf --type ffn --layers 1 --check\n"
    "  organ-transplant tests/data/lab/lab-verse-q4_k_m.gguf --type ffn \\\n"
    "    tests/data/lab/lab-code-q4_k_m.gguf --output /tmp/c.gguf --force\n"
    "exit: 0 done, 1 does not match, 2 usage, 3 malformed input, 4 I/O failure\n"
};
/* clang-format on */

static struct {
    const char *base, *donor, *output, *undo, *adapter;
    match_options m;
    bool in_place, no_undo, all; /* the last two with in_place */
} opt = { .m.o.scale = 1 };

static const cli_option options[] = {
    { "base", CLI_MODEL, .to = &opt.base, .arg = "BASE", .place = 1, .required = "" },
    { "donor", CLI_MODEL, .to = &opt.donor, .arg = "DONOR", .place = 2, .excludes = "adapter",
      .required = "adapter" },
    { "target", CLI_MODEL, .to = &opt.base },
    { "source", CLI_MODEL, .to = &opt.donor },
    { "output", CLI_NEW_MODEL, .to = &opt.output, .excludes = "in-place",
      .required = "check in-place reads" },
    { .group = match_group, .to = &opt.m },
    { "check", CLI_FLAG, .to = &opt.m.check,
      .help = "print what would move, and what does not match" },
    { "skip-mismatched", CLI_FLAG, .to = &opt.m.o.skip_mismatched,
      .help = "leave out these; --reads: print which bytes would be read" },
    { "mtp", CLI_FLAG, .to = &opt.m.o.match.mtp,
      .excludes = "in-place skip-mismatched " NAMES_MATCH, .excludes_why = "moves whole blocks",
      .help = "take the donor's multi-token-prediction blocks and keys" },
    { "copy-kv", CLI_TEXT, .to = &opt.m.o.copy_kv, .arg = "K", .many = true,
      .help = "copy the donor's key; K* copies all keys that start with K" },
    { "adapter", CLI_MODEL, .to = &opt.adapter, .arg = "LORA",
      .excludes = "check reads mtp skip-mismatched copy-kv " NAMES_MATCH,
      .excludes_why = "cannot be combined with options for pairs of tensors",
      .help = "fold W + S (alpha/r) B A into the weights; --scale S (1)" },
    { "scale", CLI_F64, .to = &opt.m.o.scale, .needs = "adapter",
      .needs_why = "to scale a blend, use its T: --blend linear:0.5" },
    { .group = output_group, .to = &opt.m.o.output },
    { "imatrix-out", CLI_NEW_FILE, .binary = true, .to = &opt.m.o.imatrix_out, .arg = "FILE",
      .needs = "imatrix", .excludes = "check reads in-place",
      .help = "write --imatrix for the result; --donor-imatrix FILE" },
    { "donor-imatrix", CLI_FILE, .to = &opt.m.o.donor_imatrix, .needs = "imatrix-out",
      .excludes = "adapter" },
    { "in-place", CLI_FLAG, .to = &opt.in_place, .excludes = "adapter dtype shards shard-size",
      .excludes_why = "makes no new model (use --output)",
      .help = "change BASE itself; --undo FILE saves the old bytes, --no-undo nothing; --all: "
              "every tensor; --follow: a link" },
    { "follow", CLI_FLAG, .at = offsetof(cli, run.follow), .needs = "in-place" },
    { "undo", CLI_NEW_FILE, .to = &opt.undo, .needs = "in-place", .excludes = "no-undo" },
    { "no-undo", CLI_FLAG, .to = &opt.no_undo, .needs = "in-place" },
    { "all", CLI_FLAG, .to = &opt.all, .needs = "in-place", .excludes = "map " NAMES_SELECTION },
    { .group = match_last },
    { 0 },
};

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
    cli_writes_models(&c);
    card_begin(&c);
    if (strcmp(opt.base, "-") == 0 && opt.in_place)
        cli_usage(&c, "--base -: stdin cannot be changed in place; give a file name");
    if (opt.in_place) cli_require_own(&c, opt.base);
    opt.m.o.adapter = opt.adapter != NULL;
    output_options_end(&c, &opt.m.o.output);
    gg_status st = match_options_open(&c, &opt.m);
    if (st == GG_OK) st = transplant(&c);
    match_options_close(&opt.m);
    return cli_end(&c, st);
}

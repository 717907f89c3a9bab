/* organ-prune - write a model with fewer experts or hidden units. */
#include "common/assemble_options.h"
#include "common/card.h"
#include "common/model_text.h"
#include "common/output_options.h"
#include "prune.h"

#include <stdlib.h>
#include <string.h>

/* The help before the options, and after them. */
/* clang-format off */
static const char *const help[2] = {
    "usage: organ-prune MODEL --output FILE --keep-experts N | --experts LIST\n"
    "       organ-prune MODEL --output FILE --keep-units N | --share 50%\n"
    "Write a mixture of experts with fewer experts, or any model with fewer hidden\n"
    "units in its FFNs. Routers and keys follow.\n"
    "MODEL may be named: --model or --dir.\n"
    ,
    "  organ-prune tests/data/lab/lab-verse-q4_k_m.gguf --keep-units 256 \\\n"
    "    --imatrix tests/data/lab/lab-verse.imatrix.gguf -o /tmp/thin.gguf --force\n"
    "  organ-prune tests/data/lab/lab-verse-q4_k_m.gguf --keep-units 384 \\\n"
    "    --imatrix tests/data/lab/lab-verse.imatrix.gguf --dry-run\n"
    "exit: 0 done, 1 the model has no such experts or units, 2 usage, 3 input, 4 I/O\n"
};
/* clang-format on */

static struct {
    const char *share;
    assemble_options a;
    gg_prune_options o;
} opt;

static const cli_option options[] = {
    { .group = assemble_places, .to = &opt.a },
    { "keep-experts", CLI_U64, .to = &opt.o.experts, .arg = "N", .low = 1, .high = 1e6,
      .excludes = "experts", .help = "keep the N best experts of each block" },
    { "experts", CLI_RANGE_FILE, .to = &opt.o.list, .arg = "LIST",
      .help = "keep experts by number: 0-63, or a file of block, tab, list" },
    { "keep-units", CLI_U64, .to = &opt.o.units, .arg = "N", .low = 1, .high = 1e9,
      .help = "keep the N best hidden units of each expert or FFN" },
    { "share", CLI_TEXT, .to = &opt.share, .arg = "50%", .excludes = "keep-units",
      .excludes_why = "chooses the number of units",
      .help = "keep this share of the weights, as fewer experts and units" },
    { "by", CLI_FILE, .to = &opt.o.by, .arg = "importance", .values = "importance",
      .needs = "keep-experts share",
      .help = "or rank experts by a table (block, expert, score) or activations" },
    { "refit", CLI_FILE, .to = &opt.o.refit, .arg = "F",
      .needs = "keep-units share keep-experts experts",
      .help = "fit the rest to activations of organ-probe" },
    { "imatrix-out", CLI_NEW_FILE, .binary = true, .to = &opt.o.imatrix_out, .arg = "FILE",
      .needs = "imatrix", .help = "write --imatrix for the new model" },
    { "text-imatrix", CLI_FILE, .to = &opt.o.texts, .arg = "F", .many = true,
      .needs = "keep-experts keep-units share",
      .help = "note what the text of this importance matrix loses" },
    { .group = output_group, .to = &opt.a.o.output },
    { .name = NULL,
      .help = "--imatrix tells which are the best. --dtype and --size need --experts." },
    { .group = assemble_types, .to = &opt.a },
    { .group = assemble_files },
    { .group = cli_common },
    { "json", CLI_FLAG, .at = offsetof(cli, json), .flow = ", ", .needs = "report dry-run",
      .help = "(tables)" },
    { 0 },
};

static void read_share(const cli *c)
{
    char *end = NULL;
    opt.o.share = strtod(opt.share, &end);
    if (*end == '%') opt.o.share /= 100, end++;
    if (*end || !(opt.o.share > 0 && opt.o.share < 1))
        cli_usage(c, "--share %s: use a share such as 50%% or 0.5", opt.share);
}

/* Checks what depends on the values of options. */
static void check_values(const cli *c)
{
    gg_prune_options *o = &opt.o;
    bool importance = !o->by || strcmp(o->by, "importance") == 0;
    if (!cli_given_any(c, "keep-experts experts keep-units share imatrix-out"))
        cli_usage(c, "give --keep-experts, --experts, --keep-units or --share");
    if (o->experts && importance && !opt.a.o.output.imatrix)
        cli_usage(c,
                  "--keep-experts %llu keeps the best experts, and needs --imatrix F or --by F to "
                  "rank them; --experts %llu keeps the expert of that number",
                  (unsigned long long)o->experts, (unsigned long long)o->experts);
    if ((o->units || opt.share || (o->by && importance)) && !opt.a.o.output.imatrix)
        cli_usage(c, "--%s needs --imatrix FILE",
                  o->units    ? "keep-units"
                  : opt.share ? "share"
                              : "by importance");
    if (opt.share) read_share(c);
}

static gg_status prune(void *ctx, gg_source *model, const gg_assemble_options *o,
                       const char *output, const gg_run *run, gg_assemble_report *report,
                       gg_error *err)
{
    gg_prune_options *how = ctx;
    how->how = *o;
    return gg_prune(model, how, output, run, report, err);
}

int main(int argc, char **argv)
{
    CLI_TOOL(c, prune);
    cli_start(&c, argc, argv, options);
    cli_writes_models(&c);
    card_begin(&c);
    check_values(&c);
    assemble_options_end(&c, &opt.a);
    if (opt.a.o.edit)
        cli_usage(&c,
                  "experts and units are removed under GGUF names: prune first, then use --names");
    return cli_end(&c, assemble_options_run(&c, &opt.a, prune, &opt.o));
}

/* organ-prune - write a model with fewer experts or hidden units. */
#include "common/cli.h"
#include "common/table.h"
#include "organ/gg_check.h"
#include "prune.h"

#include <stdlib.h>
#include <string.h>

/* The help before the options, and after them. */
/* clang-format off */
static const char *const help[2] = {
    "usage: organ-prune MODEL --output FILE --keep-experts N\n"
    "       organ-prune MODEL --output FILE --experts LIST\n"
    "       organ-prune MODEL --output FILE --keep-units N | --share 50%\n"
    "Write a mixture of experts with fewer experts, or any model with fewer hidden\n"
    "units in its FFNs. Routers and keys follow. MODEL may be named: --model.\n"
    ,
    "  organ-prune tests/data/lab/lab-verse-q4_k_m.gguf --keep-units 256 \\\n"
    "    --imatrix tests/data/lab/lab-verse.imatrix.gguf -o /tmp/thin.gguf --force\n"
    "  organ-prune tests/data/lab/lab-verse-q4_k_m.gguf --keep-units 384 \\\n"
    "    --imatrix tests/data/lab/lab-verse.imatrix.gguf --dry-run\n"
    "exit: 0 done, 1 the model has no such experts or units, 2 usage, 3 input, 4 I/O\n"
};
/* clang-format on */

static struct {
    const char *model, *output, *share;
    table rows;
    gg_prune_options o;
} opt;

static const cli_option options[] = {
    { "model", CLI_MODEL, .to = &opt.model, .place = 1 },
    { "output", CLI_NEW_MODEL, .to = &opt.output, .arg = "FILE", .required = "dry-run",
      .help = "the model to write; - is stdout" },
    { "keep-experts", CLI_U64, .to = &opt.o.experts, .arg = "N", .low = 1, .high = 1e6,
      .excludes = "experts", .help = "keep the N best experts of each block" },
    { "experts", CLI_RANGE_FILE, .to = &opt.o.list, .arg = "LIST",
      .help = "keep experts by number: 0-63, or a file of block, tab, list" },
    { "keep-units", CLI_U64, .to = &opt.o.units, .arg = "N", .low = 1, .high = 1e9,
      .help = "keep the N best hidden units of each expert or FFN" },
    { "share", CLI_TEXT, .to = &opt.share, .arg = "50%", .excludes = "keep-units",
      .excludes_why = "chooses the number of units",
      .help = "keep this share of the weights, as fewer experts and units" },
    { "imatrix", CLI_FILE, .to = &opt.o.output.imatrix, .arg = "F",
      .help = "the importance matrix that tells which are the best" },
    { "by", CLI_FILE, .to = &opt.o.by, .arg = "importance", .values = "importance",
      .needs = "keep-experts share",
      .help = "or rank experts by a table (block, expert, score) or activations" },
    { "refit", CLI_FILE, .to = &opt.o.refit, .arg = "F",
      .needs = "keep-units share keep-experts experts",
      .help = "fit the rest to activations of organ-probe" },
    { "imatrix-out", CLI_NEW_FILE, .to = &opt.o.imatrix_out, .arg = "FILE", .needs = "imatrix",
      .help = "write --imatrix for the new model" },
    { "text-imatrix", CLI_FILE, .to = &opt.o.texts, .arg = "F", .many = true,
      .needs = "keep-experts keep-units share",
      .help = "note what the text of this importance matrix loses" },
    { "dtype", CLI_RULES, .to = &opt.o.output.dtype, .arg = "RULES",
      .help = "re-encode, with --experts only; see organ-assemble" },
    { "shards", CLI_U64, .to = &opt.o.output.shards, .arg = "N", .low = 1, .high = 65535,
      .help = "split the output; --shard-size 2G" },
    { "shard-size", CLI_SIZE, .to = &opt.o.output.shard_size, .arg = "SIZE" },
    { "dry-run", CLI_FLAG, .to = &opt.o.dry_run, .help = "print the tensors and write nothing" },
    { "no-verify", CLI_FLAG, .to = &opt.o.no_verify,
      .help = "do not compare the data with the manifest's sha256" },
    { "strict", CLI_FLAG, .at = offsetof(cli, run.strict),
      .help = "refuse what no engine would load" },
    { "force", CLI_FLAG, .at = offsetof(cli, run.force), .help = "replace existing files" },
    { "partial", CLI_FLAG, .at = offsetof(cli, run.partial), .flow = "; ",
      .help = "(shards may be missing)" },
    { .group = cli_common },
    { "json", CLI_FLAG, .at = offsetof(cli, json), .flow = ", ", .needs = "dry-run",
      .help = "(with --dry-run)" },
    { 0 },
};

static gg_status print_row(void *ctx, const gg_size_row *r, gg_error *err)
{
    (void)ctx, (void)err;
    table_begin(&opt.rows, "tensor\ttype\tbytes\tfrom\tfile");
    table_line(&opt.rows, cell_bytes(r->tensor->name, r->tensor->name_len),
               cell_text(gg_dtype_get(r->tensor->dtype)->name), cell_u64(r->tensor->bytes),
               cell_text(gg_dtype_get(r->from)->name), cell_text(r->file));
    return GG_OK;
}

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
    if (o->experts && importance && !o->output.imatrix)
        cli_usage(c,
                  "--keep-experts %llu keeps the best experts, and needs --imatrix F or --by F to "
                  "rank them; --experts %llu keeps the expert of that number",
                  (unsigned long long)o->experts, (unsigned long long)o->experts);
    if ((o->units || opt.share || (o->by && importance)) && !o->output.imatrix)
        cli_usage(c, "--%s needs --imatrix FILE",
                  o->units    ? "keep-units"
                  : opt.share ? "share"
                              : "by importance");
    if (opt.share) read_share(c);
}

int main(int argc, char **argv)
{
    CLI_TOOL(c, prune);
    cli_start(&c, argc, argv, options);
    c.run.review = gg_check_review;
    check_values(&c);
    gg_assemble_report r = { 0 };
    gg_source *source = NULL;
    if (opt.o.dry_run) {
        opt.rows.json = c.json;
        opt.o.planned = print_row;
    }
    gg_status st = cli_open(&c, opt.model, CLI_DATA, &source);
    if (st == GG_OK) st = gg_prune(source, &opt.o, opt.output, &c.run, &r, &c.err);
    gg_source_close(source);
    if (st == GG_OK && c.verbose && !opt.o.dry_run)
        cli_note(&c, "%zu tensor%s, %llu bytes in %zu file%s", r.tensors, cli_s(r.tensors),
                 (unsigned long long)r.bytes, r.files, cli_s(r.files));
    if (st == GG_OK && opt.o.dry_run)
        cli_note(&c, "%llu bytes in %zu file%s would be written", (unsigned long long)r.bytes,
                 r.files, cli_s(r.files));
    return cli_end(&c, st);
}

/* organ-prune - write a model with fewer experts or hidden units. */
#include "common/cli.h"
#include "common/table.h"
#include "organ/gg_check.h"
#include "prune.h"

#include <stdlib.h>
#include <string.h>

static struct {
    const char *model, *output, *share;
    table rows;
    gg_prune_options o;
} opt;

#include "options/prune.h"

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

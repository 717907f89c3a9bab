/* organ-lora - make a LoRA adapter from the difference of two models. */
#include "common/cli.h"
#include "common/table.h"
#include "organ/gg_check.h"

#include "gg_lora.h"

#include <stdio.h>
#include <string.h>

static struct {
    const char *base, *tuned, *output, *from, *to_peft;
    double alpha;
    uint64_t rank;
    gg_lora_options o;
} opt;

#include "options/lora.h"

static gg_status print_row(void *ctx, const gg_lora_row *row, gg_error *err)
{
    table *t = ctx;
    table_begin(t, "name\trows\tcols\texperts\trank\tkept");
    table_line(t, cell_bytes(row->name, row->name_len), cell_u64(row->rows), cell_u64(row->cols),
               cell_u64(row->experts), cell_u64(row->rank), cell_f64(row->kept));
    return ferror(stdout) ? cli_stdout_lost(err, table_errno()) : GG_OK;
}

static gg_status make_adapter(cli *c)
{
    gg_source *base = NULL, *tuned = NULL;
    gg_lora_report r = { 0 };
    table t = { .json = c->json };
    gg_status st = cli_open(c, opt.base, CLI_SPOOLED, &base);
    if (st == GG_OK) st = cli_open(c, opt.tuned, CLI_SPOOLED, &tuned);
    if (st == GG_OK) st = cli_like(c, base, &tuned);
    if (st == GG_OK && strcmp(opt.output, "-") != 0) {
        opt.o.row = print_row;
        opt.o.row_ctx = &t;
    }
    if (st == GG_OK) st = gg_lora_extract(base, tuned, &opt.o, opt.output, &c->run, &r, &c->err);
    if (st == GG_OK && c->verbose)
        cli_note(c,
                 "%zu pair%s, %.4g %% of the squared difference, %zu tensor%s left out, %llu bytes",
                 r.pairs, cli_s(r.pairs), 100 * r.kept, r.lost, cli_s(r.lost),
                 (unsigned long long)r.bytes);
    gg_source_close(tuned);
    gg_source_close(base);
    return st;
}

/* Writes an adapter that exists in another form. */
static gg_status convert_adapter(cli *c)
{
    gg_source *base = NULL, *from = NULL;
    gg_assemble_report r = { 0 };
    char path[4096];
    gg_status st = opt.base ? cli_open(c, opt.base, CLI_SPOOLED, &base) : GG_OK;
    gg_assemble_options o = { .hf_names = opt.to_peft != NULL, .base = base };
    c->adapter_base = base;
    c->adapter_alpha = opt.alpha;
    if (st == GG_OK) st = cli_open(c, opt.from, CLI_SPOOLED, &from);
    if (opt.to_peft && (size_t)snprintf(path, sizeof path, "%s/adapter_model.safetensors",
                                        opt.to_peft) >= sizeof path)
        cli_usage(c, "--to-peft: the path is too long");
    if (st == GG_OK)
        st = gg_assemble(from, &o, opt.to_peft ? path : opt.output, &c->run, &r, &c->err);
    gg_source_close(from);
    gg_source_close(base);
    return st;
}

int main(int argc, char **argv)
{
    CLI_TOOL(c, lora);
    cli_start(&c, argc, argv, options);
    c.run.review = gg_check_review;
    if (cli_given(&c, "energy") && !(opt.o.energy > 0 && opt.o.energy <= 1))
        cli_usage(&c, "--energy %g: use more than 0, at most 1", opt.o.energy);
    if (opt.rank > UINT32_MAX) cli_usage(&c, "--rank is too large");
    opt.o.rank = (uint32_t)opt.rank;
    opt.o.select = c.select;
    return cli_end(&c, opt.from ? convert_adapter(&c) : make_adapter(&c));
}

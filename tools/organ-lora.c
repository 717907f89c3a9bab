/* organ-lora - make a LoRA adapter from the difference of two models. */
#include "cli.h"
#include "table.h"

#include "organ/gg_lora.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: organ-lora --base M --tuned M2 --output ADAPTER.gguf [option...]\n"
    "Write a LoRA adapter that turns M nearly into M2, for llama.cpp's --lora and for\n"
    "organ-transplant --adapter. Each matrix of the difference is cut after its\n"
    "leading singular values. One row per matrix is printed: its rank, and the share\n"
    "of the squared difference that is kept.\n"
    "\n"
    "  --base M           the model that the adapter will be applied to\n"
    "  --tuned M2         the fine-tuned model\n"
    "  --output FILE      the adapter; - is stdout, and then no rows are printed\n"
    "  --rank R           singular values to keep per matrix (16, 64, ...)\n"
    "  --energy E         keep as many as hold this share, 0 to 1 (default: 0.9)\n"
    "  --force            replace an existing output\n"
    "A model is a GGUF file, any shard of a split model, an organ directory, or - for\n"
    "stdin.\n"
    "select:\n"
    "  --type CLASS,...   skeleton organ embed norm adapter other\n"
    "  --part PART,...    text vision audio encoder decoder diffusion adapter imatrix\n"
    "  --layers 5-20,25   --tensors GLOB,...\n"
    "  --names-from FILE  one tensor name per line (first TSV column); - is stdin\n"
    "common: -j N threads, -q quiet, -v verbose, --json, --help, --version\n"
    "\n"
    "examples:\n"
    "  organ-lora --base tests/data/lab/lab-base-q4_k_m.gguf \\\n"
    "    --tuned tests/data/lab/lab-code-q4_k_m.gguf --rank 16 \\\n"
    "    --output /tmp/code-lora.gguf --force\n"
    "exit: 0 done, 1 no difference or models that do not match, 2 usage,\n"
    "3 malformed input, 4 I/O failure\n";

typedef struct arguments {
    const char *base, *tuned, *output;
    uint64_t rank;
    double energy; /* -1: not given */
    gg_lora_options o;
} arguments;

static gg_status print_row(void *ctx, const gg_lora_row *row, gg_error *err)
{
    table *t = ctx;
    table_begin(t, "name\trows\tcols\texperts\trank\tkept");
    cell_bytes(t, row->name, row->name_len);
    cell_u64(t, row->rows);
    cell_u64(t, row->cols);
    cell_u64(t, row->experts);
    cell_u64(t, row->rank);
    cell_f64(t, row->kept);
    table_row(t);
    return ferror(stdout) ? cli_stdout_lost(err, table_errno()) : GG_OK;
}

static gg_status extract(cli *c, arguments *a)
{
    gg_source *base = NULL, *tuned = NULL;
    gg_lora_report r = { 0 };
    table t = { .json = c->json };
    gg_status st = cli_open(c, a->base, CLI_SPOOLED, &base);
    if (st == GG_OK) st = cli_open(c, a->tuned, CLI_SPOOLED, &tuned);
    if (st == GG_OK && strcmp(a->output, "-") != 0) {
        a->o.row = print_row;
        a->o.row_ctx = &t;
    }
    if (st == GG_OK) st = gg_lora_extract(base, tuned, &a->o, a->output, &c->run, &r, &c->err);
    if (st == GG_OK && c->verbose)
        cli_note(c,
                 "%zu pair%s, %.4g %% of the squared difference, %zu tensor%s left out, %llu bytes",
                 r.pairs, cli_s(r.pairs), 100 * r.kept, r.lost, cli_s(r.lost),
                 (unsigned long long)r.bytes);
    gg_source_close(tuned);
    gg_source_close(base);
    return st;
}

static void check(cli *c, arguments *a)
{
    if (!a->base) cli_usage(c, "--base is missing");
    if (!a->tuned) cli_usage(c, "--tuned is missing");
    if (!a->output) cli_usage(c, "--output is missing");
    if (c->args.n) cli_usage(c, "unexpected argument '%s'", c->args.items[0]);
    if (a->energy != -1 && !(a->energy > 0 && a->energy <= 1))
        cli_usage(c, "--energy %g: use more than 0, at most 1", a->energy);
    if (a->rank && a->energy > 0) cli_usage(c, "give only one of --rank and --energy");
    if (a->rank > UINT32_MAX) cli_usage(c, "--rank is too large");
    a->o.rank = (uint32_t)a->rank;
    a->o.energy = a->energy > 0 ? a->energy : 0;
    a->o.select = c->select;
    if (strcmp(a->output, "-") == 0) cli_no_terminal(c, STDOUT_FILENO);
}

int main(int argc, char **argv)
{
    cli c = {
        .tool = "organ-lora", .help = help, .selects = true, .has_json = true, .has_force = true
    };
    arguments a = { .energy = -1 };
    const cli_option options[] = {
        { "base", CLI_TEXT, &a.base },     { "tuned", CLI_TEXT, &a.tuned },
        { "output", CLI_TEXT, &a.output }, { "rank", CLI_U64, &a.rank },
        { "energy", CLI_F64, &a.energy },  { NULL, CLI_FLAG, NULL }
    };
    cli_start(&c, argc, argv, options);
    check(&c, &a);
    return cli_end(&c, extract(&c, &a));
}

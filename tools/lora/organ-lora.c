/* organ-lora - make a LoRA adapter from the difference of two models. */
#include "common/cli.h"
#include "common/model_text.h"
#include "common/table.h"

#include "assemble/hf_names.h"
#include "compute/compute.h"
#include "gg_lora.h"
#include "gguf/gguf.h"
#include "organ/source_layout.h"

#include <stdio.h>
#include <string.h>

/* The help before the options, and after them. */
/* clang-format off */
static const char *const help[2] = {
    "usage: organ-lora BASE TUNED --output ADAPTER.gguf [option...]\n"
    "Write a LoRA adapter that turns BASE nearly into TUNED, for llama.cpp's --lora\n"
    "and for organ-transplant --adapter. Each matrix of the difference is cut after\n"
    "its leading singular values. One row per matrix is printed: its rank, and the\n"
    "share of the squared difference that is kept. A model is a GGUF file, any shard\n"
    "of a split model, an organ directory, or - for stdin. The models may be named:\n"
    "--base and --tuned.\n"
    ,
    "  organ-lora tests/data/lab/lab-base-q4_k_m.gguf \\\n"
    "    tests/data/lab/lab-code-q4_k_m.gguf --rank 16 \\\n"
    "    --output /tmp/code-lora.gguf --force\n"
    "exit: 0 done, 1 no difference or models that do not match, 2 usage,\n"
    "3 malformed input, 4 I/O failure\n"
};
/* clang-format on */

static struct {
    const char *base, *tuned, *output, *from, *to_peft;
    double alpha;
    uint64_t rank;
    gg_lora_options o;
} opt;

static const cli_option options[] = {
    { "base", CLI_MODEL, .to = &opt.base, .arg = "M", .place = 1, .required = "from",
      .help = "the model that the adapter will be applied to" },
    { "tuned", CLI_MODEL, .to = &opt.tuned, .arg = "M2", .place = 2, .excludes = "from",
      .required = "from", .help = "the fine-tuned model" },
    { "from", CLI_MODEL, .to = &opt.from, .arg = "ADAPTER", .excludes = NAMES_SELECTION,
      .help = "convert this adapter (a folder of PEFT, its safetensors file, or GGUF)" },
    { "to-peft", CLI_NEW_DIR, .to = &opt.to_peft, .arg = "DIR", .needs = "from base",
      .help = "write the adapter of --from as PEFT has it" },
    { "pairs-only", CLI_FLAG, .at = offsetof(cli, pairs_only), .needs = "from",
      .help = "leave out whole matrices, such as the head of a classifier" },
    { "alpha", CLI_F64, .to = &opt.alpha, .arg = "X", .needs = "from",
      .help = "its lora_alpha, if there is no adapter_config.json" },
    { "output", CLI_NEW_MODEL, .to = &opt.output, .arg = "FILE", .excludes = "to-peft",
      .required = "to-peft", .help = "the adapter; - is stdout, and then no rows are printed" },
    { "rank", CLI_U64, .to = &opt.rank, .arg = "R", .excludes = "energy from",
      .help = "singular values to keep per matrix (default: 32)" },
    { "energy", CLI_F64, .to = &opt.o.energy, .arg = "E", .excludes = "from",
      .help = "keep as many as hold this share, 0 to 1 (such as 0.9)" },
    { "strict", CLI_FLAG, .at = offsetof(cli, run.strict), .needs = "from",
      .help = "refuse an adapter of which an engine could not use a part" },
    { .group = cli_writes },
    { .group = cli_selection },
    { .group = cli_expert_map },
    { .group = cli_common },
    { "json", CLI_FLAG, .at = offsetof(cli, json), .flow = ", " },
    { 0 },
};

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
    gg_hf_names names = { .base = base };
    gg_plan_edit edit = gg_hf_names_edit(&names);
    gg_assemble_options o = { .edit = opt.to_peft ? &edit : NULL };
    c->adapter_base = base;
    c->adapter_alpha = opt.alpha;
    if (st == GG_OK) st = cli_open(c, opt.from, CLI_SPOOLED, &from);
    if (st == GG_OK && !gg_source_refusal(from) && gg_source_meta(from) &&
        !gg_meta_text_is(gg_source_meta(from), "general.type", "adapter")) {
        gg_fail(&c->err, GG_EFORMAT, "this is not a LoRA adapter");
        gg_fix(&c->err, "for an adapter from the difference of two models, use --base and --tuned");
        st = gg_at_file(&c->err, opt.from);
    }
    if (opt.to_peft && strcmp(opt.to_peft, "-") == 0)
        cli_usage(c, "--to-peft: a folder cannot be written to a pipe; for a folder named -, "
                     "write ./-");
    if (opt.to_peft && (size_t)snprintf(path, sizeof path, "%s/adapter_model.safetensors",
                                        opt.to_peft) >= sizeof path)
        cli_usage(c, "--to-peft: the path is too long");
    for (size_t i = 0; st == GG_OK && !gg_source_refusal(from) && i < gg_source_count(from); i++)
        st = gg_require_finite(from, i, &c->err);
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
    cli_writes_models(&c);
    if (cli_given(&c, "energy") && !(opt.o.energy > 0 && opt.o.energy <= 1))
        cli_usage(&c, "--energy %g: use more than 0, at most 1", opt.o.energy);
    if (opt.rank > UINT32_MAX) cli_usage(&c, "--rank is too large");
    opt.o.rank = (uint32_t)opt.rank;
    opt.o.select = c.select;
    return cli_end(&c, opt.from ? convert_adapter(&c) : make_adapter(&c));
}

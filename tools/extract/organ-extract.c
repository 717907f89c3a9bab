/* organ-extract - split a model into organ records, or list its tensors. */
#include "common/cli.h"
#include "common/lists.h"
#include "common/model_text.h"

#include "organ/tensor_names.h" /* names of classes for people */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The help before the options, and after them. */
/* clang-format off */
static const char *const help[2] = {
    "usage: organ-extract MODEL --output DIR\n"
    "       organ-extract MODEL --output - > ORGANS\n"
    "       organ-extract MODEL --list\n"
    "Take a GGUF model apart into organs: one record (.bin) per tensor, in folders\n"
    "by class, with a manifest.json. MODEL is a GGUF file, any shard of a split\n"
    "model, an organ directory, or - for stdin; it may be named: --model.\n"
    ,
    "  organ-extract tests/data/lab/lab-verse-q4_k_m.gguf --list | head\n"
    "  organ-extract tests/data/lab/lab-verse-q4_k_m.gguf --type ffn \\\n"
    "    --output /tmp/verse.organs --force\n"
    "exit: 0 done, 1 nothing selected, 2 usage, 3 malformed input, 4 I/O failure\n"
};
/* clang-format on */

static struct {
    const char *model, *output;
    bool list, places, safetensors;
    gg_extract_options o;
} opt;

static void print_classes(cli *c);
static void print_parts(cli *c);
/* The columns of the table: name, unit, meaning. */
/* clang-format off */
#define COLUMNS(X) \
    X("name", "", "name of the tensor") \
    X("class", "", "class of the tensor") \
    X("block", "", "number of the block; - outside the blocks") \
    X("role", "", "the name without block and suffix") \
    X("dtype", "", "tensor type") \
    X("dims", "", "dimensions, the length of a row first") \
    X("elements", "values", "number of values in the tensor") \
    X("bytes", "bytes", "size of its data") \
    X("offset", "bytes", "where its data begins in the data of the model") \
    X("part", "", "sub-model that the tensor belongs to")
/* clang-format on */
static const table_column columns_about[] = { COLUMNS(TABLE_COLUMN){ 0 } };
static const char column_names[] = COLUMNS(TABLE_NAME);
#define columns (&column_names[1])

static void print_columns(cli *c)
{
    list_columns(c, columns_about);
}

static const char *const class_meanings[GG_CLASS_COUNT] = {
    [GG_SKELETON] = "attention and state-space layers",
    [GG_ORGAN] = "feed-forward layers: their weights, experts and routers",
    [GG_EMBED] = "token and position embeddings, the output matrix",
    [GG_NORM] = "norms",
    [GG_ADAPTER] = "LoRA pairs and control vectors",
    [GG_OTHER] = "everything else",
};

static const char *const part_meanings[GG_PART_COUNT] = {
    [GG_PART_TEXT] = "language models",
    [GG_PART_VISION] = "image encoders: names with v., mm., resampler. or adapter.",
    [GG_PART_AUDIO] = "audio encoders: names with a. or mm.a.",
    [GG_PART_ENCODER] = "encoders (enc.), and text encoders in image models",
    [GG_PART_DECODER] = "decoders (dec.)",
    [GG_PART_DIFFUSION] = "image and video models",
    [GG_PART_ADAPTER] = "LoRA, control vectors",
    [GG_PART_IMATRIX] = "importance matrices",
};

static const cli_option options[] = {
    { "model", CLI_MODEL, .to = &opt.model, .arg = "MODEL", .place = 1, .required = "" },
    { "output", CLI_NEW_DIR, .to = &opt.output, .arg = "DIR", .excludes = "list",
      .required = "list", .help = "organ directory to make; - writes an organ stream to stdout" },
    { "list", CLI_FLAG, .to = &opt.list, .help = "print the tensors as a table and write nothing" },
    { "places", CLI_FLAG, .to = &opt.places, .needs = "list",
      .help = "with --list: the place of each tensor in its file instead" },
    { "split-experts", CLI_FLAG, .to = &opt.o.split_experts,
      .help = "one record per expert of stacked tensors (blk.N.ffn_gate.E)" },
    { "safetensors", CLI_FLAG, .to = &opt.safetensors, .excludes = "list split-experts",
      .help = "write the model as one file, -o FILE.safetensors" },
    { .group = cli_writes },
    { "list-columns", CLI_ACT, .act = print_columns, .help = "list the columns of --list" },
    { "list-classes", CLI_ACT, .act = print_classes, .help = "list the classes of tensors" },
    { "list-parts", CLI_ACT, .act = print_parts, .help = "list the parts of models" },
    { .group = cli_selection },
    { .group = cli_experts },
    { "where", CLI_WHERE, .at = offsetof(cli, wheres), .arg = "COND", .many = true,
      .values = columns, .needs = "list", .needs_why = "it selects rows of a table",
      .help = "list only rows that satisfy it: 'bytes>1e6', 'dtype=q4_k', 'role=attn_*'; operators "
              "< <= > >= = !=; may be repeated" },
    { .group = cli_common },
    { "json", CLI_FLAG, .at = offsetof(cli, json), .flow = ", ", .needs = "list",
      .needs_why = "nothing else prints a table", .help = "(with --list)" },
    { 0 },
};

static void print_classes(cli *c)
{
    table to = list_start(c, "name\tmeaning\tshown");
    for (gg_class i = 0; i < GG_CLASS_COUNT; i++)
        table_line(&to, cell_text(gg_class_name(i)), cell_text(class_meanings[i]),
                   cell_text(gg_class_label(i)));
}

static void print_parts(cli *c)
{
    table to = list_start(c, "name\tmeaning");
    for (size_t i = 0; i < GG_PART_COUNT; i++) {
        table_line(&to, cell_text(gg_part_name((gg_part)i)), cell_text(part_meanings[i]));
    }
}

/* What a program needs that fetches a part of a tensor. */
static const char place_columns[] = "name\tshard\tplace\tbytes\tdtype\tdims";

static gg_status list_place(void *ctx, const gg_extract_row *r, gg_error *err)
{
    (void)err;
    const gg_tensor *t = r->tensor;
    table_begin(ctx, place_columns);
    table_line(ctx, cell_bytes(t->name, t->name_len), cell_u64(t->file + 1), cell_u64(r->place),
               cell_u64(t->bytes), cell_text(gg_dtype_get(t->dtype)->name), cell_dims(t));
    return GG_OK;
}

static gg_status list_row(void *ctx, const gg_extract_row *r, gg_error *err)
{
    (void)err;
    const gg_tensor *t = r->tensor;
    const gg_anatomy *a = &r->tensor->a;
    table *rows = ctx;
    table_begin(rows, columns);
    table_line(rows, cell_bytes(t->name, t->name_len), cell_class(gg_class_name(a->cls)),
               cell_i64_if(a->block), cell_bytes(t->name + a->role_at, a->role_len),
               cell_text(gg_dtype_get(t->dtype)->name), cell_dims(t), cell_u64(t->elements),
               cell_u64(t->bytes), cell_u64(t->offset), cell_text(gg_part_name(a->part)));
    return GG_OK;
}

/* Names each selected tensor whose name no rule of the anatomy covers. */
static void name_unknown(const cli *c, const gg_source *s, const gg_select *select)
{
    for (size_t i = 0; i < gg_source_count(s); i++) {
        const gg_tensor *t = gg_source_tensor(s, i);
        if (t->a.known || !gg_select_match(select, t->name, t->name_len, &t->a)) continue;
        cli_note(c, "tensor '%.*s' has a name that no rule of the anatomy covers", (int)t->name_len,
                 t->name);
    }
}

static gg_status extract(cli *c, gg_source *s)
{
    gg_extract_report r;
    table rows = { .json = c->json };
    if (opt.list) opt.o.row = opt.places ? list_place : list_row, opt.o.ctx = &rows;
    gg_status st = gg_extract(s, &opt.o, opt.output, &c->run, &r, &c->err);
    if (st == GG_OK && opt.list) table_begin(&rows, opt.places ? place_columns : columns);
    else if (st == GG_OK && c->verbose && !cli_is_stdout(opt.output))
        cli_note(c, "%zu tensor%s, %llu bytes in %s", r.tensors, cli_s(r.tensors),
                 (unsigned long long)r.bytes, opt.output);
    if (st == GG_OK && r.unknown)
        cli_note(c,
                 "tensors of class other, because no rule of the anatomy covers their names: %zu%s",
                 r.unknown, c->verbose ? "" : " (-v lists them)");
    if (st == GG_OK && r.unknown && c->verbose) name_unknown(c, s, c->select);
    return st;
}

int main(int argc, char **argv)
{
    CLI_TOOL(c, extract);
    cli_start(&c, argc, argv, options);
    c.tell = tell_what_was_written;
    c.stored_names = true;
    opt.o.select = c.select;
    if (cli_has_ending(opt.output, ".gguf"))
        cli_usage(&c, "-o %s would be a directory: name one, or use organ-assemble for a model",
                  opt.output);
    bool named = cli_has_ending(opt.output, ".safetensors");
    if (opt.safetensors && (!named || c.select))
        cli_usage(&c, "--safetensors writes a whole model to -o FILE.safetensors");
    if (named && !opt.safetensors)
        cli_usage(&c, "-o %s would be a directory: add --safetensors", opt.output);
    gg_source *s;
    gg_status st = cli_open(&c, opt.model, opt.list ? CLI_HEADER_ONLY : CLI_DATA, &s);
    if (st == GG_OK) {
        gg_assemble_report written;
        st = opt.safetensors ? gg_assemble(s, NULL, opt.output, &c.run, &written, &c.err)
                             : extract(&c, s);
        gg_source_close(s);
    }
    return cli_end(&c, st);
}

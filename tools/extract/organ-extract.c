/* organ-extract - split a model into organ records, or list its tensors. */
#include "common/cli.h"
#include "common/lists.h"

#include "organ/tensor_names.h" /* names of classes for people */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    const char *model, *output;
    bool list, places, safetensors;
    gg_extract_options o;
} opt;

static void print_classes(cli *c);
static void print_parts(cli *c);
#include "options/extract.h"

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
    const gg_anatomy *a = r->anatomy;
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
        gg_anatomy a = gg_source_anatomy(s, i);
        if (a.known || !gg_select_match(select, t->name, t->name_len, &a)) continue;
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

/* organ-compare - compare two models tensor by tensor; tell whether they share a lineage. */
#include "common/cli.h"
#include "common/key_text.h"
#include "common/lists.h"
#include "common/model_text.h"
#include "common/pictures.h"
#include "common/table.h"
#include "compare_keys.h"
#include "gguf/gguf.h"
#include "organ/gg_align.h"
#include "organ/source_layout.h"
#include "patch_write.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The help before the options, and after them. */
/* clang-format off */
static const char *const help[2] = {
    "usage: organ-compare A B\n"
    "       organ-compare A B --summary\n"
    "       organ-compare A B --lineage | --keys | --align | --patch FILE\n"
    "Compare the decoded values of two models: one row per tensor. A and B are GGUF\n"
    "files, shards of split models, organ directories or .bin records; one of them\n"
    "may be - for stdin.\n"
    ,
    "  organ-compare tests/data/lab/lab-base-q4_k_m.gguf \\\n"
    "    tests/data/lab/lab-verse-q4_k_m.gguf --where 'status!=identical'\n"
    "  organ-compare tests/data/lab/lab-base-q4_k_m.gguf \\\n"
    "    tests/data/lab/lab-stranger-q4_k_m.gguf --lineage\n"
    "exit: 0 all identical (--lineage: identical or same lineage; --patch: written),\n"
    "1 something differs, 2 usage, 3 malformed input, 4 I/O failure\n"
};
/* clang-format on */

enum { COLOR_COSINE, COLOR_REL_L2 };

static struct {
    const char *map, *patch, *svg;
    bool summary, lineage, keys, align, heat;
    int color;
    uint64_t sample;
    gg_compare_options o;
} opt;

/* The columns of the table: name, unit, meaning. */
/* clang-format off */
#define COLUMNS(X) \
    X("name", "", "name of the tensor in A, or in B if A lacks it") \
    X("class", "", "class of the tensor") \
    X("block", "", "number of the block; - outside the blocks") \
    X("status", "", "identical, or how the tensors differ") \
    X("dtype_a", "", "tensor type in A") \
    X("dtype_b", "", "tensor type in B") \
    X("elements", "values", "number of values in the tensor") \
    X("cosine", "", "cosine of the angle between the two tensors") \
    X("rel_l2", "", "length of the difference, divided by that of A's tensor") \
    X("max_abs", "", "largest difference of two values") \
    X("dims_a", "", "dimensions in A, the length of a row first") \
    X("dims_b", "", "dimensions in B") \
    X("name_b", "", "name of the tensor in B") \
    X("part", "", "sub-model that the tensor belongs to") \
    X("damage", "", "predicted squared error of the tensor's output, relative to it")
/* clang-format on */
static const table_column columns_about[] = { COLUMNS(TABLE_COLUMN){ 0 } };
static const char column_names[] = COLUMNS(TABLE_NAME);
#define columns (&column_names[1])

static void print_columns(cli *c)
{
    list_columns(c, columns_about);
}

static const cli_option options[] = {
    { "", CLI_MODEL, .arg = "A", .place = 1 },
    { "", CLI_MODEL, .arg = "B", .place = 2 },
    { "summary", CLI_FLAG, .to = &opt.summary, .excludes = "lineage keys",
      .help = "one row per class, and one for the model" },
    { "keys", CLI_FLAG, .to = &opt.keys, .excludes = "lineage " NAMES_COMPARED,
      .excludes_why = "compares keys only",
      .help = "one row per metadata key that differs; no tensors" },
    { "patch", CLI_NEW_MODEL, .to = &opt.patch, .arg = "FILE",
      .excludes = "keys summary lineage json " NAMES_COMPARED,
      .excludes_why = "writes everything that differs to a file and prints no table",
      .help = "write a patch that turns A into B, byte for byte, instead of a table; "
              "organ-transplant A FILE applies it" },
    { "svg", CLI_NEW_FILE, .to = &opt.svg, .arg = "FILE",
      .excludes = "summary lineage keys patch align where json",
      .excludes_why = "draws a picture and prints no table",
      .help = "draw a map of A's blocks and roles, and the lineage; --heat draws it on the "
              "terminal; --color cosine or rel_l2" },
    { "heat", CLI_FLAG, .to = &opt.heat, .local = true,
      .excludes = "summary lineage keys patch align where json",
      .excludes_why = "draws a picture and prints no table" },
    { "color", CLI_WORD, .to = &opt.color, .arg = "cosine", .values = "cosine rel_l2",
      .needs = "svg heat" },
    { "lineage", CLI_FLAG, .to = &opt.lineage,
      .help = "one row: whether they share a lineage, so grafts can work" },
    { "align", CLI_FLAG, .to = &opt.align, .excludes = "lineage keys patch sample split-experts",
      .excludes_why = "can only be combined with --summary, --map and a selection",
      .help = "one row per hidden unit (or, with --summary, per group of them): which unit of B it "
              "is" },
    { "map", CLI_MAP, .to = &opt.map, .arg = "0-3=4-7",
      .help = "compare only A's blocks 0-3 with B's blocks 4-7" },
    { "split-experts", CLI_FLAG, .to = &opt.o.split_experts,
      .help = "one row per expert of stacked tensors (blk.N.ffn_gate.E)" },
    { "sample", CLI_COUNT, .to = &opt.sample, .arg = "N",
      .help = "measure at most N rows per tensor, evenly spread; 0 is all (default: 128 with "
              "--lineage, else 0)" },
    { "imatrix", CLI_FILE, .to = &opt.o.imatrix, .arg = "FILE",
      .excludes = "lineage align keys patch",
      .excludes_why = "adds a column to the table of tensors and to --summary",
      .help = "predict the damage to the output with A's importance matrix" },
    { "force", CLI_FLAG, .at = offsetof(cli, run.force), .needs = "patch svg",
      .needs_why = "nothing else is written", .help = "replace an existing patch or picture" },
    { "list-columns", CLI_ACT, .act = print_columns, .help = "list the columns of the table" },
    { .group = cli_selection },
    { .group = cli_experts },
    { "where", CLI_WHERE, .at = offsetof(cli, wheres), .arg = "COND", .many = true,
      .values = columns, .excludes = "summary lineage keys patch align",
      .excludes_why = "selects rows of the table of tensors",
      .help = "print only rows that satisfy it: 'cosine<0.9', 'block=3'; operators < <= > >= = !=; "
              "may be repeated" },
    { .group = cli_common },
    { "json", CLI_FLAG, .at = offsetof(cli, json), .flow = ", " },
    { 0 },
};

/* ---- one row per tensor ---------------------------------------------------------- */

static table_cell cell_dtype(const gg_tensor *t)
{
    return cell_text_if(t ? gg_dtype_get(t->dtype)->name : NULL);
}

static const char *sameness_name(gg_sameness s)
{
    static const char *const names[GG_SAMENESS_COUNT] = { "identical", "differs", "dtype",
                                                          "shape",     "only-a",  "only-b" };
    return names[s];
}

static gg_status print_row(void *ctx, const gg_compare_row *r, gg_error *err)
{
    table *rows = ctx;
    table_begin(rows, columns);
    const gg_tensor *t = gg_compared(r);
    table_line(rows, cell_bytes(t->name, t->name_len), cell_class(gg_class_name(t->a.cls)),
               cell_i64_if(t->a.block), cell_text(sameness_name(r->status)), cell_dtype(r->a),
               cell_dtype(r->b), cell_u64(t->elements), cell_f64_when(r->measured, r->cosine),
               cell_f64_when(r->measured, r->rel_l2), cell_f64_when(r->measured, r->max_abs),
               cell_dims(r->a), cell_dims(r->b),
               r->b ? cell_bytes(r->b->name, r->b->name_len) : cell_null(),
               cell_text(gg_part_name(t->a.part)), cell_f64_if(r->damage));
    if (ferror(stdout)) return cli_stdout_lost(err, table_errno()); /* the reader is gone: stop */
    return GG_OK;
}

/* ---- keys ------------------------------------------------------------------------- */

/* Keys describe the whole model, so they are left out when only some tensors are compared. */
static bool compares_keys(const gg_compare_options *o)
{
    return !o->select && !o->map;
}

/* Adds one row for all keys that differ: to the table of tensors, or to the summary. */
static gg_status print_keys_row(cli *c, table *rows, gg_source *a, gg_source *b)
{
    gg_compare_keys_report r;
    gg_status st = gg_compare_keys(a, b, NULL, &c->run, &r, &c->err);
    size_t differ = r.keys - r.by[GG_SAME_IDENTICAL];
    if (st != GG_OK || !differ) return st;
    if (opt.summary) {
        table_put(rows, cell_text("keys"), cell_u64(r.keys));
        for (int s = 0; s < GG_SAMENESS_COUNT; s++) table_put(rows, cell_u64(r.by[s]));
    } else {
        table_put(rows, cell_text("(keys)"), cell_text("keys"), cell_null(),
                  cell_text(sameness_name(GG_SAME_DIFFERS)), cell_null(), cell_null(),
                  cell_u64(differ));
    }
    table_row(rows);
    if (c->verbose && !opt.summary)
        cli_note(c, "metadata keys that differ: %zu of %zu; --keys lists them", differ, r.keys);
    return GG_NO;
}

static gg_status print_rows(cli *c, gg_source *a, gg_source *b, const gg_compare_options *o)
{
    gg_compare_report r;
    table rows = { .json = c->json };
    gg_compare_options each = *o;
    each.row = print_row;
    each.ctx = &rows;
    gg_status st = gg_compare_models(a, b, &each, &c->run, &r, &c->err);
    size_t identical = r.model.by[GG_SAME_IDENTICAL];
    if (st != GG_OK) return st;
    table_begin(&rows, columns);
    if (c->verbose)
        cli_note(c, "tensors that are identical: %zu of %zu", identical, r.model.tensors);
    if (compares_keys(o)) st = print_keys_row(c, &rows, a, b);
    return st == GG_OK && identical != r.model.tensors ? GG_NO : st;
}

/* A key's value; for arrays that differ, the first element that differs. */
static table_cell cell_value(const gg_key_diff *d, const gg_kv *kv, gg_error *err)
{
    gg_key_form form = { .elements = 8, .bytes = isatty(STDOUT_FILENO) ? 60 : 0 };
    if (d->status == GG_SAME_DIFFERS && kv && kv->type == GG_TYPE_ARR) form.element = &d->index;
    return kv ? cell_key_value(kv, form, err) : cell_null();
}

static const char *type_text(const gg_kv *kv, char type[GG_KEY_TYPE])
{
    if (kv) gg_key_type(kv, type);
    return kv ? type : NULL;
}

static gg_status print_key(void *ctx, const gg_key_diff *d, gg_error *err)
{
    const gg_kv *kv = d->a ? d->a : d->b;
    bool element = d->status == GG_SAME_DIFFERS && kv->type == GG_TYPE_ARR;
    char types[2][GG_KEY_TYPE];
    table_line(ctx, cell_bytes(kv->key, kv->key_len),
               cell_text(d->status == GG_SAME_DTYPE ? "type" : sameness_name(d->status)),
               cell_value(d, d->a, err), cell_value(d, d->b, err),
               cell_text_if(type_text(d->a, types[0])), cell_text_if(type_text(d->b, types[1])),
               element ? cell_u64(d->index) : cell_null());
    return err->status;
}

static gg_status print_keys(cli *c, gg_source *a, gg_source *b)
{
    gg_compare_keys_report r;
    gg_source *const both[] = { a, b };
    for (int i = 0; i < 2; i++) {
        gg_source_note_keys(both[i]);
        if (gg_source_meta(both[i])) continue;
        gg_fail(&c->err, GG_EUSAGE, "organ records have no keys");
        gg_fix(&c->err, "give a model or an organ directory");
        return gg_at_file(&c->err, gg_source_name(both[i]));
    }
    table t = table_start(c->json, "key\tstatus\tvalue_a\tvalue_b\ttype_a\ttype_b\tindex");
    gg_compare_keys_options o = { .row = print_key, .ctx = &t };
    gg_status st = gg_compare_keys(a, b, &o, &c->run, &r, &c->err);
    if (st == GG_OK && c->verbose)
        cli_note(c, "keys that are identical: %zu of %zu", r.by[GG_SAME_IDENTICAL], r.keys);
    return st == GG_OK && r.by[GG_SAME_IDENTICAL] != r.keys ? GG_NO : st;
}

/* ---- one row per class ------------------------------------------------------------ */

static void print_group(table *rows, const char *name, const gg_compare_group *g)
{
    const gg_lineage *l = &g->lineage;
    table_put(rows, cell_class(name), cell_u64(g->tensors));
    for (int s = 0; s < GG_SAMENESS_COUNT; s++) table_put(rows, cell_u64(g->by[s]));
    double n = (double)g->measured;
    bool known = l->n || l->verdict == GG_LINEAGE_IDENTICAL;
    table_line(rows, cell_f64_when(g->measured, g->cosine_min),
               cell_f64_when(g->measured, g->cosine_sum / n),
               cell_f64_when(g->measured, g->rel_l2_sum / n),
               cell_f64_when(g->measured, g->max_abs),
               cell_text_if(known ? gg_lineage_name(l->verdict) : NULL),
               cell_f64_when(g->predicted, g->damage));
}

static gg_status print_summary(cli *c, gg_source *a, gg_source *b, const gg_compare_options *o)
{
    gg_compare_report r;
    gg_status st = gg_compare_models(a, b, o, &c->run, &r, &c->err);
    if (st != GG_OK) return st;
    table rows = table_start(c->json,
                             "class\ttensors\tidentical\tdiffers\tdtype\tshape\tonly_a\tonly_b\t"
                             "cosine_min\tcosine_mean\trel_l2_mean\tmax_abs\tlineage\tdamage");
    for (int k = 0; k < GG_CLASS_COUNT; k++)
        if (r.of[k].tensors) print_group(&rows, gg_class_name((gg_class)k), &r.of[k]);
    if (compares_keys(o)) st = print_keys_row(c, &rows, a, b);
    print_group(&rows, "model", &r.model);
    if (st == GG_OK && r.model.by[GG_SAME_IDENTICAL] != r.model.tensors) st = GG_NO;
    return st;
}

/* ---- --align ----------------------------------------------------------------------- */

/* The table of units or, with --summary, of groups. */
static void begin_units(table *t)
{
    table_begin(t, opt.summary
                       ? "kind\tblock\tblock_b\texpert\tunits\tmoved\tfound\tcosine\tcosine_before"
                       : "kind\tblock\tblock_b\texpert\tunit\tunit_b\tcosine");
}

/* The columns that all rows of a group share. */
static void print_place(table *t, const gg_align_group *g)
{
    table_put(t, cell_text(gg_align_name(g->kind)), cell_i64_if(g->block),
              cell_i64_if(g->donor_block), cell_i64_if(g->expert));
}

static gg_status print_units(void *ctx, const gg_align_group *g, gg_error *err)
{
    table *t = ctx;
    begin_units(t);
    for (size_t i = 0; i < g->n && !opt.summary; i++) {
        print_place(t, g);
        table_line(t, cell_u64(i), cell_u64(g->from[i]), cell_f64((double)g->cosine[i]));
    }
    if (opt.summary) {
        print_place(t, g);
        table_line(t, cell_u64(g->n), cell_u64(g->moved), cell_text(g->found ? "yes" : "no"),
                   cell_f64(g->mean), cell_f64(g->before));
    }
    return ferror(stdout) ? cli_stdout_lost(err, table_errno()) : GG_OK;
}

/* Aligns b with a and prints one row per unit, or one per group. Returns GG_NO if the models do not
 * have the units of some group in common. */
static gg_status align_table(cli *c, gg_source *a, gg_source *b)
{
    gg_align_report r;
    table t = { .json = c->json };
    gg_align_options o = { .select = c->select, .map = opt.o.map, .row = print_units, .ctx = &t };
    gg_status st = gg_align(a, b, &o, NULL, &c->run, &r, &c->err);
    if (st != GG_OK) return st;
    begin_units(&t);
    if (c->verbose) cli_note(c, "%zu of %zu units are in another place", r.moved, r.units);
    return r.found < r.groups || r.groups == 0 ? GG_NO : GG_OK;
}

/* ---- lineage ---------------------------------------------------------------------- */

/* One side of a map in words: "0=0,1-3=2-4" is "0-3" on the left and "0, 2-4" on the right. */
static void blocks_of(const char *map, bool right, char *out, size_t size)
{
    unsigned long long first = 0, last = 0;
    bool any = false;
    out[0] = '\0';
    for (const char *at = map; *at;) {
        unsigned long long n[2][2];
        char *end = NULL;
        for (int k = 0; k < 2; k++) {
            n[k][0] = n[k][1] = strtoull(at, &end, 10);
            if (*end == '-') n[k][1] = strtoull(end + 1, &end, 10);
            at = *end ? end + 1 : end;
        }
        bool joins = any && n[right][0] == last + 1;
        last = n[right][1];
        if (!joins) first = n[right][0];
        char *comma = strrchr(out, ',');
        if (joins && comma) comma[0] = '\0';
        else if (joins) out[0] = '\0';
        size_t used = strlen(out);
        snprintf(out + used, size - used, first == last ? "%s%llu" : "%s%llu-%llu",
                 used ? ", " : "", first, last);
        any = true;
    }
}

static void note_blocks(const cli *c, const char *map)
{
    char sides[2][1100];
    for (int k = 0; k < 2; k++) blocks_of(map, k, sides[k], sizeof sides[k]);
    cli_note(c, "blocks %s of A match %s of B: --map %s", sides[0], sides[1], map);
}

/* Prints the row of --lineage. Returns GG_NO unless grafts can work. */
static gg_status lineage_row(cli *c, gg_source *a, gg_source *b, const gg_compare_options *o)
{
    gg_lineage l;
    gg_status st = gg_lineage_of(a, b, o, &c->run, &l, &c->err);
    if (st != GG_OK) return st;
    table rows = table_start(
        c->json, "verdict\tmatrices\tcosine_min\tcosine_median\tcosine_max\tsame\tstrange\t"
                 "tensors\tidentical\tmap");
    char verdict[80];
    snprintf(verdict, sizeof verdict, l.permuted[0] ? "%s (%s)" : "%s", gg_lineage_name(l.verdict),
             l.permuted);
    table_line(&rows, cell_text(verdict), cell_u64(l.n), cell_f64_when(l.n, l.min),
               cell_f64_when(l.n, l.median), cell_f64_when(l.n, l.max), cell_u64(l.same),
               cell_u64(l.strange), cell_u64(l.tensors), cell_u64(l.identical),
               cell_text_if(l.map));
    char text[200];
    gg_lineage_text(&l, text, sizeof text);
    if (c->verbose) cli_note(c, "%s", text);
    if (o->map && l.verdict == GG_LINEAGE_STRANGERS)
        cli_note(c, "with --map, blocks at other depths are compared; even within one "
                    "model they look like strangers");
    if (l.map[0]) note_blocks(c, l.map);
    if (l.experts[0]) cli_note(c, "%s (organ-compare --align lists all blocks)", l.experts);
    if (l.verdict == GG_LINEAGE_PERMUTED)
        cli_note(c, "whole layers can be grafted as they are; anything else needs --align");
    return l.verdict == GG_LINEAGE_IDENTICAL || l.verdict == GG_LINEAGE_SAME ||
                   l.verdict == GG_LINEAGE_PERMUTED
               ? GG_OK
               : GG_NO;
}

/* ---- pictures --------------------------------------------------------------------- */

static gg_status draw_row(void *ctx, const gg_compare_row *r, gg_error *err)
{
    double v = !r->measured ? NAN : opt.color == COLOR_REL_L2 ? r->rel_l2 : r->cosine;
    return gg_picture_add(ctx, gg_compared(r), v, err);
}

static gg_status draw(cli *c, gg_source *a, gg_source *b, const gg_compare_options *o)
{
    gg_compare_report r;
    char names[2][128], title[300], text[800], verdict[200];
    gg_picture p = { .title = title,
                     .text = text,
                     .column = opt.color == COLOR_REL_L2 ? "rel_l2" : "cosine" };
    gg_compare_options each = *o;
    each.row = draw_row;
    each.ctx = &p;
    gg_status st = gg_compare_models(a, b, &each, &c->run, &r, &c->err);
    if (st == GG_OK) {
        picture_title(a, names[0]);
        picture_title(b, names[1]);
        snprintf(title, sizeof title, "%s and %s", names[0], names[1]);
        gg_lineage_text(&r.model.lineage, verdict, sizeof verdict);
        snprintf(text, sizeof text,
                 "%.256s\n%.256s\n%s\nEach square compares a tensor with its counterpart.",
                 gg_source_name(a), gg_source_name(b), verdict);
        if (opt.heat) st = picture_show(c, &p);
        if (st == GG_OK && opt.svg) st = picture_save(c, &p, opt.svg);
        if (st == GG_OK && r.model.by[GG_SAME_IDENTICAL] != r.model.tensors) st = GG_NO;
    }
    gg_picture_free(&p);
    return st;
}

/* ---- a patch ---------------------------------------------------------------------- */

static gg_status write_patch(cli *c, gg_source *a, gg_source *b, const char *output)
{
    gg_patch_report r;
    gg_status st = gg_patch_write(a, b, output, &c->run, &r, &c->err);
    if (st == GG_OK && c->verbose)
        cli_note(c, "%zu tensor%s and %zu key%s, %zu and %zu to delete; %llu bytes", r.tensors,
                 cli_s(r.tensors), r.keys, cli_s(r.keys), r.deleted_tensors, r.deleted_keys,
                 (unsigned long long)r.bytes);
    return st;
}

/* Rows of embeddings are compared by their numbers, which are then those of other tokens. */
static void note_vocabularies(const cli *c, const gg_source *a, const gg_source *b)
{
    static const char key[] = "tokenizer.ggml.tokens";
    const gg_meta *of[2] = { gg_source_meta(a), gg_source_meta(b) };
    const gg_kv *x = of[0] ? gg_meta_find(of[0], key) : NULL;
    const gg_kv *y = of[1] ? gg_meta_find(of[1], key) : NULL;
    if (!x || !y || gg_same_value(x, y)) return;
    cli_note(c, "their vocabularies differ, so rows of the embeddings are not those of the same "
                "tokens; organ-vocab A B compares vocabularies");
}

static gg_status compare(cli *c, gg_source *a, gg_source *b)
{
    if (!opt.patch && !opt.keys) note_vocabularies(c, a, b);
    if (opt.svg || opt.heat) return draw(c, a, b, &opt.o);
    if (opt.patch) return write_patch(c, a, b, opt.patch);
    if (opt.align) return align_table(c, a, b);
    if (opt.keys) return print_keys(c, a, b);
    if (opt.lineage) return lineage_row(c, a, b, &opt.o);
    if (opt.summary) return print_summary(c, a, b, &opt.o);
    return print_rows(c, a, b, &opt.o);
}

int main(int argc, char **argv)
{
    CLI_TOOL(c, compare);
    gg_map *map = NULL;
    gg_source *a = NULL, *b = NULL;
    cli_start(&c, argc, argv, options);
    c.tell = tell_what_was_written;
    c.stored_names = true;
    if (c.args.n != 2) cli_usage(&c, "give two models, not %zu", c.args.n);
    if (opt.heat && cli_is_stdout(opt.svg))
        cli_usage(&c, "--svg - and --heat both write to stdout: name a file");
    gg_status st = opt.map ? gg_map_parse(opt.map, &map, &c.err) : GG_OK;
    opt.o.map = map;
    opt.o.select = c.select;
    opt.o.sample = opt.lineage && !cli_given(&c, "sample") ? GG_LINEAGE_SAMPLE : opt.sample;
    if (st == GG_OK) st = cli_open(&c, c.args.items[0], CLI_DATA, &a);
    if (st == GG_OK) st = cli_open(&c, c.args.items[1], CLI_DATA, &b);
    if (st == GG_OK && !opt.patch) st = cli_like(&c, a, &b);
    if (st == GG_OK) st = picture_allowed(&c, opt.svg);
    if (st == GG_OK) st = compare(&c, a, b);
    gg_source_close(a);
    gg_source_close(b);
    gg_map_free(map);
    return cli_end(&c, st);
}

/* organ-measure - measure how much structure the tensors of a model show. */
#include "cli.h"
#include "pictures.h"
#include "table.h"

#include "organ/gg_measure_model.h"

#include "base/buf.h"            /* histograms on their way to a file */
#include "organ/source_layout.h" /* is the source an organ directory? */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: organ-measure [--dir DIR | MODEL | FILE.bin... | -] [option...]\n"
    "Measure each tensor and print one row: moments, entropy, the angles theta and\n"
    "row_theta. MODEL is a GGUF file, a shard of a split model or an organ directory.\n"
    "\n"
    "  --sample N         values read per tensor, evenly spaced (100k; 0 is all)\n"
    "  --blocks           sample runs of 256 values, less than 1 % of a large tensor\n"
    "  --summary          one row per class and role, one for the model; 1-3 stars\n"
    "  --wells K          print only the K tensors with the lowest theta\n"
    "  --spectral         compute the column edge: 1 for noise, above 1 for structure\n"
    "  --imatrix FILE     compute the column importance from an importance matrix\n"
    "  --rank blocks      rank blocks by importance; or experts, within each block\n"
    "  --split-experts    one row per expert of stacked tensors\n"
    "  --update           also write the measures into DIR's manifest\n"
    "  --svg FILE         draw a map, blocks across, roles down (- is stdout)\n"
    "  --heat             draw the same map on the terminal\n"
    "  --histogram FILE   count the values of each class (- is stdout)\n"
    "  --color COLUMN     measure to show: theta (default), calibrated, ...\n"
    "  --force            replace an existing picture or histogram\n"
    "select:\n"
    "  --type CLASS,...   skeleton organ embed norm adapter other\n"
    "  --part PART,...    text vision audio encoder decoder diffusion adapter imatrix\n"
    "  --layers 5-20,25   --tensors GLOB,...   --experts 0-3,17\n"
    "  --names-from FILE  one tensor name per line (first TSV column); - is stdin\n"
    "  --where COND       only rows that satisfy it: 'theta<40', 'class=organ',\n"
    "                     'name!=*norm*'; operators < <= > >= = !=; may be repeated\n"
    "common: -j N threads, -q quiet, -v verbose, --json, --help, --version\n"
    "\n"
    "examples:\n"
    "  organ-measure tests/data/lab/lab-verse-q4_k_m.gguf --summary\n"
    "  organ-measure tests/data/lab/lab-verse-q4_k_m.gguf --where 'theta<40'\n"
    "exit: 0 done, 1 nothing selected, 2 usage, 3 malformed input, 4 I/O failure\n";

static const char columns[] =
    "name\tclass\tblock\tdtype\telements\tsampled\tnonfinite\tmean\tstd\t"
    "min\tmax\tentropy\tkurtosis\tcv\ttheta\tsignal\t"
    "dimension\tnull_theta\tcalibrated\trow_theta\tpart\tedge\timportance";

#define NO_WELLS UINT64_MAX

typedef struct options {
    const char *dir, *svg, *color, *rank, *histogram;
    bool summary, update, heat;
    uint64_t wells;
    gg_measure_options m;
} options;

typedef struct printer {
    table rows;        /* silent if only a summary or a picture is wanted */
    gg_measures *keep; /* NULL: rows are not kept */
} printer;

/* ---- tables -------------------------------------------------------------------- */

static void print_numbers(table *t, const gg_tensor_measure *r)
{
    cell_u64(t, r->m.sampled);
    cell_u64(t, r->m.nonfinite);
    const double v[] = { r->m.mean,     r->m.std,      r->m.min,    r->m.max,    r->m.entropy,
                         r->m.kurtosis, r->m.cv,       r->m.theta,  r->m.signal, r->m.dimension,
                         r->null_theta, r->calibrated, r->row_theta };
    for (size_t i = 0; i < sizeof v / sizeof v[0]; i++) cell_f64(t, v[i]);
}

/* A number, or nothing for NaN. */
static void cell_optional(table *t, double v)
{
    if (isnan(v)) cell_null(t);
    else cell_f64(t, v);
}

/* Returns whether the row satisfies all conditions. */
static bool print_row(table *t, const gg_tensor_measure *r)
{
    const gg_dtype_info *info = gg_dtype_get(r->t.dtype);
    cell_bytes(t, r->t.name, r->t.name_len);
    cell_text(t, gg_class_name(r->a.cls));
    if (r->a.block >= 0) cell_i64(t, r->a.block);
    else cell_null(t);
    cell_text(t, info ? info->name : "unknown");
    cell_u64(t, r->t.elements);
    if (r->decoded) print_numbers(t, r);
    else
        for (int i = 0; i < 15; i++) cell_null(t);
    cell_text(t, gg_part_name(r->a.part));
    cell_optional(t, r->edge);
    cell_optional(t, r->importance);
    /* In TSV, whose columns are fixed, a note on stderr reports it instead. */
    if (!r->decoded) cell_member(t, "error", "no codec decodes this dtype");
    return table_row(t);
}

static gg_status take_row(void *ctx, const gg_tensor_measure *r, gg_error *err)
{
    printer *p = ctx;
    table_begin(&p->rows, columns);
    bool matches = print_row(&p->rows, r);
    if (ferror(stdout)) return cli_stdout_lost(err, table_errno()); /* the reader is gone: stop */
    return p->keep && matches ? gg_measures_add(p->keep, r, err) : GG_OK;
}

static gg_status print_wells(cli *c, const gg_measures *list, uint64_t k)
{
    size_t *wells, n;
    gg_status st = gg_measures_wells(list, k < SIZE_MAX ? (size_t)k : SIZE_MAX, &wells, &n,
                                     &c->err);
    if (st != GG_OK) return st;
    table t = table_start(c->json, columns);
    for (size_t i = 0; i < n; i++) print_row(&t, &list->rows[wells[i]]);
    free(wells);
    return GG_OK;
}

/* One row per block or expert, the most important first. */
static gg_status print_ranks(cli *c, const gg_measures *list, bool experts)
{
    gg_rank *ranks;
    size_t n;
    gg_status st = gg_measures_rank(list, experts, &ranks, &n, &c->err);
    if (st == GG_OK && n == 0)
        st = gg_fail(&c->err, GG_NO, "the importance matrix has no tensor of %s",
                     experts ? "an expert of this model" : "a block of this model");
    if (st == GG_OK) {
        table t = table_start(c->json, experts
                                           ? "rank\tblock\texpert\ttensors\timportance\tshare\tpart"
                                           : "rank\tblock\ttensors\timportance\tshare\tpart");
        for (size_t i = 0; i < n; i++) {
            cell_u64(&t, i + 1);
            cell_i64(&t, ranks[i].block);
            if (experts) cell_i64(&t, ranks[i].expert);
            cell_u64(&t, ranks[i].tensors);
            cell_f64(&t, ranks[i].importance);
            cell_f64(&t, ranks[i].share);
            cell_text(&t, gg_part_name(ranks[i].part));
            table_row(&t);
        }
    }
    free(ranks);
    return st;
}

static void print_group(table *t, const gg_group *g)
{
    static const char *const kinds[] = { "class", "role", "model" };
    static const char *const stars[] = { "-", "*", "**", "***" }, *const numbers[] = { "null", "1",
                                                                                       "2", "3" };
    cell_text(t, kinds[g->kind]);
    cell_bytes(t, g->name, g->name_len);
    cell_u64(t, g->tensors);
    cell_u64(t, g->measured);
    const double v[] = { g->theta,  g->theta_min,  g->theta_max,
                         g->signal, g->calibrated, g->row_theta };
    for (size_t i = 0; i < sizeof v / sizeof v[0]; i++) {
        if (g->measured) cell_f64(t, v[i]);
        else cell_null(t);
    }
    cell_json(t, stars[g->stars], numbers[g->stars]);
    if (g->kind == GG_GROUP_ROLE) cell_text(t, gg_part_name(g->part));
    else cell_null(t);
    cell_optional(t, g->edge);
    cell_optional(t, g->importance);
    table_row(t);
}

static gg_status print_summary(cli *c, const gg_measures *list)
{
    gg_group *groups;
    size_t n;
    gg_status st = gg_measures_groups(list, &groups, &n, &c->err);
    if (st != GG_OK) return st;
    table t = table_start(c->json,
                          "group\tname\ttensors\tmeasured\ttheta\ttheta_min\ttheta_"
                          "max\tsignal\tcalibrated\trow_theta\trating\tpart\tedge\timportance");
    for (size_t i = 0; i < n; i++) print_group(&t, &groups[i]);
    free(groups);
    return GG_OK;
}

/* ---- pictures ------------------------------------------------------------------ */

static gg_status draw(cli *c, const gg_measures *list, const gg_source *s, const options *o)
{
    char title[128];
    picture_title(s, title);
    bool angle = strcmp(o->color, "calibrated") == 0 || strstr(o->color, "theta");
    gg_picture p = { .title = title, .column = o->color, .unit = angle ? "degrees" : NULL };
    gg_measure_get get = gg_measure_by_name(o->color);
    gg_status st = GG_OK;
    for (size_t i = 0; i < list->n && st == GG_OK; i++) {
        const gg_tensor_measure *r = &list->rows[i];
        st = gg_picture_add(&p, &r->t, &r->a, r->decoded ? get(r) : NAN, &c->err);
    }
    if (st == GG_OK && o->heat) st = picture_show(c, &p);
    if (st == GG_OK && o->svg) st = picture_save(c, &p, o->svg);
    gg_picture_free(&p);
    return st;
}

/* ---- histograms ---------------------------------------------------------------- */

static void print_bin(table *t, size_t cls, double low, double high, double values)
{
    cell_text(t, gg_class_name((gg_class)cls));
    cell_optional(t, low);
    cell_optional(t, high);
    cell_f64(t, values);
    table_row(t);
}

static void print_bins(table *t, const gg_histogram *list)
{
    for (size_t c = 0; c < GG_CLASS_COUNT; c++) {
        const gg_histogram *h = &list[c];
        if (h->below > 0) print_bin(t, c, NAN, h->first * h->width, h->below);
        for (size_t i = 0; i < h->n; i++) {
            double first = h->first + (double)i;
            print_bin(t, c, first * h->width, (first + 1) * h->width, h->bins[i]);
        }
        double end = (h->first + (double)h->n) * h->width;
        if (h->above > 0) print_bin(t, c, end, NAN, h->above);
    }
}

static gg_status save_histograms(cli *c, const options *o)
{
    const char *names = "class\tlow\thigh\tvalues";
    gg_buf text = GG_BUF_INIT;
    bool print = strcmp(o->histogram, "-") == 0;
    table t = print ? table_start(c->json, names) : table_into(&text, c->json, names);
    print_bins(&t, o->m.histograms);
    gg_status st = print ? GG_OK : picture_write(c, o->histogram, text.data, text.len);
    gg_buf_free(&text);
    return st;
}

/* ---- the run ------------------------------------------------------------------- */

static gg_status after(cli *c, gg_source *s, const options *o, const gg_measures *list)
{
    gg_status st = GG_OK;
    if (o->summary) st = print_summary(c, list);
    else if (o->wells != NO_WELLS) st = print_wells(c, list, o->wells);
    else if (o->rank) st = print_ranks(c, list, strcmp(o->rank, "experts") == 0);
    if (st == GG_OK && (o->heat || o->svg)) st = draw(c, list, s, o);
    if (st == GG_OK && o->histogram) st = save_histograms(c, o);
    if (st == GG_OK && o->update) st = gg_measures_update(list, gg_source_name(s), &c->err);
    return st;
}

static gg_status measure(cli *c, gg_source *s, const options *o)
{
    gg_measures list = { 0 };
    gg_measure_report r;
    bool svg_out = o->svg && strcmp(o->svg, "-") == 0,
         counts_out = o->histogram && strcmp(o->histogram, "-") == 0,
         instead = o->summary || o->wells != NO_WELLS || o->heat || o->rank,
         keep = instead || o->svg || o->update, print = !instead && !svg_out && !counts_out;
    printer p = { { .json = c->json }, keep ? &list : NULL };
    if (!print) p.rows = table_silent(columns);
    gg_measure_options m = o->m;
    m.row = take_row;
    m.row_ctx = &p;
    gg_status st = gg_measure_model(s, &m, &c->run, &r, &c->err);
    if (st == GG_OK) table_begin(&p.rows, columns);
    if (st == GG_OK) st = after(c, s, o, &list);
    if (st == GG_OK && c->verbose)
        cli_note(c, "%zu tensor%s, %llu of %llu values read", r.tensors, cli_s(r.tensors),
                 (unsigned long long)r.sampled, (unsigned long long)r.elements);
    gg_measures_free(&list);
    return st;
}

static gg_status open_source(cli *c, const options *o, gg_source **s)
{
    if (o->dir || c->args.n <= 1) return cli_open(c, cli_one(c, o->dir, "model"), CLI_DATA, s);
    return gg_source_open_files((char *const *)(uintptr_t)c->args.items, c->args.n, s, &c->err);
}

static void check(const cli *c, const options *o)
{
    bool summary = o->summary || o->wells != NO_WELLS || o->rank;
    if (o->summary + (o->wells != NO_WELLS) + o->heat + (o->rank != NULL) > 1)
        cli_usage(c, "give only one of --summary, --wells, --rank and --heat");
    if (o->rank && strcmp(o->rank, "experts") != 0 && strcmp(o->rank, "blocks") != 0)
        cli_usage(c, "--rank %s: use blocks or experts", o->rank);
    if (!o->m.imatrix && (o->rank || (o->color && strcmp(o->color, "importance") == 0)))
        cli_usage(c, "%s needs an importance matrix: add --imatrix FILE",
                  o->rank ? "--rank" : "--color importance");
    bool svg_out = o->svg && strcmp(o->svg, "-") == 0;
    if (o->histogram && o->svg && strcmp(o->histogram, o->svg) == 0)
        cli_usage(c, "--svg and --histogram need different files");
    if (o->histogram && strcmp(o->histogram, "-") == 0 && (summary || o->heat || svg_out))
        cli_usage(c, "--histogram - writes to stdout, like another option: name a file");
    if (o->histogram && c->wheres.n)
        cli_usage(c, "--histogram counts all selected tensors: leave out --where");
    if (svg_out && (summary || o->heat))
        cli_usage(c,
                  "--svg - writes to stdout: leave out --summary, --wells, --rank and --heat, or "
                  "name a file");
    if (c->json && (svg_out || o->heat))
        cli_usage(c, "%s draws a picture: leave out --json", svg_out ? "--svg -" : "--heat");
    if (o->color && !gg_measure_by_name(o->color))
        cli_usage(c, "--color %s: use the column of a measure, such as theta or calibrated",
                  o->color);
    if (o->m.blocks && o->m.sample == 0)
        cli_usage(c, "--sample 0 uses all values: leave out --blocks, or give a number of values");
    if (o->color && !o->svg && !o->heat) cli_usage(c, "--color needs --svg or --heat");
    if (o->dir && c->args.n) cli_usage(c, "give --dir or '%s', not both", c->args.items[0]);
    if (o->update && (o->m.split_experts || gg_select_has_experts(c->select)))
        cli_usage(c, "--update measures whole tensors: leave out --split-experts and --experts");
}

int main(int argc, char **argv)
{
    cli c = { .tool = "organ-measure",
              .help = help,
              .selects = true,
              .has_json = true,
              .has_force = true,
              .where_columns = columns };
    options o = { .wells = NO_WELLS, .m.sample = GG_SAMPLE_DEFAULT };
    const cli_option list[] = { { "dir", CLI_TEXT, &o.dir },
                                { "sample", CLI_COUNT, &o.m.sample },
                                { "blocks", CLI_FLAG, &o.m.blocks },
                                { "summary", CLI_FLAG, &o.summary },
                                { "wells", CLI_U64, &o.wells },
                                { "update", CLI_FLAG, &o.update },
                                { "split-experts", CLI_FLAG, &o.m.split_experts },
                                { "svg", CLI_TEXT, &o.svg },
                                { "heat", CLI_FLAG, &o.heat },
                                { "histogram", CLI_TEXT, &o.histogram },
                                { "color", CLI_TEXT, &o.color },
                                { "spectral", CLI_FLAG, &o.m.spectral },
                                { "imatrix", CLI_TEXT, &o.m.imatrix },
                                { "rank", CLI_TEXT, &o.rank },
                                { NULL, CLI_FLAG, NULL } };
    cli_start(&c, argc, argv, list);
    if (o.rank && strcmp(o.rank, "experts") == 0) o.m.split_experts = true;
    check(&c, &o);
    if (!o.color) o.color = "theta";
    if (strcmp(o.color, "edge") == 0) o.m.spectral = true;
    o.m.select = c.select;
    gg_histogram histograms[GG_CLASS_COUNT] = { 0 };
    if (o.histogram) o.m.histograms = histograms;
    gg_source *s;
    gg_status st = open_source(&c, &o, &s);
    if (st == GG_OK) {
        if (o.update && !gg_source_manifest(s)) {
            st = gg_fail(&c.err, GG_EUSAGE, "--update needs an organ directory");
            gg_fix(&c.err, "make one with organ-extract");
            gg_at_file(&c.err, gg_source_name(s));
        }
        if (st == GG_OK) st = picture_allowed(&c, o.svg, s);
        if (st == GG_OK) st = picture_allowed(&c, o.histogram, s);
        if (st == GG_OK) st = measure(&c, s, &o);
        gg_source_close(s);
    }
    return cli_end(&c, st);
}

/* organ-measure - measure how much structure the tensors of a model show. */
#include "common/cli.h"
#include "common/lists.h"
#include "common/pictures.h"

#include "gg_measure_model.h"

#include "base/text.h"           /* the order of names */
#include "organ/source_layout.h" /* is the source an organ directory? */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The help before the options, and after them. */
/* clang-format off */
static const char *const help[2] = {
    "usage: organ-measure MODEL | DIR | FILE.bin... | - [option...]\n"
    "Measure each tensor and print one row: moments, entropy, the angles theta and\n"
    "row_theta. MODEL is a GGUF file, a shard of a split model or an organ directory.\n"
    "DIR may be named: --dir.\n"
    ,
    "  organ-measure tests/data/lab/lab-verse-q4_k_m.gguf --summary\n"
    "  organ-measure tests/data/lab/lab-verse-q4_k_m.gguf --where 'theta<40'\n"
    "exit: 0 done, 1 nothing selected, 2 usage, 3 malformed input, 4 I/O failure\n"
};
/* clang-format on */

/* Columns of the table, and their names, tab-separated. */
typedef struct columns_of {
    const gg_measure_column *list[40];
    size_t n;
    char names[400];
} columns_of;

static columns_of all; /* those of the library */

static void add_column(columns_of *to, const gg_measure_column *column)
{
    size_t at = strlen(to->names);
    snprintf(to->names + at, sizeof to->names - at, "%s%s", to->n ? "\t" : "", column->name);
    to->list[to->n++] = column;
}

static void print_columns(cli *c)
{
    table to = list_start(c, LIST_COLUMNS);
    for (size_t i = 0; i < all.n; i++)
        table_line(&to, cell_text(all.list[i]->name), cell_text_if(all.list[i]->unit),
                   cell_text(all.list[i]->meaning));
}

/* The i-th column; those of --columns and --sort. */
static const char *column_to_print(size_t i)
{
    return i < all.n ? all.list[i]->name : NULL;
}

/* The i-th column that has numbers to draw, or NULL. */
static const char *column_to_draw(size_t i)
{
    for (size_t k = 0; k < all.n; k++)
        if (all.list[k]->value && i-- == 0) return all.list[k]->name;
    return NULL;
}

enum { RANK_BLOCKS, RANK_EXPERTS };

static struct {
    const char *dir, *svg, *color, *histogram, *columns, *sort;
    bool summary, update, heat, reads;
    int rank;
    uint64_t wells, top;
    gg_measure_options m;
} opt = { .color = "theta", .m.sample = GG_SAMPLE_DEFAULT };

static const cli_option options[] = {
    { "", CLI_MODEL, .arg = "MODEL", .place = 1, .many = true },
    { "dir", CLI_DIR, .to = &opt.dir, .arg = "DIR" },
    { "sample", CLI_COUNT, .to = &opt.m.sample, .arg = "N",
      .help = "values read per tensor, evenly spaced (100k; 0 is all)" },
    { "blocks", CLI_FLAG, .to = &opt.m.blocks,
      .help = "sample runs of 256 values, less than 1 % of a large tensor" },
    { "runs", CLI_U64, .to = &opt.m.runs, .arg = "K", .low = 2, .high = 65536, .excludes = "blocks",
      .help = "read only K runs of large tensors, as of URLs (8)" },
    { "reads", CLI_FLAG, .to = &opt.reads,
      .help = "print only which bytes would be read: file, place, bytes" },
    { "summary", CLI_FLAG, .to = &opt.summary, .excludes = "wells rank heat",
      .help = "one row per class and role, one for the model; 1-3 stars" },
    { "wells", CLI_U64, .to = &opt.wells, .arg = "K", .excludes = "rank heat",
      .help = "print only the K tensors with the lowest theta" },
    { "columns", CLI_TEXT, .to = &opt.columns, .arg = "NAME,...", .list = column_to_print,
      .excludes = "summary wells rank heat",
      .help = "print these columns, in this order (all; on a terminal those that fit)" },
    { "sort", CLI_TEXT, .to = &opt.sort, .arg = "COLUMN", .list = column_to_print,
      .excludes = "summary wells rank heat",
      .help = "print rows in the order of a column; -COLUMN: reversed" },
    { "top", CLI_U64, .to = &opt.top, .arg = "N", .low = 1, .high = 1e9,
      .excludes = "summary wells heat",
      .help = "print the first N rows only; with --rank experts, per block" },
    { "spectral", CLI_FLAG, .to = &opt.m.spectral,
      .help = "compute the column edge: 1 for noise, above 1 for structure" },
    { "imatrix", CLI_FILE, .to = &opt.m.imatrix, .arg = "FILE",
      .help = "compute the column importance from an importance matrix" },
    { "rank", CLI_WORD, .to = &opt.rank, .arg = "blocks", .values = "blocks experts",
      .needs = "imatrix", .needs_why = "blocks are ranked by their importance", .excludes = "heat",
      .help = "rank blocks by importance; or experts, within each block" },
    { "split-experts", CLI_FLAG, .to = &opt.m.split_experts,
      .help = "one row per expert of stacked tensors" },
    { "update", CLI_FLAG, .to = &opt.update, .excludes = "split-experts experts",
      .excludes_why = "measures whole tensors",
      .help = "also write the measures into DIR's manifest" },
    { "svg", CLI_NEW_FILE, .to = &opt.svg, .arg = "FILE",
      .help = "draw a map instead of a table, blocks across, roles down (- is stdout)" },
    { "heat", CLI_FLAG, .to = &opt.heat, .local = true, .excludes = "json",
      .excludes_why = "draws a picture", .help = "draw the same map on the terminal" },
    { "histogram", CLI_NEW_FILE, .to = &opt.histogram, .arg = "FILE", .excludes = "where",
      .excludes_why = "counts all selected tensors",
      .help = "count the values of each class (- is stdout)" },
    { "color", CLI_TEXT, .to = &opt.color, .arg = "COLUMN", .list = column_to_draw,
      .needs = "svg heat", .help = "measure to show: theta (default), calibrated, ..." },
    { "force", CLI_FLAG, .at = offsetof(cli, run.force),
      .help = "replace an existing picture or histogram" },
    { "list-columns", CLI_ACT, .act = print_columns, .help = "list the columns of the table" },
    { .group = cli_selection },
    { .group = cli_experts },
    { "where", CLI_WHERE, .at = offsetof(cli, wheres), .arg = "COND", .many = true,
      .values = all.names,
      .help = "only rows that satisfy it: 'theta<40', 'class=ffn', 'name!=*norm*'; operators < <= "
              "> >= = !=; may be repeated" },
    { .group = cli_common },
    { "json", CLI_FLAG, .at = offsetof(cli, json), .flow = ", " },
    { 0 },
};

typedef struct printer {
    table rows;        /* silent if only a summary or a picture is wanted */
    gg_measures *keep; /* NULL: rows are not kept */
} printer;

/* ---- tables -------------------------------------------------------------------- */

static table_cell cell_of_tensor(const char *column, const gg_tensor_measure *r)
{
    const gg_dtype_info *info = gg_dtype_get(r->t.dtype);
    if (strcmp(column, "name") == 0) return cell_bytes(r->t.name, r->t.name_len);
    if (strcmp(column, "class") == 0) return cell_class(gg_class_name(r->t.a.cls));
    if (strcmp(column, "dtype") == 0) return cell_text(info ? info->name : "unknown");
    if (strcmp(column, "part") == 0) return cell_text(gg_part_name(r->t.a.part));
    return cell_i64_if(r->t.a.block);
}

static table_cell cell_of(const gg_measure_column *column, const gg_tensor_measure *r)
{
    if (!r->decoded && column->kind == GG_COLUMN_MEASURE) return cell_null();
    if (column->count) return cell_u64(column->count(r));
    if (!column->value) return cell_of_tensor(column->name, r);
    double v = column->value(r);
    return column->kind == GG_COLUMN_OPTION ? cell_f64_if(v) : cell_f64(v);
}

/* Returns whether the row satisfies all conditions. */
static bool print_row(table *t, const gg_tensor_measure *r, const columns_of *list)
{
    for (size_t i = 0; i < list->n; i++) table_put(t, cell_of(list->list[i], r));
    /* In TSV, whose columns are fixed, a note on stderr reports it instead. */
    if (!r->decoded) table_member(t, "error", "no codec decodes this dtype");
    return table_row(t);
}

static gg_status take_row(void *ctx, const gg_tensor_measure *r, gg_error *err)
{
    printer *p = ctx;
    table_begin(&p->rows, all.names);
    bool matches = print_row(&p->rows, r, &all);
    if (ferror(stdout)) return cli_stdout_lost(err, table_errno()); /* the reader is gone: stop */
    return p->keep && matches ? gg_measures_add(p->keep, r, err) : GG_OK;
}

/* ---- some of the columns and rows ----------------------------------------------- */

static columns_of chosen;

static const gg_measure_column *find_column(const char *name, size_t len)
{
    for (size_t i = 0; i < all.n; i++)
        if (gg_text_is(name, len, all.list[i]->name)) return all.list[i];
    return NULL;
}

static void choose_column(const cli *c, const char *option, const char *name, size_t len)
{
    const gg_measure_column *column = find_column(name, len);
    if (!column)
        cli_usage(c, "%s: unknown column '%.*s'; --list-columns lists them", option, (int)len,
                  name);
    if (chosen.n == sizeof chosen.list / sizeof chosen.list[0])
        cli_usage(c, "%s: too many columns", option);
    add_column(&chosen, column);
}

/* The columns of --columns; on a terminal the name, the type, and up to six measures that fit. */
static void choose_columns(const cli *c, const gg_measures *list)
{
    static const char *const usual[] = { "importance", "edge",     "theta",   "calibrated",
                                         "row_theta",  "kurtosis", "entropy", "std" };
    const char *p = opt.columns;
    if (!p && (c->json || !isatty(STDOUT_FILENO))) chosen = all;
    for (; p; p = p[strcspn(p, ",")] ? strchr(p, ',') + 1 : NULL)
        choose_column(c, "--columns", p, strcspn(p, ","));
    if (chosen.n) return;
    size_t width = 4;
    for (size_t i = 0; i < list->n; i++)
        if (list->rows[i].t.name_len > width) width = list->rows[i].t.name_len;
    width += 2 + 7;
    choose_column(c, "", "name", 4);
    choose_column(c, "", "dtype", 5);
    for (size_t i = opt.m.imatrix ? 0 : 1; i < sizeof usual / sizeof usual[0]; i++) {
        if (i == 1 && !opt.m.spectral) continue;
        width += 2 + (strlen(usual[i]) > 9 ? strlen(usual[i]) : 9); /* such as 1.234e-05 */
        if (chosen.n == 8 || (width > 80 && chosen.n > 2)) break;
        choose_column(c, "", usual[i], strlen(usual[i]));
    }
}

static const gg_measure_column *sort_column; /* of --sort */

/* What rows are sorted by; NaN = no value. Names are compared as texts. */
static double sort_value(const gg_tensor_measure *r)
{
    const char *name = sort_column->name;
    if (!r->decoded && sort_column->kind == GG_COLUMN_MEASURE) return NAN;
    if (sort_column->count) return (double)sort_column->count(r);
    if (sort_column->value) return sort_column->value(r);
    if (strcmp(name, "block") == 0) return r->t.a.block >= 0 ? (double)r->t.a.block : NAN;
    if (strcmp(name, "class") == 0) return (double)r->t.a.cls;
    if (strcmp(name, "part") == 0) return (double)r->t.a.part;
    return strcmp(name, "dtype") == 0 ? (double)r->t.dtype : 0;
}

/* Rows without a value come last, whatever the order. Equal rows keep the order of the model. */
static int by_sort_column(const void *a, const void *b)
{
    const gg_tensor_measure *x = *(gg_tensor_measure *const *)a,
                            *y = *(gg_tensor_measure *const *)b;
    double v = sort_value(x), w = sort_value(y);
    int order = (v > w) - (v < w);
    if (isnan(v) || isnan(w)) return isnan(v) != isnan(w) ? (isnan(v) ? 1 : -1) : (x > y) - (x < y);
    if (strcmp(sort_column->name, "name") == 0)
        order = gg_text_order(x->t.name, x->t.name_len, y->t.name, y->t.name_len);
    if (opt.sort[0] == '-') order = -order;
    return order ? order : (x > y) - (x < y);
}

/* Finds the column of --sort. */
static void set_sort_column(const cli *c)
{
    const char *name = opt.sort + (opt.sort[0] == '-');
    choose_column(c, "--sort", name, strlen(name));
    sort_column = chosen.list[--chosen.n];
    chosen.names[0] = 0;
}

static gg_status print_chosen(cli *c, const gg_measures *list)
{
    const gg_tensor_measure **rows = malloc((list->n ? list->n : 1) * sizeof *rows);
    if (!rows) return gg_fail(&c->err, GG_ENOMEM, "no memory for %zu rows", list->n);
    for (size_t i = 0; i < list->n; i++) rows[i] = &list->rows[i];
    if (opt.sort) qsort(rows, list->n, sizeof *rows, by_sort_column);
    if (!chosen.n) choose_columns(c, list);
    table t = table_start(c->json, chosen.names);
    for (size_t i = 0; i < list->n && (!opt.top || i < opt.top); i++)
        print_row(&t, rows[i], &chosen);
    free(rows);
    return GG_OK;
}

static gg_status print_wells(cli *c, const gg_measures *list, uint64_t k)
{
    size_t *wells, n;
    gg_status st = gg_measures_wells(list, k < SIZE_MAX ? (size_t)k : SIZE_MAX, &wells, &n,
                                     &c->err);
    if (st != GG_OK) return st;
    table t = table_start(c->json, all.names);
    for (size_t i = 0; i < n; i++) print_row(&t, &list->rows[wells[i]], &all);
    free(wells);
    return GG_OK;
}

/* Whether the expert is among the best of its block that --top asks for. Earlier ranks are better.
 */
static bool is_shown(const gg_rank *ranks, size_t i)
{
    uint64_t better = 0;
    for (size_t k = 0; k < i && opt.top && opt.rank == RANK_EXPERTS; k++)
        better += ranks[k].block == ranks[i].block && ranks[k].part == ranks[i].part;
    return !opt.top || better < opt.top;
}

/* One row per block or expert, the most important first. */
static void print_ranks(cli *c, const gg_rank *ranks, size_t n)
{
    bool experts = opt.rank == RANK_EXPERTS;
    table t = table_start(c->json, experts ? "rank\tblock\texpert\ttensors\timportance\tshare\tpart"
                                           : "rank\tblock\ttensors\timportance\tshare\tpart");
    for (size_t i = 0; i < n; i++) {
        if (!is_shown(ranks, i)) continue;
        table_put(&t, cell_u64(i + 1), cell_i64(ranks[i].block));
        if (experts) table_put(&t, cell_i64(ranks[i].expert));
        table_line(&t, cell_u64(ranks[i].tensors), cell_f64(ranks[i].importance),
                   cell_f64(ranks[i].share), cell_text(gg_part_name(ranks[i].part)));
    }
}

/* The next block after `last`, by part and number. */
static const gg_rank *next_block(const gg_rank *ranks, size_t n, const gg_rank *last)
{
    const gg_rank *next = NULL;
    for (size_t i = 0; i < n; i++) {
        const gg_rank *r = &ranks[i];
        bool after = !last || r->part > last->part ||
                     (r->part == last->part && r->block > last->block);
        bool before = !next || r->part < next->part ||
                      (r->part == next->part && r->block < next->block);
        if (after && before) next = r;
    }
    return next;
}

/* On a terminal, one row per block: its best experts with their shares, and what the others have.
 */
static void print_blocks(const gg_rank *ranks, size_t n)
{
    enum { BEST = 5 };
    table t = table_start(false, "block\texperts\tbest, with their shares\tothers");
    for (const gg_rank *b = NULL; (b = next_block(ranks, n, b)) != NULL;) {
        char best[BEST * 48] = "", others[32] = "";
        size_t count = 0, at = 0;
        double rest = 0;
        for (size_t i = 0; i < n; i++) {
            if (ranks[i].block != b->block || ranks[i].part != b->part) continue;
            if (count++ >= BEST) rest += ranks[i].share;
            else
                at += (size_t)snprintf(best + at, sizeof best - at, "%s%lld: %.3g %%",
                                       at ? ", " : "", (long long)ranks[i].expert,
                                       100 * ranks[i].share);
        }
        if (count > BEST) snprintf(others, sizeof others, "%.3g %%", 100 * rest);
        table_line(&t, cell_i64(b->block), cell_u64(count), cell_text(best), cell_text_if(others));
    }
}

/* Adds a square per block and expert: its share of the importance of its block. */
static gg_status add_experts(gg_picture *p, const gg_rank *ranks, size_t n, gg_error *err)
{
    int64_t last = -1;
    gg_status st = GG_OK;
    for (size_t i = 0; i < n; i++) last = ranks[i].expert > last ? ranks[i].expert : last;
    for (int64_t e = 0; e <= last; e++)
        for (size_t i = 0; i < n && st == GG_OK; i++) {
            char name[64];
            if (ranks[i].expert != e) continue;
            int at = snprintf(name, sizeof name, "blk.%lld.", (long long)ranks[i].block);
            int len = snprintf(name + at, sizeof name - (size_t)at, "expert %lld", (long long)e);
            gg_tensor t = { .name = name,
                            .name_len = (size_t)(at + len),
                            .a = { .cls = GG_ORGAN,
                                   .block = ranks[i].block,
                                   .expert = -1,
                                   .role_at = (uint16_t)at,
                                   .role_len = (uint16_t)len } };
            st = gg_picture_add(p, &t, is_shown(ranks, i) ? ranks[i].share : NAN, err);
        }
    return st;
}

static gg_status draw_experts(cli *c, const gg_source *s, const gg_rank *ranks, size_t n)
{
    char title[128], text[120];
    picture_title(s, title);
    snprintf(text, sizeof text,
             opt.top ? "The best %llu experts of each block; empty squares are the others."
                     : "How much each expert contributes to its block.",
             (unsigned long long)opt.top);
    gg_picture p = { .title = title, .text = text, .column = "share" };
    gg_status st = add_experts(&p, ranks, n, &c->err);
    if (st == GG_OK) st = picture_save(c, &p, opt.svg);
    gg_picture_free(&p);
    return st;
}

static gg_status show_ranks(cli *c, const gg_measures *list, const gg_source *s)
{
    gg_rank *ranks;
    size_t n;
    bool experts = opt.rank == RANK_EXPERTS;
    gg_status st = gg_measures_rank(list, experts, &ranks, &n, &c->err);
    if (st == GG_OK && n == 0)
        st = gg_fail(&c->err, GG_NO, "the importance matrix has no tensor of %s",
                     experts ? "an expert of this model" : "a block of this model");
    bool brief = experts && !c->json && !opt.top && isatty(STDOUT_FILENO);
    if (st == GG_OK && brief) print_blocks(ranks, n);
    else if (st == GG_OK) print_ranks(c, ranks, n);
    if (st == GG_OK && experts && opt.svg) st = draw_experts(c, s, ranks, n);
    free(ranks);
    return st;
}

static void print_group(table *t, const gg_group *g)
{
    static const char *const kinds[] = { "class", "role", "model" };
    static const char *const stars[] = { "-", "*", "**", "***" }, *const numbers[] = { "null", "1",
                                                                                       "2", "3" };
    bool known = g->measured;
    table_line(t, cell_text(kinds[g->kind]),
               g->kind == GG_GROUP_CLASS ? cell_class(g->name) : cell_bytes(g->name, g->name_len),
               cell_u64(g->tensors), cell_u64(g->measured), cell_f64_when(known, g->theta),
               cell_f64_when(known, g->theta_min), cell_f64_when(known, g->theta_max),
               cell_f64_when(known, g->signal), cell_f64_when(known, g->calibrated),
               cell_f64_when(known, g->row_theta), cell_json(stars[g->stars], numbers[g->stars]),
               cell_text_if(g->kind == GG_GROUP_ROLE ? gg_part_name(g->part) : NULL),
               cell_f64_if(g->edge), cell_f64_if(g->importance));
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

/* The column with this name that has numbers to draw, or NULL. */
static const gg_measure_column *column_of(const char *name)
{
    const gg_measure_column *column = find_column(name, strlen(name));
    return column && column->value ? column : NULL;
}

static gg_status draw(cli *c, const gg_measures *list, const gg_source *s)
{
    char title[128];
    picture_title(s, title);
    const gg_measure_column *column = column_of(opt.color);
    gg_picture p = { .title = title,
                     .column = opt.color,
                     .unit = column->unit[0] ? column->unit : NULL };
    gg_status st = GG_OK;
    for (size_t i = 0; i < list->n && st == GG_OK; i++) {
        const gg_tensor_measure *r = &list->rows[i];
        st = gg_picture_add(&p, &r->t, r->decoded ? column->value(r) : NAN, &c->err);
    }
    if (st == GG_OK && opt.heat) st = picture_show(c, &p);
    if (st == GG_OK && opt.svg) st = picture_save(c, &p, opt.svg);
    gg_picture_free(&p);
    return st;
}

/* ---- histograms ---------------------------------------------------------------- */

static void print_bin(table *t, size_t cls, double low, double high, double values)
{
    table_line(t, cell_class(gg_class_name((gg_class)cls)), cell_f64_if(low), cell_f64_if(high),
               cell_f64(values));
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

static gg_status save_histograms(cli *c)
{
    const char *names = "class\tlow\thigh\tvalues";
    gg_buf text = GG_BUF_INIT;
    bool print = strcmp(opt.histogram, "-") == 0;
    table t = print ? table_start(c->json, names) : table_into(&text, c->json, names);
    print_bins(&t, opt.m.histograms);
    gg_status st = print ? GG_OK : picture_write(c, opt.histogram, &text);
    gg_buf_free(&text);
    return st;
}

/* ---- the run ------------------------------------------------------------------- */

/* Whether something else than one row per tensor goes to stdout. */
static bool prints_instead(const cli *c)
{
    return opt.summary || cli_given(c, "wells") || opt.heat || cli_given(c, "rank");
}

static bool prints_rows(const cli *c)
{
    return !prints_instead(c) && !cli_is_stdout(opt.svg) && !cli_is_stdout(opt.histogram) &&
           (!opt.svg || c->json || opt.columns || opt.sort || opt.top);
}

/* Whether the rows are printed after all of them are known, and not all of their columns. */
static bool prints_chosen(const cli *c)
{
    return prints_rows(c) &&
           (opt.columns || opt.sort || opt.top || (!c->json && isatty(STDOUT_FILENO)));
}

static gg_status after(cli *c, gg_source *s, const gg_measures *list)
{
    gg_status st = GG_OK;
    if (opt.summary) st = print_summary(c, list);
    else if (cli_given(c, "wells")) st = print_wells(c, list, opt.wells);
    else if (prints_chosen(c)) st = print_chosen(c, list);
    else if (cli_given(c, "rank")) st = show_ranks(c, list, s);
    bool map = opt.heat || (opt.svg && opt.rank != RANK_EXPERTS);
    if (st == GG_OK && map) st = draw(c, list, s);
    if (st == GG_OK && opt.histogram) st = save_histograms(c);
    if (st == GG_OK && opt.update) st = gg_measures_update(list, gg_source_name(s), &c->err);
    return st;
}

static gg_status measure(cli *c, gg_source *s)
{
    gg_measures list = { 0 };
    gg_measure_report r;
    bool some = prints_chosen(c), keep = some || prints_instead(c) || opt.svg || opt.update;
    printer p = { { .json = c->json }, keep ? &list : NULL };
    if (some || !prints_rows(c)) p.rows = table_silent(all.names);
    opt.m.row = take_row;
    opt.m.ctx = &p;
    opt.m.read = opt.reads ? cli_print_read : NULL;
    gg_status st = gg_measure_model(s, &opt.m, &c->run, &r, &c->err);
    if (opt.reads) return st;
    if (st == GG_OK) table_begin(&p.rows, all.names);
    if (st == GG_OK) st = after(c, s, &list);
    if (st == GG_OK && c->verbose)
        cli_note(c, "%zu tensor%s, %llu of %llu values read", r.tensors, cli_s(r.tensors),
                 (unsigned long long)r.sampled, (unsigned long long)r.elements);
    gg_measures_free(&list);
    return st;
}

static gg_status open_source(cli *c, gg_source **s)
{
    if (opt.dir || c->args.n <= 1) return cli_open(c, cli_one(c, opt.dir, "model"), CLI_DATA, s);
    gg_source_options records = { .more = (char *const *)(uintptr_t)(c->args.items + 1),
                                  .n_more = c->args.n - 1,
                                  .changed = &c->changed };
    return gg_source_open_with(c->args.items[0], &records, s, &c->err);
}

/* Checks what depends on the values of options. */
static void check_values(const cli *c)
{
    bool picture = cli_is_stdout(opt.svg);
    if (strcmp(opt.color, "importance") == 0 && !opt.m.imatrix)
        cli_usage(c, "--color importance needs an importance matrix: add --imatrix FILE");
    if (picture && c->json) cli_usage(c, "--svg - draws a picture: leave out --json");
    if ((picture || cli_is_stdout(opt.histogram)) && prints_instead(c))
        cli_usage(c, "--%s - writes to stdout, like another option: name a file",
                  picture ? "svg" : "histogram");
    if (!column_of(opt.color))
        cli_usage(c, "--color %s: use the column of a measure, such as theta or calibrated",
                  opt.color);
    if (opt.m.blocks && opt.m.sample == 0)
        cli_usage(c, "--sample 0 uses all values: leave out --blocks, or give a number of values");
    if (opt.top && cli_given(c, "rank") && opt.rank != RANK_EXPERTS)
        cli_usage(c, "--top N is for experts: --rank experts");
    if (opt.dir && c->args.n) cli_usage(c, "give --dir or '%s', not both", c->args.items[0]);
    if (opt.update && opt.m.split_experts)
        cli_usage(c, "--update measures whole tensors: leave out --rank experts");
}

int main(int argc, char **argv)
{
    CLI_TOOL(c, measure);
    const gg_measure_column *column;
    for (size_t i = 0; (column = gg_measure_column_at(i)) != NULL; i++) add_column(&all, column);
    cli_start(&c, argc, argv, options);
    c.stored_names = true;
    opt.m.split_experts = opt.m.split_experts ||
                          (cli_given(&c, "rank") && opt.rank == RANK_EXPERTS);
    check_values(&c);
    if (opt.sort) set_sort_column(&c);
    if (opt.columns) choose_columns(&c, NULL);
    opt.m.spectral = opt.m.spectral || strcmp(opt.color, "edge") == 0;
    opt.m.select = c.select;
    gg_histogram histograms[GG_CLASS_COUNT] = { 0 };
    if (opt.histogram) opt.m.histograms = histograms;
    gg_source *s;
    gg_status st = open_source(&c, &s);
    if (st == GG_OK) {
        if (opt.update && !gg_source_manifest(s)) {
            st = gg_fail(&c.err, GG_EUSAGE, "--update needs an organ directory");
            gg_fix(&c.err, "make one with organ-extract");
            gg_at_file(&c.err, gg_source_name(s));
        }
        if (st == GG_OK) st = picture_allowed(&c, opt.svg);
        if (st == GG_OK) st = picture_allowed(&c, opt.histogram);
        if (st == GG_OK) st = measure(&c, s);
        gg_source_close(s);
    }
    return cli_end(&c, st);
}

/* table.c - TSV or JSON Lines, and aligned columns on a terminal. */
#include "table.h"

#include "json/json.h" /* JSON writer */

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"            /* rows that are held back */
#include "organ/manifest_json.h" /* names that are not UTF-8 */
#include "organ/tensor_names.h"  /* names of classes for people */
#define MAX_COLUMNS 40
#define MAX_HELD 1000 /* rows that are held back to find the widths of columns */

/* The kinds of cells on a terminal, where text makes a column aligned to the left. The kind is
 * stored before the text of each cell. */
enum { HEAD = 'h', ABSENT = 'a', NUMBER = 'n', TEXT = 't' };

static atomic_int lost_by;

/* The row that is being made: printed bytes, or on a terminal all rows held back, each cell
 * as its kind, its text and a NUL. */
static gg_buf row;
static bool streamed;    /* a long row is printed in pieces, as nothing decides about it later */
static size_t row_start; /* where the last row begins in `row` */
static bool aligned;     /* a table is on the terminal */
static size_t held_rows; /* not counting the header */
static size_t width[MAX_COLUMNS];
static bool left[MAX_COLUMNS]; /* the column is aligned to the left: it has text */

/* Conditions on rows, and the cells of the row that they are compared with. */
static struct {
    const char *columns;
    where *list;
    size_t n;
    where_value cells[MAX_COLUMNS];
    size_t text_at[MAX_COLUMNS]; /* in `words`, as that may move */
    gg_buf words;
    bool started, any;
} filter;

static void lose(int why)
{
    int none = 0;
    atomic_compare_exchange_strong(&lost_by, &none, why ? why : EIO);
}

#define PIECE ((size_t)65536)

static gg_error failure; /* of any cell: clearing one for each takes longer than printing */

static void put(const char *bytes, size_t n)
{
    if (streamed && row.len + n >= PIECE) {
        fwrite(row.data, 1, row.len, stdout);
        gg_buf_clear(&row);
        if (n >= PIECE) fwrite(bytes, 1, n, stdout);
        if (n >= PIECE) return;
    }
    if (gg_buf_append(&row, bytes, n, &failure) != GG_OK) lose(ENOMEM);
}

static void put_text(const char *text)
{
    put(text, strlen(text));
}

/* ---- alignment -------------------------------------------------------------------- */

/* The number of characters of a text in UTF-8. */
static size_t text_width(const char *text)
{
    size_t n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* For tables that must fit: the name of the column that may be left out. */
static struct {
    const char *drop;
    size_t column; /* its number, if it is left out */
} fit = { NULL, SIZE_MAX };

void table_fit(const char *drop)
{
    fit.drop = drop;
}

size_t table_terminal(void)
{
    struct winsize size = { 0 };
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

/* Makes the columns fit the terminal, after `width` is known. */
static void fit_columns(size_t n)
{
    size_t room = table_terminal(), all = 2 * (n - 1);
    const size_t least = 20; /* of the first column */
    for (size_t i = 0; i < n; i++) all += width[i];
    const char *cell = row.data;
    for (size_t i = 0; *cell == HEAD && i < n && all > room; i++, cell += strlen(cell) + 1)
        if (strcmp(cell + 1, fit.drop) == 0) fit.column = i;
    if (fit.column != SIZE_MAX) all -= width[fit.column] + 2;
    if (all > room && width[0] > least)
        width[0] -= all - room < width[0] - least ? all - room : width[0] - least;
}

/* Prints a text that is longer than its column without its middle. */
static void print_cut(const char *text, size_t n, size_t room)
{
    size_t head = (room - 3) * 2 / 3, tail = room - 3 - head, i = 0;
    for (; *text; text++) {
        i += ((unsigned char)*text & 0xc0) != 0x80;
        if (i <= head || i > n - tail) putchar(*text);
        else if (i == head + 1 && ((unsigned char)*text & 0xc0) != 0x80) fputs("...", stdout);
    }
}

static void print_aligned(const char *text, size_t column, bool last)
{
    size_t n = text_width(text), pad = width[column] > n ? width[column] - n : 0;
    if (column == fit.column) return;
    if (fit.drop && column == 0 && n > width[0]) {
        print_cut(text, n, width[0]);
        fputs(last ? "\n" : "  ", stdout);
        return;
    }
    if (!left[column]) printf("%*s", (int)pad, "");
    fputs(text, stdout);
    if (left[column] && !last) printf("%*s", (int)pad, "");
    fputs(last ? "\n" : "  ", stdout);
}

/* Prints the rows held back. Those that follow are aligned with them, as far as they fit. */
static void print_held(void)
{
    if (table_errno() == ENOMEM) gg_buf_clear(&row); /* it may be incomplete */
    size_t columns = 0;
    for (int pass = 0; pass < 2; pass++) { /* measures, prints */
        if (pass == 1 && fit.drop && columns) fit_columns(columns);
        const char *cell = row.data, *end = cell ? cell + row.len : NULL;
        for (size_t i = 0; cell < end; i++) {
            const char *text = cell + 1;
            size_t n = text_width(text);
            if (*cell == TEXT) left[i] = true;
            if (pass == 0 && n > width[i]) width[i] = n;
            if (i >= columns) columns = i + 1;
            cell = text + strlen(text) + 1;
            bool last = *cell == '\n';
            if (pass == 1) print_aligned(text, i, last);
            if (!last) continue;
            cell++;
            i = SIZE_MAX; /* the first column is next */
        }
    }
    gg_buf_clear(&row);
    held_rows = row_start = 0;
    if (ferror(stdout)) lose(errno);
}

/* Holds the header line back as the first row. */
static void start_aligned(const char *columns)
{
    static const char head = HEAD;
    memset(width, 0, sizeof width);
    memset(left, 0, sizeof left);
    for (const char *p = columns; *p; p += *p == '\t') {
        size_t n = strcspn(p, "\t");
        put(&head, 1);
        put(p, n);
        put("", 1);
        p += n;
    }
    put("\n", 1);
    aligned = true;
    row_start = row.len;
}

/* ---- tables ----------------------------------------------------------------------- */

void table_where(const char *columns, where *list, size_t n)
{
    filter.columns = columns;
    filter.list = list;
    filter.n = n;
}

static bool filtered(const table *t)
{
    return filter.n > 0 && strcmp(t->columns, filter.columns) == 0;
}

void table_end(void)
{
    if (aligned) print_held();
    aligned = false;
    gg_buf_free(&row);
    gg_buf_free(&filter.words);
}

table table_start(bool json, const char *columns)
{
    table_end();
    table t = { .json = json, .columns = columns, .next = columns };
    t.aligned = !json && isatty(STDOUT_FILENO);
    row_start = held_rows = 0;
    if (filtered(&t)) filter.started = true;
    streamed = false;
    if (t.aligned) start_aligned(columns);
    else if (!json) puts(columns);
    return t;
}

void table_begin(table *t, const char *columns)
{
    if (!t->columns) *t = table_start(t->json, columns);
}

table table_into(gg_buf *into, bool json, const char *columns)
{
    gg_error err = GG_ERROR_INIT;
    table_end();
    row_start = 0;
    table t = { .json = json, .columns = columns, .next = columns, .into = into };
    if (!json && (gg_buf_append(into, columns, strlen(columns), &err) != GG_OK ||
                  gg_buf_append(into, "\n", 1, &err) != GG_OK))
        lose(ENOMEM);
    return t;
}

table table_silent(const char *columns)
{
    table t = { .silent = true, .columns = columns, .next = columns };
    if (filtered(&t)) filter.started = true;
    return t;
}

bool table_any(void)
{
    return filter.any || !filter.started;
}

/* ---- cells ------------------------------------------------------------------------ */

/* Begins a cell: a tab and, in JSON, the name of its column; on a terminal its kind. */
static void lead(table *t, char kind)
{
    size_t n = strcspn(t->next, "\t");
    streamed = !t->aligned && !t->into && !t->silent && !filtered(t);
    if (t->column > 0 && t->aligned) put("", 1);
    if (t->json) {
        put_text(t->column ? ", \"" : "{\"");
        put(t->next, n);
        put_text("\": ");
    } else if (t->aligned) {
        put(&kind, 1);
    } else if (t->column) {
        put("\t", 1);
    }
    t->next += n + (t->next[n] == '\t');
    t->column++;
}

static where_value *value_of(const table *t, where_kind kind)
{
    static where_value unused;
    where_value *v = filtered(t) && t->column <= MAX_COLUMNS ? &filter.cells[t->column - 1]
                                                             : &unused;
    *v = (where_value){ 0 };
    v->kind = kind;
    return v;
}

/* Keeps the escaped text of a cell for the conditions. */
static void keep_text(const table *t, const char *bytes, size_t n)
{
    if (!filtered(t) || t->column > MAX_COLUMNS) return;
    value_of(t, WHERE_TEXT);
    if (gg_buf_reserve(&filter.words, 4 * n + 1, &failure) != GG_OK) {
        value_of(t, WHERE_ABSENT);
        lose(ENOMEM);
        return;
    }
    filter.text_at[t->column - 1] = filter.words.len;
    filter.words.len += 1 + gg_escape(bytes, n, filter.words.data + filter.words.len, 4 * n + 1);
}

static gg_status to_row(void *ctx, const char *bytes, size_t n, gg_error *err)
{
    (void)ctx;
    put(bytes, n);
    return table_errno() == ENOMEM ? gg_fail(err, GG_ENOMEM, "no memory for a row") : GG_OK;
}

static void put_bytes(table *t, const char *bytes, size_t n)
{
    keep_text(t, bytes, n);
    if (t->json) {
        gg_json_out o = { to_row, NULL };
        if (gg_mj_put_bytes(&o, bytes, n, &failure) != GG_OK) lose(ENOMEM);
    } else {
        const gg_json_out o = { to_row, NULL };
        gg_mj_put_escaped(&o, bytes, n, &failure);
    }
}

static void put_class(table *t, const char *name)
{
    gg_class cls;
    bool label = t->aligned && gg_class_by_name(name, strlen(name), &cls);
    if (label) {
        keep_text(t, name, strlen(name));
        put_text(gg_class_label(cls));
    } else {
        put_bytes(t, name, strlen(name));
    }
}

static void put_number(table *t, const table_cell *c)
{
    char text[32];
    where_value *w = value_of(t, WHERE_WHOLE);
    if (c->kind == CELL_F64) {
        *w = (where_value){ .kind = WHERE_NUMBER, .number = c->f64 };
        if (t->aligned) snprintf(text, sizeof text, "%.4g", c->f64);
        else gg_format_f64(c->f64, text);
    } else if (c->kind == CELL_I64 && c->i64 < 0) {
        *w = (where_value){ .kind = WHERE_NUMBER, .number = (double)c->i64 };
        snprintf(text, sizeof text, "%lld", (long long)c->i64);
    } else {
        w->whole = c->kind == CELL_U64 ? c->u64 : (uint64_t)c->i64;
        w->number = (double)w->whole;
        snprintf(text, sizeof text, "%llu", (unsigned long long)w->whole);
    }
    put_text(c->kind == CELL_F64 && t->json && !isfinite(c->f64) ? "null" : text);
}

/* Text for either format. */
static void put_either(table *t, const char *tsv, const char *json)
{
    keep_text(t, tsv, strlen(tsv));
    if (strcmp(tsv, "-") == 0) value_of(t, WHERE_ABSENT);
    put_text(t->json ? json : tsv);
}

static void put_dims(table *t, const gg_tensor *of)
{
    char dims[100] = "", json[100] = "[";
    for (uint32_t i = 0; i < of->n_dims; i++) {
        size_t n = strlen(dims), m = strlen(json);
        unsigned long long v = of->dims[i];
        snprintf(dims + n, sizeof dims - n, "%s%llu", i ? "x" : "", v);
        snprintf(json + m, sizeof json - m, "%s%llu", i ? ", " : "", v);
    }
    snprintf(json + strlen(json), sizeof json - strlen(json), "]");
    put_either(t, of->n_dims ? dims : "-", json);
}

static void put_cell(table *t, const table_cell *c)
{
    gg_key_form form = c->form;
    bool absent = c->kind == CELL_NULL || (c->kind == CELL_DIMS && !c->tensor);
    lead(t, absent ? ABSENT : c->kind >= CELL_U64 && c->kind <= CELL_F64 ? NUMBER : TEXT);
    value_of(t, WHERE_ABSENT);
    if (absent) {
        put_text(t->json ? "null" : "-");
        return;
    }
    form.as = t->json ? GG_KEY_JSON : GG_KEY_LINE;
    switch (c->kind) {
    case CELL_BYTES: put_bytes(t, c->text, c->n); break;
    case CELL_ESCAPED:
        if (t->json) put_bytes(t, c->text, strlen(c->text));
        else put_either(t, c->text, c->text);
        break;
    case CELL_CLASS: put_class(t, c->text); break;
    case CELL_BOOL: put_either(t, c->u64 ? "true" : "false", c->u64 ? "true" : "false"); break;
    case CELL_DIMS: put_dims(t, c->tensor); break;
    case CELL_JSON: put_either(t, c->text, c->json); break;
    case CELL_KEY_VALUE: gg_key_put(c->kv, &form, to_row, NULL, c->err); break;
    default: put_number(t, c);
    }
}

void table_put_cells(table *t, const table_cell *cells, size_t n)
{
    for (size_t i = 0; i < n; i++) put_cell(t, &cells[i]);
}

void table_member(table *t, const char *name, const char *text)
{
    gg_json_out o = { to_row, NULL };
    if (!t->json) return;
    put_text(", \"");
    put_text(name);
    put_text("\": ");
    if (gg_mj_put_bytes(&o, text, strlen(text), &failure) != GG_OK) lose(ENOMEM);
}

/* ---- rows ------------------------------------------------------------------------- */

static bool row_matches(const table *t)
{
    bool all = true;
    if (!filtered(t)) return true;
    for (size_t i = 0; i < filter.n; i++) {
        where_value cell = filter.cells[filter.list[i].column];
        if (cell.kind == WHERE_TEXT)
            cell.text = filter.words.data + filter.text_at[filter.list[i].column];
        bool holds = where_holds(&filter.list[i], &cell);
        filter.list[i].met = filter.list[i].met || holds;
        all = all && holds;
    }
    filter.any = filter.any || all;
    gg_buf_clear(&filter.words);
    return all;
}

bool table_row(table *t)
{
    while (*t->next) table_put(t, cell_null());
    bool matches = row_matches(t);
    t->next = t->columns;
    t->column = 0;
    if (t->aligned) put("\0\n", 2);
    else put_text(t->json ? "}\n" : "\n");
    if (!matches || t->silent) {
        row.len = row_start;
    } else if (t->aligned) {
        row_start = row.len;
        if (++held_rows == MAX_HELD) print_held();
    } else {
        gg_error err = GG_ERROR_INIT;
        if (t->into && gg_buf_append(t->into, row.data, row.len, &err) != GG_OK) lose(ENOMEM);
        if (!t->into && row.len) fwrite(row.data, 1, row.len, stdout);
        gg_buf_clear(&row);
        if (ferror(stdout)) lose(errno);
    }
    return matches;
}

int table_errno(void)
{
    return atomic_load(&lost_by);
}

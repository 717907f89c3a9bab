/* table.h - rows on stdout as TSV with a header line, or as JSON Lines with the
 * same names. Cells are put in the order of the columns.
 *
 *     table t = table_start(json, "name\tbytes");
 *     table_line(&t, cell_bytes(name, len), cell_u64(12));
 *
 * On a terminal the columns are aligned and floating-point numbers rounded to four significant
 * digits. Rows are then held back until the table ends, or until there are many. Only one
 * table is printed at a time.
 */
#pragma once

#include "key_text.h"
#include "where.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct table {
    bool json;
    bool aligned;        /* to a terminal */
    bool silent;         /* rows are compared with the conditions, but not printed */
    const char *columns; /* tab-separated names */
    const char *next;    /* name of the next cell's column */
    size_t column;       /* its number */
    struct gg_buf *into; /* rows are appended to it instead of printed; NULL = stdout */
} table;

/* Conditions that rows of tables with exactly these columns must satisfy. `list` is not copied;
 * list[i].met is set when a row satisfies it. */
void table_where(const char *columns, where *list, size_t n);

table table_start(bool json, const char *columns); /* prints the header line of a TSV */

/* Starts the table if no earlier call did. Start from { .json = json } and call this before each
 * row, and after success: then a run that fails before the first row prints no header line. */
void table_begin(table *t, const char *columns);

/* Of tables that are wider than the terminal, the column `drop` is left out, and the first column
 * is cut in the middle. For the rest of the run. */
void table_fit(const char *drop);

/* The number of columns of the terminal on stdout; 80 if it is not known. */
size_t table_terminal(void);

/* A table whose header line and rows are appended to a buffer, not printed. */
table table_into(struct gg_buf *into, bool json, const char *columns);

/* A table that prints nothing. Its rows only serve for the answer of table_row. */
table table_silent(const char *columns);

/* A cell of a row. */
typedef struct table_cell {
    enum {
        CELL_NULL, /* "-" in TSV, null in JSON */
        CELL_BYTES,
        CELL_ESCAPED,
        CELL_CLASS,
        CELL_U64,
        CELL_I64,
        CELL_F64,
        CELL_BOOL,
        CELL_DIMS,
        CELL_JSON,
        CELL_KEY_VALUE,
    } kind;
    const char *text, *json;
    size_t n;
    uint64_t u64;
    int64_t i64;
    double f64;
    const gg_tensor *tensor;
    const gg_kv *kv;
    gg_key_form form;
    gg_error *err;
} table_cell;

#define cell_null() ((table_cell){ .kind = CELL_NULL })
/* Escaped; {"base64"} in JSON where not UTF-8. */
#define cell_bytes(bytes, len) ((table_cell){ CELL_BYTES, .text = (bytes), .n = (len) })
/* Text that gg_escape has escaped already; a string in JSON. */
#define cell_escaped(escaped) ((table_cell){ CELL_ESCAPED, .text = (escaped) })
/* The name of a class, which people see as attention, ffn or embedding; or another word. */
#define cell_class(name) ((table_cell){ CELL_CLASS, .text = (name) })
#define cell_u64(v) ((table_cell){ CELL_U64, .u64 = (v) })
#define cell_i64(v) ((table_cell){ CELL_I64, .i64 = (v) })
#define cell_f64(v) ((table_cell){ CELL_F64, .f64 = (v) }) /* shortest; nan, inf: null in JSON */
#define cell_bool(v) ((table_cell){ CELL_BOOL, .u64 = (v) })
/* "32x64", or an array in JSON; nothing for NULL. */
#define cell_dims(t) ((table_cell){ CELL_DIMS, .tensor = (t) })
/* Text for either format. */
#define cell_json(tsv, other) ((table_cell){ CELL_JSON, .text = (tsv), .json = (other) })
/* The value of a key: a line of text or, in a JSON table, a JSON value. form.as is ignored. */
#define cell_key_value(key, how, error) \
    ((table_cell){ CELL_KEY_VALUE, .kv = (key), .form = (how), .err = (error) })

static inline table_cell cell_text(const char *text)
{
    return cell_bytes(text, strlen(text));
}

/* The same, or nothing: for NULL or "", for a negative number, for NaN. */
static inline table_cell cell_text_if(const char *text)
{
    return text && text[0] ? cell_text(text) : cell_null();
}

static inline table_cell cell_i64_if(int64_t v)
{
    return v >= 0 ? cell_i64(v) : cell_null();
}

static inline table_cell cell_f64_if(double v)
{
    return isnan(v) ? cell_null() : cell_f64(v);
}

static inline table_cell cell_f64_when(bool known, double v)
{
    return known ? cell_f64(v) : cell_null();
}

/* Add cells to the row: table_put(&t, cell_text(name), cell_u64(12)). table_line also ends it. */
void table_put_cells(table *t, const table_cell *cells, size_t n);
#define TABLE_CELLS(...) \
    (const table_cell[]) \
    { \
        __VA_ARGS__ \
    }
#define table_put(t, ...) \
    table_put_cells(t, TABLE_CELLS(__VA_ARGS__), \
                    sizeof(TABLE_CELLS(__VA_ARGS__)) / sizeof(table_cell))
#define table_line(t, ...) (table_put(t, __VA_ARGS__), table_row(t))

/* Add a member to the row of a JSON table, after its columns. */
void table_member(table *t, const char *name, const char *text);

/* End the row; columns without a cell are null. Returns whether it satisfies all conditions; only
 * then is it printed. */
bool table_row(table *t);

/* Print the rows that are held back, and release all memory. */
void table_end(void);

/* Whether a row of the table with conditions was printed, or none was started. */
bool table_any(void);

/* The errno of the first row that could not be written to stdout; 0 if none failed. Rows
 * may come from several threads, one at a time, and errno belongs to each thread. */
int table_errno(void);

/* table.h - rows on stdout as TSV with a header line, or as JSON Lines with the
 * same names. Cells are put in the order of the columns.
 *
 *     table t = table_start(json, "name\tbytes");
 *     cell_bytes(&t, name, len); cell_u64(&t, 12); table_row(&t);
 *
 * On a terminal the columns are aligned and floating-point numbers rounded to four significant
 * digits. Rows are then held back until the table ends, or until there are many. Only one
 * table is printed at a time.
 */
#ifndef TABLE_H
#define TABLE_H

#include "where.h"

#include "organ/gg_keys.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* A table whose header line and rows are appended to a buffer, not printed. */
table table_into(struct gg_buf *into, bool json, const char *columns);

/* A table that prints nothing. Its rows only serve for the answer of table_row. */
table table_silent(const char *columns);

void cell_bytes(table *t, const char *bytes,
                size_t n); /* escaped; {"base64"} in JSON where not UTF-8 */
void cell_text(table *t, const char *text);
void cell_u64(table *t, uint64_t v);
void cell_i64(table *t, int64_t v);
void cell_f64(table *t, double v); /* shortest; nan and inf as null in JSON */
void cell_bool(table *t, bool v);
/* The same, or nothing: for NULL or "", for a negative number, for NaN. */
void cell_text_if(table *t, const char *text);
void cell_i64_if(table *t, int64_t v);
void cell_f64_if(table *t, double v);
void cell_null(table *t);                                    /* "-" in TSV, null in JSON */
void cell_json(table *t, const char *tsv, const char *json); /* text for either format */

/* Add a member to the row of a JSON table, after its columns. */
void cell_member(table *t, const char *name, const char *text);

/* End the row. Returns whether it satisfies all conditions; only then is it printed. */
bool table_row(table *t);

/* The value of a key: a line of text or, in a JSON table, a JSON value. form->as is ignored. */
void cell_key_value(table *t, const gg_kv *kv, gg_key_form form, gg_error *err);

/* Print the rows that are held back, and release all memory. */
void table_end(void);

/* Whether a row of the table with conditions was printed, or none was started. */
bool table_any(void);

/* The errno of the first row that could not be written to stdout; 0 if none failed. Rows
 * may come from several threads, one at a time, and errno belongs to each thread. */
int table_errno(void);

#endif

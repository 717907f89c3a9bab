/* lists.h - lists of names that a tool prints instead of working: --list-columns, --list-types, ...
 *
 * Each list exists once, in the library or in the tool. Whatever else needs its names, such as the
 * completion of a shell, asks the tool for them.
 */
#pragma once

#include "cli.h"
#include "table.h"

/* Starts the table of a list, whose first column holds the names. Exits if a model was given. */
table list_start(const cli *c, const char *columns);

/* A column of a table that a tool prints. */
typedef struct table_column {
    const char *name, *unit, *meaning; /* unit "" = none */
} table_column;

/* For a list of columns X(name, unit, meaning): rows of table_column, and the names as texts, a tab
 * before each. */
#define TABLE_COLUMN(name, unit, meaning) { name, unit, meaning },
#define TABLE_NAME(name, unit, meaning) "\t" name

#define LIST_COLUMNS "name\tunit\tmeaning"
/* Prints columns; the last one has no name. */
void list_columns(const cli *c, const table_column *columns);

/* Whether a type can be encoded: "yes", "no", or "imatrix" if only with an importance matrix. */
const char *list_encoding(const gg_dtype_info *type);

/* The i-th type that can be encoded, and the i-th preset, or NULL: for tables of options. */
const char *list_encodable(size_t i);
const char *list_preset(size_t i);

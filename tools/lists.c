/* lists.c - lists of names that a tool prints instead of working. */
#include "lists.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

table list_start(const cli *c, const char *columns)
{
    if (c->args.n) cli_usage(c, "a list takes no model, but '%s' is given", c->args.items[0]);
    return table_start(c->json, columns);
}

void list_columns(const cli *c, const table_column *columns)
{
    table to = list_start(c, "name\tunit\tmeaning");
    for (; columns->name; columns++) {
        cell_text(&to, columns->name);
        if (columns->unit[0]) cell_text(&to, columns->unit);
        else cell_null(&to);
        cell_text(&to, columns->meaning);
        table_row(&to);
    }
}

void list_names(const table_column *columns, char *names, size_t size)
{
    size_t n = 0;
    for (const table_column *column = columns; column->name; column++) {
        if (n + strlen(column->name) + 2 > size) abort(); /* the caller's array is too short */
        n += (size_t)snprintf(names + n, size - n, "%s%s", n ? "\t" : "", column->name);
    }
}

/* lists.c - lists of names that a tool prints instead of working. */
#include "lists.h"
#include "quant/quant.h"

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
    table to = list_start(c, LIST_COLUMNS);
    for (; columns->name; columns++) {
        table_line(&to, cell_text(columns->name), cell_text_if(columns->unit),
                   cell_text(columns->meaning));
    }
}

/* ---- types ------------------------------------------------------------------------- */

const char *list_encoding(const gg_dtype_info *type)
{
    if (gg_can_encode(type->id)) return "yes";
    return gg_encode_needs_imatrix(type->id) ? "imatrix" : "no";
}

const char *list_encodable(size_t i)
{
    const gg_dtype_info *type;
    for (size_t k = 0; (type = gg_dtype_at(k)) != NULL; k++)
        if (type->kind == GG_DTYPE_LIVE && *list_encoding(type) != 'n' && i-- == 0)
            return type->name;
    return NULL;
}

const char *list_preset(size_t i)
{
    const gg_preset *preset = gg_preset_at(i);
    return preset ? preset->name : NULL;
}

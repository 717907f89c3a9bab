/* align_table.c - the tables of organ-compare --align. */
#include "align_table.h"

#include "table.h"

#include <stdio.h>

/* The header line is printed with the first row, so a run that fails earlier prints nothing. */
typedef struct align_rows {
    table t;
    bool json, groups, started;
} align_rows;

static table *started(align_rows *r)
{
    if (!r->started)
        r->t = table_start(
            r->json,
            r->groups ? "kind\tblock\tblock_b\texpert\tunits\tmoved\tfound\tcosine\tcosine_before"
                      : "kind\tblock\tblock_b\texpert\tunit\tunit_b\tcosine");
    r->started = true;
    return &r->t;
}

static void cell_number(table *t, int64_t v)
{
    if (v >= 0) cell_i64(t, v);
    else cell_null(t);
}

/* The columns that all rows of a group share. */
static void print_place(table *t, const gg_align_group *g)
{
    cell_text(t, gg_align_name(g->kind));
    cell_number(t, g->block);
    cell_number(t, g->donor_block);
    cell_number(t, g->expert);
}

static gg_status print_group(void *ctx, const gg_align_group *g, gg_error *err)
{
    align_rows *r = ctx;
    table *t = started(r);
    for (size_t i = 0; i < g->n && !r->groups; i++) {
        print_place(t, g);
        cell_u64(t, i);
        cell_u64(t, g->from[i]);
        cell_f64(t, (double)g->cosine[i]);
        table_row(t);
    }
    if (r->groups) {
        print_place(t, g);
        cell_u64(t, g->n);
        cell_u64(t, g->moved);
        cell_text(t, g->found ? "yes" : "no");
        cell_f64(t, g->mean);
        cell_f64(t, g->before);
        table_row(t);
    }
    return ferror(stdout) ? cli_stdout_lost(err, table_errno()) : GG_OK;
}

void align_note(const cli *c, const char *name, const gg_align_report *r)
{
    if (r->found < r->groups)
        cli_note(c, "%s: %zu of %zu groups of units have no counterpart and stay in place", name,
                 r->groups - r->found, r->groups);
    if (r->moved || c->verbose)
        cli_note(c, "%s: %zu of %zu units change places", name, r->moved, r->units);
    if (r->decoded)
        cli_note(c, "%s: %zu quantized tensor%s encoded again, because columns move", name,
                 r->decoded, r->decoded == 1 ? " is" : "s are");
}

gg_status align_table(cli *c, gg_source *a, gg_source *b, const gg_align_options *o, bool groups)
{
    gg_align_report r;
    align_rows rows = { .json = c->json, .groups = groups };
    gg_align_options each = *o;
    each.group = print_group;
    each.ctx = &rows;
    gg_status st = gg_align(a, b, &each, &c->run, NULL, &r, &c->err);
    if (st != GG_OK) return st;
    started(&rows);
    if (c->verbose) cli_note(c, "%zu of %zu units are in another place", r.moved, r.units);
    return r.found < r.groups || r.groups == 0 ? GG_NO : GG_OK;
}

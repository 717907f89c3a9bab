/* align_table.c - the tables of organ-compare --align and --lineage. */
#include "align_table.h"

#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct align_rows {
    table t;
    bool groups;
} align_rows;

static table *started(align_rows *r)
{
    table_begin(&r->t,
                r->groups
                    ? "kind\tblock\tblock_b\texpert\tunits\tmoved\tfound\tcosine\tcosine_before"
                    : "kind\tblock\tblock_b\texpert\tunit\tunit_b\tcosine");
    return &r->t;
}

/* The columns that all rows of a group share. */
static void print_place(table *t, const gg_align_group *g)
{
    table_put(t, cell_text(gg_align_name(g->kind)), cell_i64_if(g->block),
              cell_i64_if(g->donor_block), cell_i64_if(g->expert));
}

static gg_status print_group(void *ctx, const gg_align_group *g, gg_error *err)
{
    align_rows *r = ctx;
    table *t = started(r);
    for (size_t i = 0; i < g->n && !r->groups; i++) {
        print_place(t, g);
        table_line(t, cell_u64(i), cell_u64(g->from[i]), cell_f64((double)g->cosine[i]));
    }
    if (r->groups) {
        print_place(t, g);
        table_line(t, cell_u64(g->n), cell_u64(g->moved), cell_text(g->found ? "yes" : "no"),
                   cell_f64(g->mean), cell_f64(g->before));
    }
    return ferror(stdout) ? cli_stdout_lost(err, table_errno()) : GG_OK;
}

gg_status align_table(cli *c, gg_source *a, gg_source *b, const gg_align_options *o, bool groups)
{
    gg_align_report r;
    align_rows rows = { .t.json = c->json, .groups = groups };
    gg_align_options each = *o;
    each.row = print_group;
    each.ctx = &rows;
    gg_status st = gg_align(a, b, &each, NULL, &c->run, &r, &c->err);
    if (st != GG_OK) return st;
    started(&rows);
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

gg_status lineage_row(cli *c, gg_source *a, gg_source *b, const gg_compare_options *o)
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
    if (l.verdict == GG_LINEAGE_PERMUTED)
        cli_note(c, "whole layers can be grafted as they are; anything else needs --align");
    return l.verdict == GG_LINEAGE_IDENTICAL || l.verdict == GG_LINEAGE_SAME ||
                   l.verdict == GG_LINEAGE_PERMUTED
               ? GG_OK
               : GG_NO;
}

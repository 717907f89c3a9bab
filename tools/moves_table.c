/* moves_table.c - the table of --check. */
#include "moves_table.h"

#include "hints.h"
#include "table.h"

#include <stdio.h>

static void cell_dtype(table *t, const gg_source *s, size_t i)
{
    if (i == SIZE_MAX) cell_null(t);
    else cell_text(t, gg_dtype_get(gg_source_tensor(s, i)->dtype)->name);
}

static void print_move(table *t, const gg_move *m, const gg_source *base, const gg_source *donor)
{
    const gg_tensor *d = m->donor == SIZE_MAX ? NULL : gg_source_tensor(donor, m->donor);
    cell_bytes(t, m->name, m->name_len);
    cell_text(t, gg_move_name(m->kind));
    if (d) cell_bytes(t, d->name, d->name_len);
    else cell_null(t);
    cell_dtype(t, base, m->base);
    cell_dtype(t, donor, m->donor);
    cell_u64(t, d ? d->bytes : 0);
    if (m->reason) {
        char reason[320];
        snprintf(reason, sizeof reason, "%s", m->reason);
        hint_append(m->hint, reason, sizeof reason);
        cell_text(t, reason);
    } else {
        cell_null(t);
    }
    table_row(t);
}

gg_status moves_check(cli *c, gg_source *base, gg_source *donor, const gg_moves *moves)
{
    gg_graft_check_report fit;
    table t = table_start(c->json, "name\taction\tdonor\tbase_dtype\tdonor_dtype\tbytes\treason");
    for (size_t i = 0; i < moves->n; i++) print_move(&t, &moves->list[i], base, donor);
    gg_status st = gg_graft_check(base, donor, moves, &c->run, &fit, &c->err);
    if (st != GG_OK) return st;
    cli_note(c, "lineage: %s", fit.lineage);
    cli_note(c, "%zu would move, %zu %s not match, %zu key%s", fit.move, fit.mismatched,
             fit.mismatched == 1 ? "does" : "do", fit.conflicts,
             fit.conflicts == 1 ? " differs" : "s differ");
    return fit.move == 0 || fit.mismatched || fit.conflicts || fit.strangers ? GG_NO : GG_OK;
}

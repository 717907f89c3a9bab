/* match_options.c - --match, --map, --blend, --ancestor, --align and --add, and the table of
 * --check. */
#include "match_options.h"

#include "hints.h"
#include "table.h"

#include "organ/gg_align.h"

#include <stddef.h>
#include <stdio.h>

#include "options/match_options.h"

gg_status match_options_open(cli *c, match_options *o)
{
    static const char *const modes[] = { "exact", "retype", "convert" };
    gg_map *map = NULL;
    gg_source *ancestor = NULL;
    o->match.mode = (gg_match_mode)o->mode;
    if (cli_given(c, "match") && o->blend && o->match.mode != GG_MATCH_CONVERT)
        cli_usage(c, "--match %s: a blend is always encoded in the base's dtype; leave --match out",
                  modes[o->mode]);
    /* In place, values are encoded again only on request. But aligned columns may have to be. */
    if (!cli_given(c, "match") && (o->align || !cli_given(c, "in-place")))
        o->match.mode = GG_MATCH_CONVERT;
    gg_status st = o->map ? gg_map_parse(o->map, &map, &c->err) : GG_OK;
    if (st == GG_OK && o->ancestor) st = cli_open(c, o->ancestor, CLI_SPOOLED, &ancestor);
    o->match.map = o->parsed = map;
    o->opened = ancestor;
    o->match.select = c->select;
    return st == GG_OK ? gg_blend_parse(o->blend, ancestor, &o->match.blend, &c->err) : st;
}

void match_options_note(const cli *c, size_t converted)
{
    if (converted && !cli_given_any(c, "match blend align"))
        cli_note(c,
                 "%zu tensor%s of another type in the donor: converted to the base's type (--match "
                 "retype keeps the donor's type, --match exact refuses)",
                 converted, cli_s(converted));
}

static gg_status align(cli *c, match_options *o, gg_source *base, gg_source **model, int slot)
{
    gg_align_options how = { .select = c->select, .map = o->parsed, .partial = o->partial };
    gg_status st = gg_align(base, *model, &how, &o->aligned[slot], &c->run, NULL, &c->err);
    if (st != GG_OK) return st;
    *model = o->aligned[slot];
    return GG_OK;
}

gg_status match_options_align(cli *c, match_options *o, gg_source *base, gg_source **donor,
                              gg_source **used)
{
    gg_status st = cli_like(c, base, donor);
    if (st == GG_OK && o->opened) st = cli_like(c, base, &o->opened);
    if (o->opened) o->match.blend.ancestor = o->opened;
    *used = *donor;
    if (!o->align || st != GG_OK) return st;
    st = align(c, o, base, used, 0);
    if (st == GG_OK && o->opened) st = align(c, o, base, &o->match.blend.ancestor, 1);
    return st;
}

void match_options_unalign(match_options *o)
{
    for (int i = 0; i < 2; i++) {
        gg_source_close(o->aligned[i]);
        o->aligned[i] = NULL;
    }
}

void match_options_close(match_options *o)
{
    match_options_unalign(o);
    gg_source_close(o->opened);
    gg_map_free(o->parsed);
}

/* ---- the table of --check ------------------------------------------------------------ */

static const char *type_name(const gg_source *s, size_t i)
{
    return i == SIZE_MAX ? NULL : gg_dtype_get(gg_source_tensor(s, i)->dtype)->name;
}

static void print_move(table *t, const gg_move *m, const gg_source *base, const gg_source *donor)
{
    const gg_tensor *d = m->donor == SIZE_MAX ? NULL : gg_source_tensor(donor, m->donor);
    char reason[320];
    snprintf(reason, sizeof reason, "%s", m->reason ? m->reason : "");
    if (m->reason) hint_append(m->hint, reason, sizeof reason);
    table_line(t, cell_bytes(m->name, m->name_len), cell_text(gg_move_name(m->kind)),
               d ? cell_bytes(d->name, d->name_len) : cell_null(),
               cell_text_if(type_name(base, m->base)), cell_text_if(type_name(donor, m->donor)),
               cell_u64(d ? d->bytes : 0), cell_text_if(reason));
}

static gg_status print_moves(cli *c, gg_source *base, gg_source *donor, const gg_moves *moves,
                             bool headers_only)
{
    gg_graft_check_report fit = { 0 };
    table t = table_start(c->json, "name\taction\tdonor\tbase_dtype\tdonor_dtype\tbytes\treason");
    for (size_t i = 0; i < moves->n; i++) print_move(&t, &moves->list[i], base, donor);
    for (size_t i = 0; i < moves->n && headers_only; i++)
        if (moves->list[i].kind == GG_MOVE_MISMATCH) return GG_NO;
    if (headers_only) return moves->n ? GG_OK : GG_NO;
    gg_status st = gg_graft_check(base, donor, moves, &c->run, &fit, &c->err);
    if (st != GG_OK) return st;
    size_t converted = 0;
    for (size_t i = 0; i < moves->n; i++) converted += moves->list[i].kind == GG_MOVE_CONVERT;
    match_options_note(c, converted);
    cli_note(c, "lineage: %s", fit.lineage);
    cli_note(c, "%zu would move, %zu %s not match, %zu key%s", fit.move, fit.mismatched,
             fit.mismatched == 1 ? "does" : "do", fit.conflicts,
             fit.conflicts == 1 ? " differs" : "s differ");
    return fit.move == 0 || fit.mismatched || fit.conflicts || fit.strangers ? GG_NO : GG_OK;
}

void match_options_read(void *ctx, const char *file, uint64_t place, uint64_t bytes)
{
    (void)ctx;
    printf("%s\t%llu\t%llu\n", file, (unsigned long long)place, (unsigned long long)bytes);
}

gg_status match_options_check(cli *c, const match_options *o, gg_source *base, gg_source *donor,
                              const char *weighed)
{
    gg_moves moves = { 0 };
    gg_match_options match = o->match;
    match.weighed = weighed != NULL;
    gg_status st = gg_match_tensors(base, donor, &match, &moves, &c->err);
    if (st == GG_OK) st = print_moves(c, base, donor, &moves, o->reads);
    gg_moves_free(&moves);
    return st;
}

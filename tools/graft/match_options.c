/* match_options.c - --match, --map, --blend, --ancestor, --align and --add, and the table of
 * --check. */
#include "match_options.h"

#include "common/card.h"
#include "common/table.h"

#include "organ/gg_align.h"
#include "organ/select.h"
#include "organ/tensor_names.h"

#include <stddef.h>
#include <stdio.h>

const cli_option match_group[] = {
    { "match", CLI_WORD, .at = offsetof(match_options, mode), .arg = "MODE",
      .values = "exact retype convert",
      .help = "convert (default: to base's type), retype (donor's), exact" },
    { "map", CLI_MAP, .at = offsetof(match_options, map), .arg = "10-15=20-25",
      .help = "donor blocks 20-25 into base blocks 10-15, nothing else" },
    { "blend", CLI_TEXT, .at = offsetof(match_options, blend), .arg = "MODE:T",
      .values = "linear: slerp: task:",
      .help = "linear, slerp or task (base + T (donor-ancestor), with --ancestor MODEL); T is a "
              "number or a ramp: 0.2..0.8" },
    { "ancestor", CLI_MODEL, .at = offsetof(match_options, ancestor), .needs = "blend",
      .needs_why = "for example --blend task:1" },
    { "align", CLI_FLAG, .at = offsetof(match_options, align),
      .help = "align the donor's units first; --partial: strangers too" },
    { "add", CLI_FLAG, .at = offsetof(match_options, o.match.add),
      .help = "also take what the base lacks; --router: rows of the router" },
    { "router", CLI_FLAG, .at = offsetof(match_options, o.match.router), .needs = "experts" },
    { "reads", CLI_FLAG, .at = offsetof(match_options, reads), .excludes = "align" },
    { 0 },
};

const cli_option match_last[] = {
    { .group = cli_strict },
    { .group = cli_writes },
    { "no-history", CLI_FLAG, .at = offsetof(cli, run.no_history), .flow = "; " },
    { .group = card_group },
    { .group = cli_selection },
    { .group = cli_expert_map },
    { .group = cli_common },
    { "json", CLI_FLAG, .at = offsetof(cli, json), .flow = ", ", .needs = "check",
      .needs_why = "nothing else prints a table", .help = "(with --check)" },
    { 0 },
};

gg_status match_options_open(cli *c, match_options *m)
{
    static const char *const modes[] = { "exact", "retype", "convert" };
    gg_match_options *to = &m->o.match;
    to->mode = (gg_match_mode)m->mode;
    if (cli_given(c, "match") && m->blend && to->mode != GG_MATCH_CONVERT)
        cli_usage(c, "--match %s: a blend is always encoded in the base's dtype; leave --match out",
                  modes[m->mode]);
    /* In place, values are encoded again only on request. But aligned columns may have to be. */
    if (!cli_given(c, "match") && (m->align || !cli_given(c, "in-place")))
        to->mode = GG_MATCH_CONVERT;
    gg_status st = m->map ? gg_map_parse(m->map, &m->parsed, &c->err) : GG_OK;
    if (st == GG_OK && m->ancestor) st = cli_open(c, m->ancestor, CLI_SPOOLED, &m->opened);
    to->map = m->parsed;
    to->select = c->select;
    if (st != GG_OK || !m->blend) return st;
    return gg_blend_parse(m->blend, m->opened, &to->blend, &c->err);
}

void match_options_close(match_options *m)
{
    gg_source_close(m->opened);
    gg_map_free(m->parsed);
}

/* Experts that change places keep getting the tokens that the router meant for others. */
static void note_router(const cli *c, const match_options *m)
{
    uint64_t e = 0;
    while (e < GG_EXPERTS_MAX && gg_select_donor_expert(c->select, e) == e) e++;
    if (e < GG_EXPERTS_MAX && !m->o.match.router)
        cli_note(c,
                 "expert %llu gets that of number %llu, but the router sends it the tokens of the "
                 "old one: to move its rows too, add --router",
                 (unsigned long long)e, (unsigned long long)gg_select_donor_expert(c->select, e));
}

static void note_converted(const cli *c, size_t converted)
{
    if (converted && !cli_given_any(c, "match blend align"))
        cli_note(c,
                 "%zu tensor%s of another type in the donor: converted to the base's type (--match "
                 "retype keeps the donor's type, --match exact refuses)",
                 converted, cli_s(converted));
}

static gg_status align(cli *c, match_options *m, gg_source *base, gg_source **model, int slot)
{
    gg_align_options how = { .select = c->select, .map = m->parsed };
    gg_status st = gg_align(base, *model, &how, &m->aligned[slot], &c->run, NULL, &c->err);
    if (st == GG_OK) *model = m->aligned[slot];
    return st;
}

/* Reads donor and ancestor in the form of the base. Sets *used to the donor or, with --align, to an
 * aligned version. */
static gg_status align_all(cli *c, match_options *m, gg_source *base, gg_source **donor,
                           gg_source **used)
{
    gg_status st = cli_like(c, base, donor);
    if (st == GG_OK && m->opened) st = cli_like(c, base, &m->opened);
    if (m->opened) m->o.match.blend.ancestor = m->opened;
    *used = *donor;
    if (!m->align || st != GG_OK) return st;
    st = align(c, m, base, used, 0);
    if (st == GG_OK && m->opened) st = align(c, m, base, &m->o.match.blend.ancestor, 1);
    return st;
}

/* ---- --check and --reads ------------------------------------------------------------- */

static const char *type_name(const gg_source *s, size_t i)
{
    return i == SIZE_MAX ? NULL : gg_dtype_get(gg_source_tensor(s, i)->dtype)->name;
}

static void print_move(table *t, const gg_move *m, const gg_source *base, const gg_source *donor)
{
    const gg_tensor *d = m->donor == SIZE_MAX ? NULL : gg_source_tensor(donor, m->donor);
    char reason[320];
    if (m->option) snprintf(reason, sizeof reason, "%s (%s)", m->reason, m->option);
    else snprintf(reason, sizeof reason, "%s", m->reason ? m->reason : "");
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
    note_converted(c, converted);
    cli_note(c, "lineage: %s", fit.lineage);
    cli_note(c, "%zu would move, %zu %s not match, %zu key%s", fit.move, fit.mismatched,
             fit.mismatched == 1 ? "does" : "do", fit.conflicts,
             fit.conflicts == 1 ? " differs" : "s differ");
    return fit.move == 0 || fit.mismatched || fit.conflicts || fit.strangers ? GG_NO : GG_OK;
}

/* Prints the moves as a table on stdout, and the keys that differ, counts and the lineage verdict
 * as notes. GG_OK if everything fits. With --reads the table only, which needs no data. */
static gg_status check(cli *c, const match_options *m, gg_source *base, gg_source *donor)
{
    gg_moves moves = { 0 };
    gg_match_options match = m->o.match;
    match.weighed = m->o.output.imatrix != NULL;
    gg_status st = gg_match_tensors(base, donor, &match, &moves, &c->err);
    if (st == GG_OK) st = print_moves(c, base, donor, &moves, m->reads);
    gg_moves_free(&moves);
    return st;
}

gg_status match_options_run(cli *c, match_options *m, gg_source *base, gg_source **donor,
                            const char *output, bool in_place)
{
    gg_source *used = NULL;
    gg_transplant_report r = { 0 };
    gg_status st = align_all(c, m, base, donor, &used);
    if (m->reads) m->o.read = cli_print_read;
    if (st == GG_OK)
        st = in_place   ? gg_transplant_in_place(base, used, &m->o, output, &c->run, &r, &c->err)
             : m->check ? check(c, m, base, used)
                        : gg_transplant(base, used, &m->o, output, &c->run, &r, &c->err);
    for (int i = 0; i < 2; i++) gg_source_close(m->aligned[i]);
    if (st == GG_OK) note_router(c, m);
    if (st == GG_OK) note_converted(c, r.converted);
    if (st == GG_OK && !m->check && (c->verbose || r.skipped))
        cli_note(c, "%zu tensor%s replaced, %zu added, %zu left out; %llu bytes moved", r.moved,
                 cli_s(r.moved), r.added, r.skipped, (unsigned long long)r.bytes_moved);
    return st;
}

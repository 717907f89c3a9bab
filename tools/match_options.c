/* match_options.c - --match, --map, --blend, --ancestor, --align and --add. */
#include "match_options.h"

#include "base/nearest.h" /* the mode that was meant */
#include "organ/gg_align.h"

#include <string.h>

bool match_options_given(const cli *c, const match_options *o)
{
    return c->select || o->map || o->mode || o->blend || o->align || o->match.add;
}

static gg_match_mode mode_of(const cli *c, const char *name)
{
    static const char *const names[] = { "exact", "retype", "convert" };
    for (int i = 0; i < 3; i++)
        if (strcmp(names[i], name) == 0) return (gg_match_mode)i;
    char meant[GG_MEANT];
    cli_usage(c, "--match %s: use exact, retype or convert%s", name,
              gg_meant(gg_nearest(name, strlen(name), names, 3), meant));
}

void match_options_check(const cli *c, match_options *o)
{
    if (o->align) o->match.mode = GG_MATCH_CONVERT; /* columns that move may have to be encoded */
    if (o->mode) o->match.mode = mode_of(c, o->mode);
    if (o->mode && o->blend && o->match.mode != GG_MATCH_CONVERT)
        cli_usage(c, "--match %s: a blend is always encoded in the base's dtype; leave --match out",
                  o->mode);
    if (o->ancestor && !o->blend)
        cli_usage(c, "--ancestor needs --blend, for example --blend task:1");
}

gg_status match_options_open(cli *c, match_options *o)
{
    gg_map *map = NULL;
    gg_source *ancestor = NULL;
    gg_status st = o->map ? gg_map_parse(o->map, &map, &c->err) : GG_OK;
    if (st == GG_OK && o->ancestor) st = cli_open(c, o->ancestor, CLI_SPOOLED, &ancestor);
    o->match.map = o->parsed = map;
    o->opened = ancestor;
    o->match.select = c->select;
    return st == GG_OK ? gg_blend_parse(o->blend, ancestor, &o->match.blend, &c->err) : st;
}

static gg_status align(cli *c, match_options *o, gg_source *base, gg_source **model, int slot)
{
    gg_align_options how = { .select = c->select, .map = o->parsed };
    gg_status st = gg_align(base, *model, &how, &o->aligned[slot], &c->run, NULL, &c->err);
    if (st != GG_OK) return st;
    *model = o->aligned[slot];
    return GG_OK;
}

gg_status match_options_align(cli *c, match_options *o, gg_source *base, gg_source **donor)
{
    if (!o->align) return GG_OK;
    gg_status st = align(c, o, base, donor, 0);
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

/* lineage_search.c - looks for what two models have in common in other places: blocks with other
 * numbers, and hidden units in another order. */
#include "lineage.h"

#include "align_core.h"
#include "block_map.h"
#include "organ/select.h"

#include <stdio.h>
#include <string.h>

/* Judges the pairs of blocks of the map. */
static gg_status judge_blocks(const gg_lineage_search *s, const block_map *found, gg_lineage *out,
                              gg_error *err)
{
    gg_map *map = NULL;
    gg_lineage l;
    gg_compare_options o = *s->o;
    gg_status st = gg_map_parse(found->text, &map, err);
    if (st != GG_OK) return st;
    o.map = map;
    st = gg_lineage_of(s->a, s->b, &o, s->run, &l, err);
    gg_map_free(map);
    if (st != GG_OK || (l.verdict != GG_LINEAGE_IDENTICAL && l.verdict != GG_LINEAGE_SAME &&
                        l.verdict != GG_LINEAGE_PERMUTED))
        return st;
    l.tensors = out->tensors;
    l.identical = out->identical;
    if (l.verdict == GG_LINEAGE_IDENTICAL) l.verdict = GG_LINEAGE_SAME;
    *out = l;
    memcpy(out->map, found->text, sizeof found->text);
    return GG_OK;
}

static gg_status search_blocks(const gg_lineage_search *s, gg_lineage *out, gg_error *err)
{
    block_map found;
    gg_status st = gg_block_map_find(s->a, s->b, s->run, &found, err);
    if (st != GG_OK || found.trivial || 2 * found.matched < found.blocks) return st;
    return judge_blocks(s, &found, out, err);
}

/* Sets the verdict if most groups of units are common to both models, and some are permuted. */
static void judge_units(const align_sample *u, gg_lineage *out)
{
    size_t groups = 0, found = 0;
    for (int k = GG_ALIGN_FFN; k <= GG_ALIGN_HEAD; k++) {
        groups += u->groups[k];
        found += u->found[k];
    }
    bool ffn = u->permuted[GG_ALIGN_FFN] > 0, embedding = u->permuted[GG_ALIGN_EMBEDDING] > 0,
         heads = u->permuted[GG_ALIGN_KV] + u->permuted[GG_ALIGN_HEAD] > 0;
    if (!(ffn || heads || embedding) || found == 0 || 4 * found < 3 * groups) return;
    out->verdict = GG_LINEAGE_PERMUTED;
    snprintf(out->permuted, sizeof out->permuted, "%s%s%s%s%s", ffn ? "FFN units" : "",
             ffn && (heads || embedding) ? ", " : "", heads ? "heads" : "",
             heads && embedding ? ", " : "", embedding ? "embedding" : "");
}

gg_status gg_lineage_look_closer(const gg_lineage_search *s, gg_lineage *out, gg_error *err)
{
    gg_run quiet = *s->run; /* how far this goes cannot be foretold */
    quiet.progress = NULL;
    gg_lineage_search own = { s->a, s->b, s->o, &quiet };
    bool whole = !s->o->map && !s->o->pairs && gg_select_empty(s->o->select);
    gg_status st = whole ? search_blocks(&own, out, err) : GG_OK;
    bool settled = out->map[0] || (out->verdict == GG_LINEAGE_SAME && out->strange == 0);
    if (st != GG_OK || settled) return st;
    align_sample units;
    gg_align_options o = { .select = s->o->select, .map = s->o->map };
    st = gg_align_sampled(s->a, s->b, &o, &quiet, &units, err);
    if (st == GG_OK) judge_units(&units, out);
    return st;
}

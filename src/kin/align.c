/* align.c - brings the units of a donor into the order of a base. */
#include "align_core.h"

#include "base/error.h"
#include "organ/select.h"
#include "write/verb_run.h"

#include <stdio.h>
#include <stdlib.h>

const char *gg_align_name(gg_align_kind kind)
{
    static const char *const names[] = { "embedding", "ffn", "kv", "head", "expert" };
    return (size_t)kind < sizeof names / sizeof names[0] ? names[kind] : "?";
}

/* Of a sample: */
#define SAMPLED 256u          /* units of a group */
#define BLOCKS ((size_t)8)    /* blocks */
#define EXPERTS ((uint64_t)2) /* experts of a stack */

typedef struct aligner {
    align_models m; /* b is the view */
    const gg_align_options *o;
    const gg_run *run;
    gg_align_report *report;
    align_sample *sample; /* NULL = align the whole model */
    gg_error *err;
} aligner;

static bool group_is_selected(const aligner *x, const align_group *g)
{
    for (size_t i = 0; i < g->n_parts; i++) {
        const gg_tensor *t = gg_source_tensor(x->m.a, g->parts[i].a);
        if (gg_select_match(x->o->select, t->name, t->name_len, &t->a)) return true;
    }
    return false;
}

/* ---- one group ---------------------------------------------------------------------------- */

static gg_status move_units(aligner *x, const align_group *g, const unit_order *o)
{
    size_t n = 0;
    gg_slice *slices = malloc(g->n_parts * sizeof *slices);
    if (!slices) return gg_fail(x->err, GG_ENOMEM, "no memory for an order of %zu units", o->n);
    for (size_t i = 0; i < g->n_parts; i++)
        if (!g->parts[i].stays) {
            slices[n] = g->parts[i].slice;
            slices[n++].index = g->parts[i].b;
        }
    gg_source *view = g->kind == GG_ALIGN_EXPERT ? x->m.experts : x->m.b;
    gg_status st = gg_source_view_move(view, slices, n, o->from, o->n, x->err);
    free(slices);
    return st;
}

/* "block 0 of A has experts 5, 3, 0 of B": the beginning of the order. */
static void tell_experts(const align_group *g, const unit_order *o, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "block %lld of A has experts", (long long)g->block);
    for (size_t i = 0; i < o->n && n + 24 < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s %u", i ? "," : "", o->from[i]);
    snprintf(out + n, size - n, n + 24 < size ? " of B" : ", ... of B");
}

/* Counts a group of a sample. Only the orders of the embeddings and of experts are applied, because
 * the rest is recognized in them. */
static gg_status count_sampled(aligner *x, const align_group *g, const unit_order *o)
{
    bool experts = g->kind == GG_ALIGN_EXPERT;
    if (experts && o->moved && !x->sample->experts[0])
        tell_experts(g, o, x->sample->experts, sizeof x->sample->experts);
    x->sample->groups[g->kind]++;
    x->sample->found[g->kind] += o->found;
    x->sample->permuted[g->kind] += o->found && o->moved > 0 && o->moved >= o->n / 10;
    return (experts || g->kind == GG_ALIGN_EMBEDDING) && o->moved ? move_units(x, g, o) : GG_OK;
}

/* Applies an order and tells the caller. */
static gg_status apply_order(aligner *x, const align_group *g, const unit_order *o)
{
    gg_align_report *r = x->report;
    if (x->sample) return count_sampled(x, g, o);
    gg_align_group told = { .kind = g->kind,
                            .block = g->block,
                            .donor_block = g->donor_block,
                            .expert = g->expert,
                            .found = o->found,
                            .n = o->n,
                            .moved = o->moved,
                            .from = o->from,
                            .cosine = o->cosine,
                            .mean = o->mean,
                            .before = o->before };
    gg_status st = o->moved ? move_units(x, g, o) : GG_OK;
    r->groups++;
    r->found += o->found;
    r->units += o->n;
    r->moved += o->moved;
    r->of[g->kind] = r->of[g->kind] || o->moved > 0;
    return st == GG_OK && x->o->row ? x->o->row(x->o->ctx, &told, x->err) : st;
}

/* Reads the tables of a group in both models: of A all units, or those of the sample. */
static gg_status read_tables(const aligner *x, const align_group *g, const uint32_t *sampled,
                             unit_table t[2])
{
    t[0] = t[1] = (unit_table){ 0 };
    unit_choice a = { .source = x->m.a, .units = sampled, .n = SAMPLED },
                b = { .source = x->m.b, .donor = true };
    gg_status st = gg_unit_table(g, &a, x->run, &t[0], x->err);
    return st == GG_OK ? gg_unit_table(g, &b, x->run, &t[1], x->err) : st;
}

static gg_status align_group_of(aligner *x, const align_group *g)
{
    unit_table t[2];
    unit_order o = { 0 };
    uint32_t units[SAMPLED];
    if (g->n == 0 || !group_is_selected(x, g)) return GG_OK;
    bool few = x->sample && g->kind == GG_ALIGN_FFN && g->n > SAMPLED;
    for (uint64_t i = 0; i < SAMPLED; i++) units[i] = (uint32_t)(i * g->n / SAMPLED);
    gg_status st = read_tables(x, g, few ? units : NULL, t);
    if (st == GG_OK)
        st = few ? gg_align_partners(&t[0], units, &t[1], x->run->threads, &o, x->err)
                 : gg_align_order(&t[0], &t[1], x->run->threads, &o, x->err);
    gg_unit_table_free(&t[0]);
    gg_unit_table_free(&t[1]);
    if (st == GG_OK) st = apply_order(x, g, &o);
    gg_unit_order_free(&o);
    return st;
}

static gg_status align_heads(aligner *x, const align_group *kv, const align_group *q)
{
    unit_table t[2], u[2] = { { 0 }, { 0 } };
    unit_order o[2] = { { 0 }, { 0 } };
    if (q->n == 0 || (!group_is_selected(x, kv) && !group_is_selected(x, q))) return GG_OK;
    gg_status st = read_tables(x, kv, NULL, t);
    if (st == GG_OK) st = read_tables(x, q, NULL, u);
    if (st == GG_OK) st = gg_align_head_order(t, u, x->run->threads, o, x->err);
    for (int i = 0; i < 2; i++) {
        gg_unit_table_free(&t[i]);
        gg_unit_table_free(&u[i]);
    }
    if (st == GG_OK) st = apply_order(x, kv, &o[0]);
    if (st == GG_OK) st = apply_order(x, q, &o[1]);
    gg_unit_order_free(&o[0]);
    gg_unit_order_free(&o[1]);
    return st;
}

/* ---- the model ---------------------------------------------------------------------------- */

static gg_status align_ffns(aligner *x, align_place p)
{
    static const char *const suffixes[] = { "", "_exps", "_shexp" };
    gg_status st = GG_OK;
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        uint64_t experts = 0;
        p.suffix = suffixes[i];
        for (p.expert = 0; st == GG_OK && (p.expert == 0 || p.expert < experts); p.expert++) {
            align_group g = { 0 };
            st = gg_align_ffn(&x->m, &p, &g, &experts, x->err);
            if (st == GG_OK) st = align_group_of(x, &g);
            gg_align_group_free(&g);
            if (x->sample && experts > EXPERTS) experts = EXPERTS;
        }
    }
    return st;
}

static gg_status align_block(aligner *x, int64_t block)
{
    align_place p = { .block = block, .donor_block = gg_map_donor(x->o->map, block) };
    if (p.donor_block < 0) return GG_OK;
    bool again = x->o->map && gg_map_base(x->o->map, p.donor_block) != block;
    if (again && x->sample) return GG_OK; /* its experts have moved already */
    if (again) {
        gg_fail(x->err, GG_EUSAGE,
                "the map uses donor block %lld twice, so that it would have "
                "to have two orders",
                (long long)p.donor_block);
        return gg_fix(x->err, "align one block at a time");
    }
    align_group kv = { 0 }, q = { 0 };
    gg_status st = gg_align_heads(&x->m, &p, &kv, &q, x->err);
    if (st == GG_OK) st = align_heads(x, &kv, &q);
    gg_align_group_free(&kv);
    gg_align_group_free(&q);
    align_group experts = { 0 };
    if (st == GG_OK) st = gg_align_experts(&x->m, &p, x->sample != NULL, &experts, x->err);
    if (st == GG_OK) st = align_group_of(x, &experts);
    gg_align_group_free(&experts);
    return st == GG_OK ? align_ffns(x, p) : st;
}

static gg_status align_all(aligner *x)
{
    int64_t *blocks = NULL;
    size_t n = 0;
    align_group g = { 0 };
    gg_status st = x->o->map ? GG_OK : gg_align_embedding(&x->m, &g, x->err);
    if (st == GG_OK) st = align_group_of(x, &g);
    gg_align_group_free(&g);
    if (st == GG_OK) st = gg_align_blocks(x->m.a, &blocks, &n, x->err);
    size_t taken = x->sample && n > BLOCKS ? BLOCKS : n;
    for (size_t i = 0; i < taken && st == GG_OK; i++) st = align_block(x, blocks[i * n / taken]);
    free(blocks);
    return st;
}

/* Aligns the models of x->m, of which b is the donor at first and then its view. */
static gg_status align_models_of(aligner *x)
{
    gg_source *donor = x->m.b;
    if (!gg_source_seekable(x->m.a) || !gg_source_seekable(donor)) {
        gg_fail(x->err, GG_EUSAGE,
                "models are read several times to align them, but this is a pipe");
        gg_fix(x->err, "store the model in a file");
        return gg_at_file(x->err, gg_source_name(gg_source_seekable(x->m.a) ? donor : x->m.a));
    }
    /* Experts move in a view of their own, because their rows move again in the other one. */
    x->m.b = NULL;
    gg_status st = gg_source_view_open(donor, false, &x->m.experts, x->err);
    if (st == GG_OK) st = gg_source_view_open(x->m.experts, true, &x->m.b, x->err);
    if (st != GG_OK) {
        gg_source_close(x->m.experts);
        return st;
    }
    st = gg_align_models_open(&x->m, x->err);
    if (st == GG_OK) st = align_all(x);
    gg_align_models_close(&x->m);
    return st;
}

gg_status gg_align_sampled(gg_source *base, gg_source *donor, const gg_align_options *o,
                           const gg_run *how, align_sample *out, gg_error *err)
{
    *out = (align_sample){ 0 };
    aligner x = { .m = { .a = base, .b = donor },
                  .o = GG_OPTIONS(gg_align_options, o),
                  .run = GG_OPTIONS(gg_run, how),
                  .sample = out,
                  .err = err };
    gg_status st = align_models_of(&x);
    if (x.m.b != donor) gg_source_close(x.m.b);
    return st;
}

static void note_moves(const gg_run *run, const char *name, const gg_align_report *r)
{
    if (r->found < r->groups)
        gg_note(run, "%s: %zu of %zu groups of units have no counterpart and stay in place", name,
                r->groups - r->found, r->groups);
    if (r->moved) gg_note(run, "%s: %zu of %zu units change places", name, r->moved, r->units);
    if (r->decoded)
        gg_note(run, "%s: %zu quantized tensor%s encoded again, because columns move", name,
                r->decoded, r->decoded == 1 ? " is" : "s are");
}

/* Most groups must be common to both models, or else a mixture of them is noise. */
static gg_status check_found(const aligner *x, const gg_source *donor)
{
    const gg_align_report *r = x->report;
    if (x->run->partial || 2 * r->found >= r->groups) return GG_OK;
    gg_fail(
        x->err, GG_NO,
        "%zu of its %zu groups of hidden units have no counterpart in %.200s, so the two models "
        "share no lineage",
        r->groups - r->found, r->groups, gg_source_name(x->m.a));
    gg_fix_by(x->err, "partial", "align the common ones all the same");
    return gg_at_file(x->err, gg_source_name(donor));
}

gg_status gg_align(gg_source *base, gg_source *donor, const gg_align_options *o,
                   gg_source **aligned, const gg_run *how, gg_align_report *report, gg_error *err)
{
    aligner x = { .m = { .a = base, .b = donor },
                  .o = GG_OPTIONS(gg_align_options, o),
                  .run = GG_OPTIONS(gg_run, how),
                  .report = GG_REPORT(gg_align_report, report),
                  .err = err };
    *x.report = (gg_align_report){ 0 };
    gg_status st = align_models_of(&x);
    if (x.m.b == donor) return st;
    for (size_t i = 0; x.m.b && i < gg_source_count(x.m.b); i++)
        x.report->decoded += gg_source_view_decoded(x.m.b, i);
    if (st == GG_OK && aligned) st = check_found(&x, donor);
    if (st != GG_OK || !aligned) {
        gg_source_close(x.m.b);
        return st;
    }
    *aligned = x.m.b;
    note_moves(x.run, gg_source_name(donor), x.report);
    return GG_OK;
}

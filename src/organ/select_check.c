/* select_check.c - finds the items of a selection that match no tensor. */
#include "organ/select.h"

#include "base/error.h"
#include "organ/select_items.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMED 3 /* names of a list that a message shows */

/* What was found in the sources so far. Each list has one entry per item of the selection. */
typedef struct found {
    const gg_select *s;
    uint32_t classes, parts;
    bool *layers, *experts, *map, *globs, *names;
    int64_t last_block, last_expert; /* -1 = none */
} found;

static bool *flags(size_t n)
{
    return calloc(n ? n : 1, sizeof(bool));
}

static void found_free(found *f)
{
    free(f->layers);
    free(f->experts);
    free(f->map);
    free(f->globs);
    free(f->names);
}

static void mark_ranges(const gg_ranges *r, bool *marks, uint64_t first, uint64_t last)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->items[i].first <= last && r->items[i].last >= first) marks[i] = true;
}

static void mark_experts(found *f, uint64_t first, uint64_t last)
{
    uint64_t from, to;
    mark_ranges(&f->s->experts, f->experts, first, last);
    for (size_t i = 0; gg_map_pair(f->s->expert_map, i, &from, &to); i++)
        if (from <= last && to >= first) f->map[i] = true;
    if ((int64_t)last > f->last_expert) f->last_expert = (int64_t)last;
}

static void mark_name(found *f, const char *name)
{
    const text_list *globs = &f->s->globs;
    for (size_t i = 0; i < globs->n; i++)
        if (!f->globs[i] && gg_glob(globs->items[i], name)) f->globs[i] = true;
    size_t at = gg_select_listed(f->s, name);
    if (at != SIZE_MAX) f->names[at] = true;
}

/* The names of single experts count too where stacks are split. */
static void mark_stack(found *f, const gg_tensor *t, bool split)
{
    uint64_t n;
    gg_tensor one;
    char name[GG_RECORD_NAME + 1];
    if (!gg_is_expert_stack(t, &n)) return;
    mark_experts(f, 0, n - 1);
    if (!split || (f->s->globs.n == 0 && f->s->names.n == 0)) return;
    for (uint64_t e = 0; e < n && gg_expert_tensor(t, n, e, &one, name); e++) mark_name(f, name);
}

static void mark_source(found *f, const gg_source *s, bool split)
{
    for (size_t i = 0; s && i < gg_source_count(s); i++) {
        const gg_tensor *t = gg_source_tensor(s, i);
        gg_anatomy a = gg_source_anatomy(s, i);
        f->classes |= 1u << a.cls;
        f->parts |= 1u << a.part;
        if (a.block > f->last_block) f->last_block = a.block;
        if (a.block >= 0)
            mark_ranges(&f->s->layers, f->layers, (uint64_t)a.block, (uint64_t)a.block);
        if (a.expert >= 0) mark_experts(f, (uint64_t)a.expert, (uint64_t)a.expert);
        mark_name(f, t->name);
        mark_stack(f, t, split || gg_select_has_experts(f->s));
    }
}

/* ---- messages --------------------------------------------------------------------- */

static gg_status no_such_kind(const found *f, gg_error *err)
{
    for (int c = 0; c < GG_CLASS_COUNT; c++)
        if (f->s->classes & ~f->classes & 1u << c)
            return gg_fail(err, GG_NO, "no tensor is of class %s", gg_class_name((gg_class)c));
    for (int p = 0; p < GG_PART_COUNT; p++)
        if (f->s->parts & ~f->parts & 1u << p)
            return gg_fail(err, GG_NO, "no tensor is of part %s", gg_part_name((gg_part)p));
    return GG_OK;
}

/* "block 99 is not in the model" or "blocks 4-9 are not in the model"; `last` is the highest
 * number in the model, -1 if there is none. */
static gg_status not_in_model(const char *noun, struct gg_range r, int64_t last, gg_error *err)
{
    char text[64], end[64];
    if (r.first == r.last)
        snprintf(text, sizeof text, "%s %llu is", noun, (unsigned long long)r.first);
    else
        snprintf(text, sizeof text, "%ss %llu-%llu are", noun, (unsigned long long)r.first,
                 (unsigned long long)r.last);
    if (last < 0) snprintf(end, sizeof end, "it has no %ss", noun);
    else snprintf(end, sizeof end, "the last %s is %lld", noun, (long long)last);
    return gg_fail(err, GG_NO, "%s not in the model; %s", text, end);
}

static gg_status no_such_block(const found *f, gg_error *err)
{
    for (size_t i = 0; i < f->s->layers.n; i++)
        if (!f->layers[i]) return not_in_model("block", f->s->layers.items[i], f->last_block, err);
    return GG_OK;
}

static gg_status no_such_expert(const found *f, gg_error *err)
{
    struct gg_range pair;
    for (size_t i = 0; i < f->s->experts.n; i++)
        if (!f->experts[i])
            return not_in_model("expert", f->s->experts.items[i], f->last_expert, err);
    for (size_t i = 0; gg_map_pair(f->s->expert_map, i, &pair.first, &pair.last); i++)
        if (!f->map[i]) return not_in_model("expert", pair, f->last_expert, err);
    return GG_OK;
}

static gg_status no_such_name(const found *f, gg_error *err)
{
    const text_list *names = &f->s->names;
    size_t missing = 0, used = 0;
    char shown[300] = "";
    for (size_t i = 0; i < names->n; i++) {
        if (f->names[i] || missing++ >= NAMED) continue;
        int n = snprintf(shown + used, sizeof shown - used, "%s'%.80s'", used ? ", " : "",
                         names->items[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    if (missing == 0) return GG_OK;
    return gg_fail(err, GG_NO, "%zu of the %zu names in the list %s not in the model: %s%s",
                   missing, names->n, missing == 1 ? "is" : "are", shown,
                   missing > NAMED ? ", ..." : "");
}

static gg_status report(const found *f, gg_error *err)
{
    const text_list *globs = &f->s->globs;
    if (f->s->by_name && f->s->names.n == 0) {
        gg_fail(err, GG_NO, "the list of names is empty, so nothing is selected");
        return GG_NO;
    }
    if (no_such_kind(f, err) != GG_OK || no_such_block(f, err) != GG_OK ||
        no_such_expert(f, err) != GG_OK || no_such_name(f, err) != GG_OK)
        return gg_fix_hint(err, GG_HINT_LIST_TENSORS, "list the tensors");
    for (size_t i = 0; i < globs->n; i++) {
        if (f->globs[i]) continue;
        gg_fail(err, GG_NO, "no tensor matches '%s'", globs->items[i]);
        return gg_fix(err, "patterns match whole names; try '*%s*'", globs->items[i]);
    }
    return GG_OK;
}

gg_status gg_select_check(const gg_select *s, const gg_source *a, const gg_source *b,
                          const gg_select_when *when, gg_error *err)
{
    if (!s || (!when->end && (gg_source_grows(a) || (b && gg_source_grows(b))))) return GG_OK;
    found f = { .s = s,
                .layers = flags(s->layers.n),
                .experts = flags(s->experts.n),
                .map = flags(gg_map_count(s->expert_map)),
                .globs = flags(s->globs.n),
                .names = flags(s->names.n),
                .last_block = -1,
                .last_expert = -1 };
    gg_status st = GG_OK;
    if (f.layers && f.experts && f.map && f.globs && f.names) {
        mark_source(&f, a, when->split_experts);
        mark_source(&f, b, when->split_experts);
        st = report(&f, err);
    } else {
        st = gg_fail(err, GG_ENOMEM, "no memory for a selection");
    }
    found_free(&f);
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(a));
}

/* check_output.c - notes on a model that is about to be written. */
#include "check_output.h"

#include "base/error.h"
#include "base/grow.h"
#include "verbs/shared/verb_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 8 /* number of findings with their own note */

typedef struct findings {
    gg_check_notes *notes;
    uint64_t *known; /* hashes of the findings in the base */
    size_t n, cap;
    size_t fresh;    /* errors and warnings that the base does not have */
    char first[400]; /* first error, for the message of a refusal */
} findings;

static uint64_t hash(uint64_t h, const char *text)
{
    for (; *text; text++) h = (h ^ (uint8_t)*text) * 1099511628211u;
    return (h ^ 0xff) * 1099511628211u;
}

/* Findings in two models are the same if their rule and place are the same. */
static uint64_t identity(const gg_finding *f)
{
    return hash(hash(14695981039346656037u, f->rule), f->where);
}

static int order_ids(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static gg_status remember(void *ctx, const gg_finding *f, gg_error *err)
{
    findings *all = ctx;
    uint64_t *grown = gg_grow(all->known, all->n, &all->cap, sizeof *grown, err);
    if (!grown) return GG_ENOMEM;
    all->known = grown;
    all->known[all->n++] = identity(f);
    return GG_OK;
}

gg_status gg_check_notes_add(gg_check_notes *notes, gg_error *err, const char *fmt, ...)
{
    if (notes->n >= sizeof notes->lines / sizeof notes->lines[0]) return GG_OK;
    char line[500];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (!(notes->lines[notes->n] = strdup(line))) return gg_fail(err, GG_ENOMEM, "no memory");
    notes->n++;
    return GG_OK;
}

static gg_status show(void *ctx, const gg_finding *f, gg_error *err)
{
    findings *all = ctx;
    if (f->level == GG_CHECK_ERROR && !all->first[0])
        snprintf(all->first, sizeof all->first, "%s%s%s (%s)", f->where, f->where[0] ? ": " : "",
                 f->message, f->rule);
    uint64_t id = identity(f);
    if (f->level == GG_CHECK_NOTE ||
        (all->n && bsearch(&id, all->known, all->n, sizeof id, order_ids)))
        return GG_OK;
    if (all->fresh++ >= SHOWN) return GG_OK;
    return gg_check_notes_add(all->notes, err, "check: %s%s%s (%s)", f->where,
                              f->where[0] ? ": " : "", f->message, f->rule);
}

static gg_status learn_base(findings *all, gg_source *base, gg_error *err)
{
    size_t n = base ? gg_source_count(base) : 0;
    if (n == 0 || !gg_source_meta(base)) return GG_OK;
    gg_check_input in = { gg_source_meta(base), gg_source_tensor(base, 0), n, 1 };
    gg_status st = gg_check_rules(&in, remember, all, NULL, err);
    if (all->n) qsort(all->known, all->n, sizeof *all->known, order_ids);
    return st;
}

gg_status gg_check_output(const gg_check_input *in, gg_source *base, const gg_run *run,
                          gg_check_notes *notes, gg_error *err)
{
    findings all = { .notes = notes };
    size_t found[GG_CHECK_LEVELS] = { 0 };
    if (!run || !(run->note || run->strict)) return GG_OK;
    gg_status st = learn_base(&all, base, err);
    if (st == GG_OK) st = gg_check_rules(in, show, &all, found, err);
    if (st == GG_OK && all.fresh > SHOWN)
        st = gg_check_notes_add(notes, err,
                                "check: %zu more findings; organ-check lists all of them",
                                all.fresh - SHOWN);
    free(all.known);
    if (st != GG_OK || !run->strict || found[GG_CHECK_ERROR] == 0) return st;
    gg_fail(err, GG_NO, "an engine would refuse the result: %s", all.first);
    return gg_fix_hint(err, GG_HINT_STRICT, "correct it, or write it anyway");
}

void gg_check_notes_end(gg_check_notes *notes, const gg_run *run, bool done)
{
    for (size_t i = 0; i < notes->n; i++) {
        if (done) gg_note(run, "%s", notes->lines[i]);
        free(notes->lines[i]);
    }
    *notes = (gg_check_notes){ 0 };
}

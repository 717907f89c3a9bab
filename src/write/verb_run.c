/* verb_run.c - notes, progress and the watched sources of a run. */
#include "verb_run.h"

#include "base/error.h"
#include "base/grow.h"
#include "organ/gg_verbs.h"
#include "organ/source_layout.h"
#include "organ/source_watch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gg_note_list(const gg_run *run, const char *fmt, va_list ap)
{
    if (!run || !run->note) return;
    char line[512], safe[2 * sizeof line];
    vsnprintf(line, sizeof line, fmt, ap);
    gg_escape(line, strlen(line), safe, sizeof safe);
    run->note(run->ctx, safe);
}

void gg_note(const gg_run *run, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    gg_note_list(run, fmt, ap);
    va_end(ap);
}

gg_status gg_held_add(gg_held_notes *notes, gg_error *err, const char *fmt, ...)
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

void gg_held_end(gg_held_notes *notes, const gg_run *run, bool done)
{
    for (size_t i = 0; i < notes->n; i++) {
        if (done) gg_note(run, "%s", notes->lines[i]);
        free(notes->lines[i]);
    }
    *notes = (gg_held_notes){ 0 };
}

static gg_status hold(void *notes, const char *line, gg_error *err)
{
    return gg_held_add(notes, err, "%s", line);
}

gg_status gg_review(gg_planned planned, const gg_run *run, gg_held_notes *notes, gg_error *err)
{
    if (!run->review && run->strict)
        return gg_fail(err, GG_EUSAGE, "nothing reviews the model that a strict run is to write");
    planned.run = run;
    planned.note = hold;
    planned.ctx = notes;
    return run->review ? run->review(&planned, err) : GG_OK;
}

gg_status gg_require_whole(const gg_source *s, const gg_run *run, gg_error *err)
{
    if (!s || run->partial || !gg_source_seekable(s)) return GG_OK;
    gg_source_lack lack = gg_source_lacks(s);
    char first[300] = "";
    if (lack.shards == 0) return GG_OK;
    if (lack.shard) {
        gg_escape(lack.shard, strlen(lack.shard), first, sizeof first - 2);
        memmove(first + 2, first, strlen(first) + 1);
        memcpy(first, ": ", 2);
    }
    gg_fail(err, GG_EFORMAT, "%u of %u shards are missing%s", lack.shards, lack.of, first);
    gg_fix_by(err, "partial", "fetch them first, or write the rest");
    return gg_at_file(err, gg_source_name(s));
}

gg_status gg_fail_in(gg_error *err, gg_status st, const gg_source *s, const gg_tensor *t,
                     const char *fmt, ...)
{
    char what[sizeof err->what];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    gg_fail(err, st, "%s", what);
    if (t) gg_at_tensor(err, t->name, t->name_len);
    return gg_at_file(err, gg_source_name(s));
}

void gg_progress_add(const gg_run *run, uint64_t bytes)
{
    if (run && run->progress)
        atomic_fetch_add_explicit(&run->progress->done, bytes, memory_order_relaxed);
}

void gg_progress_total(const gg_run *run, uint64_t bytes)
{
    if (run && run->progress)
        atomic_store_explicit(&run->progress->total, bytes, memory_order_relaxed);
}

gg_status gg_watch_add(gg_watch *w, const gg_source *s, gg_error *err)
{
    for (size_t i = w->n; i > 0; i--) /* from the end: parts of one source follow one another */
        if (w->list[i - 1] == s) return GG_OK;
    if (!s) return GG_OK;
    if (GG_ROOM(w->list, w->n, &w->cap, err) != GG_OK) return GG_ENOMEM;
    w->list[w->n++] = s;
    return GG_OK;
}

gg_status gg_watch_check(const gg_watch *w, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < w->n && st == GG_OK; i++) st = gg_source_unchanged(w->list[i], err);
    return st;
}

void gg_watch_free(gg_watch *w)
{
    free(w->list);
    *w = (gg_watch){ 0 };
}

void gg_dims_text(const gg_tensor *t, char out[96])
{
    size_t n = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < t->n_dims && n < 70; i++)
        n += (size_t)snprintf(out + n, 96 - n, "%s%llu", i ? "x" : "",
                              (unsigned long long)t->dims[i]);
}

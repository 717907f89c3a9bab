/* verb_run.c - progress and notes of the verbs. */
#include "organ/gg_verbs.h"

#include "verbs/shared/verb_run.h"

#include <stdarg.h>
#include <stdio.h>
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

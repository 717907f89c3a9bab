/* parallel.h - run n independent tasks on several threads. Internal. */
#pragma once

#include "organ/gg_status.h"

/* Runs task i of n on a worker thread (0 <= worker < threads). */
typedef gg_status (*gg_task)(void *ctx, size_t i, unsigned worker, gg_error *err);

/* Runs task(ctx, i, ...) once for each i < n, started in the order of i, until one fails. Of
 * several errors the one with the lowest i is kept, so the result does not depend on `threads`.
 * If threads is 0, gg_thread_count() is used. The calling thread works too: one thread or one
 * task runs in the caller alone. */
gg_status gg_parallel(size_t n, unsigned threads, gg_task task, void *ctx, gg_error *err);

#define GG_STAGES 3

/* At most `slots` > 0 steps are in work at the same time, so that step i may use slot i % slots of
 * a memory. */
typedef struct gg_pipeline {
    size_t n, slots;
    gg_task stage[GG_STAGES];
    bool together; /* several threads may be in the middle stage; the others have one, in order */
} gg_pipeline;

/* Runs all stages of step i < n one after the other, by any thread, while other threads work on
 * other steps. From the first step that fails on, none is ended; its error is kept, as in
 * gg_parallel. */
gg_status gg_run_pipeline(const gg_pipeline *p, unsigned threads, void *ctx, gg_error *err);

/* Number of processors that this process may use, at least 1. */
unsigned gg_thread_count(void);

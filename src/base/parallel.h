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

/* Number of processors that this process may use, at least 1. */
unsigned gg_thread_count(void);

/* parallel.h - run n independent tasks on a few threads. Internal. */
#ifndef GG_PARALLEL_H
#define GG_PARALLEL_H

#include "organ/gg_status.h"

/* Task i of n on worker w (0 <= w < threads). */
typedef gg_status (*gg_task)(void *ctx, size_t i, unsigned worker, gg_error *err);

/* Tasks start in order of i and each runs once, until one fails. The error kept is
 * that of the lowest failing index, so the result does not depend on `threads`.
 * threads 0 = gg_thread_count(). One thread or one task runs in the caller. */
gg_status gg_parallel(size_t n, unsigned threads, gg_task task, void *ctx, gg_error *err);

/* Processors this process may use, at least 1. */
unsigned gg_thread_count(void);

#endif

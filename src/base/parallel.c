/* parallel.c - threads that take task numbers from a shared counter. */
#include "parallel.h"

#include "error.h"
#include "platform.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct job {
    size_t n;
    gg_task task;
    void *ctx;
    atomic_size_t next;
    atomic_bool stop;
    pthread_mutex_t lock; /* guards failed_at and failure */
    size_t failed_at;
    gg_error failure;
} job;

typedef struct worker {
    job *j;
    unsigned id;
    pthread_t thread;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    job *j = w->j;
    while (!atomic_load(&j->stop)) {
        size_t i = atomic_fetch_add(&j->next, 1);
        if (i >= j->n) break;
        gg_error err = GG_ERROR_INIT;
        gg_status st = j->task(j->ctx, i, w->id, &err);
        if (st == GG_OK) continue;
        if (err.status == GG_OK) gg_fail(&err, st, "%s", gg_status_text(st));
        atomic_store(&j->stop, true);
        pthread_mutex_lock(&j->lock);
        if (i < j->failed_at) {
            j->failed_at = i;
            j->failure = err;
        }
        pthread_mutex_unlock(&j->lock);
    }
    return NULL;
}

unsigned gg_thread_count(void)
{
    return gg_sys_processors();
}

/* musl gives threads 128 KiB, which is too little for sorting and encoding: they keep their tables
 * on the stack. Only the pages that are touched take memory. */
#define STACK ((size_t)4 << 20)

static bool start(worker *w)
{
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0) return false;
    bool ok = pthread_attr_setstacksize(&attr, STACK) == 0 &&
              pthread_create(&w->thread, &attr, work, w) == 0;
    pthread_attr_destroy(&attr);
    return ok;
}

gg_status gg_parallel(size_t n, unsigned threads, gg_task task, void *ctx, gg_error *err)
{
    if (threads == 0) threads = gg_thread_count();
    if (threads > n) threads = n > 0 ? (unsigned)n : 1;
    job j = { .n = n, .task = task, .ctx = ctx, .failed_at = SIZE_MAX, .failure = GG_ERROR_INIT };
    worker *w = calloc(threads, sizeof *w);
    if (!w) return gg_fail(err, GG_ENOMEM, "no memory for %u threads", threads);
    pthread_mutex_init(&j.lock, NULL);
    unsigned started = 0;
    for (unsigned t = 0; t < threads; t++) w[t] = (worker){ .j = &j, .id = t };
    /* The caller is worker 0. If a thread cannot start, the others do its work. */
    for (unsigned t = 1; t < threads; t++, started++)
        if (!start(&w[t])) break;
    work(&w[0]);
    for (unsigned t = 1; t <= started; t++) pthread_join(w[t].thread, NULL);
    pthread_mutex_destroy(&j.lock);
    free(w);
    if (j.failed_at == SIZE_MAX) return GG_OK;
    gg_error_merge(err, &j.failure);
    return j.failure.status;
}

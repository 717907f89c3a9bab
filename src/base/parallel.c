/* parallel.c - threads that take task numbers from a shared counter, and pipelines. */
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

/* ---- pipelines ------------------------------------------------------------------------------ */

typedef struct pipeline {
    gg_pipeline p; /* p.n becomes the first step that failed */
    void *ctx;
    pthread_mutex_t lock; /* guards all members */
    pthread_cond_t changed;
    size_t next[GG_STAGES]; /* the first step that has not begun the stage */
    bool busy[GG_STAGES];   /* a stage that one thread at a time may be in */
    uint8_t *passed;        /* per slot: stages that its step has passed */
    gg_error failure;
} pipeline;

/* Steps that have passed all stages. */
static size_t steps_ended(const pipeline *l)
{
    return l->next[GG_STAGES - 1] - l->busy[GG_STAGES - 1];
}

/* Whether a step can begin stage k. */
static bool can_begin(const pipeline *l, size_t k)
{
    size_t i = l->next[k];
    if (i >= l->p.n || l->busy[k]) return false;
    if (k == 0) return i - steps_ended(l) < l->p.slots;
    /* not 0: there is a slot */
    return i < l->next[k - 1] && l->passed[i % l->p.slots] == k;
}

/* Runs one stage. The lock is held before and after. */
static void run_stage(pipeline *l, size_t k, unsigned thread)
{
    size_t i = l->next[k]++;
    gg_error err = GG_ERROR_INIT;
    l->busy[k] = k != 1 || !l->p.together;
    if (k == 0) l->passed[i % l->p.slots] = 0; /* not 0: there is a slot */
    pthread_mutex_unlock(&l->lock);
    gg_status st = l->p.stage[k](l->ctx, i, thread, &err);
    pthread_mutex_lock(&l->lock);
    l->busy[k] = false;
    if (st == GG_OK) {
        l->passed[i % l->p.slots]++;
    } else if (i < l->p.n) {
        if (err.status == GG_OK) gg_fail(&err, st, "%s", gg_status_text(st));
        l->p.n = i;
        l->failure = err;
    }
}

/* Takes the last stage that can begin, so that a step tends to stay in the cache of a thread. */
static gg_status run_stages(void *ctx, size_t task, unsigned thread, gg_error *err)
{
    pipeline *l = ctx;
    (void)task, (void)err;
    pthread_mutex_lock(&l->lock);
    while (steps_ended(l) < l->p.n) {
        size_t k = GG_STAGES;
        while (k > 0 && !can_begin(l, k - 1)) k--;
        if (k > 0) run_stage(l, k - 1, thread);
        if (k > 0) pthread_cond_broadcast(&l->changed);
        else pthread_cond_wait(&l->changed, &l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return GG_OK;
}

gg_status gg_run_pipeline(const gg_pipeline *p, unsigned threads, void *ctx, gg_error *err)
{
    pipeline l = { .p = *p,
                   .ctx = ctx,
                   .lock = PTHREAD_MUTEX_INITIALIZER,
                   .changed = PTHREAD_COND_INITIALIZER,
                   .failure = GG_ERROR_INIT };
    l.passed = calloc(p->slots, 1);
    if (!l.passed) return gg_fail(err, GG_ENOMEM, "no memory for %u threads", threads);
    gg_status st = gg_parallel(threads, threads, run_stages, &l, err);
    free(l.passed);
    if (st != GG_OK || l.p.n == p->n) return st;
    gg_error_merge(err, &l.failure);
    return l.failure.status;
}

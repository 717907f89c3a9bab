/* t_parallel.c - each task once, the lowest failure kept, for any number of threads. */
#include "t.h"

#include "base/parallel.h"

#include <stdatomic.h>
#include <unistd.h>

#define N 500

typedef struct run {
    atomic_int count[N];
    atomic_uint worst_worker;
    size_t fail_a, fail_b; /* SIZE_MAX = none */
    unsigned slow, slow_b; /* microseconds before they fail */
} run;

static gg_status task(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    run *r = ctx;
    atomic_fetch_add(&r->count[i], 1);
    if (worker > atomic_load(&r->worst_worker)) atomic_store(&r->worst_worker, worker);
    if (i == r->fail_a) {
        usleep(r->slow);
        return gg_fail(err, GG_EFORMAT, "task %zu", i);
    }
    if (i == r->fail_b) {
        usleep(r->slow_b);
        return gg_fail(err, GG_EIO, "task %zu", i);
    }
    return GG_OK;
}

static void each_runs_once(void)
{
    for (unsigned threads = 0; threads <= 16; threads++) {
        run r = { .fail_a = SIZE_MAX, .fail_b = SIZE_MAX };
        gg_error e = GG_ERROR_INIT;
        T_CHECK(gg_parallel(N, threads, task, &r, &e) == GG_OK && e.status == GG_OK);
        for (size_t i = 0; i < N; i++) T_EQ(atomic_load(&r.count[i]), 1);
        T_CHECK(atomic_load(&r.worst_worker) < (threads ? threads : gg_thread_count()));
    }
}

/* Task 3 fails late, task 4 at once: 3 is the error for any number of threads. */
static void lowest_failure_is_kept(void)
{
    for (unsigned threads = 1; threads <= 8; threads++)
        for (int again = 0; again < 10; again++) {
            run r = { .fail_a = 3, .fail_b = 4, .slow = 2000 };
            gg_error e = GG_ERROR_INIT;
            T_EQ(gg_parallel(N, threads, task, &r, &e), GG_EFORMAT);
            T_CHECKF(strcmp(e.what, "task 3") == 0, "%u threads: %s", threads, e.what);
            for (size_t i = 0; i <= 3; i++) T_EQ(atomic_load(&r.count[i]), 1);
        }
}

/* Both are running when task 3 fails; task 4 fails long after it. */
static void later_failure_replaces_none(void)
{
    for (int again = 0; again < 10; again++) {
        run r = { .fail_a = 3, .fail_b = 4, .slow = 2000, .slow_b = 20000 };
        gg_error e = GG_ERROR_INIT;
        T_EQ(gg_parallel(N, 8, task, &r, &e), GG_EFORMAT);
        T_STR(e.what, "task 3");
    }
}

static void failure_stops_the_rest(void)
{
    run r = { .fail_a = 10, .fail_b = SIZE_MAX };
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_parallel(N, 1, task, &r, &e), GG_EFORMAT);
    for (size_t i = 11; i < N; i++) T_EQ(atomic_load(&r.count[i]), 0);
}

static gg_status mute(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    (void)ctx, (void)worker, (void)err;
    return i == 7 ? GG_EIO : GG_OK;
}

static void a_status_without_words_gets_some(void)
{
    gg_error e = GG_ERROR_INIT;
    T_CHECK(gg_parallel(20, 4, mute, NULL, &e) == GG_EIO && e.status == GG_EIO && e.what[0]);
}

static void an_earlier_error_stays(void)
{
    gg_error e = GG_ERROR_INIT;
    gg_fail(&e, GG_EUSAGE, "before");
    T_CHECK(gg_parallel(20, 2, mute, NULL, &e) == GG_EIO);
    T_CHECK(e.status == GG_EUSAGE && strcmp(e.what, "before") == 0);
}

static void nothing_to_do(void)
{
    gg_error e = GG_ERROR_INIT;
    T_CHECK(gg_parallel(0, 4, mute, NULL, &e) == GG_OK && gg_thread_count() >= 1);
}

/* Tables of sorting and encoding lie on the stack; musl's own default would be 128 KiB. */
static gg_status deep(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    volatile char table[1 << 20];
    (void)worker;
    for (size_t k = 0; k < sizeof table; k += 1024) table[k] = (char)i;
    atomic_fetch_add((atomic_int *)ctx, table[(i & 255) * 1024] == (char)i);
    usleep(200); /* so that the other thread gets some */
    return err->status;
}

static void stacks_are_large(void)
{
    atomic_int n = 0;
    gg_error e = GG_ERROR_INIT;
    T_EQ(gg_parallel(64, 4, deep, &n, &e), GG_OK);
    T_EQ(atomic_load(&n), 64);
}

/* ---- pipelines */

#define SLOTS 3

typedef struct line {
    int slot[SLOTS];             /* the step in it, and what it has become */
    size_t made[N];              /* per step */
    size_t reads, ends;          /* steps that were read, and that have ended */
    size_t fail_read, fail_make; /* SIZE_MAX = none */
} line;

/* The first and the last stage are slow now and then: others wait for them. */
static gg_status line_read(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    line *l = ctx;
    (void)worker;
    if (i % 25 == 1) usleep(100);
    l->slot[i % SLOTS] = (int)i;
    if (l->reads++ != i) return gg_fail(err, GG_EUSAGE, "step %zu is read out of order", i);
    return i == l->fail_read ? gg_fail(err, GG_EIO, "read %zu", i) : GG_OK;
}

static gg_status line_make(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    line *l = ctx;
    (void)worker;
    l->made[i]++;
    if (l->slot[i % SLOTS]++ != (int)i) return gg_fail(err, GG_EUSAGE, "step %zu lost its slot", i);
    if (i % 7 == 0) usleep(100);
    return i == l->fail_make ? gg_fail(err, GG_EFORMAT, "make %zu", i) : GG_OK;
}

static gg_status line_end(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    line *l = ctx;
    (void)worker;
    if (i % 25 == 2) usleep(100);
    if (l->ends++ != i) return gg_fail(err, GG_EUSAGE, "step %zu is ended out of order", i);
    if (l->slot[i % SLOTS] == (int)i + 1) return GG_OK;
    return gg_fail(err, GG_EUSAGE, "the slot of step %zu is taken before its end", i);
}

static gg_status run_line(line *l, size_t n, unsigned threads, gg_error *e)
{
    gg_pipeline p = { n, SLOTS, { line_read, line_make, line_end }, true };
    return gg_run_pipeline(&p, threads, l, e);
}

static void steps_pass_all_stages(void)
{
    alarm(60); /* against steps that wait for ever */
    for (unsigned threads = 1; threads <= 8; threads++) {
        line l = { .fail_read = SIZE_MAX, .fail_make = SIZE_MAX };
        gg_error e = GG_ERROR_INIT;
        T_CHECKF(run_line(&l, N, threads, &e) == GG_OK, "%u threads: %s", threads, e.what);
        T_EQ(l.ends, N);
        for (size_t i = 0; i < l.ends; i++) T_EQ(l.made[i], 1);
        T_EQ(run_line(&l, 0, threads, &e), GG_OK);
    }
}

/* Step 7 fails late, step 8 is read at once: all before 7 are ended, for any number of threads. */
static void the_first_failed_step_counts(void)
{
    for (unsigned threads = 1; threads <= 8; threads++)
        for (size_t read = 6; read <= 8; read++) {
            line l = { .fail_read = read, .fail_make = 7 };
            gg_error e = GG_ERROR_INIT;
            T_EQ(run_line(&l, N, threads, &e), read == 8 ? GG_EFORMAT : GG_EIO);
            T_STR(e.what, read == 8 ? "make 7" : read == 7 ? "read 7" : "read 6");
            T_EQ(l.ends, read < 7 ? read : 7);
        }
}

static const t_case cases[] = {
    { "steps pass all stages of a pipeline", steps_pass_all_stages },
    { "the first failed step of a pipeline counts", the_first_failed_step_counts },
    { "threads have room for tables", stacks_are_large },
    { "each task runs once", each_runs_once },
    { "the lowest failure is kept", lowest_failure_is_kept },
    { "a later failure replaces none", later_failure_replaces_none },
    { "a failure stops the rest", failure_stops_the_rest },
    { "a status without words gets some", a_status_without_words_gets_some },
    { "an earlier error stays", an_earlier_error_stays },
    { "nothing to do", nothing_to_do },
};

T_MAIN(cases)

/* progress.c - shows the progress of a run, on the terminal and to the parent process. */
#include "progress.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void show_progress(const cli *c, double seconds)
{
    double done = (double)atomic_load(&c->progress.done),
           total = (double)atomic_load(&c->progress.total);
    double rate = seconds > 0 ? done / seconds : 0;
    if (total > 0 && done < total / 50) /* too early for an estimate of the time left */
        fprintf(stderr, "\r%s: %3.0f%%  %.0f of %.0f MB \033[K", c->tool, 100 * done / total,
                done / 1e6, total / 1e6);
    else if (total > 0 && rate > 0)
        fprintf(stderr, "\r%s: %3.0f%%  %.0f of %.0f MB  %.0f MB/s  %.0f s left \033[K", c->tool,
                100 * done / total, done / 1e6, total / 1e6, rate / 1e6, (total - done) / rate);
    else fprintf(stderr, "\r%s: %.0f MB  %.0f MB/s \033[K", c->tool, done / 1e6, rate / 1e6);
    fflush(stderr);
}

/* ORGAN_PROGRESS is the number of a descriptor that the parent process has opened on a
 * regular file. The line "DONE TOTAL\n" (bytes) is written again and again at its start.
 * Its length is fixed, so that a reader never sees the tail of an older line. */
static int progress_file = -1;

static void find_progress_file(void)
{
    const char *text = getenv("ORGAN_PROGRESS");
    struct stat s;
    char *end = NULL;
    long fd = text ? strtol(text, &end, 10) : -1;
    if (fd <= STDERR_FILENO || fd > INT_MAX || *end || fstat((int)fd, &s) != 0 ||
        !S_ISREG(s.st_mode))
        return;
    progress_file = (int)fd;
}

static void write_progress(const cli *c)
{
    char line[48];
    int n = snprintf(line, sizeof line, "%020llu %020llu\n",
                     (unsigned long long)atomic_load(&c->progress.done),
                     (unsigned long long)atomic_load(&c->progress.total));
    if (pwrite(progress_file, line, (size_t)n, 0) != n) progress_file = -1;
}

static pthread_mutex_t progress_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress_ended = PTHREAD_COND_INITIALIZER;
static pthread_t progress_thread;
static bool progress_runs, progress_stop; /* progress_stop is guarded by the lock */

/* Waits for the next tick. Returns false at once when progress_stop is set. */
static bool next_tick(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += 200000000;
    if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
    pthread_mutex_lock(&progress_lock);
    while (!progress_stop && pthread_cond_timedwait(&progress_ended, &progress_lock, &t) == 0)
        continue;
    bool on = !progress_stop;
    pthread_mutex_unlock(&progress_lock);
    return on;
}

static void *watch(void *arg)
{
    const cli *c = arg;
    bool terminal = !c->quiet && isatty(STDERR_FILENO), shown = false;
    int began = 0; /* the rate does not count the time before the first bytes */
    for (int ticks = 1; next_tick(); ticks++) {
        if (progress_file >= 0) write_progress(c);
        if (atomic_load(&c->progress.done) == 0) began = ticks;
        if (!terminal || ticks - began < 5) continue;
        show_progress(c, 0.2 * (ticks - began));
        shown = true;
    }
    if (shown) fputs("\r\033[K", stderr);
    if (progress_file >= 0) write_progress(c);
    return NULL;
}

void progress_end(void)
{
    if (!progress_runs) return;
    pthread_mutex_lock(&progress_lock);
    progress_stop = true;
    pthread_cond_signal(&progress_ended);
    pthread_mutex_unlock(&progress_lock);
    pthread_join(progress_thread, NULL);
    progress_runs = false;
}

void progress_start(const cli *c)
{
    find_progress_file();
    if (progress_file >= 0 || (!c->quiet && isatty(STDERR_FILENO)))
        progress_runs = pthread_create(&progress_thread, NULL, watch, (void *)(uintptr_t)c) == 0;
}

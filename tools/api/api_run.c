/* api_run.c - the supervisor of one job.
 *
 * It is a process in its own session, so that it continues when the web server ends. It
 * waits for its turn and a slot, starts the tool, waits for it, and records how it ended.
 * It holds the job's lock for its whole life.
 *
 * A slot is a locked file, which becomes free however its holder ends. The smallest id in
 * SPOOL/queue is next. Whoever takes or leaves a slot wakes the next job through its FIFO.
 * The timeout covers the case that the waker was killed.
 */
#include "api.h"

#include "base/platform.h" /* waiting */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define TICK_MS 1000
#define KILL_MS 10000 /* from SIGTERM to SIGKILL */

typedef struct run {
    const api *a;
    const api_job *job;
    api_vector *v;
    int slot;
    bool stopped;
    uint64_t room; /* for each file of the tool */
    pid_t pid;
    int status; /* as waitpid gives it */
} run;

/* ---- slots -------------------------------------------------------------------------------- */

static int free_slot(const api *a)
{
    char name[40];
    for (unsigned i = 0; i < a->jobs; i++) {
        snprintf(name, sizeof name, "slots/%u", i);
        int fd = api_spool_open(a, name, O_RDWR | O_CREAT);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
        if (fd >= 0) close(fd);
    }
    return -1;
}

static void wake_next(const api *a)
{
    char id[API_ID + 1];
    size_t waiting;
    if (api_queue_first(a, id, &waiting)) api_job_poke(a, id, 'w');
}

/* Only one supervisor at a time looks, so that two cannot both think it is their turn. */
static bool take_slot(run *r)
{
    char first[API_ID + 1];
    size_t waiting;
    int lock = api_spool_open(r->a, "queue.lock", O_RDWR | O_CREAT);
    while (lock >= 0 && flock(lock, LOCK_EX) != 0 && errno == EINTR) continue;
    if (api_queue_first(r->a, first, &waiting) && strcmp(first, r->job->id) == 0)
        r->slot = free_slot(r->a);
    if (r->slot >= 0) api_queue_leave(r->a, r->job->id);
    if (lock >= 0) close(lock);
    if (r->slot >= 0) wake_next(r->a);
    return r->slot >= 0;
}

/* ---- waiting ---------------------------------------------------------------------------- */

/* Waits for a message on the FIFO, the end of a child, or `ms` milliseconds. */
static void wait_event(run *r, int ms, const sigset_t *unblocked)
{
    if (!gg_sys_wait_readable(r->job->control, ms, unblocked)) return;
    char bytes[256];
    ssize_t n = read(r->job->control, bytes, sizeof bytes);
    for (ssize_t i = 0; i < n; i++)
        if (bytes[i] == 's') r->stopped = true;
}

/* Stops the tool: SIGTERM, so that it can remove unfinished output, then SIGKILL. */
static void wait_tool(run *r, const sigset_t *unblocked)
{
    uint64_t told = 0;
    bool killed = false;
    for (;;) {
        pid_t got = waitpid(r->pid, &r->status, WNOHANG);
        if (got == r->pid || (got < 0 && errno != EINTR)) return;
        if (r->stopped && !told) {
            kill(-r->pid, SIGTERM);
            told = api_now();
        } else if (told && !killed && api_now() - told >= KILL_MS) {
            killed = kill(-r->pid, SIGKILL) == 0;
        }
        wait_event(r, TICK_MS, unblocked);
    }
}

/* ---- the tool ------------------------------------------------------------------------------ */

#define PROGRESS_FD 3
static _Noreturn void become_tool(const run *r, int out, int errors, int progress, pid_t supervisor)
{
    static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin", locale[] = "LC_ALL=C",
                tell[] = "ORGAN_PROGRESS=3";
    static char bin[4300]; /* where the scripts find the tools */
    snprintf(bin, sizeof bin, "ORGAN_BIN=%s", r->a->bin);
    char *const environment[] = { path, locale, bin, progress >= 0 ? tell : NULL, NULL };
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0);
    const rlim_t room = (rlim_t)r->room; /* signed on FreeBSD */
    if (r->a->quota) setrlimit(RLIMIT_FSIZE, &(struct rlimit){ room, room });
    /* The tool ends with its supervisor, which alone could stop it. */
    if (!gg_sys_end_with_parent(supervisor)) _exit(126);
    dup2(out, STDOUT_FILENO);
    dup2(errors, STDERR_FILENO);
    if (progress == PROGRESS_FD) fcntl(progress, F_SETFD, 0);
    else if (progress >= 0) dup2(progress, PROGRESS_FD);
    execve(r->v->items[0], r->v->items, environment);
    dprintf(STDERR_FILENO, "organ-api: %s: %s\n", r->v->items[0], strerror(errno));
    _exit(126);
}

static void write_started(const run *r)
{
    gg_error err = GG_ERROR_INIT;
    gg_buf text = GG_BUF_INIT;
    gg_buf_printf(&text, &err, "{\"started\": %llu, \"pid\": %ld}\n", (unsigned long long)api_now(),
                  (long)r->pid);
    (void)api_write_file(r->job->dir, "started", &text, &err);
    gg_buf_free(&text);
}

/* Checks the paths again, because the job may have waited for long. */
static bool start_tool(run *r)
{
    gg_error err = GG_ERROR_INIT;
    int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
    int out = openat(r->job->dir, "stdout", flags, 0600),
        errors = openat(r->job->dir, "stderr", flags, 0600);
    int progress = openat(r->job->dir, "progress", flags, 0600);
    r->status = 126 << 8;
    if (api_check_paths(r->a, r->v, &err) != GG_OK) {
        char line[1200];
        gg_error_line(&err, "organ-api", line, sizeof line);
        if (errors >= 0) dprintf(errors, "%s\n", line);
        r->status = 2 << 8;
    } else if (out >= 0 && errors >= 0) {
        api copy = *r->a; /* a full folder fails at the first write */
        (void)api_room(&copy, 0, &r->room);
        pid_t self = getpid();
        r->pid = fork();
        if (r->pid == 0) become_tool(r, out, errors, progress, self);
        if (r->pid > 0) setpgid(r->pid, r->pid); /* in parent and child, as either may run first */
    }
    if (r->pid > 0) write_started(r);
    if (out >= 0) close(out);
    if (errors >= 0) close(errors);
    if (progress >= 0) close(progress);
    return r->pid > 0;
}

static void write_exit(const run *r)
{
    gg_error err = GG_ERROR_INIT;
    gg_buf text = GG_BUF_INIT;
    int status = r->status; /* the macros of some systems need a variable */
    gg_buf_printf(&text, &err, "{\"ended\": %llu, ", (unsigned long long)api_now());
    if (r->pid > 0 && WIFSIGNALED(status))
        gg_buf_printf(&text, &err, "\"signal\": %d, ", WTERMSIG(status));
    else if (status >= 0) gg_buf_printf(&text, &err, "\"exit\": %d, ", WEXITSTATUS(status));
    gg_buf_printf(&text, &err, "\"stopped\": %s}\n", r->stopped ? "true" : "false");
    (void)api_write_file(r->job->dir, "exit", &text, &err);
    gg_buf_free(&text);
}

/* ---- the supervisor -------------------------------------------------------------------------- */

static void on_child(int sig)
{
    (void)sig; /* exists only to interrupt the waiting */
}

static void forget_server(const api_job *job)
{
    long most = sysconf(_SC_OPEN_MAX);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        if (null >= 0) dup2(null, fd);
    for (int fd = 3; fd < (most > 0 && most < 4096 ? most : 4096); fd++)
        if (fd != job->dir && fd != job->lock && fd != job->control) close(fd);
}

static _Noreturn void supervise(const api *a, const api_job *job, api_vector *v)
{
    run r = { .a = a, .job = job, .v = v, .slot = -1, .status = -1 };
    struct sigaction act = { .sa_handler = on_child };
    sigset_t blocked, before;
    sigemptyset(&act.sa_mask);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGCHLD);
    for (int sig = 1; sig < 32; sig++) signal(sig, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    sigaction(SIGCHLD, &act, NULL);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    sigemptyset(&before);
    forget_server(job);
    if (chdir(a->data) != 0) _exit(1);
    while (!r.stopped && !take_slot(&r)) wait_event(&r, TICK_MS, &before);
    if (r.slot < 0) api_queue_leave(a, job->id);
    else if (!r.stopped && start_tool(&r)) wait_tool(&r, &before);
    /* Recorded even if the tool ended by itself just before: a client that stopped the job
     * sees "stopped". */
    write_exit(&r);
    if (r.slot >= 0) close(r.slot);
    wake_next(a);
    _exit(0);
}

bool api_supervise(api *a, const api_job *job, api_vector *v)
{
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        return api_fail(a, 503, "cannot start a process for the job: %s", strerror(errno));
    if (child == 0) {
        /* Fork twice, so that it is not our child and not the leader of its session. */
        if (setsid() < 0) _exit(1);
        pid_t again = fork();
        if (again == 0) supervise(a, job, v);
        _exit(again < 0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return status == 0 || api_fail(a, 503, "cannot start a process for the job");
}

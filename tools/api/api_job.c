/* api_job.c - jobs: the folders of the spool in which they are stored, their queue, and their
 * routes: create, show, list, stop and remove.
 *
 *     SPOOL/jobs/ID/request    {"tool", "arguments", "created"}
 *                   lock       flock held by the supervisor for as long as it lives
 *                   control    FIFO to the supervisor
 *                   started    {"started", "pid"}, once it has a slot
 *                   stdout stderr
 *                   progress   "DONE TOTAL" in bytes, by the tool
 *                   exit       {"ended", "exit" or "signal", "stopped"}, written last
 *     SPOOL/queue/ID           waits for a slot
 *     SPOOL/slots/K            flock held by the supervisor that runs in slot K
 *
 * The state of a job is not stored; it follows from which of these files exist. A job
 * without "exit" whose lock is free has lost its supervisor (SIGKILL, power failure).
 * Process ids are never trusted, because the system reuses them; it does not reuse locks
 * and FIFOs.
 */
#include "api.h"

#include "base/io.h"             /* whole reads and writes */
#include "base/output.h"         /* outputs that appear only when whole */
#include "organ/manifest_json.h" /* texts with JSON values */
#include "json/json.h"           /* the one JSON reader and writer */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int api_spool_open(const api *a, const char *name, int flags)
{
    char path[4200];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", a->spool, name) >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* Creates missing folders. */
static bool make_spool(api *a)
{
    static const char *const names[] = { "jobs", "queue", "slots" };
    int fd = api_spool_open(a, ".", O_RDONLY | O_DIRECTORY);
    bool ok = fd >= 0;
    for (size_t i = 0; ok && i < 3; i++) ok = mkdirat(fd, names[i], 0700) == 0 || errno == EEXIST;
    int why = errno;
    if (fd >= 0) close(fd);
    errno = why;
    return ok || api_fail(a, 500, "cannot write to the spool: %s", strerror(errno));
}

/* Opens a job's folder (file NULL) or a file in it; -1 on failure. */
static int open_in_job(const api *a, const char *id, const char *file, int flags)
{
    char name[64];
    snprintf(name, sizeof name, "jobs/%s%s%s", id, file ? "/" : "", file ? file : "");
    return api_spool_open(a, name, flags);
}

static bool id_ok(const char *id)
{
    return strlen(id) == API_ID && strspn(id, "0123456789abcdef") == API_ID;
}

/* Whether it has a supervisor. */
static bool job_alive(const api *a, const char *id)
{
    int fd = open_in_job(a, id, "lock", O_RDONLY);
    /* If the lock cannot be opened for want of descriptors or memory, the job counts as alive,
     * because a job that is not alive may be removed. */
    if (fd < 0) return errno != ENOENT && errno != ENOTDIR && errno != ELOOP;
    bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd);
    return held;
}

/* Nobody reads the FIFO: there is no supervisor to notify. */
void api_job_poke(const api *a, const char *id, char what)
{
    int fd = open_in_job(a, id, "control", O_WRONLY | O_NONBLOCK);
    if (fd < 0) return;
    if (write(fd, &what, 1) != 1) { /* full: the reader will wake up anyway */
    }
    close(fd);
}

/* ---- small files ------------------------------------------------------------------ */

/* Not synced, which may take seconds on a busy disk. After a power failure a truncated
 * record is ignored; its job is lost in any case. */
gg_status api_write_file(int dir, const char *name, const gg_buf *text, gg_error *err)
{
    char temp[64];
    snprintf(temp, sizeof temp, ".%s.tmp", name);
    int fd = openat(dir, temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return gg_fail_errno(err, "cannot write %s in the spool", name);
    gg_status st = gg_write_all(fd, text->data, text->len, err);
    close(fd);
    if (st == GG_OK && renameat(dir, temp, dir, name) != 0)
        st = gg_fail_errno(err, "cannot write %s in the spool", name);
    return st;
}

/* ---- making ------------------------------------------------------------------------ */

static bool random_u32(uint32_t *v)
{
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && read(fd, v, sizeof *v) == (ssize_t)sizeof *v;
    if (fd >= 0) close(fd);
    return ok;
}

static gg_status put_request(const api_vector *v, gg_buf *text, gg_error *err)
{
    gg_json_out out = gg_json_to_buf(text);
    const char *slash = strrchr(v->items[0], '/'), *tool = slash ? slash + 1 : v->items[0];
    gg_mj_put(&out, err, "{\"tool\": %s, \"arguments\": [", tool);
    for (size_t i = 1; i < v->n; i++) gg_mj_put(&out, err, i > 1 ? ", %s" : "%s", v->items[i]);
    return gg_mj_put(&out, err, "], \"created\": %u}\n", api_now());
}

static gg_status open_job(api_job *j, int jobs, const char *temp, gg_error *err)
{
    if (mkdirat(jobs, temp, 0700) != 0)
        return gg_fail_errno(err, "cannot make a folder in the spool");
    j->dir = openat(jobs, temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (j->dir >= 0 && mkfifoat(j->dir, "control", 0600) == 0) {
        j->control = openat(j->dir, "control",
                            O_RDWR | O_NONBLOCK | O_CLOEXEC); /* both ends: never EOF */
        j->lock = openat(j->dir, "lock", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    }
    if (j->control < 0 || j->lock < 0 || flock(j->lock, LOCK_EX | LOCK_NB) != 0)
        return gg_fail_errno(err, "cannot make a job in the spool");
    return GG_OK;
}

/* Creates a job for v, waiting for its supervisor. The caller sets its descriptors to -1.
 *
 * The folder gets its name only when it is complete and its lock is held. Otherwise a new
 * job could look like a lost one. */
static gg_status make_job(const api *a, const api_vector *v, api_job *j, gg_error *err)
{
    char temp[64];
    gg_buf text = GG_BUF_INIT;
    struct timespec t;
    uint32_t salt;
    clock_gettime(CLOCK_REALTIME, &t);
    if (!random_u32(&salt)) return gg_fail_errno(err, "cannot get random numbers");
    snprintf(j->id, sizeof j->id, "%014llx%08x",
             (unsigned long long)t.tv_sec * 1000000ULL + (unsigned long long)t.tv_nsec / 1000,
             salt);
    snprintf(temp, sizeof temp, ".new-%s", j->id);
    int jobs = api_spool_open(a, "jobs", O_RDONLY | O_DIRECTORY);
    if (jobs < 0) return gg_fail_errno(err, "cannot open the spool");
    gg_status st = open_job(j, jobs, temp, err);
    if (st == GG_OK) st = put_request(v, &text, err);
    if (st == GG_OK) st = api_write_file(j->dir, "request", &text, err);
    if (st == GG_OK && renameat(jobs, temp, jobs, j->id) != 0)
        st = gg_fail_errno(err, "cannot make a job in the spool");
    gg_buf_free(&text);
    close(jobs);
    return st;
}

/* Removes a job that nobody runs: its folder, under either name, and its queue entry. */
static void discard_job(const api *a, const char *id)
{
    static const char *const names[] = { "jobs/.new-", "jobs/", "queue/" };
    char path[4300];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (*id &&
            (size_t)snprintf(path, sizeof path, "%s/%s%s", a->spool, names[i], id) < sizeof path)
            gg_remove_tree(path);
}

static void close_job(api_job *j)
{
    if (j->dir >= 0) close(j->dir);
    if (j->lock >= 0) close(j->lock);
    if (j->control >= 0) close(j->control);
}

/* ---- the queue ------------------------------------------------------------------------ */

bool api_queue_leave(const api *a, const char *id)
{
    char path[4300];
    snprintf(path, sizeof path, "%s/queue/%s", a->spool, id);
    return unlink(path) == 0 || errno == ENOENT;
}

bool api_queue_first(const api *a, char id[API_ID + 1], size_t *waiting)
{
    for (;;) {
        int fd = api_spool_open(a, "queue", O_RDONLY | O_DIRECTORY);
        DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
        *waiting = 0;
        id[0] = '\0';
        if (!d) {
            if (fd >= 0) close(fd);
            return false;
        }
        for (struct dirent *e; (e = readdir(d));) {
            if (strlen(e->d_name) != API_ID) continue;
            ++*waiting;
            if (!id[0] || strcmp(e->d_name, id) < 0) memcpy(id, e->d_name, API_ID + 1);
        }
        closedir(d);
        if (!id[0]) return false;
        if (job_alive(a, id)) return true;
        if (!api_queue_leave(a, id)) return false; /* its supervisor was killed while it waited */
    }
}

/* ---- records of jobs ---------------------------------------------------------------------- */

#define STDERR_MAX 65536 /* bytes from the end of stderr in a response */
#define QUEUE_MAX 1000
#define RECORD_MAX ((size_t)16 << 20)
#define STOP_WAIT 100 /* times 20 ms: how long DELETE waits for the tool to clean up */

/* Sets *json to NULL if there is no such file or if it is not JSON: a record that a power
 * failure cut short counts as none. All other failures are errors, so that a lack of memory is
 * never taken for the absence of a job. */
static gg_status read_record(int dir, const char *name, gg_json **json, gg_error *err)
{
    gg_buf text = GG_BUF_INIT;
    struct stat s;
    size_t got = 0;
    *json = NULL;
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? GG_OK : gg_fail_errno(err, "cannot read %s in the spool", name);
    gg_status st = GG_OK;
    if (fstat(fd, &s) != 0) st = gg_fail_errno(err, "cannot read %s in the spool", name);
    if (st == GG_OK && (uint64_t)s.st_size <= RECORD_MAX) {
        gg_error bad = GG_ERROR_INIT;
        st = gg_buf_reserve(&text, (size_t)s.st_size, err);
        if (st == GG_OK) st = gg_read_some(fd, text.data, (size_t)s.st_size, &got, err);
        if (st == GG_OK && gg_json_parse(text.data, got, json, &bad) == GG_ENOMEM)
            st = gg_fail(err, GG_ENOMEM, "no memory to read %s in the spool", name);
    }
    close(fd);
    gg_buf_free(&text);
    return st;
}

/* ---- reading ------------------------------------------------------------------------- */

typedef enum api_state {
    API_QUEUED,
    API_RUNNING,
    API_DONE,
    API_FAILED,
    API_STOPPED,
    API_LOST
} api_state;

typedef struct record {
    gg_json *request, *started, *exit;
    api_state state;
    uint64_t created, begun, ended;
} record;

static uint64_t number(const gg_json *json, const char *key)
{
    gg_error err = GG_ERROR_INIT;
    uint64_t v = 0;
    (void)gg_json_u64(gg_json_get(gg_json_root(json), key), &v, &err);
    return v;
}

static const gg_json_node *member(const gg_json *json, const char *key)
{
    return json ? gg_json_get(gg_json_root(json), key) : NULL;
}

static api_state state_of(const record *r)
{
    bool stopped = false;
    gg_error err = GG_ERROR_INIT;
    (void)gg_json_bool(member(r->exit, "stopped"), &stopped, &err);
    if (stopped) return API_STOPPED;
    return member(r->exit, "exit") && number(r->exit, "exit") <= 1 ? API_DONE : API_FAILED;
}

static const char *const states[] = { "queued", "running", "done", "failed", "stopped", "lost" };

/* Leaves r->request NULL if there is no such job. The caller calls unload in every case. */
static gg_status load(const api *a, const char *id, int dir, record *r, gg_error *err)
{
    *r = (record){ 0 };
    gg_status st = read_record(dir, "request", &r->request, err);
    if (st != GG_OK || !r->request) return st;
    st = read_record(dir, "exit", &r->exit, err);
    bool alive = !r->exit && job_alive(a, id);
    if (st == GG_OK && !r->exit && !alive)
        st = read_record(dir, "exit", &r->exit, err); /* it may have ended in the meantime */
    if (st == GG_OK) st = read_record(dir, "started", &r->started, err);
    r->created = number(r->request, "created");
    r->begun = r->started ? number(r->started, "started") : 0;
    r->ended = r->exit ? number(r->exit, "ended") : 0;
    r->state = r->exit ? state_of(r) : !alive ? API_LOST : r->started ? API_RUNNING : API_QUEUED;
    return st;
}

static void unload(record *r)
{
    gg_json_free(r->request);
    gg_json_free(r->started);
    gg_json_free(r->exit);
}

static bool no_job(api *a)
{
    return api_fail(a, 404, "there is no job with this id");
}

/* The job with the given id, or a failure. The caller calls unload in every case. */
static bool need(api *a, const char *id, int dir, record *r)
{
    gg_error err = GG_ERROR_INIT;
    if (load(a, id, dir, r, &err) != GG_OK) return api_fail_error(a, &err);
    return r->request || no_job(a);
}

static int find_job(api *a, const char *id)
{
    int dir = id_ok(id) ? open_in_job(a, id, NULL, O_RDONLY | O_DIRECTORY) : -1;
    if (dir < 0 && id_ok(id) && errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
        api_fail(a, 500, "the job cannot be read: %s", strerror(errno));
    if (dir < 0) no_job(a);
    return dir;
}

/* ---- showing -------------------------------------------------------------------------- */

static void put_member(const gg_json_out *out, const char *key, const gg_json_node *node,
                       gg_error *err)
{
    gg_mj_put(out, err, ", \"%t\": ", key);
    if (node) gg_json_put_node(out, node, err);
    else gg_json_put_text(out, "null", err);
}

#define PROGRESS_LINE 42
/* Reads the progress that the tool reports (progress.c): bytes done and total bytes; the total is
 * 0 while it is unknown. All lines have the same length. The last one counts, because a script
 * cannot write at the start of the file again. */
static bool read_share(int dir, unsigned long long *done, unsigned long long *total)
{
    char line[64];
    size_t got = 0;
    gg_error quiet = GG_ERROR_INIT;
    int fd = openat(dir, "progress", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return false;
    off_t at = lseek(fd, 0, SEEK_END);
    at = at > PROGRESS_LINE ? at - at % PROGRESS_LINE - PROGRESS_LINE : 0;
    bool ok = lseek(fd, at, SEEK_SET) == at &&
              gg_read_some(fd, line, PROGRESS_LINE, &got, &quiet) == GG_OK;
    close(fd);
    line[got] = '\0';
    return ok && sscanf(line, "%llu %llu", done, total) == 2;
}

/* A percentage, or 101 if it is unknown. */
static uint64_t percent_of(api_state state, unsigned long long done, unsigned long long total)
{
    if (state == API_DONE) return 100;
    if (!total) return 101;
    return done < total ? (uint64_t)(100.0 * (double)done / (double)total) : 100;
}

static void put_share(const gg_json_out *out, int dir, api_state state, gg_error *err)
{
    unsigned long long done, total;
    if (!read_share(dir, &done, &total)) return;
    uint64_t percent = percent_of(state, done, total);
    gg_mj_put(out, err, ", \"done_bytes\": %u", done);
    if (total) gg_mj_put(out, err, ", \"total_bytes\": %u", total);
    if (percent <= 100) gg_mj_put(out, err, ", \"percent\": %u", percent);
}

/* Adds the bytes a running tool has read and written so far, if the system tells (Linux). */
static void put_moved(const gg_json_out *out, uint64_t pid, gg_error *err)
{
    char path[64], line[128];
    unsigned long long v;
    snprintf(path, sizeof path, "/proc/%llu/io", (unsigned long long)pid);
    FILE *f = pid ? fopen(path, "re") : NULL;
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "rchar: %llu", &v) == 1) gg_mj_put(out, err, ", \"read_bytes\": %u", v);
        if (sscanf(line, "wchar: %llu", &v) == 1) gg_mj_put(out, err, ", \"written_bytes\": %u", v);
    }
    if (f) fclose(f);
}

static void put_progress(const gg_json_out *out, int dir, const record *r, gg_error *err)
{
    struct stat s;
    uint64_t end = r->ended ? r->ended : r->state == API_RUNNING ? api_now() : r->begun;
    gg_json_put_text(out, ", \"progress\": {\"seconds\": ", err);
    gg_json_put_f64(out, r->begun && end > r->begun ? (double)(end - r->begun) / 1000 : 0, err);
    gg_mj_put(out, err, ", \"result_bytes\": %u",
              fstatat(dir, "stdout", &s, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)s.st_size : 0);
    put_share(out, dir, r->state, err);
    if (r->state == API_RUNNING) put_moved(out, number(r->started, "pid"), err);
    gg_json_put_text(out, "}", err);
}

/* The tools escape their output, but libc may print anything when a tool crashes. */
static void put_stderr(const gg_json_out *out, int dir, gg_error *err)
{
    static char bytes[STDERR_MAX], shown[4 * STDERR_MAX + 1];
    struct stat s;
    size_t got = 0;
    gg_error quiet = GG_ERROR_INIT;
    int fd = openat(dir, "stderr", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && fstat(fd, &s) == 0) {
        if (s.st_size > STDERR_MAX) (void)lseek(fd, s.st_size - STDERR_MAX, SEEK_SET);
        (void)gg_read_some(fd, bytes, sizeof bytes, &got, &quiet);
    }
    if (fd >= 0) close(fd);
    gg_json_put_text(out, ", \"stderr\": ", err);
    gg_error bad = GG_ERROR_INIT;
    if (gg_json_put_string(out, bytes, got, &bad) == GG_ENOMEM) {
        gg_fail(err, GG_ENOMEM, "no memory for an answer");
    } else if (bad.status != GG_OK) {
        gg_escape(bytes, got, shown, sizeof shown);
        gg_json_put_string(out, shown, strlen(shown), err);
    }
}

static void put_job(const gg_json_out *out, const char *id, int dir, const record *r, bool whole,
                    gg_error *err)
{
    char created[API_TIME], begun[API_TIME], ended[API_TIME];
    api_time(r->created, created);
    api_time(r->begun, begun);
    api_time(r->ended, ended);
    gg_mj_put(out, err, "{\"id\": \"%t\"", id);
    put_member(out, "tool", member(r->request, "tool"), err);
    put_member(out, "arguments", member(r->request, "arguments"), err);
    gg_mj_put(out, err, ", \"state\": \"%t\", \"created\": %t, \"started\": %t, \"ended\": %t",
              states[r->state], created, begun, ended);
    put_progress(out, dir, r, err);
    put_member(out, "exit", member(r->exit, "exit"), err);
    put_member(out, "signal", member(r->exit, "signal"), err);
    if (whole) put_stderr(out, dir, err);
    gg_json_put_text(out, "}", err);
}

static bool answer_job(api *a, const char *id, int dir, int status, const char *extra)
{
    record r;
    gg_error err = GG_ERROR_INIT;
    gg_buf body = GG_BUF_INIT;
    gg_json_out out = gg_json_to_buf(&body);
    bool ok = need(a, id, dir, &r);
    if (ok) put_job(&out, id, dir, &r, true, &err);
    if (ok) gg_json_put_text(&out, "\n", &err);
    unload(&r);
    return ok && api_finish(a, status, extra, &body, &err);
}

/* ---- waiting for a change ------------------------------------------------------------------ */

#define WAIT_MAX 60
#define LOOK_MS 20

typedef struct known { /* what the client knows: since=STATE and percent=N */
    bool any;
    api_state state;
    uint64_t percent; /* UINT64_MAX: not given */
} known;

static bool parse_known(api *a, known *k)
{
    size_t len = 0, i = 0, n = sizeof states / sizeof states[0];
    const char *since = api_query(a, "since", &len);
    *k = (known){ .any = since, .percent = UINT64_MAX };
    while (since && i < n && (strlen(states[i]) != len || memcmp(states[i], since, len) != 0)) i++;
    if (i == n) return api_fail(a, 400, "since must be a state of jobs");
    k->state = (api_state)i;
    return api_query_number(a, "percent", 100, &k->percent);
}

static bool is_news(const known *k, int dir, api_state state)
{
    unsigned long long done, total;
    if (!k->any) return state > API_RUNNING;
    if (state != k->state) return true;
    return k->percent != UINT64_MAX && read_share(dir, &done, &total) &&
           percent_of(state, done, total) != k->percent;
}

/* Long polling: with the query wait=SECONDS the answer is delayed until the job's state or its
 * percentage differs from what the client knows, or the time is over. If the client names no
 * state, it waits until the job has ended. */
static bool wait_for_change(api *a, const char *id, int dir)
{
    uint64_t seconds = 0;
    known k;
    if (!api_query_number(a, "wait", WAIT_MAX, &seconds) || !parse_known(a, &k)) return false;
    uint64_t end = api_now() + seconds * 1000;
    for (uint64_t ms = LOOK_MS, now = api_now(); now < end; now = api_now()) {
        record r;
        struct timespec t = { 0, (long)ms * 1000000 };
        bool ok = need(a, id, dir, &r);
        unload(&r);
        if (!ok) return false;
        if (is_news(&k, dir, r.state)) break;
        nanosleep(&t, NULL);
        if (ms < 8 * LOOK_MS) ms *= 2;
    }
    return true;
}

/* ---- the end of their records ------------------------------------------------------------- */

static int by_name(const void *x, const void *y)
{
    return strcmp(x, y);
}

/* The ids of all jobs in the order of their making, API_ID + 1 bytes each. */
static void read_ids(const api *a, gg_buf *ids, gg_error *err)
{
    int fd = api_spool_open(a, "jobs", O_RDONLY | O_DIRECTORY);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d && fd >= 0) close(fd);
    if (!d) gg_fail_errno(err, "cannot read the spool");
    for (const char *name; d && (name = gg_next_name(d, err));)
        if (id_ok(name)) gg_buf_append(ids, name, API_ID + 1, err);
    if (d) closedir(d);
    if (ids->len) qsort(ids->data, ids->len / (API_ID + 1), API_ID + 1, by_name);
}

/* Removes a job at once; 0 or an errno value. */
static int forget_job(const api *a, const char *id)
{
    char from[4300], to[4300];
    snprintf(from, sizeof from, "%s/jobs/%s", a->spool, id);
    snprintf(to, sizeof to, "%s/jobs/.gone-%s", a->spool, id);
    if (rename(from, to) != 0) return errno;
    api_queue_leave(a, id);
    gg_remove_tree(to);
    return 0;
}

#define ENDED 16 /* hex digits of a time */

/* Adds a job to the list of finished jobs if it has ended: the time, and its id. Without a record
 * the time is that of its making. The record is read after the supervisor is gone, which makes it.
 */
static void add_ended(const api *a, const char *id, gg_buf *list)
{
    gg_error err = GG_ERROR_INIT;
    char made[15] = "", line[ENDED + API_ID + 1];
    gg_json *exit = NULL;
    if (job_alive(a, id)) return;
    int dir = open_in_job(a, id, NULL, O_RDONLY | O_DIRECTORY);
    bool read = dir >= 0 && read_record(dir, "exit", &exit, &err) == GG_OK;
    if (dir >= 0) close(dir);
    memcpy(made, id, 14);
    uint64_t ended = exit ? number(exit, "ended") : strtoull(made, NULL, 16) / 1000;
    snprintf(line, sizeof line, "%016llx%s", (unsigned long long)ended, id);
    if (read) gg_buf_append(list, line, sizeof line, &err);
    gg_json_free(exit);
}

/* Forgets finished jobs that are too old or too many: of these, those that ended first. */
static void evict_jobs(const api *a)
{
    gg_error err = GG_ERROR_INIT;
    gg_buf ids = GG_BUF_INIT, ended = GG_BUF_INIT;
    const size_t size = ENDED + API_ID + 1;
    char oldest[ENDED + 1];
    uint64_t now = api_now(), age = a->keep_days * 86400000;
    read_ids(a, &ids, &err);
    for (size_t i = 0; i < ids.len; i += API_ID + 1) add_ended(a, ids.data + i, &ended);
    size_t n = ended.len / size;
    if (n) qsort(ended.data, n, size, by_name);
    snprintf(oldest, sizeof oldest, "%016llx", (unsigned long long)(now > age ? now - age : 0));
    for (size_t i = 0; i < n; i++) {
        const char *job = ended.data + i * size;
        if (n - i > a->keep_jobs || memcmp(job, oldest, ENDED) < 0) forget_job(a, job + ENDED);
    }
    gg_buf_free(&ids);
    gg_buf_free(&ended);
}

/* ---- routes ------------------------------------------------------------------------------ */

static bool start_job(api *a, api_vector *v)
{
    uint64_t room;
    evict_jobs(a);
    if (!api_room(a, 1, &room)) return false;
    gg_error err = GG_ERROR_INIT;
    api_job j = { .dir = -1, .lock = -1, .control = -1 };
    char location[300], name[64], first[API_ID + 1];
    size_t waiting;
    (void)api_queue_first(a, first, &waiting);
    if (waiting >= QUEUE_MAX)
        return api_fail(a, 503, "%zu jobs are waiting: try again later", waiting);
    bool ok = make_job(a, v, &j, &err) == GG_OK || api_fail_error(a, &err);
    snprintf(name, sizeof name, "queue/%s", j.id);
    int entry = ok ? api_spool_open(a, name, O_WRONLY | O_CREAT | O_EXCL) : -1;
    if (ok && entry < 0) ok = api_fail(a, 500, "cannot write to the spool: %s", strerror(errno));
    if (entry >= 0) close(entry);
    ok = ok && api_supervise(a, &j, v);
    if (!ok) discard_job(a, j.id);
    api_location(location, sizeof location, "jobs", j.id);
    if (ok) ok = answer_job(a, j.id, j.dir, 202, location);
    close_job(&j);
    return ok;
}

static bool post_job(api *a)
{
    gg_buf body = GG_BUF_INIT;
    gg_json *json = NULL;
    gg_error err = GG_ERROR_INIT;
    api_vector v = { 0 };
    bool ok = api_body(a, &body);
    if (ok && gg_json_parse(body.data, body.len, &json, &err) != GG_OK)
        ok = api_fail_error(a, &err);
    ok = ok && api_arguments(a, gg_json_root(json), &v) && start_job(a, &v);
    api_vector_free(&v);
    gg_json_free(json);
    gg_buf_free(&body);
    return ok;
}

/* Adds a job to the list unless it was just removed; returns whether it did. */
static bool put_listed(const api *a, gg_json_out *out, const char *id, bool first, gg_error *err)
{
    record r = { 0 };
    int dir = open_in_job(a, id, NULL, O_RDONLY | O_DIRECTORY);
    if (dir < 0 && errno != ENOENT) gg_fail_errno(err, "cannot read a job");
    bool found = dir >= 0 && load(a, id, dir, &r, err) == GG_OK && r.request;
    if (found) {
        gg_json_put_text(out, first ? "\n" : ",\n", err);
        put_job(out, id, dir, &r, false, err);
    }
    unload(&r);
    if (dir >= 0) close(dir);
    return found;
}

static bool list_jobs(api *a)
{
    gg_error err = GG_ERROR_INIT;
    gg_buf ids = GG_BUF_INIT, body = GG_BUF_INIT;
    gg_json_out out = gg_json_to_buf(&body);
    uint64_t last = UINT32_MAX; /* so many of the latest jobs */
    bool first = true;
    if (!api_query_number(a, "last", UINT32_MAX, &last)) return false;
    read_ids(a, &ids, &err);
    size_t n = ids.len / (API_ID + 1);
    gg_json_put_text(&out, "{\"jobs\": [", &err);
    for (size_t i = n > last ? n - (size_t)last : 0; i < n && err.status == GG_OK; i++)
        if (put_listed(a, &out, ids.data + i * (API_ID + 1), first, &err)) first = false;
    gg_json_put_text(&out, "\n]}\n", &err);
    gg_buf_free(&ids);
    return api_finish(a, 200, NULL, &body, &err);
}

static bool get_result(api *a, const char *id)
{
    record r;
    int dir = find_job(a, id), fd = -1;
    if (dir < 0) return false;
    bool ok = need(a, id, dir, &r);
    if (ok && r.state <= API_RUNNING) ok = api_fail(a, 409, "the job has not ended yet");
    unload(&r);
    if (ok && (fd = openat(dir, "stdout", O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) < 0)
        ok = errno == ENOENT ? api_fail(a, 404, "the job ended before its tool ran")
                             : api_fail(a, 500, "the result cannot be read: %s", strerror(errno));
    close(dir);
    return ok && api_answer_file(a, fd, "application/jsonl");
}

static bool remove_job(api *a, const char *id)
{
    int failed = forget_job(a, id);
    if (failed) return api_fail(a, failed == ENOENT ? 404 : 500, "the job cannot be removed");
    gg_error err = GG_ERROR_INIT;
    gg_buf body = GG_BUF_INIT;
    gg_buf_printf(&body, &err, "{\"id\": \"%s\", \"state\": \"removed\"}\n", id);
    return api_finish(a, 200, NULL, &body, &err);
}

/* A stop and a removal are different requests: a client that stops a job which has just ended,
 * or two clients that stop it at once, must not lose its record. */
static bool delete_job(api *a, const char *id)
{
    int dir = find_job(a, id);
    if (dir < 0) return false;
    bool ok;
    struct timespec tick = { 0, 20000000 };
    if (api_query_has(a, "remove")) {
        /* The supervisor lives for a moment after it has recorded the end. */
        for (int i = 0; i < STOP_WAIT && job_alive(a, id); i++)
            if (faccessat(dir, "exit", F_OK, 0) != 0) break;
            else nanosleep(&tick, NULL);
        ok = job_alive(a, id) ? api_fail(a, 409, "the job has not ended: stop it first")
                              : remove_job(a, id);
    } else {
        api_job_poke(a, id, 's');
        for (int i = 0; i < STOP_WAIT && job_alive(a, id); i++) nanosleep(&tick, NULL);
        ok = answer_job(a, id, dir, job_alive(a, id) ? 202 : 200, NULL);
    }
    close(dir);
    return ok;
}

bool api_jobs(api *a)
{
    if (!make_spool(a)) return false;
    if (a->parts == 2) {
        if (!api_allow(a, "GET, HEAD, POST")) return false;
        return api_is(a, "POST") ? post_job(a) : list_jobs(a);
    }
    if (a->parts == 4 && strcmp(a->part[3], "result") == 0)
        return api_allow(a, "GET, HEAD") && get_result(a, a->part[2]);
    if (a->parts != 3) return api_nothing(a);
    if (!api_allow(a, "GET, HEAD, DELETE")) return false;
    if (api_is(a, "DELETE")) return delete_job(a, a->part[2]);
    int dir = find_job(a, a->part[2]);
    bool ok = dir >= 0 && wait_for_change(a, a->part[2], dir) &&
              answer_job(a, a->part[2], dir, 200, NULL);
    if (dir >= 0) close(dir);
    return ok;
}

/* api_spool.c - stores jobs as folders of the spool.
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
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int api_spool_open(const api *a, const char *name, int flags)
{
    char path[4200];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", a->spool, name) >= sizeof path)
        return errno = ENAMETOOLONG, -1;
    return open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

bool api_spool_make(api *a)
{
    static const char *const names[] = { "jobs", "queue", "slots" };
    int fd = api_spool_open(a, ".", O_RDONLY | O_DIRECTORY);
    bool ok = fd >= 0;
    for (size_t i = 0; ok && i < 3; i++) ok = mkdirat(fd, names[i], 0700) == 0 || errno == EEXIST;
    if (fd >= 0) close(fd);
    return ok || api_fail(a, 500, "cannot write to the spool");
}

int api_job_open(const api *a, const char *id, const char *file, int flags)
{
    char name[64];
    snprintf(name, sizeof name, "jobs/%s%s%s", id, file ? "/" : "", file ? file : "");
    return api_spool_open(a, name, flags);
}

bool api_id_ok(const char *id)
{
    return strlen(id) == API_ID && strspn(id, "0123456789abcdef") == API_ID;
}

bool api_job_alive(const api *a, const char *id)
{
    int fd = api_job_open(a, id, "lock", O_RDONLY);
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
    int fd = api_job_open(a, id, "control", O_WRONLY | O_NONBLOCK);
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

/* The folder gets its name only when it is complete and its lock is held. Otherwise a new
 * job could look like a lost one. */
gg_status api_job_make(const api *a, const api_vector *v, api_job *j, gg_error *err)
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
void api_job_discard(const api *a, const char *id)
{
    static const char *const names[] = { "jobs/.new-", "jobs/", "queue/" };
    char path[4300];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (*id &&
            (size_t)snprintf(path, sizeof path, "%s/%s%s", a->spool, names[i], id) < sizeof path)
            gg_remove_tree(path);
}

void api_job_close(api_job *j)
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
        if (api_job_alive(a, id)) return true;
        if (!api_queue_leave(a, id)) return false; /* its supervisor was killed while it waited */
    }
}

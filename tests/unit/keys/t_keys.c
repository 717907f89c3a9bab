/* t_keys.c - keys changed in place. If the process is killed before, during or after any system
 * call that writes, or if a call fails, the model opens or recovery repairs it. This file defines
 * these calls itself, in place of those of the system. */
#include "files.h"

#include "keys/keys_write.h"

#if defined __linux__ && defined __LP64__
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* What happens at the call of this number, counted from 1. */
typedef enum trouble { NONE, KILL_BEFORE, KILL_HALF, KILL_AFTER, FAIL, FAIL_HALF } trouble;
static trouble what;
static unsigned at_call, calls;
static bool lasting; /* it fails from there on, not only once */

static void die(void)
{
    kill(getpid(), SIGKILL);
}

static bool now(trouble t)
{
    return what == t && (calls == at_call || (lasting && calls > at_call));
}

static bool fails(void)
{
    if (!now(FAIL)) return false;
    errno = EIO;
    return true;
}

static ssize_t counted_write(int fd, const void *buf, size_t n, off_t at)
{
    calls++;
    if (now(KILL_BEFORE)) die();
    if (fails()) return -1;
    bool half = now(KILL_HALF) || now(FAIL_HALF);
    size_t want = half ? (n + 1) / 2 : n;
    ssize_t w = at < 0 ? syscall(SYS_write, fd, buf, want)
                       : syscall(SYS_pwrite64, fd, buf, want, at);
    if (now(KILL_HALF) || now(KILL_AFTER)) die();
    if (!now(FAIL_HALF)) return w;
    errno = EIO;
    return -1;
}

ssize_t write(int fd, const void *buf, size_t n)
{
    return counted_write(fd, buf, n, -1);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
    return counted_write(fd, buf, n, at);
}

static int counted(long result)
{
    if (now(KILL_AFTER)) die();
    return (int)result;
}

static bool stopped(void)
{
    calls++;
    if (now(KILL_BEFORE)) die();
    return fails();
}

int fsync(int fd)
{
    (void)fd;
    return stopped() ? -1 : counted(0); /* the test needs no disk */
}

int unlink(const char *path)
{
    return stopped() ? -1 : counted(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

int rename(const char *from, const char *to)
{
    if (stopped()) return -1;
    return counted(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

/* musl 1.2.3 does not declare it. */
int renameat2(int a, const char *from, int b, const char *to, unsigned flags);

int renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    return stopped() ? -1 : counted(syscall(SYS_renameat2, a, from, b, to, flags));
}

#define MODEL "tests/data/gguf/v3-basic.gguf"

static char *old_bytes, *new_bytes;
static size_t size;
static const char *path, *journal;

/* Two keys far from each other, so that a half written header is neither the one nor the
 * other. */
static char set_a[300], set_b[300];
static const char *const sets[] = { set_a, set_b };
static const gg_key_edits edits = { .sets = { sets, 2 }, .in_place = true };

static gg_status change(gg_error *e)
{
    gg_keys_report r;
    gg_run run = { .threads = 1 };
    gg_source *s = NULL;
    gg_status st = gg_source_open_with(path, NULL, &s, e);
    if (st == GG_OK) st = gg_keys_write(s, &edits, NULL, &run, &r, e);
    gg_source_close(s);
    return st;
}

static bool is(const char *bytes)
{
    size_t n;
    char *got = slurp(path, &n);
    bool same = n == size && memcmp(got, bytes, n) == 0;
    free(got);
    return same;
}

static bool opens(gg_error *e)
{
    gg_source *s = NULL;
    gg_status st = gg_source_open(path, &s, e);
    gg_source_close(s);
    return st == GG_OK;
}

/* The first and the last string of the model, with their first letter changed. */
static void prepare(void)
{
    static char paths[2][512];
    gg_source *s;
    gg_error e = GG_ERROR_INIT;
    char *to[2] = { set_a, set_b };
    size_t found = 0;
    what = NONE;
    path = strcpy(paths[0], scratch("m.gguf"));
    journal = strcpy(paths[1], scratch("m.gguf.keys-undo"));
    old_bytes = slurp(MODEL, &size);
    spew(path, old_bytes, size);
    T_CHECKF(gg_source_open(path, &s, &e) == GG_OK, "%s", e.what);
    const gg_meta *meta = gg_source_meta(s);
    for (size_t i = 0; i < meta->n; i++) {
        const gg_kv *kv = &meta->kv[i];
        if (kv->type != GG_TYPE_STR || kv->size == 0 || kv->size > 200) continue;
        size_t k = found == 0 ? 0 : 1;
        snprintf(to[k], 300, "%.*s=str:~%.*s", (int)kv->key_len, kv->key, (int)kv->size - 1,
                 (const char *)kv->data + 1);
        found++;
    }
    gg_source_close(s);
    T_CHECKF(found >= 2, "%zu strings", found);
    T_CHECKF(change(&e) == GG_OK, "%s", e.what);
    new_bytes = slurp(path, NULL);
    T_CHECK(memcmp(old_bytes, new_bytes, size) != 0 && !there(journal));
    T_CHECK(count_names(scratch_folder) == 1);
}

static void finish(void)
{
    what = NONE;
    free(old_bytes);
    free(new_bytes);
    unlink(path);
}

/* However it was left: usable, or refused with a reason and repaired. */
static void check_left(const char *how, unsigned call)
{
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT, e3 = GG_ERROR_INIT;
    gg_recovery done;
    if (there(journal))
        T_CHECKF(!opens(&e) && e.fix_arg && strcmp(e.fix_arg, "recover") == 0, "%s at call %u: %s",
                 how, call, e.what);
    else T_CHECKF(opens(&e) && (is(old_bytes) || is(new_bytes)), "%s at call %u", how, call);
    T_CHECKF(gg_keys_recover(path, &done, &e2) == GG_OK, "%s at call %u: %s", how, call, e2.what);
    T_CHECKF(is(old_bytes) || is(new_bytes), "%s at call %u: neither old nor new", how, call);
    T_CHECKF(!there(journal) && opens(&e3), "%s at call %u: %s", how, call, e3.what);
    T_CHECKF(is(done == GG_RECOVERY_FINISHED ? new_bytes : old_bytes) || done == GG_RECOVERY_NONE,
             "%s at call %u: told wrongly", how, call);
}

/* One run in a process of its own; true if it was killed. */
static bool killed(gg_status (*fn)(gg_error *e))
{
    pid_t child = fork();
    if (child == 0) {
        gg_error e = GG_ERROR_INIT;
        calls = 0;
        _exit(fn(&e) == GG_OK ? 0 : 9);
    }
    int status = 0;
    waitpid(child, &status, 0);
    T_CHECKF(WIFSIGNALED(status) || WEXITSTATUS(status) == 0, "status %d", status);
    return WIFSIGNALED(status);
}

static void clear_temporaries(void)
{
    char command[160];
    snprintf(command, sizeof command, "rm -f %s/.*.tmp", scratch_folder);
    T_CHECK(system(command) == 0);
}

static void kills(void)
{
    prepare();
    static const trouble kinds[] = { KILL_BEFORE, KILL_HALF, KILL_AFTER };
    for (size_t k = 0; k < 3; k++) {
        bool more = true;
        for (at_call = 1; more && at_call < 100; at_call++) {
            what = NONE;
            spew(path, old_bytes, size);
            what = kinds[k];
            more = killed(change) || (kinds[k] == KILL_HALF && at_call < 30);
            what = NONE;
            check_left("killed", at_call);
            clear_temporaries();
        }
        T_CHECKF(at_call > 8 && at_call < 100, "%u calls", at_call);
    }
    finish();
}

static gg_status recover(gg_error *e)
{
    gg_recovery done;
    return gg_keys_recover(path, &done, e);
}

/* Recovery is killed too, again and again. */
static void kills_of_recovery(void)
{
    prepare();
    static const trouble kinds[] = { KILL_BEFORE, KILL_HALF, KILL_AFTER };
    unsigned torn = 0;
    for (unsigned first = 1; first < 30; first++)
        for (size_t k = 0; k < 3; k++) {
            what = NONE;
            spew(path, old_bytes, size);
            what = KILL_HALF;
            at_call = first;
            killed(change);
            what = NONE;
            torn += !is(old_bytes) && !is(new_bytes);
            for (unsigned again = 1; again < 8; again++) {
                what = kinds[k];
                at_call = again;
                killed(recover);
            }
            what = NONE;
            check_left("recovery killed", first);
            clear_temporaries();
        }
    T_CHECKF(torn > 0, "no header was torn: the test is void");
    finish();
}

static void failures(void)
{
    prepare();
    for (int mode = 0; mode < 4; mode++) {
        bool failed = true;
        lasting = mode / 2;
        for (at_call = 1; (failed || at_call < 20) && at_call < 60; at_call++) {
            gg_error e = GG_ERROR_INIT;
            what = NONE;
            spew(path, old_bytes, size);
            what = mode % 2 ? FAIL_HALF : FAIL;
            calls = 0;
            failed = change(&e) != GG_OK;
            what = NONE;
            T_CHECKF(!failed || (e.status == GG_EIO && e.file[0]), "%s: %s", e.file, e.what);
            T_CHECKF(failed || is(new_bytes), "call %u failed and nobody noticed", at_call);
            if (!there(journal)) T_CHECKF(is(old_bytes) || is(new_bytes), "call %u", at_call);
            T_CHECKF(there(journal) || lasting || count_names(scratch_folder) == 1,
                     "call %u: something is left", at_call);
            check_left("failed", at_call);
            clear_temporaries();
        }
    }
    lasting = false;
    finish();
}

/* A journal that does not belong to the model beside it changes nothing. */
static void foreign_journals(void)
{
    prepare();
    gg_error e = GG_ERROR_INIT;
    size_t n = 0;
    char *bytes = NULL;
    for (at_call = 1; at_call < 30 && !(there(journal) && !is(old_bytes)); at_call++) {
        what = NONE;
        unlink(journal);
        spew(path, old_bytes, size);
        what = KILL_HALF;
        killed(change);
        what = NONE;
    }
    T_CHECK(there(journal));
    bytes = slurp(journal, &n);
    for (size_t i = 0; i < n; i++) { /* each byte of the journal matters */
        gg_error e2 = GG_ERROR_INIT;
        gg_recovery done;
        bytes[i] ^= 1;
        spew(journal, bytes, n);
        T_CHECKF(gg_keys_recover(path, &done, &e2) == GG_EFORMAT && there(journal), "byte %zu", i);
        bytes[i] ^= 1;
    }
    for (size_t cut = 0; cut < n; cut += 7) {
        gg_error e2 = GG_ERROR_INIT;
        gg_recovery done;
        spew(journal, bytes, cut);
        T_CHECKF(gg_keys_recover(path, &done, &e2) == GG_EFORMAT, "cut at %zu", cut);
    }
    spew(journal, bytes, n);
    char *other = slurp(MODEL, NULL);
    other[8 + 16 + 8 + 2] ^= 1; /* in the first key, outside of the change */
    spew(path, other, size);
    gg_recovery done;
    T_CHECK(gg_keys_recover(path, &done, &e) == GG_EFORMAT && strstr(e.what, "another model"));
    T_CHECK(is(other));
    gg_error e3 = GG_ERROR_INIT;
    spew(path, old_bytes, size - 1);
    T_CHECK(gg_keys_recover(path, &done, &e3) == GG_EFORMAT);
    free(other);
    free(bytes);
    unlink(journal);
    clear_temporaries();
    finish();
}

/* Links and other shards lead to the same journal. */
static void other_names(void)
{
    prepare();
    gg_recovery done;
    gg_error e = GG_ERROR_INIT, e2 = GG_ERROR_INIT;
    const char *link = scratch("link.gguf");
    T_CHECK(symlink("m.gguf", link) == 0);
    spew(journal, "x", 1);
    T_CHECK(gg_keys_recover(link, &done, &e) == GG_EFORMAT);
    gg_source *s = NULL;
    T_CHECK(gg_source_open(link, &s, &e2) == GG_EFORMAT && e2.fix_arg &&
            strcmp(e2.fix_arg, "recover") == 0);
    unlink(journal);
    unlink(link);
    finish();
}

static const t_case cases[] = {
    { "killed at any moment", kills },
    { "recovery killed at any moment", kills_of_recovery },
    { "calls that fail", failures },
    { "journals of other models", foreign_journals },
    { "other names of a model", other_names },
};
#else
static void skipped(void) {}

static const t_case cases[] = { { "not on this system", skipped } };
#endif

T_MAIN(cases)

/* keys_journal.c - replaces a header in place, and undoes a change that was interrupted.
 *
 * The journal contains "GGKEYS01", then four little-endian u64: the size of the model file, the
 * end of its header, the start of the change and its length. Then follow the sha256 of the rest
 * of the header, the old bytes, the new bytes, and the sha256 of everything before. The journal
 * gets its name only after it is complete and on disk.
 */
#include "keys_journal.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/io.h"
#include "base/output.h"
#include "base/sha256.h"
#include "base/tempname.h"
#include "gguf/gguf.h"
#include "gguf/gguf_journal.h"
#include "gguf/gguf_limits.h"
#include "verbs/shared/verb_run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "GGKEYS01"
#define HEAD ((size_t)8 + 4 * 8 + 32)

/* Returns the name of the first shard if `path` is the name of a shard, else a copy of path;
 * malloc'd. Returns NULL and sets GG_ENOMEM in err if memory is exhausted. */
static char *first_shard(const char *path, gg_error *err)
{
    size_t prefix_len;
    uint32_t no, count;
    char *out;
    if (gg_shard_parse(path, &prefix_len, &no, &count)) {
        char *prefix = strndup(path, prefix_len);
        out = prefix ? gg_shard_name(prefix, 0, count) : NULL;
        free(prefix);
    } else {
        out = strdup(path);
    }
    if (!out) gg_fail(err, GG_ENOMEM, "no memory for a name");
    return out;
}

gg_status gg_open_locked(const char *path, int *fd, gg_error *err)
{
    *fd = open(path, O_RDWR | O_CLOEXEC);
    if (*fd < 0) {
        gg_fail_errno(err, "cannot open for writing");
        return gg_at_file(err, path);
    }
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return GG_OK;
    close(*fd);
    gg_fail(err, GG_EIO, "another program is changing it");
    gg_fix(err, "wait for it to end");
    return gg_at_file(err, path);
}

gg_status gg_header_rest(int fd, const gg_header_change *c, uint8_t out[32], gg_error *err)
{
    uint8_t buf[16384];
    gg_sha256 h;
    gg_status st = GG_OK;
    gg_sha256_init(&h);
    for (uint64_t at = 0; at < c->header_end && st == GG_OK;) {
        uint64_t end = at < c->at ? c->at : c->header_end;
        if (at == c->at) at += c->n;
        size_t step = end - at < sizeof buf ? (size_t)(end - at) : sizeof buf;
        st = gg_pread_all(fd, buf, step, at, err);
        gg_sha256_update(&h, buf, st == GG_OK ? step : 0);
        at += step;
    }
    gg_sha256_final(&h, out);
    return st;
}

/* Writing continues after a signal, so that no header is left half written. */
static gg_status write_through(int fd, const uint8_t *bytes, size_t n, uint64_t at, gg_error *err)
{
    while (n > 0) {
        ssize_t w = pwrite(fd, bytes, n < GG_CHUNK ? n : GG_CHUNK, (off_t)at);
        if (w < 0 && errno == EINTR) continue;
        if (w <= 0) return gg_fail_errno(err, "write failed");
        bytes += w;
        at += (uint64_t)w;
        n -= (size_t)w;
    }
    return fsync(fd) == 0 ? GG_OK : gg_fail_errno(err, "fsync failed");
}

static gg_status remove_journal(const char *journal, gg_error *err)
{
    if (unlink(journal) == 0) return gg_sync_parent(journal, err);
    gg_fail_errno(err, "cannot remove");
    return gg_at_file(err, journal);
}

/* ---- writing ----------------------------------------------------------------------- */

static gg_status write_hashed(int fd, gg_sha256 *h, const void *bytes, size_t n, gg_error *err)
{
    gg_sha256_update(h, bytes, n);
    return gg_write_all(fd, bytes, n, err);
}

static gg_status write_journal(const char *journal, const gg_header_change *c, gg_error *err)
{
    uint8_t head[HEAD], digest[32];
    gg_sha256 h;
    gg_output *out;
    gg_status st = gg_output_open(journal, false, &out, err);
    if (st != GG_OK) {
        gg_fix_hint(err, GG_HINT_NEW_MODEL, "write a new model");
        return st;
    }
    memcpy(head, MAGIC, 8);
    gg_put_le64(head + 8, c->file_size);
    gg_put_le64(head + 16, c->header_end);
    gg_put_le64(head + 24, c->at);
    gg_put_le64(head + 32, c->n);
    memcpy(head + 40, c->rest, 32);
    gg_sha256_init(&h);
    st = write_hashed(gg_output_fd(out), &h, head, sizeof head, err);
    if (st == GG_OK) st = write_hashed(gg_output_fd(out), &h, c->before, c->n, err);
    if (st == GG_OK) st = write_hashed(gg_output_fd(out), &h, c->after, c->n, err);
    gg_sha256_final(&h, digest);
    if (st == GG_OK) st = gg_write_all(gg_output_fd(out), digest, sizeof digest, err);
    if (st == GG_OK) return gg_output_commit(out, err);
    gg_output_abort(out);
    return gg_at_file(err, journal);
}

gg_status gg_header_replace(const char *path, int fd, const gg_header_change *c, gg_error *err)
{
    gg_error undo = GG_ERROR_INIT;
    char *journal = gg_journal_path(path);
    if (!journal) return gg_fail(err, GG_ENOMEM, "no memory for a name"), gg_at_file(err, path);
    gg_status st = write_journal(journal, c, err);
    if (st == GG_OK && write_through(fd, c->after, c->n, c->at, err) != GG_OK) {
        st = gg_at_file(err, path);
        write_through(fd, c->before, c->n, c->at, &undo);
        if (undo.status == GG_OK) remove_journal(journal, &undo);
        err->fix[0] = '\0';
        if (undo.status == GG_OK) gg_fix(err, "its keys are as before");
        else gg_fix_hint(err, GG_HINT_RECOVER, "its keys may be half changed; recover the model");
    } else if (st == GG_OK) {
        st = remove_journal(journal, err);
    }
    free(journal);
    return st;
}

/* ---- recovery ---------------------------------------------------------------------- */

static gg_status bad_journal(gg_error *err)
{
    gg_fail(err, GG_EFORMAT, "this file is not a journal of organ-keys");
    return gg_fix(err, "if the model is intact, remove this file");
}

/* Reads the change from the journal. Its data are in *bytes. */
static gg_status parse(const uint8_t *bytes, size_t size, gg_header_change *c, gg_error *err)
{
    uint8_t digest[32];
    gg_sha256 h;
    if (size < HEAD + 32 || memcmp(bytes, MAGIC, 8) != 0) return bad_journal(err);
    c->file_size = gg_le64(bytes + 8);
    c->header_end = gg_le64(bytes + 16);
    c->at = gg_le64(bytes + 24);
    uint64_t n = gg_le64(bytes + 32);
    memcpy(c->rest, bytes + 40, 32);
    gg_sha256_init(&h);
    gg_sha256_update(&h, bytes, size - 32);
    gg_sha256_final(&h, digest);
    if (memcmp(digest, bytes + size - 32, 32) != 0 || (size - HEAD - 32) / 2 != n ||
        (size - HEAD - 32) % 2 != 0 || c->header_end > c->file_size || c->at > c->header_end ||
        n > c->header_end - c->at)
        return bad_journal(err);
    c->n = (size_t)n;
    c->before = bytes + HEAD;
    c->after = bytes + HEAD + c->n;
    return GG_OK;
}

static gg_status load(const char *journal, uint8_t **bytes, gg_header_change *c, gg_error *err)
{
    struct stat s;
    int fd = open(journal, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &s) != 0) gg_fail_errno(err, "cannot open");
    else if (!S_ISREG(s.st_mode) || (uint64_t)s.st_size > 2 * GG_LIMIT_HEADER + HEAD + 32)
        bad_journal(err);
    else if (!(*bytes = malloc((size_t)s.st_size + 1)))
        gg_fail(err, GG_ENOMEM, "no memory for a journal");
    else if (gg_pread_all(fd, *bytes, (size_t)s.st_size, 0, err) == GG_OK)
        parse(*bytes, (size_t)s.st_size, c, err);
    if (fd >= 0) close(fd);
    return gg_at_file(err, journal);
}

static gg_status other_model(const char *journal, gg_error *err)
{
    gg_fail(err, GG_EFORMAT, "this journal belongs to another model");
    gg_fix(err, "if the model beside it is intact, remove this file");
    return gg_at_file(err, journal);
}

/* Undo the change unless it was completed. */
static gg_status settle(int fd, const char *journal, const gg_header_change *c, gg_recovery *what,
                        gg_error *err)
{
    struct stat s;
    uint8_t rest[32];
    if (fstat(fd, &s) != 0) return gg_fail_errno(err, "cannot stat");
    if ((uint64_t)s.st_size != c->file_size) return other_model(journal, err);
    gg_status st = gg_header_rest(fd, c, rest, err);
    if (st == GG_OK && memcmp(rest, c->rest, 32) != 0) st = other_model(journal, err);
    uint8_t *now = malloc(c->n + 1);
    if (!now) return gg_fail(err, GG_ENOMEM, "no memory for a header");
    if (st == GG_OK) st = gg_pread_all(fd, now, c->n, c->at, err);
    bool old = true, new = true, either = true;
    for (size_t i = 0; i < c->n && st == GG_OK; i++) {
        old = old && now[i] == c->before[i];
        new = new &&now[i] == c->after[i];
        either = either && (now[i] == c->before[i] || now[i] == c->after[i]);
    }
    free(now);
    if (st == GG_OK && !either) st = other_model(journal, err);
    *what = new ? GG_RECOVERY_FINISHED : GG_RECOVERY_UNDONE;
    if (st == GG_OK) /* even if everything is written, it may not be on disk yet */
        st = write_through(fd, new ? c->after : c->before, old ? 0 : c->n, c->at, err);
    return st;
}

/* The lock is taken first, because the journal is in use until the other process ends. */
static gg_status recover(const char *path, gg_recovery *what, gg_error *err)
{
    int fd;
    uint8_t *bytes = NULL;
    gg_header_change c = { 0 };
    gg_status st = gg_open_locked(path, &fd, err);
    if (st != GG_OK) return st;
    char *journal = gg_journal_path(path);
    if (!journal) st = gg_fail(err, GG_ENOMEM, "no memory for a name");
    if (st == GG_OK && gg_journal_exists(path)) {
        st = load(journal, &bytes, &c, err);
        if (st == GG_OK) st = settle(fd, journal, &c, what, err);
        if (st == GG_OK) st = remove_journal(journal, err);
    }
    free(bytes);
    free(journal);
    close(fd);
    return st == GG_OK ? GG_OK : gg_at_file(err, path);
}

gg_status gg_keys_recover(const char *path, gg_recovery *what, gg_error *err)
{
    what = GG_REPORT(gg_recovery, what);
    *what = GG_RECOVERY_NONE;
    char *first = first_shard(path, err);
    if (!first) return err->status;
    gg_status st = GG_OK;
    if (gg_journal_exists(path)) st = recover(path, what, err);
    if (st == GG_OK && gg_journal_exists(first)) st = recover(first, what, err);
    free(first);
    return st;
}

/* verb_keys.c - changes the keys of a model: in a new file, or in place with a journal. */
#include "keys_write.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/io.h"
#include "base/output.h"
#include "base/platform.h"
#include "base/sha256.h"
#include "gguf/gguf.h"
#include "organ/output_guard.h"
#include "organ/source_layout.h"
#include "organ/source_watch.h"
#include "write/keys.h"
#include "write/plan.h"
#include "write/verb_run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The other shards contain the same numbers. A set in which they differ cannot be opened. */
static gg_status refuse_split(const char *key, size_t n, gg_error *err)
{
    const gg_kv kv = { .key = key, .key_len = n };
    if (!gg_is_split_key(&kv)) return GG_OK;
    gg_fail(err, GG_EUSAGE, "%.*s numbers the shards of a split model and cannot be changed",
            (int)n, key);
    return gg_fix(err, "use organ-assemble to split models and merge shards");
}

static gg_status find_editable_key(gg_meta *meta, const char *key, gg_kv **out, gg_error *err)
{
    gg_status st = refuse_split(key, strlen(key), err);
    if (st != GG_OK) return st;
    const gg_kv *kv = gg_keys_find(meta, key);
    *out = kv ? &meta->kv[kv - meta->kv] : NULL;
    if (kv) return refuse_split(kv->key, kv->key_len, err);
    gg_fail(err, GG_NO, "there is no key '%s'", key);
    return gg_fix(err, "list the keys with organ-keys");
}

/* Renames a key without moving it: a copy with the new name is appended and then replaces the
 * old entry. */
static gg_status rename_key(gg_meta *meta, const char *text, gg_error *err)
{
    const char *eq = strchr(text, '=');
    if (!eq || eq == text || !eq[1]) {
        gg_fail(err, GG_EUSAGE, "%s: expected OLD=NEW", text);
        return gg_fix(err, "for example llama.block_count=qwen2.block_count");
    }
    char *old = strndup(text, (size_t)(eq - text));
    if (!old) return gg_fail(err, GG_ENOMEM, "no memory for a key");
    gg_kv *kv;
    gg_status st = find_editable_key(meta, old, &kv, err);
    free(old);
    if (st == GG_OK) st = refuse_split(eq + 1, strlen(eq + 1), err);
    if (st != GG_OK) return st;
    if (gg_meta_find(meta, eq + 1)) {
        gg_fail(err, GG_EUSAGE, "%s: the key '%s' already exists", text, eq + 1);
        return gg_fix(err, "delete it in the same run");
    }
    size_t at = (size_t)(kv - meta->kv);
    gg_kv named = *kv;
    named.key = eq + 1;
    named.key_len = strlen(eq + 1);
    st = gg_meta_set(meta, &named, err);
    if (st != GG_OK) return st;
    meta->kv[at] = meta->kv[meta->n - 1];
    meta->n--;
    return GG_OK;
}

/* In gg_meta_set_text, "KEY=" deletes the key. A user is more likely to mean an empty text, so
 * that it is refused here. */
static gg_status set_key(gg_meta *meta, const char *text, gg_error *err)
{
    const char *eq = strchr(text, '=');
    if (eq && eq > text && !eq[1]) {
        gg_fail(err, GG_EUSAGE, "%s: no value is given", text);
        return gg_fix(err, "write %sstr: for an empty text, or delete the key (--delete)", text);
    }
    gg_status st = eq ? refuse_split(text, (size_t)(eq - text), err) : GG_OK;
    return st == GG_OK ? gg_meta_set_text(meta, text, err) : st;
}

/* Edit `meta`. GG_NO when a key to delete or rename is absent; GG_EUSAGE for a text that
 * cannot be understood, a new name that is taken, a file for a key that is not a string, and
 * for split.no, split.count and split.tensors.count, which the other shards depend on. On
 * error `meta` may be partly edited. */
static gg_status edit_keys_of(gg_meta *meta, const gg_key_edits *e, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < e->deletes.n && st == GG_OK; i++) {
        gg_kv *kv;
        st = find_editable_key(meta, e->deletes.items[i], &kv, err);
        if (st != GG_OK) break;
        meta->n--;
        memmove(kv, kv + 1, (size_t)(meta->kv + meta->n - kv) * sizeof *kv);
    }
    for (size_t i = 0; i < e->renames.n && st == GG_OK; i++)
        st = rename_key(meta, e->renames.items[i], err);
    for (size_t i = 0; i < e->sets.n && st == GG_OK; i++) st = set_key(meta, e->sets.items[i], err);
    for (size_t i = 0; i < e->files.n && st == GG_OK; i++) {
        const char *text = e->files.items[i], *eq = strchr(text, '=');
        if (eq) st = refuse_split(text, (size_t)(eq - text), err);
        if (st == GG_OK) st = gg_meta_set_file(meta, text, err);
    }
    return st;
}

/* ---- a change in place that can be undone --------------------------------------------- */

/* First the journal is written and synced to disk. Then the new bytes replace the old ones and are
 * synced, and the journal is removed. The journal contains the old and the new bytes, so that a
 * half-changed header can be distinguished from the header of another model.
 *
 * It contains "GGKEYS01", then four little-endian u64: the size of the model file, the end of its
 * header, the start of the change and its length. Then follow the sha256 of the rest of the header,
 * the old bytes, the new bytes, and the sha256 of everything before. The journal gets its name only
 * after it is complete and on disk. */

/* The bytes [at, at + n) of a header of header_end bytes, before and after the change. */
typedef struct gg_header_change {
    uint64_t file_size, header_end, at;
    size_t n;
    const uint8_t *before, *after; /* n bytes each; before: of a journal, else NULL */
    uint8_t rest[32];              /* sha256 of the header's other bytes */
} gg_header_change;

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

/* Compute the sha256 of the header of fd without the bytes of the change. */
static gg_status hash_rest_of_header(int fd, const gg_header_change *c, uint8_t out[32],
                                     gg_error *err)
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
    return gg_sys_sync(fd) == 0 ? GG_OK : gg_fail_errno(err, "fsync failed");
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

/* `model` is the unchanged model, which has the bytes before the change. */
static gg_status write_parts(int fd, int model, const gg_header_change *c, gg_error *err)
{
    uint8_t head[HEAD], digest[32], now[16384];
    gg_sha256 h;
    memcpy(head, MAGIC, 8);
    gg_put_le64(head + 8, c->file_size);
    gg_put_le64(head + 16, c->header_end);
    gg_put_le64(head + 24, c->at);
    gg_put_le64(head + 32, c->n);
    memcpy(head + 40, c->rest, 32);
    gg_sha256_init(&h);
    gg_status st = write_hashed(fd, &h, head, HEAD, err);
    for (size_t done = 0, step; done < c->n && st == GG_OK; done += step) {
        step = c->n - done < sizeof now ? c->n - done : sizeof now;
        st = gg_pread_all(model, now, step, c->at + done, err);
        if (st == GG_OK) st = write_hashed(fd, &h, now, step, err);
    }
    if (st == GG_OK) st = write_hashed(fd, &h, c->after, c->n, err);
    gg_sha256_final(&h, digest);
    return st == GG_OK ? gg_write_all(fd, digest, sizeof digest, err) : st;
}

static gg_status write_journal(const char *journal, int model, const gg_header_change *c,
                               gg_error *err)
{
    gg_output *out;
    gg_status st = gg_output_open(journal, false, &out, err);
    if (st != GG_OK) {
        gg_fix(err, "write a new model (use --output)");
        return st;
    }
    gg_output_at_once(out);
    st = write_parts(gg_output_fd(out), model, c, err);
    if (st == GG_OK) return gg_output_commit(out, err);
    gg_output_abort(out);
    return gg_at_file(err, journal);
}

/* ---- recovery ---------------------------------------------------------------------- */

static gg_status bad_journal(gg_error *err)
{
    gg_fail(err, GG_EFORMAT, "this file is not a journal of organ-keys");
    return gg_fix(err, "if the model is intact, remove this file");
}

/* Reads the change from the journal. Its data are in *bytes. */
static gg_status parse_journal(const uint8_t *bytes, size_t size, gg_header_change *c,
                               gg_error *err)
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

static gg_status load_journal(const char *journal, uint8_t **bytes, gg_header_change *c,
                              gg_error *err)
{
    struct stat s;
    int fd = open(journal, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &s) != 0) gg_fail_errno(err, "cannot open");
    else if (!S_ISREG(s.st_mode) || (uint64_t)s.st_size > 2 * GG_LIMIT_HEADER + HEAD + 32)
        bad_journal(err);
    else if (!(*bytes = malloc((size_t)s.st_size + 1)))
        gg_fail(err, GG_ENOMEM, "no memory for a journal");
    else if (gg_pread_all(fd, *bytes, (size_t)s.st_size, 0, err) == GG_OK)
        parse_journal(*bytes, (size_t)s.st_size, c, err);
    if (fd >= 0) close(fd);
    return gg_at_file(err, journal);
}

/* Write the change to fd, the locked file `path`. On failure the header is unchanged or, if the
 * error mentions it, the journal is kept for gg_keys_recover. */
static gg_status replace_header(const char *path, int fd, const gg_header_change *c, gg_error *err)
{
    gg_error undo = GG_ERROR_INIT;
    gg_header_change old;
    uint8_t *bytes = NULL;
    char *journal = gg_journal_path(path, err);
    if (!journal) {
        gg_fail(err, GG_EIO, "the file does not exist any more");
        return gg_at_file(err, path);
    }
    gg_status st = write_journal(journal, fd, c, err);
    if (st == GG_OK && write_through(fd, c->after, c->n, c->at, err) != GG_OK) {
        st = gg_at_file(err, path);
        if (load_journal(journal, &bytes, &old, &undo) == GG_OK)
            write_through(fd, old.before, old.n, old.at, &undo);
        if (undo.status == GG_OK) remove_journal(journal, &undo);
        err->fix[0] = '\0';
        if (undo.status == GG_OK) gg_fix(err, "its keys are as before");
        else gg_fix_by(err, "recover", "its keys may be half changed; recover the model");
    } else if (st == GG_OK) {
        st = remove_journal(journal, err);
    }
    free(bytes);
    free(journal);
    return st;
}

static gg_status other_model(const char *journal, gg_error *err)
{
    gg_fail(err, GG_EFORMAT, "this journal belongs to another model");
    gg_fix(err, "if the model beside it is intact, remove this file");
    return gg_at_file(err, journal);
}

/* Undo the change unless it was completed. */
static gg_status settle_change(int fd, const char *journal, const gg_header_change *c,
                               gg_recovery *what, gg_error *err)
{
    struct stat s;
    uint8_t rest[32];
    if (fstat(fd, &s) != 0) return gg_fail_errno(err, "cannot stat");
    if ((uint64_t)s.st_size != c->file_size) return other_model(journal, err);
    gg_status st = hash_rest_of_header(fd, c, rest, err);
    if (st == GG_OK && memcmp(rest, c->rest, 32) != 0) st = other_model(journal, err);
    bool before = true, after = true, either = true;
    for (size_t done = 0, step; done < c->n && st == GG_OK; done += step) {
        uint8_t now[16384];
        step = c->n - done < sizeof now ? c->n - done : sizeof now;
        st = gg_pread_all(fd, now, step, c->at + done, err);
        for (size_t i = 0; i < step && st == GG_OK; i++) {
            bool old = now[i] == c->before[done + i], new = now[i] == c->after[done + i];
            before = before && old;
            after = after && new;
            either = either && (old || new);
        }
    }
    if (st == GG_OK && !either) st = other_model(journal, err);
    *what = after ? GG_RECOVERY_FINISHED : GG_RECOVERY_UNDONE;
    if (st == GG_OK) /* even if everything is written, it may not be on disk yet */
        st = write_through(fd, after ? c->after : c->before, before ? 0 : c->n, c->at, err);
    return st;
}

/* The lock is taken first, because the journal is in use until the other process ends. */
static gg_status recover_file(const char *path, gg_recovery *what, gg_error *err)
{
    int fd;
    uint8_t *bytes = NULL;
    gg_header_change c = { 0 };
    gg_status st = gg_open_in_place(path, -1, (gg_in_place){ true, true }, &fd, err);
    char *journal = gg_journal_path(path, err);
    if (!journal) st = gg_fail(err, GG_EIO, "the file does not exist any more");
    if (st == GG_OK && gg_journal_exists(path, err)) {
        st = load_journal(journal, &bytes, &c, err);
        if (st == GG_OK) st = settle_change(fd, journal, &c, what, err);
        if (st == GG_OK) st = remove_journal(journal, err);
    }
    if (st == GG_OK) st = err->status;
    free(bytes);
    free(journal);
    if (fd >= 0) close(fd);
    return st == GG_OK ? GG_OK : gg_at_file(err, path);
}

gg_status gg_keys_recover(const char *path, gg_recovery *what, gg_error *err)
{
    what = GG_REPORT(gg_recovery, what);
    *what = GG_RECOVERY_NONE;
    char *first = first_shard(path, err);
    if (!first) return err->status;
    if (gg_journal_exists(path, err)) recover_file(path, what, err);
    if (err->status == GG_OK && gg_journal_exists(first, err)) recover_file(first, what, err);
    free(first);
    return err->status;
}

/* Plan all tensors of `source` in their order, in one file or, if `output` is named like one of
 * the source's shards, in as many shards. Keys, padding and trailing bytes are those of the
 * source; if several shards become one file, unusual padding and split keys are left out.
 * GG_EUSAGE if `output` is named like a shard of another number of shards. */
static gg_status plan_same(gg_plan *p, gg_source *s, const char *output, gg_error *err)
{
    size_t prefix_len, n = gg_plan_file_count(s);
    uint32_t no, named;
    bool shard = gg_shard_parse(output, &prefix_len, &no, &named);
    gg_status st = GG_OK;
    for (size_t i = 0; i < gg_source_count(s) && st == GG_OK; i++)
        st = gg_plan_add_copy(p, s, i, err);
    if (st != GG_OK) return st;
    if (n <= 1 || !shard)
        return gg_plan_changed_file(p, output, gg_plan_version(s), gg_source_meta(s), s, err);
    if (named != n) {
        gg_fail(err, GG_EUSAGE, "this is the name of one of %u shards, but the model has %zu",
                named, n);
        gg_fix(err, "use a name for %zu shards or for one file", n);
        return gg_at_file(err, output);
    }
    int differ = gg_plan_compare_files(p, s);
    if (differ < 0)
        return gg_fail(err, GG_EFORMAT,
                       "the layout of its shards has more tensors than the manifest lists");
    if (differ == 0) return gg_plan_restore_files(p, s, gg_source_meta(s), output, err);
    gg_fail(err, GG_EUSAGE,
            "tensors were added to or removed from its manifest, so its shards cannot be restored");
    return gg_fix(err, "give the name of one file, or split it with organ-assemble");
}

static gg_status write_with_keys(gg_source *model, const gg_key_edits *edits, const char *output,
                                 const gg_run *run, gg_keys_report *report, gg_error *err)
{
    bool pipe = !gg_source_seekable(model);
    gg_plan p = { .verify = true, .base = model, .pipe = pipe ? model : NULL, .keep_odd = pipe };
    gg_status st = gg_guard_output(output, model, err);
    if (st == GG_OK) st = gg_require_whole(model, run, err);
    if (st == GG_OK) st = plan_same(&p, model, output, err);
    if (st == GG_OK) st = edit_keys_of(&p.files[0].meta, edits, err);
    if (st != GG_OK) gg_at_file(err, gg_source_name(model));
    if (st == GG_OK) st = gg_plan_write(&p, run, &report->bytes, err);
    report->files = p.n_files;
    gg_plan_free(&p);
    return st;
}

/* ---- in place ---------------------------------------------------------------------- */

static gg_status refuse_to_move(const char *what, uint64_t is, uint64_t was, gg_error *err)
{
    gg_fail(err, GG_NO, "%s would be %llu instead of %llu, so the tensor data would move", what,
            (unsigned long long)is, (unsigned long long)was);
    return gg_fix(err, "write a new model (use --output)");
}

/* One change in place. */
typedef struct change {
    gg_source *source;
    const gg_model *model;
    const gg_key_edits *edits;
    const gg_run *run;
    gg_held_notes notes;
    gg_keys_report *report;
    uint8_t *after; /* the new header, with the padding up to the tensor data */
    size_t end;     /* its length without padding */
} change;

/* ---- padding: a key that fills the place that a shorter header leaves --------------------- */

#define PADDING "organ.padding"
#define PADDING_KEY (8 + sizeof PADDING - 1 + 4) /* bytes of a key without its value */

/* Removes the key from a list of shallow entries. Returns its index, or the end. */
static size_t take_padding(gg_meta *meta)
{
    const gg_kv *kv = gg_meta_find(meta, PADDING);
    size_t at = kv ? (size_t)(kv - meta->kv) : meta->n;
    if (kv) {
        meta->n--;
        memmove(&meta->kv[at], &meta->kv[at + 1], (meta->n - at) * sizeof *meta->kv);
    }
    return at;
}

/* Puts a key of `gap` bytes at index `at`: a text of spaces or, if there is too little room for
 * one, a number. The bytes that are left are fewer than the alignment. */
static gg_status put_padding(gg_meta *meta, size_t at, uint64_t gap, gg_error *err)
{
    gg_kv kv = { PADDING, sizeof PADDING - 1, GG_TYPE_U8, 0, 1, (const uint8_t *)"", 1 };
    char *spaces = NULL;
    if (gap >= PADDING_KEY + 8) {
        kv.type = GG_TYPE_STR;
        kv.size = (size_t)(gap - PADDING_KEY - 8);
        kv.data = (const uint8_t *)(spaces = malloc(kv.size + 1));
        if (!spaces) return gg_fail(err, GG_ENOMEM, "no memory for padding");
        memset(spaces, ' ', kv.size);
    }
    gg_status st = gg_meta_set(meta, &kv, err);
    free(spaces);
    if (st != GG_OK || at >= meta->n - 1) return st;
    gg_kv last = meta->kv[meta->n - 1];
    memmove(&meta->kv[at + 1], &meta->kv[at], (meta->n - 1 - at) * sizeof last);
    meta->kv[at] = last;
    return GG_OK;
}

/* Whether a header of `end` bytes ends where the tensor data of g begin. */
static bool fills(const gg_gguf *g, uint64_t end)
{
    return (g->n_tensors ? gg_align_up(end, g->alignment) : end) == g->data_start;
}

static gg_status too_long(change *c, uint64_t lacks, gg_error *err)
{
    c->report->lacks = lacks;
    gg_fail(err, GG_NO, "the new keys need %llu bytes more than there is room for before the data",
            (unsigned long long)lacks);
    return gg_fix(err, "write a new model (use --output)");
}

/* Makes the header of these keys, with padding that was at index `at`, so that the data of the
 * tensors need not move. */
static gg_status fit_header(change *c, gg_meta *meta, size_t at, gg_error *err)
{
    const gg_gguf *g = c->model->files[0];
    gg_status st = gg_header_emit(g->version, meta, g->tensors, g->n_tensors, &c->after, &c->end,
                                  err);
    if (st != GG_OK || fills(g, c->end)) return st;
    if (c->end > g->data_start) return too_long(c, c->end - g->data_start, err);
    uint64_t gap = g->data_start - c->end;
    if (gap < PADDING_KEY + 1) return too_long(c, PADDING_KEY + 1 - gap, err);
    st = put_padding(meta, at, gap, err);
    free(c->after);
    c->after = NULL;
    if (st == GG_OK)
        st = gg_header_emit(g->version, meta, g->tensors, g->n_tensors, &c->after, &c->end, err);
    return st != GG_OK || fills(g, c->end) ? st : too_long(c, 1, err);
}

/* Makes the header of file 0 with the changed keys, up to the tensor data. */
static gg_status new_header(change *c, gg_error *err)
{
    const gg_gguf *g = c->model->files[0];
    gg_meta meta = GG_META_INIT; /* its values are those of the source, which stays open */
    uint64_t alignment = 1;
    size_t n = gg_source_count(c->source), at = 0;
    gg_planned planned = { .meta = &meta,
                           .tensors = n ? gg_source_tensor(c->source, 0) : NULL,
                           .n = n,
                           .files = (uint32_t)c->model->n_files,
                           .base = c->source };
    meta.cap = g->meta.n + 1;
    meta.kv = malloc(meta.cap * sizeof *meta.kv);
    if (!meta.kv) return gg_fail(err, GG_ENOMEM, "no memory for the metadata");
    for (; meta.n < g->meta.n; meta.n++) meta.kv[meta.n] = g->meta.kv[meta.n];
    gg_status st = edit_keys_of(&meta, c->edits, err);
    if (st == GG_OK) at = take_padding(&meta);
    if (st == GG_OK) st = gg_review(planned, c->run, &c->notes, err);
    if (st == GG_OK) st = gg_meta_alignment(&meta, &alignment, err);
    if (st == GG_OK && alignment != g->alignment)
        st = refuse_to_move("general.alignment", alignment, g->alignment, err);
    if (st == GG_OK) st = fit_header(c, &meta, at, err);
    gg_meta_free(&meta);
    if (st != GG_OK) return st;
    uint8_t *grown = realloc(c->after, (size_t)g->data_start + 1);
    if (!grown) return gg_fail(err, GG_ENOMEM, "no memory for a header");
    memset(grown + c->end, 0, (size_t)g->data_start - c->end);
    c->after = grown;
    return GG_OK;
}

/* Finds the bytes of the header that differ, in the locked file. Padding that is not zero is kept
 * if its length does not change, as in a new file. */
static gg_status find_change(change *c, int fd, gg_header_change *diff, gg_error *err)
{
    const gg_gguf *g = c->model->files[0];
    uint64_t lo = g->data_start, hi = 0;
    gg_status st = GG_OK;
    for (size_t at = 0, step; at < g->data_start && st == GG_OK; at += step) {
        uint8_t now[16384];
        step = g->data_start - at < sizeof now ? (size_t)g->data_start - at : sizeof now;
        st = gg_pread_all(fd, now, step, at, err);
        for (size_t k = at; k < at + step && st == GG_OK; k++) {
            if (k < g->header_bytes && now[k - at] != g->raw[k])
                st = gg_fail(err, GG_EIO, "it changed while being read");
            if (k >= g->header_bytes && c->end == g->header_bytes) c->after[k] = now[k - at];
            if (now[k - at] == c->after[k]) continue;
            if (lo > k) lo = k;
            hi = k + 1;
        }
    }
    *diff = (gg_header_change){ .file_size = c->model->file_sizes[0],
                                .header_end = g->data_start,
                                .at = lo,
                                .n = hi > lo ? hi - lo : 0,
                                .after = c->after + lo };
    c->report->bytes = diff->n;
    c->report->same = diff->n == 0;
    return st == GG_OK && diff->n ? hash_rest_of_header(fd, diff, diff->rest, err) : st;
}

static gg_status change_first(change *c, gg_error *err)
{
    const gg_model *m = c->model;
    gg_header_change diff;
    int fd = -1;
    gg_status st = new_header(c, err);
    if (st == GG_OK)
        st = gg_open_in_place(m->paths[0], m->fds[0],
                              (gg_in_place){ c->run->force, c->run->follow }, &fd, err);
    if (st == GG_OK) st = gg_source_unchanged(c->source, err);
    if (st == GG_OK) st = find_change(c, fd, &diff, err);
    if (st == GG_OK && diff.n) st = replace_header(m->paths[0], fd, &diff, err);
    if (fd >= 0) close(fd);
    free(c->after);
    return st == GG_OK ? GG_OK : gg_at_file(err, m->paths[0]);
}

static gg_status change_in_place(gg_source *model, const gg_key_edits *edits, const gg_run *run,
                                 gg_keys_report *report, gg_error *err)
{
    change c = { .source = model, .edits = edits, .run = run, .report = report };
    c.model = gg_source_model(model);
    if (!c.model) {
        gg_fail_in(err, GG_EUSAGE, model, NULL, "only a GGUF file can be changed in place");
        return gg_fix(err, "%swrite a new model (use --output)",
                      gg_source_manifest(model) ? "edit its manifest.json, or " : "");
    }
    report->files = 1;
    gg_status st = change_first(&c, err);
    gg_held_end(&c.notes, run, st == GG_OK);
    return st;
}

gg_status gg_keys_write(gg_source *model, const gg_key_edits *edits, const char *output,
                        const gg_run *run, gg_keys_report *report, gg_error *err)
{
    edits = GG_OPTIONS(gg_key_edits, edits);
    run = GG_OPTIONS(gg_run, run);
    report = GG_REPORT(gg_keys_report, report);
    if (!gg_source_meta(model)) {
        gg_fail_in(err, GG_EUSAGE, model, NULL, "organ records have no keys");
        return gg_fix(err, "give a model or an organ directory");
    }
    if (edits->in_place) return change_in_place(model, edits, run, report, err);
    gg_source *stored = NULL;
    uint64_t shards = 0;
    gg_status st = GG_OK;
    /* When shards follow one another on a pipe, only the first is known at first. */
    gg_kv_u64(gg_meta_find(gg_source_meta(model), "split.count"), &shards);
    if (shards > 1 && !gg_source_seekable(model)) st = gg_source_store(model, &stored, err);
    if (st == GG_OK) st = write_with_keys(stored ? stored : model, edits, output, run, report, err);
    gg_source_close(stored);
    return st;
}

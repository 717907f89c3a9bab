/* verb_inplace.c - transplants into the base's own files.
 *
 * Everything is checked first, including the sha256 of the donor's data. Then the undo stream is
 * written completely and synced, then the donor's bytes replace the base's, and then they are
 * synced. If the run is killed at any point, the undo stream has every byte that may have
 * changed.
 */
#include "grafting.h"

#include "base/error.h"
#include "base/io.h"
#include "base/output.h"
#include "base/parallel.h"
#include "base/platform.h"
#include "gguf/gguf.h"
#include "organ/output_guard.h"
#include "organ/record.h"
#include "organ/source_layout.h"
#include "organ/source_watch.h"
#include "verbs/shared/copy.h"
#include "verbs/shared/verb_run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct inplace {
    gg_source *base, *donor;
    const gg_model *model;
    int *fds; /* writable, one per file of the base */
    gg_moves all;
    const gg_move *moves; /* those of `all` */
    size_t n;
    gg_mover maker;
    gg_moved_bytes *makes; /* one per move */
    const gg_run *run;
} inplace;

/* Refuses everything that would change a header. */
static gg_status only_bytes(const inplace *j, const gg_transplant_options *o, gg_error *err)
{
    if (o->output.n_set_kv || o->output.n_set_kv_files || o->n_copy_kv) {
        gg_fail(err, GG_EUSAGE, "keys cannot be changed by a transplant in place");
        return gg_fix_hint(err, GG_HINT_NEW_MODEL, "write a new model");
    }
    for (size_t i = 0; i < j->n; i++) {
        if (j->moves[i].kind == GG_MOVE_REPLACE || j->moves[i].kind == GG_MOVE_CONVERT) continue;
        gg_fail(err, GG_NO, "its size would change, which is not possible in place");
        gg_fix_hint(err, GG_HINT_NEW_MODEL, "write a new model");
        gg_at_tensor(err, j->moves[i].name, j->moves[i].name_len);
        return gg_at_file(err, j->model->paths[0]), GG_NO;
    }
    return GG_OK;
}

static bool same_file(int a, int b)
{
    struct stat x, y;
    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The donor must not change while it is read. (A blend reads the base too, but each piece of a
 * tensor only before it is written.) */
static gg_status donor_is_another(const inplace *j, gg_error *err)
{
    const gg_model *d = gg_source_model(j->donor);
    for (size_t i = 0; d && i < d->n_files; i++)
        for (size_t k = 0; k < j->model->n_files; k++)
            if (same_file(d->fds[i], j->model->fds[k])) {
                gg_fail(err, GG_EUSAGE, "base and donor are the same file");
                gg_fix_hint(err, GG_HINT_NEW_MODEL, "write a new model");
                return gg_at_file(err, j->model->paths[k]);
            }
    return GG_OK;
}

static bool is_file(const struct stat *s, int fd)
{
    struct stat t;
    return fstat(fd, &t) == 0 && s->st_dev == t.st_dev && s->st_ino == t.st_ino;
}

/* Never overwrite an existing undo stream: after an interrupted run it is the only way back,
 * and a new one would save a base that is half changed. Also with run->force, it must not
 * replace a model that is read or changed. */
static gg_status undo_is_another(const inplace *j, const gg_transplant_options *o, const char *undo,
                                 gg_error *err)
{
    struct stat s;
    bool used = false;
    if (lstat(undo, &s) == 0 && !j->run->force) {
        gg_fail(err, GG_EUSAGE, "this file already exists and may be needed to restore a base");
        gg_fix_hint(
            err, GG_HINT_RESTORE,
            "choose another name or, if a run was interrupted, first restore the base from %s",
            undo);
        return gg_at_file(err, undo);
    }
    gg_status st = gg_guard_output(undo, j->donor, err);
    if (st == GG_OK) st = gg_guard_output(undo, o->match.blend.ancestor, err);
    if (st != GG_OK || stat(undo, &s) != 0) return st;
    for (size_t i = 0; i < j->model->n_files; i++) used = used || is_file(&s, j->model->fds[i]);
    gg_source *const others[] = { j->donor, o->match.blend.ancestor };
    for (size_t k = 0; k < 2 && !used; k++)
        for (size_t i = 0; others[k] && i < gg_source_count(others[k]) && !used; i++) {
            gg_data d;
            st = gg_data_open(others[k], i, &d, err);
            if (st != GG_OK) return st;
            used = d.fd >= 0 && is_file(&s, d.fd);
            gg_data_close(&d);
        }
    if (!used) return GG_OK;
    gg_fail(err, GG_EUSAGE, "the undo stream must not be a file that is read or changed");
    gg_fix_hint(err, GG_HINT_UNDO, "choose another name");
    return gg_at_file(err, undo);
}

static gg_status open_writable(inplace *j, gg_error *err)
{
    j->fds = malloc(j->model->n_files * sizeof *j->fds);
    if (!j->fds) return gg_fail(err, GG_ENOMEM, "no memory for %zu files", j->model->n_files);
    for (size_t i = 0; i < j->model->n_files; i++) j->fds[i] = -1;
    for (size_t i = 0; i < j->model->n_files; i++) {
        j->fds[i] = open(j->model->paths[i], O_RDWR | O_CLOEXEC);
        if (j->fds[i] < 0) gg_fail_errno(err, "cannot open for writing");
        else if (!same_file(j->fds[i], j->model->fds[i]))
            gg_fail(err, GG_EIO, "the file was replaced while it was opened");
        else if (flock(j->fds[i], LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
            gg_fail(err, GG_EIO, "another program is changing this file");
            gg_fix(err, "wait for it to end");
        }
        if (err->status != GG_OK) return gg_at_file(err, j->model->paths[i]);
    }
    return GG_OK;
}

/* A file with several names (hard links) would change under all of them. A donor of bare
 * records may be the undo stream of a run that was allowed to. */
static gg_status refuse_links(const inplace *j, gg_error *err)
{
    if (j->run->force || !gg_source_meta(j->donor)) return GG_OK;
    for (size_t i = 0; i < j->model->n_files; i++)
        if (gg_refuse_links(j->fds[i], err) != GG_OK) return gg_at_file(err, j->model->paths[i]);
    return GG_OK;
}

/* Writes the bytes that will be replaced as an organ stream and syncs it to disk. */
static gg_status write_undo(const inplace *j, const char *path, gg_error *err)
{
    gg_output *out;
    gg_status st = gg_output_open(path, j->run->force, &out, err);
    if (st != GG_OK) return st;
    for (size_t i = 0; i < j->n && st == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(j->base, j->moves[i].base);
        uint8_t head[GG_RECORD_HEADER];
        gg_plan_part whole = { j->base, j->moves[i].base, 0, t->bytes, NULL };
        gg_place to = { gg_output_fd(out), GG_AT_POS };
        st = gg_record_check_name(t, err);
        if (st == GG_OK) st = gg_write_all(to.fd, head, gg_record_header(t, head), err);
        if (st == GG_OK) st = gg_copy_part(&whole, to, NULL, j->run, err);
    }
    if (st == GG_OK) return gg_output_commit(out, err);
    gg_output_abort(out);
    return gg_at_file(err, path);
}

/* Decides how each tensor is made, before the first byte changes. */
static gg_status make_changes(inplace *j, const gg_transplant_options *o, gg_error *err)
{
    gg_status st = GG_OK;
    gg_mover_open(&j->maker, j->base, j->donor, &o->match);
    j->makes = calloc(j->n ? j->n : 1, sizeof *j->makes);
    if (st == GG_OK && !j->makes) st = gg_fail(err, GG_ENOMEM, "no memory for %zu moves", j->n);
    for (size_t i = 0; i < j->n && st == GG_OK; i++) {
        gg_tensor out;
        st = gg_mover_bytes(&j->maker, &j->moves[i], &out, &j->makes[i], err);
    }
    return st;
}

/* Elsewhere data is compared with its hash during the copy. Here the base would already be
 * changed by then, so it is compared first. */
static gg_status check_donor(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    const inplace *j = ctx;
    (void)worker;
    gg_status st = gg_verify_data(j->donor, j->moves[i].donor, err);
    if (st != GG_OK || !j->maker.blend->ancestor) return st;
    const gg_tensor *d = gg_source_tensor(j->donor, j->moves[i].donor);
    return gg_verify_data(j->maker.blend->ancestor,
                          gg_source_find(j->maker.blend->ancestor, d->name, d->name_len), err);
}

/* Parts of the base itself are not written. */
static gg_status overwrite_part(inplace *j, const gg_plan_part *part, int fd, uint64_t at,
                                gg_error *err)
{
    if (part->source == j->base) return gg_progress_add(j->run, part->bytes), GG_OK;
    return gg_copy_part(part, (gg_place){ fd, at }, NULL, j->run, err);
}

static gg_status overwrite(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    inplace *j = ctx;
    (void)worker;
    const gg_tensor *t = gg_source_tensor(j->base, j->moves[i].base);
    const gg_moved_bytes *made = &j->makes[i];
    int fd = j->fds[t->file];
    uint64_t at = gg_model_at(j->model, t);
    gg_target to = { t, fd, at, j->run, NULL };
    gg_status st = made->p.make ? made->p.make(made->p.ctx, &to, err) : GG_OK;
    for (size_t k = 0; k < made->n_parts && st == GG_OK; k++) {
        st = overwrite_part(j, &made->parts[k], fd, at, err);
        at += made->parts[k].bytes;
    }
    if (st != GG_OK) gg_at_tensor(err, t->name, t->name_len);
    return st;
}

static gg_status sources_unchanged(const inplace *j, gg_error *err)
{
    gg_status st = gg_source_unchanged(j->donor, err);
    return st == GG_OK ? gg_source_unchanged(j->maker.blend->ancestor, err) : st;
}

static gg_status write_base(inplace *j, const char *undo, gg_error *err)
{
    gg_status st = gg_parallel(j->n, j->run->threads, overwrite, j, err);
    if (st == GG_OK) st = sources_unchanged(j, err);
    for (size_t i = 0; i < j->model->n_files && st == GG_OK; i++)
        if (gg_sys_sync(j->fds[i]) != 0) st = gg_fail_errno(err, "fsync failed");
    if (st == GG_OK) return GG_OK;
    err->fix[0] = '\0';
    if (st == GG_ECANCELLED) snprintf(err->what, sizeof err->what, "interrupted");
    if (undo)
        gg_fix_hint(err, GG_HINT_RESTORE, "the base is partly changed: restore it from %s", undo);
    else gg_fix(err, "the base is partly changed");
    return gg_at_file(err, j->model->paths[0]), st;
}

/* The rules of organ-check, as for a new model. Keys and shapes stay as they are in the base, so
 * only a strict run can be refused. A donor of bare records may be an undo stream, which must
 * always be applied. */
static gg_status check_result(inplace *j, const gg_moves *moves, gg_check_notes *notes,
                              gg_error *err)
{
    size_t n = gg_source_count(j->base);
    if (!gg_source_meta(j->donor) || n == 0) return GG_OK;
    gg_check_input in = { gg_source_meta(j->base), gg_source_tensor(j->base, 0), n,
                          (uint32_t)j->model->n_files };
    gg_status st = gg_check_output(&in, j->base, j->run, notes, err);
    return st == GG_OK ? gg_kinship_notes(j->base, j->donor, moves, j->run, notes, err) : st;
}

/* Everything that can be refused before a byte is written. */
static gg_status prepare(inplace *j, const gg_transplant_options *o, const char *undo,
                         gg_check_notes *notes, gg_transplant_report *r, gg_error *err)
{
    gg_status st = donor_is_another(j, err);
    if (st == GG_OK && undo) st = undo_is_another(j, o, undo, err);
    if (st == GG_OK) st = gg_match_tensors(j->base, j->donor, &o->match, &j->all, err);
    if (st == GG_OK)
        st = gg_moves_drop_mismatched(&j->all, j->base, j->donor, o->skip_mismatched, r, err);
    j->moves = j->all.list;
    j->n = j->all.n;
    if (st == GG_OK) st = only_bytes(j, o, err);
    if (st == GG_OK) st = check_result(j, &j->all, notes, err);
    if (st == GG_OK) st = make_changes(j, o, err);
    if (st == GG_OK) st = open_writable(j, err);
    if (st == GG_OK) st = refuse_links(j, err);
    if (st == GG_OK) st = gg_parallel(j->n, j->run->threads, check_donor, j, err);
    return st == GG_OK ? sources_unchanged(j, err) : st;
}

static gg_status close_inplace(inplace *j, gg_status st, gg_error *err)
{
    for (size_t i = 0; j->fds && i < j->model->n_files; i++)
        if (j->fds[i] >= 0 && close(j->fds[i]) != 0 && st == GG_OK)
            st = gg_fail_errno(err, "close failed");
    gg_mover_close(&j->maker);
    free(j->makes);
    free(j->fds);
    gg_moves_free(&j->all);
    return st;
}

static gg_status change_base(inplace *j, const gg_transplant_options *o, const char *undo,
                             gg_transplant_report *r, gg_error *err)
{
    gg_check_notes notes = { 0 };
    gg_status st = prepare(j, o, undo, &notes, r, err);
    for (size_t i = 0; i < j->n && st == GG_OK; i++)
        r->bytes_moved += gg_source_tensor(j->base, j->moves[i].base)->bytes;
    gg_progress_total(j->run, undo ? 2 * r->bytes_moved : r->bytes_moved);
    if (st == GG_OK && undo) st = write_undo(j, undo, err);
    if (st == GG_OK) st = write_base(j, undo, err);
    r->moved = j->n;
    r->bytes_written = r->bytes_moved;
    st = close_inplace(j, st, err);
    gg_check_notes_end(&notes, j->run, st == GG_OK);
    return st;
}

gg_status gg_transplant_in_place(gg_source *base, gg_source *donor, const gg_transplant_options *o,
                                 const char *undo, const gg_run *run, gg_transplant_report *report,
                                 gg_error *err)
{
    o = GG_OPTIONS(gg_transplant_options, o);
    run = GG_OPTIONS(gg_run, run);
    report = GG_REPORT(gg_transplant_report, report);
    inplace j = { .base = base, .donor = donor, .model = gg_source_model(base), .run = run };
    const gg_output_options *w = &o->output;
    *report = (gg_transplant_report){ 0 };
    if (o->adapter || o->directory || w->dtype || w->fallback || w->imatrix || w->shards ||
        w->shard_size) {
        gg_fail(err, GG_EUSAGE,
                "an adapter, other dtypes, an importance matrix and shards make a new model");
        gg_fix_hint(err, GG_HINT_NEW_MODEL, "write a new file");
        return gg_at_file(err, gg_source_name(base));
    }
    if (j.model) return change_base(&j, o, undo, report, err);
    gg_fail(err, GG_EUSAGE, "only a GGUF file can be changed in place");
    return gg_at_file(err, gg_source_name(base));
}

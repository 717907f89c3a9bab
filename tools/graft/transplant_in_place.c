/* transplant_in_place.c - changes the bytes of the base itself.
 *
 * Everything is checked first, including the sha256 of the donor's data. Then the undo stream is
 * written completely and synced, then the donor's bytes replace the base's, and then they are
 * synced. If the run is killed at any point, the undo stream has every byte that may have
 * changed. */
#include "transplant.h"

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
#include "write/copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Refuses everything that would change a header. */
static gg_status only_bytes(const transplant *job)
{
    if (job->o->output.set_kv.n || job->o->output.set_kv_files.n || job->o->copy_kv.n) {
        gg_fail(job->err, GG_EUSAGE, "keys cannot be changed by a transplant in place");
        return gg_fix(job->err, "write a new model (use --output)");
    }
    for (size_t i = 0; i < job->moves.n; i++) {
        if (job->moves.list[i].kind == GG_MOVE_REPLACE ||
            job->moves.list[i].kind == GG_MOVE_CONVERT)
            continue;
        gg_fail(job->err, GG_NO, "its size would change, which is not possible in place");
        gg_fix(job->err, "write a new model (use --output)");
        gg_at_tensor(job->err, job->moves.list[i].name, job->moves.list[i].name_len);
        gg_at_file(job->err, job->model->paths[0]);
        return GG_NO;
    }
    return GG_OK;
}

/* The donor must not change while it is read. (A blend reads the base too, but each piece of a
 * tensor only before it is written.) */
static gg_status donor_is_another(const transplant *job)
{
    gg_error same = GG_ERROR_INIT;
    for (size_t k = 0; k < job->model->n_files && gg_source_model(job->donor); k++) {
        if (gg_guard_output(job->model->paths[k], job->donor, &same) == GG_OK) continue;
        if (same.status != GG_EUSAGE) {
            *job->err = same;
            return same.status;
        }
        gg_fail(job->err, GG_EUSAGE, "base and donor are the same file");
        gg_fix(job->err, "write a new model (use --output)");
        return gg_at_file(job->err, job->model->paths[k]);
    }
    return GG_OK;
}

/* Never overwrite an existing undo stream: after an interrupted run it is the only way back,
 * and a new one would save a base that is half changed. Also with run->force, it must not
 * replace a model that is read or changed. */
static gg_status undo_is_another(const transplant *job, const char *undo)
{
    struct stat s;
    if (gg_lstat(undo, &s, job->err) && !job->run->force) {
        gg_fail(job->err, GG_EUSAGE,
                "this file already exists and may be needed to restore a base");
        gg_fix(job->err,
               "choose another name or, if a run was interrupted, first restore the base from %s "
               "(--in-place --donor UNDO)",
               undo);
        return gg_at_file(job->err, undo);
    }
    gg_status st = gg_guard_output(undo, job->donor, job->err);
    if (st == GG_OK) st = gg_guard_output(undo, job->o->match.blend.ancestor, job->err);
    return st == GG_OK ? gg_guard_output(undo, job->base, job->err) : st;
}

/* A file with several names (hard links) would change under all of them. A donor of bare records
 * may be the undo stream of a run that was allowed to. */
static gg_status open_writable(transplant *job)
{
    bool undo = !gg_source_meta(job->donor);
    gg_in_place allowed = { job->run->force || undo, job->run->follow || undo };
    gg_status st = GG_OK;
    job->fds = malloc(job->model->n_files * sizeof *job->fds);
    if (!job->fds)
        return gg_fail(job->err, GG_ENOMEM, "no memory for %zu files", job->model->n_files);
    for (size_t i = 0; i < job->model->n_files; i++) job->fds[i] = -1;
    for (size_t i = 0; i < job->model->n_files && st == GG_OK; i++)
        st = gg_open_in_place(job->model->paths[i], job->model->fds[i], allowed, &job->fds[i],
                              job->err);
    return st;
}

/* Writes the bytes that will be replaced as an organ stream and syncs it to disk. */
static gg_status write_undo(const transplant *job, const char *path)
{
    gg_output *out;
    gg_status st = gg_output_open(path, job->run->force, &out, job->err);
    if (st != GG_OK) return st;
    gg_output_at_once(out);
    for (size_t i = 0; i < job->moves.n && st == GG_OK; i++) {
        const gg_tensor *t = gg_source_tensor(job->base, job->moves.list[i].base);
        uint8_t head[GG_RECORD_HEADER];
        gg_plan_part whole = { job->base, job->moves.list[i].base, 0, t->bytes, NULL };
        gg_place to = { gg_output_fd(out), GG_AT_POS };
        st = gg_record_check_name(t, job->err);
        if (st == GG_OK) st = gg_write_all(to.fd, head, gg_record_header(t, head), job->err);
        if (st == GG_OK) st = gg_copy_part(&whole, to, NULL, job->run, job->err);
    }
    if (st == GG_OK) return gg_output_commit(out, job->err);
    gg_output_abort(out);
    return gg_at_file(job->err, path);
}

/* Decides how each tensor is made, before the first byte changes. */
static gg_status make_changes(transplant *job)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < job->moves.n && st == GG_OK; i++) {
        gg_tensor out = gg_moved_tensor(job, &job->moves.list[i]);
        gg_plan_tensor *pt;
        st = gg_plan_add(&job->plan, &out, &pt, job->err);
        if (st == GG_OK) st = gg_fill_moved(job, &job->moves.list[i], pt);
    }
    return st;
}

/* Elsewhere data is compared with its hash during the copy. Here the base would already be
 * changed by then, so it is compared first. */
static gg_status check_donor(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    const transplant *job = ctx;
    (void)worker;
    gg_status st = gg_verify_data(job->donor, job->moves.list[i].donor, err);
    if (st != GG_OK || !job->blend->ancestor) return st;
    const gg_tensor *d = gg_source_tensor(job->donor, job->moves.list[i].donor);
    return gg_verify_data(job->blend->ancestor,
                          gg_source_find(job->blend->ancestor, d->name, d->name_len), err);
}

static gg_status overwrite(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    const transplant *job = ctx;
    (void)worker;
    const gg_tensor *t = gg_source_tensor(job->base, job->moves.list[i].base);
    gg_plan_tensor *pt = &job->plan.tensors[i];
    gg_place to = { job->fds[t->file], gg_model_at(job->model, t) };
    gg_target all = { t, to.fd, to.at, job->run, NULL, &pt->zeros };
    gg_status st = pt->make ? pt->make(pt->ctx, &all, err)
                            : gg_copy_part(&pt->parts[0], to, NULL, job->run, err);
    return st == GG_OK ? st : gg_at_tensor(err, t->name, t->name_len);
}

static gg_status inputs_unchanged(const transplant *job)
{
    gg_status st = gg_source_unchanged(job->donor, job->err);
    return st == GG_OK ? gg_source_unchanged(job->blend->ancestor, job->err) : st;
}

static gg_status write_base(transplant *job, const char *undo)
{
    gg_status st = gg_parallel(job->moves.n, job->run->threads, overwrite, job, job->err);
    if (st == GG_OK) st = inputs_unchanged(job);
    for (size_t i = 0; i < job->model->n_files && st == GG_OK; i++)
        if (gg_sys_sync(job->fds[i]) != 0) st = gg_fail_errno(job->err, "fsync failed");
    if (st == GG_OK) return GG_OK;
    job->err->fix[0] = '\0';
    if (st == GG_ECANCELLED) snprintf(job->err->what, sizeof job->err->what, "interrupted");
    if (undo)
        gg_fix(job->err, "the base is partly changed: restore it from %s (--in-place --donor UNDO)",
               undo);
    else gg_fix(job->err, "the base is partly changed");
    gg_at_file(job->err, job->model->paths[0]);
    return st;
}

/* The rules of organ-check, as for a new model. Keys and shapes stay as they are in the base, so
 * only a strict run can be refused. A donor of bare records may be an undo stream, which must
 * always be applied. */
static gg_status check_result(transplant *job)
{
    size_t n = gg_source_count(job->base);
    if (!gg_source_meta(job->donor) || n == 0) return GG_OK;
    gg_planned planned = { .meta = gg_source_meta(job->base),
                           .tensors = gg_source_tensor(job->base, 0),
                           .n = n,
                           .files = (uint32_t)job->model->n_files,
                           .base = job->base };
    gg_status st = gg_review(planned, job->run, &job->notes, job->err);
    return st == GG_OK && job->run->note ? gg_note_kinship(job, &job->notes) : st;
}

static gg_status change_base(transplant *job, const char *undo)
{
    gg_transplant_report *r = job->report;
    gg_error *err = job->err;
    /* Everything that can be refused, before a byte is written. */
    gg_status st = donor_is_another(job);
    if (st == GG_OK && undo) st = undo_is_another(job, undo);
    if (st == GG_OK) st = gg_transplant_find(job);
    if (st == GG_OK) st = only_bytes(job);
    if (st == GG_OK) st = check_result(job);
    if (st == GG_OK) st = make_changes(job);
    if (st == GG_OK) st = open_writable(job);
    if (st == GG_OK) st = gg_parallel(job->moves.n, job->run->threads, check_donor, job, err);
    if (st == GG_OK) st = inputs_unchanged(job);

    for (size_t i = 0; i < job->moves.n && st == GG_OK; i++)
        r->bytes_moved += gg_source_tensor(job->base, job->moves.list[i].base)->bytes;
    gg_progress_total(job->run, undo ? 2 * r->bytes_moved : r->bytes_moved);
    if (st == GG_OK && undo) st = write_undo(job, undo);
    if (st == GG_OK) st = write_base(job, undo);
    r->moved = job->moves.n;
    r->bytes_written = r->bytes_moved;
    for (size_t i = 0; job->fds && i < job->model->n_files; i++)
        if (job->fds[i] >= 0 && close(job->fds[i]) != 0 && st == GG_OK)
            st = gg_fail_errno(job->err, "close failed");
    if (st == GG_OK) gg_note_zeroed(&job->plan, job->run);
    gg_held_end(&job->notes, job->run, st == GG_OK);
    return st;
}

gg_status gg_transplant_in_place(gg_source *base, gg_source *donor, const gg_transplant_options *o,
                                 const char *undo, const gg_run *run, gg_transplant_report *report,
                                 gg_error *err)
{
    const gg_model *model = gg_source_model(base);
    o = GG_OPTIONS(gg_transplant_options, o);
    const gg_output_options *w = &o->output;
    if (o->adapter || o->directory || w->dtype || w->fallback || w->imatrix || w->shards ||
        w->shard_size) {
        gg_fail_in(err, GG_EUSAGE, base, NULL,
                   "an adapter, other dtypes, an importance matrix and shards make a new model");
        return gg_fix(err, "write a new file (use --output)");
    }
    if (!model)
        return gg_fail_in(err, GG_EUSAGE, base, NULL, "only a GGUF file can be changed in place");
    transplant job = { .base = base,
                       .donor = donor,
                       .o = o,
                       .run = GG_OPTIONS(gg_run, run),
                       .model = model,
                       .report = GG_REPORT(gg_transplant_report, report),
                       .err = err };
    gg_transplant_open(&job);
    return gg_transplant_close(&job, change_base(&job, undo));
}

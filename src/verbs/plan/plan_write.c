/* plan_write.c - writes a plan into files: first the headers, then all tensors in parallel,
 * each at its offset. The files get their names last. */
#include "plan.h"

#include "base/error.h"
#include "base/io.h"
#include "base/output.h"
#include "base/sha256.h"
#include "plan_bytes.h"
#include "plan_layout.h"
#include "plan_stream.h"
#include "verbs/check/check_output.h"
#include "verbs/shared/copy_lanes.h"
#include "verbs/shared/file_hash.h"
#include "verbs/shared/hashcopy.h"
#include "verbs/shared/verb_run.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct out_file {
    gg_output *out;
    gg_file_plan at;
} out_file;

typedef struct writer {
    gg_plan *p;
    const gg_run *run;
    out_file *files;
    uint32_t *file_of; /* per tensor */
} writer;

/* ---- bytes ----------------------------------------------------------------------- */

/* Starts a tensor: a computed one is written at once. */
static gg_status start_tensor(writer *w, const gg_plan_tensor *pt, gg_place to, gg_error *err)
{
    if (!pt->make) return GG_OK;
    gg_status st = pt->make(pt->ctx, &(gg_target){ &pt->t, to.fd, to.at, w->run, NULL }, err);
    if (st != GG_OK) gg_at_tensor(err, pt->t.name, pt->t.name_len);
    return st;
}

/* See gg_lane_work. Parts with a hash are copied in lanes, and others inside the kernel. */
static gg_status next_part(void *ctx, gg_lane *l, const char *sha, bool *more, gg_error *err)
{
    writer *w = ctx;
    size_t i = l->item;
    const gg_plan_tensor *pt = &w->p->tensors[i];
    const out_file *of = &w->files[w->file_of[i]];
    int fd = gg_output_fd(of->out);
    uint64_t at = of->at.data_start + pt->t.offset;
    assert(pt->t.offset + pt->t.bytes <= of->at.data_bytes);
    *more = false;
    gg_status st;
    if (sha) {
        st = gg_check_part(&l->part, &pt->t, sha, err);
        l->out.at += l->part.bytes;
    } else {
        l->out = (gg_place){ fd, at };
        st = start_tensor(w, pt, l->out, err);
    }
    for (; l->k < pt->n_parts && st == GG_OK && !*more; l->k++) {
        l->part = pt->parts[l->k];
        *more = w->p->verify && l->part.sha256 && l->part.sha256[0];
        if (*more) continue;
        st = gg_plan_copy_part(w->p, &pt->t, &l->part, l->out, w->run, err);
        l->out.at += l->part.bytes;
    }
    if (st == GG_OK && !*more) gg_writeback_hint(fd, at, pt->t.bytes);
    return st;
}

static void fail_tensor(void *ctx, gg_lane *l, gg_error *err)
{
    const writer *w = ctx;
    const char *path = w->p->files[w->file_of[l->item]].path;
    if (err->status == GG_EIO) gg_at_file(err, path); /* errors of reading already name a file */
}

static uint64_t cost_of(const void *ctx, size_t i)
{
    const gg_plan_tensor *pt = &((const writer *)ctx)->p->tensors[i];
    return pt->make ? pt->t.elements : 0;
}

/* Writes everything of a file except tensor data. */
static gg_status write_frame(writer *w, size_t f, gg_error *err)
{
    const gg_plan_file *pf = &w->p->files[f];
    const gg_file_plan *fp = &w->files[f].at;
    int fd = gg_output_fd(w->files[f].out);
    gg_status st = gg_pwrite_all(fd, fp->header, fp->header_len, 0, err);
    uint64_t want = fp->data_start - fp->header_len;
    if (st == GG_OK)
        st = gg_plan_write_pad(fd, fp->header_len, want,
                               gg_plan_find_pad(pf, fp, NULL, want, pf->n == 0), err);
    for (size_t i = 0; i < pf->n && st == GG_OK; i++) {
        const gg_tensor *t = &w->p->tensors[pf->first + i].t;
        want = gg_plan_pad_after(t, fp->alignment);
        st = gg_plan_write_pad(fd, fp->data_start + t->offset + t->bytes, want,
                               gg_plan_find_pad(pf, fp, t, want, i + 1 == pf->n), err);
    }
    if (st == GG_OK && pf->trailing_bytes)
        st = gg_plan_copy_trailing(w->p, pf, fd, fp->size - pf->trailing_bytes, err);
    return st;
}

/* ---- writing --------------------------------------------------------------------- */

static gg_status open_files(writer *w, gg_error *err)
{
    uint64_t total = 0, before = 0;
    for (size_t f = 0; f < w->p->n_files; f++) {
        gg_status st = gg_plan_layout(w->p, f, &w->files[f].at, err);
        if (st != GG_OK) return st;
        total += w->files[f].at.data_bytes;
        for (size_t i = 0; i < w->p->files[f].n; i++)
            w->file_of[w->p->files[f].first + i] = (uint32_t)f;
    }
    gg_progress_total(w->run, total);
    for (size_t f = 0; f < w->p->n_files; f++) {
        gg_status st = gg_output_open(w->p->files[f].path, w->run->force, &w->files[f].out, err);
        if (st == GG_OK) st = gg_output_reserve(w->files[f].out, w->files[f].at.size, before, err);
        if (st != GG_OK) return st;
        before += w->files[f].at.size;
    }
    return GG_OK;
}

static gg_status verify_result(const writer *w, gg_error *err)
{
    char sha[65];
    gg_status st = gg_file_sha256(gg_output_fd(w->files[0].out), w->files[0].at.size, sha, NULL,
                                  err);
    if (st != GG_OK) return gg_at_file(err, w->p->files[0].path);
    if (strcmp(sha, w->p->result_sha256) == 0) return GG_OK;
    gg_fail(err, GG_EFORMAT, "the result does not match the expected sha256");
    return gg_fix(err, "make or download the patch again; nothing was written");
}

static gg_status write_all(writer *w, uint64_t *bytes, gg_error *err)
{
    gg_status st = open_files(w, err);
    for (size_t f = 0; f < w->p->n_files && st == GG_OK; f++) {
        st = write_frame(w, f, err);
        if (st == GG_EIO) gg_at_file(err, w->p->files[f].path);
    }
    gg_lane_work work = { next_part, fail_tensor, cost_of, w };
    if (st == GG_OK) st = gg_copy_lanes(w->p->n, &work, w->run, err);
    for (size_t f = 0; f < w->p->n_files && st == GG_OK; f++)
        st = gg_output_sync(w->files[f].out, err);
    if (st == GG_OK) st = gg_plan_sources_unchanged(w->p, err);
    if (st == GG_OK && w->p->result_sha256) st = verify_result(w, err);
    for (size_t f = 0; f < w->p->n_files && st == GG_OK; f++) {
        *bytes += w->files[f].at.size;
        st = gg_output_place(w->files[f].out, err);
    }
    for (size_t f = 0; f < w->p->n_files; f++) {
        gg_output_end(w->files[f].out, st == GG_OK || w->p->n_files == 1);
        w->files[f].out = NULL;
    }
    return st;
}

static gg_status check_plan(const gg_plan *p, const gg_run *run, gg_check_notes *notes,
                            gg_error *err)
{
    if (!run->note && !run->strict) return GG_OK;
    gg_tensor *list = calloc(p->n ? p->n : 1, sizeof *list);
    if (!list) return gg_fail(err, GG_ENOMEM, "no memory to check %zu tensors", p->n);
    for (size_t i = 0; i < p->n; i++) list[i] = p->tensors[i].t;
    gg_check_input in = { p->n_files ? &p->files[0].meta : NULL, list, p->n, (uint32_t)p->n_files };
    gg_status st = gg_check_output(&in, p->base, run, notes, err);
    free(list);
    return st;
}

/* Writes all files, with their tensors in parallel. */
static gg_status write_at_once(gg_plan *p, const gg_run *run, uint64_t *bytes, gg_error *err)
{
    struct gg_turn turn;
    gg_run mine = *run;
    writer w = { .p = p, .run = &mine };
    mine.turn = &turn;
    pthread_mutex_init(&turn.lock, NULL);
    w.files = calloc(p->n_files ? p->n_files : 1, sizeof *w.files);
    w.file_of = calloc(p->n ? p->n : 1, sizeof *w.file_of);
    gg_status st = w.files && w.file_of ? write_all(&w, bytes, err)
                                        : gg_fail(err, GG_ENOMEM, "no memory for a plan");
    for (size_t f = 0; w.files && f < p->n_files; f++) {
        gg_output_abort(w.files[f].out);
        gg_file_plan_free(&w.files[f].at);
    }
    free(w.files);
    free(w.file_of);
    pthread_mutex_destroy(&turn.lock);
    return st;
}

gg_status gg_plan_write(gg_plan *p, const gg_run *run, uint64_t *bytes, gg_error *err)
{
    gg_check_notes notes = { 0 };
    *bytes = 0;
    gg_status st = check_plan(p, run, &notes, err);
    if (st == GG_OK)
        st = gg_plan_in_sequence(p) ? gg_plan_write_in_sequence(p, run, bytes, err)
                                    : write_at_once(p, run, bytes, err);
    gg_check_notes_end(&notes, run, st == GG_OK);
    return st;
}

/* plan_stream.c - writes a plan in sequence: header, then each tensor and its padding.
 *
 * Nothing is written twice and there are no seeks, so the output and a source may be pipes.
 * Threads work on one tensor at a time (see gg_plan_make).
 */
#include "plan_stream.h"

#include "base/error.h"
#include "base/io.h"
#include "base/output.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"
#include "plan_bytes.h"
#include "plan_layout.h"
#include "verbs/shared/verb_run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct stream {
    gg_plan *p;
    const gg_run *run;
    const gg_plan_file *pf;
    gg_file_plan at;
    int fd;
    size_t next;       /* next tensor of the pipe */
    const char *after; /* name before the pipe's next padding; NULL = the header */
    uint64_t bytes;
} stream;

static bool to_stdout(const gg_plan_file *f)
{
    return strcmp(f->path, "-") == 0;
}

bool gg_plan_in_sequence(const gg_plan *p)
{
    for (size_t f = 0; f < p->n_files; f++)
        if (to_stdout(&p->files[f])) return true;
    return p->pipe != NULL;
}

static gg_status write_padding(stream *s, const gg_pad *pad, uint64_t want, gg_error *err)
{
    s->bytes += pad ? pad->n : want;
    return gg_plan_write_pad(s->fd, GG_AT_POS, want, pad, err);
}

/* Advance to the pipe's next tensor. Write the padding before it if it still fits there, that
 * is, after the same tensor and with as many bytes. */
static gg_status pipe_padding(stream *s, const gg_tensor *after, uint64_t want, bool last,
                              gg_error *err)
{
    gg_pad *pads = NULL;
    const gg_pad *pad = NULL;
    size_t n = 0;
    bool more;
    gg_status st = gg_source_next(s->p->pipe, s->next++, &more, err);
    if (st == GG_OK) st = gg_source_pads(s->p->pipe, 0, &pads, &n, err);
    for (size_t i = 0; i < n; i++) {
        bool here = after ? pads[i].after && pads[i].after_len == after->name_len &&
                                memcmp(pads[i].after, after->name, after->name_len) == 0
                          : !pads[i].after;
        if (here && gg_plan_pad_fits(&pads[i], want, last)) pad = &pads[i];
    }
    if (st == GG_OK) st = write_padding(s, pad, want, err);
    gg_pads_free(pads, n);
    return st;
}

static gg_status pad_after(stream *s, const gg_tensor *after, uint64_t want, bool last,
                           gg_error *err)
{
    if (s->p->pipe && s->p->keep_odd) return pipe_padding(s, after, want, last, err);
    return write_padding(s, gg_plan_find_pad(s->pf, &s->at, after, want, last), want, err);
}

static gg_status write_tensor(stream *s, const gg_plan_tensor *pt, gg_error *err)
{
    gg_status st = GG_OK;
    if (pt->make) {
        st = pt->make(pt->ctx, &(gg_target){ &pt->t, s->fd, GG_AT_POS, s->run, NULL }, err);
        if (st != GG_OK) gg_at_tensor(err, pt->t.name, pt->t.name_len);
    }
    for (size_t k = 0; k < pt->n_parts && st == GG_OK; k++)
        st = gg_plan_copy_part(s->p, &pt->t, &pt->parts[k], (gg_place){ s->fd, GG_AT_POS }, s->run,
                               err);
    s->bytes += pt->t.bytes;
    return st;
}

static gg_status write_trailing(stream *s, gg_error *err)
{
    uint64_t n = 0;
    gg_status st = GG_OK;
    if (s->p->pipe && s->p->keep_odd) {
        st = gg_source_copy_trailing(s->p->pipe, 0, s->fd, &n, err);
    } else if (s->pf->trailing_bytes) {
        n = s->pf->trailing_bytes;
        st = gg_plan_copy_trailing(s->p, s->pf, s->fd, GG_AT_POS, err);
    }
    s->bytes += n;
    return st;
}

static gg_status write_file(stream *s, gg_error *err)
{
    const gg_file_plan *fp = &s->at;
    size_t n = s->pf->n;
    gg_status st = gg_write_all(s->fd, fp->header, fp->header_len, err);
    s->bytes += fp->header_len;
    if (st == GG_OK) st = pad_after(s, NULL, fp->data_start - fp->header_len, n == 0, err);
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        const gg_plan_tensor *pt = &s->p->tensors[s->pf->first + i];
        st = write_tensor(s, pt, err);
        if (st == GG_OK)
            st = pad_after(s, &pt->t, gg_plan_pad_after(&pt->t, fp->alignment), i + 1 == n, err);
    }
    return st == GG_OK ? write_trailing(s, err) : st;
}

/* Errors of stdout get the name <stdout> and the remedy. */
static gg_status at_stdout(gg_status st, gg_error *err)
{
    if (st != GG_EIO || err->file[0]) return st;
    if (err->sys_errno == EPIPE) gg_fix(err, "the program that reads stdout ended early");
    return gg_at_file(err, "stdout");
}

static gg_status write_one(stream *s, gg_output **out, gg_error *err)
{
    if (to_stdout(s->pf)) {
        s->fd = STDOUT_FILENO;
        return at_stdout(write_file(s, err), err);
    }
    gg_status st = gg_output_open(s->pf->path, s->run->force, out, err);
    if (st == GG_OK) st = gg_output_reserve(*out, s->at.size, 0, err);
    if (st != GG_OK) return st;
    s->fd = gg_output_fd(*out);
    st = write_file(s, err);
    /* The reserved size may be too large, because a pipe may end within its last padding. */
    if (st == GG_OK && ftruncate(s->fd, (off_t)s->bytes) != 0)
        st = gg_fail_errno(err, "cannot set its size");
    if (st == GG_EIO) gg_at_file(err, s->pf->path);
    return st == GG_OK ? gg_output_sync(*out, err) : st;
}

static gg_status write_files(gg_plan *p, const gg_run *run, stream *list, gg_output **outs,
                             gg_error *err)
{
    uint64_t total = 0;
    gg_status st = GG_OK;
    size_t pipe_next = 0;
    for (size_t f = 0; f < p->n_files && st == GG_OK; f++) {
        list[f] = (stream){ .p = p, .run = run, .pf = &p->files[f] };
        st = gg_plan_layout(p, f, &list[f].at, err);
        total += list[f].at.data_bytes;
    }
    gg_progress_total(run, total);
    for (size_t f = 0; f < p->n_files && st == GG_OK; f++) {
        list[f].next = pipe_next;
        st = write_one(&list[f], &outs[f], err);
        pipe_next = list[f].next;
    }
    if (st == GG_OK) st = gg_plan_sources_unchanged(p, err);
    for (size_t f = 0; f < p->n_files && st == GG_OK; f++)
        if (outs[f]) st = gg_output_place(outs[f], err);
    for (size_t f = 0; f < p->n_files; f++) {
        gg_output_end(outs[f], st == GG_OK || p->n_files == 1);
        outs[f] = NULL;
    }
    return st;
}

gg_status gg_plan_write_in_sequence(gg_plan *p, const gg_run *run, uint64_t *bytes, gg_error *err)
{
    for (size_t f = 0; f < p->n_files; f++) {
        if (p->n_files == 1 || !to_stdout(&p->files[f])) continue;
        gg_fail(err, GG_EUSAGE, "%zu shards cannot be written to stdout", p->n_files);
        return gg_fix(err, "write one file, or give a file name for the shards");
    }
    stream *list = calloc(p->n_files + 1, sizeof *list);
    gg_output **outs = calloc(p->n_files + 1, sizeof *outs);
    gg_status st = list && outs ? write_files(p, run, list, outs, err)
                                : gg_fail(err, GG_ENOMEM, "no memory for a plan");
    for (size_t f = 0; list && outs && f < p->n_files; f++) {
        *bytes += list[f].bytes;
        gg_output_abort(outs[f]);
        gg_file_plan_free(&list[f].at);
    }
    free(list);
    free(outs);
    return st;
}

/* plan_write.c - writes a plan: into files with all tensors in parallel, or in sequence. */
#include "plan.h"

#include "base/error.h"
#include "base/io.h"
#include "base/output.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "organ/manifest.h"
#include "organ/output_guard.h"
#include "organ/safetensors.h"
#include "organ/source_layout.h"
#include "verbs/check/check_output.h"
#include "verbs/shared/copy.h"
#include "verbs/shared/verb_run.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct file_plan {
    gg_header header;
    uint64_t data_start, data_bytes;
    uint64_t size; /* size of the file with the trailing bytes */
    uint64_t alignment;
    const gg_pad **pads; /* of the layout, sorted by the name they follow; owned */
} file_plan;

/* Finds the pad that follows `after` (NULL = the header, which is first). */
static int order_name(const char *after, size_t len, const gg_pad *pad)
{
    if (!after || !pad->after) return (after != NULL) - (pad->after != NULL);
    return after ? gg_text_order(after, len, pad->after, pad->after_len) : 0;
}

static int order_pad(const void *a, const void *b)
{
    const gg_pad *x = *(const gg_pad *const *)a, *y = *(const gg_pad *const *)b;
    int c = order_name(x->after, x->after_len, y);
    return c ? c : x < y ? -1 : x > y;
}

/* A layout may have as many pads as the model has tensors, so they are sorted. */
static gg_status sort_pads(const gg_plan_file *f, file_plan *fp, gg_error *err)
{
    fp->pads = calloc(f->n_pads ? f->n_pads : 1, sizeof *fp->pads);
    if (!fp->pads) return gg_fail(err, GG_ENOMEM, "no memory for padding");
    for (size_t i = 0; i < f->n_pads; i++) fp->pads[i] = &f->pads[i];
    qsort(fp->pads, f->n_pads, sizeof *fp->pads, order_pad);
    return GG_OK;
}

/* Whether `pad` can replace `want` zeros. Only the padding after the last tensor (`last`) may be
 * shorter. */
static bool pad_fits(const gg_pad *pad, uint64_t want, bool last)
{
    return pad->n == want || (last && pad->n < want);
}

/* The unusual padding after `after` (NULL = the header) if it fits, else NULL. */
static const gg_pad *find_pad(const gg_plan_file *f, const file_plan *fp, const gg_tensor *after,
                              uint64_t want, bool last)
{
    size_t lo = 0, hi = f->n_pads;
    const char *name = after ? after->name : NULL;
    size_t len = after ? after->name_len : 0;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (order_name(name, len, fp->pads[mid]) > 0) lo = mid + 1;
        else hi = mid;
    }
    const gg_pad *pad = lo < f->n_pads ? fp->pads[lo] : NULL;
    if (!pad || order_name(name, len, pad) != 0) return NULL;
    return pad_fits(pad, want, last) ? pad : NULL;
}

/* Number of padding bytes after tensor `t`. */
static uint64_t padding_after(const gg_tensor *t, uint64_t alignment)
{
    uint64_t end = t->offset + t->bytes;
    return gg_align_up(end, alignment) - end;
}

static void free_file_layout(file_plan *fp)
{
    gg_header_free(&fp->header);
    free(fp->pads);
    *fp = (file_plan){ 0 };
}

/* The layout of a safetensors file, which has no padding and no unusual bytes. */
static gg_status lay_out_safetensors(gg_plan *p, size_t f, file_plan *fp, gg_error *err)
{
    gg_plan_file *pf = &p->files[f];
    gg_buf header = GG_BUF_INIT;
    gg_tensor *list = calloc(pf->n ? pf->n : 1, sizeof *list);
    *fp = (file_plan){ .alignment = 1 };
    gg_pads_free(pf->own_pads, pf->own_pads ? pf->n_pads : 0);
    pf->own_pads = NULL;
    pf->n_pads = 0;
    pf->trailing_bytes = 0;
    if (!list) return gg_fail(err, GG_ENOMEM, "no memory for a plan");
    for (size_t i = 0; i < pf->n; i++) list[i] = p->tensors[pf->first + i].t;
    gg_status st = gg_plan_offsets(list, pf->n, 1, &fp->data_bytes, err);
    if (st == GG_OK) st = gg_st_header(&pf->meta, list, pf->n, p->hf_order, &header, err);
    for (size_t i = 0; i < pf->n; i++) p->tensors[pf->first + i].t.offset = list[i].offset;
    fp->header.bytes = (uint8_t *)gg_buf_take(&header, &fp->header.n);
    fp->data_start = fp->header.size = fp->header.n;
    fp->size = fp->data_start + fp->data_bytes;
    free(list);
    return st;
}

/* Compute the layout of file f: the header, and the offset of each of its tensors (stored in
 * p->tensors). GG_EFORMAT if the keys state an invalid alignment. Free *out with
 * free_file_layout even on error. */
static gg_status lay_out_file(gg_plan *p, size_t f, file_plan *fp, gg_error *err)
{
    const gg_plan_file *pf = &p->files[f];
    if (gg_is_safetensors_name(pf->path)) return lay_out_safetensors(p, f, fp, err);
    *fp = (file_plan){ 0 };
    gg_status st = gg_meta_alignment(&pf->meta, &fp->alignment, err);
    gg_fix(err, "make it a u32 that is a power of two, such as 32, or delete it");
    if (st == GG_OK) st = sort_pads(pf, fp, err);
    if (st != GG_OK) return st;
    gg_tensor *list = calloc(pf->n ? pf->n : 1, sizeof *list);
    if (!list) return gg_fail(err, GG_ENOMEM, "no memory for a plan");
    for (size_t i = 0; i < pf->n; i++) list[i] = p->tensors[pf->first + i].t;
    st = gg_plan_offsets(list, pf->n, fp->alignment, &fp->data_bytes, err);
    if (st == GG_OK) st = gg_header_plan(pf->version, &pf->meta, list, pf->n, &fp->header, err);
    for (size_t i = 0; i < pf->n; i++) p->tensors[pf->first + i].t.offset = list[i].offset;
    fp->data_start = pf->n ? gg_align_up(fp->header.size, fp->alignment) : fp->header.size;
    fp->size = fp->data_start + fp->data_bytes;
    if (pf->n && st == GG_OK) {
        const gg_tensor *t = &list[pf->n - 1];
        uint64_t want = padding_after(t, fp->alignment);
        const gg_pad *pad = find_pad(pf, fp, t, want, true);
        if (pad) fp->size -= want - pad->n;
    }
    free(list);
    fp->size += pf->trailing_bytes;
    return st;
}

gg_status gg_plan_size(gg_plan *p, uint64_t *bytes, gg_error *err)
{
    gg_status st = GG_OK;
    *bytes = 0;
    for (size_t f = 0; f < p->n_files && st == GG_OK; f++) {
        file_plan fp;
        st = lay_out_file(p, f, &fp, err);
        *bytes += fp.size;
        free_file_layout(&fp);
    }
    return st;
}

/* Copies one part of tensor t. With p->verify its sha256 is checked. Errors of the output have no
 * file name. */
static gg_status copy_plan_part(const gg_plan *p, const gg_tensor *t, const gg_plan_part *part,
                                gg_place out, const gg_run *run, gg_error *err)
{
    if (!p->verify) return gg_copy_part(part, out, NULL, run, err);
    return gg_copy_verified(part, t, out, run, err);
}

/* Writes padding: the bytes of `pad`, or `want` zeros if it is NULL. */
static gg_status write_pad_bytes(int fd, uint64_t at, uint64_t want, const gg_pad *pad,
                                 gg_error *err)
{
    static uint8_t zeros[4096]; /* if it were const, each program would contain it */
    if (pad) return gg_put_all(fd, pad->bytes, pad->n, at, err);
    gg_status st = GG_OK;
    for (uint64_t done = 0; done < want && st == GG_OK; done += sizeof zeros)
        st = gg_put_all(fd, zeros,
                        want - done < sizeof zeros ? (size_t)(want - done) : sizeof zeros,
                        gg_offset_after(at, done), err);
    return st;
}

/* Copies trailing bytes, after a look at their hash if it is known. */
static gg_status copy_trailing(const gg_plan_file *pf, int in, int out, uint64_t at, bool verify,
                               gg_error *err)
{
    const gg_place from = { in, pf->trailing_at }, to = { out, at };
    char sha[65];
    if (verify && pf->trailing_sha256 && pf->trailing_sha256[0]) {
        gg_status st = gg_file_sha256(in, from.at, pf->trailing_bytes, sha, NULL, err);
        if (st == GG_OK && strcmp(sha, pf->trailing_sha256) != 0)
            st = gg_fail(err, GG_EFORMAT, "the file does not match the sha256 in the manifest");
        if (st != GG_OK) return gg_at_file(err, pf->trailing);
    }
    return gg_copy(pf->trailing, from, to, pf->trailing_bytes, err);
}

/* Copies the bytes that follow the tensors of a file. With p->verify their sha256 is checked. */
static gg_status copy_trailing_file(const gg_plan *p, const gg_plan_file *pf, int fd, uint64_t at,
                                    gg_error *err)
{
    int in = open(pf->trailing, O_RDONLY | O_CLOEXEC);
    if (in < 0) {
        gg_fail_errno(err, "cannot open the file of the bytes after the tensors");
        return gg_at_file(err, pf->trailing);
    }
    gg_status st = copy_trailing(pf, in, fd, at, p->verify, err);
    if (st == GG_OK && !gg_stamp_holds_fd(&pf->trailing_stamp, in))
        st = gg_fail_changed(pf->trailing, err);
    close(in);
    return st;
}

/* Writes a plan in sequence: header, then each tensor and its padding.
 *
 * Nothing is written twice and there are no seeks, so the output and a source may be pipes.
 * Threads work on one tensor at a time (see gg_plan_make).
 */

typedef struct stream {
    gg_plan *p;
    const gg_run *run;
    const gg_plan_file *pf;
    file_plan at;
    int fd;
    size_t next;       /* next tensor of the pipe */
    const char *after; /* name before the pipe's next padding; NULL = the header */
    uint64_t bytes;
} stream;

static bool to_stdout(const gg_plan_file *f)
{
    return strcmp(f->path, "-") == 0;
}

/* Whether the plan must be written in sequence: to stdout, or from a pipe. */
static bool is_in_sequence(const gg_plan *p)
{
    for (size_t f = 0; f < p->n_files; f++)
        if (to_stdout(&p->files[f])) return true;
    return p->pipe != NULL;
}

static gg_status write_padding(stream *s, const gg_pad *pad, uint64_t want, gg_error *err)
{
    s->bytes += pad ? pad->n : want;
    return write_pad_bytes(s->fd, GG_AT_POS, want, pad, err);
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
        if (here && pad_fits(&pads[i], want, last)) pad = &pads[i];
    }
    if (st == GG_OK) st = write_padding(s, pad, want, err);
    gg_pads_free(pads, n);
    return st;
}

static gg_status pad_after(stream *s, const gg_tensor *after, uint64_t want, bool last,
                           gg_error *err)
{
    if (s->p->pipe && s->p->keep_odd) return pipe_padding(s, after, want, last, err);
    return write_padding(s, find_pad(s->pf, &s->at, after, want, last), want, err);
}

static gg_status write_tensor(stream *s, const gg_plan_tensor *pt, gg_error *err)
{
    gg_status st = GG_OK;
    if (pt->make) {
        st = pt->make(pt->ctx, &(gg_target){ &pt->t, s->fd, GG_AT_POS, s->run, NULL }, err);
        if (st != GG_OK) gg_at_tensor(err, pt->t.name, pt->t.name_len);
    }
    for (size_t k = 0; k < pt->n_parts && st == GG_OK; k++)
        st = copy_plan_part(s->p, &pt->t, &pt->parts[k], (gg_place){ s->fd, GG_AT_POS }, s->run,
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
        st = copy_trailing_file(s->p, s->pf, s->fd, GG_AT_POS, err);
    }
    s->bytes += n;
    return st;
}

static gg_status write_file(stream *s, gg_error *err)
{
    const file_plan *fp = &s->at;
    size_t n = s->pf->n;
    gg_status st = gg_header_put(&fp->header, s->fd, GG_AT_POS, err);
    s->bytes += fp->header.size;
    if (st == GG_OK) st = pad_after(s, NULL, fp->data_start - fp->header.size, n == 0, err);
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        const gg_plan_tensor *pt = &s->p->tensors[s->pf->first + i];
        st = write_tensor(s, pt, err);
        if (st == GG_OK)
            st = pad_after(s, &pt->t, padding_after(&pt->t, fp->alignment), i + 1 == n, err);
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
        st = lay_out_file(p, f, &list[f].at, err);
        total += list[f].at.data_bytes;
    }
    gg_progress_total(run, total);
    for (size_t f = 0; f < p->n_files && st == GG_OK; f++) {
        list[f].next = pipe_next;
        st = write_one(&list[f], &outs[f], err);
        pipe_next = list[f].next;
    }
    if (st == GG_OK) st = gg_watch_check(&p->watch, err);
    for (size_t f = 0; f < p->n_files && st == GG_OK; f++)
        if (outs[f]) st = gg_output_place(outs[f], err);
    for (size_t f = 0; f < p->n_files; f++) {
        gg_output_end(outs[f], st == GG_OK || p->n_files == 1);
        outs[f] = NULL;
    }
    return st;
}

static gg_status write_plan_in_sequence(gg_plan *p, const gg_run *run, uint64_t *bytes,
                                        gg_error *err)
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
        free_file_layout(&list[f].at);
    }
    free(list);
    free(outs);
    return st;
}

typedef struct out_file {
    gg_output *out;
    file_plan at;
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
        st = copy_plan_part(w->p, &pt->t, &l->part, l->out, w->run, err);
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
    const file_plan *fp = &w->files[f].at;
    int fd = gg_output_fd(w->files[f].out);
    gg_status st = gg_header_put(&fp->header, fd, 0, err);
    uint64_t want = fp->data_start - fp->header.size;
    if (st == GG_OK)
        st = write_pad_bytes(fd, fp->header.size, want, find_pad(pf, fp, NULL, want, pf->n == 0),
                             err);
    for (size_t i = 0; i < pf->n && st == GG_OK; i++) {
        const gg_tensor *t = &w->p->tensors[pf->first + i].t;
        want = padding_after(t, fp->alignment);
        st = write_pad_bytes(fd, fp->data_start + t->offset + t->bytes, want,
                             find_pad(pf, fp, t, want, i + 1 == pf->n), err);
    }
    if (st == GG_OK && pf->trailing_bytes)
        st = copy_trailing_file(w->p, pf, fd, fp->size - pf->trailing_bytes, err);
    return st;
}

/* ---- writing --------------------------------------------------------------------- */

static gg_status open_files(writer *w, gg_error *err)
{
    uint64_t total = 0, before = 0;
    for (size_t f = 0; f < w->p->n_files; f++) {
        gg_status st = lay_out_file(w->p, f, &w->files[f].at, err);
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
    gg_status st = gg_file_sha256(gg_output_fd(w->files[0].out), 0, w->files[0].at.size, sha, NULL,
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
    if (st == GG_OK) st = gg_watch_check(&w->p->watch, err);
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
    if ((!run->note && !run->strict) || p->hf_order) return GG_OK; /* rules know GGUF names only */
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
        free_file_layout(&w.files[f].at);
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
    gg_status st = gg_plan_watch(p, err);
    for (size_t f = 0; f < p->n_files; f++) /* shards have other names than the output */
        for (size_t i = 0; i < p->watch.n && st == GG_OK; i++)
            st = gg_guard_output(p->files[f].path, p->watch.list[i], err);
    if (st == GG_OK) st = check_plan(p, run, &notes, err);
    if (st == GG_OK)
        st = is_in_sequence(p) ? write_plan_in_sequence(p, run, bytes, err)
                               : write_at_once(p, run, bytes, err);
    gg_check_notes_end(&notes, run, st == GG_OK);
    return st;
}

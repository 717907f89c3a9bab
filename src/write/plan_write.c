/* plan_write.c - writes a plan: into files with all tensors in parallel, or in sequence. */
#include "plan.h"

#include "base/error.h"
#include "base/io.h"
#include "base/output.h"
#include "base/text.h"
#include "copy.h"
#include "gguf/gguf.h"
#include "hf/safetensors.h"
#include "organ/manifest.h"
#include "organ/output_guard.h"
#include "organ/source_layout.h"
#include "verb_run.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file while it is written. */
typedef struct out_file {
    gg_output *out; /* NULL = stdout */
    int fd;
    uint64_t at;      /* where the next bytes go; GG_AT_POS if they follow those before */
    uint64_t written; /* bytes so far */
    gg_header header;
    uint64_t data_start, data_bytes;
    uint64_t size; /* of the file with the trailing bytes */
    uint64_t alignment;
    const gg_pad **pads; /* of the layout, sorted by the name they follow; owned */
} out_file;

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
static gg_status sort_pads(const gg_plan_file *f, out_file *fp, gg_error *err)
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
static const gg_pad *find_pad(const gg_plan_file *f, const out_file *fp, const gg_tensor *after,
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

static void free_layout(out_file *fp)
{
    gg_header_free(&fp->header);
    free(fp->pads);
    *fp = (out_file){ 0 };
}

/* A safetensors file has no padding and no unusual bytes. */
static void drop_odd_bytes(gg_plan_file *pf)
{
    gg_pads_free(pf->own_pads, pf->own_pads ? pf->n_pads : 0);
    pf->own_pads = NULL;
    pf->n_pads = 0;
    pf->trailing_bytes = 0;
}

static gg_status make_header(const gg_plan *p, const gg_plan_file *pf, const gg_tensor *list,
                             gg_header *out, gg_error *err)
{
    gg_buf text = GG_BUF_INIT;
    bool stored = p->stored || (p->base && gg_source_refusal(p->base));
    gg_st_form form = { p->hf_order, stored };
    if (!gg_is_safetensors_name(pf->path))
        return gg_header_plan(pf->version, &pf->meta, list, pf->n, out, err);
    gg_status st = gg_st_header(&pf->meta, list, pf->n, &form, &text, err);
    out->bytes = (uint8_t *)gg_buf_take(&text, &out->n);
    out->size = out->n;
    return st;
}

/* Compute the layout of file f: the header, and the offset of each of its tensors (stored in
 * p->tensors). GG_EFORMAT if the keys state an invalid alignment. Free *out with
 * free_layout even on error. */
static gg_status lay_out_file(gg_plan *p, size_t f, out_file *fp, gg_error *err)
{
    gg_plan_file *pf = &p->files[f];
    gg_status st = GG_OK;
    *fp = (out_file){ .alignment = 1 };
    if (gg_is_safetensors_name(pf->path)) drop_odd_bytes(pf);
    else st = gg_meta_alignment(&pf->meta, &fp->alignment, err);
    gg_fix(err, "make it a u32 that is a power of two, such as 32, or delete it");
    if (st == GG_OK) st = sort_pads(pf, fp, err);
    gg_tensor *list = st == GG_OK ? gg_plan_list(p, pf->first, pf->n, err) : NULL;
    if (!list) return err->status;
    st = gg_plan_offsets(list, pf->n, fp->alignment, &fp->data_bytes, err);
    if (st == GG_OK) st = make_header(p, pf, list, &fp->header, err);
    for (size_t i = 0; i < pf->n; i++) p->tensors[pf->first + i].t.offset = list[i].offset;
    fp->data_start = pf->n ? gg_align_up(fp->header.size, fp->alignment) : fp->header.size;
    fp->size = fp->data_start + fp->data_bytes + pf->trailing_bytes;
    if (pf->n && st == GG_OK) {
        uint64_t want = padding_after(&list[pf->n - 1], fp->alignment);
        const gg_pad *pad = find_pad(pf, fp, &list[pf->n - 1], want, true);
        if (pad) fp->size -= want - pad->n;
    }
    free(list);
    return st;
}

gg_status gg_plan_size(gg_plan *p, uint64_t *bytes, gg_error *err)
{
    gg_status st = GG_OK;
    *bytes = 0;
    for (size_t f = 0; f < p->n_files && st == GG_OK; f++) {
        out_file fp;
        st = lay_out_file(p, f, &fp, err);
        *bytes += fp.size;
        free_layout(&fp);
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

/* ---- files ------------------------------------------------------------------------ */

typedef struct writer {
    gg_plan *p;
    const gg_run *run;
    out_file *files;
    uint32_t *file_of; /* per tensor */
    /* Everything is written in order, so that the output and a source may be pipes, and threads
     * work on one tensor at a time (see gg_plan_make). Otherwise the tensors come last, all in
     * parallel. */
    bool in_order;
    size_t next; /* next tensor of the pipe */
} writer;

static bool to_stdout(const gg_plan_file *f)
{
    return strcmp(f->path, "-") == 0;
}

/* The next n bytes of the file are written, or will be. */
static void advance(out_file *of, uint64_t n)
{
    of->at = gg_offset_after(of->at, n);
    of->written += n;
}

/* Writes the padding after a tensor (NULL = the header). That of a pipe is used if it still fits
 * there, that is, after the same tensor and with as many bytes; reading it goes on to the pipe's
 * next tensor. */
static gg_status write_padding(writer *w, size_t f, const gg_tensor *after, uint64_t want,
                               bool last, gg_error *err)
{
    out_file *of = &w->files[f];
    bool odd = w->p->pipe && w->p->keep_odd, more;
    gg_pad *pads = NULL;
    size_t n = 0;
    const gg_pad *pad = odd ? NULL : find_pad(&w->p->files[f], of, after, want, last);
    gg_status st = odd ? gg_source_next(w->p->pipe, w->next++, &more, err) : GG_OK;
    if (st == GG_OK && odd) st = gg_source_pads(w->p->pipe, 0, &pads, &n, err);
    for (size_t i = 0; i < n; i++)
        if (order_name(after ? after->name : NULL, after ? after->name_len : 0, &pads[i]) == 0 &&
            pad_fits(&pads[i], want, last))
            pad = &pads[i];
    if (st == GG_OK) st = write_pad_bytes(of->fd, of->at, want, pad, err);
    advance(of, pad ? pad->n : want);
    gg_pads_free(pads, n);
    return st;
}

/* Writes a computed tensor. */
static gg_status make_tensor(const writer *w, const gg_plan_tensor *pt, gg_place to, gg_error *err)
{
    if (!pt->make) return GG_OK;
    gg_status st = pt->make(pt->ctx, &(gg_target){ &pt->t, to.fd, to.at, w->run, NULL }, err);
    return st == GG_OK ? st : gg_at_tensor(err, pt->t.name, pt->t.name_len);
}

static gg_status write_trailing(writer *w, size_t f, gg_error *err)
{
    const gg_plan_file *pf = &w->p->files[f];
    out_file *of = &w->files[f];
    uint64_t n = pf->trailing_bytes;
    gg_status st = GG_OK;
    if (w->p->pipe && w->p->keep_odd) st = gg_source_copy_trailing(w->p->pipe, 0, of->fd, &n, err);
    else if (n) st = copy_trailing_file(w->p, pf, of->fd, of->at, err);
    advance(of, n);
    return st;
}

/* Writes a file, without the data of tensors unless everything is written in order. */
static gg_status write_file(writer *w, size_t f, gg_error *err)
{
    out_file *of = &w->files[f];
    const gg_plan_file *pf = &w->p->files[f];
    gg_status st = gg_header_put(&of->header, of->fd, of->at, err);
    advance(of, of->header.size);
    if (st == GG_OK)
        st = write_padding(w, f, NULL, of->data_start - of->header.size, pf->n == 0, err);
    for (size_t i = 0; i < pf->n && st == GG_OK; i++) {
        const gg_plan_tensor *pt = &w->p->tensors[pf->first + i];
        const gg_place to = { of->fd, GG_AT_POS };
        if (w->in_order) st = make_tensor(w, pt, to, err);
        for (size_t k = 0; k < pt->n_parts && w->in_order && st == GG_OK; k++)
            st = copy_plan_part(w->p, &pt->t, &pt->parts[k], to, w->run, err);
        advance(of, pt->t.bytes);
        if (st == GG_OK)
            st = write_padding(w, f, &pt->t, padding_after(&pt->t, of->alignment), i + 1 == pf->n,
                               err);
    }
    return st == GG_OK ? write_trailing(w, f, err) : st;
}

/* Errors of an output get its name; those of reading have a file already. */
static void at_output(const gg_plan_file *pf, gg_error *err)
{
    if (err->status != GG_EIO || err->file[0]) return;
    if (to_stdout(pf) && err->sys_errno == EPIPE)
        gg_fix(err, "the program that reads stdout ended early");
    gg_at_file(err, to_stdout(pf) ? "stdout" : pf->path);
}

/* ---- tensors in parallel ------------------------------------------------------------- */

/* See gg_lane_work. Parts with a hash are copied in lanes, and others inside the kernel. */
static gg_status next_part(void *ctx, gg_lane *l, const char *sha, bool *more, gg_error *err)
{
    writer *w = ctx;
    size_t i = l->item;
    const gg_plan_tensor *pt = &w->p->tensors[i];
    const out_file *of = &w->files[w->file_of[i]];
    uint64_t at = of->data_start + pt->t.offset;
    assert(pt->t.offset + pt->t.bytes <= of->data_bytes);
    *more = false;
    gg_status st;
    if (sha) {
        st = gg_check_part(&l->part, &pt->t, sha, err);
        l->out.at += l->part.bytes;
    } else {
        l->out = (gg_place){ of->fd, at };
        st = make_tensor(w, pt, l->out, err);
    }
    for (; l->k < pt->n_parts && st == GG_OK && !*more; l->k++) {
        l->part = pt->parts[l->k];
        *more = w->p->verify && l->part.sha256 && l->part.sha256[0];
        if (*more) continue;
        st = copy_plan_part(w->p, &pt->t, &l->part, l->out, w->run, err);
        l->out.at += l->part.bytes;
    }
    if (st == GG_OK && !*more) gg_writeback_hint(of->fd, at, pt->t.bytes);
    return st;
}

static void fail_tensor(void *ctx, gg_lane *l, gg_error *err)
{
    const writer *w = ctx;
    at_output(&w->p->files[w->file_of[l->item]], err);
}

static uint64_t cost_of(const void *ctx, size_t i)
{
    const gg_plan_tensor *pt = &((const writer *)ctx)->p->tensors[i];
    return pt->make ? pt->t.elements : 0;
}

/* ---- writing --------------------------------------------------------------------- */

static gg_status open_files(writer *w, gg_error *err)
{
    uint64_t total = 0, before = 0;
    gg_status st = GG_OK;
    for (size_t f = 0; f < w->p->n_files && st == GG_OK; f++) {
        st = lay_out_file(w->p, f, &w->files[f], err);
        total += w->files[f].data_bytes;
        for (size_t i = 0; i < w->p->files[f].n; i++)
            w->file_of[w->p->files[f].first + i] = (uint32_t)f;
    }
    gg_progress_total(w->run, total);
    for (size_t f = 0; f < w->p->n_files && st == GG_OK; f++) {
        out_file *of = &w->files[f];
        of->at = w->in_order ? GG_AT_POS : 0;
        of->fd = STDOUT_FILENO;
        if (to_stdout(&w->p->files[f])) continue;
        st = gg_output_open(w->p->files[f].path, w->run->force, &of->out, err);
        if (st == GG_OK) st = gg_output_reserve(of->out, of->size, before, err);
        if (st == GG_OK) of->fd = gg_output_fd(of->out);
        before += of->size;
    }
    return st;
}

static gg_status verify_result(const writer *w, gg_error *err)
{
    char sha[65];
    gg_status st = gg_file_sha256(w->files[0].fd, 0, w->files[0].size, sha, NULL, err);
    if (st != GG_OK) return gg_at_file(err, w->p->files[0].path);
    if (strcmp(sha, w->p->result_sha256) == 0) return GG_OK;
    gg_fail(err, GG_EFORMAT, "the result does not match the expected sha256");
    return gg_fix(err, "make or download the patch again; nothing was written");
}

/* The planned size is too large if a pipe ends within its last padding. */
static gg_status sync_file(const writer *w, size_t f, gg_error *err)
{
    const out_file *of = &w->files[f];
    gg_status st = GG_OK;
    if (!of->out) return GG_OK;
    if (of->written != of->size && ftruncate(of->fd, (off_t)of->written) != 0)
        st = gg_fail_errno(err, "cannot set its size");
    at_output(&w->p->files[f], err);
    return st == GG_OK ? gg_output_sync(of->out, err) : st;
}

static gg_status write_all(writer *w, uint64_t *bytes, gg_error *err)
{
    size_t n = w->p->n_files;
    gg_lane_work work = { next_part, fail_tensor, cost_of, w };
    gg_status st = open_files(w, err);
    for (size_t f = 0; f < n && st == GG_OK; f++) {
        st = write_file(w, f, err);
        at_output(&w->p->files[f], err);
    }
    if (st == GG_OK && !w->in_order) st = gg_copy_lanes(w->p->n, &work, w->run, err);
    for (size_t f = 0; f < n && st == GG_OK; f++) st = sync_file(w, f, err);
    if (st == GG_OK) st = gg_watch_check(&w->p->watch, err);
    if (st == GG_OK && w->p->result_sha256) st = verify_result(w, err);
    for (size_t f = 0; f < n && st == GG_OK; f++) {
        *bytes += w->files[f].written;
        if (w->files[f].out) st = gg_output_place(w->files[f].out, err);
    }
    for (size_t f = 0; f < n; f++) gg_output_end(w->files[f].out, st == GG_OK || n == 1);
    return st;
}

static gg_status check_plan(const gg_plan *p, const gg_run *run, gg_held_notes *notes,
                            gg_error *err)
{
    bool other = p->hf_order || p->stored || (p->base && gg_source_refusal(p->base));
    if ((!run->review && !run->strict) || other) return GG_OK; /* rules know GGUF names only */
    gg_tensor *list = gg_plan_list(p, 0, p->n, err);
    gg_planned planned = { .meta = p->n_files ? &p->files[0].meta : NULL,
                           .tensors = list,
                           .n = p->n,
                           .files = (uint32_t)p->n_files,
                           .base = p->base,
                           .all_findings = p->all_findings };
    gg_status st = list ? gg_review(planned, run, notes, err) : GG_ENOMEM;
    free(list);
    return st;
}

static gg_status write_plan(gg_plan *p, const gg_run *run, uint64_t *bytes, gg_error *err)
{
    struct gg_turn turn;
    gg_run mine = *run;
    writer w = { .p = p, .run = &mine, .in_order = p->pipe != NULL };
    for (size_t f = 0; f < p->n_files; f++) {
        if (!to_stdout(&p->files[f])) continue;
        w.in_order = true;
        if (p->n_files == 1) continue;
        gg_fail(err, GG_EUSAGE, "%zu shards cannot be written to stdout", p->n_files);
        return gg_fix(err, "write one file, or give a file name for the shards");
    }
    mine.turn = &turn;
    pthread_mutex_init(&turn.lock, NULL);
    w.files = calloc(p->n_files + 1, sizeof *w.files);
    w.file_of = calloc(p->n + 1, sizeof *w.file_of);
    gg_status st = w.files && w.file_of ? write_all(&w, bytes, err)
                                        : gg_fail(err, GG_ENOMEM, "no memory for a plan");
    for (size_t f = 0; w.files && f < p->n_files; f++) free_layout(&w.files[f]);
    free(w.files);
    free(w.file_of);
    pthread_mutex_destroy(&turn.lock);
    return st;
}

gg_status gg_plan_write(gg_plan *p, const gg_run *run, uint64_t *bytes, gg_error *err)
{
    gg_held_notes notes = { 0 };
    *bytes = 0;
    gg_status st = gg_plan_watch(p, err);
    for (size_t f = 0; f < p->n_files && p->base && st == GG_OK; f++)
        if (!gg_is_safetensors_name(p->files[f].path)) st = gg_refuse_stored_names(p->base, err);
    for (size_t f = 0; f < p->n_files; f++) /* shards have other names than the output */
        for (size_t i = 0; i < p->watch.n && st == GG_OK; i++)
            st = gg_guard_output(p->files[f].path, p->watch.list[i], err);
    if (st == GG_OK) st = check_plan(p, run, &notes, err);
    if (st == GG_OK) st = write_plan(p, run, bytes, err);
    gg_held_end(&notes, run, st == GG_OK);
    return st;
}

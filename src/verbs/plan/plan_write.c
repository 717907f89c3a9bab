/* plan_write.c - a plan into files: offsets first, then headers, then all tensors
 * in parallel, each at its place; names last. */
#include "plan.h"

#include "base/io.h"
#include "base/output.h"
#include "base/parallel.h"
#include "base/sha256.h"
#include "verbs/shared/hashcopy.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct out_file {
    gg_output *out;
    uint8_t *header;
    size_t header_len;
    uint64_t data_start, data_bytes, size; /* size: all of it, trailing bytes too */
    uint64_t alignment;
    const gg_pad **pads; /* of the layout, by the name they follow */
} out_file;

typedef struct writer {
    gg_plan *p;
    const gg_run *run;
    out_file *files;
    uint32_t *file_of; /* per tensor */
    size_t *order;     /* in which tensors are begun */
} writer;

/* Where `after` (NULL = the header, which is first) stands among the pads. */
static int order_name(const char *after, size_t len, const gg_pad *pad)
{
    if (!after || !pad->after) return (after != NULL) - (pad->after != NULL);
    size_t n = len < pad->after_len ? len : pad->after_len;
    int c = n ? memcmp(after, pad->after, n) : 0;
    return c ? c : len < pad->after_len ? -1 : len > pad->after_len;
}

static int order_pad(const void *a, const void *b)
{
    const gg_pad *x = *(const gg_pad *const *)a, *y = *(const gg_pad *const *)b;
    int c = order_name(x->after, x->after_len, y);
    return c ? c : x < y ? -1 : x > y;
}

/* A layout may have as many pads as the model tensors: sorted, not searched through. */
static gg_status sort_pads(const gg_plan_file *f, out_file *of, gg_error *err)
{
    of->pads = calloc(f->n_pads ? f->n_pads : 1, sizeof *of->pads);
    if (!of->pads) return gg_fail(err, GG_ENOMEM, "no memory for padding");
    for (size_t i = 0; i < f->n_pads; i++) of->pads[i] = &f->pads[i];
    qsort(of->pads, f->n_pads, sizeof *of->pads, order_pad);
    return GG_OK;
}

/* The (first) pad of the layout that follows `after` (NULL = the header), if it fits
 * where a writer would put `want` zeros. Only the last may be shorter than that. */
static const gg_pad *find_pad(const gg_plan_file *f, const out_file *of, const gg_tensor *after,
                              uint64_t want, bool last)
{
    size_t lo = 0, hi = f->n_pads;
    const char *name = after ? after->name : NULL;
    size_t len = after ? after->name_len : 0;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (order_name(name, len, of->pads[mid]) > 0) lo = mid + 1;
        else hi = mid;
    }
    const gg_pad *pad = lo < f->n_pads ? of->pads[lo] : NULL;
    if (!pad || order_name(name, len, pad) != 0) return NULL;
    return pad->n == want || (last && pad->n < want) ? pad : NULL;
}

static uint64_t pad_after(const gg_tensor *t, uint64_t alignment)
{
    uint64_t end = t->offset + t->bytes;
    return gg_align_up(end, alignment) - end;
}

static gg_status plan_file(writer *w, size_t f, gg_error *err)
{
    gg_plan_file *pf = &w->p->files[f];
    out_file *of = &w->files[f];
    gg_status st = gg_meta_alignment(&pf->meta, &of->alignment, err);
    gg_fix(err, "make it a u32 that is a power of two, such as 32, or delete it");
    if (st == GG_OK) st = sort_pads(pf, of, err);
    if (st != GG_OK) return st;
    gg_tensor *list = calloc(pf->n ? pf->n : 1, sizeof *list);
    if (!list) return gg_fail(err, GG_ENOMEM, "no memory for a plan");
    for (size_t i = 0; i < pf->n; i++) list[i] = w->p->tensors[pf->first + i].t;
    st = gg_plan_offsets(list, pf->n, of->alignment, &of->data_bytes, err);
    if (st == GG_OK)
        st = gg_header_emit(pf->version, &pf->meta, list, pf->n, &of->header, &of->header_len, err);
    for (size_t i = 0; i < pf->n; i++) {
        w->p->tensors[pf->first + i].t.offset = list[i].offset;
        w->file_of[pf->first + i] = (uint32_t)f;
    }
    of->data_start = pf->n ? gg_align_up(of->header_len, of->alignment) : of->header_len;
    of->size = of->data_start + of->data_bytes;
    if (pf->n && st == GG_OK) {
        const gg_tensor *t = &list[pf->n - 1];
        uint64_t want = pad_after(t, of->alignment);
        const gg_pad *pad = find_pad(pf, of, t, want, true);
        if (pad) of->size -= want - pad->n;
    }
    free(list);
    of->size += pf->trailing_bytes;
    return st;
}

/* ---- bytes ----------------------------------------------------------------------- */

static gg_status copy_part(writer *w, const gg_tensor *t, const gg_plan_part *part, int fd,
                           uint64_t at, gg_error *err)
{
    gg_data d;
    char sha[65];
    bool verify = w->p->verify && part->sha256 && part->sha256[0];
    gg_status st = gg_data_open(part->source, part->index, &d, err);
    if (st != GG_OK) return st;
    st = gg_hash_copy(&d, part->at, part->bytes, fd, at, verify ? sha : NULL, w->run, err);
    gg_data_close(&d);
    if (st != GG_OK || !verify || gg_check_sha256(sha, part->sha256, err) == GG_OK) return st;
    gg_at_tensor(err, t->name, t->name_len);
    return gg_at_file(err, gg_source_name(part->source));
}

static gg_status write_tensor(void *ctx, size_t task, unsigned worker, gg_error *err)
{
    writer *w = ctx;
    size_t i = w->order[task];
    (void)worker;
    gg_plan_tensor *pt = &w->p->tensors[i];
    const out_file *of = &w->files[w->file_of[i]];
    int fd = gg_output_fd(of->out);
    uint64_t at = of->data_start + pt->t.offset;
    gg_status st = GG_OK;
    if (pt->make) {
        st = pt->make(pt->ctx, &pt->t, fd, at, w->run, err);
        if (st != GG_OK) gg_at_tensor(err, pt->t.name, pt->t.name_len);
    }
    uint64_t to = at;
    for (size_t k = 0; k < pt->n_parts && st == GG_OK; k++) {
        st = copy_part(w, &pt->t, &pt->parts[k], fd, to, err);
        to += pt->parts[k].bytes;
    }
    if (st == GG_OK) gg_writeback_hint(fd, at, pt->t.bytes);
    /* what could not be read has a place already */
    if (st == GG_EIO) gg_at_file(err, w->p->files[w->file_of[i]].path);
    return st;
}

static gg_status write_pad(int fd, uint64_t at, uint64_t want, const gg_pad *pad, gg_error *err)
{
    static const uint8_t zeros[4096];
    if (pad) return gg_pwrite_all(fd, pad->bytes, pad->n, at, err);
    gg_status st = GG_OK;
    for (uint64_t done = 0; done < want && st == GG_OK; done += sizeof zeros)
        st = gg_pwrite_all(fd, zeros,
                           want - done < sizeof zeros ? (size_t)(want - done) : sizeof zeros,
                           at + done, err);
    return st;
}

/* Copy, and hash where a hash is known: in one pass over what is mostly little. */
static gg_status copy_trailing(const gg_plan_file *pf, int in, int out, uint64_t at, bool verify,
                               gg_error *err)
{
    uint8_t buf[16384];
    unsigned char digest[32];
    char sha[65];
    gg_sha256 h;
    gg_status st = GG_OK;
    if (!verify || !pf->trailing_sha256 || !pf->trailing_sha256[0])
        return gg_copy_from(pf->trailing, in, pf->trailing_at, out, at, pf->trailing_bytes, err);
    gg_sha256_init(&h);
    for (uint64_t done = 0; done < pf->trailing_bytes && st == GG_OK; done += sizeof buf) {
        size_t n = pf->trailing_bytes - done < sizeof buf ? (size_t)(pf->trailing_bytes - done)
                                                          : sizeof buf;
        st = gg_pread_all(in, buf, n, pf->trailing_at + done, err);
        gg_at_file(err, pf->trailing);
        gg_sha256_update(&h, buf, st == GG_OK ? n : 0);
        if (st == GG_OK) st = gg_pwrite_all(out, buf, n, at + done, err);
    }
    gg_sha256_final(&h, digest);
    gg_sha256_hex(digest, sha);
    if (st == GG_OK && strcmp(sha, pf->trailing_sha256) != 0)
        st = gg_fail(err, GG_EFORMAT, "it does not have the sha256 that the manifest states");
    return st == GG_EFORMAT ? gg_at_file(err, pf->trailing) : st;
}

static gg_status write_trailing(const gg_plan_file *pf, const out_file *of, bool verify,
                                gg_error *err)
{
    int in = open(pf->trailing, O_RDONLY | O_CLOEXEC);
    if (in < 0) {
        gg_fail_errno(err, "cannot open the bytes that followed the model");
        return gg_at_file(err, pf->trailing);
    }
    copy_trailing(pf, in, gg_output_fd(of->out), of->size - pf->trailing_bytes, verify, err);
    close(in);
    return err->status;
}

/* Everything of a file but tensor data. */
static gg_status write_frame(writer *w, size_t f, gg_error *err)
{
    const gg_plan_file *pf = &w->p->files[f];
    const out_file *of = &w->files[f];
    int fd = gg_output_fd(of->out);
    gg_status st = gg_pwrite_all(fd, of->header, of->header_len, 0, err);
    uint64_t want = of->data_start - of->header_len;
    if (st == GG_OK)
        st = write_pad(fd, of->header_len, want, find_pad(pf, of, NULL, want, pf->n == 0), err);
    for (size_t i = 0; i < pf->n && st == GG_OK; i++) {
        const gg_tensor *t = &w->p->tensors[pf->first + i].t;
        want = pad_after(t, of->alignment);
        st = write_pad(fd, of->data_start + t->offset + t->bytes, want,
                       find_pad(pf, of, t, want, i + 1 == pf->n), err);
    }
    if (st == GG_OK && pf->trailing_bytes) st = write_trailing(pf, of, w->p->verify, err);
    return st;
}

/* ---- all of it ------------------------------------------------------------------- */

static gg_status open_files(writer *w, gg_error *err)
{
    uint64_t total = 0;
    for (size_t f = 0; f < w->p->n_files; f++) {
        gg_status st = plan_file(w, f, err);
        if (st != GG_OK) return st;
        total += w->files[f].data_bytes;
    }
    gg_progress_total(w->run, total);
    gg_want_descriptors(w->p->n_files);
    for (size_t f = 0; f < w->p->n_files; f++) {
        gg_status st = gg_output_open(w->p->files[f].path, w->run->force, &w->files[f].out, err);
        if (st == GG_OK) st = gg_output_reserve(w->files[f].out, w->files[f].size, err);
        if (st != GG_OK) return st;
    }
    return GG_OK;
}

static gg_status write_all(writer *w, uint64_t *bytes, gg_error *err)
{
    gg_status st = open_files(w, err);
    for (size_t f = 0; f < w->p->n_files && st == GG_OK; f++) {
        st = write_frame(w, f, err);
        if (st == GG_EIO) gg_at_file(err, w->p->files[f].path);
    }
    if (st == GG_OK) st = gg_parallel(w->p->n, w->run->threads, write_tensor, w, err);
    for (size_t f = 0; f < w->p->n_files && st == GG_OK; f++)
        st = gg_output_sync(w->files[f].out, err);
    for (size_t f = 0; f < w->p->n_files && st == GG_OK; f++) {
        *bytes += w->files[f].size;
        st = gg_output_commit(w->files[f].out, err);
        w->files[f].out = NULL;
    }
    return st;
}

typedef struct cost {
    uint64_t values; /* that have to be computed; 0 = a copy */
    size_t i;
} cost;

static int dearer(const void *a, const void *b)
{
    const cost *x = a, *y = b;
    if (x->values != y->values) return x->values > y->values ? -1 : 1;
    return x->i < y->i ? -1 : x->i > y->i;
}

/* What is computed goes first, the largest of it first of all, so that no thread is
 * left alone with it at the end; copies follow in the order of the file. */
static bool make_order(writer *w)
{
    size_t n = w->p->n;
    cost *list = calloc(n ? n : 1, sizeof *list);
    w->order = calloc(n ? n : 1, sizeof *w->order);
    for (size_t i = 0; list && i < n; i++)
        list[i] = (cost){ w->p->tensors[i].make ? w->p->tensors[i].t.elements : 0, i };
    if (list) qsort(list, n, sizeof *list, dearer);
    for (size_t i = 0; list && w->order && i < n; i++) w->order[i] = list[i].i;
    bool ok = list && w->order;
    free(list);
    return ok;
}

gg_status gg_plan_write(gg_plan *p, const gg_run *run, uint64_t *bytes, gg_error *err)
{
    writer w = { .p = p, .run = run };
    *bytes = 0;
    w.files = calloc(p->n_files ? p->n_files : 1, sizeof *w.files);
    w.file_of = calloc(p->n ? p->n : 1, sizeof *w.file_of);
    gg_status st = w.files && w.file_of && make_order(&w)
                       ? write_all(&w, bytes, err)
                       : gg_fail(err, GG_ENOMEM, "no memory for a plan");
    for (size_t f = 0; w.files && f < p->n_files; f++) {
        gg_output_abort(w.files[f].out);
        free(w.files[f].header);
        free(w.files[f].pads);
    }
    free(w.files);
    free(w.file_of);
    free(w.order);
    return st;
}

/* verb_extract_dir.c - a model into an organ directory: records, then the manifest.
 *
 * Files and directories give up their tensors in parallel. A pipe is read in order;
 * of a bare organ stream the names are known only at its end, so its records wait
 * under numbers and get their names then.
 */
#include "gg_verbs.h"

#include "../base/io.h"
#include "../base/output.h"
#include "../base/parallel.h"
#include "hashcopy.h"
#include "manifest_new.h"
#include "pieces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct job {
    gg_source *source;
    const gg_extract_options *o;
    const gg_run *run;
    gg_outdir *dir;
    gg_piece *pieces;
    size_t n, cap;
    char **names;      /* file names, n of them */
    char (*sha)[65];   /* n of them */
    gg_error *err;
} job;

/* One record: header, data, hash. */
static gg_status write_record(job *j, const gg_piece *p, const char *name, char sha[65], gg_error *err)
{
    uint8_t head[GG_RECORD_HEADER];
    gg_data d;
    int fd;
    gg_status st = gg_outdir_create(j->dir, name, &fd, err);
    if (st != GG_OK) return st;
    st = gg_write_all(fd, head, gg_record_header(&p->t, head), err);
    if (st == GG_OK && (st = gg_data_open(j->source, p->source, &d, err)) == GG_OK) {
        st = gg_hash_copy(&d, p->at, p->t.bytes, fd, GG_AT_POS, sha, j->run, err);
        gg_data_close(&d);
    }
    if (st == GG_OK) gg_writeback_hint(fd, 0, 0);
    if (close(fd) != 0 && st == GG_OK) st = gg_fail_errno(err, "close of %s failed", name);
    return st;
}

static gg_status record_task(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    job *j = ctx;
    (void)worker;
    return write_record(j, &j->pieces[i], j->names[i], j->sha[i], err);
}

static gg_status make_names(job *j, gg_error *err)
{
    gg_tensor *list = calloc(j->n ? j->n : 1, sizeof *list);
    if (!list) return gg_fail(err, GG_ENOMEM, "no memory for %zu names", j->n);
    for (size_t i = 0; i < j->n; i++) list[i] = j->pieces[i].t;
    gg_status st = gg_organ_file_names(list, j->n, &j->names, err);
    free(list);
    return st;
}

static gg_status make_room(job *j, size_t n, gg_error *err)
{
    j->sha = calloc(n ? n : 1, sizeof *j->sha);
    return j->sha ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for %zu hashes", n);
}

static void announce(const job *j)
{
    uint64_t total = 0;
    for (size_t i = 0; i < j->n; i++) total += j->pieces[i].t.bytes;
    gg_progress_total(j->run, total);
}

/* All tensors are known: any source but a bare organ stream on a pipe. */
static gg_status write_known(job *j, gg_error *err)
{
    gg_status st = gg_pieces_all(j->source, j->o->select, j->o->split_experts, &j->pieces, &j->n, err);
    if (st == GG_OK) st = make_names(j, err);
    if (st == GG_OK) st = make_room(j, j->n, err);
    if (st != GG_OK) return st;
    announce(j);
    if (gg_source_seekable(j->source)) return gg_parallel(j->n, j->run->threads, record_task, j, err);
    bool more = true;
    size_t k = 0;
    for (size_t i = 0; more && st == GG_OK; i++) {
        st = gg_source_next(j->source, i, &more, err);
        for (; st == GG_OK && more && k < j->n && j->pieces[k].source == i; k++) st = record_task(j, k, 0, err);
    }
    return st;
}

/* ---- a bare organ stream ------------------------------------------------------- */

static gg_status stream_piece(void *ctx, const gg_piece *p, gg_error *err)
{
    job *j = ctx;
    if (j->n == j->cap) {
        size_t cap = j->cap ? j->cap * 2 : 256;
        gg_piece *pieces = realloc(j->pieces, cap * sizeof *pieces);
        if (pieces) j->pieces = pieces;
        void *sha = pieces ? realloc(j->sha, cap * sizeof *j->sha) : NULL;
        if (!sha) return gg_fail(err, GG_ENOMEM, "no memory for %zu tensors", cap);
        j->sha = sha;
        j->cap = cap;
    }
    char name[64];
    snprintf(name, sizeof name, "%s/=%zu", gg_class_folder(p->a.cls), j->n);
    j->pieces[j->n] = *p;
    gg_status st = write_record(j, p, name, j->sha[j->n], err);
    j->n += st == GG_OK;
    return st;
}

static gg_status write_stream(job *j, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; st == GG_OK; i++) {
        bool more;
        st = gg_source_next(j->source, i, &more, err);
        if (st != GG_OK || !more) break;
        st = gg_pieces_of(gg_source_tensor(j->source, i), i, j->o->select, j->o->split_experts, stream_piece, j, err);
    }
    for (size_t i = 0; i < j->n; i++) j->pieces[i].t.name = j->pieces[i].name;
    if (st == GG_OK) st = make_names(j, err);
    for (size_t i = 0; i < j->n && st == GG_OK; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s/=%zu", gg_class_folder(j->pieces[i].a.cls), i);
        if (renameat(gg_outdir_fd(j->dir), name, gg_outdir_fd(j->dir), j->names[i]) != 0)
            st = gg_fail_errno(err, "rename to %s failed", j->names[i]);
    }
    return st;
}

/* ---- manifest -------------------------------------------------------------------- */

static gg_status write_trailing(job *j, gg_manifest *m, size_t file, gg_error *err)
{
    char name[48];
    int fd;
    snprintf(name, sizeof name, "trailing-%05zu.raw", file + 1);
    if (gg_source_model(j->source) && gg_source_trailing(j->source, file) == 0) return GG_OK;
    gg_status st = gg_outdir_create(j->dir, name, &fd, err);
    uint64_t bytes = 0;
    if (st != GG_OK) return st;
    st = gg_source_copy_trailing(j->source, file, fd, &bytes, err);
    if (st == GG_OK && bytes > 0) st = gg_manifest_note_trailing(m, file, name, fd, bytes, err);
    if (close(fd) != 0 && st == GG_OK) st = gg_fail_errno(err, "close failed");
    if (bytes == 0) unlinkat(gg_outdir_fd(j->dir), name, 0);
    m->bytes += gg_source_model(j->source) ? 0 : bytes;
    return st;
}

/* Only a whole model has a layout to rebuild. */
static gg_status note_layout(job *j, gg_manifest *m, gg_error *err)
{
    if (!gg_select_empty(j->o->select) || !gg_source_header(j->source)) return GG_OK;
    gg_status st = GG_OK;
    for (size_t f = 0; f < m->n_files && st == GG_OK; f++) {
        st = gg_source_pads(j->source, f, &m->files[f].pads, &m->files[f].n_pads, err);
        if (st == GG_OK) st = write_trailing(j, m, f, err);
    }
    return st;
}

static gg_status write_manifest(job *j, gg_error *err)
{
    gg_manifest *m;
    gg_status st = gg_manifest_new(j->source, j->pieces, j->n, j->names, j->sha, &m, err);
    if (st != GG_OK) return st;
    char *text = NULL;
    size_t len;
    int fd = -1;
    st = note_layout(j, m, err);
    if (st == GG_OK) st = gg_manifest_text(m, &text, &len, err);
    if (st == GG_OK) st = gg_outdir_create(j->dir, GG_MANIFEST, &fd, err);
    if (st == GG_OK) st = gg_write_all(fd, text, len, err);
    if (fd >= 0 && close(fd) != 0 && st == GG_OK) st = gg_fail_errno(err, "close of the manifest failed");
    free(text);
    gg_manifest_free(m);
    return st;
}

static void report_on(const job *j, gg_extract_report *r)
{
    *r = (gg_extract_report){ .tensors = j->n };
    for (size_t i = 0; i < j->n; i++) {
        r->unknown += !j->pieces[i].a.known;
        r->bytes += j->pieces[i].t.bytes;
    }
}

static void job_free(job *j)
{
    for (size_t i = 0; j->names && i < j->n; i++) free(j->names[i]);
    free(j->names);
    free(j->pieces);
    free(j->sha);
}

gg_status gg_extract_dir(gg_source *model, const gg_extract_options *o, const char *dir,
                         const gg_run *run, gg_extract_report *report, gg_error *err)
{
    job j = { .source = model, .o = o, .run = run };
    gg_status st = gg_outdir_open(dir, run->force, gg_is_organ_dir, &j.dir, err);
    if (st != GG_OK) return st;
    bool bare = !gg_source_seekable(model) && !gg_source_header(model);
    st = bare ? write_stream(&j, err) : write_known(&j, err);
    if (st == GG_OK && j.n == 0 && !gg_select_empty(o->select)) {
        st = gg_fail(err, GG_NO, "no tensor is selected");
        gg_fix(err, "look at the names with organ-extract --list");
    }
    if (st == GG_OK) st = write_manifest(&j, err);
    report_on(&j, report);
    if (st == GG_OK) {
        st = gg_outdir_commit(j.dir, err);
    } else {
        gg_outdir_abort(j.dir);
        if (err->status == GG_EIO) gg_at_file(err, dir);
        else gg_at_file(err, gg_source_name(model));
    }
    job_free(&j);
    return st;
}

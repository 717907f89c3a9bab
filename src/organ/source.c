/* source.c - read tensors from model files, organ directories, record files and pipes. */
#include "source.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/io.h"
#include "gguf/gguf.h"
#include "gguf/gguf_read.h"
#include "organ/manifest.h"
#include "organ/record.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static gg_status no_memory(gg_error *err)
{
    return gg_fail(err, GG_ENOMEM, "no memory for a list of tensors");
}

static void advise_records(gg_error *err)
{
    gg_fix(err, "extract the organ records again: this file is truncated or damaged");
}

/* ---- opening --------------------------------------------------------------- */

static void note_model(const gg_source *s)
{
    const gg_model *m = s->model;
    if (m->shard_count) {
        gg_partial_set set = { m->first_shard, m->n_files,     m->shard_count,
                               m->n_tensors,   m->set_tensors, m->missing };
        gg_note_partial(s, &set);
    }
    for (size_t f = 0; f < m->n_files && s->o.header_only; f++) {
        const gg_gguf *g = m->files[f];
        const gg_tensor *t = g->n_tensors ? &g->tensors[g->n_tensors - 1] : NULL;
        uint64_t end = t ? g->data_start + t->offset + t->bytes : g->data_start;
        if (end > m->file_sizes[f]) gg_note_cut(s, m->paths[f], end - m->file_sizes[f]);
    }
}

static gg_status open_model(gg_source *s, const char *path, gg_error *err)
{
    s->kind = SOURCE_MODEL;
    gg_model_options o = { .lone_shards = s->o.note != NULL, .cut_data = s->o.header_only };
    gg_status st = gg_model_open(path, &o, &s->model, err);
    if (st != GG_OK) return st;
    s->tensors = s->model->tensors;
    s->n = s->model->n_tensors;
    note_model(s);
    return GG_OK;
}

static gg_status open_dir(gg_source *s, const char *path, gg_error *err)
{
    s->kind = SOURCE_DIR;
    gg_status st = gg_manifest_load(path, &s->manifest, err);
    if (st != GG_OK) return st;
    s->tensors = calloc(s->manifest->n_entries ? s->manifest->n_entries : 1, sizeof *s->tensors);
    if (!s->tensors) return no_memory(err);
    s->n = s->manifest->n_entries;
    for (size_t i = 0; i < s->n; i++) s->tensors[i] = s->manifest->entries[i].t;
    return GG_OK;
}

/* Reads the headers of all records of one open file. */
static gg_status scan_records(gg_source *s, size_t path, int fd, gg_error *err)
{
    struct stat st_buf;
    if (fstat(fd, &st_buf) != 0) return gg_fail_errno(err, "cannot get the file's size");
    uint64_t size = (uint64_t)st_buf.st_size, at = 0;
    while (at < size) {
        uint8_t head[GG_RECORD_HEADER];
        size_t n = size - at < sizeof head ? (size_t)(size - at) : sizeof head, used;
        gg_tensor t;
        gg_status st = gg_pread_all(fd, head, n, at, err);
        if (st == GG_OK) st = gg_record_parse_alone(head, n, &t, &used, err);
        if (st == GG_OK && used == 0)
            st = gg_fail(err, GG_EFORMAT, "the file ends within the header of an organ record");
        if (st != GG_OK) return gg_at_offset(err, at);
        at += used;
        if (t.bytes > size - at) {
            gg_fail(err, GG_EFORMAT, "the data is incomplete: the file has %llu of %llu bytes",
                    (unsigned long long)(size - at), (unsigned long long)t.bytes);
            gg_at_tensor(err, t.name, t.name_len);
            return gg_at_offset(err, at);
        }
        if ((st = gg_source_append(s, &t, (record_place){ path, at }, err)) != GG_OK) return st;
        at += t.bytes;
    }
    return GG_OK;
}

static gg_status add_record_file(gg_source *s, const char *path, gg_error *err)
{
    char **paths = gg_grow_pow2(s->paths, s->n_paths, sizeof *paths, err);
    if (!paths) return GG_ENOMEM;
    s->paths = paths;
    gg_stamp *stamps = gg_grow_pow2(s->stamps, s->n_paths, sizeof *stamps, err);
    if (!stamps) return GG_ENOMEM;
    s->stamps = stamps;
    if (!(s->paths[s->n_paths] = strdup(path))) return no_memory(err);
    s->n_paths++;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        gg_fail_errno(err, "cannot open");
        return gg_at_file(err, path);
    }
    s->stamps[s->n_paths - 1] = gg_stamp_fd(fd);
    if (scan_records(s, s->n_paths - 1, fd, err) == GG_EFORMAT) advise_records(err);
    close(fd);
    return gg_at_file(err, path);
}

typedef enum spec_kind { SPEC_GGUF, SPEC_DIR, SPEC_RECORDS, SPEC_PIPE, SPEC_BAD } spec_kind;

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), m = strlen(tail);
    return n > m && strcmp(s + n - m, tail) == 0;
}

static spec_kind kind_of(const char *spec, gg_error *err)
{
    struct stat s;
    if (strcmp(spec, "-") == 0) return SPEC_PIPE;
    if (stat(spec, &s) != 0) {
        gg_fail_errno(err, "cannot open");
        if (err->sys_errno == ENOENT) gg_fix(err, "check the path");
        gg_at_file(err, spec);
        return SPEC_BAD;
    }
    if (S_ISDIR(s.st_mode)) return SPEC_DIR;
    if (!S_ISREG(s.st_mode)) return SPEC_PIPE;
    char magic[32] = "";
    int fd = open(spec, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        gg_fail_errno(err, "cannot open");
        gg_at_file(err, spec);
        return SPEC_BAD;
    }
    size_t got = 0;
    gg_status st = gg_read_some(fd, magic, sizeof magic, &got, err);
    close(fd);
    if (st != GG_OK) {
        gg_at_file(err, spec);
        return SPEC_BAD;
    }
    /* A record starts with the length of its name, which is so small that its high bytes are 0. */
    if (memcmp(magic, "GGUF", 4) == 0 || ends_with(spec, ".gguf")) return SPEC_GGUF;
    if (gg_is_other_kind((const uint8_t *)magic, got)) return SPEC_GGUF; /* for its message */
    return ends_with(spec, ".bin") || (got >= 4 && magic[1] == 0 && magic[2] == 0 && magic[3] == 0)
               ? SPEC_RECORDS
               : SPEC_GGUF;
}

static gg_status open_pipe(gg_source *s, const char *spec, gg_error *err)
{
    s->pipe.fd = strcmp(spec, "-") == 0 ? STDIN_FILENO : open(spec, O_RDONLY | O_CLOEXEC);
    if (s->pipe.fd < 0) gg_fail_errno(err, "cannot open");
    else if (isatty(s->pipe.fd)) {
        gg_fail(err, GG_EUSAGE,
                s->pipe.fd == STDIN_FILENO ? "standard input is a terminal"
                                           : "this is a terminal, not a model");
        gg_fix(err, "pipe a model or an organ stream into the command");
        if (s->pipe.fd != STDIN_FILENO) close(s->pipe.fd);
    } else {
        s->pipe.stamp = gg_stamp_fd(s->pipe.fd);
        gg_pipe_open(s, err);
    }
    return gg_at_file(err, spec);
}

/* Builds the index for gg_source_find, for sources whose tensors are known from the start. */
static gg_status sort_names(gg_source *s, gg_error *err)
{
    if (gg_source_grows(s)) return GG_OK;
    return gg_name_index(s->tensors, s->n, &s->by_name, err);
}

gg_status gg_source_open(const char *spec, gg_source **out, gg_error *err)
{
    gg_source_options o = { .spooled = true };
    return gg_source_open_with(spec, &o, out, err);
}

gg_status gg_source_open_with(const char *spec, const gg_source_options *o, gg_source **out,
                              gg_error *err)
{
    spec_kind kind = kind_of(spec, err);
    if (kind == SPEC_BAD) return err->status;
    if (kind == SPEC_PIPE && o && o->spooled) return gg_source_open_pipe_spooled(spec, o, out, err);
    gg_source *s = calloc(1, sizeof *s);
    if (!s || !(s->name = strdup(spec))) {
        free(s);
        return no_memory(err);
    }
    if (o) s->o = *o;
    gg_status st = GG_OK;
    if (kind == SPEC_PIPE) {
        st = open_pipe(s, spec, err);
    } else if (kind == SPEC_DIR) {
        st = open_dir(s, spec, err);
    } else if (kind == SPEC_RECORDS) {
        s->kind = SOURCE_RECORDS;
        st = add_record_file(s, spec, err);
    } else {
        st = open_model(s, spec, err);
    }
    if (st == GG_OK) st = sort_names(s, err);
    if (st != GG_OK) {
        gg_source_close(s);
        return st;
    }
    *out = s;
    return GG_OK;
}

gg_status gg_source_open_files(char *const *paths, size_t n, gg_source **out, gg_error *err)
{
    if (n == 1) return gg_source_open_with(paths[0], NULL, out, err);
    gg_source *s = calloc(1, sizeof *s);
    if (!s || !(s->name = strdup(n ? paths[0] : ""))) {
        free(s);
        return no_memory(err);
    }
    s->kind = SOURCE_RECORDS;
    gg_status st = GG_OK;
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        spec_kind kind = kind_of(paths[i], err);
        if (kind == SPEC_BAD) st = err->status;
        else if (kind == SPEC_RECORDS) st = add_record_file(s, paths[i], err);
        else {
            st = gg_fail(err, GG_EUSAGE,
                         "this is not an organ record file; several inputs must all be record "
                         "files");
            gg_at_file(err, paths[i]);
        }
    }
    if (st == GG_OK) st = sort_names(s, err);
    if (st != GG_OK) {
        gg_source_close(s);
        return st;
    }
    *out = s;
    return GG_OK;
}

void gg_source_close(gg_source *s)
{
    if (!s) return;
    if (s->kind == SOURCE_PIPE_MODEL || s->kind == SOURCE_PIPE_RECORDS) gg_pipe_close(s);
    for (size_t i = 0; s->names && i < s->n; i++) free(s->names[i]);
    for (size_t i = 0; s->kind == SOURCE_PIPE_RECORDS && i < s->n; i++) free(s->streamed[i]);
    free(s->streamed);
    if (s->own_fd) close(s->own_fd - 1);
    free(s->names);
    free(s->places);
    if (s->kind == SOURCE_DIR || s->kind == SOURCE_VIEW || s->names) free(s->tensors);
    gg_view_free(s->view, s->n);
    for (size_t i = 0; i < s->n_paths; i++) free(s->paths[i]);
    free(s->paths);
    free(s->stamps);
    free(s->by_name);
    gg_model_free(s->model);
    gg_manifest_free(s->manifest);
    free(s->name);
    free(s);
}

/* ---- contents ----------------------------------------------------------------  */

const char *gg_source_name(const gg_source *s)
{
    return s->name;
}

gg_status gg_source_rename(gg_source *s, const char *name, gg_error *err)
{
    char *copy = strdup(name);
    if (!copy) return no_memory(err);
    free(s->name);
    s->name = copy;
    return GG_OK;
}

void gg_source_own_fd(gg_source *s, int fd)
{
    s->own_fd = fd + 1;
}

bool gg_source_seekable(const gg_source *s)
{
    return s->kind != SOURCE_PIPE_MODEL && s->kind != SOURCE_PIPE_RECORDS;
}

const gg_meta *gg_source_meta(const gg_source *s)
{
    if (s->view) return gg_source_meta(gg_view_source(s->view));
    if (s->manifest) return &s->manifest->meta;
    const gg_gguf *header = gg_source_header(s);
    return header ? &header->meta : NULL;
}

const gg_model *gg_source_model(const gg_source *s)
{
    return s->model;
}

const gg_gguf *gg_source_header(const gg_source *s)
{
    return gg_source_files(s) ? gg_source_file(s, 0) : NULL;
}

size_t gg_source_files(const gg_source *s)
{
    return s->model ? s->model->n_files : s->pipe.n_shards;
}

const gg_gguf *gg_source_file(const gg_source *s, size_t i)
{
    return s->model ? s->model->files[i] : s->pipe.shards[i].header;
}

bool gg_source_grows(const gg_source *s)
{
    return s->kind == SOURCE_PIPE_RECORDS ||
           (s->kind == SOURCE_PIPE_MODEL && s->pipe.no + 1 < s->pipe.count);
}

const gg_manifest *gg_source_manifest(const gg_source *s)
{
    return s->manifest;
}

size_t gg_source_count(const gg_source *s)
{
    return s->n;
}

const gg_tensor *gg_source_tensor(const gg_source *s, size_t i)
{
    return s->streamed ? s->streamed[i] : &s->tensors[i];
}

gg_anatomy gg_source_anatomy(const gg_source *s, size_t i)
{
    const gg_tensor *t = gg_source_tensor(s, i);
    if (s->view) return gg_source_anatomy(gg_view_source(s->view), i);
    return s->manifest ? s->manifest->entries[i].a : gg_anatomy_of(t->name, t->name_len);
}

gg_status gg_source_next(gg_source *s, size_t i, bool *more, gg_error *err)
{
    if (!gg_source_seekable(s)) {
        if (gg_pipe_next(s, i, more, err) == GG_EFORMAT) advise_records(err);
        return gg_at_file(err, s->name);
    }
    *more = i < s->n;
    return GG_OK;
}

size_t gg_source_find(const gg_source *s, const char *name, size_t name_len)
{
    if (!s->by_name) return SIZE_MAX;
    return gg_name_index_find(s->tensors, s->by_name, s->n, name, name_len);
}

/* ---- data ------------------------------------------------------------------------ */

/* The file name for errors: for a split model, that of the shard. */
static const char *data_name(const gg_data *d)
{
    const gg_source *s = d->source;
    if (s->kind == SOURCE_MODEL && s->model->n_files > 1)
        return s->model->paths[s->tensors[d->index].file];
    return s->kind == SOURCE_RECORDS ? s->paths[s->places[d->index].path] : s->name;
}

static gg_status data_error(const gg_data *d, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(d->source, d->index);
    gg_at_tensor(err, t->name, t->name_len);
    return gg_at_file(err, data_name(d));
}

/* Opens a .bin file of a directory. Its header was checked when the manifest was loaded. */
static gg_status open_entry(gg_source *s, size_t i, gg_data *d, gg_error *err)
{
    const gg_entry *e = &s->manifest->entries[i];
    size_t size = strlen(s->name) + strlen(e->file) + 2;
    char *path = malloc(size);
    if (!path) return no_memory(err);
    snprintf(path, size, "%s/%s", s->name, e->file);
    d->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (d->fd < 0) gg_fail_errno(err, "cannot open");
    uint8_t head[GG_RECORD_HEADER];
    d->at = gg_record_header(&e->t, head);
    d->close_fd = true;
    gg_at_file(err, path);
    free(path);
    return err->status;
}

/* A view must be read with gg_data_read, so its descriptor is hidden. */
static gg_status open_view(gg_source *s, size_t i, gg_data *d, gg_error *err)
{
    gg_data in;
    gg_status st = gg_data_open(gg_view_source(s->view), i, &in, err);
    if (st != GG_OK) return st;
    d->at = in.at;
    d->close_fd = in.close_fd;
    d->hidden = in.fd >= 0 ? in.fd : in.hidden; /* a view of a view */
    return GG_OK;
}

static gg_status read_view(const gg_data *d, gg_view_span span, gg_error *err)
{
    gg_source *of = gg_view_source(d->source->view);
    gg_data in = { .source = of, .index = d->index, .fd = -1, .at = d->at, .hidden = -1 };
    *(of->view ? &in.hidden : &in.fd) = d->hidden;
    in.bytes = gg_source_tensor(of, d->index)->bytes;
    return gg_view_read(&in, d->source->view, d->index, span, err);
}

gg_status gg_data_open(gg_source *s, size_t i, gg_data *d, gg_error *err)
{
    *d = (gg_data){
        .source = s, .index = i, .fd = -1, .bytes = gg_source_tensor(s, i)->bytes, .hidden = -1
    };
    switch (s->kind) {
    case SOURCE_MODEL:
        d->fd = s->model->fds[s->tensors[i].file];
        d->at = gg_model_at(s->model, &s->tensors[i]);
        return GG_OK;
    case SOURCE_DIR: return open_entry(s, i, d, err);
    case SOURCE_RECORDS:
        d->fd = open(s->paths[s->places[i].path], O_RDONLY | O_CLOEXEC);
        d->at = s->places[i].at;
        d->close_fd = true;
        if (d->fd < 0) gg_fail_errno(err, "cannot open");
        return gg_at_file(err, s->paths[s->places[i].path]);
    case SOURCE_PIPE_MODEL:
    case SOURCE_PIPE_RECORDS: break;
    case SOURCE_VIEW: return open_view(s, i, d, err);
    }
    return GG_OK;
}

gg_status gg_data_read(gg_data *d, uint64_t offset, void *buf, size_t n, gg_error *err)
{
    if (d->source->view) return read_view(d, (gg_view_span){ offset, buf, n }, err);
    gg_status st = d->fd < 0 ? gg_pipe_read(d->source, d->index, offset, buf, n, err)
                             : gg_pread_all(d->fd, buf, n, d->at + offset, err);
    return st == GG_OK ? GG_OK : data_error(d, err);
}

static gg_status copy_view(gg_data *d, uint64_t offset, uint64_t n, gg_place out, gg_error *err)
{
    uint8_t buf[16384];
    gg_status st = GG_OK;
    for (uint64_t done = 0; done < n && st == GG_OK;) {
        size_t step = n - done < sizeof buf ? (size_t)(n - done) : sizeof buf;
        st = gg_data_read(d, offset + done, buf, step, err);
        if (st == GG_OK) st = gg_put_all(out.fd, buf, step, gg_offset_after(out.at, done), err);
        done += step;
    }
    return st;
}

gg_status gg_data_copy(gg_data *d, uint64_t offset, uint64_t n, gg_place out, gg_error *err)
{
    if (d->source->view) return copy_view(d, offset, n, out, err);
    if (d->fd < 0) gg_pipe_copy(d->source, d->index, offset, n, out, err);
    else gg_copy_from(data_name(d), (gg_place){ d->fd, d->at + offset }, out, n, err);
    bool writing = err->status == GG_EIO && !err->file[0]; /* the caller adds the output's name */
    return err->status == GG_OK || writing ? err->status : data_error(d, err);
}

void gg_data_close(gg_data *d)
{
    int fd = d->hidden >= 0 ? d->hidden : d->fd;
    if (d->close_fd && fd >= 0) close(fd);
    d->fd = d->hidden = -1;
}

/* source_records.c - files of organ records (.bin) as sources. */
#include "source.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/text.h"
#include "gguf/first_bytes.h"
#include "record.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct record_place {
    size_t path; /* index in paths */
    uint64_t at; /* offset in that file */
} record_place;

typedef struct record_source {
    gg_source s;
    gg_names names;
    record_place *places; /* one per tensor */
    char **paths;
    gg_stamp *stamps; /* of each path */
    size_t n_paths;
} record_source;

/* Appends a tensor; copies its name. */
static gg_status append_record(record_source *r, const gg_tensor *t, uint64_t at, gg_error *err)
{
    gg_source *s = &r->s;
    const char *name = gg_names_add(&r->names, t->name, t->name_len, err);
    if (!name) return err->status;
    if (GG_ROOM(r->places, s->n, NULL, err) != GG_OK) return err->status;
    if (GG_ROOM(s->tensors, s->n, NULL, err) != GG_OK) return err->status;
    r->places[s->n] = (record_place){ r->n_paths - 1, at };
    s->tensors[s->n] = *t;
    s->tensors[s->n++].name = name;
    return GG_OK;
}

/* Reads the headers of all records of one open file. */
static gg_status scan_records(record_source *r, int fd, gg_error *err)
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
        if ((st = append_record(r, &t, at, err)) != GG_OK) return st;
        at += t.bytes;
    }
    return GG_OK;
}

gg_status gg_source_add_records(gg_source *s, const char *path, gg_error *err)
{
    record_source *r = (record_source *)s;
    if (GG_ROOM(r->paths, r->n_paths, NULL, err) != GG_OK) return GG_ENOMEM;
    if (GG_ROOM(r->stamps, r->n_paths, NULL, err) != GG_OK) return GG_ENOMEM;
    if (!(r->paths[r->n_paths] = strdup(path))) return gg_source_no_memory(err);
    r->n_paths++;
    int fd = gg_open_read(path, err);
    if (fd < 0) return err->status;
    if (gg_stamp_fd(fd, &r->stamps[r->n_paths - 1], err) == GG_OK &&
        scan_records(r, fd, err) == GG_EFORMAT)
        gg_source_advise_records(err);
    close(fd);
    return gg_at_file(err, path);
}

/* A record starts with the length of its name, which is so small that its high bytes are 0. */
static bool is_records(const gg_spec *spec)
{
    const uint8_t *m = spec->bytes;
    size_t len = strlen(spec->path);
    if (spec->n >= 4 && memcmp(m, "GGUF", 4) == 0) return false;
    if (gg_text_ends(spec->path, len, ".gguf") || gg_is_other_kind(m, spec->n)) return false;
    return gg_text_ends(spec->path, len, ".bin") ||
           (spec->n >= 4 && m[1] == 0 && m[2] == 0 && m[3] == 0);
}

static void close_records(gg_source *s)
{
    record_source *r = (record_source *)s;
    free(s->tensors);
    free(r->places);
    gg_names_free(&r->names);
    for (size_t i = 0; i < r->n_paths; i++) free(r->paths[i]);
    free(r->paths);
    free(r->stamps);
}

static const char *file_of_record(const gg_source *s, size_t i)
{
    const record_source *r = (const record_source *)s;
    return r->paths[r->places[i].path];
}

static gg_status place_record(gg_source *s, size_t i, gg_data *d, gg_error *err)
{
    d->fd = gg_open_read(file_of_record(s, i), err);
    d->at = ((record_source *)s)->places[i].at;
    d->close_fd = true;
    return err->status;
}

static gg_status each_file_of_records(const gg_source *s, gg_source_file_fn *fn, void *ctx,
                                      gg_error *err)
{
    const record_source *r = (const record_source *)s;
    gg_status st = GG_OK;
    for (size_t i = 0; i < r->n_paths && st == GG_OK; i++)
        st = fn(ctx, &r->stamps[i], -1, r->paths[i], err);
    return st;
}

const gg_source_kind gg_source_records = {
    .size = sizeof(record_source),
    .is = is_records,
    .open = gg_source_add_records,
    .close = close_records,
    .place = place_record,
    .file_of = file_of_record,
    .each_file = each_file_of_records,
};

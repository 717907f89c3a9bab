/* source_dir.c - organ directories as sources. */
#include "source.h"

#include "record.h"

#include <stdlib.h>

typedef struct dir_source {
    gg_source s;
    gg_manifest *manifest;
} dir_source;

static bool is_dir(const gg_spec *spec)
{
    return spec->folder;
}

static gg_status open_dir(gg_source *s, const char *path, gg_error *err)
{
    dir_source *d = (dir_source *)s;
    gg_status st = gg_manifest_load(path, &d->manifest, err);
    if (st != GG_OK) return st;
    s->manifest = d->manifest;
    s->meta = &d->manifest->meta;
    s->tensors = calloc(d->manifest->n_entries + 1, sizeof *s->tensors);
    if (!s->tensors) return gg_source_no_memory(err);
    s->n = d->manifest->n_entries;
    for (size_t i = 0; i < s->n; i++) s->tensors[i] = d->manifest->entries[i].t;
    gg_unique_name_index(s->tensors, s->n, "this tensor appears twice in " GG_MANIFEST, &s->by_name,
                         err);
    gg_fix(err, "correct " GG_MANIFEST ", or extract the model again");
    return gg_at_file(err, path);
}

static void close_dir(gg_source *s)
{
    free(s->tensors);
    gg_manifest_free(((dir_source *)s)->manifest);
}

/* Opens the file of a record. Its header was checked when the manifest was loaded. */
static gg_status place_in_dir(gg_source *s, size_t i, gg_data *d, gg_error *err)
{
    const gg_entry *e = &s->manifest->entries[i];
    uint8_t head[GG_RECORD_HEADER];
    char *path = gg_path_in(s->name, e->file, err);
    if (path) d->fd = gg_open_read(path, err);
    d->at = gg_record_header(&e->t, head);
    d->close_fd = true;
    free(path);
    return err->status;
}

/* First the manifest itself. */
static gg_status each_file_of_dir(const gg_source *s, gg_source_file_fn *fn, void *ctx,
                                  gg_error *err)
{
    const gg_manifest *m = s->manifest;
    gg_status st = GG_OK;
    for (size_t i = 0; m && i <= m->n_entries && st == GG_OK; i++) {
        const gg_entry *e = i ? &m->entries[i - 1] : NULL;
        char *path = gg_path_in(s->name, e ? e->file : GG_MANIFEST, err);
        st = path ? fn(ctx, e ? &e->stamp : &m->stamp, -1, path, err) : GG_ENOMEM;
        free(path);
    }
    return st;
}

const gg_source_kind gg_source_dir = {
    .size = sizeof(dir_source),
    .knows = true,
    .is = is_dir,
    .open = open_dir,
    .close = close_dir,
    .place = place_in_dir,
    .each_file = each_file_of_dir,
};

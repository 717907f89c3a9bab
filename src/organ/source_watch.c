/* source_watch.c - checks that the files of a source have not changed. */
#include "source_watch.h"

#include "base/stamp.h"
#include "organ/manifest.h"
#include "source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gg_status gg_fail_changed(const char *path, gg_error *err)
{
    gg_fail(err, GG_EIO, "was changed by another program while it was read");
    gg_fix(err, "run again when nothing writes to it");
    return gg_at_file(err, path);
}

static gg_status check_dir(const gg_source *s, gg_error *err)
{
    const gg_manifest *m = s->manifest;
    size_t size = strlen(s->name) + 512;
    char *path = malloc(size);
    if (!path) return gg_fail(err, GG_ENOMEM, "no memory for a path");
    snprintf(path, size, "%s/%s", s->name, GG_MANIFEST);
    gg_status st = gg_stamp_holds_name(&m->stamp, path) ? GG_OK : gg_fail_changed(path, err);
    for (size_t i = 0; i < m->n_entries && st == GG_OK; i++) {
        snprintf(path, size, "%s/%s", s->name, m->entries[i].file);
        if (!gg_stamp_holds_name(&m->entries[i].stamp, path)) st = gg_fail_changed(path, err);
    }
    free(path);
    return st;
}

gg_status gg_source_unchanged(const gg_source *s, gg_error *err)
{
    if (s && s->view) s = gg_view_source(s->view);
    if (!s) return GG_OK;
    if (s->manifest) return check_dir(s, err);
    for (size_t i = 0; s->model && i < s->model->n_files; i++)
        if (!gg_stamp_holds_fd(&s->model->stamps[i], s->model->fds[i]))
            return gg_fail_changed(s->own_fd ? s->name : s->model->paths[i], err);
    for (size_t i = 0; i < s->n_paths; i++)
        if (!gg_stamp_holds_name(&s->stamps[i], s->paths[i]))
            return gg_fail_changed(s->paths[i], err);
    if (!gg_source_seekable(s) && !gg_stamp_holds_fd(&s->pipe.stamp, s->pipe.fd))
        return gg_fail_changed(s->name, err);
    return GG_OK;
}

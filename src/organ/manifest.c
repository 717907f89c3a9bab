/* manifest.c - free a manifest, extend its history, and recognise organ directories. */
#include "organ/gg_organ.h"

#include "base/buf.h"
#include "base/io.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Frees a string that is owned although its pointer is const. */
static void free_const(const char *s)
{
    free((void *)(uintptr_t)s);
}

void gg_manifest_free(gg_manifest *m)
{
    if (!m) return;
    for (size_t i = 0; i < m->n_entries; i++) {
        gg_entry *e = &m->entries[i];
        free_const(e->t.name);
        free(e->file);
        free(e->z);
        free(e->history);
    }
    for (size_t i = 0; i < m->n_files; i++) {
        gg_file_layout *f = &m->files[i];
        free(f->name);
        free(f->trailing);
        gg_meta_free(&f->meta);
        gg_pads_free(f->pads, f->n_pads);
    }
    for (size_t i = 0; i < m->n_stacks; i++) free_const(m->stacks[i].t.name);
    gg_meta_free(&m->meta);
    free(m->entries);
    free(m->files);
    free(m->stacks);
    free(m->source);
    free(m->name);
    free(m->name_was);
    free(m);
}

/* Other programs write a manifest.json too, and replacing removes whole folders, so the format
 * is looked for near the front. The rest of the file may be damaged. Allocates nothing, so that
 * a lack of memory is never taken for another kind of folder. */
bool gg_is_organ_dir(const char *path)
{
    char head[4096];
    struct stat s;
    size_t n = 0;
    gg_error err = GG_ERROR_INIT;
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = dir >= 0 ? openat(dir, GG_MANIFEST, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    bool yes = fd >= 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode) &&
               gg_read_some(fd, head, sizeof head, &n, &err) == GG_OK &&
               memmem(head, n, "\"organ-manifest\"", 16) != NULL;
    if (fd >= 0) close(fd);
    if (dir >= 0) close(dir);
    return yes;
}

gg_status gg_entry_add_history(gg_entry *e, const char *json_object, gg_error *err)
{
    gg_buf b = GG_BUF_INIT;
    size_t old = e->history ? strlen(e->history) : 0;
    gg_status st = gg_buf_text(&b, "[", err);
    if (st == GG_OK && old > 2) st = gg_buf_append(&b, e->history + 1, old - 2, err);
    if (st == GG_OK && old > 2) st = gg_buf_text(&b, ", ", err);
    if (st == GG_OK) st = gg_buf_text(&b, json_object, err);
    if (st == GG_OK) st = gg_buf_text(&b, "]", err);
    if (st != GG_OK) {
        gg_buf_free(&b);
        return st;
    }
    free(e->history);
    e->history = gg_buf_take(&b, NULL);
    return GG_OK;
}

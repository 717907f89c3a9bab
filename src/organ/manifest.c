/* manifest.c - free a manifest, extend its history, and recognise organ directories. */
#include "organ/gg_organ.h"

#include "base/buf.h"
#include "organ/manifest.h"
#include "organ/source_layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

/* Other programs have files named manifest.json too, and replacing a folder removes all of it.
 * So this looks for the format name in the first bytes; the rest of the file may be damaged. */
static bool has_manifest_format(const char *file)
{
    char head[4096];
    FILE *f = fopen(file, "r");
    if (!f) return false;
    size_t n = fread(head, 1, sizeof head, f);
    fclose(f);
    return memmem(head, n, "\"organ-manifest\"", 16) != NULL;
}

bool gg_is_organ_dir(const char *path)
{
    size_t size = strlen(path) + sizeof "/" GG_MANIFEST;
    char *file = malloc(size);
    struct stat s;
    if (!file) return false;
    snprintf(file, size, "%s/%s", path, GG_MANIFEST);
    bool yes = stat(file, &s) == 0 && S_ISREG(s.st_mode) && has_manifest_format(file);
    free(file);
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

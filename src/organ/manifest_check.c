/* manifest_check.c - load a manifest and compare it with the files of its directory. */
#include "manifest_read.h"

#include "base/error.h"
#include "base/io.h"
#include "organ/manifest.h"
#include "organ/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool same_tensor(const gg_tensor *a, const gg_tensor *b)
{
    return a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0 &&
           a->n_dims == b->n_dims && memcmp(a->dims, b->dims, sizeof a->dims) == 0 &&
           a->dtype == b->dtype;
}

static gg_status contradiction(const gg_tensor *line, const gg_tensor *record, gg_error *err)
{
    bool name = line->name_len == record->name_len &&
                memcmp(line->name, record->name, line->name_len) == 0;
    bool dims = line->n_dims == record->n_dims &&
                memcmp(line->dims, record->dims, sizeof line->dims) == 0;
    gg_fail(err, GG_EFORMAT, "the manifest and the record file have different values of \"%s\"",
            !name   ? "name"
            : !dims ? "dims"
                    : "dtype");
    return gg_fix(err, "restore this line in " GG_MANIFEST ", or extract the model again");
}

static gg_status check_file(int fd, gg_entry *e, gg_error *err)
{
    uint8_t head[GG_RECORD_HEADER];
    struct stat s;
    gg_tensor t;
    size_t used;
    if (fstat(fd, &s) != 0) return gg_fail_errno(err, "cannot get the file's size");
    size_t n = (uint64_t)s.st_size < sizeof head ? (size_t)s.st_size : sizeof head;
    gg_status st = S_ISREG(s.st_mode) ? gg_pread_all(fd, head, n, 0, err)
                                      : gg_fail(err, GG_EFORMAT, "not a regular file");
    if (st == GG_OK) st = gg_record_parse(head, n, &t, &used, err);
    if (st == GG_OK && used == 0)
        st = gg_fail(err, GG_EFORMAT, "the file ends within the header of the record");
    if (st != GG_OK) return st;
    if (!same_tensor(&e->t, &t)) return contradiction(&e->t, &t, err);
    if ((uint64_t)s.st_size - used == t.bytes) return GG_OK;
    gg_fail(err, GG_EFORMAT, "the file has %llu bytes of data, but the tensor needs %llu",
            (unsigned long long)s.st_size - used, (unsigned long long)t.bytes);
    return gg_fix(err, "extract the model again");
}

static gg_status check_entry(const char *dir, gg_entry *e, char *path, size_t size, gg_error *err)
{
    snprintf(path, size, "%s/%s", dir, e->file);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) {
        gg_fail(err, GG_EFORMAT, "this file is listed in the manifest but does not exist");
        gg_fix(err, "extract the model again, or remove the line from " GG_MANIFEST);
    } else if (fd < 0) {
        gg_fail_errno(err, "cannot open");
    } else {
        e->stamp = gg_stamp_fd(fd);
        check_file(fd, e, err);
        close(fd);
    }
    if (err->status != GG_OK) gg_at_tensor(err, e->t.name, e->t.name_len);
    return gg_at_file(err, path);
}

/* Trailing bytes have no format and are copied into a model unchanged. Links are therefore never
 * followed, not even in a parent folder: a hostile directory could otherwise copy any file of
 * the user into the model. */
static gg_status check_trailing(const char *dir, const gg_file_layout *f, char *path, size_t size,
                                gg_error *err)
{
    struct stat s;
    snprintf(path, size, "%s/%s", dir, f->trailing);
    if (strchr(f->trailing, '/')) {
        gg_fail(err, GG_EFORMAT,
                "the file of trailing bytes must be in the folder of the manifest");
    } else if (lstat(path, &s) != 0 && errno == ENOENT) {
        gg_fail(err, GG_EFORMAT, "this file is listed in the manifest but does not exist");
    } else if (lstat(path, &s) != 0) {
        gg_fail_errno(err, "cannot open the file of trailing bytes");
    } else if (!S_ISREG(s.st_mode)) {
        gg_fail(err, GG_EFORMAT, "not a regular file");
    } else if ((uint64_t)s.st_size != f->trailing_bytes) {
        gg_fail(err, GG_EFORMAT, "the file has %llu bytes, but the manifest states %llu",
                (unsigned long long)s.st_size, (unsigned long long)f->trailing_bytes);
    }
    gg_fix(err, "extract the model again, or remove \"trailing\" from " GG_MANIFEST);
    return gg_at_file(err, path);
}

static int order_entries(const void *a, const void *b)
{
    const gg_entry *x = *(const gg_entry *const *)a, *y = *(const gg_entry *const *)b;
    return strcmp(x->t.name, y->t.name);
}

static gg_status check_unique_files(const gg_manifest *m, gg_error *err)
{
    const gg_entry **list = calloc(m->n_entries ? m->n_entries : 1, sizeof *list);
    if (!list) return gg_fail(err, GG_ENOMEM, "no memory for the tensors");
    for (size_t i = 0; i < m->n_entries; i++) list[i] = &m->entries[i];
    qsort(list, m->n_entries, sizeof *list, order_entries);
    for (size_t i = 1; i < m->n_entries && err->status == GG_OK; i++)
        if (strcmp(list[i - 1]->t.name, list[i]->t.name) == 0) {
            gg_fail(err, GG_EFORMAT, "this tensor appears twice in " GG_MANIFEST);
            gg_at_tensor(err, list[i]->t.name, list[i]->t.name_len);
        }
    free(list);
    return err->status;
}

static bool equal(const char *a, size_t an, const char *b, size_t bn)
{
    return a && b && an == bn && memcmp(a, b, an) == 0;
}

/* At extraction, model.name and the key general.name are equal, and "layout" records the value.
 * If only model.name was edited since, the key is set to it. An edited key has priority. */
static gg_status apply_name(gg_manifest *m, gg_error *err)
{
    const char *key = NULL;
    size_t key_len = 0;
    gg_kv_str(gg_meta_find(&m->meta, "general.name"), &key, &key_len);
    bool renamed = m->name && !equal(m->name, m->name_len, m->name_was, m->name_was_len);
    bool untouched = m->name_was ? equal(key, key_len, m->name_was, m->name_was_len)
                                 : gg_meta_find(&m->meta, "general.name") == NULL;
    if (renamed && untouched)
        return gg_meta_set_str(&m->meta, "general.name", m->name, m->name_len, err);
    if (!key || equal(key, key_len, m->name, m->name_len)) return GG_OK;
    char *copy = malloc(key_len + 1);
    if (!copy) return gg_fail(err, GG_ENOMEM, "no memory for the model's name");
    memcpy(copy, key, key_len);
    copy[key_len] = '\0';
    free(m->name);
    m->name = copy;
    m->name_len = key_len;
    return GG_OK;
}

gg_status gg_manifest_load(const char *dir, gg_manifest **out, gg_error *err)
{
    size_t size = strlen(dir) + 512;
    char *path = malloc(size);
    if (!path) return gg_fail(err, GG_ENOMEM, "no memory for a path");
    snprintf(path, size, "%s/%s", dir, GG_MANIFEST);
    gg_manifest *m = NULL;
    gg_status st = gg_manifest_read(path, &m, err);
    if (st != GG_OK && err->sys_errno == ENOENT) {
        *err = (gg_error)GG_ERROR_INIT;
        gg_fail(err, GG_EFORMAT,
                "this folder has no " GG_MANIFEST ", so it is not an organ directory");
        gg_fix(err, "give a GGUF file, or a directory made by organ-extract");
        gg_at_file(err, dir);
        free(path);
        return GG_EFORMAT;
    }
    if (st == GG_OK) st = check_unique_files(m, err);
    if (st == GG_OK) st = apply_name(m, err);
    if (st != GG_OK) gg_at_file(err, path);
    for (size_t i = 0; st == GG_OK && i < m->n_entries; i++)
        st = check_entry(dir, &m->entries[i], path, size, err);
    for (size_t i = 0; st == GG_OK && i < m->n_files; i++)
        if (m->files[i].trailing) st = check_trailing(dir, &m->files[i], path, size, err);
    free(path);
    if (st != GG_OK) {
        if (st == GG_EFORMAT) gg_fix(err, "correct " GG_MANIFEST ", or extract the model again");
        gg_manifest_free(m);
        return st;
    }
    *out = m;
    return GG_OK;
}

/* organ_dir.c - writes an organ directory in three steps: records, manifest, name. */
#include "organ_dir.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/io.h"
#include "base/sha256.h"
#include "base/text.h"
#include "copy.h"
#include "organ/manifest.h"
#include "organ/output_guard.h"
#include "organ/record.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "verb_run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static gg_status no_memory(gg_error *err)
{
    return gg_fail(err, GG_ENOMEM, "no memory for the manifest");
}

/* The manifest borrows texts, keys and padding from the base and the items, and owns only its
 * lists, and what note_layout adds for a base that is a model. */
static void free_manifest(const gg_organ_dir *d, gg_manifest *m)
{
    for (size_t i = 0; m->files && i < m->n_files && !gg_source_manifest(d->base); i++) {
        gg_pads_free(m->files[i].pads, m->files[i].n_pads);
        free(m->files[i].trailing);
    }
    free(m->files);
    free(m->entries);
    free(m->stacks);
}

/* The layout of the original files: of a directory with padding and trailing bytes only if nothing
 * is left out, of a model without (see note_layout). */
static gg_status list_files(const gg_organ_dir *d, gg_manifest *m, gg_error *err)
{
    const gg_source *s = d->base;
    const gg_manifest *from = gg_source_manifest(s);
    const gg_model *model = gg_source_model(s);
    size_t files = gg_source_files(s);
    m->n_files = from ? from->n_files : files ? files : 1;
    m->files = calloc(m->n_files, sizeof *m->files);
    if (!m->files) return no_memory(err);
    m->bytes = from ? from->bytes : 0;
    for (size_t i = 0; i < m->n_files; i++) {
        const gg_gguf *g = files && !from ? gg_source_file(s, i) : NULL;
        gg_file_layout *f = &m->files[i];
        if (from) {
            const gg_file_layout *was = &from->files[i];
            *f = d->whole ? *was
                          : (gg_file_layout){ .name = was->name,
                                              .n_tensors = was->n_tensors,
                                              .version = was->version,
                                              .meta = was->meta };
            continue;
        }
        f->version = g ? g->version : 3;
        f->n_tensors = g ? g->n_tensors : gg_source_count(s);
        if (model && strcmp(gg_source_name(s), "-") != 0) {
            char *slash = strrchr(model->paths[i], '/');
            f->name = slash ? slash + 1 : model->paths[i];
        }
        if (i > 0) f->meta = g->meta;
        m->bytes += model ? model->file_sizes[i] : g ? g->data_start + g->data_bytes : 0;
    }
    m->version = from ? from->version : m->files[0].version;
    return GG_OK;
}

/* Adds the entry of an item, with its file and hash. Measures of a base directory are kept if the
 * data did not change; the history is always kept, with the item's own appended. */
static gg_status add_entry(const gg_organ_dir *d, gg_manifest *m, size_t i, gg_error *err)
{
    gg_dir_item *it = &d->items[i];
    const gg_manifest *from = gg_source_manifest(d->base);
    const gg_entry *was = from && it->source != SIZE_MAX ? &from->entries[it->source] : NULL;
    gg_entry *e = &m->entries[m->n_entries++];
    *e = (gg_entry){ .t = d->plan.tensors[i].t, .file = it->file };
    e->t.a.cls = it->cls;
    memcpy(e->sha256, it->sha, sizeof e->sha256);
    if (was && !it->expert && !it->history) e->z = was->z;
    e->history = was ? was->history : NULL;
    if (!it->history) return GG_OK;
    gg_status st = gg_history_add(e->history, &it->history, err);
    e->history = it->history;
    return st;
}

/* Lists the stacks of a copied directory and those split in this run. */
static gg_status list_stacks(const gg_organ_dir *d, gg_manifest *m, gg_error *err)
{
    const gg_manifest *from = gg_source_manifest(d->base);
    size_t last = SIZE_MAX, had = from ? from->n_stacks : 0;
    m->stacks = calloc(had + d->plan.n + 1, sizeof *m->stacks);
    if (!m->stacks) return no_memory(err);
    for (size_t i = 0; i < had; i++) m->stacks[m->n_stacks++] = from->stacks[i];
    for (size_t i = 0; i < d->plan.n; i++) {
        const gg_dir_item *it = &d->items[i];
        if (!it->expert || it->source == last) continue;
        last = it->source;
        m->stacks[m->n_stacks++].t = *gg_source_tensor(d->base, last);
    }
    return GG_OK;
}

/* Fills in the manifest, which free_manifest frees, also after an error. */
static gg_status make_manifest(const gg_organ_dir *d, gg_manifest *m, gg_error *err)
{
    const gg_manifest *from = gg_source_manifest(d->base);
    const gg_meta *meta = d->meta ? d->meta : gg_source_meta(d->base);
    const char *source = from && from->source ? from->source : gg_source_name(d->base);
    *m = (gg_manifest){ .source = (char *)(uintptr_t)source };
    if (meta) m->meta = *meta;
    m->entries = calloc(d->plan.n + 1, sizeof *m->entries);
    gg_status st = m->entries ? list_files(d, m, err) : no_memory(err);
    for (size_t i = 0; i < d->plan.n && st == GG_OK; i++) st = add_entry(d, m, i, err);
    return st == GG_OK ? list_stacks(d, m, err) : st;
}

/* ---- replacing a directory -------------------------------------------------- */

/* Whether dirfd/name contains only records and leftovers of killed runs. */
static bool only_records(int dirfd, const char *name, gg_error *err)
{
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    bool only = dir != NULL;
    if (!dir && errno != ENOTDIR) gg_fail_errno(err, "cannot read the folder %s", name);
    for (const char *e; only && (e = gg_next_name(dir, err));)
        only = e[0] == '.' || gg_text_ends(e, strlen(e), ".bin");
    if (dir) closedir(dir);
    else if (fd >= 0) close(fd);
    return only;
}

/* Replacing removes the whole folder. Refuse it if it contains other files, such as the model
 * that is being read. */
static bool may_replace(const char *path, gg_error *err)
{
    DIR *dir = gg_is_organ_dir(path, err) ? gg_open_folder(path, err) : NULL;
    bool may = dir != NULL;
    for (const char *name; may && (name = gg_next_name(dir, err));) {
        bool ours = strcmp(name, GG_MANIFEST) == 0 ||
                    (name[0] == '.' && gg_text_ends(name, strlen(name), ".tmp")) ||
                    (strncmp(name, "trailing-", 9) == 0 &&
                     gg_text_ends(name, strlen(name), ".raw"));
        may = ours || (gg_is_class_folder(name) && only_records(dirfd(dir), name, err));
    }
    if (dir) closedir(dir);
    return may;
}

gg_status gg_organ_dir_open(gg_organ_dir *d, gg_source *base, const char *path, const gg_run *run,
                            gg_error *err)
{
    *d = (gg_organ_dir){ .base = base, .run = run, .plan = { .base = base, .records = true } };
    gg_status st = gg_guard_output(path, base, err);
    return st != GG_OK ? st : gg_outdir_open(path, run->force, may_replace, &d->out, err);
}

gg_status gg_organ_dir_add(gg_organ_dir *d, const gg_selected *p, gg_plan_tensor **out,
                           gg_error *err)
{
    if (GG_ROOM(d->items, d->plan.n, &d->cap, err) != GG_OK) return GG_ENOMEM;
    d->items[d->plan.n] =
        (gg_dir_item){ .cls = p->t.a.cls, .source = p->source, .expert = p->expert };
    return gg_plan_add(&d->plan, &p->t, out, err);
}

gg_status gg_organ_dir_copy(gg_organ_dir *d, const gg_selected *p, gg_error *err)
{
    gg_plan_tensor *pt;
    gg_plan_part part = { d->base, p->source, p->at, p->t.bytes, NULL };
    gg_status st = gg_organ_dir_add(d, p, &pt, err);
    return st == GG_OK ? gg_plan_add_part(pt, &part, err) : st;
}

static int by_tensor_name(const void *a, const void *b)
{
    return strcmp(((const gg_tensor *)a)->name, ((const gg_tensor *)b)->name);
}

/* A manifest cannot have a name twice. Duplicates can come from several records, or from
 * single experts beside tensors with their names. Sorts the list. */
static gg_status check_unique(gg_tensor *list, size_t n, gg_error *err)
{
    if (n) qsort(list, n, sizeof *list, by_tensor_name);
    for (size_t i = 1; i < n; i++)
        if (by_tensor_name(&list[i - 1], &list[i]) == 0) {
            gg_fail(err, GG_EFORMAT, "two tensors have this name");
            return gg_at_tensor(err, list[i].name, list[i].name_len);
        }
    return GG_OK;
}

gg_status gg_organ_dir_check(gg_organ_dir *d, gg_error *err)
{
    const gg_meta *meta = d->meta ? d->meta : gg_source_meta(d->base);
    if (!gg_source_meta(d->base) || (!d->run->review && !d->run->strict)) return GG_OK;
    gg_tensor *list = gg_plan_list(&d->plan, 0, d->plan.n, err);
    if (!list) return GG_ENOMEM;
    bool experts = false;
    for (size_t i = 0; i < d->plan.n; i++) experts = experts || d->plan.tensors[i].t.a.expert >= 0;
    gg_planned planned = {
        .meta = meta, .tensors = list, .n = d->plan.n, .files = 1, .base = d->base
    };
    gg_status st = experts ? GG_OK : gg_review(planned, d->run, &d->notes, err);
    free(list);
    return st;
}

gg_status gg_organ_dir_names(gg_organ_dir *d, gg_error *err)
{
    size_t n = d->plan.n;
    gg_tensor *list = gg_plan_list(&d->plan, 0, n, err);
    char **names = NULL;
    if (!list) return GG_ENOMEM;
    gg_status st = gg_organ_file_names(list, n, &names, err);
    for (size_t i = 0; st == GG_OK && i < n; i++) d->items[i].file = names[i];
    if (st == GG_OK) st = check_unique(list, n, err);
    free(names);
    free(list);
    return st;
}

/* ---- records ----------------------------------------------------------------- */

/* A record whose data is one part, which can be hashed while it is copied. */
static bool is_one_part(const gg_plan_tensor *pt)
{
    return !pt->make && pt->n_parts == 1;
}

/* Writes computed data, or several parts. Sets sha if the producer hashes what it writes; else it
 * remains empty and the result must be read again. */
static gg_status write_parts(gg_organ_dir *d, gg_plan_tensor *pt, gg_place out, char sha[65],
                             gg_error *err)
{
    gg_sha256 h;
    gg_target to = { &pt->t, out.fd, out.at, d->run, &h, &pt->zeros };
    gg_sha256_init(&h);
    gg_status st = pt->make ? pt->make(pt->ctx, &to, err) : GG_OK;
    for (size_t i = 0; !pt->make && i < pt->n_parts && st == GG_OK; i++)
        st = gg_copy_part(&pt->parts[i], (gg_place){ out.fd, GG_AT_POS }, NULL, d->run, err);
    if (st == GG_OK && h.total == pt->t.bytes) gg_hash_text(&h, sha);
    return st;
}

/* Creates the file of a record and writes its header. out->at is where the data begins. */
static gg_status begin_record(gg_organ_dir *d, const gg_tensor *t, const char *name, gg_place *out,
                              gg_error *err)
{
    uint8_t head[GG_RECORD_HEADER];
    *out = (gg_place){ -1, gg_record_header(t, head) };
    gg_status st = gg_outdir_create(d->out, name, &out->fd, err);
    return st == GG_OK ? gg_write_all(out->fd, head, (size_t)out->at, err) : st;
}

static gg_status end_record(const char *name, int fd, gg_status st, gg_error *err)
{
    if (st == GG_OK) gg_writeback_hint(fd, 0, 0);
    if (fd >= 0 && close(fd) != 0 && st == GG_OK)
        st = gg_fail_errno(err, "close of %s failed", name);
    return st;
}

gg_status gg_organ_dir_record(gg_organ_dir *d, size_t i, const char *name, gg_error *err)
{
    const gg_plan_tensor *pt = &d->plan.tensors[i];
    gg_place out;
    gg_status st = begin_record(d, &pt->t, name, &out, err);
    if (st == GG_OK) st = gg_copy_part(&pt->parts[0], out, d->items[i].sha, d->run, err);
    st = end_record(name, out.fd, st, err);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, pt->t.name, pt->t.name_len);
}

/* The base directory's file of an unchanged item, or NULL. */
static const gg_entry *same_entry(const gg_organ_dir *d, size_t i)
{
    const gg_plan_tensor *pt = &d->plan.tensors[i];
    const gg_dir_item *it = &d->items[i];
    const gg_manifest *m = gg_source_manifest(d->base);
    if (!m || !is_one_part(pt) || it->history || it->source == SIZE_MAX) return NULL;
    const gg_entry *e = &m->entries[it->source];
    bool same = e->sha256[0] &&
                gg_text_order(e->t.name, e->t.name_len, pt->t.name, pt->t.name_len) == 0 &&
                e->t.bytes == pt->t.bytes;
    return same ? e : NULL;
}

/* Copies a whole file of the base directory: as a link if wanted, else as a copy that shares
 * its blocks if the file system supports it. */
static gg_status clone_file(gg_organ_dir *d, const char *from, const char *name, gg_error *err)
{
    char *path = gg_path_in(gg_source_name(d->base), from, err);
    int fd = -1;
    if (!path) return err->status;
    gg_error no_link = GG_ERROR_INIT;
    if (d->link && gg_outdir_link(d->out, path, name, &no_link) == GG_OK) {
        free(path);
        return GG_OK;
    }
    int in = open(path, O_RDONLY | O_CLOEXEC);
    off_t bytes = in >= 0 ? lseek(in, 0, SEEK_END) : -1;
    gg_status st = bytes < 0 ? gg_fail_errno(err, "cannot open") : GG_OK;
    if (st != GG_OK) gg_at_file(err, path);
    else st = gg_outdir_create(d->out, name, &fd, err);
    if (st == GG_OK)
        st = gg_copy(path, (gg_place){ in, 0 }, (gg_place){ fd, 0 }, (uint64_t)bytes, err);
    if (fd >= 0 && close(fd) != 0 && st == GG_OK)
        st = gg_fail_errno(err, "close of %s failed", name);
    if (in >= 0) close(in);
    free(path);
    return st;
}

static gg_status copy_same(gg_organ_dir *d, size_t i, const gg_entry *same, gg_error *err)
{
    memcpy(d->items[i].sha, same->sha256, sizeof same->sha256);
    gg_status st = clone_file(d, same->file, d->items[i].file, err);
    gg_progress_add(d->run, same->t.bytes);
    return st;
}

/* Begins a record. Its data is copied in the lane if it is one part. Other data is written here.
 * Unless that sets its hash, the lane reads it again. */
static gg_status start_record(gg_organ_dir *d, gg_lane *l, gg_error *err)
{
    gg_plan_tensor *pt = &d->plan.tensors[l->item];
    gg_dir_item *it = &d->items[l->item];
    gg_status st = begin_record(d, &pt->t, it->file, &l->out, err);
    bool one = is_one_part(pt);
    l->fd = l->out.fd;
    l->part = one ? pt->parts[0] : (gg_plan_part){ .bytes = pt->t.bytes };
    return st == GG_OK && !one ? write_parts(d, pt, l->out, it->sha, err) : st;
}

/* See gg_lane_work. */
static gg_status next_record(void *ctx, gg_lane *l, const char *sha, bool *more, gg_error *err)
{
    gg_organ_dir *d = ctx;
    gg_dir_item *it = &d->items[l->item];
    const gg_tensor *t = &d->plan.tensors[l->item].t;
    const gg_entry *same = same_entry(d, l->item);
    gg_status st = GG_OK;
    *more = false;
    if (same) return copy_same(d, l->item, same, err);
    if (sha) memcpy(it->sha, sha, sizeof it->sha);
    else st = start_record(d, l, err);
    if (st == GG_OK && sha) st = gg_check_sha256(sha, l->part.sha256, err);
    *more = st == GG_OK && !it->sha[0];
    if (st == GG_OK && !*more) {
        st = end_record(it->file, l->fd, st, err);
        l->fd = -1;
    }
    if (st != GG_OK) gg_at_tensor(err, t->name, t->name_len);
    return st;
}

static void fail_record(void *ctx, gg_lane *l, gg_error *err)
{
    const gg_tensor *t = &((const gg_organ_dir *)ctx)->plan.tensors[l->item].t;
    if (l->fd < 0) return; /* not a record that is copied in a lane */
    close(l->fd);
    gg_at_tensor(err, t->name, t->name_len);
}

static uint64_t cost_of(const void *ctx, size_t i)
{
    const gg_plan_tensor *pt = &((const gg_organ_dir *)ctx)->plan.tensors[i];
    return pt->make ? pt->t.elements : 0;
}

gg_status gg_organ_dir_records(gg_organ_dir *d, gg_error *err)
{
    uint64_t total = 0;
    for (size_t i = 0; i < d->plan.n; i++) total += d->plan.tensors[i].t.bytes;
    gg_progress_total(d->run, total);
    gg_lane_work work = { next_record, fail_record, cost_of, d };
    return gg_copy_lanes(d->plan.n, &work, d->run, err);
}

/* ---- manifest ------------------------------------------------------------------ */

static gg_status write_trailing(gg_organ_dir *d, gg_manifest *m, size_t file, gg_error *err)
{
    gg_file_layout *f = &m->files[file];
    char name[48];
    int fd;
    snprintf(name, sizeof name, "trailing-%05zu.raw", file + 1);
    bool model = gg_source_model(d->base) != NULL;
    if (model && gg_source_trailing(d->base, file) == 0) return GG_OK;
    gg_status st = gg_outdir_create(d->out, name, &fd, err);
    uint64_t bytes = 0;
    if (st != GG_OK) return st;
    st = gg_source_copy_trailing(d->base, file, fd, &bytes, err);
    if (st == GG_OK && bytes > 0) {
        f->trailing_bytes = bytes;
        f->trailing = strdup(name);
        st = f->trailing ? gg_file_sha256(fd, 0, bytes, f->trailing_sha256, NULL, err)
                         : no_memory(err);
    }
    if (close(fd) != 0 && st == GG_OK) st = gg_fail_errno(err, "close failed");
    if (bytes == 0) unlinkat(gg_outdir_fd(d->out), name, 0);
    m->bytes += model ? 0 : bytes;
    return st;
}

/* A pipe may end within its last padding, which the size computed from its header includes. */
static uint64_t missing_at_end(const gg_gguf *g, const gg_file_layout *f)
{
    const gg_pad *last = f->n_pads ? &f->pads[f->n_pads - 1] : NULL;
    const gg_tensor *t = g->n_tensors ? &g->tensors[g->n_tensors - 1] : NULL;
    if (!last || !last->after || !t || last->after_len != t->name_len ||
        memcmp(last->after, t->name, t->name_len) != 0)
        return 0;
    return g->data_bytes - t->offset - t->bytes - last->n;
}

/* Keeps unusual padding and trailing bytes, from the files of a model or as noted in the
 * manifest of a directory. */
static gg_status note_layout(gg_organ_dir *d, gg_manifest *m, gg_error *err)
{
    gg_status st = GG_OK;
    if (!d->whole) return GG_OK;
    if (gg_source_manifest(d->base)) {
        for (size_t f = 0; f < m->n_files && st == GG_OK; f++)
            if (m->files[f].trailing)
                st = clone_file(d, m->files[f].trailing, m->files[f].trailing, err);
        return st;
    }
    for (size_t f = 0; gg_source_header(d->base) && f < m->n_files && st == GG_OK; f++) {
        st = gg_source_pads(d->base, f, &m->files[f].pads, &m->files[f].n_pads, err);
        if (st == GG_OK && !gg_source_model(d->base))
            m->bytes -= missing_at_end(gg_source_file(d->base, f), &m->files[f]);
        if (st == GG_OK) st = write_trailing(d, m, f, err);
    }
    return st;
}

static gg_status write_manifest(gg_organ_dir *d, gg_error *err)
{
    gg_manifest m;
    int fd = -1;
    gg_status st = make_manifest(d, &m, err);
    if (st == GG_OK) st = note_layout(d, &m, err);
    if (st == GG_OK) st = gg_outdir_create(d->out, GG_MANIFEST, &fd, err);
    if (st == GG_OK) st = gg_manifest_write(&m, fd, err);
    if (fd >= 0 && close(fd) != 0 && st == GG_OK)
        st = gg_fail_errno(err, "close of the manifest failed");
    free_manifest(d, &m);
    return st;
}

gg_status gg_organ_dir_close(gg_organ_dir *d, gg_status st, gg_error *err)
{
    if (st == GG_OK) st = write_manifest(d, err);
    if (st == GG_OK) st = gg_plan_watch(&d->plan, err);
    if (st == GG_OK) st = gg_watch_check(&d->plan.watch, err);
    if (st == GG_OK) st = gg_outdir_commit(d->out, err);
    else gg_outdir_abort(d->out);
    if (st == GG_OK) gg_note_zeroed(&d->plan, d->run);
    for (size_t i = 0; i < d->plan.n; i++) {
        free(d->items[i].file);
        free(d->items[i].history);
    }
    free(d->items);
    gg_plan_free(&d->plan);
    gg_held_end(&d->notes, d->run, st == GG_OK);
    *d = (gg_organ_dir){ 0 };
    return st;
}

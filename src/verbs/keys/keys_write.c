/* keys_write.c - writes a model with changed keys, either to a new file or in place. */
#include "organ/gg_keys.h"

#include "base/error.h"
#include "base/io.h"
#include "gguf/gguf.h"
#include "keys_journal.h"
#include "organ/output_guard.h"
#include "organ/source_layout.h"
#include "organ/source_watch.h"
#include "verbs/check/check_output.h"
#include "verbs/plan/plan_same.h"
#include "verbs/shared/key_text.h"
#include "verbs/shared/verb_run.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static gg_status no_keys(const char *name, gg_error *err)
{
    gg_fail(err, GG_EUSAGE, "organ records have no keys");
    gg_fix(err, "give a model or an organ directory");
    return gg_at_file(err, name);
}

gg_status gg_keys_write(gg_source *model, const gg_key_edits *edits, const char *output,
                        const gg_run *run, gg_keys_report *report, gg_error *err)
{
    edits = GG_OPTIONS(gg_key_edits, edits);
    run = GG_OPTIONS(gg_run, run);
    report = GG_REPORT(gg_keys_report, report);
    bool pipe = !gg_source_seekable(model);
    gg_plan p = { .verify = true, .base = model, .pipe = pipe ? model : NULL, .keep_odd = pipe };
    gg_plan_kept kept = { 0 };
    *report = (gg_keys_report){ 0 };
    if (!gg_source_meta(model)) return no_keys(gg_source_name(model), err);
    gg_status st = gg_guard_output(output, model, err);
    if (st == GG_OK) st = gg_plan_same(&p, model, output, &kept, err);
    if (st == GG_OK) st = gg_keys_edit(&p.files[0].meta, edits, err);
    if (st != GG_OK) gg_at_file(err, gg_source_name(model));
    if (st == GG_OK) st = gg_plan_write(&p, run, &report->bytes, err);
    report->files = p.n_files;
    gg_plan_free(&p);
    gg_plan_kept_free(&kept);
    return st;
}

/* ---- in place ---------------------------------------------------------------------- */

static gg_status refuse_to_move(const char *what, uint64_t is, uint64_t was, gg_error *err)
{
    gg_fail(err, GG_NO, "%s would be %llu instead of %llu, so the tensor data would move", what,
            (unsigned long long)is, (unsigned long long)was);
    return gg_fix_hint(err, GG_HINT_NEW_MODEL, "write a new model");
}

typedef struct header_pair {
    uint8_t *before, *after; /* data_start bytes each */
    size_t end;              /* length of `after` without its padding */
} header_pair;

/* One change in place. */
typedef struct change {
    gg_source *source;
    const gg_model *model;
    const gg_key_edits *edits;
    const gg_run *run;
    gg_check_notes notes;
    gg_keys_report *report;
} change;

/* Applies the rules of organ-check to the model with the changed keys. */
static gg_status check_change(change *c, const gg_meta *meta, gg_error *err)
{
    size_t n = gg_source_count(c->source);
    gg_check_input in = { meta, n ? gg_source_tensor(c->source, 0) : NULL, n,
                          (uint32_t)c->model->n_files };
    return gg_check_output(&in, c->source, c->run, &c->notes, err);
}

/* Makes the header of file 0 with the changed keys, up to the tensor data. */
static gg_status new_header(change *c, header_pair *h, gg_error *err)
{
    const gg_gguf *g = c->model->files[0];
    gg_meta meta = GG_META_INIT;
    uint64_t alignment = 1;
    gg_status st = gg_meta_copy(&meta, &g->meta, err);
    if (st == GG_OK) st = gg_keys_edit(&meta, c->edits, err);
    if (st == GG_OK) st = check_change(c, &meta, err);
    if (st == GG_OK) st = gg_meta_alignment(&meta, &alignment, err);
    if (st == GG_OK && alignment != g->alignment)
        st = refuse_to_move("general.alignment", alignment, g->alignment, err);
    if (st == GG_OK)
        st = gg_header_emit(g->version, &meta, g->tensors, g->n_tensors, &h->after, &h->end, err);
    gg_meta_free(&meta);
    if (st != GG_OK) return st;
    uint64_t start = g->n_tensors ? gg_align_up(h->end, alignment) : h->end;
    if (start != g->data_start)
        return refuse_to_move("the start of the tensor data", start, g->data_start, err);
    uint8_t *grown = realloc(h->after, (size_t)start + 1);
    if (!grown) return gg_fail(err, GG_ENOMEM, "no memory for a header");
    memset(grown + h->end, 0, (size_t)start - h->end);
    h->after = grown;
    return GG_OK;
}

/* Padding that is not zero is kept if its length does not change, as in a new file. */
static gg_status old_header(int fd, const gg_gguf *g, header_pair *h, gg_error *err)
{
    h->before = malloc((size_t)g->data_start + 1);
    if (!h->before) return gg_fail(err, GG_ENOMEM, "no memory for a header");
    gg_status st = gg_pread_all(fd, h->before, (size_t)g->data_start, 0, err);
    if (st != GG_OK) return st;
    if (memcmp(h->before, g->raw, (size_t)g->header_bytes) != 0)
        return gg_fail(err, GG_EIO, "it changed while being read");
    if (h->end == g->header_bytes)
        memcpy(h->after + h->end, h->before + h->end, (size_t)g->data_start - h->end);
    return GG_OK;
}

static gg_status replace(const char *path, int fd, const gg_gguf *g, uint64_t file_size,
                         const header_pair *h, gg_keys_report *report, gg_error *err)
{
    size_t lo = 0, hi = (size_t)g->data_start;
    while (lo < hi && h->before[lo] == h->after[lo]) lo++;
    while (hi > lo && h->before[hi - 1] == h->after[hi - 1]) hi--;
    gg_header_change c = { .file_size = file_size,
                           .header_end = g->data_start,
                           .at = lo,
                           .n = hi - lo,
                           .before = h->before + lo,
                           .after = h->after + lo };
    report->bytes = c.n;
    report->same = c.n == 0;
    if (c.n == 0) return GG_OK;
    gg_status st = gg_header_rest(fd, &c, c.rest, err);
    return st == GG_OK ? gg_header_replace(path, fd, &c, err) : st;
}

static gg_status change_first(change *c, gg_error *err)
{
    const gg_model *m = c->model;
    header_pair h = { 0 };
    struct stat a, b;
    int fd;
    gg_status st = new_header(c, &h, err);
    if (st == GG_OK && (st = gg_open_locked(m->paths[0], &fd, err)) == GG_OK) {
        if (fstat(fd, &a) != 0 || fstat(m->fds[0], &b) != 0) st = gg_fail_errno(err, "cannot stat");
        else if (a.st_dev != b.st_dev || a.st_ino != b.st_ino || a.st_size != b.st_size)
            st = gg_fail(err, GG_EIO, "it changed while being read");
        if (st == GG_OK && !c->run->force) st = gg_refuse_links(fd, err);
        if (st == GG_OK) st = gg_source_unchanged(c->source, err);
        if (st == GG_OK) st = old_header(fd, m->files[0], &h, err);
        if (st == GG_OK)
            st = replace(m->paths[0], fd, m->files[0], (uint64_t)a.st_size, &h, c->report, err);
        close(fd);
    }
    free(h.before);
    free(h.after);
    return st == GG_OK ? GG_OK : gg_at_file(err, m->paths[0]);
}

gg_status gg_keys_in_place(const char *path, const gg_key_edits *edits, const gg_run *run,
                           gg_keys_report *report, gg_error *err)
{
    gg_source *s = NULL;
    edits = GG_OPTIONS(gg_key_edits, edits);
    run = GG_OPTIONS(gg_run, run);
    report = GG_REPORT(gg_keys_report, report);
    *report = (gg_keys_report){ .files = 1 };
    gg_status st = gg_source_open_with(path, NULL, &s, err);
    if (st == GG_OK && !gg_source_meta(s)) {
        st = no_keys(path, err);
    } else if (st == GG_OK && !gg_source_model(s)) {
        gg_fail(err, GG_EUSAGE, "only a GGUF file can be changed in place");
        gg_fix_hint(err, GG_HINT_NEW_MODEL, "%swrite a new model",
                    gg_source_manifest(s) ? "edit its manifest.json, or " : "");
        st = gg_at_file(err, path);
    }
    change c = { .source = s, .edits = edits, .run = run, .report = report };
    if (st == GG_OK) c.model = gg_source_model(s);
    if (st == GG_OK) st = change_first(&c, err);
    gg_check_notes_end(&c.notes, run, st == GG_OK);
    gg_source_close(s);
    return st;
}

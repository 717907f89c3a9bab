/* verb_extract.c - lists the selected tensors of a model, or writes them as an organ stream or into
 * an organ directory.
 *
 * For a directory, files and directories are read in parallel. A pipe is read in order. As the
 * names of an organ stream, or of shards that follow one another, are known only at the end,
 * records of a pipe are first written under numbers and renamed at the end.
 */
#include "organ/gg_verbs.h"

#include "base/error.h"
#include "base/io.h"
#include "copy.h"
#include "organ/record.h"
#include "organ/select.h"
#include "organ/source_layout.h"
#include "organ/source_watch.h"
#include "organ/tensor_names.h"
#include "organ_dir.h"
#include "selected_tensors.h"
#include "verb_run.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct extraction {
    gg_source *source;
    const gg_extract_options *o;
    const gg_run *run;
    gg_extract_report *report;
    gg_organ_dir dir;
} extraction;

static gg_status check_selection(const extraction *x, bool end, gg_error *err)
{
    const gg_select_when when = { end, x->o->split_experts };
    return gg_select_check(x->o->select, x->source, NULL, &when, err);
}

static gg_status require_tensors(const extraction *x, gg_error *err)
{
    if (x->report->tensors || gg_select_empty(x->o->select)) return GG_OK;
    gg_fail_in(err, GG_NO, x->source, NULL, "no tensor is selected");
    return gg_fix_by(err, "list", "list the names of its tensors");
}

static gg_status count_selected(void *ctx, const gg_selected *p, gg_error *err)
{
    const extraction *x = ctx;
    const gg_gguf *file = gg_source_files(x->source) ? gg_source_file(x->source, p->t.file) : NULL;
    const gg_extract_row row = { &p->t, file ? file->data_start + p->t.offset : 0 };
    x->report->tensors++;
    x->report->unknown += !p->t.a.known;
    x->report->bytes += p->t.bytes;
    return x->o->row ? x->o->row(x->o->ctx, &row, err) : GG_OK;
}

static gg_status stream_selected(void *ctx, const gg_selected *p, gg_error *err)
{
    const extraction *x = ctx;
    uint8_t head[GG_RECORD_HEADER];
    gg_plan_part part = { x->source, p->source, p->at, p->t.bytes, NULL };
    gg_status st = count_selected(ctx, p, err);
    if (st == GG_OK) st = gg_record_check_name(&p->t, err);
    if (st != GG_OK) return st;
    st = gg_write_all(STDOUT_FILENO, head, gg_record_header(&p->t, head), err);
    if (st == GG_OK)
        st = gg_copy_part(&part, (gg_place){ STDOUT_FILENO, GG_AT_POS }, NULL, x->run, err);
    /* Has no effect after a read error, which already names its file. */
    if (st == GG_EIO) gg_at_file(err, "<stdout>");
    return st;
}

/* ---- directories -------------------------------------------------------------- */

static gg_status add_selected(void *ctx, const gg_selected *p, gg_error *err)
{
    extraction *x = ctx;
    gg_status st = count_selected(ctx, p, err);
    return st == GG_OK ? gg_organ_dir_copy(&x->dir, p, err) : st;
}

/* Extracts files or a directory. */
static gg_status write_known(extraction *x, gg_error *err)
{
    gg_organ_dir *d = &x->dir;
    gg_status st = GG_OK;
    gg_visit visit = { x->o->select, x->o->split_experts, add_selected, x };
    for (size_t i = 0; i < gg_source_count(d->base) && st == GG_OK; i++)
        st = gg_selected_of(d->base, i, &visit, err);
    if (st == GG_OK) st = gg_organ_dir_names(d, err);
    return st == GG_OK ? gg_organ_dir_records(d, err) : st;
}

static void number_name(gg_class c, size_t i, char name[64])
{
    snprintf(name, 64, "%s/=%zu", gg_class_folder(c), i);
}

static gg_status store_selected(void *ctx, const gg_selected *p, gg_error *err)
{
    extraction *x = ctx;
    gg_organ_dir *d = &x->dir;
    char name[64];
    size_t i = d->plan.n;
    number_name(p->t.a.cls, i, name);
    gg_status st = add_selected(ctx, p, err);
    return st == GG_OK ? gg_organ_dir_record(d, i, name, err) : st;
}

/* Extracts a pipe. */
static gg_status write_in_order(extraction *x, gg_error *err)
{
    gg_organ_dir *d = &x->dir;
    gg_visit visit = { x->o->select, x->o->split_experts, store_selected, x };
    gg_status st = gg_selected_each(d->base, &visit, err);
    if (st == GG_OK) st = gg_organ_dir_names(d, err);
    for (size_t i = 0; i < d->plan.n && st == GG_OK; i++) {
        char name[64];
        number_name(d->items[i].cls, i, name);
        if (renameat(gg_outdir_fd(d->out), name, gg_outdir_fd(d->out), d->items[i].file) != 0)
            st = gg_fail_errno(err, "rename to %s failed", d->items[i].file);
    }
    return st;
}

static gg_status extract_to_dir(extraction *x, const char *output, gg_error *err)
{
    bool whole = gg_select_empty(x->o->select);
    gg_status st = whole ? gg_require_whole(x->source, x->run, err) : GG_OK;
    if (st == GG_OK) st = gg_organ_dir_open(&x->dir, x->source, output, x->run, err);
    if (st != GG_OK) return st;
    x->dir.whole = whole;
    st = gg_source_seekable(x->source) ? write_known(x, err) : write_in_order(x, err);
    if (st == GG_OK) st = check_selection(x, true, err);
    if (st == GG_OK) st = require_tensors(x, err);
    st = gg_organ_dir_close(&x->dir, st, err);
    if (st != GG_OK) gg_at_file(err, st == GG_EIO ? output : gg_source_name(x->source));
    return st;
}

gg_status gg_extract(gg_source *model, const gg_extract_options *o, const char *output,
                     const gg_run *run, gg_extract_report *report, gg_error *err)
{
    o = GG_OPTIONS(gg_extract_options, o);
    run = GG_OPTIONS(gg_run, run);
    report = GG_REPORT(gg_extract_report, report);
    extraction x = { .source = model, .o = o, .run = run, .report = report };
    gg_visit visit = { o->select, o->split_experts, output ? stream_selected : count_selected, &x };
    gg_status st = check_selection(&x, false, err);
    if (st == GG_OK && output && strcmp(output, "-") != 0) return extract_to_dir(&x, output, err);
    if (st == GG_OK) st = gg_selected_each(model, &visit, err);
    if (st == GG_OK) st = check_selection(&x, true, err);
    if (st == GG_OK && output) st = gg_source_unchanged(model, err);
    return st == GG_OK ? require_tensors(&x, err) : st;
}

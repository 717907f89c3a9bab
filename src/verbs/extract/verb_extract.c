/* verb_extract.c - writes a model as a list, as an organ stream or into an organ directory. */
#include "organ/gg_verbs.h"

#include "base/error.h"
#include "base/io.h"
#include "organ/record.h"
#include "organ/select.h"
#include "organ/source_layout.h"
#include "organ/source_watch.h"
#include "organ/tensor_names.h"
#include "verbs/organ_dir/organ_dir.h"
#include "verbs/shared/copy.h"
#include "verbs/shared/selected_tensors.h"
#include "verbs/shared/verb_run.h"

#include <stdio.h>

/* ---- list --------------------------------------------------------------------- */

typedef struct lister {
    gg_extract_fn fn;
    void *ctx;
    gg_extract_report *report;
} lister;

static void count(gg_extract_report *r, const gg_selected *p)
{
    r->tensors++;
    r->unknown += !p->a.known;
    r->bytes += p->t.bytes;
}

static gg_status list_selected(void *ctx, const gg_selected *p, gg_error *err)
{
    lister *l = ctx;
    count(l->report, p);
    return l->fn ? l->fn(l->ctx, &p->t, &p->a, err) : GG_OK;
}

static gg_status check_selection(const gg_source *s, const gg_extract_options *o, bool end,
                                 gg_error *err)
{
    const gg_select_when when = { end, o->split_experts };
    return gg_select_check(o->select, s, NULL, &when, err);
}

static gg_status nothing_selected(const gg_source *s, gg_error *err)
{
    gg_fail(err, GG_NO, "no tensor is selected");
    gg_fix_hint(err, GG_HINT_LIST_TENSORS, "list the names of its tensors");
    return gg_at_file(err, gg_source_name(s));
}

gg_status gg_extract_list(gg_source *model, const gg_extract_options *o, gg_extract_fn fn,
                          void *ctx, gg_extract_report *report, gg_error *err)
{
    o = GG_OPTIONS(gg_extract_options, o);
    report = GG_REPORT(gg_extract_report, report);
    lister l = { fn, ctx, report };
    *report = (gg_extract_report){ 0 };
    gg_visit visit = { o->select, o->split_experts, list_selected, &l };
    gg_status st = check_selection(model, o, false, err);
    if (st == GG_OK) st = gg_selected_each(model, &visit, err);
    if (st == GG_OK) st = check_selection(model, o, true, err);
    if (st != GG_OK) return st;
    return report->tensors || gg_select_empty(o->select) ? GG_OK : nothing_selected(model, err);
}

/* ---- stream ------------------------------------------------------------------- */

typedef struct streamer {
    gg_source *source;
    int fd;
    const gg_run *run;
    gg_extract_report *report;
} streamer;

static gg_status stream_selected(void *ctx, const gg_selected *p, gg_error *err)
{
    streamer *s = ctx;
    uint8_t head[GG_RECORD_HEADER];
    gg_plan_part part = { s->source, p->source, p->at, p->t.bytes, NULL };
    count(s->report, p);
    gg_status st = gg_record_check_name(&p->t, err);
    if (st == GG_OK) st = gg_write_all(s->fd, head, gg_record_header(&p->t, head), err);
    if (st == GG_EIO) gg_at_file(err, "<stdout>");
    if (st != GG_OK) return st;
    st = gg_copy_part(&part, (gg_place){ s->fd, GG_AT_POS }, NULL, s->run, err);
    /* Has no effect after a read error, which already names its file. */
    if (st == GG_EIO) gg_at_file(err, "<stdout>");
    return st;
}

gg_status gg_extract_stream(gg_source *model, const gg_extract_options *o, int fd,
                            const gg_run *run, gg_extract_report *report, gg_error *err)
{
    o = GG_OPTIONS(gg_extract_options, o);
    report = GG_REPORT(gg_extract_report, report);
    streamer s = { model, fd, run, report };
    *report = (gg_extract_report){ 0 };
    gg_visit visit = { o->select, o->split_experts, stream_selected, &s };
    gg_status st = check_selection(model, o, false, err);
    if (st == GG_OK) st = gg_selected_each(model, &visit, err);
    if (st == GG_OK) st = check_selection(model, o, true, err);
    if (st == GG_OK) st = gg_source_unchanged(model, err);
    if (st != GG_OK) return st;
    return report->tensors || gg_select_empty(o->select) ? GG_OK : nothing_selected(model, err);
}

/* Extracts a model into an organ directory.
 *
 * Files and directories are read in parallel. A pipe is read in order. For an organ stream, or for
 * shards that follow one another, the names are known only at the end. The records are therefore
 * first written under numbers and renamed at the end.
 */

typedef struct job {
    gg_organ_dir dir;
    const gg_extract_options *o;
} job;

static gg_status add_selected(void *ctx, const gg_selected *p, gg_error *err)
{
    gg_dir_item *item;
    return gg_organ_dir_add(ctx, p, &item, err);
}

/* Extracts a source whose tensors are all known from the start. */
static gg_status write_known(job *j, gg_error *err)
{
    gg_organ_dir *d = &j->dir;
    gg_status st = GG_OK;
    gg_visit visit = { j->o->select, j->o->split_experts, add_selected, d };
    for (size_t i = 0; i < gg_source_count(d->base) && st == GG_OK; i++)
        st = gg_selected_of(d->base, i, &visit, err);
    if (st == GG_OK) st = gg_organ_dir_names(d, err);
    if (st != GG_OK) return st;
    if (gg_source_seekable(d->base)) return gg_organ_dir_records(d, err);
    bool more = true;
    size_t k = 0;
    for (size_t i = 0; more && st == GG_OK; i++) {
        st = gg_source_next(d->base, i, &more, err);
        for (; st == GG_OK && more && k < d->n && d->items[k].source == i; k++)
            st = gg_organ_dir_record(d, &d->items[k], d->items[k].file, err);
    }
    return st;
}

static void number_name(gg_class c, size_t i, char name[64])
{
    snprintf(name, 64, "%s/=%zu", gg_class_folder(c), i);
}

static gg_status store_selected(void *ctx, const gg_selected *p, gg_error *err)
{
    gg_organ_dir *d = ctx;
    gg_dir_item *item;
    char name[64];
    number_name(p->a.cls, d->n, name);
    gg_status st = gg_organ_dir_add(d, p, &item, err);
    return st == GG_OK ? gg_organ_dir_record(d, item, name, err) : st;
}

static gg_status write_stream(job *j, gg_error *err)
{
    gg_organ_dir *d = &j->dir;
    gg_visit visit = { j->o->select, j->o->split_experts, store_selected, d };
    gg_status st = gg_selected_each(d->base, &visit, err);
    if (st == GG_OK) st = gg_organ_dir_names(d, err);
    for (size_t i = 0; i < d->n && st == GG_OK; i++) {
        char name[64];
        number_name(d->items[i].a.cls, i, name);
        if (renameat(gg_outdir_fd(d->out), name, gg_outdir_fd(d->out), d->items[i].file) != 0)
            st = gg_fail_errno(err, "rename to %s failed", d->items[i].file);
    }
    return st;
}

static void report_on(const gg_organ_dir *d, gg_extract_report *r)
{
    *r = (gg_extract_report){ .tensors = d->n };
    for (size_t i = 0; i < d->n; i++) {
        r->unknown += !d->items[i].a.known;
        r->bytes += d->items[i].t.bytes;
    }
}

gg_status gg_extract_dir(gg_source *model, const gg_extract_options *o, const char *dir,
                         const gg_run *run, gg_extract_report *report, gg_error *err)
{
    o = GG_OPTIONS(gg_extract_options, o);
    run = GG_OPTIONS(gg_run, run);
    report = GG_REPORT(gg_extract_report, report);
    job j = { .o = o };
    gg_select_when when = { .split_experts = o->split_experts };
    gg_status st = gg_select_check(o->select, model, NULL, &when, err);
    if (st != GG_OK) return st;
    when.end = true;
    st = gg_organ_dir_open(&j.dir, model, dir, run, err);
    if (st != GG_OK) return st;
    j.dir.whole = gg_select_empty(o->select);
    st = gg_source_grows(model) ? write_stream(&j, err) : write_known(&j, err);
    if (st == GG_OK) st = gg_select_check(o->select, model, NULL, &when, err);
    if (st == GG_OK && j.dir.n == 0 && !j.dir.whole) {
        st = gg_fail(err, GG_NO, "no tensor is selected");
        gg_fix_hint(err, GG_HINT_LIST_TENSORS, "list the names of its tensors");
    }
    report_on(&j.dir, report);
    st = gg_organ_dir_close(&j.dir, st, err);
    if (st != GG_OK) gg_at_file(err, st == GG_EIO ? dir : gg_source_name(model));
    return st;
}

/* verb_extract.c - writes a model as a list or as an organ stream. */
#include "organ/gg_verbs.h"

#include "base/error.h"
#include "base/io.h"
#include "organ/record.h"
#include "organ/select.h"
#include "organ/source_watch.h"
#include "verbs/shared/hashcopy.h"
#include "verbs/shared/selected_tensors.h"
#include "verbs/shared/verb_run.h"

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

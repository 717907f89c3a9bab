/* verb_extract_dir.c - extracts a model into an organ directory.
 *
 * Files and directories are read in parallel. A pipe is read in order. For an organ stream, or for
 * shards that follow one another, the names are known only at the end. The records are therefore
 * first written under numbers and renamed at the end.
 */
#include "organ/gg_verbs.h"

#include "base/error.h"
#include "organ/select.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "verbs/organ_dir/organ_dir.h"
#include "verbs/shared/verb_run.h"

#include <stdio.h>

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

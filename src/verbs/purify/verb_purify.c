/* verb_purify.c - purifies a model and writes it to an organ directory, an organ stream or a GGUF
 * file, or writes nothing. Tensors that are not purified are copied. */
#include "purify_job.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/io.h"
#include "base/parallel.h"
#include "organ/record.h"
#include "organ/select.h"
#include "organ/source_layout.h"
#include "organ/source_watch.h"
#include "verbs/organ_dir/organ_dir.h"
#include "verbs/plan/plan.h"
#include "verbs/shared/copy.h"
#include "verbs/shared/type_keys.h"
#include "verbs/shared/verb_run.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

/* job_end must follow, also after an error. */
static gg_status job_start(purify_job *j, gg_source *s, const gg_purify_options *o,
                           const gg_run *run, gg_error *err)
{
    gg_imatrix *imatrix = NULL;
    *j = (purify_job){
        .source = s, .o = o, .run = run, .threads = run->threads ? run->threads : gg_thread_count()
    };
    pthread_mutex_init(&j->big, NULL);
    pthread_mutex_init(&j->lock, NULL);
    gg_status st = o->imatrix ? gg_imatrix_open(o->imatrix, &imatrix, err) : GG_OK;
    j->spare = calloc(j->threads, sizeof *j->spare);
    if (!j->spare && st == GG_OK)
        st = gg_fail(err, GG_ENOMEM, "no memory for %u threads", j->threads);
    j->weighed.imatrix = j->imatrix = imatrix;
    return st;
}

static gg_status job_end(purify_job *j, gg_status st, gg_error *err)
{
    pthread_mutex_destroy(&j->big);
    pthread_mutex_destroy(&j->lock);
    for (unsigned i = 0; j->spare && i < j->threads; i++) free(j->spare[i].x);
    free(j->spare);
    gg_imatrix_close(j->imatrix);
    free(j->units);
    free(j->rows);
    gg_names_free(&j->names);
    if (st != GG_OK && st != GG_EIO && st != GG_EUSAGE) gg_at_file(err, gg_source_name(j->source));
    return st;
}

/* Delivers the rows starting at `first`. */
static gg_status tell(const purify_job *j, size_t first, gg_purify_summary *sum, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = first; i < j->n_rows && st == GG_OK; i++) {
        purify_row *row = &j->rows[i];
        sum->tensors++;
        sum->purified += row->r.outcome == GG_PURIFY_DONE;
        sum->identical += row->r.outcome == GG_PURIFY_IDENTICAL;
        sum->left_alone += row->r.outcome > GG_PURIFY_IDENTICAL;
        if (row->r.outcome == GG_PURIFY_DONE) sum->bytes += row->r.t.bytes;
        if (j->o->row) st = j->o->row(j->o->row_ctx, &row->r, err);
    }
    return st;
}

/* Copies the data of tensor u->t to fd in sequence. */
static gg_status write_data(purify_unit *u, int fd, gg_error *err)
{
    if (u->touched) return gg_purify_unit_run(u, (gg_place){ fd, GG_AT_POS }, err);
    gg_plan_part whole = { u->job->source, u->source, 0, u->t.bytes, NULL };
    return gg_copy_part(&whole, (gg_place){ fd, GG_AT_POS }, NULL, u->job->run, err);
}

/* ---- dry run -------------------------------------------------------------------- */

static gg_status check_task(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    purify_job *j = ctx;
    purify_unit *u = &j->units[i];
    (void)worker;
    if (u->touched) return gg_purify_unit_run(u, (gg_place){ -1, GG_AT_POS }, err);
    gg_progress_add(j->run, gg_source_tensor(j->source, u->source)->bytes);
    return GG_OK;
}

/* Of a seekable source, where nothing depends on the order. */
static gg_status check_all(purify_job *j, gg_purify_summary *sum, gg_error *err)
{
    gg_status st = gg_purify_plan_all(j, err);
    if (st == GG_OK) st = gg_purify_plan_check(j, err);
    if (st == GG_OK) st = gg_parallel(j->n_units, j->threads, check_task, j, err);
    return st == GG_OK ? tell(j, 0, sum, err) : st;
}

/* ---- stream ----------------------------------------------------------------------- */

static gg_status stream_unit(purify_unit *u, int fd, gg_error *err)
{
    uint8_t head[GG_RECORD_HEADER];
    gg_status st = gg_write_all(fd, head, gg_record_header(&u->t, head), err);
    return st == GG_OK ? write_data(u, fd, err) : st;
}

/* Works in one pass from front to back, for pipes as input or output. With fd -1 nothing is
 * written. */
static gg_status in_order(purify_job *j, int fd, gg_purify_summary *sum, gg_error *err)
{
    bool planned = gg_source_seekable(j->source), more = true;
    gg_status st = planned ? gg_purify_plan_all(j, err)
                           : gg_select_check(j->o->select, j->source, NULL, &(gg_select_when){ 0 },
                                             err);
    if (planned && st == GG_OK) st = gg_purify_plan_check(j, err);
    for (size_t i = 0; st == GG_OK; i++) {
        st = gg_source_next(j->source, i, &more, err);
        if (st != GG_OK || !more) break;
        size_t first = planned ? j->units[i].first : j->n_rows;
        if (!planned) st = gg_purify_plan(j, i, err);
        if (st == GG_OK)
            st = fd >= 0 ? stream_unit(&j->units[i], fd, err) : check_task(j, i, 0, err);
        if (st == GG_OK && !planned) st = tell(j, first, sum, err);
    }
    if (st == GG_OK && !planned) st = gg_purify_plan_check(j, err);
    if (st == GG_OK && planned) st = tell(j, 0, sum, err);
    return st;
}

gg_status gg_purify_stream(gg_source *s, const gg_purify_options *o, int fd, const gg_run *run,
                           gg_purify_summary *sum, gg_error *err)
{
    o = GG_OPTIONS(gg_purify_options, o);
    run = GG_OPTIONS(gg_run, run);
    sum = GG_REPORT(gg_purify_summary, sum);
    purify_job j;
    *sum = (gg_purify_summary){ 0 };
    gg_status st = job_start(&j, s, o, run, err);
    bool any_order = fd < 0 && gg_source_seekable(s);
    if (st == GG_OK) st = any_order ? check_all(&j, sum, err) : in_order(&j, fd, sum, err);
    if (st == GG_OK) st = gg_source_unchanged(s, err);
    return job_end(&j, st, err);
}

/* The metadata of the source, with the file type of the output. */
static gg_status retyped_meta(const purify_job *j, gg_meta *meta, gg_error *err)
{
    gg_status st = gg_meta_copy(meta, gg_source_meta(j->source), err);
    if (st == GG_OK && j->weighed.used) st = gg_imatrix_keys(j->imatrix, meta, err);
    if (st != GG_OK || !j->o->dtype) return st;
    gg_tensor *list = calloc(j->n_units ? j->n_units : 1, sizeof *list);
    if (!list) return gg_fail(err, GG_ENOMEM, "no memory for a list of tensors");
    for (size_t i = 0; i < j->n_units; i++) list[i] = j->units[i].t;
    st = gg_type_keys_update(meta, list, j->n_units, err);
    free(list);
    return st;
}

/* ---- directory --------------------------------------------------------------------- */

typedef struct dir_record {
    purify_unit *u;
    gg_dir_item *item;
} dir_record;

static gg_status put_experts(const purify_unit *u, gg_buf *b, gg_error *err)
{
    gg_json_out o = gg_json_to_buf(b);
    size_t n = 0;
    for (size_t i = u->first; i < u->first + u->n; i++)
        if (u->job->rows[i].r.outcome == GG_PURIFY_DONE)
            gg_history_expert(&o, n++, u->job->rows[i].expert, err);
    return gg_json_put_text(&o, "]", err);
}

/* Writes {"op": "purify", ...} for a tensor that changed. For experts it lists the changed ones
 * and gives mean values. */
static gg_status note_history(const purify_unit *u, gg_dir_item *item, gg_error *err)
{
    const gg_purify_options *o = u->job->o;
    const gg_tensor *was = gg_source_tensor(u->job->source, u->source);
    double kept = 0, change = 0, n = 0;
    char number[32];
    gg_buf b = GG_BUF_INIT;
    for (size_t i = u->first; i < u->first + u->n; i++) {
        const gg_purify_row *r = &u->job->rows[i].r;
        if (r->outcome != GG_PURIFY_DONE) continue;
        kept += r->energy_kept;
        change += r->rel_l2;
        n++;
    }
    if (n <= 0) return GG_OK;
    gg_format_f64(o->strength, number);
    gg_buf_printf(&b, err, "{\"op\": \"purify\", \"method\": \"%s\", \"strength\": %s",
                  o->method == GG_PURIFY_FFT ? "fft" : "haar", number);
    if (u->t.dtype != was->dtype)
        gg_buf_printf(&b, err, ", \"from_dtype\": \"%s\"", gg_dtype_get(was->dtype)->name);
    if (u->experts) put_experts(u, &b, err);
    gg_format_f64(kept / n, number);
    gg_buf_printf(&b, err, ", \"energy_kept\": %s", number);
    gg_format_f64(change / n, number);
    gg_buf_printf(&b, err, ", \"rel_l2\": %s}", number);
    item->history = gg_buf_take(&b, NULL);
    return err->status;
}

static gg_status make_record(void *ctx, const gg_target *to, gg_error *err)
{
    dir_record *r = ctx;
    gg_status st = gg_purify_unit_run(r->u, (gg_place){ to->fd, to->at }, err);
    return st == GG_OK ? note_history(r->u, r->item, err) : st;
}

static gg_status add_items(purify_job *j, gg_organ_dir *d, dir_record *records, gg_error *err)
{
    gg_status st = GG_OK;
    gg_dir_item *item;
    for (size_t i = 0; i < j->n_units && st == GG_OK; i++) {
        purify_unit *u = &j->units[i];
        gg_selected p = { .t = u->t, .a = gg_source_anatomy(j->source, i), .source = i };
        st = gg_organ_dir_add(d, &p, &item, err);
        if (st != GG_OK || !u->touched) continue;
        item->make = make_record;
        item->ctx = &records[i];
    }
    if (st == GG_OK) st = gg_organ_dir_names(d, err);
    for (size_t i = 0; st == GG_OK && i < j->n_units; i++)
        records[i] = (dir_record){ &j->units[i], &d->items[i] };
    return st;
}

static gg_status fill_dir(purify_job *j, gg_organ_dir *d, gg_meta *meta, gg_error *err)
{
    dir_record *records = calloc(j->n_units ? j->n_units : 1, sizeof *records);
    if (!records) return gg_fail(err, GG_ENOMEM, "no memory for a list of %zu tensors", j->n_units);
    gg_status st = add_items(j, d, records, err);
    if (st == GG_OK && gg_source_meta(j->source) && (j->o->dtype || j->weighed.used)) {
        st = retyped_meta(j, meta, err);
        d->meta = meta;
    }
    if (st == GG_OK) st = gg_organ_dir_check(d, err);
    if (st == GG_OK) st = gg_organ_dir_records(d, err);
    free(records);
    return st;
}

gg_status gg_purify_dir(gg_source *s, const gg_purify_options *o, const char *dir,
                        const gg_run *run, gg_purify_summary *sum, gg_error *err)
{
    o = GG_OPTIONS(gg_purify_options, o);
    run = GG_OPTIONS(gg_run, run);
    sum = GG_REPORT(gg_purify_summary, sum);
    purify_job j;
    gg_organ_dir d;
    gg_meta meta = GG_META_INIT;
    *sum = (gg_purify_summary){ 0 };
    gg_status st = job_start(&j, s, o, run, err);
    if (st == GG_OK) st = gg_purify_plan_all(&j, err);
    if (st == GG_OK) st = gg_purify_plan_check(&j, err);
    if (st == GG_OK) st = gg_organ_dir_open(&d, s, dir, run, err);
    if (st != GG_OK) return job_end(&j, st, err);
    d.whole = true;
    st = fill_dir(&j, &d, &meta, err);
    st = gg_organ_dir_close(&d, st, err);
    if (st == GG_EIO) gg_at_file(err, dir);
    gg_meta_free(&meta);
    if (st == GG_OK) st = tell(&j, 0, sum, err);
    return job_end(&j, st, err);
}

/* ---- GGUF ---------------------------------------------------------------------------- */

static gg_status make(void *ctx, const gg_target *to, gg_error *err)
{
    return gg_purify_unit_run(ctx, (gg_place){ to->fd, to->at }, err);
}

static gg_status plan_units(purify_job *j, gg_plan *p, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < j->n_units && st == GG_OK; i++) {
        purify_unit *u = &j->units[i];
        gg_plan_tensor *pt;
        gg_plan_part part = { j->source, u->source, 0, u->t.bytes, NULL };
        st = gg_plan_add(p, &u->t, &pt, err);
        if (st != GG_OK) break;
        if (u->touched) {
            pt->make = make;
            pt->ctx = u;
        } else {
            st = gg_plan_add_part(pt, &part, err);
        }
    }
    return st;
}

static gg_status write_model(purify_job *j, const char *path, gg_error *err)
{
    gg_plan p = { 0 };
    gg_meta meta = GG_META_INIT;
    uint64_t written;
    gg_status st = plan_units(j, &p, err);
    if (st == GG_OK) st = retyped_meta(j, &meta, err);
    if (st == GG_OK)
        st = gg_plan_changed_file(&p, path, gg_source_header(j->source)->version, &meta, j->source,
                                  err);
    if (st == GG_OK) st = gg_watch_add(&p.watch, j->source, err);
    if (st == GG_OK) st = gg_plan_write(&p, j->run, &written, err);
    gg_meta_free(&meta);
    gg_plan_free(&p);
    return st;
}

gg_status gg_purify_model(gg_source *s, const gg_purify_options *o, const char *path,
                          const gg_run *run, gg_purify_summary *sum, gg_error *err)
{
    o = GG_OPTIONS(gg_purify_options, o);
    run = GG_OPTIONS(gg_run, run);
    sum = GG_REPORT(gg_purify_summary, sum);
    purify_job j;
    *sum = (gg_purify_summary){ 0 };
    if (!gg_source_model(s)) {
        gg_fail(err, GG_EUSAGE, "only a GGUF file can be purified into a GGUF file");
        gg_fix(err, "purify into a directory, then assemble it with organ-assemble");
        return gg_at_file(err, gg_source_name(s));
    }
    gg_status st = job_start(&j, s, o, run, err);
    if (st == GG_OK) st = gg_purify_plan_all(&j, err);
    if (st == GG_OK) st = gg_purify_plan_check(&j, err);
    if (st == GG_OK) st = write_model(&j, path, err);
    if (st == GG_OK) st = tell(&j, 0, sum, err);
    return job_end(&j, st, err);
}

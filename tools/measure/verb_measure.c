/* verb_measure.c - measures a model. Threads take tensors in order, each thread measures its own
 * tensor, and rows are delivered in the order of the tensors. The same loop serves files and pipes.
 * Only one thread can read a pipe, so its values are read while the lock `draw` is held. */
#include "base/text.h"
#include "measure_core.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/io.h"
#include "base/parallel.h"
#include "numeric/numeric.h"
#include "organ/record.h"
#include "organ/select.h"
#include "organ/source_layout.h"
#include "organ/source_watch.h"
#include "rowtheta.h"
#include "write/verb_run.h"

#include <stdlib.h>
#include <string.h>

typedef struct done_row { /* measured, but an earlier row is not finished yet */
    struct done_row *next;
    uint64_t no;
    uint64_t count; /* of its samples, for the null model */
    gg_tensor_measure row;
    char name[GG_RECORD_NAME + 1];
} done_row;

typedef struct job {
    gg_source *source;
    const gg_measure_options *o;
    gg_imatrix *imatrix; /* NULL: no importance is computed */
    const gg_run *run;
    unsigned threads;
    uint64_t small;        /* bytes of a tensor that is a small part of the selected ones */
    measure_space *spaces; /* one per worker */
    pthread_mutex_t draw;  /* guards all members down to `stop` */
    size_t next;           /* the next tensor */
    gg_selected *pieces;   /* pieces of the tensor before `next` */
    size_t n_pieces, piece, cap;
    uint64_t drawn;
    bool stop;
    pthread_mutex_t many; /* held while GG_MEASURE_BIG or more values are measured or held */
    gg_measure_room room; /* guarded by `many` */
    measure_histogram histogram;
    pthread_mutex_t leave; /* guards the remaining members */
    uint64_t left;         /* rows delivered */
    done_row *waiting;     /* sorted by `no` */
    done_row *last;        /* last of the waiting rows */
    measure_null null;
    uint64_t noted; /* bit set of dtypes already reported; those from 63 on share a bit */
    gg_measure_report *report;
} job;

/* ---- drawing ------------------------------------------------------------------ */

static gg_status add_selected(void *ctx, const gg_selected *p, gg_error *err)
{
    job *j = ctx;
    if (GG_ROOM(j->pieces, j->n_pieces, &j->cap, err) != GG_OK) return GG_ENOMEM;
    j->pieces[j->n_pieces++] = *p;
    return GG_OK;
}

/* The tensor or expert that was drawn; `more` is false if none was left. */
typedef struct drawn {
    gg_selected p;
    uint64_t no;
    bool more;
} drawn;

/* Draws and numbers the next selected tensor or expert; d->more is false at the end. */
static gg_status draw(job *j, drawn *d, gg_error *err)
{
    gg_status st = GG_OK;
    d->more = !j->stop;
    while (d->more && j->piece == j->n_pieces) {
        st = gg_source_next(j->source, j->next, &d->more, err);
        if (st != GG_OK || !d->more) break;
        j->piece = j->n_pieces = 0;
        gg_visit visit = { j->o->select, j->o->split_experts, add_selected, j };
        st = gg_selected_of(j->source, j->next, &visit, err);
        if (st != GG_OK) break;
        j->next++;
    }
    if (st != GG_OK || !d->more) {
        j->stop = true;
        d->more = false;
        return st;
    }
    d->p = j->pieces[j->piece++];
    d->p.t.name = d->p.name;
    d->no = j->drawn++;
    return GG_OK;
}

/* ---- leaving ------------------------------------------------------------------ */

/* Tools print "-" for a dtype that no codec decodes; this note explains it once. */
static void note_undecoded(job *j, const gg_tensor *t)
{
    uint64_t bit = UINT64_C(1) << (t->dtype < 63 ? t->dtype : 63);
    if (j->noted & bit) return;
    j->noted |= bit;
    const gg_dtype_info *info = gg_dtype_get(t->dtype);
    gg_note(j->run, "no codec decodes type %u (%s): its tensors are listed but not measured",
            t->dtype, info ? info->name : "unknown");
}

static gg_status hand_on(job *j, const gg_tensor_measure *row, gg_error *err)
{
    j->report->tensors++;
    j->report->undecoded += !row->decoded;
    j->report->elements += row->t.elements;
    j->report->sampled += row->m.sampled;
    if (!row->decoded) note_undecoded(j, &row->t);
    return j->o->row ? j->o->row(j->o->ctx, row, err) : GG_OK;
}

double gg_calibrated(double theta, double null_theta)
{
    if (!(theta > null_theta) || null_theta >= 90.0) return 0.0;
    return 90.0 * (theta - null_theta) / (90.0 - null_theta);
}

/* Adds what depends on the null model. */
static gg_status calibrate(job *j, done_row *d, gg_error *err)
{
    gg_tensor_measure *row = &d->row;
    if (!row->decoded) return GG_OK;
    bool big = d->count >= GG_MEASURE_BIG;
    if (big) pthread_mutex_lock(&j->many);
    gg_status st = gg_measure_null_theta(&j->null, &j->room, row->t.dtype, d->count,
                                         &row->null_theta, err);
    if (big) pthread_mutex_unlock(&j->many);
    if (st == GG_OK) row->calibrated = gg_calibrated(row->m.theta, row->null_theta);
    return st;
}

/* Rows that are finished early wait in a list. */
static gg_status leave(job *j, uint64_t no, const gg_tensor_measure *row, uint64_t count,
                       gg_error *err)
{
    done_row *d = malloc(sizeof *d);
    if (!d) return gg_fail(err, GG_ENOMEM, "no memory for a row");
    *d = (done_row){ .no = no, .count = count, .row = *row };
    gg_text_copy(d->name, sizeof d->name, row->t.name, row->t.name_len);
    d->row.t.name = d->name;
    gg_status st = GG_OK;
    pthread_mutex_lock(&j->leave);
    /* Most rows belong at the end of the list, which can be long behind one huge tensor. */
    done_row **at = j->waiting && j->last->no < no ? &j->last->next : &j->waiting;
    while (*at && (*at)->no < no) at = &(*at)->next;
    d->next = *at;
    *at = d;
    if (!d->next) j->last = d;
    while (st == GG_OK && j->waiting && j->waiting->no == j->left) {
        done_row *first = j->waiting;
        st = calibrate(j, first, err);
        if (st == GG_OK) st = hand_on(j, &first->row, err);
        j->waiting = first->next;
        j->left++;
        free(first);
    }
    pthread_mutex_unlock(&j->leave);
    return st;
}

/* ---- measuring ------------------------------------------------------------------ */

/* A piece that a thread is working on. */
typedef struct work {
    drawn d;
    measure_take take;
    edge_taker edge;
    importance_taker importance;
    gg_data data;
    bool open;  /* `data` is open */
    bool held;  /* `many` is held */
    bool alone; /* one thread measures many values, while others measure other tensors */
} work;

static void hold(job *j, work *k)
{
    if (!k->held) pthread_mutex_lock(&j->many);
    k->held = true;
}

static gg_status measure_row(job *j, work *k, measure_space *w, gg_tensor_measure *row,
                             gg_error *err)
{
    const measure_take *take = &k->take;
    const gg_selected *p = &k->d.p;
    gg_status st = GG_OK;
    double weight = take->count ? (double)p->t.elements / (double)take->count : 0;
    gg_measure_room own = { .threads = 1 };
    if (take->count >= GG_MEASURE_BIG && !k->alone) hold(j, k);
    if (take->later) st = gg_measure_each(&k->data, p, &j->histogram, err);
    else gg_histogram_add(&j->histogram, p->t.a.cls, take->values, (size_t)take->count, weight);
    if (st != GG_OK) return st;
    if (take->later)
        st = gg_measure_data(k->alone ? &own : &j->room, &k->data, p, j->run, &row->m, err);
    else if (take->count >= GG_MEASURE_BIG)
        st = gg_measure_array(&j->room, take->values, take->count, &row->m, err);
    else gg_measure_values(take->values, (size_t)take->count, w->scratch, &row->m);
    row->row_theta = gg_row_theta_degrees(&take->rows);
    return st;
}

/* Decides how many values are sampled and when, finds a place for the samples, and starts with the
 * columns that are wanted. If all of many values are needed, they have no place in memory, because
 * they are read while they are measured. */
static gg_status make_room(job *j, work *k, gg_error *err)
{
    const gg_tensor *t = &k->d.p.t;
    measure_take *take = &k->take;
    uint64_t matrix = j->o->spectral ? gg_edge_values(t, GG_EDGE_MOST) : 0, n;
    bool weighed = false;
    take->o = j->o;
    gg_measure_plan(t, j->o, take);
    n = take->count;
    take->later = n == t->elements && n >= GG_MEASURE_BIG;
    k->alone = take->later && t->bytes <= j->small && gg_measure_needs_little(t->dtype);
    if ((take->later ? !k->alone : n > MEASURE_SHARED) || matrix > MEASURE_SHARED) hold(j, k);
    if (!take->later) {
        take->values = n < SIZE_MAX / 4 ? malloc(((size_t)n + 1) * sizeof(float)) : NULL;
        if (!take->values) {
            gg_fail(err, GG_ENOMEM, "no memory for %llu values of a tensor", (unsigned long long)n);
            return gg_fix(err, "read fewer values (--sample 100000)");
        }
    }
    gg_status st = gg_importance_start(&k->importance, j->imatrix, t, &weighed, err);
    if (weighed) take->importance = &k->importance;
    if (st != GG_OK || matrix == 0) return st;
    take->edge = &k->edge;
    return gg_edge_start(&k->edge, t, GG_EDGE_MOST, k->held ? j->threads : 1, err);
}

/* Reads the samples and the rows. A pipe is copied first if its values are read again later. */
static gg_status read_piece(job *j, measure_space *w, work *k, gg_error *err)
{
    const gg_selected *p = &k->d.p;
    gg_status st = make_room(j, k, err);
    if (st == GG_OK) st = gg_data_open(j->source, p->source, &k->data, err);
    k->open = st == GG_OK;
    if (st == GG_OK && k->take.later) st = gg_data_spool(&k->data, p->at, p->t.bytes, err);
    return st == GG_OK ? gg_measure_collect(&k->data, p, w, j->run, &k->take, err) : st;
}

/* Draws a piece and reads its samples. With a pipe, both happen under one lock, because the next
 * draw would skip the values. */
static gg_status draw_and_take(job *j, measure_space *w, work *k, gg_error *err)
{
    pthread_mutex_lock(&j->draw);
    gg_status st = draw(j, &k->d, err);
    const gg_selected *p = &k->d.p;
    bool pipe = !gg_source_seekable(j->source),
         take_it = st == GG_OK && k->d.more && gg_can_decode(p->t.dtype);
    if (!pipe) pthread_mutex_unlock(&j->draw);
    if (take_it) st = read_piece(j, w, k, err);
    if (pipe) pthread_mutex_unlock(&j->draw);
    return st;
}

static gg_status one(job *j, measure_space *w, bool *more, gg_error *err)
{
    work k = { 0 };
    const gg_selected *p = &k.d.p;
    gg_status st = draw_and_take(j, w, &k, err);
    *more = k.d.more;
    bool deliver = st == GG_OK && *more && !j->o->read;
    if (*more && j->o->read) {
        pthread_mutex_lock(&j->leave);
        j->report->tensors++;
        pthread_mutex_unlock(&j->leave);
    }
    gg_tensor_measure row = { 0 };
    if (deliver) {
        row = (gg_tensor_measure){ .t = p->t,
                                   .source = p->source,
                                   .decoded = gg_can_decode(p->t.dtype) };
        if (row.decoded) st = measure_row(j, &k, w, &row, err);
        else gg_progress_add(j->run, p->t.bytes);
    }
    row.edge = gg_edge_end(&k.edge);
    row.importance = gg_importance_end(&k.importance);
    if (k.open) gg_data_close(&k.data);
    free(k.take.values);
    if (k.held) pthread_mutex_unlock(&j->many);
    if (deliver && st == GG_OK) st = leave(j, k.d.no, &row, k.take.count, err);
    return st;
}

static gg_status worker(void *ctx, size_t i, unsigned id, gg_error *err)
{
    (void)i;
    job *j = ctx;
    bool more = true;
    gg_status st = GG_OK;
    while (more && st == GG_OK) st = one(j, &j->spaces[id], &more, err);
    if (st != GG_OK) {
        pthread_mutex_lock(&j->draw);
        j->stop = true;
        pthread_mutex_unlock(&j->draw);
    }
    return st;
}

/* ---- the verb ------------------------------------------------------------------- */

static gg_status run_job(job *j, gg_error *err)
{
    j->room.threads = j->threads;
    j->spaces = malloc(j->threads * sizeof *j->spaces);
    if (!j->spaces) return gg_fail(err, GG_ENOMEM, "no memory for %u threads", j->threads);
    if (j->o->histograms && gg_histogram_start(&j->histogram, err) != GG_OK) {
        free(j->spaces);
        return err->status;
    }
    pthread_mutex_init(&j->draw, NULL);
    pthread_mutex_init(&j->many, NULL);
    pthread_mutex_init(&j->leave, NULL);
    gg_status st = gg_parallel(j->threads, j->threads, worker, j, err);
    while (j->waiting) {
        done_row *next = j->waiting->next;
        free(j->waiting);
        j->waiting = next;
    }
    gg_histogram_end(&j->histogram, st == GG_OK ? j->o->histograms : NULL);
    pthread_mutex_destroy(&j->leave);
    pthread_mutex_destroy(&j->many);
    pthread_mutex_destroy(&j->draw);
    gg_measure_null_free(&j->null);
    gg_measure_room_free(&j->room);
    free(j->spaces);
    free(j->pieces);
    return st;
}

gg_status gg_measure_model(gg_source *s, const gg_measure_options *o, const gg_run *run,
                           gg_measure_report *report, gg_error *err)
{
    o = GG_OPTIONS(gg_measure_options, o);
    report = GG_REPORT(gg_measure_report, report);
    *report = (gg_measure_report){ 0 };
    job j = { .source = s, .o = o, .run = run, .report = report };
    j.threads = o->read ? 1 : run && run->threads ? run->threads : gg_thread_count();
    gg_select_when when = { .split_experts = o->split_experts };
    gg_status st = gg_select_check(o->select, s, NULL, &when, err);
    uint64_t bytes = gg_selected_bytes(s, o->select);
    gg_progress_total(run, bytes);
    j.small = bytes / 8 / j.threads; /* not 0: there is a thread */
    when.end = true;
    if (st == GG_OK && o->imatrix) st = gg_imatrix_open(o->imatrix, &j.imatrix, err);
    if (st == GG_OK) st = run_job(&j, err);
    gg_imatrix_close(j.imatrix);
    if (st == GG_OK) st = gg_select_check(o->select, s, NULL, &when, err);
    if (st == GG_OK) st = gg_source_unchanged(s, err);
    if (st != GG_OK) return st;
    if (report->tensors || gg_select_empty(o->select)) return GG_OK;
    gg_fail(err, GG_NO, "no tensor is selected");
    gg_fix_by(err, "list", "list the names of its tensors");
    return gg_at_file(err, gg_source_name(s));
}

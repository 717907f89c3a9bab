/* verb_compare.c - compares two models, one row per tensor.
 *
 * Pairs are gathered into a batch and divided into tasks that any thread may take. The rows are
 * delivered in order. Chunks of the same dtype are first compared as bytes, so a pair that is
 * entirely equal is never decoded. If a pair differs, the equal chunks that were skipped are summed
 * in a second round. A pipe cannot be read again, so everything is summed at once there; the sums
 * are the same.
 */
#include "compare_core.h"

#include "base/error.h"
#include "base/io.h"
#include "base/parallel.h"
#include "numeric/numeric.h"
#include "organ/select.h"
#include "verbs/shared/verb_run.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct task {
    uint32_t pair;
    bool equal; /* all its bytes are equal, and it was not summed */
    gg_compare sum;
    double weighted[2];
} task;

typedef struct space { /* buffers of one thread */
    uint8_t *raw[2];   /* COMPARE_RAW bytes each */
    float *values[2];  /* COMPARE_CHUNK values each */
} space;

typedef struct job {
    gg_source *source[2]; /* A and B */
    int pipe;             /* index of the source that is a pipe; -1 if neither is */
    uint64_t sample;
    const gg_run *run;
    unsigned threads;
    space *spaces;
    compare_pair *pairs; /* the batch, with room for COMPARE_PAIRS */
    size_t n_pairs;
    uint64_t n_tasks;
    task *tasks;
    size_t cap_tasks;
    size_t *todo;         /* second round: indices of tasks, or of pairs */
    pthread_mutex_t draw; /* held so that tasks of a pipe are drawn and read in order */
    size_t drawn;
    const gg_compare_options *o;
    gg_imatrix *imatrix; /* NULL: no damage is predicted */
    uint64_t weights;    /* bytes of weights in the batch */
    gg_compare_report *report;
} job;

/* ---- reading -------------------------------------------------------------------- */

typedef struct reader { /* one pair, one thread */
    job *j;
    compare_pair *p;
    space *w;
    gg_data d[2];
} reader;

static const gg_selected *selected_of(const compare_pair *p, int k)
{
    return k ? &p->b : &p->a;
}

static gg_status reader_open(reader *r, job *j, compare_pair *p, space *w, gg_error *err)
{
    *r = (reader){ .j = j, .p = p, .w = w };
    gg_status st = gg_data_open(j->source[0], p->a.source, &r->d[0], err);
    if (st != GG_OK) return st;
    st = gg_data_open(j->source[1], p->b.source, &r->d[1], err);
    if (st != GG_OK) gg_data_close(&r->d[0]);
    return st;
}

static void reader_close(reader *r)
{
    gg_data_close(&r->d[0]);
    gg_data_close(&r->d[1]);
}

static uint64_t bytes_of(const compare_cut *c, const gg_tensor *t, uint64_t values)
{
    const gg_dtype_info *i = gg_dtype_get(t->dtype);
    return c->decodes ? values / i->block_elems * i->block_bytes : values;
}

/* Compares the bytes [from, to) of both tensors and sets p->differs if they are not equal. Each
 * `buf` has COMPARE_CHUNK * 4 bytes. */
static gg_status compare_bytes(reader *r, uint64_t from, uint64_t to, void *const buf[2],
                               gg_error *err)
{
    size_t most = (size_t)COMPARE_CHUNK * sizeof(float);
    gg_status st = GG_OK;
    while (from < to && st == GG_OK && !atomic_load(&r->p->differs)) {
        size_t n = to - from < most ? (size_t)(to - from) : most;
        st = gg_cancelled(err);
        for (int k = 0; k < 2 && st == GG_OK; k++)
            st = gg_data_read(&r->d[k], selected_of(r->p, k)->at + from, buf[k], n, err);
        if (st == GG_OK && memcmp(buf[0], buf[1], n) != 0) atomic_store(&r->p->differs, true);
        from += n;
    }
    return st;
}

/* Compares the bytes between samples on a pipe, which cannot be read again later. */
static gg_status pass_gap(reader *r, uint64_t to, gg_error *err)
{
    if (r->j->pipe < 0 || !r->p->cut.same_type) return GG_OK;
    void *const buf[2] = { r->w->values[0], r->w->values[1] }; /* free until the chunk is read */
    return r->p->passed < to ? compare_bytes(r, r->p->passed, to, buf, err) : GG_OK;
}

/* Reads chunk k of both tensors into raw; *n receives the number of values. */
static gg_status load(reader *r, uint64_t k, size_t *n, gg_error *err)
{
    const compare_cut *c = &r->p->cut;
    uint64_t first, count;
    *n = 0;
    gg_status st = gg_cancelled(err);
    for (uint64_t i = 0; st == GG_OK && gg_compare_run(c, k, i, &first, &count); i++) {
        st = pass_gap(r, bytes_of(c, &r->p->a.t, first), err);
        for (int s = 0; s < 2 && st == GG_OK; s++) {
            const gg_selected *p = selected_of(r->p, s);
            st = gg_data_read(&r->d[s], p->at + bytes_of(c, &p->t, first),
                              r->w->raw[s] + bytes_of(c, &p->t, *n),
                              (size_t)bytes_of(c, &p->t, count), err);
        }
        if (r->j->pipe >= 0) r->p->passed = bytes_of(c, &r->p->a.t, first + count);
        *n += (size_t)count;
    }
    if (st == GG_OK && k + 1 == c->chunks) st = pass_gap(r, r->p->a.t.bytes, err);
    return st;
}

/* ---- one task ------------------------------------------------------------------- */

/* Decodes a chunk while it is compared. `same`: the bytes of both are equal; `keep`: all of its
 * values are needed again. */
typedef struct decoder {
    const reader *r;
    bool same, keep;
    gg_status st;
    gg_error *err;
} decoder;

static void decode_block(void *ctx, size_t at, size_t n, const float *x[2])
{
    decoder *d = ctx;
    for (int k = 0; k < 2; k++) {
        const gg_tensor *t = &selected_of(d->r->p, k)->t;
        float *to = d->r->w->values[k] + (d->keep ? at : 0);
        const uint8_t *raw = d->r->w->raw[k] + bytes_of(&d->r->p->cut, t, at);
        x[k] = k && d->same ? x[0] : to;
        if (x[k] == to && d->st == GG_OK) d->st = gg_decode(t->dtype, raw, to, n, d->err);
    }
}

static gg_status add_chunk(reader *r, bool same, uint64_t k, size_t n, task *t, gg_error *err)
{
    decoder d = { r, same, gg_column_weights_any(&r->p->weights), GG_OK, err };
    bool exact = r->p->a.t.dtype == GG_F16 && r->p->b.t.dtype == GG_F16;
    gg_compare_read(&t->sum, decode_block, &d, n, exact);
    float *const *v = r->w->values;
    if (d.keep && d.st == GG_OK) gg_damage_add(r->p, k, v[0], v[same ? 0 : 1], t->weighted);
    return d.st;
}

/* Compares the chunks of a task. Sums them as soon as one differs, or from the start. If `lock` is
 * given, the caller holds it, and it is released when everything has been read. */
static gg_status run_chunks(reader *r, task *t, uint64_t no, bool summing, pthread_mutex_t *lock,
                            gg_error *err)
{
    const compare_cut *c = &r->p->cut;
    uint64_t lo = no * c->group, hi = lo + c->group < c->chunks ? lo + c->group : c->chunks;
    gg_status st = GG_OK;
    t->sum = (gg_compare)GG_COMPARE_INIT;
    t->weighted[0] = t->weighted[1] = 0;
    for (uint64_t k = lo; k < hi && st == GG_OK; k++) {
        size_t n;
        st = load(r, k, &n, err);
        if (lock && k + 1 == hi) {
            pthread_mutex_unlock(lock);
            lock = NULL;
        }
        if (st != GG_OK) break;
        bool same = c->same_type &&
                    memcmp(r->w->raw[0], r->w->raw[1], (size_t)bytes_of(c, &r->p->a.t, n)) == 0;
        if (c->same_type && !same) atomic_store(&r->p->differs, true);
        if (!c->decodes) continue;
        if (!summing && !same) {
            summing = true;
            if (k > lo) { /* go back to the skipped chunks; never on a pipe */
                k = lo - 1;
                continue;
            }
        }
        if (summing) st = add_chunk(r, same, k, n, t, err);
    }
    t->equal = !summing;
    if (lock) pthread_mutex_unlock(lock);
    return st;
}

static gg_status run_task(job *j, size_t i, unsigned worker, pthread_mutex_t *lock, gg_error *err)
{
    task *t = &j->tasks[i];
    compare_pair *p = &j->pairs[t->pair];
    bool known = atomic_load(&p->differs), needed = p->cut.decodes || !known;
    reader r;
    gg_status st = needed ? reader_open(&r, j, p, &j->spaces[worker], err) : GG_OK;
    if (!needed || st != GG_OK) {
        if (lock) pthread_mutex_unlock(lock);
        return st;
    }
    bool summing = known || lock || !p->cut.same_type || gg_column_weights_any(&p->weights);
    st = run_chunks(&r, t, i - p->first_task, summing, lock, err);
    reader_close(&r);
    return st;
}

static gg_status first_round(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    job *j = ctx;
    const compare_pair *p = &j->pairs[j->tasks[i].pair];
    gg_progress_add(j->run, p->a.t.bytes / p->cut.tasks);
    if (j->pipe < 0) return run_task(j, i, worker, NULL, err);
    pthread_mutex_lock(&j->draw);
    return run_task(j, j->drawn++, worker, &j->draw, err);
}

static gg_status second_round(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    job *j = ctx;
    return run_task(j, j->todo[i], worker, NULL, err);
}

/* For a pair whose sampled rows are all equal: compares the remaining bytes. */
static gg_status verify(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    job *j = ctx;
    compare_pair *p = &j->pairs[j->todo[i]];
    reader r;
    gg_status st = reader_open(&r, j, p, &j->spaces[worker], err);
    if (st != GG_OK) return st;
    void *const buf[2] = { r.w->raw[0], r.w->raw[1] };
    st = compare_bytes(&r, 0, p->a.t.bytes, buf, err);
    reader_close(&r);
    return st;
}

/* ---- a batch -------------------------------------------------------------------- */

/* Sums are complete unless all measured values have the same bits. In that case equal chunks may
 * have been skipped, and a pipe must not report more about them than a file. */
static void measure(const job *j, const compare_pair *p, gg_compare_row *row)
{
    gg_compare sum = GG_COMPARE_INIT;
    double weighted[2] = { 0, 0 };
    for (uint64_t i = 0; i < p->cut.tasks; i++) {
        const task *t = &j->tasks[p->first_task + i];
        gg_compare_merge(&sum, &t->sum);
        for (int k = 0; k < 2; k++) weighted[k] += t->weighted[k];
    }
    gg_compare_result m = gg_compare_finish(&sum);
    uint64_t out = m.identical ? 0 : sum.nonfinite, n = p->cut.taken * p->cut.row;
    row->measured = out < n || n == 0;
    gg_damage_of(p, weighted, row);
    if (!row->measured) return;
    row->compared = n - out;
    row->cosine = m.identical ? 1.0 : m.cosine;
    row->rel_l2 = m.rel_l2;
    row->max_abs = m.maxabs;
}

static gg_status emit(job *j, const compare_pair *p, gg_error *err)
{
    gg_compare_row row = { .status = gg_compare_sameness(p),
                           .damage = NAN,
                           .a = p->has_a ? &p->a.t : NULL,
                           .b = p->has_b ? &p->b.t : NULL };
    row.anatomy = p->has_a ? p->a.a : p->b.a;
    if (p->has_a && p->has_b && p->cut.decodes) measure(j, p, &row);
    j->report->tensors++;
    j->report->by[row.status]++;
    return j->o->row ? j->o->row(j->o->row_ctx, &row, err) : GG_OK;
}

static gg_status make_tasks(job *j, gg_error *err)
{
    size_t n = (size_t)j->n_tasks, most = n > j->n_pairs ? n : j->n_pairs;
    if (most > j->cap_tasks) {
        free(j->tasks);
        free(j->todo);
        j->tasks = malloc(most * sizeof *j->tasks);
        j->todo = malloc(most * sizeof *j->todo);
        j->cap_tasks = j->tasks && j->todo ? most : 0;
        if (!j->cap_tasks) return gg_fail(err, GG_ENOMEM, "no memory for %zu tasks", most);
    }
    for (size_t i = 0; i < j->n_pairs; i++)
        for (uint64_t k = 0; k < j->pairs[i].cut.tasks; k++)
            j->tasks[j->pairs[i].first_task + k] = (task){ .pair = (uint32_t)i,
                                                           .sum = GG_COMPARE_INIT };
    return GG_OK;
}

static void end_batch(job *j)
{
    for (size_t i = 0; i < j->n_pairs; i++) gg_column_weights_close(&j->pairs[i].weights);
    j->n_pairs = 0;
    j->n_tasks = 0;
    j->weights = 0;
}

static gg_status run_batch(job *j, gg_error *err)
{
    size_t n = 0;
    gg_status st = make_tasks(j, err);
    j->drawn = 0;
    if (st == GG_OK) st = gg_parallel((size_t)j->n_tasks, j->threads, first_round, j, err);
    for (size_t i = 0; i < j->n_tasks && st == GG_OK; i++) {
        const compare_pair *p = &j->pairs[j->tasks[i].pair];
        if (j->tasks[i].equal && p->cut.decodes && atomic_load(&p->differs)) j->todo[n++] = i;
    }
    if (st == GG_OK && n) st = gg_parallel(n, j->threads, second_round, j, err);
    n = 0;
    for (size_t i = 0; i < j->n_pairs && j->pipe < 0 && st == GG_OK; i++) {
        const compare_pair *p = &j->pairs[i];
        if (p->cut.same_type && p->cut.taken < p->cut.rows && !atomic_load(&p->differs))
            j->todo[n++] = i;
    }
    if (st == GG_OK && n) st = gg_parallel(n, j->threads, verify, j, err);
    for (size_t i = 0; i < j->n_pairs && st == GG_OK; i++) st = emit(j, &j->pairs[i], err);
    end_batch(j);
    return st;
}

static gg_status add_pair(void *ctx, const compare_pair *p, gg_error *err)
{
    job *j = ctx;
    compare_pair *to = &j->pairs[j->n_pairs++];
    gg_selected_copy(&to->a, &p->a);
    gg_selected_copy(&to->b, &p->b);
    to->has_a = p->has_a;
    to->has_b = p->has_b;
    to->cut = p->has_a && p->has_b ? gg_compare_cut(&p->a.t, &p->b.t, j->sample)
                                   : (compare_cut){ 0 };
    to->first_task = j->n_tasks;
    to->passed = 0;
    atomic_init(&to->differs, false);
    j->n_tasks += to->cut.tasks;
    to->weights = (gg_column_weights){ 0 };
    if (to->cut.decodes) {
        gg_status st = gg_column_weights_open(&to->weights, j->imatrix, &p->a.t, err);
        if (st != GG_OK) return st;
    }
    j->weights += gg_column_weights_bytes(&to->weights);
    bool full = j->n_pairs == COMPARE_PAIRS || j->n_tasks >= COMPARE_BATCH ||
                j->weights >= COMPARE_WEIGHTS;
    return full ? run_batch(j, err) : GG_OK;
}

/* ---- the verb ------------------------------------------------------------------- */

static gg_status job_start(job *j, const gg_run *run, gg_error *err)
{
    j->threads = run && run->threads ? run->threads : gg_thread_count();
    pthread_mutex_init(&j->draw, NULL);
    j->pairs = calloc(COMPARE_PAIRS, sizeof *j->pairs);
    j->spaces = calloc(j->threads, sizeof *j->spaces);
    bool ok = j->pairs && j->spaces;
    if (ok && j->o->imatrix && gg_imatrix_open(j->o->imatrix, &j->imatrix, err) != GG_OK)
        return err->status;
    for (unsigned i = 0; ok && i < j->threads; i++)
        for (int k = 0; k < 2; k++) {
            j->spaces[i].raw[k] = malloc(COMPARE_RAW);
            j->spaces[i].values[k] = malloc((size_t)COMPARE_CHUNK * sizeof(float));
            ok = ok && j->spaces[i].raw[k] && j->spaces[i].values[k];
        }
    return ok ? GG_OK
              : gg_fail(err, GG_ENOMEM, "out of memory for %u threads; use fewer", j->threads);
}

static void job_end(job *j)
{
    if (j->pairs) end_batch(j);
    gg_imatrix_close(j->imatrix);
    for (unsigned i = 0; j->spaces && i < j->threads; i++)
        for (int k = 0; k < 2; k++) {
            free(j->spaces[i].raw[k]);
            free(j->spaces[i].values[k]);
        }
    free(j->spaces);
    free(j->pairs);
    free(j->tasks);
    free(j->todo);
    pthread_mutex_destroy(&j->draw);
}

static gg_status refuse_pipes(gg_source *a, gg_source *b, bool any, bool b_may, gg_error *err)
{
    bool pa = !gg_source_seekable(a), pb = !gg_source_seekable(b);
    if (any && !(pa && pb) && (b_may || !pb)) return GG_OK;
    if (!any && !pa && !pb) return GG_OK;
    if (!any || (pa && pb))
        gg_fail(err, GG_EUSAGE,
                any ? "only one of the two can be a pipe" : "a pipe can only be read in order");
    else gg_fail(err, GG_EUSAGE, "with a map of blocks, only the first model can be a pipe");
    gg_fix(err, "store the model in a file");
    return gg_at_file(err, gg_source_name(pa && !pb ? a : b));
}

/* On a pipe, a batch ends after each tensor, because the data of the next one is not available
 * yet. */
static gg_status run_models(job *j, compare_pairer *pr, gg_error *err)
{
    gg_status st = GG_OK;
    bool more = true;
    for (size_t i = 0; st == GG_OK; i++) {
        st = gg_source_next(pr->lead, i, &more, err);
        if (st != GG_OK || !more) break;
        st = gg_pair_lead(pr, i, err);
        if (st == GG_OK && j->pipe >= 0) st = run_batch(j, err);
    }
    if (st == GG_OK) st = gg_pair_rest(pr, err);
    return st == GG_OK ? run_batch(j, err) : st;
}

static void whole_tensor(gg_selected *p, const gg_source *s, size_t i)
{
    *p = (gg_selected){ .t = *gg_source_tensor(s, i), .a = gg_source_anatomy(s, i), .source = i };
}

/* Compares the pairs that the options name. */
static gg_status run_pairs(job *j, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < j->o->n_pairs && st == GG_OK; i++) {
        compare_pair p = { .has_a = true, .has_b = true };
        whole_tensor(&p.a, j->source[0], j->o->pairs[i].a);
        whole_tensor(&p.b, j->source[1], j->o->pairs[i].b);
        st = add_pair(j, &p, err);
    }
    return st == GG_OK ? run_batch(j, err) : st;
}

/* Compares the tensors that have equal names. */
static gg_status run_named(job *j, gg_error *err)
{
    bool b_leads = j->pipe == 1;
    compare_pairer pr = { .lead = j->source[b_leads],
                          .other = j->source[!b_leads],
                          .b_leads = b_leads,
                          .o = j->o,
                          .fn = add_pair,
                          .ctx = j };
    gg_progress_total(j->run, gg_selected_bytes(pr.lead, j->o->select));
    gg_status st = run_models(j, &pr, err);
    gg_pair_free(&pr);
    return st;
}

gg_status gg_compare_models(gg_source *a, gg_source *b, const gg_compare_options *o,
                            const gg_run *run, gg_compare_report *report, gg_error *err)
{
    o = GG_OPTIONS(gg_compare_options, o);
    report = GG_REPORT(gg_compare_report, report);
    *report = (gg_compare_report){ 0 };
    gg_status st = refuse_pipes(a, b, !o->pairs, !o->map, err);
    gg_select_when when = { .split_experts = o->split_experts };
    if (st == GG_OK) st = gg_select_check(o->select, a, b, &when, err);
    if (st != GG_OK) return st;
    when.end = true;
    job j = { .source = { a, b },
              .pipe = !gg_source_seekable(a)   ? 0
                      : !gg_source_seekable(b) ? 1
                                               : -1,
              .sample = o->sample,
              .run = run,
              .o = o,
              .report = report };
    st = job_start(&j, run, err);
    if (st == GG_OK) st = o->pairs ? run_pairs(&j, err) : run_named(&j, err);
    job_end(&j);
    if (st == GG_OK) st = gg_select_check(o->select, a, b, &when, err);
    if (st != GG_OK || o->pairs || report->tensors || (gg_select_empty(o->select) && !o->map))
        return st;
    gg_fail(err, GG_NO, "no tensor is selected");
    gg_fix_hint(err, GG_HINT_LIST_TENSORS, "list the names of its tensors");
    return gg_at_file(err, gg_source_name(a));
}

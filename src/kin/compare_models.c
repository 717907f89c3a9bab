/* compare_models.c - compares two models, one row per tensor.
 *
 * Pairs are gathered into a batch and divided into tasks that any thread may take. The rows are
 * delivered in order. Pairs of the same dtype are first compared as bytes, up to the first
 * difference, so that a pair that is entirely equal is never decoded. The others are summed in a
 * second round. A pipe cannot be read again, so both are done at once there.
 */
#include "base/text.h"
#include "lineage.h"

#include "base/error.h"
#include "base/grow.h"
#include "base/parallel.h"
#include "gguf/gguf.h"
#include "numeric/numeric.h"
#include "organ/imatrix.h"
#include "organ/select.h"
#include "organ/tensor_names.h"
#include "write/selected_tensors.h"
#include "write/verb_run.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK ((uint64_t)65536)            /* values per chunk; a multiple of every block length */
#define RAW ((size_t)CHUNK * 8)            /* maximum bytes per chunk (F64) */
#define MOST_TASKS ((uint64_t)65536)       /* maximum tasks per tensor */
#define MOST_PAIRS 1024                    /* maximum pairs per batch */
#define BATCH_TASKS ((uint64_t)4096)       /* tasks that fill a batch */
#define BATCH_WEIGHTS ((uint64_t)16 << 20) /* bytes of weights that fill a batch */

/* How the values of a pair are divided. `taken` of the `rows` rows are measured; if these are all
 * rows, the tensor counts as a single row. A chunk is `per` whole rows, or one of the `segments`
 * parts of a row that is too long for one chunk. A task is `group` chunks. Each task has its own
 * sum, so the division must depend only on the tensor. */
typedef struct compare_cut {
    bool decodes, same_type;
    uint64_t row, rows, taken; /* in bytes if !decodes */
    uint64_t per, segments, chunks, group, tasks;
} compare_cut;

typedef struct compare_pair {
    gg_selected a, b;
    bool has_a, has_b;
    compare_cut cut;
    uint64_t first_task; /* index in the batch */
    uint64_t passed;     /* on a pipe: bytes of the piece already read */
    atomic_bool differs; /* same dtype, but different bytes */
    gg_importance weights;
} compare_pair;

typedef struct task {
    uint32_t pair;
    gg_compare sum;
    double weighted[2];
} task;

typedef struct space { /* buffers of one thread */
    float values[2][CHUNK];
    uint8_t raw[2][RAW];
} space;

typedef struct used_piece { /* a piece of the other source that has a partner */
    size_t source;
    uint64_t at;
} used_piece;

typedef struct job {
    gg_source *source[2]; /* A and B */
    int pipe;             /* index of the source that is a pipe; -1 if neither is */
    bool b_leads;         /* B is read in order, and pieces of A are looked up */
    gg_source *lead, *other;
    const gg_compare_options *o;
    const gg_run *run;
    gg_compare_report *report;
    gg_lineage_rows rows;
    gg_imatrix *imatrix; /* NULL: no damage is predicted */
    /* The batch: */
    compare_pair *pairs; /* room for MOST_PAIRS */
    size_t n_pairs;
    uint64_t n_tasks, weights; /* bytes of weights */
    task *tasks;
    size_t cap_tasks;
    size_t *todo; /* second round: indices of tasks */
    /* How it is worked on: */
    unsigned threads; /* 1 for a pipe, whose tasks must be read in order */
    space *spaces;
    /* What the other source need not report again: */
    used_piece *used;
    size_t n_used, cap_used;
    int64_t *donors; /* blocks of B that the map names, sorted for the second pass */
    size_t n_donors, cap_donors;
} job;

/* ---- division into chunks ----------------------------------------------------------- */

static gg_sameness sameness_of(const compare_pair *p)
{
    if (!p->has_b) return GG_SAME_ONLY_A;
    if (!p->has_a) return GG_SAME_ONLY_B;
    if (!gg_same_dims(&p->a.t, &p->b.t)) return GG_SAME_SHAPE;
    if (p->a.t.dtype != p->b.t.dtype) return GG_SAME_DTYPE;
    return atomic_load(&p->differs) ? GG_SAME_DIFFERS : GG_SAME_IDENTICAL;
}

static uint64_t divide_up(uint64_t n, uint64_t size)
{
    /* not 0: a constant, or a number of chunks or tasks that is at least 1 */
    return n / size + (n % size != 0);
}

static compare_cut cut_pair(const gg_tensor *a, const gg_tensor *b, uint64_t sample)
{
    compare_cut c = { .same_type = a->dtype == b->dtype };
    c.decodes = gg_can_decode(a->dtype) && gg_can_decode(b->dtype);
    if (!gg_same_dims(a, b) || (!c.decodes && !c.same_type)) return (compare_cut){ 0 };
    uint64_t elements = c.decodes ? a->elements : a->bytes;
    if (elements == 0) return c;
    c.row = c.decodes && a->n_dims ? a->dims[0] : elements;
    /* not 0: it has elements */
    c.rows = elements / c.row;
    c.taken = gg_sample_count(c.rows, c.decodes ? sample : 0);
    if (c.taken == c.rows) {
        c.row = elements;
        c.rows = c.taken = 1;
    }
    c.per = c.row > CHUNK ? 1 : CHUNK / c.row;
    c.segments = divide_up(c.row, CHUNK);
    c.chunks = divide_up(c.taken, c.per) * c.segments;
    c.group = divide_up(c.chunks, MOST_TASKS);
    c.tasks = divide_up(c.chunks, c.group);
    return c;
}

/* Gets the i-th run of chunk k: *n values starting at *first. Returns false if the chunk has no
 * more runs. */
static bool chunk_run(const compare_cut *c, uint64_t k, uint64_t i, uint64_t *first, uint64_t *n)
{
    /* not 0: a pair with chunks has segments */
    uint64_t r = k / c->segments * c->per + i, at = k % c->segments * CHUNK;
    if (i >= c->per || r >= c->taken) return false;
    *first = gg_sample_index(r, c->rows, c->taken) * c->row + at;
    *n = c->row - at < CHUNK ? c->row - at : CHUNK;
    return true;
}

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

/* Whether one chunk has all values of both tensors, so that they are compared while they are summed
 * instead of being read twice. */
static bool is_small(const compare_cut *c)
{
    return c->same_type && c->decodes && c->chunks == 1 && c->taken == c->rows;
}

static uint64_t stored_bytes(const compare_cut *c, const gg_tensor *t, uint64_t values)
{
    const gg_dtype_info *i = gg_dtype_get(t->dtype);
    return c->decodes ? values / i->block_elems * i->block_bytes : values;
}

/* Compares the bytes [from, to) of both tensors and sets p->differs if they are not equal. Does not
 * change r->w->raw. */
static gg_status compare_bytes(reader *r, uint64_t from, uint64_t to, gg_error *err)
{
    float(*buf)[CHUNK] = r->w->values;
    size_t most = 65536; /* the first bytes often differ already */
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
    return compare_bytes(r, r->p->passed, to, err);
}

/* Reads chunk k of both tensors into raw; *n receives the number of values. */
static gg_status load_chunk(reader *r, uint64_t k, size_t *n, gg_error *err)
{
    const compare_cut *c = &r->p->cut;
    uint64_t first, count;
    *n = 0;
    gg_status st = gg_cancelled(err);
    for (uint64_t i = 0; st == GG_OK && chunk_run(c, k, i, &first, &count); i++) {
        st = pass_gap(r, stored_bytes(c, &r->p->a.t, first), err);
        for (int s = 0; s < 2 && st == GG_OK; s++) {
            const gg_selected *p = selected_of(r->p, s);
            st = gg_data_read(&r->d[s], p->at + stored_bytes(c, &p->t, first),
                              r->w->raw[s] + stored_bytes(c, &p->t, *n),
                              (size_t)stored_bytes(c, &p->t, count), err);
        }
        if (r->j->pipe >= 0) r->p->passed = stored_bytes(c, &r->p->a.t, first + count);
        *n += (size_t)count;
    }
    if (st == GG_OK && k + 1 == c->chunks) st = pass_gap(r, r->p->a.t.bytes, err);
    return st;
}

/* ---- damage: what the difference does to the output, by an importance matrix --------- */

static void add_damage(const compare_pair *p, uint64_t k, const float *a, const float *b,
                       double sums[2])
{
    uint64_t first, n, done = 0;
    for (uint64_t i = 0; chunk_run(&p->cut, k, i, &first, &n); i++, done += n)
        gg_importance_sum(&p->weights, first, a + done, b + done, (size_t)n, sums);
}

/* 1 if a tensor without energy got some. */
static double damage_ratio(double error2, double energy2)
{
    return energy2 > 0 ? error2 / energy2 : error2 > 0 ? 1.0 : 0.0;
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
        const uint8_t *raw = d->r->w->raw[k] + stored_bytes(&d->r->p->cut, t, at);
        x[k] = k && d->same ? x[0] : to;
        if (x[k] == to && d->st == GG_OK) d->st = gg_decode(t->dtype, raw, to, n, d->err);
    }
}

static gg_status add_chunk(reader *r, bool same, uint64_t k, size_t n, task *t, gg_error *err)
{
    decoder d = { r, same, r->p->weights.mean2 != NULL, GG_OK, err };
    bool exact = r->p->a.t.dtype == GG_F16 && r->p->b.t.dtype == GG_F16;
    GG_PICK(gg_compare_read)(&t->sum, decode_block, &d, n, exact);
    float(*v)[CHUNK] = r->w->values;
    if (d.keep && d.st == GG_OK) add_damage(r->p, k, v[0], v[same ? 0 : 1], t->weighted);
    return d.st;
}

/* Compares the chunks of a task, and sums them. */
static gg_status sum_chunks(reader *r, task *t, uint64_t no, gg_error *err)
{
    const compare_cut *c = &r->p->cut;
    uint64_t lo = no * c->group, hi = lo + c->group < c->chunks ? lo + c->group : c->chunks;
    gg_status st = GG_OK;
    for (uint64_t k = lo; k < hi && st == GG_OK; k++) {
        size_t n;
        st = load_chunk(r, k, &n, err);
        if (st != GG_OK) break;
        bool same = c->same_type &&
                    memcmp(r->w->raw[0], r->w->raw[1], (size_t)stored_bytes(c, &r->p->a.t, n)) == 0;
        if (c->same_type && !same) atomic_store(&r->p->differs, true);
        bool needed = !(same && is_small(c)) || r->p->weights.mean2;
        if (c->decodes && needed) st = add_chunk(r, same, k, n, t, err);
    }
    return st;
}

static void add_progress(const job *j, const compare_pair *p)
{
    /* not 0: called by a task of the pair */
    gg_progress_add(j->run, p->a.t.bytes / p->cut.tasks);
}

/* Compares a share of the bytes of a pair, unless it is known to differ. */
static gg_status compare_task(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    job *j = ctx;
    compare_pair *p = &j->pairs[j->tasks[i].pair];
    uint64_t bytes = p->a.t.bytes, each = divide_up(bytes, p->cut.tasks),
             from = (i - p->first_task) * each, to = from + each < bytes ? from + each : bytes;
    reader r;
    add_progress(j, p);
    if (!p->cut.same_type || is_small(&p->cut) || atomic_load(&p->differs)) return GG_OK;
    gg_status st = reader_open(&r, j, p, &j->spaces[worker], err);
    if (st != GG_OK) return st;
    st = compare_bytes(&r, from, to, err);
    reader_close(&r);
    return st;
}

static gg_status sum_task(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    job *j = ctx;
    task *t = &j->tasks[j->todo[i]];
    compare_pair *p = &j->pairs[t->pair];
    reader r;
    if (j->pipe >= 0) add_progress(j, p);
    gg_status st = reader_open(&r, j, p, &j->spaces[worker], err);
    if (st != GG_OK) return st;
    st = sum_chunks(&r, t, j->todo[i] - p->first_task, err);
    reader_close(&r);
    return st;
}

/* ---- a batch -------------------------------------------------------------------- */

/* Sums are complete unless all measured values have the same bits. In that case the pair may not
 * have been summed, and a pipe must not report more about it than a file. */
static void measure_pair(const job *j, const compare_pair *p, gg_compare_row *row)
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
    if (!row->measured) return;
    if (p->weights.mean2) {
        row->energy2 = weighted[0];
        row->error2 = weighted[1];
        row->damage = damage_ratio(row->error2, row->energy2);
    }
    row->compared = n - out;
    row->cosine = m.identical ? 1.0 : m.cosine;
    row->rel_l2 = m.rel_l2;
    row->max_abs = m.maxabs;
}

static void add_to_group(gg_compare_group *g, const gg_compare_row *row)
{
    g->tensors++;
    g->by[row->status]++;
    if (row->measured) {
        if (g->measured == 0 || row->cosine < g->cosine_min) g->cosine_min = row->cosine;
        if (row->max_abs > g->max_abs) g->max_abs = row->max_abs;
        g->cosine_sum += row->cosine;
        g->rel_l2_sum += row->rel_l2;
        g->measured++;
    }
    if (!isnan(row->damage)) {
        g->predicted++;
        g->error2 += row->error2;
        g->energy2 += row->energy2;
        g->damage = damage_ratio(g->error2, g->energy2);
    }
}

static gg_status emit_row(job *j, const compare_pair *p, gg_error *err)
{
    gg_compare_row row = { .status = sameness_of(p),
                           .damage = NAN,
                           .a = p->has_a ? &p->a.t : NULL,
                           .b = p->has_b ? &p->b.t : NULL };
    if (p->has_a && p->has_b && p->cut.decodes) measure_pair(j, p, &row);
    add_to_group(&j->report->model, &row);
    add_to_group(&j->report->of[gg_compared(&row)->a.cls], &row);
    gg_status st = gg_lineage_add(&j->rows, &row, err);
    return st == GG_OK && j->o->row ? j->o->row(j->o->ctx, &row, err) : st;
}

static gg_status make_tasks(job *j, gg_error *err)
{
    size_t n = (size_t)j->n_tasks;
    if (n > j->cap_tasks) {
        free(j->tasks);
        free(j->todo);
        j->tasks = malloc(n * sizeof *j->tasks);
        j->todo = malloc(n * sizeof *j->todo);
        j->cap_tasks = j->tasks && j->todo ? n : 0;
        if (!j->cap_tasks) return gg_fail(err, GG_ENOMEM, "no memory for %zu tasks", n);
    }
    for (size_t i = 0; i < j->n_pairs; i++)
        for (uint64_t k = 0; k < j->pairs[i].cut.tasks; k++)
            j->tasks[j->pairs[i].first_task + k] = (task){ .pair = (uint32_t)i,
                                                           .sum = GG_COMPARE_INIT };
    return GG_OK;
}

static void end_batch(job *j)
{
    for (size_t i = 0; i < j->n_pairs; i++) gg_importance_free(&j->pairs[i].weights);
    j->n_pairs = 0;
    j->n_tasks = 0;
    j->weights = 0;
}

static gg_status run_batch(job *j, gg_error *err)
{
    size_t n = 0, tasks = (size_t)j->n_tasks;
    gg_status st = make_tasks(j, err);
    if (st == GG_OK && j->pipe < 0) st = gg_parallel(tasks, j->threads, compare_task, j, err);
    for (size_t i = 0; i < tasks && st == GG_OK; i++) {
        const compare_pair *p = &j->pairs[j->tasks[i].pair];
        bool sums = !p->cut.same_type || is_small(&p->cut) || atomic_load(&p->differs) ||
                    p->weights.mean2;
        if (j->pipe >= 0 || (p->cut.decodes && sums)) j->todo[n++] = i;
    }
    if (st == GG_OK) st = gg_parallel(n, j->threads, sum_task, j, err);
    for (size_t i = 0; i < j->n_pairs && st == GG_OK; i++) st = emit_row(j, &j->pairs[i], err);
    end_batch(j);
    return st;
}

/* ---- pairs -------------------------------------------------------------------------- */

/* Adds the pair of which a, b, has_a and has_b are set in the next place of the batch. */
static gg_status add_pair(job *j, gg_error *err)
{
    compare_pair *p = &j->pairs[j->n_pairs++];
    p->cut = (compare_cut){ 0 };
    if (p->has_a && p->has_b) p->cut = cut_pair(&p->a.t, &p->b.t, j->o->sample);
    p->first_task = j->n_tasks;
    p->passed = 0;
    atomic_init(&p->differs, false);
    p->weights = (gg_importance){ 0 };
    j->n_tasks += p->cut.tasks;
    if (p->cut.decodes) {
        gg_status st = gg_imatrix_read_per_token(j->imatrix, &p->a.t, &p->weights, err);
        if (st != GG_OK) return st;
    }
    j->weights += p->weights.columns * p->weights.matrices * sizeof *p->weights.mean2;
    bool full = j->n_pairs == MOST_PAIRS || j->n_tasks >= BATCH_TASKS ||
                j->weights >= BATCH_WEIGHTS;
    return full ? run_batch(j, err) : GG_OK;
}

/* Puts a piece of one source in the next place of the batch, still without a partner. */
static compare_pair *start_pair(job *j, const gg_selected *p, bool of_b)
{
    compare_pair *to = &j->pairs[j->n_pairs];
    gg_selected *mine = of_b ? &to->b : &to->a;
    to->has_a = !of_b;
    to->has_b = of_b;
    *mine = *p;
    if (p->t.name == p->name) mine->t.name = mine->name;
    return to;
}

/* Finds the piece of `other` with this name: a tensor, or an expert in a stack. */
static bool find_partner(const job *j, const gg_selected *like, const char *name, size_t len,
                         gg_selected *out)
{
    char stack[GG_RECORD_NAME + 8];
    size_t stack_len, i = gg_source_find(j->other, name, len);
    *out = (gg_selected){ .source = i };
    if (i != SIZE_MAX) {
        const gg_tensor *t = gg_source_tensor(j->other, i);
        out->t = *t;
        if (!gg_text_copy(out->name, sizeof out->name, t->name, t->name_len)) return false;
    } else {
        if (!(j->o->split_experts || gg_select_has_experts(j->o->select)) ||
            !gg_stack_name(name, len, stack, sizeof stack, &stack_len))
            return false;
        out->source = gg_source_find(j->other, stack, stack_len);
        if (out->source == SIZE_MAX) return false;
        const gg_tensor *t = gg_source_tensor(j->other, out->source);
        uint64_t experts;
        if (!gg_is_expert_stack(t, &experts) ||
            !gg_expert_tensor(t, experts, (uint64_t)like->t.a.expert, &out->t, out->name))
            return false;
        out->expert = true;
        out->at = (uint64_t)like->t.a.expert * out->t.bytes;
    }
    out->t.name = out->name;
    out->t.a = gg_anatomy_of(out->name, out->t.name_len);
    out->t.a.cls = gg_source_tensor(j->other, out->source)->a.cls;
    return true;
}

static gg_status note_used(job *j, const gg_selected *p, gg_error *err)
{
    if (GG_ROOM(j->used, j->n_used, &j->cap_used, err) != GG_OK) return GG_ENOMEM;
    j->used[j->n_used++] = (used_piece){ p->source, p->at };
    return GG_OK;
}

/* Adds a block to the list unless it is already the last one. The tensors of a block are usually
 * adjacent, so this keeps the list short, although it may contain a block more than once. */
static gg_status note_donor(job *j, int64_t block, gg_error *err)
{
    if (j->n_donors && j->donors[j->n_donors - 1] == block) return GG_OK;
    if (GG_ROOM(j->donors, j->n_donors, &j->cap_donors, err) != GG_OK) return GG_ENOMEM;
    j->donors[j->n_donors++] = block;
    return GG_OK;
}

static gg_status pair_selected(void *ctx, const gg_selected *p, gg_error *err)
{
    job *j = ctx;
    char mapped[GG_RECORD_NAME + 32];
    const char *name = p->name;
    size_t len = p->t.name_len;
    if (j->o->map) {
        int64_t donor = gg_map_donor(j->o->map, p->t.a.block);
        if (donor < 0 || !gg_name_with_block(name, len, donor, mapped, sizeof mapped, &len))
            return GG_OK;
        name = mapped;
        gg_status st = note_donor(j, donor, err);
        if (st != GG_OK) return st;
    }
    compare_pair *c = start_pair(j, p, j->b_leads);
    gg_selected *theirs = j->b_leads ? &c->a : &c->b;
    if (find_partner(j, p, name, len, theirs)) {
        c->has_a = c->has_b = true;
        gg_status st = note_used(j, theirs, err);
        if (st != GG_OK) return st;
    }
    return add_pair(j, err);
}

/* ---- tensors only in the other source ----------------------------------------------- */

static int by_used_piece(const void *a, const void *b)
{
    const used_piece *x = a, *y = b;
    if (x->source != y->source) return x->source < y->source ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static bool is_donor(const job *j, int64_t block)
{
    return j->n_donors && bsearch(&block, j->donors, j->n_donors, sizeof block, gg_order_i64);
}

static gg_status rest_selected(void *ctx, const gg_selected *p, gg_error *err)
{
    job *j = ctx;
    used_piece key = { p->source, p->at };
    if (j->n_used && bsearch(&key, j->used, j->n_used, sizeof key, by_used_piece)) return GG_OK;
    if (j->o->map && !is_donor(j, p->t.a.block)) return GG_OK;
    start_pair(j, p, !j->b_leads);
    return add_pair(j, err);
}

/* ---- the verb ------------------------------------------------------------------- */

static gg_status job_start(job *j, const gg_run *run, gg_error *err)
{
    j->threads = run && run->threads ? run->threads : gg_thread_count();
    if (j->pipe >= 0) j->threads = 1;
    j->pairs = calloc(MOST_PAIRS, sizeof *j->pairs);
    j->spaces = malloc(j->threads * sizeof *j->spaces);
    if (!j->pairs || !j->spaces)
        return gg_fail(err, GG_ENOMEM, "out of memory for %u threads; use fewer", j->threads);
    return j->o->imatrix ? gg_imatrix_open(j->o->imatrix, &j->imatrix, err) : GG_OK;
}

static void job_end(job *j)
{
    if (j->pairs) end_batch(j);
    gg_imatrix_close(j->imatrix);
    free(j->spaces);
    free(j->pairs);
    free(j->tasks);
    free(j->todo);
    free(j->used);
    free(j->donors);
    gg_lineage_rows_free(&j->rows);
}

static gg_status refuse_pipes(gg_source *a, gg_source *b, const gg_compare_options *o,
                              gg_error *err)
{
    bool pa = !gg_source_seekable(a), pb = !gg_source_seekable(b);
    const char *why = !pa && !pb     ? NULL
                      : o->pairs     ? "a pipe can only be read in order"
                      : pa && pb     ? "only one of the two can be a pipe"
                      : pb && o->map ? "with a map of blocks, only the first model can be a pipe"
                                     : NULL;
    if (!why) return GG_OK;
    gg_fail(err, GG_EUSAGE, "%s", why);
    gg_fix(err, "store the model in a file");
    return gg_at_file(err, gg_source_name(pa && !pb ? a : b));
}

/* Compares the pairs that the options name. */
static gg_status run_pairs(job *j, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < j->o->n_pairs && st == GG_OK; i++) {
        compare_pair *p = &j->pairs[j->n_pairs];
        p->has_a = p->has_b = true;
        for (int k = 0; k < 2; k++) {
            size_t at = k ? j->o->pairs[i].b : j->o->pairs[i].a;
            *(k ? &p->b : &p->a) = (gg_selected){ .t = *gg_source_tensor(j->source[k], at),
                                                  .source = at };
        }
        st = add_pair(j, err);
    }
    return st;
}

/* Compares the tensors that have equal names. On a pipe, a batch ends after each tensor, because
 * the data of the next one is not available yet. */
static gg_status run_named(job *j, gg_error *err)
{
    gg_visit lead = { j->o->select, j->o->split_experts, pair_selected, j },
             rest = { j->o->select, j->o->split_experts, rest_selected, j };
    gg_status st = GG_OK;
    bool more = true;
    gg_progress_total(j->run, gg_selected_bytes(j->lead, j->o->select));
    for (size_t i = 0; st == GG_OK; i++) {
        st = gg_source_next(j->lead, i, &more, err);
        if (st != GG_OK || !more) break;
        st = gg_selected_of(j->lead, i, &lead, err);
        if (st == GG_OK && j->pipe >= 0) st = run_batch(j, err);
    }
    if (j->n_used) qsort(j->used, j->n_used, sizeof *j->used, by_used_piece);
    if (j->n_donors) qsort(j->donors, j->n_donors, sizeof *j->donors, gg_order_i64);
    for (size_t i = 0; st == GG_OK && i < gg_source_count(j->other); i++)
        st = gg_selected_of(j->other, i, &rest, err);
    return st;
}

gg_status gg_compare_models(gg_source *a, gg_source *b, const gg_compare_options *o,
                            const gg_run *run, gg_compare_report *report, gg_error *err)
{
    o = GG_OPTIONS(gg_compare_options, o);
    report = GG_REPORT(gg_compare_report, report);
    *report = (gg_compare_report){ .model.lineage.verdict = GG_LINEAGE_UNDECIDABLE };
    gg_status st = refuse_pipes(a, b, o, err);
    gg_select_when when = { .split_experts = o->split_experts };
    if (st == GG_OK) st = gg_select_check(o->select, a, b, &when, err);
    if (st != GG_OK) return st;
    when.end = true;
    int pipe = !gg_source_seekable(a) ? 0 : !gg_source_seekable(b) ? 1 : -1;
    job j = { .source = { a, b },
              .pipe = pipe,
              .b_leads = pipe == 1,
              .lead = pipe == 1 ? b : a,
              .other = pipe == 1 ? a : b,
              .run = run,
              .o = o,
              .report = report };
    st = job_start(&j, run, err);
    if (st == GG_OK) st = o->pairs ? run_pairs(&j, err) : run_named(&j, err);
    if (st == GG_OK) st = run_batch(&j, err);
    gg_status judged = gg_lineage_judge_groups(&j.rows, report, err);
    if (st == GG_OK) st = judged;
    job_end(&j);
    if (st == GG_OK) st = gg_select_check(o->select, a, b, &when, err);
    if (st != GG_OK || o->pairs || report->model.tensors || (gg_select_empty(o->select) && !o->map))
        return st;
    gg_fail(err, GG_NO, "no tensor is selected");
    gg_fix_by(err, "list", "list the names of its tensors");
    return gg_at_file(err, gg_source_name(a));
}

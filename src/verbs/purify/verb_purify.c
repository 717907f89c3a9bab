/* verb_purify.c - purifies a model and writes it to an organ directory, an organ stream or a GGUF
 * file, or writes nothing. Tensors that are not purified are copied.
 *
 * The plan lists every tensor of the source, and a row for each selected one. Everything that can
 * be refused is refused there. A tensor consists of one or more signals of equal size: the tensor
 * itself, or the experts of a stack. Only one signal's values are in memory at a time. Data is read
 * and written from front to back, so pipes work as well as files.
 */
#include "organ/gg_purify.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/io.h"
#include "base/names.h"
#include "base/output.h"
#include "base/parallel.h"
#include "base/sha256.h"
#include "numeric/numeric.h"
#include "numeric/purify.h"
#include "organ/manifest.h"
#include "organ/output_guard.h"
#include "organ/record.h"
#include "organ/select.h"
#include "organ/source_layout.h"
#include "organ/source_watch.h"
#include "organ/tensor_names.h"
#include "quant/quant.h"
#include "verbs/compute/compute.h"
#include "verbs/compute/dtype_rules.h"
#include "verbs/organ_dir/organ_dir.h"
#include "verbs/plan/plan.h"
#include "verbs/shared/copy.h"
#include "verbs/shared/keys.h"
#include "verbs/shared/selected_tensors.h"
#include "verbs/shared/verb_run.h"
#include "json/json.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Larger signals are purified one at a time by all threads. */
#define PURIFY_SHARED (UINT64_C(4) << 20)

/* Values that a thread reads or encodes at once: whole blocks of any dtype. A step and its bytes,
 * at most 8 per value, stay in the cache. */
#define STEP ((size_t)8192)
#define STEP_BYTES (8 * STEP)
#define STEPS_PER_THREAD 16 /* that are encoded before they are written */

typedef struct purify_row {
    gg_purify_row r; /* r.t.name belongs to the source or, for an expert, to the job */
    uint64_t expert; /* expert number, if the row is one expert */
} purify_row;

/* A tensor of the source, selected or not. */
typedef struct purify_unit {
    struct purify_job *job;
    size_t source;
    gg_tensor t;        /* as it will be written */
    size_t first, n;    /* rows of this tensor */
    bool experts;       /* one row per selected expert */
    bool touched;       /* at least one row is changed */
    const char *sha256; /* expected hash of the data; NULL or "" if unknown */
} purify_unit;

typedef struct purify_job {
    gg_source *source;
    const gg_purify_options *o;
    const gg_run *run;
    gg_purify_report *report;
    unsigned threads;
    purify_unit *units;
    size_t n_units, cap_units;
    purify_row *rows;
    size_t n_rows, cap_rows, told; /* told: rows that were delivered */
    gg_imatrix *imatrix;           /* owned; NULL = none */
    gg_imatrix_use weighed;        /* the importance matrix, and the tensors planned so far */
    bool sole; /* the source is one bare record; purify it even if it is a vector */
    gg_names names;
    pthread_mutex_t big; /* held while a signal above PURIFY_SHARED is in memory */
} purify_job;

const char *gg_purify_outcome_name(gg_purify_outcome o)
{
    static const char *const names[] = { "purified", "identical", "vector", "integer", "no-codec" };
    return names[o];
}

static bool is_integer(uint32_t dtype)
{
    return dtype >= GG_I8 && dtype <= GG_I64;
}

/* Dtypes that are not used for weights: integers, doubles, and types for dot products only. */
static bool is_rare(uint32_t dtype)
{
    return is_integer(dtype) || dtype == GG_F64 || dtype == GG_Q8_1 || dtype == GG_Q8_K;
}

/* Suggests the dtypes in which rows of `row` values can be encoded. */
static void name_choices(uint64_t row, gg_error *err)
{
    char list[160] = "";
    size_t len = 0;
    const gg_dtype_info *d;
    for (size_t i = 0; (d = gg_dtype_at(i)) != NULL; i++) {
        bool fits = gg_can_encode(d->id) && !is_rare(d->id) && row % d->block_elems == 0;
        if (fits && len + strlen(d->name) + 2 < sizeof list)
            len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", len ? " " : "", d->name);
    }
    gg_fix_hint(err, GG_HINT_DTYPE, "choose one of %s", list);
}

/* ---- planning rows --------------------------------------------------------------------- */

typedef struct collector {
    purify_job *j;
    const gg_tensor *whole;
    size_t first;
} collector;

/* Unchanged bytes need no encoder. */
static bool stays(const gg_purify_options *o, uint32_t dtype)
{
    return o->strength <= 0 && (!o->dtype || o->dtype->id == dtype);
}

static gg_status check_target(const purify_job *j, const gg_tensor *t, uint32_t dtype,
                              gg_error *err)
{
    uint64_t bytes;
    gg_error why = GG_ERROR_INIT;
    bool needs = gg_encode_needs_imatrix(dtype), has = false;
    if (stays(j->o, t->dtype)) return GG_OK;
    if (needs && j->imatrix && gg_imatrix_check(j->imatrix, t, true, &has, err) != GG_OK)
        return err->status;
    if (needs && !has) {
        gg_fail(err, GG_EUNSUPPORTED,
                j->imatrix ? "the importance matrix lacks it, and %s needs one"
                           : "%s cannot be encoded without an importance matrix",
                gg_dtype_name(dtype));
    } else if (!needs && !gg_can_encode(dtype)) {
        gg_fail(err, GG_EUNSUPPORTED, "there is no encoder for %s", gg_dtype_name(dtype));
    } else if (gg_row_bytes(dtype, t->n_dims ? t->dims[0] : 1, &bytes, &why) != GG_OK) {
        gg_fail(err, GG_EUNSUPPORTED, "rows of %llu values cannot be %s",
                (unsigned long long)t->dims[0], gg_dtype_name(dtype));
    } else {
        return GG_OK;
    }
    name_choices(t->n_dims ? t->dims[0] : 1, err);
    return gg_at_tensor(err, t->name, t->name_len);
}

static gg_status classify_row(const purify_job *j, const gg_selected *p, gg_purify_row *r,
                              gg_error *err)
{
    bool named = gg_select_by_name(j->o->select, p->t.name);
    uint32_t dims = p->t.n_dims - (p->a.stack && p->t.n_dims ? 1 : 0);
    r->outcome = GG_PURIFY_DONE;
    r->dtype = j->o->dtype ? j->o->dtype->id : p->t.dtype;
    if (!gg_can_decode(p->t.dtype)) r->outcome = GG_PURIFY_NO_CODEC;
    else if (is_integer(p->t.dtype) && !named) r->outcome = GG_PURIFY_INTEGER;
    else if (dims < 2 && !named && !j->sole) r->outcome = GG_PURIFY_VECTOR;
    else return check_target(j, &p->t, r->dtype, err);
    r->dtype = p->t.dtype;
    if (r->outcome != GG_PURIFY_NO_CODEC || !named) return GG_OK;
    gg_fail(err, GG_EUNSUPPORTED, "no codec decodes %s", gg_dtype_name(p->t.dtype));
    return gg_at_tensor(err, p->t.name, p->t.name_len);
}

static gg_status add_purify_row(void *ctx, const gg_selected *p, gg_error *err)
{
    collector *c = ctx;
    purify_job *j = c->j;
    if (GG_ROOM(j->rows, j->n_rows, &j->cap_rows, err) != GG_OK) return GG_ENOMEM;
    purify_row *row = &j->rows[j->n_rows];
    *row = (purify_row){ .r = { .t = p->t, .a = p->a } };
    row->r.t.name = p->expert ? gg_names_add(&j->names, p->t.name, p->t.name_len, err)
                              : c->whole->name;
    if (!row->r.t.name) return GG_ENOMEM;
    if (p->expert) row->expert = p->at / (p->t.bytes ? p->t.bytes : 1);
    purify_unit *u = &j->units[j->n_units];
    u->experts = p->expert;
    gg_status st = classify_row(j, p, &row->r, err);
    j->n_rows += st == GG_OK;
    u->n += st == GG_OK;
    return st;
}

/* ---- planning units ----------------------------------------------------------------------- */

/* A tensor has one dtype, so all experts of a stack must have the same dtype. */
static gg_status set_unit_dtype(const purify_job *j, purify_unit *u, gg_error *err)
{
    uint64_t experts;
    uint32_t dtype = u->t.dtype;
    for (size_t i = u->first; i < u->first + u->n; i++) {
        const gg_purify_row *r = &j->rows[i].r;
        if (r->outcome != GG_PURIFY_DONE) continue;
        u->touched = true;
        dtype = r->dtype;
    }
    if (dtype == u->t.dtype) return GG_OK;
    if (u->experts && gg_is_expert_stack(&u->t, &experts) && experts != u->n) {
        gg_fail(err, GG_EUSAGE, "all experts of a stack must have the same dtype");
        gg_fix_hint(err, GG_HINT_WHOLE_STACK,
                    "keep the dtype, select all experts, or split the experts first");
        return gg_at_tensor(err, u->t.name, u->t.name_len);
    }
    u->t.dtype = dtype;
    return gg_tensor_extent(dtype, u->t.n_dims, u->t.dims, NULL, &u->t.bytes, err);
}

static gg_status plan_unit(purify_job *j, size_t i, gg_error *err)
{
    if (GG_ROOM(j->units, j->n_units, &j->cap_units, err) != GG_OK) return GG_ENOMEM;
    const gg_manifest *m = gg_source_manifest(j->source);
    purify_unit *u = &j->units[j->n_units];
    *u = (purify_unit){
        .job = j, .source = i, .t = *gg_source_tensor(j->source, i), .first = j->n_rows
    };
    u->sha256 = m ? m->entries[i].sha256 : NULL;
    collector c = { j, &u->t, j->n_rows };
    gg_visit visit = { j->o->select, false, add_purify_row, &c };
    gg_status st = gg_selected_of(j->source, i, &visit, err);
    if (st == GG_OK) st = set_unit_dtype(j, u, err);
    if (st == GG_OK && u->touched) st = gg_imatrix_use_add(&j->weighed, &u->t, err);
    j->n_units += st == GG_OK;
    return st;
}

static gg_status plan_all_units(purify_job *j, gg_error *err)
{
    gg_status st = GG_OK;
    j->sole = !gg_source_meta(j->source) && gg_source_count(j->source) == 1;
    for (size_t i = 0; i < gg_source_count(j->source) && st == GG_OK; i++)
        st = plan_unit(j, i, err);
    uint64_t total = 0;
    for (size_t i = 0; i < j->n_units; i++)
        total += gg_source_tensor(j->source, j->units[i].source)->bytes;
    gg_progress_total(j->run, total);
    return st;
}

static gg_status check_rows(const purify_job *j, gg_error *err)
{
    const gg_select_when end = { .end = true };
    gg_status st = gg_select_check(j->o->select, j->source, NULL, &end, err);
    if (st != GG_OK) return st;
    for (size_t i = 0; i < j->n_rows; i++)
        if (j->rows[i].r.outcome <= GG_PURIFY_IDENTICAL) return GG_OK;
    if (j->n_rows == 0 && gg_select_empty(j->o->select)) return GG_OK;
    if (j->n_rows == 0) {
        gg_fail(err, GG_NO, "no tensor is selected");
        return gg_fix_hint(err, GG_HINT_LIST_TENSORS, "list the names of its tensors");
    }
    gg_fail(err, GG_NO, "no selected tensor is a matrix of floating-point or quantized values");
    return gg_fix_hint(err, GG_HINT_TENSORS, "to purify a vector, select it by its exact name");
}

static gg_status check_plan(const purify_job *j, gg_error *err)
{
    gg_status st = check_rows(j, err);
    if (st == GG_OK) gg_imatrix_use_note(&j->weighed, j->run);
    return st;
}

/* ---- reading a signal ---------------------------------------------------------------- */

typedef struct sampled { /* the samples of a row, for theta */
    float *values;
    uint64_t n;
} sampled;

/* The current signal and the row that it belongs to. */
typedef struct purify_work {
    purify_unit *u;
    gg_place sink;
    gg_data data;
    uint32_t dtype; /* dtype of the source */
    unsigned threads;
    uint64_t values, bytes; /* size of a signal as read */
    float *x;
    uint8_t *kept; /* the signal's bytes from a pipe, which cannot be read again */
    uint8_t *raw;  /* STEPS_PER_THREAD steps per thread */
    gg_weights weights;
    float *room;     /* per thread: the weights of a step */
    uint64_t no;     /* number of the signal */
    uint64_t in_row; /* its number in the row */
    uint64_t from;   /* first byte of the signal in the data */
    uint64_t at;     /* first value of the steps that are encoded */
    bool hashed;     /* the manifest has a sha256 to compare with */
    gg_sha256 in;
    /* The row and its totals. */
    gg_purify_row *row;
    sampled before, after;
    uint64_t row_values, nonfinite;
    double left, energy, change, size; /* sums of squares */
    bool same;                         /* all bytes are unchanged */
} purify_work;

/* The number of bytes of n values that start at a block boundary. */
static size_t bytes_of_values(uint32_t dtype, uint64_t n)
{
    const gg_dtype_info *info = gg_dtype_get(dtype);
    return (size_t)(n / info->block_elems * info->block_bytes);
}

/* Takes the row's samples among the values of the signal. */
static void take_samples(const purify_work *w, const sampled *s)
{
    if (s->n == 0) return;
    uint64_t first = w->in_row * w->values, index;
    uint64_t i = gg_sample_index(first, s->n, w->row_values);
    while (gg_sample_index(i, w->row_values, s->n) < first) i++;
    for (; i < s->n; i++) {
        index = gg_sample_index(i, w->row_values, s->n) - first;
        if (index >= w->values) break;
        s->values[i] = w->x[index];
    }
}

static size_t steps_of(uint64_t values)
{
    return (size_t)((values + STEP - 1) / STEP);
}

/* Reads and decodes one step. */
static gg_status load_step(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    purify_work *w = ctx;
    uint64_t at = (uint64_t)i * STEP;
    size_t n = w->values - at < STEP ? (size_t)(w->values - at) : STEP;
    size_t bytes = bytes_of_values(w->dtype, n), done = bytes_of_values(w->dtype, at);
    uint8_t *to = w->kept ? w->kept + done : w->raw + worker * STEP_BYTES;
    gg_status st = gg_cancelled(err);
    if (st == GG_OK) st = gg_data_read(&w->data, w->from + done, to, bytes, err);
    if (st == GG_OK) st = gg_decode(w->dtype, to, w->x + at, n, err);
    if (st != GG_OK) return st;
    if (w->hashed) gg_sha256_update(&w->in, to, bytes);
    gg_progress_add(w->u->job->run, bytes);
    return GG_OK;
}

/* A pipe, and data to hash, is read in order. */
static gg_status load_signal(purify_work *w, gg_error *err)
{
    unsigned threads = w->hashed || w->kept ? 1 : w->threads;
    gg_status st = gg_parallel(steps_of(w->values), threads, load_step, w, err);
    if (st == GG_OK) take_samples(w, &w->before);
    return st;
}

/* ---- filtering and writing a signal ---------------------------------------------------- */

/* Sets *changed to false if the values are the same as before. */
static gg_status filter_signal(purify_work *w, bool *changed, gg_error *err)
{
    const gg_purify_options *o = w->u->job->o;
    const gg_tensor *t = &w->u->t;
    gg_filter f = { o->method, o->strength, t->n_dims ? t->dims[0] : 1, w->threads };
    gg_filtered r;
    gg_status st = GG_PICK(gg_filter_values)(&f, w->x, w->values, &r, err);
    w->nonfinite += r.nonfinite;
    double n = (double)w->values, energy = n * r.std * r.std,
           size = n * (r.std * r.std + r.mean * r.mean);
    w->energy += energy;
    w->size += size;
    w->left += r.energy_kept * energy;
    w->change += r.rel_l2 * r.rel_l2 * size;
    *changed = r.rel_l2 > 0;
    return st;
}

static gg_status emit_bytes(purify_work *w, const void *bytes, size_t n, gg_error *err)
{
    gg_place *s = &w->sink;
    if (s->fd < 0) return GG_OK;
    if (s->at == GG_AT_POS) return gg_write_all(s->fd, bytes, n, err);
    gg_status st = gg_put_all(s->fd, bytes, n, s->at, err);
    s->at += n;
    return st;
}

/* Copies the signal's bytes unchanged. If `again` is false, they are read for the first time. */
static gg_status pass_signal(purify_work *w, bool again, gg_error *err)
{
    gg_status st = GG_OK;
    if (again && w->kept) return emit_bytes(w, w->kept, (size_t)w->bytes, err);
    for (uint64_t at = 0; at < w->bytes && st == GG_OK; at += STEP_BYTES) {
        size_t n = w->bytes - at < STEP_BYTES ? (size_t)(w->bytes - at) : STEP_BYTES;
        st = gg_data_read(&w->data, w->from + at, w->raw, n, err);
        if (st == GG_OK) st = emit_bytes(w, w->raw, n, err);
        if (again) continue;
        if (w->hashed) gg_sha256_update(&w->in, w->raw, n);
        gg_progress_add(w->u->job->run, n);
    }
    return st;
}

/* Encodes a step, and decodes it as a reader will. Steps are whole blocks but not whole rows, so
 * each value has its own weight. */
static gg_status encode_step(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    purify_work *w = ctx;
    uint64_t at = w->at + i * STEP;
    size_t n = w->values - at < STEP ? (size_t)(w->values - at) : STEP;
    uint32_t dtype = w->u->t.dtype;
    uint8_t *to = w->raw + i * bytes_of_values(dtype, STEP);
    float *x = w->x + at, *room = w->room ? w->room + worker * STEP : NULL;
    const float *weights = gg_weights_of(&w->weights, w->no * w->values + at, n, room);
    gg_status st = gg_cancelled(err);
    if (st == GG_OK) st = gg_encode(dtype, x, to, n, n, weights, err);
    if (st == GG_OK) st = gg_decode(dtype, to, x, n, err);
    if (st == GG_OK && gg_count_bad(x, n) > 0) {
        st = gg_fail(err, GG_EFORMAT, "its values are too large for %s", gg_dtype_get(dtype)->name);
        gg_fix_hint(err, GG_HINT_DTYPE, "use BF16 or F32");
    }
    return st;
}

/* Encodes and writes x, which then has the values as stored. */
static gg_status store_signal(purify_work *w, gg_error *err)
{
    gg_status st = GG_OK;
    uint64_t most = (uint64_t)STEPS_PER_THREAD * w->threads * STEP, n;
    for (w->at = 0; w->at < w->values && st == GG_OK; w->at += n) {
        n = w->values - w->at < most ? w->values - w->at : most;
        st = gg_parallel(steps_of(n), w->threads, encode_step, w, err);
        if (st == GG_OK) st = emit_bytes(w, w->raw, bytes_of_values(w->u->t.dtype, n), err);
    }
    return st;
}

/* Purifies a signal of the row. Non-finite values are only counted. */
static gg_status purify_signal(purify_work *w, uint64_t from, uint64_t in_row, gg_error *err)
{
    bool changed = false;
    if (w->values == 0) return GG_OK;
    w->from = from;
    w->in_row = in_row;
    w->no = w->bytes ? from / w->bytes : 0;
    gg_status st = load_signal(w, err);
    if (st == GG_OK) st = filter_signal(w, &changed, err);
    if (st != GG_OK || w->nonfinite) return st;
    if (changed || w->u->t.dtype != w->dtype) {
        w->same = false;
        st = store_signal(w, err);
    } else {
        st = pass_signal(w, true, err);
    }
    if (st == GG_OK) take_samples(w, &w->after);
    return st;
}

/* ---- a row ---------------------------------------------------------------------------- */

static gg_status theta_of(const sampled *s, double *theta, gg_error *err)
{
    gg_measure m;
    void *scratch = malloc(gg_measure_scratch((size_t)s->n) + 1);
    if (!scratch) return gg_fail(err, GG_ENOMEM, "no memory to measure");
    gg_measure_values(s->values, (size_t)s->n, scratch, &m);
    *theta = m.theta;
    free(scratch);
    return GG_OK;
}

/* Purifies one row, which consists of n signals that start at byte `from` of the data. */
static gg_status purify_one_row(purify_work *w, purify_row *row, uint64_t from, uint64_t n,
                                gg_error *err)
{
    gg_status st = GG_OK;
    w->row = &row->r;
    w->row_values = n * w->values;
    w->before.n = w->after.n = gg_sample_count(w->row_values, GG_SAMPLE_DEFAULT);
    w->nonfinite = 0;
    w->left = w->energy = w->change = w->size = 0;
    w->same = true;
    for (uint64_t i = 0; i < n && st == GG_OK; i++)
        st = purify_signal(w, from + i * w->bytes, i, err);
    if (st == GG_OK && w->nonfinite) {
        st = gg_fail(err, GG_EFORMAT, "%llu of its values are NaN or infinite",
                     (unsigned long long)w->nonfinite);
        gg_fix_hint(err, GG_HINT_DESELECT,
                    "leave it out; measure the model to see how many each tensor has");
    }
    if (st != GG_OK) return gg_at_tensor(err, row->r.t.name, row->r.t.name_len);
    row->r.energy_kept = w->energy > 0 ? w->left / w->energy : 1.0;
    row->r.rel_l2 = w->size > 0 ? sqrt(w->change / w->size) : 0.0;
    row->r.outcome = w->same ? GG_PURIFY_IDENTICAL : GG_PURIFY_DONE;
    st = theta_of(&w->before, &row->r.theta_before, err);
    return st == GG_OK ? theta_of(&w->after, &row->r.theta_after, err) : st;
}

/* ---- a tensor ------------------------------------------------------------------------- */

static gg_status allocate_work(purify_work *w, gg_error *err)
{
    bool again = gg_source_seekable(w->u->job->source);
    w->x = malloc((size_t)w->values * sizeof *w->x + 1);
    w->raw = malloc((size_t)STEPS_PER_THREAD * w->threads * STEP_BYTES);
    w->kept = again ? NULL : malloc((size_t)w->bytes + 1);
    w->before.values = malloc((size_t)GG_SAMPLE_DEFAULT * sizeof(float));
    w->after.values = malloc((size_t)GG_SAMPLE_DEFAULT * sizeof(float));
    if (!w->x || !w->raw || !(w->kept || again) || !w->before.values || !w->after.values)
        return gg_fail(err, GG_ENOMEM, "no memory for the %llu values of a tensor",
                       (unsigned long long)w->values);
    gg_status st = gg_weights_open(&w->weights, w->u->job->imatrix, &w->u->t, 0, 0, err);
    if (st != GG_OK || !w->weights.of.mean2) return st;
    w->room = malloc(w->threads * STEP * sizeof *w->room);
    return w->room ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the weights of a tensor");
}

static void free_work(purify_work *w)
{
    free(w->x);
    free(w->raw);
    free(w->kept);
    free(w->room);
    gg_weights_close(&w->weights);
    free(w->before.values);
    free(w->after.values);
}

static gg_status check_input_hash(purify_work *w, gg_error *err)
{
    unsigned char digest[32];
    char hex[65];
    if (!w->hashed) return GG_OK;
    gg_sha256_final(&w->in, digest);
    gg_sha256_hex(digest, hex);
    return gg_check_sha256(hex, w->u->sha256, err);
}

/* Purifies the rows in order. Signals that belong to no row are copied unchanged. */
static gg_status purify_rows(purify_work *w, uint64_t signals, gg_error *err)
{
    purify_unit *u = w->u;
    purify_row *row = u->job->rows + u->first;
    if (!u->experts) return purify_one_row(w, row, 0, signals, err);
    gg_status st = GG_OK;
    size_t k = 0;
    for (uint64_t i = 0; i < signals && st == GG_OK; i++) {
        bool mine = k < u->n && row[k].expert == i && row[k].r.outcome <= GG_PURIFY_IDENTICAL;
        w->from = i * w->bytes;
        st = mine ? purify_one_row(w, &row[k], w->from, 1, err) : pass_signal(w, false, err);
        k += k < u->n && row[k].expert == i;
    }
    return st;
}

/* Purifies unit u, writes it to the sink unless the sink's fd is -1, and fills its rows. Any
 * thread may call this. */
static gg_status purify_unit_data(purify_unit *u, gg_place sink, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(u->job->source, u->source);
    uint64_t signals = 1;
    if (!gg_is_expert_stack(t, &signals) || signals == 0 || t->elements % signals) signals = 1;
    purify_work w = { .u = u, .sink = sink, .dtype = t->dtype, .threads = 1 };
    w.values = t->elements / signals;
    w.bytes = t->bytes / signals;
    if (w.values > SIZE_MAX / 8)
        return gg_fail(err, GG_EUNSUPPORTED, "too many values for this machine");
    bool big = w.values > PURIFY_SHARED || !gg_source_seekable(u->job->source);
    if (big) w.threads = u->job->threads;
    if (big) pthread_mutex_lock(&u->job->big);
    w.hashed = u->sha256 && u->sha256[0];
    gg_sha256_init(&w.in);
    gg_status st = allocate_work(&w, err);
    if (st == GG_OK) st = gg_data_open(u->job->source, u->source, &w.data, err);
    if (st == GG_OK) {
        st = purify_rows(&w, signals, err);
        if (st == GG_OK) st = check_input_hash(&w, err);
        gg_data_close(&w.data);
    }
    free_work(&w);
    if (big) pthread_mutex_unlock(&u->job->big);
    return st == GG_OK || st == GG_EIO ? st : gg_at_tensor(err, t->name, t->name_len);
}

/* ---- a stream, or nothing ---------------------------------------------------------------- */

/* Delivers the rows that are finished. */
static gg_status deliver_rows(purify_job *j, gg_error *err)
{
    gg_status st = GG_OK;
    for (; j->told < j->n_rows && st == GG_OK; j->told++) {
        const gg_purify_row *r = &j->rows[j->told].r;
        j->report->tensors++;
        j->report->purified += r->outcome == GG_PURIFY_DONE;
        j->report->identical += r->outcome == GG_PURIFY_IDENTICAL;
        j->report->left_alone += r->outcome > GG_PURIFY_IDENTICAL;
        if (r->outcome == GG_PURIFY_DONE) j->report->bytes += r->t.bytes;
        if (j->o->row) st = j->o->row(j->o->ctx, r, err);
    }
    return st;
}

static gg_status stream_unit(purify_unit *u, int fd, gg_error *err)
{
    uint8_t head[GG_RECORD_HEADER];
    gg_status st = gg_write_all(fd, head, gg_record_header(&u->t, head), err);
    if (st != GG_OK) return st;
    if (u->touched) return purify_unit_data(u, (gg_place){ fd, GG_AT_POS }, err);
    gg_plan_part whole = { u->job->source, u->source, 0, u->t.bytes, NULL };
    return gg_copy_part(&whole, (gg_place){ fd, GG_AT_POS }, NULL, u->job->run, err);
}

static gg_status try_unit(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    purify_job *j = ctx;
    purify_unit *u = &j->units[i];
    (void)worker;
    if (u->touched) return purify_unit_data(u, (gg_place){ -1, GG_AT_POS }, err);
    gg_progress_add(j->run, gg_source_tensor(j->source, u->source)->bytes);
    return GG_OK;
}

/* Works in one pass from front to back. If fd is -1, nothing is written. */
static gg_status write_stream(purify_job *j, int fd, gg_error *err)
{
    bool pipe = !gg_source_seekable(j->source), more = true;
    gg_status st = GG_OK;
    for (size_t i = 0; st == GG_OK; i++) {
        st = gg_source_next(j->source, i, &more, err);
        if (st != GG_OK || !more) break;
        if (pipe) st = plan_unit(j, i, err);
        if (st == GG_OK) st = fd >= 0 ? stream_unit(&j->units[i], fd, err) : try_unit(j, i, 0, err);
        if (st == GG_OK && pipe) st = deliver_rows(j, err);
    }
    return st == GG_OK && pipe ? check_plan(j, err) : st;
}

/* ---- metadata --------------------------------------------------------------- */

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

static gg_status put_changed_experts(const purify_unit *u, gg_buf *b, gg_error *err)
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
static gg_status note_purify_history(const purify_unit *u, gg_dir_item *item, gg_error *err)
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
    if (u->experts) put_changed_experts(u, &b, err);
    gg_format_f64(kept / n, number);
    gg_buf_printf(&b, err, ", \"energy_kept\": %s", number);
    gg_format_f64(change / n, number);
    gg_buf_printf(&b, err, ", \"rel_l2\": %s}", number);
    item->history = gg_buf_take(&b, NULL);
    return err->status;
}

static gg_status make_purified_record(void *ctx, const gg_target *to, gg_error *err)
{
    dir_record *r = ctx;
    gg_status st = purify_unit_data(r->u, (gg_place){ to->fd, to->at }, err);
    return st == GG_OK ? note_purify_history(r->u, r->item, err) : st;
}

static gg_status add_dir_items(purify_job *j, gg_organ_dir *d, dir_record *records, gg_error *err)
{
    gg_status st = GG_OK;
    gg_dir_item *item;
    for (size_t i = 0; i < j->n_units && st == GG_OK; i++) {
        purify_unit *u = &j->units[i];
        gg_selected p = { .t = u->t, .a = gg_source_anatomy(j->source, i), .source = i };
        st = gg_organ_dir_add(d, &p, &item, err);
        if (st != GG_OK || !u->touched) continue;
        item->make = make_purified_record;
        item->ctx = &records[i];
    }
    if (st == GG_OK) st = gg_organ_dir_names(d, err);
    for (size_t i = 0; st == GG_OK && i < j->n_units; i++)
        records[i] = (dir_record){ &j->units[i], &d->items[i] };
    return st;
}

static gg_status fill_purified_dir(purify_job *j, gg_organ_dir *d, gg_meta *meta, gg_error *err)
{
    dir_record *records = calloc(j->n_units ? j->n_units : 1, sizeof *records);
    if (!records) return gg_fail(err, GG_ENOMEM, "no memory for a list of %zu tensors", j->n_units);
    gg_status st = add_dir_items(j, d, records, err);
    if (st == GG_OK && gg_source_meta(j->source) && (j->o->dtype || j->weighed.used)) {
        st = retyped_meta(j, meta, err);
        d->meta = meta;
    }
    if (st == GG_OK) st = gg_organ_dir_check(d, err);
    if (st == GG_OK) st = gg_organ_dir_records(d, err);
    free(records);
    return st;
}

static gg_status write_dir(purify_job *j, const char *dir, gg_error *err)
{
    gg_organ_dir d;
    gg_meta meta = GG_META_INIT;
    gg_status st = gg_organ_dir_open(&d, j->source, dir, j->run, err);
    if (st != GG_OK) return st;
    d.whole = true;
    st = fill_purified_dir(j, &d, &meta, err);
    st = gg_organ_dir_close(&d, st, err);
    if (st == GG_EIO) gg_at_file(err, dir);
    gg_meta_free(&meta);
    return st;
}

/* ---- GGUF ---------------------------------------------------------------------------- */

static gg_status make_purified(void *ctx, const gg_target *to, gg_error *err)
{
    return purify_unit_data(ctx, (gg_place){ to->fd, to->at }, err);
}

static gg_status plan_model(purify_job *j, gg_plan *p, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < j->n_units && st == GG_OK; i++) {
        purify_unit *u = &j->units[i];
        gg_plan_tensor *pt;
        gg_plan_part part = { j->source, u->source, 0, u->t.bytes, NULL };
        st = gg_plan_add(p, &u->t, &pt, err);
        if (st != GG_OK) break;
        if (u->touched) {
            pt->make = make_purified;
            pt->ctx = u;
        } else {
            st = gg_plan_add_part(pt, &part, err);
        }
    }
    return st;
}

static gg_status write_gguf(purify_job *j, const char *path, gg_error *err)
{
    gg_plan p = { 0 };
    gg_meta meta = GG_META_INIT;
    uint64_t written;
    gg_status st = plan_model(j, &p, err);
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

/* ---- the verb ------------------------------------------------------------------------- */

static gg_status write_output(purify_job *j, const char *output, int fd, gg_error *err)
{
    if (!output && gg_source_seekable(j->source)) /* nothing depends on the order */
        return gg_parallel(j->n_units, j->threads, try_unit, j, err);
    if (!output || j->o->form == GG_PURIFY_STREAM) return write_stream(j, fd, err);
    return j->o->form == GG_PURIFY_MODEL ? write_gguf(j, output, err) : write_dir(j, output, err);
}

static gg_status run_purify(purify_job *j, const char *output, int fd, gg_error *err)
{
    bool pipe = !gg_source_seekable(j->source);
    gg_status st = GG_OK;
    pthread_mutex_init(&j->big, NULL);
    if (j->o->imatrix) st = gg_imatrix_open(j->o->imatrix, &j->imatrix, err);
    j->weighed.imatrix = j->imatrix;
    if (st == GG_OK && pipe)
        st = gg_select_check(j->o->select, j->source, NULL, &(gg_select_when){ 0 }, err);
    if (st == GG_OK && !pipe) st = plan_all_units(j, err);
    if (st == GG_OK && !pipe) st = check_plan(j, err);
    if (st == GG_OK) st = write_output(j, output, fd, err);
    if (st == GG_OK) st = deliver_rows(j, err);
    if (st == GG_OK && (!output || j->o->form == GG_PURIFY_STREAM))
        st = gg_source_unchanged(j->source, err);
    pthread_mutex_destroy(&j->big);
    gg_imatrix_close(j->imatrix);
    free(j->units);
    free(j->rows);
    gg_names_free(&j->names);
    if (st != GG_OK && st != GG_EIO && st != GG_EUSAGE) gg_at_file(err, gg_source_name(j->source));
    return st;
}

gg_status gg_purify(gg_source *s, const gg_purify_options *o, const char *output, const gg_run *run,
                    gg_purify_report *report, gg_error *err)
{
    o = GG_OPTIONS(gg_purify_options, o);
    run = GG_OPTIONS(gg_run, run);
    report = GG_REPORT(gg_purify_report, report);
    *report = (gg_purify_report){ 0 };
    if (output && o->form == GG_PURIFY_MODEL && !gg_source_model(s)) {
        gg_fail(err, GG_EUSAGE, "only a GGUF file can be purified into a GGUF file");
        gg_fix(err, "purify into a directory, then assemble it with organ-assemble");
        return gg_at_file(err, gg_source_name(s));
    }
    purify_job j = { .source = s, .o = o, .run = run, .report = report };
    j.threads = run->threads ? run->threads : gg_thread_count();
    if (!output || o->form != GG_PURIFY_STREAM) return run_purify(&j, output, -1, err);
    if (strcmp(output, "-") == 0) return run_purify(&j, output, STDOUT_FILENO, err);
    gg_output *out;
    gg_status st = gg_guard_output(output, s, err);
    if (st == GG_OK) st = gg_output_open(output, run->force, &out, err);
    if (st != GG_OK) return st;
    st = run_purify(&j, output, gg_output_fd(out), err);
    if (st == GG_OK) return gg_output_commit(out, err);
    gg_output_abort(out);
    return st == GG_EIO ? gg_at_file(err, output) : st;
}

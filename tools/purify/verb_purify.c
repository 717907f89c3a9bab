/* verb_purify.c - purifies a model and writes it to an organ directory, an organ stream or a GGUF
 * file, or writes nothing. Tensors that are not purified are copied.
 *
 * The plan lists every tensor of the source, and a row for each selected one. Everything that can
 * be refused is refused there. A tensor consists of one or more signals of equal size: the tensor
 * itself, or the experts of a stack. Only one signal's values are in memory at a time. Data is read
 * and written from front to back, so pipes work as well as files.
 */
#include "gg_purify.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/io.h"
#include "base/names.h"
#include "base/output.h"
#include "base/parallel.h"
#include "compute/compute.h"
#include "compute/dtype_rules.h"
#include "numeric/numeric.h"
#include "organ/output_guard.h"
#include "organ/record.h"
#include "organ/select.h"
#include "organ/source_layout.h"
#include "organ/source_watch.h"
#include "organ/tensor_names.h"
#include "purify.h"
#include "quant/quant.h"
#include "write/copy.h"
#include "write/keys.h"
#include "write/organ_dir.h"
#include "write/plan.h"
#include "write/selected_tensors.h"
#include "write/verb_run.h"
#include "json/json.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct purify_row {
    gg_purify_row r; /* r.t.name belongs to the source or, for an expert, to the job */
    uint64_t expert; /* expert number, if the row is one expert */
} purify_row;

/* A tensor of the source, selected or not. */
typedef struct purify_unit {
    struct purify_job *job;
    size_t source;
    gg_tensor t;     /* as it will be written */
    size_t first, n; /* rows of this tensor */
    bool experts;    /* one row per selected expert */
    bool touched;    /* at least one row is changed */
} purify_unit;

typedef struct purify_job {
    gg_source *source;
    const gg_purify_options *o;
    const gg_run *run;
    gg_run alone; /* the same for one tensor at a time, which all threads work on */
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
    gg_organ_dir dir; /* the output, if it is one */
    bool to_dir;
    float *x; /* the values of a signal, `room` of them; kept for the next tensor */
    uint64_t room;
    int fd;   /* of a stream; without an output it leads nowhere */
    bool dry; /* nothing is written */
} purify_job;

const char *gg_purify_outcome_name(gg_purify_outcome o)
{
    static const char *const names[] = { "purified", "identical", "vector", "integer", "no-codec" };
    return names[o];
}

/* Dtypes that are not used for weights: integers, doubles, and types for dot products only. */
static bool is_rare(uint32_t dtype)
{
    return gg_is_integer(dtype) || dtype == GG_F64 || dtype == GG_Q8_1 || dtype == GG_Q8_K;
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
    gg_fix_by(err, "dtype", "choose one of %s", list);
}

/* ---- planning rows --------------------------------------------------------------------- */

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
        gg_fail(err, GG_EUSAGE,
                j->imatrix ? "the importance matrix lacks it, and %s needs one"
                           : "%s cannot be encoded without an importance matrix",
                gg_dtype_name(dtype));
    } else if (!needs && !gg_can_encode(dtype)) {
        gg_fail(err, GG_EUSAGE, "there is no encoder for %s", gg_dtype_name(dtype));
    } else if (gg_row_bytes(dtype, t->n_dims ? t->dims[0] : 1, &bytes, &why) != GG_OK) {
        gg_fail(err, GG_EUSAGE, "rows of %llu values cannot be %s", (unsigned long long)t->dims[0],
                gg_dtype_name(dtype));
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
    uint32_t dims = p->t.n_dims - (p->t.a.stack && p->t.n_dims ? 1 : 0);
    r->outcome = GG_PURIFY_DONE;
    r->dtype = j->o->dtype ? j->o->dtype->id : p->t.dtype;
    if (!gg_can_decode(p->t.dtype)) r->outcome = GG_PURIFY_NO_CODEC;
    else if (gg_is_integer(p->t.dtype) && !named) r->outcome = GG_PURIFY_INTEGER;
    else if (dims < 2 && !named && !j->sole) r->outcome = GG_PURIFY_VECTOR;
    else return check_target(j, &p->t, r->dtype, err);
    r->dtype = p->t.dtype;
    if (r->outcome != GG_PURIFY_NO_CODEC || !named) return GG_OK;
    gg_fail(err, GG_EUNSUPPORTED, "no codec decodes %s", gg_dtype_name(p->t.dtype));
    return gg_at_tensor(err, p->t.name, p->t.name_len);
}

static gg_status add_purify_row(void *ctx, const gg_selected *p, gg_error *err)
{
    purify_job *j = ctx;
    purify_unit *u = &j->units[j->n_units];
    if (GG_ROOM(j->rows, j->n_rows, &j->cap_rows, err) != GG_OK) return GG_ENOMEM;
    purify_row *row = &j->rows[j->n_rows];
    *row = (purify_row){ .r = { .t = p->t } };
    row->r.t.name = p->expert ? gg_names_add(&j->names, p->t.name, p->t.name_len, err) : u->t.name;
    if (!row->r.t.name) return GG_ENOMEM;
    if (p->expert) row->expert = p->at / (p->t.bytes ? p->t.bytes : 1);
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
        gg_fix(err, "keep the dtype, select all experts, or split the experts first (--dtype, "
                    "--experts; organ-extract --split-experts)");
        return gg_at_tensor(err, u->t.name, u->t.name_len);
    }
    u->t.dtype = dtype;
    return gg_tensor_extent(dtype, u->t.n_dims, u->t.dims, NULL, &u->t.bytes, err);
}

static gg_status plan_unit(purify_job *j, size_t i, gg_error *err)
{
    if (GG_ROOM(j->units, j->n_units, &j->cap_units, err) != GG_OK) return GG_ENOMEM;
    purify_unit *u = &j->units[j->n_units];
    *u = (purify_unit){
        .job = j, .source = i, .t = *gg_source_tensor(j->source, i), .first = j->n_rows
    };
    gg_visit visit = { j->o->select, false, add_purify_row, j };
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
        return gg_fix_by(err, "list", "list the names of its tensors");
    }
    gg_fail(err, GG_NO, "no selected tensor is a matrix of floating-point or quantized values");
    return gg_fix_by(err, "tensors", "to purify a vector, select it by its exact name");
}

static gg_status check_plan(const purify_job *j, gg_error *err)
{
    gg_status st = check_rows(j, err);
    if (st == GG_OK) gg_imatrix_use_note(&j->weighed, j->run);
    return st;
}

/* ---- a signal ------------------------------------------------------------------------ */

#define PURIFY_STEP (4 * COMPUTE_STEP) /* fits the second-level cache, as do its bytes */

typedef struct sampled { /* the samples of a row, for theta */
    float *values;
    uint64_t n;
} sampled;

/* A tensor, and its current signal and row. */
typedef struct purify_work {
    purify_unit *u;
    gg_place sink;
    gg_plan_part whole;
    operand operand;
    feed in;
    uint64_t values, bytes; /* size of a signal as read */
    gg_steps load;          /* decode the values */
    uint8_t *raw;           /* the bytes of its slots */
    float *x;
    uint8_t *kept;   /* the signal's bytes from a pipe, which cannot be read again */
    gg_steps steps;  /* encode and write x */
    uint64_t no;     /* number of the signal */
    uint64_t in_row; /* its number in the row */
    /* The row and its totals. */
    purify_row *row;
    sampled before, after;
    uint64_t row_values, nonfinite;
    double left, energy, change, size; /* sums of squares */
    bool same;                         /* all bytes are unchanged */
} purify_work;

/* Takes the row's samples among n values of the signal, from value `at` on. This is done while they
 * are in the cache. */
static void take_samples(const purify_work *w, const sampled *s, uint64_t at, uint64_t n)
{
    if (s->n == 0) return;
    uint64_t first = w->in_row * w->values + at, i = gg_sample_index(first, s->n, w->row_values);
    while (gg_sample_index(i, w->row_values, s->n) < first) i++;
    if (i >= s->n) return;
    /* The index as quotient and remainder: a division per sample would take longer than the rest.
     */
    uint64_t step = w->row_values / s->n, part = w->row_values % s->n, rest = i * part % s->n;
    uint64_t index = gg_sample_index(i, w->row_values, s->n) - first;
    for (; i < s->n && index < n; i++) {
        s->values[i] = w->x[at + index];
        rest += part;
        index += step + (rest >= s->n);
        rest -= rest >= s->n ? s->n : 0;
    }
}

/* Writes n bytes of the signal, from its byte `at` on. */
static gg_status emit_bytes(const purify_work *w, uint64_t at, const void *bytes, size_t n,
                            gg_error *err)
{
    uint64_t before = w->no * gg_encoded_bytes(w->u->t.dtype, w->values);
    return gg_put_all(w->sink.fd, bytes, n, gg_offset_after(w->sink.at, before + at), err);
}

static gg_status read_values(void *ctx, const gg_step *s, gg_error *err)
{
    purify_work *w = ctx;
    size_t bytes = (size_t)gg_encoded_bytes(w->operand.dtype, s->n);
    uint8_t *raw = w->raw + s->slot * (size_t)gg_encoded_bytes(w->operand.dtype, w->load.size);
    gg_status st = gg_feed_raw(&w->in, raw, bytes, err);
    if (st == GG_OK && w->kept)
        memcpy(w->kept + gg_encoded_bytes(w->operand.dtype, s->first), raw, bytes);
    if (st == GG_OK) gg_progress_add(w->u->job->run, bytes);
    return st;
}

static gg_status decode_values(void *ctx, const gg_step *s, float **x, gg_error *err)
{
    purify_work *w = ctx;
    const uint8_t *raw = w->raw +
                         s->slot * (size_t)gg_encoded_bytes(w->operand.dtype, w->load.size);
    *x = w->x + s->first;
    gg_status st = gg_decode(w->operand.dtype, raw, *x, s->n, err);
    if (st == GG_OK) take_samples(w, &w->before, s->first, s->n);
    return st;
}

/* Reads the values of the signal. */
static gg_status load_values(purify_work *w, gg_error *err)
{
    return gg_steps_run(&w->load, 0, w->values, w->load.threads, false, err);
}

/* Copies the bytes of the signal instead. */
static gg_status pass_signal(purify_work *w, gg_error *err)
{
    gg_status st = GG_OK;
    for (uint64_t at = 0; at < w->values && st == GG_OK; at += COMPUTE_STEP) {
        size_t n = w->values - at < COMPUTE_STEP ? (size_t)(w->values - at) : COMPUTE_STEP;
        size_t bytes = (size_t)gg_encoded_bytes(w->operand.dtype, n);
        st = gg_feed_raw(&w->in, w->raw, bytes, err);
        if (st == GG_OK)
            st = emit_bytes(w, gg_encoded_bytes(w->operand.dtype, at), w->raw, bytes, err);
        if (st == GG_OK) gg_progress_add(w->u->job->run, bytes);
    }
    return st;
}

/* Sets *changed to false if the values are the same as before. */
static gg_status filter_signal(purify_work *w, bool *changed, gg_error *err)
{
    const gg_purify_options *o = w->u->job->o;
    const gg_tensor *t = &w->u->t;
    gg_filter f = { o->method, o->strength, t->n_dims ? t->dims[0] : 1, w->steps.threads };
    gg_filtered r = { 0 };
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

static gg_status make_values(void *ctx, const gg_step *s, float **x, gg_error *err)
{
    const purify_work *w = ctx;
    (void)err;
    *x = w->x + (s->first - w->no * w->values);
    return GG_OK;
}

static void sample_stored(void *ctx, const gg_step *s)
{
    const purify_work *w = ctx;
    take_samples(w, &w->after, s->first - w->no * w->values, s->n);
}

/* Encodes and writes x, which then has the values as stored. */
static gg_status store_signal(purify_work *w, gg_error *err)
{
    gg_steps *s = &w->steps;
    uint64_t first = w->no * w->values;
    gg_status st = gg_steps_run(s, first, first + w->values, s->threads, true, err);
    if (st != GG_OK || s->lost == 0) return st;
    gg_fail(err, GG_EUSAGE, "its values are too large for %s", gg_dtype_name(w->u->t.dtype));
    return gg_fix_by(err, "dtype", "use BF16 or F32");
}

/* Purifies signal `no`. Non-finite values are only counted. */
static gg_status purify_signal(purify_work *w, uint64_t no, uint64_t in_row, gg_error *err)
{
    bool changed = false;
    if (w->values == 0) return GG_OK;
    w->no = no;
    w->in_row = in_row;
    gg_status st = load_values(w, err);
    if (st == GG_OK) st = filter_signal(w, &changed, err);
    if (st != GG_OK || w->nonfinite) return st;
    changed = changed || w->u->t.dtype != w->operand.dtype;
    w->same = w->same && !changed;
    gg_plan_part part = { w->whole.source, w->whole.index, no * w->bytes, w->bytes, NULL };
    gg_place to = { w->sink.fd, gg_offset_after(w->sink.at, part.at) };
    st = changed   ? store_signal(w, err)
         : w->kept ? emit_bytes(w, 0, w->kept, (size_t)w->bytes, err)
                   : gg_copy_part(&part, to, NULL, NULL, err);
    if (st == GG_OK && !changed) take_samples(w, &w->after, 0, w->values);
    return st;
}

/* ---- a row ---------------------------------------------------------------------------- */

/* Theta of the samples before (task 0), or after. */
static gg_status find_theta(void *ctx, size_t task, unsigned worker, gg_error *err)
{
    const purify_work *w = ctx;
    const sampled *s = task == 0 ? &w->before : &w->after;
    gg_measure m;
    (void)worker;
    void *scratch = malloc(gg_measure_scratch((size_t)s->n) + 1);
    if (!scratch) return gg_fail(err, GG_ENOMEM, "no memory to measure");
    gg_measure_values(s->values, (size_t)s->n, scratch, &m);
    *(task == 0 ? &w->row->r.theta_before : &w->row->r.theta_after) = m.theta;
    free(scratch);
    return GG_OK;
}

/* Purifies one row, which consists of n signals from number `first` on. */
static gg_status purify_one_row(purify_work *w, purify_row *row, uint64_t first, uint64_t n,
                                gg_error *err)
{
    gg_status st = GG_OK;
    w->row_values = n * w->values;
    w->before.n = w->after.n = gg_sample_count(w->row_values, GG_SAMPLE_DEFAULT);
    w->nonfinite = 0;
    w->left = w->energy = w->change = w->size = 0;
    w->same = true;
    for (uint64_t i = 0; i < n && st == GG_OK; i++) st = purify_signal(w, first + i, i, err);
    if (st == GG_OK && w->nonfinite) {
        st = gg_fail_unusable(err, row->r.t.dtype, w->nonfinite);
        gg_fix(err, "leave it out; measure the model to see how many each tensor has (--tensors, "
                    "--type; organ-measure)");
    }
    if (st != GG_OK) return gg_at_tensor(err, row->r.t.name, row->r.t.name_len);
    row->r.energy_kept = w->energy > 0 ? w->left / w->energy : 1.0;
    row->r.rel_l2 = w->size > 0 ? sqrt(w->change / w->size) : 0.0;
    row->r.outcome = w->same ? GG_PURIFY_IDENTICAL : GG_PURIFY_DONE;
    w->row = row;
    return gg_parallel(2, w->steps.threads, find_theta, w, err);
}

/* ---- a tensor ------------------------------------------------------------------------- */

static gg_status open_work(purify_work *w, gg_error *err)
{
    purify_job *j = w->u->job;
    bool again = gg_source_seekable(j->source);
    w->operand = (operand){ gg_source_tensor(j->source, w->u->source)->dtype, &w->whole, 1 };
    gg_feed_open(&w->in, &w->operand, true);
    w->steps = (gg_steps){ .to = { .t = &w->u->t, .fd = w->sink.fd, .at = w->sink.at },
                           .size = PURIFY_STEP,
                           .threads = j->threads,
                           .ctx = w,
                           .make = make_values,
                           .after = sample_stored,
                           .back = true };
    w->load = (gg_steps){ .to = { .t = gg_source_tensor(j->source, w->u->source), .fd = -1 },
                          .size = PURIFY_STEP,
                          .threads = j->threads,
                          .ctx = w,
                          .read = read_values,
                          .make = decode_values };
    gg_status st = gg_steps_open(&w->load, NULL, 0, 0, err);
    if (st != GG_OK) return st;
    if (w->values > j->room || !j->x) {
        free(j->x);
        j->x = gg_new_large((size_t)w->values * sizeof *j->x + 1);
        j->room = j->x ? w->values : 0;
    }
    w->x = j->x;
    w->raw = malloc(w->load.n_slots * (size_t)gg_encoded_bytes(w->operand.dtype, w->load.size));
    w->kept = again ? NULL : malloc((size_t)w->bytes + 1);
    w->before.values = malloc((size_t)GG_SAMPLE_DEFAULT * sizeof(float));
    w->after.values = malloc((size_t)GG_SAMPLE_DEFAULT * sizeof(float));
    if (!w->x || !w->raw || !(w->kept || again) || !w->before.values || !w->after.values)
        return gg_fail(err, GG_ENOMEM, "no memory for the %llu values of a tensor",
                       (unsigned long long)w->values);
    return gg_steps_open(&w->steps, j->imatrix, 0, 0, err);
}

static void close_work(purify_work *w)
{
    gg_feed_close(&w->in);
    gg_steps_close(&w->load);
    gg_steps_close(&w->steps);
    free(w->raw);
    free(w->kept);
    free(w->before.values);
    free(w->after.values);
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
        w->no = i;
        st = mine ? purify_one_row(w, &row[k], i, 1, err) : pass_signal(w, err);
        k += k < u->n && row[k].expert == i;
    }
    return st;
}

/* Purifies unit u, writes it to the sink, and fills its rows. */
static gg_status purify_unit_data(purify_unit *u, gg_place sink, gg_error *err)
{
    purify_job *j = u->job;
    const gg_tensor *t = gg_source_tensor(j->source, u->source);
    uint64_t signals = 1;
    if (!gg_is_expert_stack(t, &signals) || signals == 0 || t->elements % signals) signals = 1;
    purify_work w = { .u = u, .sink = sink };
    w.whole = gg_plan_whole(j->source, u->source);
    w.values = t->elements / signals;
    w.bytes = t->bytes / signals;
    if (w.values > SIZE_MAX / 8)
        return gg_fail(err, GG_EUNSUPPORTED, "too many values for this machine");
    gg_status st = open_work(&w, err);
    if (st == GG_OK) st = purify_rows(&w, signals, err);
    if (st == GG_OK && t->bytes == 0) st = gg_verify_data(j->source, u->source, err);
    close_work(&w);
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

/* Writes a record. */
static gg_status stream_unit(purify_unit *u, gg_error *err)
{
    const purify_job *j = u->job;
    const gg_place to = { j->fd, GG_AT_POS };
    uint8_t head[GG_RECORD_HEADER];
    gg_status st = gg_write_all(to.fd, head, gg_record_header(&u->t, head), err);
    if (st != GG_OK) return st;
    if (u->touched) return purify_unit_data(u, to, err);
    if (j->dry) {
        gg_progress_add(j->run, u->t.bytes);
        return GG_OK;
    }
    gg_plan_part whole = { j->source, u->source, 0, u->t.bytes, NULL };
    return gg_copy_part(&whole, to, NULL, j->run, err);
}

/* Works in one pass from front to back. */
static gg_status write_stream(purify_job *j, gg_error *err)
{
    bool pipe = !gg_source_seekable(j->source), more = true;
    gg_status st = GG_OK;
    for (size_t i = 0; st == GG_OK; i++) {
        st = gg_source_next(j->source, i, &more, err);
        if (st != GG_OK || !more) break;
        if (pipe) st = plan_unit(j, i, err);
        if (st == GG_OK) st = stream_unit(&j->units[i], err);
        if (st == GG_OK && pipe) st = deliver_rows(j, err);
    }
    return st == GG_OK && pipe ? check_plan(j, err) : st;
}

/* ---- metadata --------------------------------------------------------------- */

/* The metadata of the source, with the file type of the output. */
static gg_status retyped_meta(const purify_job *j, const gg_plan *p, gg_meta *meta, gg_error *err)
{
    gg_status st = gg_meta_copy(meta, gg_source_meta(j->source), err);
    if (st == GG_OK && j->weighed.used) st = gg_imatrix_keys(j->imatrix, meta, err);
    return st == GG_OK && j->o->dtype ? gg_plan_type_keys(p, meta, err) : st;
}

/* ---- directory --------------------------------------------------------------------- */

static gg_status put_changed_experts(const purify_unit *u, gg_buf *b, gg_error *err)
{
    const char *before = ", \"experts\": [";
    for (size_t i = u->first; i < u->first + u->n; i++) {
        if (u->job->rows[i].r.outcome != GG_PURIFY_DONE) continue;
        gg_buf_printf(b, err, "%s%llu", before, (unsigned long long)u->job->rows[i].expert);
        before = ", ";
    }
    return gg_buf_text(b, "]", err);
}

/* Writes {"op": "purify", ...} for a tensor that changed. For experts it lists the changed ones
 * and gives mean values. */
static gg_status note_purify_history(const purify_unit *u, gg_error *err)
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
    u->job->dir.items[u - u->job->units].history = gg_buf_take(&b, NULL);
    return err->status;
}

static gg_status make_purified(void *ctx, const gg_target *to, gg_error *err)
{
    purify_unit *u = ctx;
    gg_status st = purify_unit_data(u, (gg_place){ to->fd, to->at }, err);
    return st == GG_OK && u->job->to_dir ? note_purify_history(u, err) : st;
}

/* Plans all tensors, of a directory or of a model. */
static gg_status plan_output(purify_job *j, gg_plan *model, gg_error *err)
{
    gg_status st = GG_OK;
    for (size_t i = 0; i < j->n_units && st == GG_OK; i++) {
        purify_unit *u = &j->units[i];
        gg_plan_tensor *pt;
        gg_plan_part part = { j->source, i, 0, u->t.bytes, NULL };
        gg_selected p = { .t = u->t, .source = i };
        st = model ? gg_plan_add(model, &u->t, &pt, err) : gg_organ_dir_add(&j->dir, &p, &pt, err);
        if (st == GG_OK && !u->touched) st = gg_plan_add_part(pt, &part, err);
        if (st != GG_OK || !u->touched) continue;
        pt->make = make_purified;
        pt->ctx = u;
    }
    return st;
}

static gg_status write_dir(purify_job *j, const char *dir, gg_error *err)
{
    gg_organ_dir *d = &j->dir;
    gg_meta meta = GG_META_INIT;
    gg_status st = gg_organ_dir_open(d, j->source, dir, &j->alone, err);
    if (st != GG_OK) return st;
    d->whole = true;
    j->to_dir = true;
    st = plan_output(j, NULL, err);
    if (st == GG_OK) st = gg_organ_dir_names(d, err);
    if (st == GG_OK && gg_source_meta(j->source) && (j->o->dtype || j->weighed.used)) {
        st = retyped_meta(j, &d->plan, &meta, err);
        d->meta = &meta;
    }
    if (st == GG_OK) st = gg_organ_dir_check(d, err);
    if (st == GG_OK) st = gg_organ_dir_records(d, err);
    st = gg_organ_dir_close(d, st, err);
    if (st == GG_EIO) gg_at_file(err, dir);
    gg_meta_free(&meta);
    return st;
}

/* ---- GGUF ---------------------------------------------------------------------------- */

static gg_status write_gguf(purify_job *j, const char *path, gg_error *err)
{
    gg_plan p = { 0 };
    gg_meta meta = GG_META_INIT;
    uint64_t written;
    gg_status st = plan_output(j, &p, err);
    if (st == GG_OK) st = retyped_meta(j, &p, &meta, err);
    if (st == GG_OK)
        st = gg_plan_changed_file(&p, path, gg_source_header(j->source)->version, &meta, j->source,
                                  err);
    if (st == GG_OK) st = gg_plan_write(&p, &j->alone, &written, err);
    gg_meta_free(&meta);
    gg_plan_free(&p);
    return st;
}

/* ---- the verb ------------------------------------------------------------------------- */

static gg_status run_purify(purify_job *j, const char *output, gg_error *err)
{
    bool pipe = !gg_source_seekable(j->source), stream = !output || j->o->form == GG_PURIFY_STREAM;
    gg_status st = GG_OK;
    if (j->o->imatrix) st = gg_imatrix_open(j->o->imatrix, &j->imatrix, err);
    j->weighed.imatrix = j->imatrix;
    if (st == GG_OK && pipe)
        st = gg_select_check(j->o->select, j->source, NULL, &(gg_select_when){ 0 }, err);
    if (st == GG_OK && !pipe) st = plan_all_units(j, err);
    if (st == GG_OK && !pipe) st = check_plan(j, err);
    if (st == GG_OK)
        st = stream                          ? write_stream(j, err)
             : j->o->form == GG_PURIFY_MODEL ? write_gguf(j, output, err)
                                             : write_dir(j, output, err);
    if (st == GG_OK) st = deliver_rows(j, err);
    if (st == GG_OK && stream) st = gg_source_unchanged(j->source, err);
    gg_imatrix_close(j->imatrix);
    free(j->x);
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
    if (output && o->form == GG_PURIFY_MODEL && !gg_source_model(s)) {
        gg_fail(err, GG_EUSAGE, "only a GGUF file can be purified into a GGUF file");
        gg_fix(err, "purify into a directory, then assemble it with organ-assemble");
        return gg_at_file(err, gg_source_name(s));
    }
    purify_job j = { .source = s, .o = o, .run = run, .alone = *run, .report = report };
    j.threads = run->threads ? run->threads : gg_thread_count();
    j.alone.threads = 1;
    j.fd = STDOUT_FILENO;
    j.dry = !output;
    gg_output *out = NULL;
    gg_status st = output ? gg_require_whole(s, run, err) : GG_OK;
    if (st != GG_OK) return st;
    if (j.dry) {
        j.fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (j.fd < 0) return gg_fail_errno(err, "cannot open /dev/null");
    } else if (o->form == GG_PURIFY_STREAM && strcmp(output, "-") != 0) {
        st = gg_guard_output(output, s, err);
        if (st == GG_OK) st = gg_output_open(output, run->force, &out, err);
        if (st != GG_OK) return st;
        j.fd = gg_output_fd(out);
    }
    st = run_purify(&j, output, err);
    if (j.dry) close(j.fd);
    if (!out) return st;
    if (st == GG_OK) return gg_output_commit(out, err);
    gg_output_abort(out);
    return st == GG_EIO ? gg_at_file(err, output) : st;
}

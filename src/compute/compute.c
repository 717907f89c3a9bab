/* compute.c - reads inputs as values, one step at a time; computes the values of a tensor step by
 * step, and encodes and writes them: conversions. */
#include "compute.h"

#include "base/error.h"
#include "base/io.h"
#include "base/parallel.h"
#include "numeric/numeric.h"
#include "quant/quant.h"
#include "write/copy.h"
#include "write/keys.h"
#include "write/verb_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

gg_status gg_read_values(gg_source *s, size_t index, uint64_t first, size_t n, float *out,
                         gg_error *err)
{
    uint32_t dtype = gg_source_tensor(s, index)->dtype;
    size_t bytes = (size_t)gg_encoded_bytes(dtype, n);
    uint8_t *raw = malloc(bytes + 1);
    gg_data d;
    gg_status st = raw ? gg_data_open(s, index, &d, err)
                       : gg_fail(err, GG_ENOMEM, "no memory for %zu values", n);
    if (st == GG_OK) {
        st = gg_data_read(&d, gg_encoded_bytes(dtype, first), raw, bytes, err);
        gg_data_close(&d);
    }
    if (st == GG_OK) st = gg_decode(dtype, raw, out, n, err);
    free(raw);
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(s));
}

/* ---- errors of encodings --------------------------------------------------------------- */

void gg_add_errors(gg_encode_error *e, const gg_encode_error *part)
{
    e->n += part->n;
    e->error += part->error;
    e->signal += part->signal;
    e->weighed_error += part->weighed_error;
    e->weighed_sum += part->weighed_sum;
    e->weighed = e->weighed || part->weighed;
}

static gg_status add_error(gg_encode_error *e, const gg_encoded *v, gg_error *err)
{
    gg_encode_error part = { .n = v->n, .weighed = v->weights != NULL };
    gg_status st = gg_decode(v->dtype, v->blocks, v->room, v->n, err);
    for (size_t i = 0; i < v->n && st == GG_OK; i++) {
        double x = v->x[i], d = v->room[i] - x, w = v->weights ? v->weights[i] : 0;
        part.error += d * d;
        part.signal += x * x;
        part.weighed_error += w * d * d;
        part.weighed_sum += w * x * x;
    }
    if (st == GG_OK) gg_add_errors(e, &part);
    return st;
}

double gg_encode_rmse(const gg_encode_error *e)
{
    return e->n ? sqrt(e->error / (double)e->n) : 0;
}

double gg_encode_relative2(const gg_encode_error *e, bool weighed)
{
    double error = weighed ? e->weighed_error : e->error;
    double sum = weighed ? e->weighed_sum : e->signal;
    return sum > 0 ? error / sum : 0;
}

/* ---- weights: the importance of columns, repeated for the values of a tensor ------------- */

#define MOST_WEIGHT 0x1p64f /* encoders add products of two weights, and of values */

gg_status gg_weights_open(gg_weights *w, const gg_imatrix *imatrix, const gg_tensor *t,
                          uint64_t stack_first, uint64_t stack_size, gg_error *err)
{
    gg_tensor whole = *t;
    *w = (gg_weights){ .first = stack_first * t->dims[0] };
    if (!imatrix || !gg_is_quantized(t->dtype)) return GG_OK;
    if (stack_size) whole.dims[2] = stack_size;
    gg_status st = gg_imatrix_read(imatrix, &whole, &w->of, err);
    if (st != GG_OK || !w->of.mean2) return st;
    for (uint64_t j = 0; j < w->of.columns * w->of.matrices; j++) {
        if (w->of.mean2[j] <= MOST_WEIGHT) continue;
        gg_weights_close(w);
        gg_fail(err, GG_EFORMAT,
                "the importance matrix has values above 2^64, whose products overflow");
        gg_at_tensor(err, t->name, t->name_len);
        return gg_at_file(err, gg_imatrix_info_of(imatrix).file);
    }
    return GG_OK;
}

void gg_weights_close(gg_weights *w)
{
    if (w->of.mean2 || w->of.counts) gg_importance_free(&w->of);
}

const float *gg_weights_of(const gg_weights *w, uint64_t first, size_t n, float *room)
{
    for (size_t done = 0, run; w->of.mean2 && done < n; done += run) {
        const float *from = gg_importance_run(&w->of, first + done, n - done, &run) + w->first;
        memcpy(room + done, from, run * sizeof *room);
    }
    return w->of.mean2 ? room : NULL;
}

/* ---- steps --------------------------------------------------------------------------------- */

#define SLOT_BYTES ((size_t)1 << 20) /* of encoded values in flight, per thread */
#define SLOTS_LEAST 2
#define SLOTS_MOST 16

typedef struct gg_slot {
    gg_step step;
    uint8_t *room, *bytes; /* what was allocated, and the encoded values in it */
    uint64_t lost;
    bool stopped, large; /* large: F16 cannot hold a value */
    gg_encode_error error;
} gg_slot;

static uint64_t encoded_bytes(const gg_steps *s, uint64_t n)
{
    return gg_encoded_bytes(s->to.t->dtype, n);
}

static size_t slots_per_thread(const gg_steps *s, size_t bytes)
{
    size_t n = bytes ? SLOT_BYTES / bytes : SLOTS_MOST;
    if (s->threads == 1) return 1;
    return n < SLOTS_LEAST ? SLOTS_LEAST : n > SLOTS_MOST ? SLOTS_MOST : n;
}

gg_status gg_steps_open(gg_steps *s, const gg_imatrix *imatrix, uint64_t stack_first,
                        uint64_t stack_size, gg_error *err)
{
    uint64_t elements = s->to.t->elements;
    size_t most = elements < s->size ? (size_t)elements : s->size;
    size_t steps = most ? (size_t)((elements + s->size - 1) / s->size) : 1;
    size_t bytes = (size_t)encoded_bytes(s, most);
    if (s->threads > steps) s->threads = (unsigned)steps;
    if (s->threads == 0) s->threads = 1;
    s->n_slots = s->threads * slots_per_thread(s, bytes);
    if (s->n_slots > steps) s->n_slots = steps;
    s->slots = calloc(s->n_slots, sizeof *s->slots);
    bool ok = s->slots != NULL;
    for (size_t i = 0; ok && i < s->n_slots && s->to.fd >= 0; i++) {
        gg_slot *slot = &s->slots[i];
        ok = (slot->room = malloc(bytes + GG_LINE_ROOM)) != NULL;
        if (ok) slot->bytes = gg_in_line(slot->room, s->to.at);
    }
    gg_status st = GG_OK;
    if (ok && s->to.fd >= 0)
        st = gg_weights_open(&s->weights, imatrix, s->to.t, stack_first, stack_size, err);
    if (ok && (s->weights.of.mean2 || s->error))
        ok = (s->room = malloc(s->threads * 2 * COMPUTE_STEP * sizeof *s->room)) != NULL;
    return ok ? st : gg_fail(err, GG_ENOMEM, "no memory for the values of a tensor");
}

void gg_steps_close(gg_steps *s)
{
    for (size_t i = 0; s->slots && i < s->n_slots; i++) free(s->slots[i].room);
    gg_weights_close(&s->weights);
    free(s->slots);
    free(s->room);
    s->slots = NULL;
    s->room = NULL;
}

/* The largest value of F16, in which most quantized types store their scales. */
#define MOST_F16 65504.0f

/* Counts the least and the largest of n values if F16 cannot hold them, and the blocks hold another
 * value, because their scales saturate: off by a quarter, or by a half with fewer than 4 bits. */
static gg_status count_saturated(uint32_t dtype, const float *x, const uint8_t *blocks, size_t n,
                                 uint64_t *lost, gg_error *err)
{
    const gg_dtype_info *info = gg_dtype_get(dtype);
    float share = 8 * info->block_bytes >= 4 * info->block_elems ? 0.25f : 0.5f;
    size_t ends[2] = { 0, 0 };
    for (size_t i = 1; i < n; i++) {
        if (x[i] < x[ends[0]]) ends[0] = i;
        if (x[i] > x[ends[1]]) ends[1] = i;
    }
    float *made = malloc(n * sizeof *made);
    gg_status st = made ? gg_decode(dtype, blocks, made, n, err)
                        : gg_fail(err, GG_ENOMEM, "no memory for %zu values", n);
    for (size_t k = ends[0] == ends[1]; k < 2 && st == GG_OK; k++) {
        float want = fabsf(x[ends[k]]), off = fabsf(made[ends[k]] - x[ends[k]]);
        *lost += want > MOST_F16 && !(off <= want * share);
    }
    free(made);
    return st;
}

/* Notices whether a value is not 0 as written, which most tensors have in their first step, or
 * whether one became 0. */
static gg_status watch_zeros(const gg_steps *s, const float *x, const uint8_t *blocks, size_t n,
                             gg_error *err)
{
    bool kept = false, vanished = false;
    float *made = malloc(n * sizeof *made);
    gg_status st = made ? gg_decode(s->to.t->dtype, blocks, made, n, err)
                        : gg_fail(err, GG_ENOMEM, "no memory for %zu values", n);
    for (size_t i = 0; i < n && st == GG_OK && !kept; i++) {
        kept = made[i] != 0;
        vanished = vanished || x[i] != 0;
    }
    free(made);
    if (kept) atomic_store(&s->to.zeros->kept, true);
    if (vanished) atomic_store(&s->to.zeros->vanished, true);
    return st;
}

static gg_status encode_step(const gg_steps *s, gg_slot *slot, float *x, gg_error *err)
{
    uint32_t dtype = s->to.t->dtype;
    float *room = s->room ? s->room + slot->step.worker * 2 * COMPUTE_STEP : NULL;
    gg_status st = GG_OK;
    for (size_t done = 0; done < slot->step.n && st == GG_OK; done += COMPUTE_STEP) {
        size_t n = slot->step.n - done < COMPUTE_STEP ? slot->step.n - done : COMPUTE_STEP;
        const float *w = gg_weights_of(&s->weights, slot->step.first + done, n, room);
        uint8_t *to = slot->bytes + encoded_bytes(s, done);
        st = gg_encode(dtype, x + done, to, n, n, w, err);
        if (st == GG_OK && slot->large)
            st = count_saturated(dtype, x + done, to, n, &slot->lost, err);
        if (st == GG_OK && s->to.zeros && !atomic_load(&s->to.zeros->kept))
            st = watch_zeros(s, x + done, to, n, err);
        if (st == GG_OK && s->back) {
            st = gg_decode(dtype, to, x + done, n, err);
            slot->lost += gg_count_bad(x + done, n);
        }
        if (st != GG_OK || !s->error) continue;
        const gg_encoded made = { dtype, x + done, to, n, w, room + COMPUTE_STEP };
        st = add_error(&slot->error, &made, err);
    }
    return st;
}

/* Whether steps can be written by the threads that make them: at their offsets, in any order. */
static bool any_order(const gg_steps *s)
{
    return s->to.at != GG_AT_POS && !s->to.hash;
}

static gg_status write_step(const gg_steps *s, const gg_slot *slot, gg_error *err)
{
    size_t bytes = (size_t)encoded_bytes(s, slot->step.n);
    uint64_t at = gg_offset_after(s->to.at, encoded_bytes(s, slot->step.first));
    gg_status st = gg_put_all(s->to.fd, slot->bytes, bytes, at, err);
    if (st == GG_OK) gg_progress_add(s->to.run, bytes);
    return st;
}

/* ---- the stages of a step */

static gg_slot *slot_of_step(const gg_steps *s, size_t i)
{
    return &s->slots[i % s->n_slots]; /* not 0: gg_steps_open makes one */
}

/* Sets a slot to step i, and reads what it needs. */
static gg_status read_step(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    gg_steps *s = ctx;
    gg_slot *slot = slot_of_step(s, i);
    uint64_t first = s->begin + i * s->size;
    (void)worker;
    *slot = (gg_slot){ .room = slot->room, .bytes = slot->bytes };
    slot->step.first = first;
    slot->step.n = s->end - first < s->size ? (size_t)(s->end - first) : s->size;
    slot->step.slot = (size_t)(slot - s->slots);
    return s->read ? s->read(s->ctx, &slot->step, err) : GG_OK;
}

static gg_status make_step(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    gg_steps *s = ctx;
    gg_slot *slot = slot_of_step(s, i);
    float *x = NULL;
    slot->step.worker = worker;
    slot->step.stopped = atomic_load(&s->stopped);
    gg_status st = gg_cancelled(err);
    if (st == GG_OK) st = s->make(s->ctx, &slot->step, &x, err);
    slot->stopped = s->write && !x;
    if (st != GG_OK || !x || !s->write) return st;
    /* Values that would become infinite: half a unit or more above the largest number. */
    uint32_t dtype = s->to.t->dtype;
    float limit = dtype == GG_F16 ? 65520.0f : dtype == GG_BF16 ? 0x1.ffp127f : INFINITY;
    bool quantized = gg_is_quantized(dtype);
    slot->lost = GG_PICK(gg_mix_beyond)(x, slot->step.n, quantized ? MOST_F16 : limit);
    slot->large = quantized && slot->lost > 0;
    if (slot->large) slot->lost = GG_PICK(gg_mix_beyond)(x, slot->step.n, limit);
    if (slot->lost || atomic_load(&s->counts)) return GG_OK;
    st = encode_step(s, slot, x, err);
    return st == GG_OK && !slot->lost && any_order(s) ? write_step(s, slot, err) : st;
}

static gg_status end_step(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    gg_steps *s = ctx;
    const gg_slot *slot = slot_of_step(s, i);
    (void)worker;
    if (s->after) s->after(s->ctx, &slot->step);
    s->lost += slot->lost;
    if (slot->lost) atomic_store(&s->counts, true);
    if (slot->stopped) atomic_store(&s->stopped, true);
    if (!s->write || s->lost || atomic_load(&s->stopped)) return GG_OK;
    if (s->error) gg_add_errors(s->error, &slot->error);
    if (any_order(s)) return GG_OK;
    if (s->to.hash)
        gg_sha256_update(s->to.hash, slot->bytes, (size_t)encoded_bytes(s, slot->step.n));
    return write_step(s, slot, err);
}

gg_status gg_steps_run(gg_steps *s, uint64_t first, uint64_t end, unsigned threads, bool write,
                       gg_error *err)
{
    if (first >= end) return GG_OK;
    s->write = write && s->to.fd >= 0;
    s->begin = first;
    s->end = end;
    /* not 0: a step has values */
    size_t n = (size_t)((end - first + s->size - 1) / s->size);
    gg_pipeline p = { n, s->n_slots, { read_step, make_step, end_step }, true };
    return gg_run_pipeline(&p, threads < s->threads ? threads : s->threads, s, err);
}

gg_status gg_steps_fail_lost(const gg_steps *s, gg_error *err)
{
    const gg_tensor *t = s->to.t;
    if (s->lost == 0) return GG_OK;
    gg_fail(err, GG_EUSAGE, "%llu of its values are too large for %s", (unsigned long long)s->lost,
            gg_dtype_name(t->dtype));
    gg_fix(err, "choose another dtype for it, for example %s", t->dtype == GG_F16 ? "BF16" : "F32");
    return gg_at_tensor(err, t->name, t->name_len);
}

/* ---- contexts -------------------------------------------------------------------- */

void *gg_compute_new(gg_computations *list, size_t size, gg_error *err)
{
    gg_computation *t = calloc(1, size);
    if (!t) {
        gg_fail(err, GG_ENOMEM, "no memory for a plan");
        return NULL;
    }
    t->imatrix = list->imatrix;
    t->error = list->compare ? calloc(1, sizeof *t->error) : NULL;
    if (list->compare && !t->error) {
        free(t);
        gg_fail(err, GG_ENOMEM, "no memory for a plan");
        return NULL;
    }
    t->next = list->first;
    list->first = t;
    return t;
}

gg_status gg_compute_input(gg_computation *t, const gg_input *in, gg_error *err)
{
    operand *op = &t->in[t->n_in];
    op->dtype = in->dtype;
    op->n_parts = in->n_parts;
    op->parts = calloc(in->n_parts ? in->n_parts : 1, sizeof *op->parts);
    if (!op->parts) return gg_fail(err, GG_ENOMEM, "no memory for a plan");
    if (in->n_parts) memcpy(op->parts, in->parts, in->n_parts * sizeof *op->parts);
    t->n_in++;
    return GG_OK;
}

void gg_computations_free(gg_computations *list)
{
    for (gg_computation *t = list->first; t;) {
        gg_computation *next = t->next;
        for (size_t i = 0; i < t->n_in; i++) free(t->in[i].parts);
        free(t->error);
        free(t);
        t = next;
    }
    list->first = NULL;
}

/* ---- checks ---------------------------------------------------------------------- */

gg_status gg_compute_check_input(const gg_tensor *out, const gg_input *in, gg_error *err)
{
    uint64_t bytes, have = 0;
    gg_status st = gg_tensor_extent(in->dtype, out->n_dims, out->dims, NULL, &bytes, err);
    for (size_t i = 0; i < in->n_parts; i++) have += in->parts[i].bytes;
    if (st == GG_OK && have != bytes)
        st = gg_fail(err, GG_EFORMAT, "its input has %llu bytes, but its dims need %llu",
                     (unsigned long long)have, (unsigned long long)bytes);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, out->name, out->name_len);
}

gg_status gg_compute_check_decode(const gg_tensor *out, const gg_input *in, gg_error *err)
{
    if (gg_can_decode(in->dtype)) return GG_OK;
    gg_fail(err, GG_EUNSUPPORTED, "%s cannot be decoded", gg_dtype_name(in->dtype));
    gg_fix(err, "leave the tensor unchanged");
    return gg_at_tensor(err, out->name, out->name_len);
}

gg_status gg_compute_check_output(const gg_tensor *out, const gg_imatrix *imatrix, gg_error *err)
{
    uint64_t bytes;
    bool weighed = false;
    gg_status st = gg_tensor_extent(out->dtype, out->n_dims, out->dims, NULL, &bytes, err);
    if (st == GG_EFORMAT) st = err->status = GG_EUSAGE; /* the choice of the type, not the input */
    if (st == GG_OK && imatrix && gg_is_quantized(out->dtype))
        st = gg_imatrix_check(imatrix, out, true, &weighed, err);
    bool needs = gg_encode_needs_imatrix(out->dtype);
    if (st == GG_OK && needs && imatrix && !weighed) {
        st = gg_fail(err, GG_EUSAGE, "the importance matrix lacks it, and %s needs one",
                     gg_dtype_name(out->dtype));
        gg_fix(err, "choose another dtype for it, for example Q2_K or IQ4_XS");
    } else if (st == GG_OK && needs && !imatrix) {
        st = gg_fail(err, GG_EUSAGE, "%s cannot be encoded without an importance matrix",
                     gg_dtype_name(out->dtype));
        gg_fix_by(err, "imatrix", "give one, or choose another dtype, for example Q2_K or IQ4_XS");
    } else if (st == GG_OK && !needs && !gg_can_encode(out->dtype)) {
        st = gg_fail(err, GG_EUNSUPPORTED, "%s cannot be encoded", gg_dtype_name(out->dtype));
        gg_fix(err, "choose another dtype, for example Q8_0 or F16");
    }
    return st == GG_OK ? GG_OK : gg_at_tensor(err, out->name, out->name_len);
}

/* ---- feeds ----------------------------------------------------------------------- */

void gg_feed_open(feed *f, const operand *op, bool verify)
{
    *f = (feed){ .op = op, .verify = verify };
}

static gg_status allocate(feed *f, gg_error *err)
{
    const gg_dtype_info *info = gg_dtype_get(f->op->dtype);
    uint64_t bytes = 0, most = COMPUTE_STEP / info->block_elems * info->block_bytes;
    for (size_t i = 0; i < f->op->n_parts && bytes < most; i++) bytes += f->op->parts[i].bytes;
    size_t blocks = (size_t)((bytes < most ? bytes : most) / info->block_bytes);
    f->raw = malloc(blocks * info->block_bytes + 1);
    f->x = malloc((blocks * info->block_elems + 1) * sizeof *f->x);
    return f->raw && f->x ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the values of a tensor");
}

void gg_feed_close(feed *f)
{
    if (f->open) gg_data_close(&f->data);
    free(f->raw);
    free(f->x);
    *f = (feed){ 0 };
}

/* The tensor that contains the current part. */
static gg_status at_part(const feed *f, gg_error *err)
{
    const gg_plan_part *p = &f->op->parts[f->part < f->op->n_parts ? f->part : f->op->n_parts - 1];
    const gg_tensor *t = gg_source_tensor(p->source, p->index);
    gg_at_tensor(err, t->name, t->name_len);
    return gg_at_file(err, gg_source_name(p->source));
}

static gg_status open_part(feed *f, const gg_plan_part *p, gg_error *err)
{
    gg_status st = gg_data_open(p->source, p->index, &f->data, err);
    if (st != GG_OK) return st;
    f->open = true;
    f->at = 0;
    f->hashed = f->verify && p->sha256 && p->sha256[0];
    if (f->hashed) gg_sha256_init(&f->hash);
    return GG_OK;
}

/* Goes to the next part, after a look at the hash of this one. */
static gg_status end_part(feed *f, gg_error *err)
{
    char hex[65];
    gg_data_close(&f->data);
    f->open = false;
    if (f->hashed) {
        gg_hash_text(&f->hash, hex);
        if (gg_check_sha256(hex, f->op->parts[f->part].sha256, err) != GG_OK)
            return at_part(f, err);
    }
    f->part++;
    return GG_OK;
}

gg_status gg_feed_raw(feed *f, uint8_t *to, uint64_t n, gg_error *err)
{
    gg_status st = GG_OK;
    while (n > 0 && st == GG_OK) {
        if (f->part >= f->op->n_parts) return gg_fail(err, GG_EFORMAT, "its data ends early");
        const gg_plan_part *p = &f->op->parts[f->part];
        if (!f->open && (st = open_part(f, p, err)) != GG_OK) break;
        uint64_t step = p->bytes - f->at < n ? p->bytes - f->at : n;
        if (step && to) st = gg_data_read(&f->data, p->at + f->at, to, (size_t)step, err);
        if (st != GG_OK) break;
        if (f->hashed) gg_sha256_update(&f->hash, to, (size_t)step);
        if (to) to += step;
        n -= step;
        f->at += step;
        if (f->at == p->bytes) st = end_part(f, err);
    }
    return st;
}

uint64_t gg_count_bad(const float *x, size_t n)
{
    return GG_PICK(gg_mix_beyond)(x, n, INFINITY);
}

uint64_t gg_count_unusable(uint32_t dtype, const void *stored, const float *x, size_t n)
{
    return gg_is_integer(dtype) ? gg_count_narrowed(dtype, stored, n) : gg_count_bad(x, n);
}

gg_status gg_fail_unusable(gg_error *err, uint32_t dtype, uint64_t count)
{
    unsigned long long n = count;
    if (gg_is_integer(dtype))
        return gg_fail(
            err, GG_EUSAGE,
            "%llu of its integers are above 2^24, and F32, in which values are computed, "
            "would round them",
            n);
    return gg_fail(err, GG_EFORMAT, "%llu of its values are NaN%s infinite%s", n,
                   dtype == GG_F64 ? "," : " or",
                   dtype == GG_F64 ? " or beyond the range of F32, in which values are computed"
                                   : "");
}

gg_status gg_feed_next(feed *f, size_t elems, gg_error *err)
{
    gg_status st = f->x ? GG_OK : allocate(f, err);
    if (st == GG_OK)
        st = gg_feed_raw(f, f->raw, (size_t)gg_encoded_bytes(f->op->dtype, elems), err);
    if (st == GG_OK) st = gg_decode(f->op->dtype, f->raw, f->x, elems, err);
    if (st == GG_OK) f->bad += gg_count_unusable(f->op->dtype, f->raw, f->x, elems);
    return st;
}

/* The error for f->bad > 0. */
static gg_status fail_bad(const feed *f, gg_error *err)
{
    gg_fail_unusable(err, f->op->dtype, f->bad);
    gg_fix(err, "leave it out, or keep its dtype");
    return at_part(f, err);
}

gg_status gg_require_finite(gg_source *s, size_t index, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(s, index);
    gg_plan_part whole = gg_plan_whole(s, index);
    const operand op = { t->dtype, &whole, 1 };
    gg_status st = GG_OK;
    feed f;
    if (!gg_can_decode(t->dtype)) return gg_verify_data(s, index, err);
    gg_feed_open(&f, &op, true);
    for (uint64_t left = t->elements, n; left > 0 && st == GG_OK; left -= n) {
        n = left < COMPUTE_STEP ? left : COMPUTE_STEP;
        st = gg_feed_next(&f, (size_t)n, err);
    }
    if (st == GG_OK && f.bad) {
        st = gg_fail_unusable(err, t->dtype, f.bad);
        gg_fix(err, "repair or replace this file");
    }
    gg_feed_close(&f);
    if (st == GG_OK) return GG_OK;
    gg_at_tensor(err, t->name, t->name_len);
    return gg_at_file(err, gg_source_name(s));
}

/* Values per step: all arrays of a step fit the second-level cache. */
#define STEP (2 * COMPUTE_STEP)

/* ---- the loop -------------------------------------------------------------------- */

/* The inputs of a tensor, and their values. */
typedef struct values {
    const gg_computation *t;
    compute_mix mix;
    void *state;
    feed in[COMPUTE_INPUTS];
    size_t step; /* values of each array below */
    size_t slots;
    uint8_t *raw[COMPUTE_INPUTS];       /* per slot */
    uint64_t (*bad_of)[COMPUTE_INPUTS]; /* per slot: values that are not finite */
    uint64_t bad[COMPUTE_INPUTS];       /* of all steps so far */
    float *x;                           /* per worker: a step of values per input */
} values;

static size_t raw_bytes(const values *v, size_t k, size_t n)
{
    return (size_t)gg_encoded_bytes(v->t->in[k].dtype, n);
}

static gg_status read_inputs(void *ctx, const gg_step *s, gg_error *err)
{
    values *v = ctx;
    gg_status st = GG_OK;
    for (size_t k = 0; k < v->t->n_in && st == GG_OK; k++)
        st = gg_feed_raw(&v->in[k], v->raw[k] + s->slot * raw_bytes(v, k, v->step),
                         raw_bytes(v, k, s->n), err);
    return st;
}

static gg_status mix_inputs(void *ctx, const gg_step *s, float **out, gg_error *err)
{
    values *v = ctx;
    float *x[COMPUTE_INPUTS] = { NULL };
    bool bad = s->stopped; /* from then on values are only counted */
    gg_status st = GG_OK;
    for (size_t k = 0; k < v->t->n_in && st == GG_OK; k++) {
        const uint8_t *raw = v->raw[k] + s->slot * raw_bytes(v, k, v->step);
        x[k] = v->x + (s->worker * v->t->n_in + k) * v->step;
        st = gg_decode(v->t->in[k].dtype, raw, x[k], s->n, err);
        if (st != GG_OK) break;
        v->bad_of[s->slot][k] = gg_count_unusable(v->t->in[k].dtype, raw, x[k], s->n);
        bad = bad || v->bad_of[s->slot][k];
    }
    if (st != GG_OK || bad) return st;
    *out = x[0];
    return v->mix ? v->mix(v->state, s->first, s->n, x, err) : GG_OK;
}

static void count_bad_inputs(void *ctx, const gg_step *s)
{
    values *v = ctx;
    for (size_t k = 0; k < v->t->n_in; k++) v->bad[k] += v->bad_of[s->slot][k];
}

static gg_status open_values(values *v, const gg_steps *s, gg_error *err)
{
    uint64_t elements = s->to.t->elements;
    v->step = elements < s->size ? (size_t)elements : s->size;
    v->bad_of = calloc(s->n_slots, sizeof *v->bad_of);
    v->x = malloc((s->threads * v->t->n_in * v->step + 1) * sizeof *v->x);
    bool ok = v->bad_of && v->x;
    for (size_t k = 0; k < v->t->n_in && ok; k++) {
        ok = (v->raw[k] = malloc(s->n_slots * raw_bytes(v, k, v->step) + 1)) != NULL;
        gg_feed_open(&v->in[k], &v->t->in[k], s->to.fd >= 0);
    }
    return ok ? GG_OK : gg_fail(err, GG_ENOMEM, "no memory for the values of a tensor");
}

static void close_values(values *v)
{
    for (size_t k = 0; k < v->t->n_in; k++) {
        gg_feed_close(&v->in[k]);
        free(v->raw[k]);
    }
    free(v->bad_of);
    free(v->x);
}

static gg_status refuse_bad(values *v, gg_error *err)
{
    for (size_t k = 0; k < v->t->n_in; k++) {
        v->in[k].bad = v->bad[k];
        if (v->bad[k]) return fail_bad(&v->in[k], err);
    }
    return GG_OK;
}

gg_status gg_compute_all(const gg_computation *t, compute_mix mix, void *state, const gg_target *to,
                         gg_error *err)
{
    values v = { .t = t, .mix = mix, .state = state };
    gg_steps s = { .to = *to, .size = STEP, .threads = 1, .ctx = &v };
    s.read = read_inputs;
    s.make = mix_inputs;
    s.after = count_bad_inputs;
    s.error = to->fd >= 0 ? t->error : NULL;
    if (to->at == GG_AT_POS && !t->in_order)
        s.threads = to->run->threads ? to->run->threads : gg_thread_count();
    gg_status st = gg_steps_open(&s, t->imatrix, t->stack_first, t->stack_size, err);
    if (st == GG_OK) st = open_values(&v, &s, err);
    if (st == GG_OK) st = gg_steps_run(&s, 0, to->t->elements, s.threads, true, err);
    if (st == GG_OK && to->fd >= 0) st = refuse_bad(&v, err);
    if (st == GG_OK) st = gg_steps_fail_lost(&s, err);
    close_values(&v);
    gg_steps_close(&s);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, to->t->name, to->t->name_len);
}

/* ---- conversions ----------------------------------------------------------------- */

static gg_status make_convert(void *ctx, const gg_target *to, gg_error *err)
{
    return gg_compute_all(ctx, NULL, NULL, to, err);
}

static gg_status make_copy(void *ctx, const gg_target *to, gg_error *err)
{
    const gg_computation *c = ctx;
    gg_place at = { to->fd, to->at };
    gg_status st = GG_OK;
    for (size_t i = 0; i < c->in[0].n_parts && st == GG_OK; i++) {
        st = gg_copy_verified(&c->in[0].parts[i], to->t, at, to->run, err);
        at.at = gg_offset_after(at.at, c->in[0].parts[i].bytes);
    }
    return st == GG_OK ? GG_OK : gg_at_tensor(err, to->t->name, to->t->name_len);
}

static gg_status retype_copy(gg_computation *t, gg_producer *p, const gg_tensor *out, gg_error *err)
{
    gg_input in = { t->in[0].dtype, t->in[0].parts, t->in[0].n_parts };
    if (out->dtype == in.dtype) return GG_OK;
    p->make = make_convert;
    return gg_compute_check_decode(out, &in, err);
}

gg_status gg_retype_producer(gg_producer *p, const gg_tensor *out, gg_error *err)
{
    gg_computation *t = p->ctx;
    gg_status st = gg_compute_check_output(out, t->imatrix, err);
    return st == GG_OK && t->retype ? t->retype(t, p, out, err) : st;
}

static gg_status retype_parts(gg_plan_tensor *pt, const gg_tensor *out, bool verify,
                              gg_computations *list, gg_error *err)
{
    gg_producer made;
    for (size_t i = 0; i < pt->n_parts && !verify; i++) pt->parts[i].sha256 = NULL;
    gg_input in = { pt->t.dtype, pt->parts, pt->n_parts };
    gg_status st = gg_compute_convert(list, out, &in, &made, err);
    if (st != GG_OK) return st;
    gg_plan_compute(pt, made.make, made.ctx);
    return GG_OK;
}

gg_encode_error gg_compute_error(const gg_producer *p)
{
    const gg_computation *t = p->make ? p->ctx : NULL;
    return t && t->error ? *t->error : (gg_encode_error){ 0 };
}

gg_status gg_compute_retype(gg_plan_tensor *pt, uint32_t dtype, bool verify, gg_computations *list,
                            gg_error *err)
{
    gg_tensor out = pt->t;
    gg_producer p = { pt->make, pt->ctx };
    out.dtype = dtype;
    gg_status st = gg_tensor_extent(dtype, out.n_dims, out.dims, &out.elements, &out.bytes, err);
    if (st == GG_OK)
        st = p.make ? gg_retype_producer(&p, &out, err) : retype_parts(pt, &out, verify, list, err);
    if (st != GG_OK) return gg_at_tensor(err, pt->t.name, pt->t.name_len);
    if (p.make) pt->make = p.make;
    pt->t = out;
    return GG_OK;
}

gg_status gg_compute_convert(gg_computations *list, const gg_tensor *out, const gg_input *in,
                             gg_producer *p, gg_error *err)
{
    *p = (gg_producer){ 0 };
    bool same = in->dtype == out->dtype;
    gg_status st = gg_compute_check_input(out, in, err);
    if (st == GG_OK && !same) st = gg_compute_check_output(out, list->imatrix, err);
    if (st == GG_OK && !same) st = gg_compute_check_decode(out, in, err);
    if (st != GG_OK) return st;
    gg_computation *t = gg_compute_new(list, sizeof *t, err);
    if (!t) return err->status;
    st = gg_compute_input(t, in, err);
    if (same) t->retype = retype_copy;
    if (st == GG_OK) *p = (gg_producer){ same ? make_copy : make_convert, t };
    return st;
}

/* ---- trials -------------------------------------------------------------------------------- */

typedef struct trial {
    const gg_trial *of;
    gg_computation source; /* only its input */
    feed in;
    gg_weights weights;
    float *room, *back;
    uint8_t *out;
    gg_encode_error *errors;
} trial;

static gg_status try_step(trial *t, uint64_t first, size_t n, gg_error *err)
{
    const float *weights = gg_weights_of(&t->weights, first, n, t->room);
    gg_status st = gg_feed_next(&t->in, n, err);
    if (st == GG_OK && t->in.bad) return fail_bad(&t->in, err);
    for (size_t k = 0; k < t->of->n && st == GG_OK; k++) {
        uint32_t dtype = t->of->dtypes[k];
        st = gg_encode(dtype, t->in.x, t->out, n, n, weights, err);
        const gg_encoded made = { dtype, t->in.x, t->out, n, weights, t->back };
        if (st == GG_OK) st = add_error(&t->errors[k], &made, err);
        if (st == GG_OK) st = gg_cancelled(err);
    }
    return st;
}

static gg_status open_trial(trial *t, gg_error *err)
{
    gg_tensor weighed = *t->of->t;
    weighed.dtype = GG_Q8_0; /* any that takes weights */
    gg_status st = gg_compute_input(&t->source, t->of->in, err);
    gg_feed_open(&t->in, &t->source.in[0], false);
    if (st == GG_OK) st = gg_weights_open(&t->weights, t->of->imatrix, &weighed, 0, 0, err);
    if (st != GG_OK) return st;
    t->room = malloc(COMPUTE_STEP * sizeof *t->room);
    t->back = malloc(COMPUTE_STEP * sizeof *t->back);
    t->out = malloc(COMPUTE_STEP * 8);
    if (t->room && t->back && t->out) return GG_OK;
    return gg_fail(err, GG_ENOMEM, "no memory for the values of a tensor");
}

gg_status gg_compute_trial(const gg_trial *of, gg_encode_error *out, gg_error *err)
{
    trial t = { .of = of, .errors = out };
    uint64_t elements = of->t->elements, at = 0;
    uint64_t all = (elements + COMPUTE_STEP - 1) / COMPUTE_STEP;
    /* So many steps that they have about `most` values. */
    uint64_t taken = of->most / COMPUTE_STEP ? of->most / COMPUTE_STEP : 1;
    if (of->most == 0 || taken > all) taken = all;
    for (size_t k = 0; k < of->n; k++) out[k] = (gg_encode_error){ 0 };
    gg_status st = open_trial(&t, err);
    for (uint64_t i = 0; i < taken && st == GG_OK; i++) {
        /* all * i / taken, without overflow */
        uint64_t step = all / taken * i + all % taken * i / taken;
        uint64_t first = step * COMPUTE_STEP, left = elements - first;
        size_t n = left < COMPUTE_STEP ? (size_t)left : COMPUTE_STEP;
        st = gg_feed_raw(&t.in, NULL, gg_encoded_bytes(of->in->dtype, first - at), err);
        if (st == GG_OK) st = try_step(&t, first, n, err);
        at = first + n;
    }
    gg_feed_close(&t.in);
    gg_weights_close(&t.weights);
    free(t.source.in[0].parts);
    free(t.room);
    free(t.back);
    free(t.out);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, of->t->name, of->t->name_len);
}

/* ---- ramps --------------------------------------------------------------------------- */

bool gg_parse_decimal(const char *s, size_t n, double *value)
{
    char text[1100]; /* the decimals of a double can have so many digits */
    if (n == 0 || n >= sizeof text) return false;
    for (size_t i = 0; i < n; i++)
        if (!strchr("0123456789+-.eE", s[i])) return false;
    memcpy(text, s, n);
    text[n] = '\0';
    char *end;
    *value = strtod(text, &end);
    return *end == '\0' && isfinite(*value);
}

double gg_ramp_at(double first, double last, const gg_tensor *t, uint64_t blocks)
{
    int64_t block = t->a.block;
    if (block < 0) {
        bool end = strncmp(t->name, "output", 6) == 0 || strncmp(t->name, "cls", 3) == 0;
        return end ? last : first;
    }
    if (blocks < 2 || block == 0) return first;
    if ((uint64_t)block >= blocks - 1) return last;
    return first + (last - first) * (double)block / (double)(blocks - 1);
}

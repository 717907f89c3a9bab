/* compute_core.c - reads inputs as values, one step at a time. */
#include "compute_core.h"

#include "verbs/shared/copy.h"
#include "verbs/shared/keys.h"

#include "base/error.h"
#include "base/io.h"
#include "base/parallel.h"
#include "numeric/mix.h"
#include "quant/quant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    if (st == GG_OK && imatrix && gg_is_quantized(out->dtype))
        st = gg_imatrix_check(imatrix, out, true, &weighed, err);
    bool needs = gg_encode_needs_imatrix(out->dtype);
    if (st == GG_OK && needs && imatrix && !weighed) {
        st = gg_fail(err, GG_EUNSUPPORTED, "the importance matrix lacks it, and %s needs one",
                     gg_dtype_name(out->dtype));
        gg_fix(err, "choose another dtype for it, for example Q2_K or IQ4_XS");
    } else if (st == GG_OK && needs && !imatrix) {
        st = gg_fail(err, GG_EUNSUPPORTED, "%s cannot be encoded without an importance matrix",
                     gg_dtype_name(out->dtype));
        gg_fix_hint(err, GG_HINT_IMATRIX,
                    "give one, or choose another dtype, for example Q2_K or IQ4_XS");
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

/* Hashes the bytes that were read last, and compares the hash at the end of a part. */
static gg_status settle(feed *f, gg_error *err)
{
    unsigned char digest[32];
    char hex[65];
    if (f->unhashed.n) gg_sha256_update(&f->hash, f->unhashed.bytes, f->unhashed.n);
    f->unhashed.n = 0;
    if (!f->ended) return GG_OK;
    f->ended = false;
    gg_sha256_final(&f->hash, digest);
    gg_sha256_hex(digest, hex);
    if (gg_check_sha256(hex, f->op->parts[f->part - 1].sha256, err) == GG_OK) return GG_OK;
    f->part--;
    return at_part(f, err);
}

static void end_part(feed *f)
{
    gg_data_close(&f->data);
    f->open = false;
    f->ended = f->hashed;
    f->part++;
}

/* The bytes read last are hashed by the next call or by settle, unless the caller hashes
 * f->unhashed together with other data. `to` must be valid until then. */
static gg_status feed_raw(feed *f, uint8_t *to, size_t n, gg_error *err)
{
    gg_status st = GG_OK;
    while (n > 0 && (st = settle(f, err)) == GG_OK) {
        if (f->part >= f->op->n_parts) return gg_fail(err, GG_EFORMAT, "its data ends early");
        const gg_plan_part *p = &f->op->parts[f->part];
        if (!f->open && (st = open_part(f, p, err)) != GG_OK) break;
        size_t step = p->bytes - f->at < n ? (size_t)(p->bytes - f->at) : n;
        if (step) st = gg_data_read(&f->data, p->at + f->at, to, step, err);
        if (st != GG_OK) break;
        if (f->hashed) f->unhashed = (gg_sha256_piece){ &f->hash, to, step };
        to += step;
        n -= step;
        f->at += step;
        if (f->at == p->bytes) end_part(f);
    }
    return st;
}

gg_status gg_feed_skip(feed *f, uint64_t n, gg_error *err)
{
    gg_status st = GG_OK;
    while (n > 0 && st == GG_OK) {
        if (f->part >= f->op->n_parts) return gg_fail(err, GG_EFORMAT, "its data ends early");
        const gg_plan_part *p = &f->op->parts[f->part];
        if (!f->open && (st = open_part(f, p, err)) != GG_OK) break;
        uint64_t step = p->bytes - f->at < n ? p->bytes - f->at : n;
        n -= step;
        f->at += step;
        if (f->at == p->bytes) end_part(f);
    }
    return st;
}

uint64_t gg_count_bad(const float *x, size_t n)
{
    return GG_PICK(gg_mix_beyond)(x, n, INFINITY);
}

gg_status gg_feed_next(feed *f, size_t elems, gg_error *err)
{
    const gg_dtype_info *info = gg_dtype_get(f->op->dtype);
    gg_status st = f->x ? GG_OK : allocate(f, err);
    if (st == GG_OK) st = feed_raw(f, f->raw, elems / info->block_elems * info->block_bytes, err);
    if (st == GG_OK) st = settle(f, err);
    if (st == GG_OK) st = gg_decode(f->op->dtype, f->raw, f->x, elems, err);
    if (st == GG_OK) f->bad += gg_count_bad(f->x, elems);
    return st;
}

gg_status gg_feed_fail_bad(const feed *f, gg_error *err)
{
    gg_fail(err, GG_EFORMAT, "%llu of its values are NaN or infinite", (unsigned long long)f->bad);
    gg_fix(err, "leave it out, or keep its dtype");
    return at_part(f, err);
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
    uint8_t *raw[COMPUTE_INPUTS];          /* per slot */
    uint64_t (*bad_of)[COMPUTE_INPUTS];    /* per slot: values that are not finite */
    uint64_t bad[COMPUTE_INPUTS], all_bad; /* of all steps so far */
    float *x;                              /* per worker: a step of values per input */
} values;

static size_t raw_bytes(const values *v, size_t k, size_t n)
{
    const gg_dtype_info *info = gg_dtype_get(v->t->in[k].dtype);
    return n / info->block_elems * info->block_bytes;
}

static gg_status read_step(void *ctx, const gg_step *s, gg_error *err)
{
    values *v = ctx;
    gg_status st = GG_OK;
    for (size_t k = 0; k < v->t->n_in && st == GG_OK; k++)
        st = feed_raw(&v->in[k], v->raw[k] + s->slot * raw_bytes(v, k, v->step),
                      raw_bytes(v, k, s->n), err);
    return st;
}

static gg_status make_step(void *ctx, const gg_step *s, float **out, gg_error *err)
{
    values *v = ctx;
    float *x[COMPUTE_INPUTS] = { NULL };
    uint64_t bad = v->all_bad; /* from then on values are only counted */
    gg_status st = GG_OK;
    for (size_t k = 0; k < v->t->n_in && st == GG_OK; k++) {
        const uint8_t *raw = v->raw[k] + s->slot * raw_bytes(v, k, v->step);
        x[k] = v->x + (s->worker * v->t->n_in + k) * v->step;
        st = gg_decode(v->t->in[k].dtype, raw, x[k], s->n, err);
        if (st == GG_OK) bad += v->bad_of[s->slot][k] = gg_count_bad(x[k], s->n);
    }
    if (st != GG_OK || bad) return st;
    *out = x[0];
    return v->mix ? v->mix(v->state, s->first, s->n, x, err) : GG_OK;
}

static void after_step(void *ctx, const gg_step *s)
{
    values *v = ctx;
    for (size_t k = 0; k < v->t->n_in; k++) {
        v->bad[k] += v->bad_of[s->slot][k];
        v->all_bad += v->bad_of[s->slot][k];
    }
}

static size_t take_unhashed(void *ctx, gg_sha256_piece *pieces)
{
    values *v = ctx;
    size_t n = 0;
    for (size_t k = 0; k < v->t->n_in; k++) {
        if (v->in[k].unhashed.n) pieces[n++] = v->in[k].unhashed;
        v->in[k].unhashed.n = 0;
    }
    return n;
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
        if (v->bad[k]) return gg_feed_fail_bad(&v->in[k], err);
    }
    return GG_OK;
}

gg_status gg_compute_all(const gg_computation *t, compute_mix mix, void *state, const gg_target *to,
                         gg_error *err)
{
    values v = { .t = t, .mix = mix, .state = state };
    gg_steps s = { .to = *to, .size = STEP, .threads = 1, .ctx = &v };
    s.read = read_step;
    s.make = make_step;
    s.after = after_step;
    s.unhashed = take_unhashed;
    s.error = to->fd >= 0 ? t->error : NULL;
    if (to->at == GG_AT_POS && !t->in_order)
        s.threads = to->run->threads ? to->run->threads : gg_thread_count();
    gg_status st = gg_steps_open(&s, t->imatrix, t->stack_first, t->stack_size, err);
    if (st == GG_OK) st = open_values(&v, &s, err);
    if (st == GG_OK) st = gg_steps_run(&s, 0, to->t->elements, s.threads, true, err);
    for (size_t k = 0; k < t->n_in && st == GG_OK; k++) st = settle(&v.in[k], err);
    if (st == GG_OK && to->fd >= 0) st = refuse_bad(&v, err);
    if (st == GG_OK) st = gg_steps_fail_lost(&s, err);
    close_values(&v);
    gg_steps_close(&s);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, to->t->name, to->t->name_len);
}

/* compute_core.c - reads inputs as values, one step at a time. */
#include "compute_core.h"

#include "verbs/shared/hashcopy.h"
#include "verbs/shared/type_keys.h"

#include "base/error.h"
#include "base/io.h"
#include "numeric/mix.h"
#include "quant/quant.h"
#include "verbs/shared/verb_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP_BYTES (COMPUTE_STEP * 8) /* for the widest dtype */

/* ---- contexts -------------------------------------------------------------------- */

void *gg_compute_new(gg_computations *list, size_t size, gg_error *err)
{
    gg_computation *t = calloc(1, size);
    if (!t) {
        gg_fail(err, GG_ENOMEM, "no memory for a plan");
        return NULL;
    }
    t->imatrix = list->imatrix;
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

gg_status gg_feed_open(feed *f, const operand *op, bool verify, gg_error *err)
{
    const gg_dtype_info *info = gg_dtype_get(op->dtype);
    uint64_t bytes = 0, most = COMPUTE_STEP / info->block_elems * info->block_bytes;
    *f = (feed){ .op = op, .verify = verify };
    for (size_t i = 0; i < op->n_parts && bytes < most; i++) bytes += op->parts[i].bytes;
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

static gg_status end_part(feed *f, const gg_plan_part *p, gg_error *err)
{
    gg_data_close(&f->data);
    f->open = false;
    if (f->hashed) {
        unsigned char digest[32];
        char hex[65];
        gg_sha256_final(&f->hash, digest);
        gg_sha256_hex(digest, hex);
        if (gg_check_sha256(hex, p->sha256, err) != GG_OK) return at_part(f, err);
    }
    f->part++;
    return GG_OK;
}

gg_status gg_feed_raw(feed *f, uint8_t *to, size_t n, gg_error *err)
{
    gg_status st = GG_OK;
    while (n > 0 && st == GG_OK) {
        if (f->part >= f->op->n_parts) return gg_fail(err, GG_EFORMAT, "its data ends early");
        const gg_plan_part *p = &f->op->parts[f->part];
        if (!f->open && (st = open_part(f, p, err)) != GG_OK) break;
        size_t step = p->bytes - f->at < n ? (size_t)(p->bytes - f->at) : n;
        if (step) st = gg_data_read(&f->data, p->at + f->at, to, step, err);
        if (st != GG_OK) break;
        if (f->hashed) gg_sha256_update(&f->hash, to, step);
        to += step;
        n -= step;
        f->at += step;
        if (f->at == p->bytes) st = end_part(f, p, err);
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
    gg_status st = gg_feed_raw(f, f->raw, elems / info->block_elems * info->block_bytes, err);
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

/* ---- the loop -------------------------------------------------------------------- */

typedef struct loop {
    const gg_computation *t;
    compute_mix mix;
    void *state;
    const compute_target *to;
    feed in[COMPUTE_INPUTS];
    float *x[COMPUTE_INPUTS];
    uint8_t *out;
    gg_weights weights;
    float *room;   /* for the weights of a step */
    uint64_t lost; /* number of results that the dtype cannot represent */
} loop;

/* Counts values that would become infinite: half a unit or more above the largest number. */
uint64_t gg_count_beyond(uint32_t dtype, const float *x, size_t n)
{
    float limit = dtype == GG_F16 ? 65520.0f : dtype == GG_BF16 ? 0x1.ffp127f : INFINITY;
    return GG_PICK(gg_mix_beyond)(x, n, limit);
}

static gg_status step(loop *l, uint64_t first, size_t n, gg_error *err)
{
    const compute_target *to = l->to;
    gg_status st = GG_OK;
    bool bad = l->lost > 0;
    for (size_t i = 0; i < l->t->n_in && st == GG_OK; i++) {
        st = gg_feed_next(&l->in[i], n, err);
        bad = bad || l->in[i].bad;
    }
    if (st == GG_OK && !bad && l->mix) st = l->mix(l->state, first, n, l->x, err);
    if (st != GG_OK) return st;
    if (to->fd < 0) return gg_cancelled(err);
    if (!bad || l->lost) l->lost += gg_count_beyond(to->t->dtype, l->x[0], n);
    if (bad || l->lost) return gg_cancelled(err); /* from here on values are only counted */
    const gg_dtype_info *info = gg_dtype_get(to->t->dtype);
    size_t bytes = n / info->block_elems * info->block_bytes;
    uint64_t at = gg_offset_after(to->at, first / info->block_elems * info->block_bytes);
    const float *weights = gg_weights_of(&l->weights, first, n, l->room);
    st = gg_encode(to->t->dtype, l->x[0], l->out, n, n, weights, err);
    if (st == GG_OK) st = gg_put_all(to->fd, l->out, bytes, at, err);
    if (st == GG_OK) gg_progress_add(to->run, bytes);
    return st;
}

gg_status gg_compute_fail_lost(const gg_tensor *t, uint64_t lost, gg_error *err)
{
    gg_fail(err, GG_EFORMAT, "%llu of its values are too large for %s", (unsigned long long)lost,
            gg_dtype_name(t->dtype));
    gg_fix(err, "choose another dtype for it, for example %s", t->dtype == GG_F16 ? "BF16" : "F32");
    return gg_at_tensor(err, t->name, t->name_len);
}

static gg_status refuse_lost(const loop *l, const gg_tensor *t, gg_error *err)
{
    for (size_t i = 0; i < l->t->n_in; i++)
        if (l->in[i].bad) return gg_feed_fail_bad(&l->in[i], err);
    return l->lost ? gg_compute_fail_lost(t, l->lost, err) : GG_OK;
}

gg_status gg_compute_all(const gg_computation *t, compute_mix mix, void *state,
                         const compute_target *to, gg_error *err)
{
    loop l = { .t = t, .mix = mix, .state = state, .to = to };
    gg_status st = GG_OK;
    if (to->at == GG_AT_POS && !t->in_order)
        return gg_compute_in_sequence(t, mix, state, to, err) == GG_OK
                   ? GG_OK
                   : gg_at_tensor(err, to->t->name, to->t->name_len);
    for (size_t i = 0; i < t->n_in && st == GG_OK; i++) {
        st = gg_feed_open(&l.in[i], &t->in[i], to->fd >= 0, err);
        l.x[i] = l.in[i].x;
    }
    l.out = malloc(to->t->elements < COMPUTE_STEP ? (size_t)to->t->elements * 8 + 1 : STEP_BYTES);
    if (st == GG_OK)
        st = gg_weights_open(&l.weights, t->imatrix, to->t, t->stack_first, t->stack_size, err);
    if (l.weights.of.mean2) l.room = malloc(COMPUTE_STEP * sizeof *l.room);
    if (st == GG_OK && (!l.out || (l.weights.of.mean2 && !l.room)))
        st = gg_fail(err, GG_ENOMEM, "no memory for the values of a tensor");
    for (uint64_t first = 0; first < to->t->elements && st == GG_OK; first += COMPUTE_STEP) {
        uint64_t left = to->t->elements - first;
        st = step(&l, first, left < COMPUTE_STEP ? (size_t)left : COMPUTE_STEP, err);
    }
    if (st == GG_OK && to->fd >= 0) st = refuse_lost(&l, to->t, err);
    for (size_t i = 0; i < t->n_in; i++) gg_feed_close(&l.in[i]);
    gg_weights_close(&l.weights);
    free(l.room);
    free(l.out);
    return st == GG_OK ? GG_OK : gg_at_tensor(err, to->t->name, to->t->name_len);
}

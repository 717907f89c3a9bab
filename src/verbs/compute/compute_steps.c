/* compute_steps.c - computes the values of a tensor step by step, and encodes and writes them. */
#include "compute_core.h"

#include "base/error.h"
#include "base/io.h"
#include "base/parallel.h"
#include "numeric/mix.h"
#include "quant/quant.h"
#include "verbs/shared/keys.h"
#include "verbs/shared/verb_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors of encodings --------------------------------------------------------------- */

gg_status gg_encode_error_add(gg_encode_error *e, const gg_encoded *v, gg_error *err)
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
    if (st == GG_OK) gg_encode_error_merge(e, &part);
    return st;
}

void gg_encode_error_merge(gg_encode_error *e, const gg_encode_error *part)
{
    e->n += part->n;
    e->error += part->error;
    e->signal += part->signal;
    e->weighed_error += part->weighed_error;
    e->weighed_sum += part->weighed_sum;
    e->weighed = e->weighed || part->weighed;
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

gg_status gg_weights_open(gg_weights *w, const gg_imatrix *imatrix, const gg_tensor *t,
                          uint64_t stack_first, uint64_t stack_size, gg_error *err)
{
    gg_tensor whole = *t;
    *w = (gg_weights){ .first = stack_first * t->dims[0], .rows = t->dims[1] };
    if (!imatrix || !gg_is_quantized(t->dtype)) return GG_OK;
    if (stack_size) whole.dims[2] = stack_size;
    return gg_imatrix_read(imatrix, &whole, &w->of, err);
}

void gg_weights_close(gg_weights *w)
{
    gg_importance_free(&w->of);
}

const float *gg_weights_of(const gg_weights *w, uint64_t first, size_t n, float *room)
{
    uint64_t columns = w->of.columns;
    if (!w->of.mean2) return NULL;
    for (size_t done = 0; done < n;) {
        uint64_t row = (first + done) / columns, column = (first + done) % columns;
        size_t run = columns - column < n - done ? (size_t)(columns - column) : n - done;
        const float *from = w->of.mean2 + w->first + row / w->rows * columns + column;
        memcpy(room + done, from, run * sizeof *room);
        done += run;
    }
    return room;
}

/* ---- steps --------------------------------------------------------------------------------- */

#define SLOT_BYTES ((size_t)1 << 20) /* of encoded values in flight, per thread */
#define SLOTS_LEAST 2
#define SLOTS_MOST 16

typedef struct gg_slot {
    gg_step step;
    uint8_t *room, *bytes; /* what was allocated, and the encoded values in it */
    uint64_t lost;
    bool stopped;
    gg_encode_error error;
} gg_slot;

static uint64_t encoded_bytes(const gg_steps *s, uint64_t n)
{
    const gg_dtype_info *info = gg_dtype_get(s->to.t->dtype);
    return n / info->block_elems * info->block_bytes;
}

static size_t slots_per_thread(const gg_steps *s, size_t bytes)
{
    size_t n = bytes ? SLOT_BYTES / bytes : SLOTS_MOST;
    if (s->threads == 1) return 1;
    return n < SLOTS_LEAST ? SLOTS_LEAST : n > SLOTS_MOST ? SLOTS_MOST : n;
}

static bool make_room(gg_slot *slot, size_t bytes, uint64_t at)
{
    slot->room = malloc(bytes + GG_LINE_ROOM);
    if (slot->room) slot->bytes = gg_in_line(slot->room, at);
    return slot->room != NULL;
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
    for (size_t i = 0; ok && i < s->n_slots && s->to.fd >= 0; i++)
        ok = make_room(&s->slots[i], bytes, s->to.at);
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

/* Values that would become infinite: half a unit or more above the largest number. */
static uint64_t count_beyond(uint32_t dtype, const float *x, size_t n)
{
    float limit = dtype == GG_F16 ? 65520.0f : dtype == GG_BF16 ? 0x1.ffp127f : INFINITY;
    return GG_PICK(gg_mix_beyond)(x, n, limit);
}

static gg_status encode_step(const gg_steps *s, gg_slot *slot, const float *x, gg_error *err)
{
    uint32_t dtype = s->to.t->dtype;
    float *room = s->room ? s->room + slot->step.worker * 2 * COMPUTE_STEP : NULL;
    gg_status st = GG_OK;
    for (size_t done = 0; done < slot->step.n && st == GG_OK; done += COMPUTE_STEP) {
        size_t n = slot->step.n - done < COMPUTE_STEP ? slot->step.n - done : COMPUTE_STEP;
        const float *w = gg_weights_of(&s->weights, slot->step.first + done, n, room);
        uint8_t *to = slot->bytes + encoded_bytes(s, done);
        st = gg_encode(dtype, x + done, to, n, n, w, err);
        if (st != GG_OK || !s->error) continue;
        const gg_encoded made = { dtype, x + done, to, n, w, room + COMPUTE_STEP };
        st = gg_encode_error_add(&slot->error, &made, err);
    }
    return st;
}

static gg_status do_step(void *ctx, size_t i, unsigned worker, gg_error *err)
{
    const gg_steps *s = ctx;
    gg_slot *slot = &s->slots[i];
    float *x = NULL;
    slot->step.worker = worker;
    gg_status st = gg_cancelled(err);
    if (st == GG_OK) st = s->make(s->ctx, &slot->step, &x, err);
    slot->stopped = x == NULL;
    if (st != GG_OK || !x || !s->write) return st;
    slot->lost = count_beyond(s->to.t->dtype, x, slot->step.n);
    return slot->lost || s->lost ? GG_OK : encode_step(s, slot, x, err);
}

/* Sets the slots to the next steps of [first, end), and reads what they need. */
static gg_status read_steps(gg_steps *s, uint64_t first, uint64_t end, size_t *used, gg_error *err)
{
    gg_status st = GG_OK;
    for (*used = 0; *used < s->n_slots && first < end && st == GG_OK; ++*used) {
        gg_slot *slot = &s->slots[*used];
        size_t n = end - first < s->size ? (size_t)(end - first) : s->size;
        slot->step = (gg_step){ .first = first, .n = n, .slot = *used };
        slot->lost = 0;
        slot->error = (gg_encode_error){ 0 };
        if (s->read) st = s->read(s->ctx, &slot->step, err);
        first += n;
    }
    return st;
}

/* Hashes a step while it is in the cache: its output together with its input, because several
 * messages at once take less time than one after another. */
static void hash_step(const gg_steps *s, const gg_slot *slot, size_t bytes)
{
    gg_sha256_piece pieces[STEPS_UNHASHED + 1];
    size_t n = s->unhashed ? s->unhashed(s->ctx, pieces) : 0;
    if (s->to.hash) pieces[n++] = (gg_sha256_piece){ s->to.hash, slot->bytes, bytes };
    gg_sha256_update_many(pieces, n);
}

static gg_status end_step(gg_steps *s, const gg_slot *slot, gg_error *err)
{
    const gg_target *to = &s->to;
    if (s->after) s->after(s->ctx, &slot->step);
    if (!s->write) return GG_OK;
    s->lost += slot->lost;
    s->stopped = s->stopped || slot->stopped;
    if (s->stopped || s->lost) return GG_OK;
    if (s->error) gg_encode_error_merge(s->error, &slot->error);
    size_t bytes = (size_t)encoded_bytes(s, slot->step.n);
    uint64_t at = gg_offset_after(to->at, encoded_bytes(s, slot->step.first));
    hash_step(s, slot, bytes);
    gg_status st = gg_put_all(to->fd, slot->bytes, bytes, at, err);
    if (st == GG_OK) gg_progress_add(to->run, bytes);
    return st;
}

gg_status gg_steps_run(gg_steps *s, uint64_t first, uint64_t end, unsigned threads, bool write,
                       gg_error *err)
{
    gg_status st = GG_OK;
    s->write = write && s->to.fd >= 0;
    while (first < end && st == GG_OK) {
        size_t used;
        st = read_steps(s, first, end, &used, err);
        if (st == GG_OK)
            st = gg_parallel(used, threads < s->threads ? threads : s->threads, do_step, s, err);
        for (size_t i = 0; i < used && st == GG_OK; i++) {
            st = end_step(s, &s->slots[i], err);
            first += s->slots[i].step.n;
        }
    }
    return st;
}

gg_status gg_steps_fail_lost(const gg_steps *s, gg_error *err)
{
    const gg_tensor *t = s->to.t;
    if (s->lost == 0) return GG_OK;
    gg_fail(err, GG_EFORMAT, "%llu of its values are too large for %s", (unsigned long long)s->lost,
            gg_dtype_name(t->dtype));
    gg_fix(err, "choose another dtype for it, for example %s", t->dtype == GG_F16 ? "BF16" : "F32");
    return gg_at_tensor(err, t->name, t->name_len);
}

/* compute_lora.c - applies a LoRA adapter to a tensor, row by row. */
#include "compute_lora.h"

#include "base/error.h"
#include "compute_core.h"

#include "numeric/mix.h"

#include <stdlib.h>
#include <string.h>

#define WIDE_LIMIT ((uint64_t)256 << 20)
#define TALL_STEP ((size_t)16384) /* values of `tall` held, at least one row */

typedef struct lora_ctx {
    gg_computation base;
    gg_source *adapter;
    lora_pair pair;
    float scale;
} lora_ctx;

typedef struct lora_state {
    const lora_ctx *c;
    feed wide, tall; /* read in order, like the rows of W */
    float *w;        /* r rows of `in` values: of expert `loaded` */
    uint64_t loaded;
    float *rows; /* of tall: [first_row, end_row) */
    uint64_t first_row, end_row, step_rows;
} lora_state;

/* ---- the adapter's values --------------------------------------------------------- */

static gg_status load_wide(lora_state *s, gg_error *err)
{
    const lora_pair *p = &s->c->pair;
    uint64_t n = p->in * p->r;
    for (uint64_t done = 0; done < n;) {
        size_t step = n - done < COMPUTE_STEP ? (size_t)(n - done) : COMPUTE_STEP;
        gg_status st = gg_feed_next(&s->wide, step, err);
        if (st == GG_OK && s->wide.bad) st = gg_feed_fail_bad(&s->wide, err);
        if (st != GG_OK) return st;
        if (!p->swapped) memcpy(s->w + done, s->wide.x, step * sizeof *s->w);
        for (size_t k = 0; p->swapped && k < step; k++)
            s->w[(done + k) % p->r * p->in + (done + k) / p->r] = s->wide.x[k];
        done += step;
    }
    s->loaded = s->loaded == UINT64_MAX ? 0 : s->loaded + 1;
    return GG_OK;
}

/* Loads the next rows of tall. */
static gg_status load_rows(lora_state *s, gg_error *err)
{
    const lora_pair *p = &s->c->pair;
    uint64_t all = p->out * p->experts;
    s->first_row = s->end_row;
    s->end_row = all - s->first_row < s->step_rows ? all : s->first_row + s->step_rows;
    uint64_t n = (s->end_row - s->first_row) * p->r;
    for (uint64_t done = 0; done < n;) {
        size_t step = n - done < COMPUTE_STEP ? (size_t)(n - done) : COMPUTE_STEP;
        gg_status st = gg_feed_next(&s->tall, step, err);
        if (st == GG_OK && s->tall.bad) st = gg_feed_fail_bad(&s->tall, err);
        if (st != GG_OK) return st;
        memcpy(s->rows + done, s->tall.x, step * sizeof *s->rows);
        done += step;
    }
    return GG_OK;
}

/* ---- sums ------------------------------------------------------------------------- */

/* Changes the values of one step: the parts of rows at its ends one by one, the whole rows
 * between them together. */
static gg_status mix_lora(void *state, uint64_t first, size_t n, float *const *x, gg_error *err)
{
    lora_state *s = state;
    const lora_pair *p = &s->c->pair;
    for (size_t done = 0; done < n;) {
        uint64_t row = (first + done) / p->in, column = (first + done) % p->in, rows = 1;
        size_t len = n - done < p->in - column ? n - done : (size_t)(p->in - column);
        gg_status st = GG_OK;
        if (s->loaded != row / p->out) st = load_wide(s, err);
        if (st == GG_OK && row >= s->end_row) st = load_rows(s, err);
        if (st != GG_OK) return st;
        if (len == p->in) {
            uint64_t of_expert = p->out - row % p->out, held = s->end_row - row;
            rows = (n - done) / p->in;
            rows = rows < of_expert ? rows : of_expert;
            rows = rows < held ? rows : held;
        }
        gg_low_rank l = { s->w + column, (size_t)p->in, (size_t)p->r, s->c->scale };
        GG_PICK(gg_mix_low_rank)
        (&l, x[0] + done, s->rows + (row - s->first_row) * p->r, (size_t)rows, len);
        done += (size_t)rows * len;
    }
    return GG_OK;
}

/* ---- the producer ----------------------------------------------------------------- */

static void open_half(const lora_ctx *c, size_t index, operand *op, gg_plan_part *part, feed *f)
{
    const gg_tensor *t = gg_source_tensor(c->adapter, index);
    uint64_t share = t->bytes / c->pair.of;
    *part = (gg_plan_part){ c->adapter, index, c->pair.at * share, share, NULL };
    *op = (operand){ t->dtype, part, 1 };
    gg_feed_open(f, op, true);
}

static gg_status make_lora(void *ctx, const gg_target *to, gg_error *err)
{
    const lora_ctx *c = ctx;
    const lora_pair *p = &c->pair;
    operand wide, tall;
    gg_plan_part wide_part, tall_part;
    lora_state s = { .c = c,
                     .loaded = UINT64_MAX,
                     .step_rows = p->r < TALL_STEP ? TALL_STEP / p->r : 1 };
    s.w = malloc((size_t)(p->in * p->r) * sizeof *s.w);
    s.rows = malloc((size_t)(s.step_rows * p->r) * sizeof *s.rows);
    gg_status st = s.w && s.rows ? GG_OK
                                 : gg_fail(err, GG_ENOMEM, "no memory for a LoRA of rank %llu",
                                           (unsigned long long)p->r);
    open_half(c, p->wide, &wide, &wide_part, &s.wide);
    open_half(c, p->tall, &tall, &tall_part, &s.tall);
    if (st == GG_OK) st = gg_compute_all(&c->base, mix_lora, &s, to, err);
    gg_feed_close(&s.wide);
    gg_feed_close(&s.tall);
    free(s.w);
    free(s.rows);
    return st;
}

/* Steps of the adapter's tensors must end at block boundaries. */
static gg_status check_half(const gg_source *adapter, size_t index, uint64_t run_of, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(adapter, index);
    const gg_dtype_info *info = gg_dtype_get(t->dtype);
    if (gg_can_decode(t->dtype) && run_of % info->block_elems == 0) return GG_OK;
    gg_fail(err, GG_EUNSUPPORTED, "a LoRA half in %s cannot be read",
            info ? info->name : "an unknown dtype");
    gg_at_tensor(err, t->name, t->name_len);
    return gg_at_file(err, gg_source_name(adapter));
}

gg_status gg_compute_lora(gg_computations *list, const gg_lora *lora, const gg_tensor *out,
                          const gg_input *w, gg_producer *p, gg_error *err)
{
    *p = (gg_producer){ 0 };
    lora_pair pair;
    bool found;
    gg_status st = gg_lora_pair_of(lora->adapter, out, &pair, &found, err);
    if (st != GG_OK || !found) return st;
    if (lora->strength == 0) return gg_compute_convert(list, out, w, p, err);
    st = gg_compute_check_output(out, list->imatrix, err);
    if (st == GG_OK) st = gg_compute_check_input(out, w, err);
    if (st == GG_OK) st = gg_compute_check_decode(out, w, err);
    if (st == GG_OK)
        st = check_half(lora->adapter, pair.wide, pair.swapped ? pair.r : pair.in, err);
    if (st == GG_OK) st = check_half(lora->adapter, pair.tall, pair.r, err);
    if (st == GG_OK && (pair.in > WIDE_LIMIT / 4 || pair.r > WIDE_LIMIT / 4 ||
                        pair.in * pair.r > WIDE_LIMIT / 4)) {
        gg_fail(err, GG_EUNSUPPORTED, "a LoRA of rank %llu is too large",
                (unsigned long long)pair.r);
        st = gg_at_tensor(err, out->name, out->name_len);
    }
    if (st != GG_OK) return st;
    lora_ctx *c = gg_compute_new(list, sizeof *c, err);
    if (!c) return err->status;
    c->base.in_order = true; /* rows of the adapter are loaded in order */
    c->adapter = lora->adapter;
    c->pair = pair;
    c->scale = lora->alpha != 0 ? lora->strength * lora->alpha / (float)pair.r : lora->strength;
    st = gg_compute_input(&c->base, w, err);
    if (st == GG_OK) *p = (gg_producer){ make_lora, c };
    return st;
}

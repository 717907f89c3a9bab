/* fold_lora.c - checks whether a LoRA adapter matches a base completely, and applies it to a
 * tensor, row by row. */
#include "fold_lora.h"

#include "base/error.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "mix_values.h"
#include "organ/record.h"
#include "organ/source_layout.h"
#include "organ/tensor_names.h"
#include "write/copy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A pair. For a single expert it is the expert's part of the stack's pair, number `at` of `of`;
 * `experts` is then 1.
 *
 * delta[o][i] = sum_k tall[o][k] wide[k][i], for each expert. `wide` is lora_a, stored as
 * r rows of `in` values; for token_embd it is lora_b, stored as `in` rows of r. */
typedef struct lora_pair {
    size_t wide, tall; /* tensors of the adapter */
    bool swapped;
    uint64_t r, in, out, experts;
    uint64_t at, of;
} lora_pair;

/* ---- the adapter ------------------------------------------------------------------------- */

static gg_status check_adapter_keys(const gg_source *adapter, const gg_source *base, gg_error *err)
{
    const gg_meta *meta = gg_source_meta(adapter), *of = gg_source_meta(base);
    const char *a, *b;
    size_t an, bn;
    if (!meta || !gg_meta_text_is(meta, "general.type", "adapter") ||
        !gg_meta_text_is(meta, "adapter.type", "lora"))
        return gg_fail(
            err, GG_EFORMAT,
            "this is not a LoRA adapter: general.type must be adapter and adapter.type lora");
    if (gg_meta_find(meta, "adapter.alora.invocation_tokens"))
        return gg_fail(
            err, GG_EUNSUPPORTED,
            "this is an aLoRA, which starts to act at certain tokens; weights cannot do that");
    if (!gg_kv_str(gg_meta_find(meta, "general.architecture"), &a, &an) || !of ||
        !gg_kv_str(gg_meta_find(of, "general.architecture"), &b, &bn))
        return gg_fail(err, GG_EFORMAT, "the adapter or its base has no general.architecture");
    if (an == bn && memcmp(a, b, an) == 0) return GG_OK;
    char x[40], y[40];
    gg_escape(a, an, x, sizeof x);
    gg_escape(b, bn, y, sizeof y);
    return gg_fail(err, GG_EFORMAT, "the adapter is for the architecture %s, but the base is %s", x,
                   y);
}

/* Finds both halves of the pair for a tensor name. */
static bool find_halves(const gg_source *adapter, const char *of, size_t len, size_t *a, size_t *b)
{
    char name[GG_RECORD_NAME + 8];
    if (len > GG_RECORD_NAME) return false;
    memcpy(name, of, len);
    memcpy(name + len, ".lora_a", 7);
    *a = gg_source_find(adapter, name, len + 7);
    memcpy(name + len, ".lora_b", 7);
    *b = gg_source_find(adapter, name, len + 7);
    return *a != SIZE_MAX && *b != SIZE_MAX;
}

/* Compares the dims of the halves with those of w, which may be an expert of a stack. */
static bool shapes_fit(const gg_tensor *w, const gg_tensor *a, const gg_tensor *b, bool share,
                       const lora_pair *p)
{
    bool fits = gg_dims_from(w, 3) == 1 && gg_dims_from(a, 3) == 1 && gg_dims_from(b, 3) == 1 &&
                a->dims[2] == b->dims[2] && p->r > 0;
    if (share) fits = fits && w->dims[2] == 1 && p->at < p->of;
    else fits = fits && a->dims[2] == w->dims[2];
    if (p->swapped)
        return fits && w->dims[2] == 1 && a->dims[0] == p->r && a->dims[1] == p->out &&
               b->dims[1] == p->in;
    return fits && a->dims[0] == p->in && a->dims[1] == p->r && b->dims[1] == p->out;
}

/* Find the pair for tensor w of the base. *found is false, with GG_OK, if the adapter does not
 * have both halves. GG_EFORMAT if they do not match. */
static gg_status find_pair(const gg_source *adapter, const gg_tensor *w, lora_pair *pair,
                           bool *found, gg_error *err)
{
    char stack[GG_RECORD_NAME + 8];
    size_t a, b, len;
    bool share = false;
    *found = find_halves(adapter, w->name, w->name_len, &a, &b);
    if (!*found && gg_stack_name(w->name, w->name_len, stack, sizeof stack, &len))
        share = *found = find_halves(adapter, stack, len, &a, &b);
    if (!*found) return GG_OK;
    const gg_tensor *ta = gg_source_tensor(adapter, a), *tb = gg_source_tensor(adapter, b);
    bool swapped = gg_text_is(w->name, w->name_len, "token_embd.weight");
    *pair = (lora_pair){ .wide = swapped ? b : a,
                         .tall = swapped ? a : b,
                         .swapped = swapped,
                         .r = tb->dims[0],
                         .in = w->dims[0],
                         .out = w->dims[1],
                         .experts = w->dims[2],
                         .of = 1 };
    if (share) {
        pair->at = (uint64_t)w->a.expert;
        pair->of = ta->dims[2];
    }
    if (shapes_fit(w, ta, tb, share, pair)) return GG_OK;
    gg_fail(err, GG_EFORMAT, "its shape does not match the base's tensor and the other half");
    gg_fix(err, "use the model that the adapter was made for, with its vocabulary");
    return gg_at_tensor(err, ta->name, ta->name_len);
}

/* A pair, and the tensors of the base that it would change. */
typedef struct targets {
    bool found, paired;
} targets;

/* Checks the pair that t belongs to against every tensor of the base that it would change: the
 * one with its name, or the single experts of a stack with its name. */
static gg_status check_targets(const gg_source *adapter, const gg_source *base, const gg_tensor *t,
                               size_t name_len, targets *out, gg_error *err)
{
    char name[GG_RECORD_NAME + 8];
    size_t target = gg_source_find(base, t->name, name_len), len;
    lora_pair pair;
    *out = (targets){ .found = target != SIZE_MAX, .paired = true };
    if (out->found)
        return find_pair(adapter, gg_source_tensor(base, target), &pair, &out->paired, err);
    gg_status st = GG_OK;
    uint64_t experts = t->dims[2] < GG_EXPERTS_MAX ? t->dims[2] : GG_EXPERTS_MAX;
    for (uint64_t e = 0; e < experts && st == GG_OK && out->paired; e++) {
        if (!gg_expert_name(t->name, name_len, e, name, sizeof name, &len)) break;
        target = gg_source_find(base, name, len);
        if (target == SIZE_MAX) continue;
        out->found = true;
        st = find_pair(adapter, gg_source_tensor(base, target), &pair, &out->paired, err);
    }
    return st;
}

static gg_status check_norm(const gg_source *base, const gg_tensor *t, gg_error *err)
{
    size_t at = gg_source_find(base, t->name, t->name_len);
    const gg_tensor *of = at == SIZE_MAX ? NULL : gg_source_tensor(base, at);
    if (of && of->elements == t->elements && of->n_dims == t->n_dims) return GG_OK;
    if (of) gg_fail(err, GG_EFORMAT, "it has another length than the norm of the base");
    else gg_fail(err, GG_EFORMAT, "the base does not have this norm");
    gg_fix(err, "use the model that the adapter was made for");
    return gg_at_tensor(err, t->name, t->name_len);
}

/* Checks that tensor i of the adapter is half of a pair whose target is in the base, or a norm. */
static gg_status check_adapter_tensor(const gg_source *adapter, const gg_source *base, size_t i,
                                      gg_lora *out, gg_error *err)
{
    const gg_tensor *t = gg_source_tensor(adapter, i);
    bool a = gg_text_ends(t->name, t->name_len, ".lora_a"),
         b = gg_text_ends(t->name, t->name_len, ".lora_b");
    targets of = { 0 };
    if (!a && !b && gg_text_ends(t->name, t->name_len, "_norm.weight")) {
        out->norms++;
        return check_norm(base, t, err);
    }
    if (!a && !b) {
        gg_fail(err, GG_EFORMAT,
                "its name ends in neither .lora_a nor .lora_b, so it is not part of a LoRA pair");
        return gg_at_tensor(err, t->name, t->name_len);
    }
    gg_status st = check_targets(adapter, base, t, t->name_len - strlen(".lora_a"), &of, err);
    if (st == GG_OK && !of.found) {
        st = gg_fail(err, GG_EFORMAT, "the base does not have the tensor that it changes");
        gg_fix(err, "use the model that the adapter was made for");
    }
    if (st == GG_OK && !of.paired)
        st = gg_fail(err, GG_EFORMAT, "the other half of its pair is missing");
    if (st == GG_OK && a) out->pairs++;
    return st == GG_OK ? GG_OK : gg_at_tensor(err, t->name, t->name_len);
}

gg_status gg_lora_open(gg_source *adapter, const gg_source *base, double strength, gg_lora *out,
                       gg_error *err)
{
    *out = (gg_lora){ .adapter = adapter, .strength = (float)strength };
    if (!gg_source_seekable(adapter) || !gg_source_seekable(base)) {
        gg_fail(err, GG_EUSAGE, "a LoRA adapter and its base must be files, not pipes");
        return gg_at_file(err, gg_source_name(adapter));
    }
    const gg_error *why = gg_source_refusal(adapter);
    if (why) {
        *err = *why;
        return err->status;
    }
    if (gg_source_meta(adapter) &&
        gg_meta_find(gg_source_meta(adapter), "adapter.alora.invocation_tokens")) {
        gg_fail(err, GG_EUNSUPPORTED,
                "this adapter acts only after certain tokens (an activated LoRA), so it cannot be "
                "folded into a model");
        gg_fix(err, "load it beside the model");
        return gg_at_file(err, gg_source_name(adapter));
    }
    gg_status st = isfinite(out->strength)
                       ? check_adapter_keys(adapter, base, err)
                       : gg_fail(err, GG_EUSAGE, "the strength of a LoRA must be a finite number");
    for (size_t i = 0; i < gg_source_count(adapter) && st == GG_OK; i++)
        st = check_adapter_tensor(adapter, base, i, out, err);
    for (size_t i = 0; i < gg_source_count(adapter) && st == GG_OK; i++)
        st = gg_require_finite(adapter, i, err);
    if (st == GG_OK && out->pairs == 0)
        st = gg_fail(err, GG_EFORMAT, "the adapter has no LoRA tensors");
    if (st == GG_OK) {
        const gg_kv *alpha = gg_meta_find(gg_source_meta(adapter), "adapter.lora.alpha");
        if (alpha && (!gg_kv_f32(alpha, &out->alpha) || !isfinite(out->alpha)))
            st = gg_fail(err, GG_EFORMAT, "its adapter.lora.alpha is not a finite f32");
    }
    return st == GG_OK ? GG_OK : gg_at_file(err, gg_source_name(adapter));
}

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

/* Reads n values of a half. Those of a transposed one (columns > 0) become rows. */
static gg_status load_half(feed *f, uint64_t n, uint64_t columns, uint64_t row, float *to,
                           gg_error *err)
{
    for (uint64_t done = 0; done < n;) {
        size_t step = n - done < COMPUTE_STEP ? (size_t)(n - done) : COMPUTE_STEP;
        gg_status st = gg_feed_next(f, step, err);
        if (st != GG_OK) return st;
        if (!columns) memcpy(to + done, f->x, step * sizeof *to);
        for (size_t k = 0; columns && k < step; k++)
            to[(done + k) % columns * row + (done + k) / columns] = f->x[k];
        done += step;
    }
    return GG_OK;
}

static gg_status load_wide(lora_state *s, gg_error *err)
{
    const lora_pair *p = &s->c->pair;
    s->loaded = s->loaded == UINT64_MAX ? 0 : s->loaded + 1;
    return load_half(&s->wide, p->in * p->r, p->swapped ? p->r : 0, p->in, s->w, err);
}

/* Loads the next rows of tall. */
static gg_status load_rows(lora_state *s, gg_error *err)
{
    const lora_pair *p = &s->c->pair;
    uint64_t all = p->out * p->experts;
    s->first_row = s->end_row;
    s->end_row = all - s->first_row < s->step_rows ? all : s->first_row + s->step_rows;
    return load_half(&s->tall, (s->end_row - s->first_row) * p->r, 0, 0, s->rows, err);
}

/* ---- sums ------------------------------------------------------------------------- */

/* Changes the values of one step: the parts of rows at its ends one by one, the whole rows
 * between them together. */
static gg_status mix_lora(void *state, uint64_t first, size_t n, float *const *x, gg_error *err)
{
    lora_state *s = state;
    const lora_pair *p = &s->c->pair;
    for (size_t done = 0; done < n;) {
        /* not 0: a value of the tensor is computed */
        uint64_t row = (first + done) / p->in, column = (first + done) % p->in, rows = 1;
        size_t len = n - done < p->in - column ? n - done : (size_t)(p->in - column);
        gg_status st = GG_OK;
        /* not 0: p->out rows are computed */
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
    /* not 0: the pair has experts */
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
                     /* not 0: pairs have a rank */
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
    size_t norm = gg_text_ends(out->name, out->name_len, "_norm.weight")
                      ? gg_source_find(lora->adapter, out->name, out->name_len)
                      : SIZE_MAX;
    if (norm != SIZE_MAX && lora->strength != 0) {
        gg_plan_part whole = gg_plan_whole(lora->adapter, norm);
        gg_input own = { gg_source_tensor(lora->adapter, norm)->dtype, &whole, 1 };
        return gg_compute_convert(list, out, &own, p, err);
    }
    gg_status st = find_pair(lora->adapter, out, &pair, &found, err);
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

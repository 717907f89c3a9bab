/* blend.c - computes blends of two tensors, or of two and their ancestor, and tensors whose parts
 * along the last dimension are computed or copied one by one. */
#include "blend.h"

#include "base/error.h"
#include "mix_values.h"
#include "numeric/arc.h"
#include "quant/quant.h"
#include "write/verb_run.h"

#include <string.h>

/* ---- parts with their own producers ----------------------------------------------------- */

typedef struct join_ctx {
    gg_computation base;
    gg_whole of[3];
    size_t n;
    gg_joint list[];
} join_ctx;

static gg_status make_join(void *ctx, const gg_target *to, gg_error *err)
{
    const join_ctx *j = ctx;
    gg_target part = *to;
    gg_status st = GG_OK;
    for (size_t i = 0; i < 3 && st == GG_OK; i++)
        if (j->of[i].source) st = gg_verify_data(j->of[i].source, j->of[i].index, err);
    for (size_t i = 0; i < j->n && st == GG_OK; i++) {
        part.t = &j->list[i].t;
        if (j->list[i].stays && to->zeros) atomic_store(&to->zeros->kept, true);
        if (j->list[i].stays) gg_progress_add(to->run, part.t->bytes);
        else st = j->list[i].p.make(j->list[i].p.ctx, &part, err);
        part.at = gg_offset_after(part.at, part.t->bytes);
    }
    for (size_t i = 0; i < j->n && j->base.error; i++) {
        gg_encode_error error = gg_compute_error(&j->list[i].p);
        gg_add_errors(j->base.error, &error);
    }
    return st;
}

/* Tells the parts of a stack which of its matrices they are, for their weights. */
static void mark_stack(join_ctx *j)
{
    uint64_t first = 0, all = 0;
    for (size_t i = 0; i < j->n; i++) {
        if (j->list[i].t.n_dims != 3) return;
        all += j->list[i].t.dims[2];
    }
    for (size_t i = 0; i < j->n; i++) {
        gg_computation *part = j->list[i].p.ctx;
        part->stack_first = first;
        part->stack_size = all;
        first += j->list[i].t.dims[2];
    }
}

static gg_status retype_joints(gg_computation *t, gg_producer *p, const gg_tensor *out,
                               gg_error *err)
{
    join_ctx *j = (join_ctx *)t;
    gg_status st = GG_OK;
    (void)p;
    for (size_t i = 0; i < j->n && st == GG_OK; i++) {
        gg_tensor *part = &j->list[i].t;
        part->dtype = out->dtype;
        st = gg_tensor_extent(part->dtype, part->n_dims, part->dims, &part->elements, &part->bytes,
                              err);
        if (st == GG_OK) st = gg_retype_producer(&j->list[i].p, part, err);
    }
    return st;
}

gg_status gg_compute_join(gg_computations *list, const gg_joint *joints, size_t n,
                          const gg_whole of[3], gg_producer *p, gg_error *err)
{
    *p = (gg_producer){ 0 };
    join_ctx *j = gg_compute_new(list, sizeof *j + n * sizeof j->list[0], err);
    if (!j) return err->status;
    j->base.retype = retype_joints;
    j->n = n;
    for (size_t i = 0; i < 3; i++) j->of[i] = of[i];
    if (n) memcpy(j->list, joints, n * sizeof *joints);
    mark_stack(j);
    *p = (gg_producer){ make_join, j };
    return GG_OK;
}

/* ---- blends of two tensors, or of two and their ancestor --------------------------- */

typedef struct blend_ctx {
    gg_computation base;
    gg_blend_mode mode;
    double t;
} blend_ctx;

/* ---- parsing --------------------------------------------------------------------- */

static const struct {
    const char *name;
    double least, most;
} modes[] = {
    [GG_BLEND_LINEAR] = { "linear", 0, 1 },
    [GG_BLEND_SLERP] = { "slerp", 0, 1 },
    [GG_BLEND_TASK] = { "task", -10, 10 },
};

static bool parse_range(const char *s, gg_blend *b)
{
    const char *dots = strstr(s, "..");
    if (!dots) return gg_parse_decimal(s, strlen(s), &b->first) && (b->last = b->first, true);
    if (dots[2] == '.') return false; /* "0...5" is ambiguous */
    return gg_parse_decimal(s, (size_t)(dots - s), &b->first) &&
           gg_parse_decimal(dots + 2, strlen(dots + 2), &b->last);
}

/* Returns GG_BLEND_NONE for an unknown mode. */
static gg_blend_mode mode_by_name(const char *name, size_t n)
{
    for (int m = GG_BLEND_LINEAR; m <= GG_BLEND_TASK; m++)
        if (strlen(modes[m].name) == n && memcmp(modes[m].name, name, n) == 0)
            return (gg_blend_mode)m;
    return GG_BLEND_NONE;
}

static gg_status parse_blend(const char *text, gg_blend *out, gg_error *err)
{
    const char *colon = strchr(text, ':');
    char shown[64];
    gg_escape(text, strlen(text), shown, sizeof shown);
    gg_blend_mode mode = colon ? mode_by_name(text, (size_t)(colon - text)) : GG_BLEND_NONE;
    if (mode == GG_BLEND_NONE) {
        gg_fail(err, GG_EUSAGE, "unknown blend '%s'", shown);
        return gg_fix(
            err, "use linear:T, slerp:T or task:T, where T is a number or a ramp such as 0.2..0.8");
    }
    gg_blend b = { .mode = mode };
    if (strlen(text) >= sizeof b.text || !parse_range(colon + 1, &b)) {
        gg_fail(err, GG_EUSAGE, "'%s': T must be a number or a ramp", shown);
        return gg_fix(err, "for example %s:0.5 or %s:0.2..0.8", modes[mode].name, modes[mode].name);
    }
    double least = modes[mode].least, most = modes[mode].most;
    if (!(b.first >= least && b.first <= most && b.last >= least && b.last <= most))
        return gg_fail(err, GG_EUSAGE, "'%s': T must be between %g and %g", shown, least, most);
    memcpy(b.text, text, strlen(text) + 1);
    *out = b;
    return GG_OK;
}

gg_status gg_blend_parse(const char *text, gg_source *ancestor, gg_blend *out, gg_error *err)
{
    gg_blend b = { 0 };
    gg_status st = text ? parse_blend(text, &b, err) : GG_OK;
    if (st != GG_OK) return st;
    if (b.mode == GG_BLEND_TASK && !ancestor) {
        gg_fail(err, GG_EUSAGE, "a task blend needs the common ancestor of both models");
        return gg_fix_by(err, "ancestor", "give the model that base and donor were trained from");
    }
    b.ancestor = ancestor;
    *out = b;
    return GG_OK;
}

/* ---- values ---------------------------------------------------------------------- */

/* What a blend does with the values of a step. */
typedef struct mixing {
    bool task, arc;
    double a, b; /* weights of A, only of an arc, and of B */
    gg_products sums;
} mixing;

static gg_status mix_blend(void *state, uint64_t first, size_t n, float *const *x, gg_error *err)
{
    const mixing *m = state;
    (void)first;
    (void)err;
    if (m->arc) GG_PICK(gg_mix_two)(x[0], x[1], m->a, m->b, n);
    else GG_PICK(gg_mix_difference)(x[0], x[1], x[m->task ? 2 : 0], m->b, n);
    return GG_OK;
}

static gg_status add_products(void *state, uint64_t first, size_t n, float *const *x, gg_error *err)
{
    mixing *m = state;
    (void)first;
    (void)err;
    GG_PICK(gg_mix_products)(&m->sums, x[0], x[1], n);
    return GG_OK;
}

static double sum4(const double s[4])
{
    return (s[0] + s[1]) + (s[2] + s[3]);
}

static gg_status make_blend(void *ctx, const gg_target *to, gg_error *err)
{
    const blend_ctx *b = ctx;
    mixing m = { .task = b->mode == GG_BLEND_TASK, .b = b->t };
    if (b->mode == GG_BLEND_SLERP) {
        /* The angle is known only after all values were read. They are read twice, because keeping
         * them would need memory for a whole tensor. Values that are not finite are
         * reported when they are read again to be written. */
        gg_target nowhere = { .t = to->t, .fd = -1 };
        gg_status st = gg_compute_all(&b->base, add_products, &m, &nowhere, err);
        if (st != GG_OK) return st;
        const double gram[3] = { sum4(m.sums.aa), sum4(m.sums.ab), sum4(m.sums.bb) };
        double two[2];
        m.arc = gg_slerp_weights(gram, b->t, two); /* or else the straight line */
        if (m.arc) m.a = two[0], m.b = two[1];
    }
    return gg_compute_all(&b->base, mix_blend, &m, to, err);
}

gg_status gg_compute_blend(gg_computations *list, const gg_tensor *out, const gg_mixture *m,
                           gg_producer *p, gg_error *err)
{
    *p = (gg_producer){ 0 };
    size_t n = m->mode == GG_BLEND_TASK ? 3 : 2;
    if (n == 3 && !m->in[2].parts) {
        gg_fail(err, GG_EUSAGE, "a task blend needs the common ancestor of both models");
        return gg_at_tensor(err, out->name, out->name_len);
    }
    if (m->t == 0) return gg_compute_convert(list, out, &m->in[0], p, err);
    if (m->t == 1 && n == 2) return gg_compute_convert(list, out, &m->in[1], p, err);
    gg_status st = gg_compute_check_output(out, list->imatrix, err);
    for (size_t i = 0; i < n && st == GG_OK; i++) {
        st = gg_compute_check_input(out, &m->in[i], err);
        if (st == GG_OK) st = gg_compute_check_decode(out, &m->in[i], err);
    }
    if (st != GG_OK) return st;
    blend_ctx *ctx = gg_compute_new(list, sizeof *ctx, err);
    if (!ctx) return err->status;
    ctx->mode = m->mode;
    ctx->t = m->t;
    for (size_t i = 0; i < n && st == GG_OK; i++) st = gg_compute_input(&ctx->base, &m->in[i], err);
    if (st == GG_OK) *p = (gg_producer){ make_blend, ctx };
    return st;
}

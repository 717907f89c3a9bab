/* compute_blend.c - blends two tensors, or two and their ancestor. */
#include "compute.h"

#include "base/error.h"
#include "numeric/arc.h"
#include "numeric/mix.h"
#include "organ/tensor_names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
        return gg_fix_hint(err, GG_HINT_ANCESTOR,
                           "give the model that base and donor were trained from");
    }
    b.ancestor = ancestor;
    *out = b;
    return GG_OK;
}

double gg_blend_t(const gg_blend *b, const char *name, size_t name_len, uint64_t blocks)
{
    gg_anatomy a = gg_anatomy_of(name, name_len);
    if (a.block < 0) {
        bool end = (name_len >= 6 && memcmp(name, "output", 6) == 0) ||
                   (name_len >= 3 && memcmp(name, "cls", 3) == 0);
        return end ? b->last : b->first;
    }
    if (blocks < 2 || a.block == 0) return b->first;
    if ((uint64_t)a.block >= blocks - 1) return b->last;
    return b->first + (b->last - b->first) * (double)a.block / (double)(blocks - 1);
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
         * them would need memory for a whole tensor. What is wrong with them is found when they
         * are read again to be written. */
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

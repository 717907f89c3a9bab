/* ksearch.c - the scale searches of the encoders; see ksearch.h for the idea. */
#include "ksearch.h"

#include <float.h>

enum { MAX_N = 32, LANES = 8 };

static const gg_f32x8 lane_index = { 0, 1, 2, 3, 4, 5, 6, 7 };

/* ---- symmetric ----------------------------------------------------------- */

/* Candidate 0 is the obvious scale, then -9..-1 and 1..9 tenths of a level off. */
enum { SYM_CANDIDATES = 19, SYM_VECTORS = 3 };

static const float sym_offset[SYM_VECTORS * LANES] = {
    0, -9, -8, -7, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0, 0, 0,
};

/* Sums of w*x*l and w*l*l for eight candidates at once. */
static inline void sym_sums(int n, const float *x, const float *w, const float *wx, gg_f32x8 inverse,
                            gg_f32x8 lo, gg_f32x8 hi, float *lx, float *l2)
{
    gg_f32x8 sum_lx = gg_splat8(0.0f), sum_l2 = gg_splat8(0.0f);
    for (int i = 0; i < n; i++) {
        gg_f32x8 l = gg_max8(gg_min8(gg_rint8(inverse * x[i]), hi), lo);
        sum_lx += wx[i] * l;
        sum_l2 += (w[i] * l) * l;
    }
    gg_store8(lx, sum_lx);
    gg_store8(l2, sum_l2);
}

static void sym_levels(int n, int nmax, const float *x, float inverse, uint8_t *L)
{
    for (int i = 0; i < n; i++) {
        int32_t l = gg_round1(inverse * x[i]);
        l = l < -nmax ? -nmax : l > nmax - 1 ? nmax - 1 : l;
        L[i] = (uint8_t)(l + nmax);
    }
}

float GG_K(gg_search_symmetric)(int n, int nmax, const float *x, const float *w, uint8_t *L)
{
    float own[MAX_N], wx[MAX_N], inverse[SYM_VECTORS * LANES], lx[SYM_VECTORS * LANES], l2[SYM_VECTORS * LANES];
    float max = gg_extreme(x, n);
    if (!(max > 1e-15f || max < -1e-15f)) {
        memset(L, 0, (size_t)n);
        return 0.0f;
    }
    if (!w) {
        for (int i = 0; i < n; i++) own[i] = x[i] * x[i];
        w = own;
    }
    for (int i = 0; i < n; i++) wx[i] = w[i] * x[i];

    const gg_f32x8 lo = gg_splat8((float)-nmax), hi = gg_splat8((float)(nmax - 1));
    for (int v = 0; v < SYM_VECTORS * LANES; v += LANES) {
        gg_f32x8 inv = -(0.1f * gg_load8(sym_offset + v) + (float)nmax) / max;
        gg_store8(inverse + v, inv);
        sym_sums(n, x, w, wx, inv, lo, hi, lx + v, l2 + v);
    }
    /* A candidate's error is sum(w*x*x) - lx*lx/l2: the larger the quotient the
     * better. Compared crosswise, one after another, to save the divisions. */
    int pick = 0;
    float scale = l2[0] > 0.0f ? lx[0] / l2[0] : 0.0f, best = scale * lx[0];
    for (int c = 1; c < SYM_CANDIDATES; c++)
        if (l2[c] > 0.0f && lx[c] * lx[c] > best * l2[c]) {
            pick = c;
            scale = lx[c] / l2[c];
            best = scale * lx[c];
        }
    sym_levels(n, nmax, x, inverse[pick], L);
    return scale;
}

/* ---- affine -------------------------------------------------------------- */

typedef struct affine_group {
    int n;
    const float *x, *w;
    float shifted[MAX_N]; /* x - min, min as it is now */
    float nmax, max, min, sum_w, sum_x;
} affine_group;

/* What the levels of the best candidate came from, and its line. */
typedef struct affine_best {
    float error, scale, inverse, level_min;
} affine_best;

static inline void affine_shift(affine_group *g, float min)
{
    g->min = min;
    for (int i = 0; i < g->n; i++) g->shifted[i] = g->x[i] - min;
}

static inline gg_f32x8 affine_level(gg_f32x8 shifted, gg_f32x8 inverse, float nmax)
{
    return gg_max8(gg_min8(gg_rint8(inverse * shifted), gg_splat8(nmax)), gg_splat8(0.0f));
}

/* Tries candidates first .. first+7. Returns how many of them are settled: all
 * eight when none beats `best`, else up to the first that does. */
static inline int affine_eight(affine_group *g, const gg_affine_plan *plan, bool absolute, int first,
                               affine_best *best)
{
    gg_f32x8 level[MAX_N], order = lane_index + (float)first;
    gg_f32x8 inverse = ((plan->step * order + plan->first) + g->nmax) / (g->max - g->min);
    gg_f32x8 sum_l = gg_splat8(0.0f), sum_l2 = sum_l, sum_xl = sum_l;
    for (int i = 0; i < g->n; i++) {
        gg_f32x8 l = affine_level(gg_splat8(g->shifted[i]), inverse, g->nmax), wl = g->w[i] * l;
        level[i] = l;
        sum_l += wl;
        sum_l2 += wl * l;
        sum_xl += wl * g->x[i];
    }
    /* Least squares for scale and offset; an offset above 0 cannot be stored, then
     * the line goes through 0. No spread of levels, no solution: skipped. */
    gg_f32x8 det = g->sum_w * sum_l2 - sum_l * sum_l;
    gg_f32x8 scale = (g->sum_w * sum_xl - g->sum_x * sum_l) / det;
    gg_f32x8 min = (sum_l2 * g->sum_x - sum_l * sum_xl) / det;
    gg_i32x8 above = gg_less8(gg_splat8(0.0f), min);
    min = gg_select8(above, gg_splat8(0.0f), min);
    scale = gg_select8(above, sum_xl / sum_l2, scale);

    gg_f32x8 error = gg_splat8(0.0f);
    for (int i = 0; i < g->n; i++) {
        gg_f32x8 diff = (scale * level[i] + min) - g->x[i];
        error += g->w[i] * (absolute ? gg_abs8(diff) : diff * diff);
    }
    unsigned better = gg_mask8(gg_less8(error, gg_splat8(best->error)) & gg_less8(gg_splat8(0.0f), det) &
                               gg_less8(order, gg_splat8((float)plan->last + 0.5f)));
    if (better == 0) return LANES;
    int lane = __builtin_ctz(better);
    *best = (affine_best){ error[lane], scale[lane], inverse[lane], g->min };
    affine_shift(g, min[lane]);
    return lane + 1;
}

/* The error of the obvious scale, range / nmax, without least squares: what the
 * candidates have to beat. */
static inline float affine_plain_error(const affine_group *g, float inverse, float scale, bool absolute)
{
    float part[MAX_N], error = 0.0f;
    for (int i = 0; i < g->n; i += LANES) {
        gg_f32x8 l = affine_level(gg_load8(g->shifted + i), gg_splat8(inverse), g->nmax);
        gg_f32x8 diff = (scale * l + g->min) - gg_load8(g->x + i);
        gg_store8(part + i, gg_load8(g->w + i) * (absolute ? gg_abs8(diff) : diff * diff));
    }
    for (int i = 0; i < g->n; i++) error += part[i];
    return error;
}

static inline void affine_bounds(affine_group *g)
{
    gg_f32x8 top = gg_load8(g->x), low = top;
    for (int i = LANES; i < g->n; i += LANES) {
        top = gg_max8(top, gg_load8(g->x + i));
        low = gg_min8(low, gg_load8(g->x + i));
    }
    float min = -gg_top8(-low);
    g->max = gg_top8(top);
    affine_shift(g, min > 0.0f ? 0.0f : min);
    g->sum_w = g->w[0];
    g->sum_x = g->sum_w * g->x[0];
    for (int i = 1; i < g->n; i++) {
        g->sum_w += g->w[i];
        g->sum_x += g->w[i] * g->x[i];
    }
}

static inline float affine_search(affine_group *g, const gg_affine_plan *plan, bool absolute, uint8_t *L, float *min)
{
    affine_bounds(g);
    float range = g->max - g->min;
    if (!(range > GG_SEARCH_EPS)) {
        *min = -g->min;
        memset(L, 0, (size_t)g->n);
        return 0.0f;
    }
    affine_best best = { .inverse = g->nmax / range, .level_min = g->min };
    best.scale = 1.0f / best.inverse;
    best.error = affine_plain_error(g, best.inverse, best.scale, absolute);
    for (int first = 0; first <= plan->last;) first += affine_eight(g, plan, absolute, first, &best);

    *min = -g->min;
    for (int i = 0; i < g->n; i += LANES) {
        gg_f32x8 shifted = gg_load8(g->x + i) - best.level_min;
        gg_store_bytes8(L + i, gg_trunc8(affine_level(shifted, gg_splat8(best.inverse), g->nmax)));
    }
    return best.scale;
}

float GG_K(gg_search_affine)(int n, int nmax, const float *x, const float *w, const gg_affine_plan *plan,
                             uint8_t *L, float *min)
{
    affine_group g = { .n = n, .nmax = (float)nmax, .x = x, .w = w };
    return plan->absolute ? affine_search(&g, plan, true, L, min) : affine_search(&g, plan, false, L, min);
}

/* ---- positive ------------------------------------------------------------ */

static inline int32_t positive_level(float v, int nmax)
{
    return v > 0.0f ? v < (float)nmax ? gg_round1(v) : nmax : 0;
}

/* Squared error of one candidate scale over the group. */
static float positive_error(int n, int nmax, const float *x, const float *w, float inverse, float scale)
{
    float error = 0.0f;
    for (int i = 0; i < n; i++) {
        float diff = x[i] - scale * (float)positive_level(inverse * x[i], nmax);
        error += w[i] * diff * diff;
    }
    return error;
}

/* Moves one level at a time to where it fits the scale that the others imply,
 * as long as that makes the whole better. */
static int positive_refine(int n, int nmax, const float *x, const float *w, uint8_t *L, float *lx, float *l2)
{
    int changed = 0;
    for (int i = 0; i < n; i++) {
        float old = (float)L[i], slx = *lx - w[i] * x[i] * old, sl2 = *l2 - w[i] * old * old;
        if (!(slx > 0.0f && sl2 > 0.0f)) continue;
        float ideal = x[i] * sl2 / slx;
        int32_t l = positive_level(ideal, nmax);
        if (l == L[i]) continue;
        slx += w[i] * x[i] * (float)l;
        sl2 += w[i] * (float)l * (float)l;
        if (slx * slx * *l2 > *lx * *lx * sl2) {
            L[i] = (uint8_t)l;
            *lx = slx;
            *l2 = sl2;
            changed++;
        }
    }
    return changed;
}

float GG_K(gg_search_positive)(int n, int nmax, const float *x, const float *w, uint8_t *L)
{
    float max = 0.0f;
    for (int i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    if (max < 1e-15f) {
        memset(L, 0, (size_t)n);
        return 0.0f;
    }
    float inverse = (float)nmax / max, best = positive_error(n, nmax, x, w, inverse, 1.0f / inverse);
    for (int is = -4; is <= 4; is++) {
        float other = (0.1f * (float)is + (float)nmax) / max;
        float error = is == 0 ? best : positive_error(n, nmax, x, w, other, 1.0f / other);
        if (error < best) {
            best = error;
            inverse = other;
        }
    }
    float lx = 0.0f, l2 = 0.0f;
    for (int i = 0; i < n; i++) {
        int32_t l = positive_level(inverse * x[i], nmax);
        L[i] = (uint8_t)l;
        lx += w[i] * x[i] * (float)l;
        l2 += w[i] * (float)l * (float)l;
    }
    for (int pass = 0; pass < 5; pass++)
        if (positive_refine(n, nmax, x, w, L, &lx, &l2) == 0) break;
    return l2 > 0.0f ? lx / l2 : 0.0f;
}

/* ksearch.c - the scale searches of the encoders; ksearch.h explains the method. */
#include "ksearch.h"

enum { MAX_N = 32 };

/* Candidates are independent of each other. So the number of lanes does not affect the results, as
 * it would in a sum over values, and can be that of a register. */
#if GG_LEVEL == 1
enum { LANES = 8 };
typedef gg_f32x8 vec;
typedef gg_i32x8 ivec;
static const vec lane_index = { 0, 1, 2, 3, 4, 5, 6, 7 };

GG_INLINE vec v_splat(float f)
{
    return gg_splat8(f);
}
GG_INLINE vec v_min(vec a, vec b)
{
    return gg_min8(a, b);
}
GG_INLINE vec v_max(vec a, vec b)
{
    return gg_max8(a, b);
}
GG_INLINE unsigned v_mask(ivec m)
{
    return gg_mask8(m);
}
#else
enum { LANES = 4 };
typedef gg_f32x4 vec;
typedef int32_t ivec __attribute__((vector_size(16)));
static const vec lane_index = { 0, 1, 2, 3 };

GG_INLINE vec v_splat(float f)
{
    return (vec){ f, f, f, f };
}
#if defined(__SSE2__)
GG_INLINE vec v_min(vec a, vec b)
{
    return _mm_min_ps(a, b);
}
GG_INLINE vec v_max(vec a, vec b)
{
    return _mm_max_ps(a, b);
}
GG_INLINE unsigned v_mask(ivec m)
{
    return (unsigned)_mm_movemask_ps((__m128)m);
}
#else
GG_INLINE vec v_min(vec a, vec b)
{
    ivec m = a < b;
    return (vec)((m & (ivec)a) | (~m & (ivec)b));
}
GG_INLINE vec v_max(vec a, vec b)
{
    ivec m = a > b;
    return (vec)((m & (ivec)a) | (~m & (ivec)b));
}
GG_INLINE unsigned v_mask(ivec m)
{
    return (unsigned)((m[0] & 1) | (m[1] & 2) | (m[2] & 4) | (m[3] & 8));
}
#endif
#endif

GG_INLINE vec v_load(const float *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

GG_INLINE void v_store(float *p, vec v)
{
    memcpy(p, &v, sizeof v);
}
GG_INLINE vec v_rint(vec v)
{
    return (v + 12582912.0f) - 12582912.0f;
}
GG_INLINE vec v_abs(vec v)
{
    return (vec)((ivec)v & 0x7fffffff);
}
GG_INLINE vec v_select(ivec m, vec yes, vec no)
{
    return (vec)((m & (ivec)yes) | (~m & (ivec)no));
}

/* ---- symmetric ----------------------------------------------------------- */

/* Candidate 0 is the obvious scale. The others differ by -9..-1 and 1..9 tenths of a level. */
enum { SYM_CANDIDATES = 19, SYM_ROOM = (SYM_CANDIDATES + LANES - 1) / LANES * LANES };

static const float sym_offset[SYM_ROOM] = {
    0, -9, -8, -7, -6, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9,
};

typedef struct sym_group {
    int n, nmax;
    const float *x, *w;
    float wx[MAX_N]; /* w * x */
} sym_group;

/* Computes the sums of w*x*l and w*l*l for a register of candidates. */
static inline void sym_sums(const sym_group *g, vec inverse, float *lx, float *l2)
{
    const vec lo = v_splat((float)-g->nmax), hi = v_splat((float)(g->nmax - 1));
    vec sum_lx = v_splat(0.0f), sum_l2 = v_splat(0.0f);
    for (int i = 0; i < g->n; i++) {
        vec l = v_max(v_min(v_rint(inverse * g->x[i]), hi), lo);
        sum_lx += g->wx[i] * l;
        sum_l2 += (g->w[i] * l) * l;
    }
    v_store(lx, sum_lx);
    v_store(l2, sum_l2);
}

static inline void sym_levels(int n, int nmax, const float *x, float inverse, uint8_t *L)
{
    float low = (float)-nmax, high = (float)(nmax - 1);
    for (int i = 0; i < n; i += 16)
        gg_store_bytes16(L + i, gg_level8(inverse * gg_load8(x + i), low, high) + nmax,
                         gg_level8(inverse * gg_load8(x + i + 8), low, high) + nmax);
}

float GG_K(gg_search_symmetric)(int n, int nmax, const float *x, const float *w, uint8_t *L)
{
    float own[MAX_N], inverse[SYM_ROOM], lx[SYM_ROOM], l2[SYM_ROOM];
    float max = gg_extreme(x, n);
    if (!(max > 1e-15f || max < -1e-15f)) {
        memset(L, 0, (size_t)n);
        return 0.0f;
    }
    if (!w) {
        for (int i = 0; i < n; i++) own[i] = x[i] * x[i];
        w = own;
    }
    sym_group g = { .n = n, .nmax = nmax, .x = x, .w = w };
    for (int i = 0; i < n; i++) g.wx[i] = w[i] * x[i];

    for (int v = 0; v < SYM_ROOM; v += LANES) {
        vec inv = -(0.1f * v_load(sym_offset + v) + (float)nmax) / max;
        v_store(inverse + v, inv);
        sym_sums(&g, inv, lx + v, l2 + v);
    }
    /* The error of a candidate is sum(w*x*x) - lx*lx/l2, so the largest quotient is the best. The
     * quotients are compared by cross-multiplication, which avoids divisions. */
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
    float shifted[MAX_N]; /* x - min, with the current min */
    float nmax, max, min, sum_w, sum_x;
} affine_group;

/* The best candidate: the parameters of its levels, and its line. */
typedef struct affine_best {
    float error, scale, inverse, level_min;
} affine_best;

static inline void affine_shift(affine_group *g, float min)
{
    g->min = min;
    for (int i = 0; i < g->n; i++) g->shifted[i] = g->x[i] - min;
}

static inline vec affine_level(vec shifted, vec inverse, float nmax)
{
    return v_max(v_min(v_rint(inverse * shifted), v_splat(nmax)), v_splat(0.0f));
}

/* Tries candidates first .. first+LANES-1. Returns how many of them are done: all if none is better
 * than `best`, otherwise those up to the first that is. */
static inline int affine_try(affine_group *g, const gg_affine_plan *plan, bool absolute, int first,
                             affine_best *best)
{
    vec level[MAX_N], order = lane_index + (float)first;
    vec inverse = ((plan->step * order + plan->first) + g->nmax) / (g->max - g->min);
    vec sum_l = v_splat(0.0f), sum_l2 = sum_l, sum_xl = sum_l;
    for (int i = 0; i < g->n; i++) {
        vec l = affine_level(v_splat(g->shifted[i]), inverse, g->nmax), wl = g->w[i] * l;
        level[i] = l;
        sum_l += wl;
        sum_l2 += wl * l;
        sum_xl += wl * g->x[i];
    }
    /* Least squares for scale and offset. An offset above 0 cannot be stored; the line then goes
     * through 0. If all levels are equal, there is no solution, and the candidate is skipped. */
    vec det = g->sum_w * sum_l2 - sum_l * sum_l;
    vec scale = (g->sum_w * sum_xl - g->sum_x * sum_l) / det;
    vec min = (sum_l2 * g->sum_x - sum_l * sum_xl) / det;
    ivec above = min > 0.0f;
    min = v_select(above, v_splat(0.0f), min);
    scale = v_select(above, sum_xl / sum_l2, scale);

    vec error = v_splat(0.0f);
    for (int i = 0; i < g->n; i++) {
        vec diff = (scale * level[i] + min) - g->x[i];
        error += g->w[i] * (absolute ? v_abs(diff) : diff * diff);
    }
    unsigned better = v_mask((error < best->error) & (det > 0.0f) & (order <= (float)plan->last));
    if (better == 0) return LANES;
    int lane = __builtin_ctz(better);
    *best = (affine_best){ error[lane], scale[lane], inverse[lane], g->min };
    affine_shift(g, min[lane]);
    return lane + 1;
}

/* The error of the obvious scale, range / nmax, without least squares. Candidates must be better
 * than this. */
static inline float affine_plain_error(const affine_group *g, float inverse, float scale,
                                       bool absolute)
{
    float part[MAX_N], error = 0.0f;
    for (int i = 0; i < g->n; i += LANES) {
        vec l = affine_level(v_load(g->shifted + i), v_splat(inverse), g->nmax);
        vec diff = (scale * l + g->min) - v_load(g->x + i);
        v_store(part + i, v_load(g->w + i) * (absolute ? v_abs(diff) : diff * diff));
    }
    for (int i = 0; i < g->n; i++) error += part[i];
    return error;
}

static inline void affine_bounds(affine_group *g)
{
    gg_f32x8 top = gg_load8(g->x), low = top;
    for (int i = 8; i < g->n; i += 8) {
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

static inline void affine_levels(const affine_group *g, const affine_best *best, uint8_t *L)
{
    for (int i = 0; i < g->n; i += 16) {
        gg_f32x8 a = best->inverse * (gg_load8(g->x + i) - best->level_min);
        gg_f32x8 b = best->inverse * (gg_load8(g->x + i + 8) - best->level_min);
        gg_store_bytes16(L + i, gg_level8(a, 0.0f, g->nmax), gg_level8(b, 0.0f, g->nmax));
    }
}

static inline float affine_search(affine_group *g, const gg_affine_plan *plan, bool absolute,
                                  uint8_t *L, float *min)
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
    for (int first = 0; first <= plan->last;) first += affine_try(g, plan, absolute, first, &best);

    *min = -g->min;
    affine_levels(g, &best, L);
    return best.scale;
}

float GG_K(gg_search_affine)(int n, const gg_affine_plan *plan, const float *x, const float *w,
                             uint8_t *L, float *min)
{
    affine_group g = { .n = n, .nmax = (float)plan->nmax, .x = x, .w = w };
    return plan->absolute ? affine_search(&g, plan, true, L, min)
                          : affine_search(&g, plan, false, L, min);
}

/* ---- positive ------------------------------------------------------------ */

static inline int32_t positive_level(float v, int nmax)
{
    return v > 0.0f ? v < (float)nmax ? gg_round1(v) : nmax : 0;
}

typedef struct positive_group {
    int n, nmax;
    const float *x, *w;
    float lx, l2; /* sums of w*x*L and w*L*L */
} positive_group;

/* Squared error of one candidate scale over the group. */
static float positive_error(const positive_group *g, float inverse, float scale)
{
    float error = 0.0f;
    for (int i = 0; i < g->n; i++) {
        float diff = g->x[i] - scale * (float)positive_level(inverse * g->x[i], g->nmax);
        error += g->w[i] * diff * diff;
    }
    return error;
}

/* Changes one level at a time to fit the scale that the others imply, if this improves the group.
 */
static int positive_refine(positive_group *g, uint8_t *L)
{
    const float *x = g->x, *w = g->w;
    int changed = 0;
    for (int i = 0; i < g->n; i++) {
        float old = (float)L[i], lx = g->lx - w[i] * x[i] * old, l2 = g->l2 - w[i] * old * old;
        if (!(lx > 0.0f && l2 > 0.0f)) continue;
        float ideal = x[i] * l2 / lx;
        int32_t l = positive_level(ideal, g->nmax);
        if (l == L[i]) continue;
        lx += w[i] * x[i] * (float)l;
        l2 += w[i] * (float)l * (float)l;
        if (lx * lx * g->l2 > g->lx * g->lx * l2) {
            L[i] = (uint8_t)l;
            g->lx = lx;
            g->l2 = l2;
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
    positive_group g = { .n = n, .nmax = nmax, .x = x, .w = w };
    float inverse = (float)nmax / max, best = positive_error(&g, inverse, 1.0f / inverse);
    for (int is = -4; is <= 4; is++) {
        float other = (0.1f * (float)is + (float)nmax) / max;
        float error = is == 0 ? best : positive_error(&g, other, 1.0f / other);
        if (error < best) {
            best = error;
            inverse = other;
        }
    }
    for (int i = 0; i < n; i++) {
        int32_t l = positive_level(inverse * x[i], nmax);
        L[i] = (uint8_t)l;
        g.lx += w[i] * x[i] * (float)l;
        g.l2 += w[i] * (float)l * (float)l;
    }
    for (int pass = 0; pass < 5; pass++)
        if (positive_refine(&g, L) == 0) break;
    return g.l2 > 0.0f ? g.lx / g.l2 : 0.0f;
}

/* ksearch.c - the scale searches of the encoders; ksearch.h explains the method. */
#include "ksearch.h"

enum { MAX_N = 32 };

/* Groups are independent of each other. So the number of lanes does not affect the results, as it
 * would in a sum over values, and can be that of a register. */
#if GG_LEVEL == 2
enum { LANES = 16 };
typedef float vec __attribute__((vector_size(64)));
typedef int32_t ivec __attribute__((vector_size(64)));

GG_INLINE vec v_splat(float f)
{
    return (vec)_mm512_set1_ps(f);
}
GG_INLINE vec v_min(vec a, vec b)
{
    return (vec)_mm512_min_ps((__m512)a, (__m512)b);
}
GG_INLINE vec v_max(vec a, vec b)
{
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
}
#elif GG_LEVEL == 1
enum { LANES = 8 };
typedef gg_f32x8 vec;
typedef gg_i32x8 ivec;

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
#else
enum { LANES = 4 };
typedef gg_f32x4 vec;
typedef int32_t ivec __attribute__((vector_size(16)));

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

/* ---- groups in lanes ----------------------------------------------------- */

/* Lane k has p[k * stride]. */
GG_INLINE vec v_gather(const float *p, int stride)
{
    vec v = { 0 };
    GG_UNROLL(16)
    for (int k = 0; k < LANES; k++) v[k] = p[k * stride];
    return v;
}

/* Returns p, or if there are fewer groups than lanes, a copy in `room` that is filled up with
 * zeros. */
static const float *all_lanes(const float *p, int groups, int n, float room[LANES * MAX_N])
{
    if (groups >= LANES) return p;
    memset(room, 0, LANES * MAX_N * sizeof *room);
    return memcpy(room, p, (size_t)(groups * n) * sizeof *p);
}

#if GG_LEVEL < 2
/* ---- symmetric ----------------------------------------------------------- */

typedef struct sym_lanes {
    vec x[MAX_N], w[MAX_N], wx[MAX_N];
    vec extreme; /* the value of the largest magnitude, or 1 */
    ivec alive;  /* groups that are not zeros, or nearly so */
    /* the best candidate, its scale, and how much less error it has than zeros */
    vec inverse, scale, gain;
} sym_lanes;

static void sym_load(sym_lanes *g, int n, const float *x, const float *w)
{
    vec top = v_splat(0.0f), extreme = top;
    for (int i = 0; i < n; i++) {
        vec v = g->x[i] = v_gather(x + i, n);
        g->w[i] = w ? v_gather(w + i, n) : v * v;
        g->wx[i] = g->w[i] * v;
        ivec more = v_abs(v) > top;
        top = v_select(more, v_abs(v), top);
        extreme = v_select(more, v, extreme);
    }
    g->alive = top > 1e-15f;
    g->extreme = v_select(g->alive, extreme, v_splat(1.0f));
}

/* Tries the scale with which the extreme value has the level -top. The error is sum(w*x*x) -
 * lx*lx/l2, so the largest quotient is the best. The quotients are compared by
 * cross-multiplication. */
GG_INLINE void sym_try(sym_lanes *g, int n, int nmax, float top, bool first)
{
    const vec lo = v_splat((float)-nmax), hi = v_splat((float)(nmax - 1));
    vec inverse = -top / g->extreme, lx = v_splat(0.0f), l2 = lx;
    for (int i = 0; i < n; i++) {
        vec l = v_max(v_min(v_rint(inverse * g->x[i]), hi), lo);
        lx += g->wx[i] * l;
        l2 += (g->w[i] * l) * l;
    }
    ivec better = l2 > 0.0f;
    if (!first) better &= lx * lx > g->gain * l2;
    vec scale = v_select(l2 > 0.0f, lx / l2, v_splat(0.0f));
    g->scale = first ? scale : v_select(better, scale, g->scale);
    g->gain = first ? scale * lx : v_select(better, scale * lx, g->gain);
    g->inverse = first ? inverse : v_select(better, inverse, g->inverse);
}

static inline void sym_levels(int n, int nmax, const float *x, float inverse, uint8_t *L)
{
    float low = (float)-nmax, high = (float)(nmax - 1);
    for (int i = 0; i < n; i += 16)
        gg_store_bytes16(L + i, gg_level8(inverse * gg_load8(x + i), low, high) + nmax,
                         gg_level8(inverse * gg_load8(x + i + 8), low, high) + nmax);
}

void GG_K(gg_search_symmetric)(int groups, int n, int nmax, const float *x, const float *w,
                               uint8_t *L, float *scale)
{
    sym_lanes g;
    float room[2][LANES * MAX_N], inverse[LANES], found[LANES];
    for (int at = 0; at < groups; at += LANES) {
        const float *p = x + at * n, *q = w ? w + at * n : NULL;
        const int left = groups - at;
        sym_load(&g, n, all_lanes(p, left, n, room[0]), q ? all_lanes(q, left, n, room[1]) : q);
        /* The obvious scale, and others that differ by 1 to 9 tenths of a level. */
        sym_try(&g, n, nmax, (float)nmax, true);
        for (int i = -9; i <= 9; i++)
            if (i != 0) sym_try(&g, n, nmax, 0.1f * (float)i + (float)nmax, false);
        v_store(inverse, g.inverse);
        v_store(found, v_select(g.alive, g.scale, v_splat(0.0f)));
        for (int k = 0; k < LANES && k < left; k++, L += n) {
            scale[at + k] = found[k];
            if (g.alive[k]) sym_levels(n, nmax, p + k * n, inverse[k], L);
            else memset(L, 0, (size_t)n);
        }
    }
}

#endif

/* ---- affine -------------------------------------------------------------- */

/* Groups that are searched together, one per lane. */
typedef struct affine_lanes {
    int n;
    float nmax;
    vec x[MAX_N], w[MAX_N];
    vec max, min, sum_w, sum_x; /* min: the current offset */
    ivec alive;                 /* groups that have a range */
    /* the best candidate: the parameters of its levels, and its line */
    vec error, scale, inverse, level_min;
} affine_lanes;

static inline vec affine_level(vec shifted, vec inverse, float nmax)
{
    return v_max(v_min(v_rint(inverse * shifted), v_splat(nmax)), v_splat(0.0f));
}

static inline vec affine_part(vec diff, vec w, bool absolute)
{
    return w * (absolute ? v_abs(diff) : diff * diff);
}

/* Tries a candidate: `top` is nmax plus a multiple of the step. */
GG_INLINE void affine_try(affine_lanes *g, float top, bool absolute)
{
    vec level[MAX_N], inverse = top / (g->max - g->min);
    vec sum_l = v_splat(0.0f), sum_l2 = sum_l, sum_xl = sum_l;
    for (int i = 0; i < g->n; i++) {
        vec l = affine_level(g->x[i] - g->min, inverse, g->nmax), wl = g->w[i] * l;
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
    for (int i = 0; i < g->n; i++)
        error += affine_part((scale * level[i] + min) - g->x[i], g->w[i], absolute);
    ivec better = (error < g->error) & (det > 0.0f) & g->alive;
    g->error = v_select(better, error, g->error);
    g->scale = v_select(better, scale, g->scale);
    g->inverse = v_select(better, inverse, g->inverse);
    g->level_min = v_select(better, g->min, g->level_min);
    g->min = v_select(better, min, g->min);
}

/* Starts with the obvious scale, range / nmax, without least squares. Candidates must be better
 * than this. */
GG_INLINE void affine_start(affine_lanes *g, bool absolute)
{
    vec range = g->max - g->min;
    g->alive = range > GG_SEARCH_EPS;
    g->inverse = g->nmax / v_select(g->alive, range, v_splat(1.0f));
    g->scale = 1.0f / g->inverse;
    g->level_min = g->min;
    g->error = v_splat(0.0f);
    g->sum_w = g->w[0];
    g->sum_x = g->sum_w * g->x[0];
    for (int i = 0; i < g->n; i++) {
        vec l = affine_level(g->x[i] - g->min, g->inverse, g->nmax);
        g->error += affine_part((g->scale * l + g->min) - g->x[i], g->w[i], absolute);
        if (i == 0) continue;
        g->sum_w += g->w[i];
        g->sum_x += g->w[i] * g->x[i];
    }
}

/* The smallest and the largest value of a group. */
static inline void affine_bounds(const float *x, int n, float *min, float *max)
{
    gg_f32x8 top = gg_load8(x), low = top;
    for (int i = 8; i < n; i += 8) {
        top = gg_max8(top, gg_load8(x + i));
        low = gg_min8(low, gg_load8(x + i));
    }
    *min = -gg_top8(-low);
    *max = gg_top8(top);
    if (*min > 0.0f) *min = 0.0f;
}

static inline void affine_levels(const float *x, int n, float inverse, float min, float nmax,
                                 uint8_t *L)
{
    for (int i = 0; i < n; i += 16)
        gg_store_bytes16(L + i, gg_level8(inverse * (gg_load8(x + i) - min), 0.0f, nmax),
                         gg_level8(inverse * (gg_load8(x + i + 8) - min), 0.0f, nmax));
}

GG_INLINE void affine_search(affine_lanes *g, const gg_affine_plan *plan, bool absolute)
{
    affine_start(g, absolute);
    for (int i = 0; i <= plan->last; i++)
        affine_try(g, (plan->step * (float)i + plan->first) + g->nmax, absolute);
}

void GG_K(gg_search_affine)(int groups, int n, const gg_affine_plan *plan, const float *x,
                            const float *w, uint8_t *L, float *scale, float *min)
{
#if GG_LEVEL == 1
    if (groups > LANES && gg_isa() >= 2) {
        gg_search_affine_l2(groups, n, plan, x, w, L, scale, min);
        return;
    }
#endif
    affine_lanes g = { .n = n, .nmax = (float)plan->nmax };
    float room[2][LANES * MAX_N], low[LANES], high[LANES], inverse[LANES], found[LANES];
    for (int at = 0; at < groups; at += LANES) {
        const int left = groups - at;
        const float *p = all_lanes(x + at * n, left, n, room[0]),
                    *q = all_lanes(w + at * n, left, n, room[1]);
        for (int k = 0; k < LANES; k++) affine_bounds(p + k * n, n, low + k, high + k);
        g.min = v_load(low);
        g.max = v_load(high);
        for (int i = 0; i < n; i++) {
            g.x[i] = v_gather(p + i, n);
            g.w[i] = v_gather(q + i, n);
        }
        if (plan->absolute) affine_search(&g, plan, true);
        else affine_search(&g, plan, false);

        v_store(inverse, g.inverse);
        v_store(low, g.level_min);
        v_store(found, v_select(g.alive, g.scale, v_splat(0.0f)));
        for (int k = 0; k < LANES && k < left; k++, L += n) {
            affine_levels(p + k * n, n, inverse[k], low[k], g.nmax, L);
            scale[at + k] = found[k];
            min[at + k] = -g.min[k];
        }
    }
}

#if GG_LEVEL < 2
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
#endif

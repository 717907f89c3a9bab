/* k_mix.c - the loops of blends and LoRA adapters. */
#include "numeric/mix.h"

#include "numeric/nlanes.h"

void GG_K(gg_mix_two)(float *restrict a, const float *restrict b, double wa, double wb, size_t n)
{
    for (size_t i = 0; i < n; i++) a[i] = (float)(wa * a[i] + wb * b[i]);
}

void GG_K(gg_mix_difference)(float *a, const float *b, const float *c, double w, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) { /* all of c is read before a is written */
        gg_nk_f32x4 va[2], vb[2], vc[2];
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            NK_LOAD4(va[h], a + i + 4 * h);
            NK_LOAD4(vb[h], b + i + 4 * h);
            NK_LOAD4(vc[h], c + i + 4 * h);
            va[h] = NK_NARROW(NK_WIDE(va[h]) + w * (NK_WIDE(vb[h]) - NK_WIDE(vc[h])));
        }
        memcpy(a + i, va, sizeof va);
    }
    for (; i < n; i++) a[i] = (float)(a[i] + w * ((double)b[i] - c[i]));
}

void GG_K(gg_mix_products)(gg_products *s, const float *a, const float *b, size_t n)
{
    gg_nk_f64x4 aa, bb, ab;
    memcpy(&aa, s->aa, sizeof aa);
    memcpy(&bb, s->bb, sizeof bb);
    memcpy(&ab, s->ab, sizeof ab);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        gg_nk_f32x4 fa, fb;
        NK_LOAD4(fa, a + i);
        NK_LOAD4(fb, b + i);
        gg_nk_f64x4 va = NK_WIDE(fa), vb = NK_WIDE(fb);
        aa += va * va;
        bb += vb * vb;
        ab += va * vb;
    }
    memcpy(s->aa, &aa, sizeof aa);
    memcpy(s->bb, &bb, sizeof bb);
    memcpy(s->ab, &ab, sizeof ab);
    for (; i < n; i++) {
        s->aa[i & 3] += (double)a[i] * a[i];
        s->bb[i & 3] += (double)b[i] * b[i];
        s->ab[i & 3] += (double)a[i] * b[i];
    }
}

/* ---- low rank ---------------------------------------------------------------------- */

/* A tile of TILE_ROWS rows and TILE columns: its sums stay in registers. */
#if GG_LEVEL == 1
#define TILE_ROWS 4
typedef gg_f32x8 vec;
#else
#define TILE_ROWS 2
typedef gg_nk_f32x4 vec;
#endif
#define LANES (sizeof(vec) / sizeof(float))
#define TILE (2 * LANES)
#define COLUMNS ((size_t)256) /* of wide: for usual ranks they fit the first-level cache */

#define LOAD(to, from) memcpy(&(to), (from), sizeof(vec))
#define STORE(to, v) memcpy((to), &(v), sizeof(vec))

/* x[0..TILE) += scale (p, q) */
static inline void finish_row(float *x, float scale, const vec *p, const vec *q)
{
    vec a, b;
    LOAD(a, x);
    LOAD(b, x + LANES);
    a += scale * *p;
    b += scale * *q;
    STORE(x, a);
    STORE(x + LANES, b);
}

/* Changes one row of a tile. */
static void add_row(const gg_low_rank *l, float *x, const float *tall, const float *wide)
{
    vec p = { 0 }, q = { 0 };
    for (size_t k = 0; k < l->r; k++, wide += l->stride) {
        vec v, w;
        LOAD(v, wide);
        LOAD(w, wide + LANES);
        p += tall[k] * v;
        q += tall[k] * w;
    }
    finish_row(x, l->scale, &p, &q);
}

/* Changes TILE_ROWS rows of a tile. The sums have names because compilers keep an array of them
 * in memory. */
static void add_tile(const gg_low_rank *l, float *x, const float *tall, const float *wide)
{
    const float *t0 = tall, *t1 = t0 + l->r;
    vec p0 = { 0 }, q0 = p0, p1 = p0, q1 = p0;
#if TILE_ROWS == 4
    const float *t2 = t1 + l->r, *t3 = t2 + l->r;
    vec p2 = p0, q2 = p0, p3 = p0, q3 = p0;
#endif
    for (size_t k = 0; k < l->r; k++, wide += l->stride) {
        vec v, w;
        LOAD(v, wide);
        LOAD(w, wide + LANES);
        p0 += t0[k] * v, q0 += t0[k] * w;
        p1 += t1[k] * v, q1 += t1[k] * w;
#if TILE_ROWS == 4
        p2 += t2[k] * v, q2 += t2[k] * w;
        p3 += t3[k] * v, q3 += t3[k] * w;
#endif
    }
    finish_row(x, l->scale, &p0, &q0);
    finish_row(x + l->stride, l->scale, &p1, &q1);
#if TILE_ROWS == 4
    finish_row(x + 2 * l->stride, l->scale, &p2, &q2);
    finish_row(x + 3 * l->stride, l->scale, &p3, &q3);
#endif
}

/* The last columns, fewer than a tile. */
static void add_rest(const gg_low_rank *l, float *x, const float *tall, const float *wide, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float sum = 0;
        for (size_t k = 0; k < l->r; k++) sum += tall[k] * wide[k * l->stride + i];
        x[i] += l->scale * sum;
    }
}

/* Up to COLUMNS columns of all rows. */
static void add_columns(const gg_low_rank *l, float *x, const float *tall, size_t rows,
                        const float *wide, size_t n)
{
    size_t whole = n / TILE * TILE, o = 0;
    for (; o + TILE_ROWS <= rows; o += TILE_ROWS)
        for (size_t i = 0; i < whole; i += TILE)
            add_tile(l, x + o * l->stride + i, tall + o * l->r, wide + i);
    for (; o < rows; o++)
        for (size_t i = 0; i < whole; i += TILE)
            add_row(l, x + o * l->stride + i, tall + o * l->r, wide + i);
    for (o = 0; o < rows && whole < n; o++)
        add_rest(l, x + o * l->stride + whole, tall + o * l->r, wide + whole, n - whole);
}

void GG_K(gg_mix_low_rank)(const gg_low_rank *l, float *x, const float *tall, size_t rows, size_t n)
{
    for (size_t i = 0; i < n; i += COLUMNS)
        add_columns(l, x + i, tall, rows, l->wide + i, n - i < COLUMNS ? n - i : COLUMNS);
}

/* ---- counts ------------------------------------------------------------------------- */

#define GROUPS 4

/* The bits of magnitudes sort like the magnitudes. */
size_t GG_K(gg_mix_beyond)(const float *x, size_t n, float limit)
{
    const int32_t most = (int32_t)gg_float_bits(limit) - 1;
    const gg_i32x8 most8 = { most, most, most, most, most, most, most, most };
    size_t total = 0, i = 0;
    while (n - i >= 8 * GROUPS) {
        gg_i32x8 beyond[GROUPS] = { { 0 } };
        size_t end = n - i < 1u << 20 ? n : i + (1u << 20);
        for (; i + 8 * GROUPS <= end; i += 8 * GROUPS)
#pragma GCC unroll 4
            for (size_t g = 0; g < GROUPS; g++) {
                gg_i32x8 v;
                memcpy(&v, x + i + 8 * g, sizeof v);
                beyond[g] -= NK_COMPARE8(i, v & 0x7fffffff, >, most8);
            }
        for (size_t g = 0; g < GROUPS; g++)
            for (size_t l = 0; l < 8; l++) total += (size_t)beyond[g][l];
    }
    for (; i < n; i++) total += (int32_t)(gg_float_bits(x[i]) & 0x7fffffff) > most;
    return total;
}

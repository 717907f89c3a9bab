/* k_blend.c - the loops of blends and folded adapters. */
#include "graft/mix_values.h"
#include "numeric/nlanes.h"

void GG_K(gg_mix_two)(float *restrict a, const float *restrict b, double wa, double wb, size_t n)
{
    for (size_t i = 0; i < n; i++) a[i] = (float)(wa * a[i] + wb * b[i]);
}

void GG_K(gg_mix_difference)(float *a, const float *b, const float *c, double w, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) { /* all of c is read before a is written */
        gg_nk_f32x4 v[2];
        GG_UNROLL(2)
        for (size_t h = 0, at = i; h < 2; h++, at += 4)
            v[h] = NK_NARROW(NK_WIDE_AT(a + at) + w * (NK_WIDE_AT(b + at) - NK_WIDE_AT(c + at)));
        memcpy(a + i, v, sizeof v);
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
        gg_nk_f64x4 va = NK_WIDE_AT(a + i), vb = NK_WIDE_AT(b + i);
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
enum { TILE_ROWS = 4, LANES = 8 };
#else
enum { TILE_ROWS = 2, LANES = 4 };
#endif
enum { TILE = 2 * LANES };
typedef float vec __attribute__((vector_size(LANES * 4), aligned(4), __may_alias__));
#define COLUMNS ((size_t)256) /* of wide: for usual ranks they fit the first-level cache */

/* Changes `rows` rows of a tile. Inlined for TILE_ROWS and for 1. */
__attribute__((always_inline)) static inline void add_tile(const gg_low_rank *l, float *x,
                                                           const float *tall, const float *wide,
                                                           const size_t rows)
{
    vec sum[TILE_ROWS][2] = { { { 0 } } };
    for (size_t k = 0; k < l->r; k++, wide += l->stride) {
        const vec v = *(const vec *)wide, w = *(const vec *)(wide + LANES);
        GG_UNROLL(4)
        for (size_t o = 0; o < rows; o++) {
            sum[o][0] += tall[o * l->r + k] * v;
            sum[o][1] += tall[o * l->r + k] * w;
        }
    }
    GG_UNROLL(4)
    for (size_t o = 0; o < rows; o++, x += l->stride) {
        *(vec *)x += l->scale * sum[o][0];
        *(vec *)(x + LANES) += l->scale * sum[o][1];
    }
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
            add_tile(l, x + o * l->stride + i, tall + o * l->r, wide + i, TILE_ROWS);
    for (; o < rows; o++)
        for (size_t i = 0; i < whole; i += TILE)
            add_tile(l, x + o * l->stride + i, tall + o * l->r, wide + i, 1);
    for (o = 0; o < rows && whole < n; o++)
        add_rest(l, x + o * l->stride + whole, tall + o * l->r, wide + whole, n - whole);
}

void GG_K(gg_mix_low_rank)(const gg_low_rank *l, float *x, const float *tall, size_t rows, size_t n)
{
    for (size_t i = 0; i < n; i += COLUMNS)
        add_columns(l, x + i, tall, rows, l->wide + i, n - i < COLUMNS ? n - i : COLUMNS);
}

/* gridfit.h - the search shared by the encoders of IQ2_* and IQ3_*. Internal.
 *
 * These types store y = d * (2s + 1) * g * sign. d is one F16 per block of 256, s has four bits per
 * run of 16 or 32 values, and g is a grid point for each 8 (IQ2) or 4 (IQ3) values. The encoder
 * makes three nested choices, from the inside out:
 *
 *   point   With the scale of the run fixed, round |x| / scale to the lattice, and compare the
 *           grid points that iq_grid.h lists for it by weighted squared error. The error is a
 *           sum over elements, so it is tabulated once per element (or pair of elements) and
 *           level. A candidate then takes four loads and three additions. The weights here are
 *           the square roots of the usual ones: an importance matrix may span a factor of 1000,
 *           and with few points to choose from, heavy values would let the light values of
 *           their group take any error.
 *   scale   The error as a function of the scale is not smooth, because points jump. So try
 *           several scales, compute the least squares scale for the points of each, and keep
 *           the best.
 *   d, s    d follows from the run with the largest scale. The points are then chosen again
 *           with the rounded scale d (2s + 1), and d is set again for all points.
 *           Rounding s to 4 bits changes the scale by up to a few percent, and this recovers
 *           most of the loss.
 *
 * The last d does not minimize the squared error. A fit that does makes the values smaller, by 1 %
 * in IQ3_S and by 13 % in IQ1_M. Such an error has the direction of the matrix itself, so it adds
 * up in products, and costs the model more than a larger error without a direction. Therefore the
 * stored d keeps the weighted norm of the block: sum w y^2 = sum w x^2. The squared error is then
 * larger by 1 % (IQ3_S) to 9 % (IQ1_S), and still below that of ggml.
 *
 * x and the weights are divided by the largest of the block, rounded to a power of two, so that
 * sums neither overflow nor underflow.
 */
#pragma once

#include "grid.h"

/* All members are compile-time constants after inlining. */
typedef struct fit_spec {
    gg_iq_grid grid;
    const uint64_t *points8; /* NULL: points4 is used */
    const uint32_t *points4;
    float level[8];          /* value of each level in units of d * (2s + 1) */
    float unit;              /* a grid entry g has the value g * unit + shift */
    float shift;             /* in the same units */
    float a, b, top;         /* the level nearest to v is a v + b, rounded, 0..top */
    int octets;              /* groups of 8 values per scale: 2 or 4 */
    bool parity;             /* only sign bytes with an even number of set bits can be stored */
    float first, step, last; /* scales to try: max / first .. max / last */
} fit_spec;

/* Eight values: magnitudes, weights and their square roots, signs, and the chosen points (index[1]
 * is used only with four-value points). A magnitude is negative if parity changed its sign. */
typedef struct octet {
    float x[8], w[8], root[8];
    uint16_t index[2];
    uint8_t sign;
} octet;

/* Factors for the values and weights of a block, and twice the mean x^2 after scaling. */
typedef struct fit_block_norms {
    float x, w, sigma2;
} fit_block_norms;

GG_INLINE fit_block_norms block_norms(const float *x, const float *imatrix)
{
    const float amax = gg_largest(x, 256), norm = amax < GG_GRID_TINY ? 0.0f : gg_norm(amax);
    return (fit_block_norms){ norm, imatrix ? gg_norm(gg_largest(imatrix, 256)) : 1.0f,
                              2.0f * gg_mean_square(x, 256, norm) };
}

/* Loads values with their signs; the weights are those of iq4.c. */
GG_INLINE void load_signed(octet *o, const float *x, const float *imatrix, const fit_block_norms *n)
{
    const gg_f32x8 v = gg_load8(x) * gg_splat8(n->x);
    gg_f32x8 w = gg_sqrt8(v * v + gg_splat8(n->sigma2));
    if (imatrix) w *= gg_weights8(imatrix, n->w);
    gg_store8(o->x, v);
    gg_store8(o->w, w);
    gg_store8(o->root, gg_sqrt8(w));
}

GG_INLINE void load_octet(octet *o, const float *x, const float *imatrix, const fit_block_norms *n,
                          bool parity)
{
    load_signed(o, x, imatrix, n);
    gg_store8(o->x, gg_abs8(gg_load8(o->x)));
    o->sign = 0;
    for (int i = 0; i < 8; i++) o->sign = (uint8_t)(o->sign | (gg_float_bits(x[i]) >> 31) << i);
    if (!parity || !__builtin_parity(o->sign)) return;
    /* One sign must be flipped: that of the value with the smallest error. */
    int cheap = 0;
    for (int i = 1; i < 8; i++)
        if (o->w[i] * o->x[i] * o->x[i] < o->w[cheap] * o->x[cheap] * o->x[cheap]) cheap = i;
    o->x[cheap] = -o->x[cheap];
    o->sign = (uint8_t)(o->sign ^ 1u << cheap);
}

/* The nearest levels 0..top, as floats. */
GG_INLINE gg_f32x8 lattice(const fit_spec *s, gg_f32x8 v)
{
    const gg_f32x8 r = gg_min8(gg_max8(v * gg_splat8(s->a) + gg_splat8(s->b), gg_splat8(0.0f)),
                               gg_splat8(s->top));
    return (r + gg_splat8(12582912.0f)) - gg_splat8(12582912.0f);
}

/* Tabulates the errors of levels 0, 1, 2 for pairs of elements; the index is the nibble
 * (level of the second << 2 | level of the first). */
GG_INLINE void pair_errors(const fit_spec *s, const octet *o, float scale, float (*error)[16])
{
    const gg_f32x8 k = gg_splat8(scale);
    const float g0 = s->level[0], g1 = s->level[1], g2 = s->level[2];
    const gg_f32x8 even = k * (gg_f32x8){ g0, g1, g2, g2, g0, g1, g2, g2 };
    const gg_f32x8 low = k * (gg_f32x8){ g0, g0, g0, g0, g1, g1, g1, g1 }, high = k * gg_splat8(g2);
    for (int p = 0; p < 4; p++) {
        const gg_f32x8 x0 = gg_splat8(o->x[2 * p]), x1 = gg_splat8(o->x[2 * p + 1]);
        const gg_f32x8 w0 = gg_splat8(o->root[2 * p]), w1 = gg_splat8(o->root[2 * p + 1]);
        const gg_f32x8 e = w0 * ((even - x0) * (even - x0));
        gg_store8(error[p], e + w1 * ((low - x1) * (low - x1)));
        gg_store8(error[p] + 8, e + w1 * ((high - x1) * (high - x1)));
    }
}

/* The same for eight levels of each of four elements. */
GG_INLINE void level_errors(const fit_spec *s, const float *x, const float *w, float scale,
                            float (*error)[16])
{
    const gg_f32x8 g = gg_splat8(scale) * gg_load8(s->level);
    for (int i = 0; i < 4; i++) {
        const gg_f32x8 e = g - gg_splat8(x[i]);
        gg_store8(error[i], gg_splat8(w[i]) * (e * e));
    }
}

/* The best point of a list of n >= 1 candidates. */
GG_INLINE uint16_t best_point(const uint32_t *list, uint32_t n, float (*error)[16])
{
    uint32_t best = list[0];
    float least = HUGE_VALF;
    for (uint32_t j = 0; j < n; j++) {
        const uint32_t c = list[j];
        const float e = (error[0][c & 15] + error[1][c >> 4 & 15]) +
                        (error[2][c >> 8 & 15] + error[3][c >> 12 & 15]);
        if (e < least) {
            least = e;
            best = c;
        }
    }
    return (uint16_t)(best >> 16);
}

/* Chooses the points of an octet at a scale and returns their values in units of d (2s + 1). */
GG_INLINE gg_f32x8 choose(const fit_spec *s, const gg_iq_map *map, octet *o, float scale,
                          float inverse)
{
    const gg_f32x8 v = lattice(s, gg_load8(o->x) * gg_splat8(inverse));
    float error[4][16];
    if (s->points8) {
        const gg_f32x8 place = { 1.0f, 4.0f, 16.0f, 64.0f, 256.0f, 1024.0f, 4096.0f, 16384.0f };
        const uint32_t *list = map->list + map->cell[(int)gg_sum8(v * place)];
        const uint32_t n = *list++;
        o->index[0] = (uint16_t)(*list >> 16);
        if (n > 1) {
            pair_errors(s, o, scale, error);
            o->index[0] = best_point(list, n, error);
        }
        return gg_grid8(s->points8[o->index[0]]) * gg_splat8(s->unit) + gg_splat8(s->shift);
    }
    const gg_f32x8 place = { 1.0f, 16.0f, 256.0f, 4096.0f, 1.0f, 16.0f, 256.0f, 4096.0f };
    const gg_f32x8 code = v * place;
    for (int h = 0; h < 2; h++) {
        const int at = (int)((code[4 * h] + code[4 * h + 1]) + (code[4 * h + 2] + code[4 * h + 3]));
        const uint32_t *list = map->list + map->cell[at];
        const uint32_t n = *list++;
        o->index[h] = (uint16_t)(*list >> 16);
        if (n > 1) {
            level_errors(s, o->x + 4 * h, o->root + 4 * h, scale, error);
            o->index[h] = best_point(list, n, error);
        }
    }
    return gg_grid8(s->points4[o->index[0]] | (uint64_t)s->points4[o->index[1]] << 32) *
               gg_splat8(s->unit) +
           gg_splat8(s->shift);
}

/* Sums of the least squares problem: the best scale is xq / qq and reduces the error by
 * xq^2 / qq. */
typedef struct fit_sums {
    gg_f32x8 xq, qq;
} fit_sums;

GG_INLINE void add_octet(fit_sums *t, const octet *o, gg_f32x8 q)
{
    const gg_f32x8 wq = gg_load8(o->w) * q;
    t->xq += wq * gg_load8(o->x);
    t->qq += wq * q;
}

/* sum w x^2 of an octet, in lanes. */
GG_INLINE gg_f32x8 octet_norm(const octet *o)
{
    return gg_load8(o->w) * gg_load8(o->x) * gg_load8(o->x);
}

/* Finds the scale of a run; 0 if all values are zero. */
GG_INLINE float fit_run(const fit_spec *s, const gg_iq_map *map, octet *o)
{
    float max = 0.0f, scale = 0.0f, best = 0.0f;
    for (int k = 0; k < s->octets; k++) {
        const float m = gg_top8(gg_load8(o[k].x));
        max = m > max ? m : max;
    }
    if (max < GG_GRID_TINY) return 0.0f;
    const int tries = (int)((s->last - s->first) / s->step + 1.5f);
    for (int t = 0; t <= tries; t++) {
        /* The last try starts from the best scale so far, which is one step of descent. */
        const float id = t < tries ? (s->first + s->step * (float)t) / max : 1.0f / scale;
        if (t == tries && scale == 0.0f) break;
        fit_sums sum = { { 0 }, { 0 } };
        for (int k = 0; k < s->octets; k++)
            add_octet(&sum, &o[k], choose(s, map, &o[k], 1.0f / id, id));
        const float xq = gg_sum8(sum.xq), qq = gg_sum8(sum.qq);
        if (xq > 0.0f && qq > 0.0f && xq * xq > best * qq) {
            scale = xq / qq;
            best = scale * xq;
        }
    }
    return scale;
}

/* Stores d of a block whose largest run scale is `top`, so that this run gets the largest 2s + 1.
 * If d would be too small for F16, the smallest F16 is used, with a smaller s. */
GG_INLINE float first_d(uint8_t *p, float top, float largest_multiple)
{
    const float least = 0x1p-24f;
    const float d = top / largest_multiple;
    return gg_settle_scale(p, d < least && top >= least ? least : d);
}

/* The result for a block: its octets, and the scale of each run. */
typedef struct fitted {
    octet o[32];
    uint8_t scale[16];
} fitted;

/* Fits one block: fills *f and stores d at p. One instance per file: copies for each type would be
 * three times as large and hardly faster. */
__attribute__((noinline, unused)) static void fit_block(const fit_spec *s, const gg_iq_map *map,
                                                        const float *x, const float *imatrix,
                                                        fitted *f, uint8_t *p)
{
    octet *o = f->o;
    /* not 0: a constant of each type */
    const int runs = 32 / s->octets;
    const fit_block_norms n = block_norms(x, imatrix);
    float scale[16], top = 0.0f;
    gg_f32x8 xx = { 0 };
    for (int k = 0; k < 32; k++) {
        load_octet(&o[k], x + 8 * k, imatrix ? imatrix + 8 * k : NULL, &n, s->parity);
        xx += octet_norm(&o[k]);
    }
    for (int r = 0; r < runs; r++) {
        scale[r] = fit_run(s, map, o + r * s->octets);
        top = scale[r] > top ? scale[r] : top;
    }
    const float d = first_d(p, top > 0.0f ? top / n.x : 0.0f, 31.0f) * n.x,
                id = d > 0.0f ? 1.0f / d : 0.0f;
    gg_f32x8 yy = { 0 };
    for (int r = 0; r < runs; r++) {
        float l = 0.5f * (id * scale[r] - 1.0f);
        l = l < 0.0f ? 0.0f : l > 15.0f ? 15.0f : l;
        f->scale[r] = (uint8_t)gg_round1(l);
        const float m = (float)(2 * f->scale[r] + 1), full = d * m;
        for (int k = r * s->octets; k < (r + 1) * s->octets; k++) {
            const gg_f32x8 y = choose(s, map, &o[k], full, full > 0.0f ? 1.0f / full : 0.0f) *
                               gg_splat8(m);
            yy += gg_load8(o[k].w) * y * y;
        }
    }
    const float square = gg_sum8(xx) / gg_sum8(yy);
    if (d > 0.0f && square > 0.0f) gg_store_scale(p, __builtin_sqrtf(square) / n.x);
}

/* Defines an encoder that fits blocks and packs their octets and scales. */
#define GG_ENCODES_FITTED(name, bytes, spec, pack) \
    static void name(const float *x, uint8_t *b, size_t nblocks, const float *imatrix) \
    { \
        const gg_iq_map map = gg_iq_map_get((spec).grid); \
        fitted f; \
        for (size_t i = 0; i < nblocks; i++, x += 256, b += (bytes)) { \
            fit_block(&(spec), &map, x, imatrix ? imatrix + 256 * i : NULL, &f, b); \
            pack(f.o, f.scale, b); \
        } \
    }
